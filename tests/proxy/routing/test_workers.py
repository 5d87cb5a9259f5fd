import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.gauges import Gauges
from proxy.routing.workers import PLACEMENT_HALF_LIFE_S, DownBecause, State, Worker, WorkerPool


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def pool_of(*urls: str, clock: Clock | None = None) -> WorkerPool:
    pool = WorkerPool(urls or ("http://a:1", "http://b:1"), clock=clock or Clock())
    for worker in pool:
        pool.answered(worker, {"m": {"id": "m"}})
    return pool


def test_a_pool_finds_its_workers_in_any_spelling() -> None:
    pool = WorkerPool(["http://a:1"])
    named = pool.add(Worker("http://b:1", identity="left"))
    assert pool.find("http://A:1/v1") is pool.find("a:1") is next(iter(pool))
    assert pool.find("left") is pool.find("http://b:1") is named
    assert pool.find("http://c:1") is None and pool.find("ftp://a") is None
    assert pool.add("http://b:1/") is named and len(pool) == 2


def test_two_workers_cannot_share_an_identity() -> None:
    pool = WorkerPool([Worker("http://a:1", identity="x")])
    with pytest.raises(ValueError, match="identity"):
        pool.add(Worker("http://b:1", identity="x"))


def test_its_repr_says_how_many_are_ready() -> None:
    pool = pool_of("http://a:1", "http://b:1", "http://c:1", "http://d:1")
    pool.drain(pool.find("b:1"))
    with pool.booked(pool.find("a:1")), pool.booked(pool.find("a:1")):
        assert repr(pool) == "<WorkerPool [3 ready, 1 draining, 0 down | 2 in flight]>"
    pool.unreachable(pool.find("c:1"))
    assert repr(pool) == "<WorkerPool [2 ready, 1 draining, 1 down | 0 in flight]>"
    assert repr(pool.find("c:1")) == "<Worker c:1 down by connect | 0 in flight, generation 0>"


def test_two_failed_probes_make_down_and_one_good_one_up() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    pool.probe_failed(worker, "x")
    assert worker.state is State.UP
    pool.probe_failed(worker, "x")
    assert worker.state is State.DOWN and worker.down_because is DownBecause.PROBE and worker.trouble == "x"
    pool.answered(worker)
    assert worker.state is State.UP and worker.on_trial and worker.trouble is None
    assert worker.models == {"m"}


@pytest.mark.parametrize(("how", "lives"), [({}, 0), ({"grace_s": 2.0}, 0), ({"refused": True}, 1)])
def test_only_one_that_refused_connections_is_another_one_when_it_is_back(how: dict[str, Any], lives: int) -> None:
    """A long compile starves every probe. What runs there still runs, and what it holds it still holds."""
    pool = pool_of()
    worker = pool.find("a:1")
    with pool.booked(worker):
        for _ in range(2):
            pool.probe_failed(worker, "x", **how)
        assert worker.state is State.DOWN
        pool.answered(worker)
        assert worker.state is State.UP and worker.on_trial and worker.generation == lives
        assert (worker.in_flight, worker.in_flight_before) == (1 - lives, lives)


def test_a_worker_that_was_silent_for_long_does_not_get_every_paced_request_when_it_is_back() -> None:
    pool = pool_of("http://a:1", "http://b:1")
    worker, other = pool
    for _ in range(2):
        pool.probe_failed(worker, "x", grace_s=2.0)
    with pool.booked(other, 5000.0):
        pool.answered(worker)
    assert worker.placed == other.placed > 0.0


def test_a_failure_between_good_probes_is_forgotten() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    for _ in range(5):
        pool.probe_failed(worker, "x")
        pool.answered(worker)
    assert worker.state is State.UP and worker.generation == 0


def test_bytes_that_flow_are_proof_of_life() -> None:
    clock = Clock()
    pool = pool_of(clock=clock)
    worker = pool.find("a:1")
    pool.saw_bytes(worker)
    clock.now_s += 1.9
    for _ in range(5):
        pool.probe_failed(worker, "silent", grace_s=2.0)
    assert worker.state is State.UP and worker.failures == 0
    clock.now_s += 0.2
    for _ in range(2):
        pool.probe_failed(worker, "silent", grace_s=2.0)
    assert worker.state is State.DOWN
    pool.saw_bytes(worker)
    assert worker.state is State.UP


def test_a_refused_connection_is_down_at_once_and_old_bytes_do_not_raise_it() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    pool.unreachable(worker)
    assert worker.state is State.DOWN and worker.suspect
    pool.saw_bytes(worker)
    assert worker.state is State.DOWN
    pool.answered(worker)
    assert worker.state is State.UP


def test_a_connection_dropped_before_its_answer_is_only_a_suspicion() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    pool.unreachable(worker, "dropped", connected=True)
    assert worker.state is State.UP and worker.suspect


def test_a_draining_worker_stays_draining_until_it_is_told() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    pool.drain(worker)
    pool.unreachable(worker)
    pool.answered(worker)
    pool.probe_failed(worker, "x")
    pool.probe_failed(worker, "x")
    assert worker.state is State.DRAINING
    pool.undrain(worker)
    assert worker.state is State.UNKNOWN and worker.suspect


def test_the_last_request_of_a_draining_worker_is_told() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    idle: list[bool] = []
    pool.on_change(lambda: idle.append(worker.idle))
    with pool.booked(worker), pool.booked(worker):
        pool.drain(worker)
    assert idle == [False, True]


def test_models_are_merged_and_the_first_card_counts() -> None:
    pool = WorkerPool(["http://a:1", "http://b:1", "http://c:1"])
    a, b, c = pool
    pool.answered(a, {"m": {"id": "m", "root": "a"}})
    pool.answered(b, {"m": {"id": "m", "root": "b"}, "lora": {"id": "lora"}})
    pool.answered(c, {"gone": {"id": "gone"}})
    pool.unreachable(c)
    assert pool.models() == [{"id": "m", "root": "a"}, {"id": "lora"}]


def test_the_models_last_known_are_told_when_nobody_is_up() -> None:
    pool = pool_of("http://a:1")
    pool.unreachable(pool.find("a:1"))
    assert [card["id"] for card in pool.models()] == ["m"]


def test_a_booking_is_given_back_whatever_happens() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    with contextlib.suppress(RuntimeError), pool.booked(worker):
        assert worker.in_flight == 1
        raise RuntimeError
    assert worker.in_flight == 0 and worker.idle


def test_a_booking_is_entered_once() -> None:
    pool = pool_of()
    booking = pool.booked(pool.find("a:1"))
    with booking, pytest.raises(RuntimeError), booking:
        pass
    assert pool.find("a:1").in_flight == 0


def test_requests_of_an_earlier_life_do_not_weigh_on_a_worker_that_came_back() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    with pool.booked(worker):
        pool.unreachable(worker)
        pool.answered(worker)
        assert (worker.generation, worker.in_flight, worker.in_flight_before) == (1, 0, 1)
        assert not worker.idle
        with pool.booked(worker):
            assert worker.in_flight == 1
    assert (worker.in_flight, worker.in_flight_before) == (0, 0)


@given(
    st.lists(
        st.sampled_from(
            [
                "book",
                "book",
                "return first",
                "return last",
                "refuse",
                "probe",
                "refused probe",
                "answer",
                "bytes",
                "drain",
                "undrain",
            ]
        ),
        max_size=200,
    )
)
def test_counters_are_never_negative_and_end_at_zero_under_flapping(steps: list[str]) -> None:
    pool = pool_of("http://a:1")
    worker = pool.find("a:1")
    out: list[object] = []
    generation = 0
    for step in steps:
        match step:
            case "book":
                booking = pool.booked(worker)
                booking.__enter__()
                out.append(booking)
            case "return first" | "return last" if out:
                out.pop(0 if step == "return first" else -1).__exit__(None, None, None)
            case "refuse":
                pool.unreachable(worker)
            case "probe":
                pool.probe_failed(worker, "x")
            case "refused probe":
                pool.probe_failed(worker, "x", refused=True)
            case "answer":
                pool.answered(worker)
            case "bytes":
                pool.saw_bytes(worker)
            case "drain":
                pool.drain(worker)
            case "undrain":
                pool.undrain(worker)
        assert worker.in_flight >= 0 and worker.in_flight_before >= 0
        assert worker.in_flight + worker.in_flight_before == len(out)
        assert worker.generation >= generation
        generation = worker.generation
    for booking in out:
        booking.__exit__(None, None, None)
    assert worker.in_flight == worker.in_flight_before == 0 and worker.idle


def test_placements_fade_and_weights_stay_finite_for_years() -> None:
    clock = Clock()
    pool = pool_of(clock=clock)
    a, b = pool
    for _ in range(4):
        with pool.booked(a):
            pass
    clock.now_s += 3 * PLACEMENT_HALF_LIFE_S
    with pool.booked(b):
        pass
    assert a.placed / b.placed == pytest.approx(4 / 8)
    for _ in range(200):
        clock.now_s += 86_400 * 30
        with pool.booked(b):
            pass
        assert 0 < b.placed < 1e30


def test_a_worker_that_joins_is_not_flooded() -> None:
    pool = pool_of()
    for worker in pool:
        for _ in range(50):
            with pool.booked(worker):
                pass
    joined = pool.add("http://c:1")
    assert joined.placed == pytest.approx(50)


def test_listeners_hear_changes_until_they_stop() -> None:
    pool = pool_of()
    heard: list[int] = []
    stop = pool.on_change(lambda: heard.append(pool.version))
    pool.add("http://c:1")
    pool.remove(pool.find("c:1"))
    stop()
    pool.add("http://d:1")
    assert len(heard) == 2


def test_model_names_from_clients_do_not_fill_memory() -> None:
    pool = pool_of()
    for i in range(5000):
        pool.view(f"model-{i}")
    assert len(pool._views) <= 1024


def test_a_guest_is_told_of_every_request_before_it_counts() -> None:
    pool = WorkerPool(["http://a:1"])
    (worker,) = pool
    told: list[int] = []
    worker.guest = lambda: told.append(worker.in_flight)
    with pool.booked(worker), pool.booked(worker):
        pass
    worker.guest = None
    with pool.booked(worker):
        pass
    assert told == [0, 1]


# -- restarts, drains, trials ------------------------------------------------------------------------------------------


def started(worker: Worker, pool: WorkerPool, started_s: float | None) -> None:
    pool.measured(worker, Gauges(pool.clock(), 0, 0, started_s=started_s))


def test_a_restart_that_no_probe_noticed_is_a_new_generation() -> None:
    """14 (llm-d-router#2853): the process was another one, and its ghost blocks stayed."""
    pool = pool_of()
    worker = pool.find("a:1")
    started(worker, pool, 100.0)
    started(worker, pool, 100.0)
    assert worker.generation == 0
    with pool.booked(worker):
        started(worker, pool, 160.0)
        assert worker.generation == 1 and worker.state is State.UP and worker.on_trial
        assert (worker.in_flight, worker.in_flight_before) == (0, 1)
    assert worker.idle and worker.gauges.started_s == 160.0


def test_one_restart_is_counted_once_whoever_notices_it_first() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    started(worker, pool, 100.0)
    pool.unreachable(worker)
    pool.answered(worker)
    started(worker, pool, 160.0)
    assert worker.generation == 1


def test_two_processes_behind_one_address_are_not_a_restart_at_every_probe() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    for start_s in (100.0, 101.0, 100.0, 101.0, 100.0):
        started(worker, pool, start_s)
    assert worker.generation == 1


def test_a_worker_without_metrics_is_no_worse_for_it() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    for told in (None, Gauges(0.0, 1, 0), None, Gauges(0.0, 1, 0, started_s=5.0), None):
        pool.measured(worker, told)
    assert worker.generation == 0 and worker.gauges is None and worker.state is State.UP


def test_a_worker_that_was_restarted_while_it_drained_comes_back_as_a_new_one() -> None:
    """A rolling restart: what it held is lost, though no state said that it was down."""
    pool = pool_of()
    worker = pool.find("a:1")
    pool.drain(worker)
    for _ in range(2):
        pool.probe_failed(worker, "refused", refused=True)
    pool.undrain(worker)
    pool.answered(worker)
    assert worker.state is State.UP and worker.generation == 1 and worker.on_trial


def test_a_worker_that_only_drained_is_still_the_same() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    pool.drain(worker)
    pool.answered(worker)
    pool.undrain(worker)
    pool.answered(worker)
    assert worker.state is State.UP and worker.generation == 0 and not worker.on_trial


def test_a_worker_that_was_removed_and_added_again_is_another_generation() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    pool.remove(worker)
    again = pool.add("http://a:1")
    assert again is not worker and again.generation == 1
    pool.remove(again)
    assert pool.add("http://a:1").generation == 2


def test_the_sessions_of_a_draining_worker_leave_one_by_one_and_do_not_come_back() -> None:
    clock = Clock()
    pool = pool_of(clock=clock)
    worker = pool.find("a:1")
    sessions = [f"session {n}" for n in range(400)]
    assert not any(pool.keeps(worker, name) for name in sessions), "it is not draining"
    pool.drain(worker, 20.0)
    before = set(sessions)
    for second in range(21):
        kept = {name for name in sessions if pool.keeps(worker, name)}
        assert kept <= before
        assert abs(len(kept) - 400 * (1 - second / 20)) < 50
        before = kept
        clock.now_s += 1.0
    assert not before


def test_a_drain_without_time_moves_all_at_once() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    pool.drain(worker)
    assert not pool.keeps(worker, "s") and pool.drained(worker)


def test_a_draining_worker_that_dies_keeps_nobody() -> None:
    pool = pool_of()
    worker = pool.find("a:1")
    pool.drain(worker, 20.0)
    pool.unreachable(worker)
    assert not any(pool.keeps(worker, f"session {n}") for n in range(50))


def test_a_worker_is_drained_when_its_time_is_over_and_nothing_runs_there() -> None:
    clock = Clock()
    pool = pool_of(clock=clock)
    worker = pool.find("a:1")
    with pool.booked(worker):
        pool.drain(worker, 20.0)
        clock.now_s += 20.0
        assert not pool.drained(worker)
    assert pool.drained(worker)
    pool.undrain(worker)
    assert not pool.drained(worker)


def test_draining_twice_does_not_begin_anew() -> None:
    clock = Clock()
    pool = pool_of(clock=clock)
    worker = pool.find("a:1")
    pool.drain(worker, 20.0)
    clock.now_s += 15.0
    pool.drain(worker, 20.0)
    clock.now_s += 5.0
    assert pool.drained(worker)
