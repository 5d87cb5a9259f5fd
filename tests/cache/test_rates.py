"""The figures that an operator will believe: known values, and intervals that hold the truth as often as promised."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.rates import (
    beta_quantile,
    beta_share,
    clopper_pearson,
    corrected_rate,
    effective_number,
    rogan_gladen,
    wilson,
)


@pytest.mark.parametrize(("x", "a", "b", "expected"), [
    (0.5, 2.0, 2.0, 0.5), (0.25, 1.0, 1.0, 0.25), (0.3, 2.0, 5.0, 0.579825), (0.9, 0.5, 0.5, 0.7951672353),
    (0.01, 1.0, 99.0, 1 - 0.99**99), (0.5, 10.0, 10.0, 0.5),
])  # fmt: skip
def test_the_incomplete_beta_function_has_its_known_values(x: float, a: float, b: float, expected: float) -> None:
    """Closed forms: I_x(1, b) = 1 - (1-x)^b, I_x(½, ½) = 2/π asin √x, I_x(2, 5) by its polynomial."""
    assert beta_share(x, a, b) == pytest.approx(expected, abs=1e-9)


def test_the_incomplete_beta_function_is_the_tail_of_a_binomial() -> None:
    """DLMF 8.17.5, for numbers as large as a year of checks."""
    for n, k, p in ((20, 3, 0.1), (500, 10, 0.02), (5000, 60, 0.01)):
        logs = [math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1) + j * math.log(p)
                + (n - j) * math.log1p(-p) for j in range(k, n + 1)]  # fmt: skip
        assert beta_share(p, k, n - k + 1) == pytest.approx(sum(map(math.exp, logs)), rel=1e-7)


@given(st.floats(0.001, 0.999), st.floats(0.5, 500), st.floats(0.5, 500))
def test_a_quantile_is_the_inverse(share: float, a: float, b: float) -> None:
    assert beta_share(beta_quantile(share, a, b), a, b) == pytest.approx(share, abs=1e-6)


def test_textbook_intervals() -> None:
    """Newcombe 1998, Stat. Med. 17: 857-872, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for wrong, of, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        found = wilson(wrong, of)
        assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    for wrong, of, low, high in ((81, 263, 0.2527, 0.3676), (15, 148, 0.0578, 0.1617), (0, 20, 0.0, 0.1684),
                                 (1, 29, 0.0009, 0.1776)):  # fmt: skip
        found = clopper_pearson(wrong, of)
        assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_a_judge_who_errs_is_corrected() -> None:
    """5 % of 1000 called wrong by one who calls 2 % of right ones wrong and misses a fifth of wrong ones."""
    assert rogan_gladen(0.05, 0.8, 0.98) == pytest.approx(0.03 / 0.78)
    assert rogan_gladen(0.01, 0.8, 0.98) == 0.0  # fewer than he makes up
    found = corrected_rate(50, 1000, caught=80, known_wrong=100, cleared=196, known_right=200)
    assert found.estimate == pytest.approx(0.03 / 0.78)
    assert found.low < found.estimate < found.high


def test_a_coin_tells_nothing_and_does_not_pass_for_a_rate() -> None:
    for caught in (0, 50):
        with pytest.raises(ValueError, match="tell nothing"):
            corrected_rate(3, 100, caught=caught, known_wrong=100, cleared=50, known_right=100)
    for bad in ((1, 0), (-1, 10), (11, 10)):
        with pytest.raises(ValueError, match="no count"):
            wilson(*bad)
    with pytest.raises(ValueError, match="confidence"):
        wilson(1, 10, 1.0)


@given(
    st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.integers(20, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.integers(20, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
)
def test_an_interval_lies_in_0_and_1_and_holds_its_estimate(
    wrong: tuple[int, int], bad: tuple[int, int], good: tuple[int, int]
) -> None:
    for found in (wilson(*wrong), clopper_pearson(*wrong)):
        assert 0 <= found.low <= found.estimate <= found.high <= 1
    try:
        found = corrected_rate(*wrong, caught=bad[0], known_wrong=bad[1], cleared=good[0], known_right=good[1])
    except ValueError:
        return
    assert 0 <= found.low <= found.estimate <= found.high <= 1


@pytest.mark.parametrize("truth", [0.0, 0.005, 0.02, 0.1])
@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.95, 0.99), (0.8, 0.95), (0.6, 0.98)])
@pytest.mark.parametrize(("checks", "controls"), [(50, 20), (300, 50), (2000, 60)])
def test_of_a_hundred_intervals_ninety_four_hold_the_truth(
    truth: float, sensitivity: float, specificity: float, checks: int, controls: int
) -> None:
    """By simulation, with the error rates counted anew each time. 0.94 less three standard errors of 800 draws."""
    draw = np.random.default_rng(7)
    apparent = truth * sensitivity + (1 - truth) * (1 - specificity)
    held = of = 0
    for _ in range(800):
        try:
            found = corrected_rate(
                draw.binomial(checks, apparent), checks, caught=draw.binomial(controls, sensitivity),
                known_wrong=controls, cleared=draw.binomial(controls, specificity), known_right=controls,
            )  # fmt: skip
        except ValueError:
            continue
        of += 1
        held += found.low <= truth <= found.high
    assert of > 790
    assert held / of >= 0.94 - 3 * math.sqrt(0.94 * 0.06 / of)


def test_a_weighted_sample_is_worth_less_than_its_number() -> None:
    assert effective_number(0, 0) == 0
    assert effective_number(100, 100) == 100  # equal weights
    assert effective_number(50 + 50, 50 + 50**2) < 4  # one label of weight 50 beside fifty of weight 1
    draw = random.Random(1)
    weights = [draw.uniform(1, 3) for _ in range(200)]
    assert 150 < effective_number(sum(weights), sum(w * w for w in weights)) < 200
