"""From the choice to the last byte: what is booked, given back, and learnt."""

import weakref
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.choice import Prompt
from proxy.routing.rides import Ride
from proxy.routing.router import Router
from proxy.routing.trail import Trail, trail_of
from proxy.routing.worker import Worker
from proxy.routing.workers import WorkerPool


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class House:
    def __init__(self, count: int = 2) -> None:
        self.clock = Clock()
        self.pool = WorkerPool([f"http://10.0.0.{i}:8000" for i in range(count)], clock=self.clock)
        for worker in self.pool:
            self.pool.answered(worker, {"m": {"id": "m"}})
        self.router = Router(self.pool)

    def ride(self, prompt: Prompt) -> Ride:
        return self.router.ride(self.router.choose(prompt), prompt)

    @property
    def backlogs(self) -> list[int]:
        return [self.router.desk(worker).backlog for worker in self.pool]


def prompt(words: int = 2000, *, stream: bool = True, session: str | None = "s", seed: str = "") -> Prompt:
    body = {"messages": [{"role": "user", "content": f"{seed} " + "word " * words}]}
    return Prompt("m", session, trail_of(body), stream=stream)


def test_what_a_request_will_compute_counts_from_the_moment_it_is_booked() -> None:  # sglang#15473
    here = House(1)
    with here.ride(prompt()) as ride:
        assert here.backlogs == [ride.choice.tokens] and ride.choice.tokens > 2000
        ride.opened()
        assert here.backlogs == [0]
    assert here.backlogs == [0]


def test_a_client_that_leaves_gives_its_place_back() -> None:
    here = House(1)
    with pytest.raises(ConnectionError), here.ride(prompt()):
        raise ConnectionError
    assert here.backlogs == [0] and all(worker.idle for worker in here.pool)


def test_a_whole_answer_does_not_show_when_its_prompt_was_computed_so_it_is_given_its_time() -> None:
    here = House(1)
    with here.ride(prompt(stream=False)) as ride:
        ride.opened()
        assert here.backlogs[0] > 0
        here.clock.now_s += 60
        here.router.choose(prompt(session="t"))
        assert here.backlogs == [0]
    assert here.backlogs == [0]


def test_a_ride_that_is_over_is_not_kept_until_its_prompt_would_have_been_computed() -> None:
    here = House(1)
    with here.ride(prompt(stream=False)) as ride:
        left = weakref.ref(ride)
    del ride
    assert left() is None
    here.clock.now_s += 60
    here.router.choose(prompt())
    assert here.backlogs == [0]


def test_a_request_that_outlives_its_worker_gives_nothing_back_to_the_next_life() -> None:
    here = House(1)
    (worker,) = here.pool
    with here.ride(prompt()):
        here.pool.unreachable(worker)
        here.pool.answered(worker)
        with here.ride(prompt(session="t", seed="other")) as second:
            booked = here.backlogs
            assert booked == [second.choice.tokens - second.choice.resident]
        assert here.backlogs == [0]
    assert here.backlogs == [0]


def test_the_rate_and_the_size_of_a_token_are_learnt_from_streams() -> None:
    here = House(1)
    for turn in range(12):
        with here.ride(prompt(seed=str(turn), session=str(turn))) as ride:
            here.clock.now_s += 1.015
            ride.answered()
            ride.opened()
            ride.told(2000, 0, 10)
    (worker,) = here.pool
    assert here.router.desk(worker).pace.rate == pytest.approx(2.0, rel=0.2)
    assert here.router.choose(prompt()).tokens == pytest.approx(2000, rel=0.05)


def test_what_a_worker_did_not_have_to_compute_is_counted() -> None:
    here = House(1)
    with here.ride(prompt()) as ride:
        ride.told(2000, 1500, 10)
    (worker,) = here.pool
    assert here.router.desk(worker).saved == 1500


def test_an_answer_without_usage_teaches_nothing_and_breaks_nothing() -> None:
    here = House(1)
    with here.ride(prompt()) as ride:
        ride.answered()
        ride.told(0, None, 0)
    assert (home := here.router.homes.of("s")) is not None and home.tokens == 0


@given(st.lists(st.sampled_from(["begin", "open", "end", "restart", "wait"]), max_size=40), st.booleans())
def test_whatever_happens_in_whatever_order_no_backlog_is_left_behind(steps: list[str], stream: bool) -> None:
    here = House(2)
    riding: list[Ride] = []
    first: Worker = next(iter(here.pool))
    for number, step in enumerate(steps):
        if step == "begin":
            ride = here.ride(prompt(300 * number, stream=stream, session=str(number % 3), seed=str(number)))
            riding.append(ride.__enter__())
        elif step == "open" and riding:
            riding[number % len(riding)].opened()
        elif step == "end" and riding:
            riding.pop(number % len(riding)).__exit__(None, None, None)
        elif step == "restart":
            here.pool.unreachable(first)
            here.pool.answered(first)
        elif step == "wait":
            here.clock.now_s += 10
        assert all(backlog >= 0 for backlog in here.backlogs)
    for ride in riding:
        ride.__exit__(None, None, None)
    assert here.backlogs == [0, 0] and all(worker.idle for worker in here.pool)


def test_a_prompt_without_marks_is_a_prompt_all_the_same() -> None:
    here = House(2)
    with here.ride(Prompt("m", "s", Trail((), 12), stream=True)) as ride:
        ride.answered()
        ride.opened()
        ride.told(3, 0, 5)
    assert (home := here.router.homes.of("s")) is not None and home.tokens == 8


def test_a_huge_prompt_that_is_refused_leaves_what_a_worker_remembers_in_place() -> None:
    here = House(1)
    with here.ride(prompt()) as ride:
        ride.answered()
    before = here.router.choose(prompt()).resident
    huge = prompt(300_000, session="t", seed="huge")
    with here.ride(huge):
        assert here.router.choose(prompt()).resident == before > 1000
    assert here.router.choose(huge).resident == 0, "nobody has read it"
    with here.ride(huge) as ride:
        ride.answered()
        assert here.router.choose(huge).resident > 1000


def test_images_teach_nothing_of_how_many_tokens_a_text_has() -> None:
    here = House(1)
    before = here.router.choose(prompt()).tokens
    url = "data:image/png;base64," + "A" * 400_000
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is this? " * 200}]
    image = Prompt("m", "t", trail_of({"messages": [{"role": "user", "content": parts}]}), stream=True)
    for _ in range(10):
        with here.ride(image) as ride:
            here.clock.now_s += 9.0
            ride.answered()
            ride.opened()
            ride.told(90_000, 0, 10)
    (worker,) = here.pool
    assert here.router.choose(prompt()).tokens == before
    assert here.router.desk(worker).pace.seen == 0


def test_answers_to_requests_that_cannot_use_the_cache_do_not_say_that_it_is_empty() -> None:
    here = House(1)
    with here.ride(prompt()) as ride:
        ride.answered()
        ride.told(2000, 0, 10)
    asks = replace(prompt(), unread=True)
    for _ in range(5):
        with here.ride(asks) as ride:
            assert ride.choice.resident == 0, "all of it will be computed"
            ride.answered()
            ride.told(2000, 0, 10)
    assert here.router.choose(prompt()).resident > 1000
    assert here.router.desk(next(iter(here.pool))).memory.emptied == 0


def test_an_answer_from_a_worker_s_earlier_life_does_not_tell_what_it_holds_now() -> None:
    here = House(1)
    (worker,) = here.pool
    with here.ride(prompt()) as ride:
        here.pool.unreachable(worker)
        here.pool.answered(worker)
        ride.answered()
        ride.told(2000, 0, 10)
    assert here.router.homes.of("s") is None
    assert here.router.choose(prompt()).resident == 0
