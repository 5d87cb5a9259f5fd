"""What leaves a full cache: see `cache.worth`."""

import math
from dataclasses import replace

import pytest
from entries import entry
from hypothesis import given
from hypothesis import strategies as st

from cache.entry import Answer
from cache.worth import Capacity, Departed, gain_of, later, size_of

MOMENTS = st.lists(st.floats(0, 300, allow_nan=False), min_size=1, max_size=30)


def summed(moments: list[float], now: float) -> float:
    """LRFU as its authors write it: every use counts half as much one half-life later."""
    return math.fsum(2.0 ** (moment - now) for moment in moments)


@given(MOMENTS, MOMENTS)
def test_the_order_of_two_entries_is_that_of_their_decayed_uses(one: list[float], two: list[float]) -> None:
    worths = []
    for moments in (one, two):
        worth: float | None = None
        for moment in sorted(moments):
            worth = later(worth, moment)
        worths.append(worth)
    now = max(*one, *two)
    counts = [summed(one, now), summed(two, now)]
    if not math.isclose(*counts, rel_tol=1e-6):
        assert (worths[0] < worths[1]) == (counts[0] < counts[1])  # type: ignore[operator]


def test_an_answer_that_took_long_to_write_counts_more_and_never_beyond_measure() -> None:
    short, long, huge = (replace(entry(), answer=Answer(b"x" * 500, tokens)) for tokens in (5, 100, 10**9))
    assert gain_of(short) < gain_of(long) < gain_of(huge) <= 2.0
    assert gain_of(replace(entry(), answer=Answer(b"x", None))) == 0.0


def test_a_bulky_answer_counts_less_than_a_small_one_that_saves_the_same() -> None:
    small, bulky = (replace(entry(), answer=Answer(b"x" * size, 100)) for size in (100, 5000))
    assert gain_of(bulky) < gain_of(small)
    assert size_of(bulky) - size_of(small) == 4900


def test_what_departed_is_remembered_once_and_not_for_ever() -> None:
    departed = Departed(2)
    for name in (1, 2, 3):
        departed.left(name, float(name))
    assert departed.back(1) is None, "the oldest is forgotten"
    assert departed.back(2) == 2.0
    assert departed.back(2) is None, "it is here again"
    departed.forget()
    assert len(departed) == 0


@pytest.mark.parametrize(("entries", "most"), [(0, None), (5, 0)])
def test_a_cache_of_nothing_is_refused(entries: int, most: int | None) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Capacity(entries, most)
