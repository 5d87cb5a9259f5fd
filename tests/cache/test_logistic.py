"""A posterior that can be checked by hand, and a solver that comes to an end whatever it is given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.logistic import fitted, offset_of, sigmoid

ONE = np.ones((1, 1))


def test_without_labels_the_prior_is_the_posterior() -> None:
    mean, precision = np.array([0.5, -2.0]), np.array([4.0, 0.25])
    found = fitted(np.zeros((0, 2)), np.zeros(0), np.zeros(0), mean, precision)
    assert found.mean == pytest.approx(mean)
    assert found.covariance == pytest.approx(np.diag([0.25, 4.0]))
    assert offset_of(np.zeros(0), np.zeros(0), np.zeros(0), 0.9) == pytest.approx((0.0, 0.9))


def test_with_hardly_a_prior_the_constant_is_the_log_of_the_odds() -> None:
    """30 right of 40: log(30 / 10), and by Laplace a variance of 1 / (40 · 0.75 · 0.25)."""
    right = np.array([1.0] * 30 + [0.0] * 10)
    found = fitted(np.ones((40, 1)), right, np.ones(40), np.zeros(1), np.array([1e-9]))
    assert found.mean[0] == pytest.approx(np.log(3.0), abs=1e-5)
    assert found.covariance[0, 0] == pytest.approx(1 / (40 * 0.75 * 0.25), rel=1e-4)


def test_where_the_gradient_is_nought_the_prior_and_the_labels_agree() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((200, 3)), rng.uniform(0.1, 5.0, 200)
    right = (rng.uniform(size=200) < sigmoid(x @ np.array([1.0, -2.0, 0.5]))).astype(float)
    mean, precision = np.array([0.2, 0.0, -0.1]), np.array([1.0, 2.0, 3.0])
    found = fitted(x, right, weight, mean, precision).mean
    slope = x.T @ (weight * (sigmoid(x @ found) - right)) + precision * (found - mean)
    assert slope == pytest.approx(np.zeros(3), abs=1e-3)


def test_what_can_be_separated_stays_finite() -> None:
    x = np.linspace(-1, 1, 50)[:, None]
    found = fitted(x, (x[:, 0] > 0).astype(float), np.full(50, 1e6), np.zeros(1), np.array([1e-4]))
    assert np.isfinite(found.mean).all() and found.mean[0] > 10
    assert np.isfinite(found.covariance).all()


def test_a_label_that_weighs_twice_is_two_labels() -> None:
    z, right = np.array([0.3, -1.0]), np.array([1.0, 0.0])
    twice = offset_of(np.repeat(z, 2), np.repeat(right, 2), np.ones(4), 1.0)
    assert offset_of(z, right, np.full(2, 2.0), 1.0) == pytest.approx(twice)


def test_the_offset_starts_from_what_z_says_already() -> None:
    """What was expected anyway moves nothing: at z = 0 half are right."""
    mean, deviation = offset_of(np.zeros(10), np.array([1.0, 0.0] * 5), np.ones(10), 0.9)
    assert mean == pytest.approx(0.0, abs=1e-6) and deviation < 0.9
    assert offset_of(np.full(10, 3.0), np.array([1.0, 0.0] * 5), np.ones(10), 0.9)[0] < -1.0


LABELS = st.lists(st.tuples(st.floats(-50, 50), st.booleans(), st.floats(0.01, 1000)), max_size=20)


@given(LABELS, st.floats(0.05, 5.0))
def test_every_label_only_makes_the_offset_surer(labels: list[tuple[float, bool, float]], spread: float) -> None:
    z, right, weight = (np.array([float(label[n]) for label in labels]) for n in range(3))
    mean, deviation = offset_of(z, right, weight, spread)
    assert np.isfinite(mean)
    assert 0 < deviation <= spread * (1 + 1e-9)
    if labels and all(right) and max(z) < 20:
        assert mean >= 0
    if labels and not any(right) and min(z) > -20:
        assert mean <= 0


@given(st.lists(st.floats(-1000, 1000), min_size=1))
def test_a_probability_stays_one(z: list[float]) -> None:
    found = sigmoid(np.array(z))
    assert ((found >= 0) & (found <= 1)).all()
    assert sigmoid(-np.array(z)) == pytest.approx(1 - found)
