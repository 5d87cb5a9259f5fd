"""How a worker is shown to an operator."""

from collections.abc import Callable
from typing import Any

from proxy.admin.workers import shown
from proxy.routing.gauges import Gauges
from proxy.routing.workers import WorkerPool


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
