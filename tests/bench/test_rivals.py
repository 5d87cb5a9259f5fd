"""A rival that is built badly flatters us: his arithmetic is checked like our own."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def rivals() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rivals", Path(__file__).with_name("rivals.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rivals"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def directions(*degrees: float) -> np.ndarray:
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_a_plain_threshold_serves_the_nearest_and_stores_what_missed(rivals: ModuleType) -> None:
    vectors = directions(0, 1, 90, 91, 2)
    assert rivals.plain(vectors, ["a", "a", "b", "c", "a"], 0.99) == rivals.Served(5, 3, 1)
    assert rivals.plain(vectors, ["a", "a", "b", "c", "a"], 0.9999999) == rivals.Served(5, 0, 0)


def test_the_oracle_takes_the_most_hits_that_keep_the_limit(rivals: ModuleType) -> None:
    runs = [rivals.Served(100, 10, 0), rivals.Served(100, 40, 1), rivals.Served(100, 90, 30)]
    assert rivals.best_plain(runs, of_queries=0.01).hits == 40
    assert rivals.best_plain(runs, of_hits=0.01).hits == 10
    assert rivals.best_plain(runs[2:], of_hits=0.01).hits == 0


def test_newton_finds_the_turning_point_that_made_the_labels(rivals: ModuleType) -> None:
    chance = np.random.default_rng(0)
    cosines = chance.uniform(0.5, 1.0, 4000)
    right = chance.random(4000) < 1 / (1 + np.exp(-30 * (cosines - 0.8)))
    turn, slope, variance = rivals.newton(cosines, right.astype(float))
    assert turn == pytest.approx(0.8, abs=0.01)
    assert slope == pytest.approx(30, rel=0.15)
    assert abs(turn - 0.8) < 4 * np.sqrt(variance)


def test_separable_labels_leave_an_uncertainty_that_shrinks_with_their_number(rivals: ModuleType) -> None:
    few, many = rivals.Observed(), rivals.Observed()
    for observed, count in ((few, 4), (many, 40)):
        for step in range(count):
            observed.add(0.9 + 0.002 * (step % 5), True)
            observed.add(0.7 + 0.002 * (step % 5), False)
    assert 0 < many.fitted()[2] < few.fitted()[2]
    assert 0.7 < many.fitted()[0] < 0.9


def test_an_entry_that_was_right_near_by_is_explored_less(rivals: ModuleType) -> None:
    observed = rivals.Observed()
    for step in range(12):
        observed.add(0.92 + 0.005 * (step % 4), True)
        observed.add(0.5 + 0.01 * step, False)
    near, far = (rivals.explores(observed, cosine, 0.02) for cosine in (0.97, 0.6))
    assert near < far
    assert far > 0.9
    assert rivals.explores(observed, 0.97, 0.05) <= near


def test_nothing_is_served_before_four_labels(rivals: ModuleType) -> None:
    vectors = np.repeat(directions(0), 5, axis=0)
    assert rivals.vcache(vectors, ["a"] * 5, 0.5, 0).hits == 0
    assert rivals.vcache(np.repeat(directions(0), 300, axis=0), ["a"] * 300, 0.1, 0).hits > 100
