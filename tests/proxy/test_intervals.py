"""Intervals that must hold what they promise: against published values, and against the binomial itself."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.intervals import clopper_pearson, lower_bound, wrong_among


@pytest.mark.parametrize(
    ("wrong", "of", "low", "high"),
    [  # R: binom.test(wrong, of)$conf.int
        (0, 20, 0.0, 0.1684335),
        (1, 20, 0.001265089, 0.2487328),
        (2, 584, 0.000414903, 0.01231638),
        (10, 10, 0.6915029, 1.0),
        (50, 100, 0.3983211, 0.6016789),
    ],
)
def test_the_interval_is_the_one_in_the_books(wrong: int, of: int, low: float, high: float) -> None:
    assert clopper_pearson(wrong, of) == pytest.approx((low, high), abs=1e-6)


def test_nothing_counted_is_no_evidence_and_not_zero_percent() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert lower_bound(0, 0) == 0.0


def test_the_one_sided_bound_is_the_share_that_would_give_as_much_in_one_of_twenty() -> None:
    bound = lower_bound(3, 50)
    fewer = sum(math.comb(50, k) * bound**k * (1 - bound) ** (50 - k) for k in range(3))
    assert 1 - fewer == pytest.approx(0.05, abs=1e-9)
    assert lower_bound(3, 50) > clopper_pearson(3, 50)[0]


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_interval_holds_the_share_it_is_about(one: int, other: int) -> None:
    wrong, of = min(one, other), max(one, other)
    low, high = clopper_pearson(wrong, of)
    assert 0.0 <= low <= (wrong / of if of else 0.5) <= high <= 1.0


def test_a_hundred_thousand_hits_are_counted_too() -> None:
    low, high = clopper_pearson(1_000, 100_000)
    assert low == pytest.approx(0.009394, abs=1e-5)
    assert high == pytest.approx(0.010637, abs=1e-5)


def test_more_wrong_than_there_are_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        clopper_pearson(3, 2)


def test_equal_chances_are_a_binomial() -> None:
    expected, low, high = wrong_among([0.1] * 50)
    assert expected == pytest.approx(5.0)
    below = [sum(math.comb(50, k) * 0.1**k * 0.9 ** (50 - k) for k in range(last + 1)) for last in range(51)]
    assert (low, high) == (
        next(k for k in range(51) if below[k] > 0.025),
        next(k for k in range(51) if below[k] > 0.975),
    )


def test_sure_answers_leave_no_doubt() -> None:
    assert wrong_among([0.0] * 10) == (0.0, 0, 0)
    assert wrong_among([1.0] * 4) == (4.0, 4, 4)
    assert wrong_among([]) == (0.0, 0, 0)


@given(st.lists(st.floats(0, 1), max_size=60))
def test_the_expected_count_lies_in_its_interval(chances: list[float]) -> None:
    expected, low, high = wrong_among(chances)
    assert 0 <= low <= high <= len(chances)
    assert low - 1 <= expected <= high + 1


def test_many_hits_meet_the_exact_distribution() -> None:
    exact = wrong_among([0.01] * 4_000)
    normal = wrong_among([0.01] * 4_001)
    assert abs(exact[1] - normal[1]) <= 1
    assert abs(exact[2] - normal[2]) <= 1
