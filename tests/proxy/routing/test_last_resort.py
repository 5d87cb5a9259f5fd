"""Nobody is up: who is asked all the same, and what is said when nobody may be."""

import pytest

from proxy.errors import ModelNotFound, NoWorker
from proxy.routing.choice import Choice, Kind
from proxy.routing.last_resort import last_resort
from proxy.routing.workers import Worker, WorkerPool


def pool_of(count: int) -> WorkerPool:
    pool = WorkerPool([f"http://10.0.0.{i}:8000" for i in range(count)], clock=lambda: 0.0)
    for worker in pool:
        pool.answered(worker, {"m": {"id": "m"}})
    return pool


def resort(pool: WorkerPool, model: str = "m", avoid: frozenset[str] = frozenset()) -> Choice:
    return last_resort(pool, pool.view(model), model, "s", avoid)


def silent(pool: WorkerPool, worker: Worker) -> None:
    for _ in range(2):
        pool.probe_failed(worker, "no reply")


def test_a_worker_that_only_probes_call_down_is_asked_before_one_that_drains() -> None:
    pool = pool_of(2)
    quiet, draining = pool
    silent(pool, quiet)
    pool.drain(draining)
    choice = resort(pool)
    assert choice.worker is quiet and choice.kind is Kind.LAST_RESORT
    assert resort(pool, avoid=frozenset({quiet.url})).worker is draining


def test_one_that_refused_connections_is_asked_only_if_there_is_no_other() -> None:
    alone = pool_of(1)
    (worker,) = alone
    alone.unreachable(worker)
    assert resort(alone).worker is worker
    two = pool_of(2)
    for each in two:
        two.unreachable(each)
    with pytest.raises(NoWorker, match="Try again in 2 s"):
        resort(two)


def test_an_unknown_model_is_said_to_be_unknown_and_which_are_known() -> None:
    with pytest.raises(ModelNotFound, match="Served here: `m`"):
        resort(pool_of(1), model="nonsense")


def test_a_worker_that_failed_this_request_is_not_asked_again() -> None:
    pool = pool_of(1)
    (worker,) = pool
    silent(pool, worker)
    with pytest.raises(NoWorker):
        resort(pool, avoid=frozenset({worker.url}))
