import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ModelNotFound, NoWorker
from proxy.routing.router import choose
from proxy.routing.workers import State, Worker, WorkerPool


def pool_of(count: int, *, models: tuple[str, ...] = ("m",)) -> WorkerPool:
    pool = WorkerPool([f"http://10.0.0.{i}:8000" for i in range(count)], clock=lambda: 0.0)
    for worker in pool:
        pool.answered(worker, {model: {"id": model} for model in models})
    return pool


def down_by_probe(pool: WorkerPool, worker: Worker) -> None:
    pool.probe_failed(worker, "x")
    pool.probe_failed(worker, "x")


def sessions(count: int) -> list[str]:
    return [f"{random.Random(i).getrandbits(128):032x}" for i in range(count)]


def test_a_session_stays_on_its_worker() -> None:
    pool = pool_of(10)
    for session in sessions(200):
        home = choose(pool, model="m", session=session)
        assert home.reason == "session: rendezvous home"
        with pool.booked(home.worker):
            assert choose(pool, model="m", session=session).worker is home.worker


def test_homes_survive_a_restart_and_the_order_of_the_list() -> None:
    pool, other = pool_of(7), WorkerPool([f"http://10.0.0.{i}:8000" for i in reversed(range(7))])
    for worker in other:
        other.answered(worker, {"m": {"id": "m"}})
    for session in sessions(100):
        assert (
            choose(pool, model="m", session=session).worker.url == choose(other, model="m", session=session).worker.url
        )


def test_sessions_spread_evenly() -> None:
    pool = pool_of(10)
    count = Counter(choose(pool, model="m", session=s).worker.url for s in sessions(10_000))
    chi_square = sum((n - 1000) ** 2 / 1000 for n in count.values())
    assert len(count) == 10 and chi_square < 27.9  # 9 degrees of freedom, p = 0.001


def test_killing_one_of_ten_moves_only_its_sessions_and_spreads_them_over_all_nine() -> None:
    pool = pool_of(10)
    before = {s: choose(pool, model="m", session=s).worker for s in sessions(20_000)}
    dead = next(iter(pool))
    pool.unreachable(dead)
    after = {s: choose(pool, model="m", session=s) for s in before}
    moved = [s for s in before if after[s].worker is not before[s]]
    assert set(moved) == {s for s in before if before[s] is dead}
    assert all(after[s].reason == f"session: home {dead.name} is down, moved" for s in moved)
    count = Counter(after[s].worker.url for s in moved)
    mean = len(moved) / 9
    assert len(count) == 9
    assert sum((n - mean) ** 2 / mean for n in count.values()) < 26.1  # 8 degrees of freedom, p = 0.001
    pool.answered(dead)
    assert all(choose(pool, model="m", session=s).worker is before[s] for s in before)


@given(st.integers(2, 12), st.sets(st.integers(0, 11)), st.text("0123456789abcdef", min_size=32, max_size=32))
def test_a_session_moves_only_when_its_home_is_gone(count: int, dead: set[int], session: str) -> None:
    pool = pool_of(count)
    workers = list(pool)
    home = choose(pool, model="m", session=session).worker
    for i in dead:
        if i < count:
            pool.unreachable(workers[i])
    left = [w for w in workers if w.state is State.UP]
    if not left:
        return
    chosen = choose(pool, model="m", session=session).worker
    assert chosen in left
    assert (chosen is home) == (home in left)


def test_a_worker_that_joins_takes_its_share_and_nothing_else_moves() -> None:
    pool = pool_of(9)
    before = {s: choose(pool, model="m", session=s).worker for s in sessions(5000)}
    joined = pool.add("http://10.0.0.99:8000")
    pool.answered(joined, {"m": {"id": "m"}})
    moved = [s for s in before if (now := choose(pool, model="m", session=s).worker) is not before[s] and now is joined]
    assert all(choose(pool, model="m", session=s).worker in (before[s], joined) for s in before)
    assert 0.07 < len(moved) / len(before) < 0.13


def test_a_failed_worker_is_avoided_in_this_request_and_the_second_home_is_stable() -> None:
    pool = pool_of(5)
    for session in sessions(100):
        home = choose(pool, model="m", session=session).worker
        second = choose(pool, model="m", session=session, avoid=frozenset({home.url}))
        assert second.reason == f"session: home {home.name} is failing this request, moved"
        pool.unreachable(home)
        assert choose(pool, model="m", session=session).worker is second.worker
        pool.answered(home)


def test_a_request_without_a_session_goes_where_least_is_in_hand() -> None:
    pool = pool_of(3)
    a, b, c = pool
    with pool.booked(a), pool.booked(a), pool.booked(b):
        choice = choose(pool, model="m", session=None)
        assert choice.worker is c and choice.reason == "least loaded (0 of 3 in flight)"


def test_paced_requests_one_at_a_time_still_spread() -> None:
    pool = pool_of(4)
    count: Counter[str] = Counter()
    for _ in range(400):
        with pool.booked(choose(pool, model="m", session=None).worker) as booking:
            count[booking.worker.url] += 1
    assert set(count.values()) == {100}


def test_a_burst_spreads_because_load_is_booked_at_selection() -> None:
    pool = pool_of(8)
    bookings = []
    for _ in range(64):
        booking = pool.booked(choose(pool, model="m", session=None).worker)
        booking.__enter__()
        bookings.append(booking)
    assert {w.in_flight for w in pool} == {8}
    for booking in bookings:
        booking.__exit__(None, None, None)


def test_a_draining_worker_gets_nothing_new_while_others_are_up() -> None:
    pool = pool_of(3)
    drained = next(iter(pool))
    pool.drain(drained)
    for session in [None, *sessions(100)]:
        assert choose(pool, model="m", session=session).worker is not drained
    moved = next(s for s in sessions(100) if "moved" in choose(pool, model="m", session=s).reason)
    assert choose(pool, model="m", session=moved).reason == f"session: home {drained.name} is draining, moved"


def test_the_only_worker_is_called_that() -> None:
    pool = pool_of(1)
    assert choose(pool, model="m", session="s").reason == "only worker"
    assert choose(pool, model=None, session=None).reason == "only worker"


def test_only_workers_that_serve_the_model_are_asked() -> None:
    pool = pool_of(4)
    a, b, *_ = pool
    pool.answered(a, {"m": {"id": "m"}, "big": {"id": "big"}})
    pool.answered(b, {"m": {"id": "m"}, "big": {"id": "big"}})
    assert {choose(pool, model="big", session=s).worker for s in sessions(50)} == {a, b}


def test_an_unknown_model_is_told_in_openai_s_words_with_what_is_served() -> None:
    pool = pool_of(2, models=("m", "n"))
    with pytest.raises(ModelNotFound) as error:
        choose(pool, model="gpt-5", session=None)
    assert error.value.message == (
        "The model `gpt-5` does not exist or you do not have access to it. Served here: `m`, `n`."
    )
    assert error.value.param == "model" and error.value.status == 404


def test_a_model_whose_worker_is_down_exists() -> None:
    pool = pool_of(3)
    a, b, _ = pool
    for worker in (a, b):
        pool.answered(worker, {"big": {"id": "big"}})
        pool.unreachable(worker)
    with pytest.raises(NoWorker) as error:
        choose(pool, model="big", session=None)
    assert error.value.retry_after_s == 2 and "`big`" in error.value.message


def test_a_model_is_not_denied_before_every_worker_was_asked_what_it_serves() -> None:
    pool = pool_of(1)
    late = pool.add("http://late:1")
    choice = choose(pool, model="other", session=None)
    assert choice.worker is late and choice.reason == "nobody is up: late:1 is not probed yet, tried all the same"
    pool.unreachable(late)
    with pytest.raises(ModelNotFound, match=r"1 worker\(s\) have not said yet"):
        choose(pool, model="other", session=None)


def test_a_worker_that_does_not_tell_its_models_may_serve_any() -> None:
    pool = WorkerPool(["http://a:1"])
    pool.answered(next(iter(pool)), None)
    assert choose(pool, model="anything", session=None).reason == "only worker"


def test_when_probes_call_everybody_down_they_are_tried_all_the_same() -> None:
    pool = pool_of(3)
    for worker in pool:
        down_by_probe(pool, worker)
    chosen = {choose(pool, model="m", session=s).worker for s in sessions(50)}
    assert chosen == set(pool)
    assert "down by probe, tried all the same" in choose(pool, model="m", session=None).reason


def test_the_last_worker_is_tried_even_if_it_refused() -> None:
    pool = pool_of(1)
    pool.unreachable(next(iter(pool)))
    assert choose(pool, model="m", session=None).reason == "only worker: 10.0.0.0:8000 is down, tried all the same"
    with pytest.raises(NoWorker):
        choose(pool, model="m", session=None, avoid=frozenset({"http://10.0.0.0:8000"}))


def test_several_workers_that_all_refused_are_not_tried() -> None:
    pool = pool_of(2)
    for worker in pool:
        pool.unreachable(worker)
    with pytest.raises(NoWorker) as error:
        choose(pool, model=None, session=None)
    assert error.value.status == 503 and error.value.retry_after_s == 2


def test_a_draining_worker_is_better_than_an_error() -> None:
    pool = pool_of(2)
    a, b = pool
    pool.drain(a)
    pool.unreachable(b)
    assert choose(pool, model="m", session=None).worker is a


def test_an_empty_pool_has_no_worker() -> None:
    with pytest.raises(NoWorker):
        choose(WorkerPool(), model="m", session=None)


def test_every_pair_of_workers_shares_no_bias_in_second_homes() -> None:
    """Double failures too must spread: with two dead of six, the other four each get some of what was theirs."""
    pool = pool_of(6)
    all_sessions = sessions(3000)
    homes = {s: choose(pool, model="m", session=s).worker for s in all_sessions}
    for dead in combinations(list(pool), 2):
        for worker in dead:
            pool.unreachable(worker)
        count = Counter(choose(pool, model="m", session=s).worker for s in all_sessions if homes[s] in dead)
        assert len(count) == 4 and max(count.values()) < 1.4 * min(count.values())
        for worker in dead:
            pool.answered(worker)
