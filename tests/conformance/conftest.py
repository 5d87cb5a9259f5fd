"""Conformance of a router: the complaints that users of other routers have filed, as tests against any router's URL.

    pytest tests/conformance                                       our own proxy, as `rejoinder serve` runs it
    pytest tests/conformance --router-command "my-router --port {port} --backends {workers}"
    pytest tests/conformance --router-url http://127.0.0.1:8080 --worker-urls "http://127.0.0.1:9001,…"

With --router-command the suite starts eight simulated workers, then the router, and a new one after each test that
may have left it bruised (ours must recover by itself). With --router-url the router stands already, in front of workers
that `python -m deploy.simulator --workers 8 --port 9001 --plain` started; it is given time to recover instead.

    --router-timeout-s S          after how long the router was told to give up a silent worker (row 19)
    --router-metrics-url URL      where it tells Prometheus metrics, if not at /metrics (row 49)
    --conformance-json FILE       row → passed, failed or skipped, with messages and figures

A test's name says its row, such as `test_row_24_…`; the rows and their sources are told in docs/conformance.md. Rows
about the inside of a router, which no client can see, are tested where `test_rows.py` says.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from conformance import Premises, Site, Worker, until

_ROW = re.compile(r"test_row_(\d+)")
_OPTIONS = {
    "--router-url": "of a router that stands already in front of --worker-urls",
    "--worker-urls": "its simulated workers, with commas between",
    "--router-command": "starts a router; {workers}, {port}, {metrics_port}, {state} (a folder) are filled in",
    "--router-timeout-s": "after which it gives up a silent worker, in seconds",
    "--router-metrics-url": "where it tells Prometheus metrics; may have {metrics_port} in it",
    "--conformance-json": "file for the results, by row",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    for name, meaning in _OPTIONS.items():
        group.addoption(name, default=None, help=meaning)


def option(config: pytest.Config, name: str) -> str | None:
    """None where the options came too late, because the whole of tests/ is run."""
    value = config.getoption(name, None)
    return str(value) if value is not None else None


@pytest.fixture(scope="session")
def premises(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Premises]:
    config = request.config
    urls = (option(config, "--worker-urls") or "").replace(",", " ").split()
    url = option(config, "--router-url")
    if url is not None and not urls:
        raise pytest.UsageError("--router-url needs --worker-urls: which simulated workers stand behind it?")
    with Premises(
        tmp_path_factory.mktemp("conformance"), url=url and url.rstrip("/"),
        worker_urls=[one.rstrip("/") for one in urls], command=option(config, "--router-command"),
        timeout_s=float(option(config, "--router-timeout-s") or "inf"),
        metrics_url=option(config, "--router-metrics-url"),
    ) as opened:  # fmt: skip
        yield opened


@pytest.fixture
async def site(premises: Premises) -> AsyncIterator[Site]:
    """A router that is well, in front of workers that are well and were asked nothing yet."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None), read_bufsize=65_536,
    ) as http:  # fmt: skip
        workers = [Worker(url, http) for url in premises.worker_urls]
        found = Site(premises.router(), workers, http, premises.timeout_s)
        try:
            await found.heal()
        except BaseException:
            premises.worn_out()
            raise
        yield found
        for worker in workers:
            await until(worker.listens, 20)
        await found.fault()


@pytest.fixture
async def bruised(premises: Premises, site: Site) -> AsyncIterator[Site]:
    """The same, for tests after which it may not be well."""
    yield site
    premises.worn_out()


# -- the result, for machines ------------------------------------------------------------------------------------------

_RESULTS = pytest.StashKey[dict[str, dict[str, Any]]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report: pytest.TestReport = yield
    found = _ROW.search(item.name)
    if found is None or (report.when != "call" and report.passed) or "conformance" not in item.path.parts:
        return report
    rows = item.config.stash.setdefault(_RESULTS, {})
    row = rows.setdefault(found[1].lstrip("0"), {"outcome": "passed", "tests": {}})
    message = ""
    if report.failed and (crash := getattr(report.longrepr, "reprcrash", None)) is not None:
        message = crash.message
    elif report.skipped and isinstance(report.longrepr, tuple):
        message = report.longrepr[2]
    row["tests"][item.name] = {
        "outcome": report.outcome, "message": message[:1000], "figures": dict(report.user_properties),
    }  # fmt: skip
    outcomes = {one["outcome"] for one in row["tests"].values()}
    row["outcome"] = "failed" if "failed" in outcomes else "passed" if "passed" in outcomes else "skipped"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = option(session.config, "--conformance-json")
    if path is None:
        return
    rows = session.config.stash.get(_RESULTS, {})
    told = {
        "router": option(session.config, "--router-command") or option(session.config, "--router-url") or "rejoinder",
        "rows": dict(sorted(rows.items(), key=lambda each: int(each[0]))),
    }
    Path(path).write_text(json.dumps(told, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
