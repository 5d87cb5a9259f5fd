"""Who may be asked at all: panic, busy, half open. Cases 24, 25, 28."""

import pytest

from proxy.routing.eligible import TRIAL_REQUESTS, believed, eligible, panicking
from proxy.routing.workers import MOST_BUSY_S, State, View, Worker, WorkerPool


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def pool_of(count: int, clock: Clock | None = None) -> WorkerPool:
    pool = WorkerPool([f"http://w{n}:1" for n in range(count)], clock=clock or Clock())
    for worker in pool:
        pool.answered(worker, {"m": {"id": "m"}})
    return pool


def fall_silent(pool: WorkerPool, *workers: Worker) -> None:
    for worker in workers:
        for _ in range(2):
            pool.probe_failed(worker, "no reply", grace_s=2.0)
        assert worker.state is State.DOWN


def asked(pool: WorkerPool, avoid: frozenset[str] = frozenset()) -> list[str]:
    return [worker.name for worker in eligible(pool.view("m"), pool.clock(), avoid)]


def test_everybody_who_is_up_may_be_asked() -> None:
    pool = pool_of(3)
    assert asked(pool) == ["w0:1", "w1:1", "w2:1"]
    assert asked(pool, frozenset({"http://w1:1"})) == ["w0:1", "w2:1"]


@pytest.mark.parametrize(("count", "silent", "panic"), [(2, 1, False), (3, 1, False), (3, 2, True), (4, 2, False),
                                                        (4, 3, True), (2, 2, True), (1, 1, True)])  # fmt: skip
def test_when_more_than_half_fall_silent_the_probes_are_not_believed(count: int, silent: int, panic: bool) -> None:
    """25 (sglang#13894): under load the probes starved, one after another was ejected, and the rest was crushed."""
    pool = pool_of(count)
    fall_silent(pool, *list(pool)[:silent])
    assert panicking(pool.view("m")) is panic
    assert len(asked(pool)) == (count if panic else count - silent)


def test_a_worker_that_says_itself_that_it_is_ill_is_believed() -> None:
    """An engine that died answers 500 to everything: half of the traffic would be errors."""
    pool = pool_of(3)
    for worker in list(pool)[:2]:
        for _ in range(2):
            pool.probe_failed(worker, "/health answered 503")
    assert asked(pool) == ["w2:1"]


def test_a_worker_that_refuses_connections_is_not_asked_in_a_panic() -> None:
    pool = pool_of(5)
    workers = list(pool)
    fall_silent(pool, *workers[:3])
    pool.unreachable(workers[0])
    fall_silent(pool, workers[3])
    assert asked(pool) == ["w4:1", "w1:1", "w2:1", "w3:1"]


def test_a_silent_worker_that_then_refuses_is_not_asked_any_more() -> None:
    pool = pool_of(3)
    workers = list(pool)
    fall_silent(pool, *workers[:2])
    assert list(believed(pool.view("m"))) == [workers[2], workers[0], workers[1]]
    pool.probe_failed(workers[0], "/health answered 503")
    assert not panicking(pool.view("m")) and list(believed(pool.view("m"))) == [workers[2]]


def test_draining_workers_do_not_count_when_it_is_counted_who_is_silent() -> None:
    pool = pool_of(5)
    workers = list(pool)
    for worker in workers[:2]:
        pool.drain(worker)
    fall_silent(pool, *workers[2:4])
    assert asked(pool) == ["w4:1", "w2:1", "w3:1"]


def test_the_panic_ends_when_they_answer() -> None:
    pool = pool_of(3)
    workers = list(pool)
    fall_silent(pool, *workers[:2])
    pool.answered(workers[0])
    assert asked(pool) == ["w0:1", "w2:1"]


def test_a_busy_worker_is_left_alone_for_as_long_as_it_said() -> None:
    """24 (sglang#25811): 429 is not death."""
    clock = Clock()
    pool = pool_of(2, clock)
    first = next(iter(pool))
    pool.busy(first, 3.0)
    assert first.state is State.UP
    assert asked(pool) == ["w1:1"]
    clock.now_s += 3.0
    assert asked(pool) == ["w0:1", "w1:1"]


def test_nobody_can_ask_to_be_left_alone_for_an_hour() -> None:
    clock = Clock()
    pool = pool_of(2, clock)
    pool.busy(next(iter(pool)), 3600.0)
    clock.now_s += MOST_BUSY_S
    assert asked(pool) == ["w0:1", "w1:1"]


def test_when_all_are_busy_all_are_asked() -> None:
    pool = pool_of(2)
    for worker in pool:
        pool.busy(worker, 5.0)
    assert asked(pool) == ["w0:1", "w1:1"]


def returned(pool: WorkerPool) -> Worker:
    worker = next(iter(pool))
    pool.unreachable(worker)
    pool.answered(worker)
    return worker


def test_a_worker_that_came_back_gets_a_few_requests_until_one_is_answered() -> None:
    """28, half open: a worker that starts again took half of the traffic before it had answered anything."""
    clock = Clock()
    pool = pool_of(2, clock)
    worker = returned(pool)
    assert worker.on_trial
    bookings = [pool.booked(worker) for _ in range(TRIAL_REQUESTS)]
    for booking in bookings:
        assert "w0:1" in asked(pool)
        booking.__enter__()
    assert asked(pool) == ["w1:1"]
    clock.now_s += 0.1
    pool.saw_bytes(worker)
    assert not worker.on_trial
    assert asked(pool) == ["w0:1", "w1:1"]


def test_a_failed_trial_opens_the_breaker_again() -> None:
    pool = pool_of(2)
    worker = returned(pool)
    pool.unreachable(worker)
    assert asked(pool) == ["w1:1"]
    pool.answered(worker)
    assert worker.on_trial and worker.generation == 2


def test_the_only_worker_is_asked_for_everything_even_on_trial() -> None:
    pool = pool_of(1)
    worker = returned(pool)
    for _ in range(20):
        pool.booked(worker).__enter__()
    assert asked(pool) == ["w0:1"]


def test_when_all_came_back_at_once_none_is_spared() -> None:
    pool = pool_of(2)
    for worker in list(pool):
        pool.unreachable(worker)
        pool.answered(worker)
        for _ in range(TRIAL_REQUESTS):
            pool.booked(worker).__enter__()
    assert asked(pool) == ["w0:1", "w1:1"]


def test_of_one_that_is_busy_and_one_on_trial_the_one_on_trial_is_asked() -> None:
    pool = pool_of(2)
    worker = returned(pool)
    for _ in range(TRIAL_REQUESTS):
        pool.booked(worker).__enter__()
    pool.busy(list(pool)[1], 5.0)
    assert asked(pool) == ["w0:1"]


def test_workers_that_were_never_down_are_not_on_trial() -> None:
    assert not any(worker.on_trial for worker in pool_of(3))


def test_a_view_of_nobody_is_empty() -> None:
    assert list(eligible(View(()), 0.0)) == []
