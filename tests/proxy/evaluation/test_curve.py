"""Risk against coverage, by hand and at any input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.evaluation.curve import curves, sweep
from proxy.evaluation.run import Scored


def test_the_strictest_threshold_comes_first() -> None:
    points = sweep([(0.7, False), (0.9, True), (0.8, True)], 10)
    assert [(point.coverage, point.risk, point.score) for point in points] == [
        (0.1, 0.0, 0.9), (0.2, 0.0, 0.8), (0.3, pytest.approx(1 / 3), 0.7),
    ]  # fmt: skip


def test_equal_scores_cannot_be_told_apart_by_a_threshold() -> None:
    points = sweep([(0.9, True), (0.9, False)], 2)
    assert [(point.coverage, point.risk) for point in points] == [(1.0, 0.5)]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=50))
def test_coverage_grows_and_ends_with_everything(scores: list[tuple[float, bool]]) -> None:
    points = sweep(scores, max(1, len(scores)))
    assert [point.coverage for point in points] == sorted({point.coverage for point in points})
    if scores:
        assert points[-1].coverage == 1.0
        assert points[-1].risk == pytest.approx(sum(not right for _, right in scores) / len(scores))


def test_what_was_objected_to_is_on_the_plain_curve_only() -> None:
    scored = [Scored(0.99, True, 0.9, True), Scored(None, False, 0.95, False), Scored(None, False, None, False)]
    told = curves("shop", scored, 4, (0.25, 0.0), 0.01)
    assert [point.coverage for point in told.trust] == [0.25]
    assert [(point.coverage, point.risk) for point in told.cosine] == [(0.25, 1.0), (0.5, 0.5)]
    assert told.by == "P(right)"


def test_a_score_that_is_no_estimate_is_not_called_one() -> None:
    assert curves("shop", [Scored(0.9, True, 0.9, True, False)], 1, None, 0.01).by == "cosine, after the guards"
