"""When the embedder's breaker opens, tries and closes."""

from cache.embedder.breaker import Breaker


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def breaker(clock: Clock) -> Breaker:
    return Breaker(tolerated=3, stall_s=1.0, cooldown_s=5.0, clock=clock)


def opened(clock: Clock) -> Breaker:
    made = breaker(clock)
    began_s = clock.now_s
    clock.now_s += 1.0
    for _ in range(3):
        made.failed(began_s)
    return made


def test_it_stays_closed_for_fewer_failures_than_are_tolerated() -> None:
    clock = Clock()
    made = breaker(clock)
    clock.now_s += 60.0
    made.failed(100.0)
    made.failed(100.0)
    assert made.admits()


def test_failures_at_one_moment_are_one_event() -> None:
    made = breaker(Clock())
    for _ in range(50):
        made.failed(100.0)
    assert made.admits()


def test_failures_that_go_on_open_it() -> None:
    made = opened(Clock())
    assert made.is_open
    assert not made.admits()


def test_a_success_in_between_starts_the_count_again() -> None:
    clock = Clock()
    made = breaker(clock)
    clock.now_s += 9.0
    made.failed(100.0)
    made.failed(100.0)
    made.succeeded()
    made.failed(100.0)
    assert made.admits()


def test_after_the_cool_down_one_tries_and_the_others_wait() -> None:
    clock = Clock()
    made = opened(clock)
    clock.now_s += 5.0
    assert [made.admits() for _ in range(3)] == [True, False, False]


def test_a_trial_that_fails_opens_it_again_at_once() -> None:
    clock = Clock()
    made = opened(clock)
    clock.now_s += 5.0
    assert made.admits()
    made.failed(clock.now_s)
    assert not made.admits()
    clock.now_s += 5.0
    assert made.admits()


def test_a_trial_that_succeeds_closes_it() -> None:
    clock = Clock()
    made = opened(clock)
    clock.now_s += 5.0
    assert made.admits()
    made.succeeded()
    assert not made.is_open
    assert made.admits()
    assert made.admits()


def test_a_trial_whose_asker_left_may_be_taken_by_the_next() -> None:
    clock = Clock()
    made = opened(clock)
    clock.now_s += 5.0
    assert made.admits()
    made.gave_up()
    assert made.admits()
