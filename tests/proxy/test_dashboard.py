"""The files of the dashboard: whole, ours, and under a policy that lets nothing else in."""

import re
from pathlib import Path

import pytest
from house import OpenHouse, open_house

from proxy import dashboard

FILES = dashboard.load()


def test_every_file_that_another_one_names_is_there() -> None:
    assert {"index.html", "style.css", "app.js", "icon.svg"} <= set(FILES)
    for name, asset in FILES.items():
        text = asset.body.decode()
        folder = name.rpartition("/")[0]
        for named in re.findall(r'(?:from|src=|href=) ?"((?:\.{1,2}/)?[\w./-]+\.(?:js|css|svg))"', text):
            parts: list[str] = []
            for part in f"{folder}/{named}".split("/"):
                parts = parts[:-1] if part == ".." else [*parts, part] if part not in ("", ".") else parts
            assert "/".join(parts) in FILES, f"{name} names {named}"


@pytest.mark.parametrize("name", FILES)
def test_nothing_comes_from_elsewhere_and_no_text_becomes_html(name: str) -> None:
    text = FILES[name].body.decode()
    addresses = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z0-9]+", text))
    assert addresses <= {"http://www.w3.org", "http://10.0.0.7"}, "a namespace and an example; nothing that is asked"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser", text)
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=\"", text), "inline"


def test_the_policy_lets_in_nothing_but_our_own_files() -> None:
    headers = dict(FILES["index.html"].headers())
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Content-Type"].startswith("text/html")


@pytest.fixture
def house(tmp_path: Path) -> OpenHouse:
    return lambda *given, **settings: open_house(tmp_path, *given, **settings)


async def test_the_page_is_told_to_anybody_once_and_never_passed_on(house: OpenHouse) -> None:
    async with house(1, api_keys={"key-a": "acme"}) as h:
        moved = await h.send("GET", "/dashboard", allow_redirects=False)
        assert (moved.status, moved.headers["Location"]) == (308, "/dashboard/")
        page = await h.send("GET", "/dashboard/")
        assert page.status == 200 and page.body == FILES["index.html"].body
        again = await h.send("GET", "/dashboard/", headers={"If-None-Match": page.headers["ETag"]})
        assert (again.status, again.body) == (304, b"")
        assert (await h.send("HEAD", "/dashboard/app.js")).status == 200
        elsewhere = (("GET", "none.js"), ("GET", "../admin/stats"), ("POST", ""), ("GET", "%2e%2e/__init__.py"))
        for method, path in elsewhere:
            assert (await h.send(method, f"/dashboard/{path}")).status in (401, 404), path
        assert h.calls == 0


async def test_it_can_be_switched_off(house: OpenHouse) -> None:
    async with house(dashboard=False) as h:
        for path in ("/dashboard", "/dashboard/", "/dashboard/app.js"):
            assert (await h.send("GET", path)).status == 404
