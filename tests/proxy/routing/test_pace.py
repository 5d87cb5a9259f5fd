import random

import pytest

from proxy.routing.pace import FIRST_GUESS, Pace


@pytest.mark.parametrize("rate", [1.5, 8.0, 60.0])
def test_the_rate_of_a_slow_and_of_a_fast_worker_is_learnt_in_some_twenty_streams(rate: float) -> None:
    pace, dice = Pace(), random.Random(1)
    for _ in range(20):
        uncached = dice.randint(300, 4000)
        pace.observe(uncached=uncached, queued=0, ttft_ms=(20 + uncached / rate) * dice.uniform(0.9, 1.2))
    assert pace.rate == pytest.approx(rate, rel=0.35)


def test_a_cached_prompt_teaches_the_base_and_not_the_rate() -> None:
    pace = Pace()
    for _ in range(60):
        pace.observe(uncached=10, queued=0, ttft_ms=80)
    assert pace.base_ms == pytest.approx(80, rel=0.1) and pace.rate == FIRST_GUESS


def test_a_prompt_that_waited_behind_longer_ones_teaches_nothing() -> None:
    pace = Pace()
    pace.observe(uncached=1000, queued=9000, ttft_ms=5000)
    assert pace.seen == 0


def test_a_new_worker_begins_with_what_the_others_taught() -> None:
    old = Pace()
    old.rate, old.base_ms = 123.0, 4.0
    assert (Pace(old).rate, Pace(old).base_ms, Pace(old).seen) == (123.0, 4.0, 0)


def test_a_clock_that_went_wrong_does_not_make_a_rate_of_nothing() -> None:
    pace = Pace()
    pace.observe(uncached=1000, queued=0, ttft_ms=0)
    pace.observe(uncached=100_000, queued=0, ttft_ms=1e-6)
    assert 0 < pace.rate <= 2000
