import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ModelNotFound, NoWorker
from proxy.routing.blocks import Blocks
from proxy.routing.choice import Choice, Kind, Prompt
from proxy.routing.kv_wire import Stored
from proxy.routing.router import Router
from proxy.routing.trail import trail_of
from proxy.routing.workers import State, Worker, WorkerPool


def pool_of(count: int, *, models: tuple[str, ...] = ("m",)) -> WorkerPool:
    pool = WorkerPool([f"http://10.0.0.{i}:8000" for i in range(count)], clock=lambda: 0.0)
    for worker in pool:
        pool.answered(worker, {model: {"id": model} for model in models})
    return pool


def choose(pool: WorkerPool, *, model: str | None, session: str | None, avoid: frozenset[str] = frozenset()) -> Choice:
    """By a router that knows nothing yet, as another process or replica would."""
    return Router(pool, alone=False).choose(Prompt(model, session), avoid)


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
        assert choice.worker is c and choice.reason == "cheapest (0 of 3 requests in hand)"


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


# ── with what it has learnt ──────────────────────────────────────────────────────────────────────────────────────────

TEXT = "The library opens at nine and closes at six, and on Sundays it does not open at all. "


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class House:
    def __init__(self, count: int) -> None:
        self.clock = Clock()
        self.pool = WorkerPool([f"http://10.0.0.{i}:8000" for i in range(count)], clock=self.clock)
        for worker in self.pool:
            self.pool.answered(worker, {"m": {"id": "m"}})
        self.router = Router(self.pool)
        self.placed: Counter[str] = Counter()

    def choose(self, session: str | None, text: str) -> Choice:
        return self.router.choose(asked(session, text))

    def answer(self, session: str | None, text: str, *, written: int = 50) -> Choice:
        """One whole request, with nothing else in flight."""
        prompt = asked(session, text)
        choice = self.router.choose(prompt)
        with self.router.ride(choice, prompt) as ride:
            ride.answered()
            self.clock.now_s += 0.02 + max(choice.tokens - choice.resident, 0) / 8000
            ride.opened()
            ride.told(choice.tokens, choice.resident, written)
        self.placed[choice.worker.url] += 1
        return choice


def asked(session: str | None, text: str) -> Prompt:
    return Prompt("m", session, trail_of({"messages": [{"role": "user", "content": text}]}), stream=True)


def test_a_session_stays_at_home_although_others_are_a_little_freer() -> None:
    here = House(4)
    home = here.answer("s", TEXT * 50).worker
    with here.router.ride(here.choose("t", "Hi"), asked("t", "Hi")):
        for worker in here.pool:
            booked = [here.pool.booked(worker)] if worker is home else []
            for booking in booked:
                with booking:
                    choice = here.choose("s", TEXT * 50 + "And on Mondays?")
                    assert choice.worker is home and choice.reason.startswith("session: at home; ")
                    assert choice.resident > 0.9 * choice.tokens


def test_a_session_leaves_a_home_that_would_let_it_wait_and_its_next_spill_finds_a_warm_copy() -> None:
    here = House(4)
    home = here.answer("s", TEXT * 50).worker
    long = asked(None, "x" + TEXT * 4000)
    busy = Choice(home, Kind.NEW, "test", tokens=80_000)
    with here.router.ride(busy, long):
        spilled = here.answer("s", TEXT * 50 + "More?")
        assert spilled.worker is not home and spilled.why == f"session: home {home.name} is busy, moved"
    there = [c for c in here.router.candidates(asked("s", TEXT * 50 + "More? Again?")) if c.resident > 500]
    assert {candidate.worker for candidate in there} == {home, spilled.worker}


def test_paced_sessions_spread_although_nothing_is_ever_in_flight() -> None:  # Infera#103
    here = House(4)
    for number in range(400):
        here.answer(f"{number:032x}", f"{number} {TEXT * 8}")
    assert len(here.placed) == 4 and max(here.placed.values()) < 1.25 * 100


def test_who_had_much_to_do_a_minute_ago_gets_its_share_of_a_burst() -> None:
    pool = pool_of(8)
    router, worker = Router(pool), next(iter(pool))
    with pool.booked(worker, 20_000.0):  # long prompts, which it has answered
        pass
    counts: Counter[str] = Counter()
    for n in range(64):
        prompt = asked(None, f"Question {n:064d}")
        choice = router.choose(prompt)
        router.ride(choice, prompt).__enter__()
        counts[choice.worker.url] += 1
    assert len(counts) == 8 and counts[worker.url] >= 4 and max(counts.values()) <= 16, counts


def test_unique_prompts_without_a_session_go_to_every_worker() -> None:  # dynamo#7836
    here = House(5)
    for number in range(500):
        here.answer(None, f"{number} {TEXT * 8}")
    assert len(here.placed) == 5 and max(here.placed.values()) < 1.25 * 100


def test_a_prompt_that_all_share_is_copied_to_more_workers_when_one_would_be_overrun() -> None:
    here = House(4)
    for number in range(300):
        here.answer(f"{number:032x}", f"{TEXT * 100}{number} {TEXT * 3}")
    assert len(here.placed) == 4 and max(here.placed.values()) < 1.3 * 75


def test_a_group_that_shares_a_long_prefix_is_kept_together() -> None:
    here = House(8)
    homes: dict[int, set[str]] = {}
    for number in range(640):
        group = number % 32
        choice = here.answer(f"{number:032x}", f"group {group} {TEXT * 200}{number}")
        homes.setdefault(group, set()).add(choice.worker.url)
    assert sum(len(urls) for urls in homes.values()) < 1.5 * 32 and max(here.placed.values()) <= 1.25 * 80


def test_sixty_four_equal_prompts_at_once_are_not_computed_sixty_four_times() -> None:
    here = House(8)
    prompts = [asked(f"{number:032x}", TEXT * 400) for number in range(64)]
    choices = []
    rides = []
    for prompt in prompts:
        choices.append(here.router.choose(prompt))
        rides.append(here.router.ride(choices[-1], prompt).__enter__())
    computed = sum(choice.tokens - choice.resident for choice in choices)
    for ride in rides:
        ride.__exit__(None, None, None)
    assert computed < 6 * choices[0].tokens


def test_thirty_two_long_prompts_at_once_spread_before_any_of_them_has_answered() -> None:  # sglang#15473
    here = House(8)
    rides, count = [], Counter[str]()
    for number in range(32):
        prompt = asked(f"{number:032x}", f"{number} {TEXT * 1500}")
        choice = here.router.choose(prompt)
        count[choice.worker.url] += 1
        rides.append(here.router.ride(choice, prompt).__enter__())
    for ride in rides:
        ride.__exit__(None, None, None)
    assert len(count) == 8 and max(count.values()) <= 5


def test_a_draining_worker_keeps_its_sessions_for_a_while_and_gets_no_new_ones() -> None:
    here = House(3)
    lives = {s: here.answer(s, f"{s} {TEXT * 20}").worker for s in sessions(300)}
    leaving = next(iter(here.pool))
    mine = [s for s, worker in lives.items() if worker is leaving]
    here.pool.drain(leaving, over_s=60.0)
    here.clock.now_s += 30
    stayed = sum(here.choose(s, f"{s} {TEXT * 20}").worker is leaving for s in mine)
    assert 0.25 * len(mine) < stayed < 0.75 * len(mine)
    assert all(here.choose(f"new{n}", TEXT * 20).worker is not leaving for n in range(50))
    here.clock.now_s += 31
    assert mine and not any(here.choose(s, f"{s} {TEXT * 20}").worker is leaving for s in mine)


def test_a_worker_that_asked_to_be_left_alone_is_busy_and_not_dead() -> None:
    here = House(2)
    (home,) = {here.answer("s", TEXT * 20).worker}
    here.pool.busy(home, 5.0)
    assert here.choose("s", TEXT * 20).worker is not home
    here.clock.now_s += 6
    assert here.choose("s", TEXT * 20).worker is home


def test_a_worker_that_came_back_is_tried_with_a_few_requests_first() -> None:
    here = House(2)
    first = next(iter(here.pool))
    here.pool.unreachable(first)
    here.clock.now_s += 1
    here.pool.answered(first)
    chosen, rides = Counter[str](), []
    for number in range(10):
        prompt = asked(None, f"{number} {TEXT}")
        choice = here.router.choose(prompt)
        chosen[choice.worker.url] += 1
        rides.append(here.router.ride(choice, prompt).__enter__())
    for ride in rides:
        ride.__exit__(None, None, None)
    assert 1 <= chosen[first.url] <= 3


def test_what_a_home_has_read_unasked_it_does_not_lack_any_more() -> None:
    """After a cached answer: the client may write that answer in its own way, so only what it was asked is compared."""
    here = House(2)
    home = here.answer("s", TEXT * 10).worker
    served = asked("s", TEXT * 60)
    assert served.trail is not None
    before = here.router.lacking(home, served)
    assert 700 < before < 1500
    here.router.warmed(home, asked("s", TEXT * 60 + "The answer. " * 100), 1600, len(served.trail.marks))
    assert here.router.lacking(home, served) < 64
    choice = here.choose("s", TEXT * 60 + "The answer, written otherwise. " * 40)
    assert choice.worker is home and choice.resident > before


def test_a_session_that_has_moved_is_not_moved_back_by_what_its_old_home_read() -> None:
    here = House(2)
    home = here.answer("s", TEXT * 10).worker
    (other,) = (worker for worker in here.pool if worker is not home)
    here.router.homes.settle("s", other.url, other.generation)
    here.router.warmed(home, asked("s", TEXT * 60), 1600, 3)
    there = here.router.homes.of("s")
    assert there is not None and there.url == other.url and there.tokens == 0


def test_events_that_name_no_session_take_nothing_from_what_its_home_is_known_to_hold() -> None:
    pool, blocks = pool_of(2), Blocks()
    blocks.stored(Stored([1, 2, 3], None, list(range(48)), 16))
    blocks.all_known(0, True)
    router = Router(pool, exact=lambda _: blocks)
    turns = [{"role": "user", "content": "hello there " * 300}]
    first = Prompt("m", "s", trail_of({"model": "m", "messages": turns}), stream=True)
    with router.ride(router.choose(first), first) as ride:
        ride.answered()
        ride.opened()
        ride.told(900, 0, 2000)
    turns += [{"role": "assistant", "content": "word " * 1600}, {"role": "user", "content": "go on"}]
    later = router.choose(Prompt("m", "s", trail_of({"model": "m", "messages": turns}), stream=True))
    assert (later.worker, later.source) == (ride.choice.worker, "by its answers") and later.resident > 2000
