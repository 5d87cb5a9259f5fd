"""The table finds its doors, and refuses what does not fit them."""

import pytest
from multidict import CIMultiDict

from proxy.admin.routes import Order, Person, Route, Routes, Told, order
from proxy.auth import Role, Tenant
from proxy.call import Call
from proxy.errors import BadRequest, NotFound

SOMEBODY = Person("ann", Role.READ, Tenant("t", True))


async def deed(_: Order) -> Told:
    return {}


def route(method: str, path: str, **more: object) -> Route:
    return Route(method, path, Role.READ, "Do", deed, **more)  # type: ignore[arg-type]


ENTRY = route("DELETE", "/admin/entries/{entry}")
WORKER = route("POST", "/admin/workers/{name+}/drain")
TABLE = Routes([route("GET", "/admin/workers"), ENTRY, WORKER, route("DELETE", "/admin/workers/{name+}")])


def call(target: str = "/x", body: bytes = b"") -> Call:
    return Call("POST", target, target, CIMultiDict(), (), {}, body, SOMEBODY.tenant, "r")


def test_a_route_is_found_with_what_stands_in_its_path() -> None:
    assert TABLE.find("DELETE", "/admin/entries/ab") == (ENTRY, {"entry": "ab"})
    assert TABLE.find("POST", "/admin/workers/http://a:1/drain") == (WORKER, {"name": "http://a:1"})


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/admin/workers"), ("DELETE", "/admin/entries/a/b"), ("DELETE", "/admin/entries/"),
     ("POST", "/admin/workers//drain"), ("GET", "/admin/workersx"), ("DELETE", "/admin/workers/")],
)  # fmt: skip
def test_what_is_not_in_the_table_is_not_here(method: str, path: str) -> None:
    with pytest.raises(NotFound):
        TABLE.find(method, path)


def test_two_routes_for_one_door_are_an_error_of_ours() -> None:
    with pytest.raises(ValueError, match="two routes"):
        Routes([route("GET", "/admin/x"), route("GET", "/admin/x")])


def test_an_entry_is_named_by_sixteen_digits() -> None:
    assert order(ENTRY, call(), SOMEBODY, {"entry": "7" + "f" * 15}).entry_id == (1 << 63) - 1
    for name in ("8" + "0" * 15, "0" * 15, "0" * 17, "G" * 16, "é" * 16):
        with pytest.raises(BadRequest, match="16 hexadecimal"):
            order(ENTRY, call(), SOMEBODY, {"entry": name})


def test_a_body_is_read_where_one_is_wanted() -> None:
    wanted = {"type": "object", "required": ["a"]}
    must, may = route("POST", "/admin/x", body=wanted), route("POST", "/admin/x", body=wanted, optional=True)
    assert order(must, call(body=b'{"a": 1}'), SOMEBODY, {}).body == {"a": 1}
    assert order(may, call(body=b" "), SOMEBODY, {}).body == {}
    for body in (b"", b"[]", b"{}", b"nonsense"):
        with pytest.raises(BadRequest):
            order(must, call(body=body), SOMEBODY, {})


def test_whatever_is_no_look_is_audited_unless_it_changes_nothing() -> None:
    assert [route(method, "/admin/x").audited for method in ("GET", "POST", "DELETE")] == [False, True, True]
    assert not route("POST", "/admin/x", changes=False).audited
