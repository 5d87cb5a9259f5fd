"""What stands behind /admin, without a server: which door does what, who is let in, how a worker is shown."""

from collections.abc import Callable
from typing import Any

import pytest
from multidict import CIMultiDict

from proxy.admin import admit, loopback_host, shown
from proxy.auth import Tenant
from proxy.call import Call
from proxy.errors import Forbidden
from proxy.routing.gauges import Gauges
from proxy.routing.workers import WorkerPool


def call(trusted: bool = True, **headers: str) -> Call:
    named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    tenant = Tenant("t", trusted)
    return Call("GET", "/admin/workers", "/admin/workers", named, (), {}, b"", tenant, "r")


@pytest.mark.parametrize("host", [None, "127.0.0.1:8080", "localhost", "LOCALHOST:8080", "[::1]:8080", "127.1.2.3"])
def test_somebody_on_this_machine_may_look_inside(host: str | None) -> None:
    admit(call(**({"Host": host} if host else {})), tokenless=True)
    assert loopback_host({"Host": host} if host else {})


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8080", "[::2]", "a]b", "127.x"])
def test_a_page_whose_own_name_points_here_may_not(host: str) -> None:
    """DESIGN 8: DNS rebinding; such a page sends no Origin with a GET."""
    with pytest.raises(Forbidden, match=r"127\.0\.0\.1"):
        admit(call(Host=host), tokenless=True)
    admit(call(Host=host), tokenless=False)  # who has shown a key may come by any name


@pytest.mark.parametrize("header", ["Origin", "Forwarded", "X_Forwarded_For"])
@pytest.mark.parametrize("tokenless", [True, False])
def test_no_page_and_nobody_behind_another_proxy(header: str, tokenless: bool) -> None:
    with pytest.raises(Forbidden, match="direct callers"):
        admit(call(**{header: "x"}), tokenless=tokenless)


def test_who_is_not_trusted_sees_nothing() -> None:
    with pytest.raises(Forbidden, match="trusted_tenants"):
        admit(call(trusted=False), tokenless=False)


def worker_of(change: Callable[[WorkerPool, Any], None] = lambda pool, worker: None) -> dict[str, Any]:
    pool = WorkerPool(["http://a:1"], clock=lambda: 1000.0)
    (worker,) = pool
    pool.answered(worker, {"m": {"id": "m"}, "french": {"id": "french", "parent": "m"}})
    change(pool, worker)
    return shown(worker, pool)


def test_a_worker_is_shown_with_all_that_an_operator_asks() -> None:
    assert worker_of(lambda pool, worker: pool.measured(worker, Gauges(990.0, 2, 3, 0.5, 100, 40, 16, 10))) == {
        "name": "a:1", "url": "http://a:1", "state": "up", "why": None, "trouble": None, "generation": 0,
        "on_trial": False, "in_flight": 0, "placed": 0.0, "failures": 0, "busy_s": 0.0, "draining_s": None,
        "drained": False, "models": [{"id": "french", "parent": "m"}, {"id": "m", "parent": None}],
        "gauges": {"age_s": 10.0, "running": 2, "waiting": 3, "kv_usage": 0.5, "kv_tokens": 160,
                   "prefix_queries": 100, "prefix_hits": 40},
    }  # fmt: skip


def test_a_worker_that_is_down_says_why() -> None:
    told = worker_of(lambda pool, worker: pool.unreachable(worker, "refused"))
    assert (told["state"], told["why"], told["trouble"]) == ("down", "connect", "refused")


def test_a_worker_that_drains_says_since_when_and_whether_it_is_done() -> None:
    told = worker_of(lambda pool, worker: pool.drain(worker, 60.0))
    assert (told["state"], told["draining_s"], told["drained"]) == ("draining", 0.0, False)
    assert worker_of(lambda pool, worker: pool.drain(worker))["drained"] is True


def test_a_busy_worker_says_for_how_long() -> None:
    assert worker_of(lambda pool, worker: pool.busy(worker, 7.0))["busy_s"] == 7.0
