"""The bar: what it promises was counted, and a stricter budget never serves more."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.calibration import (
    EXPECTED,
    FEATURES,
    Calibration,
    bars_of,
    from_json,
    lead,
    probability,
    read_calibration,
    terms,
    to_json,
)
from cache.reader import DEFAULT_FOLDER

WEIGHTS = (0.5, 3.0, 1.0, 0.4, 0.1, 2.0, -0.5, -1.5, -0.7, 1.0, 0.5, -2.0)
FACTS = (0.9, 0.0, 2.0, 1.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0)
MADE = Calibration("test 1", "e", "r", 0.5, WEIGHTS, 0.9, ((0.1, 0.4), (0.02, 0.8), (0.005, 0.95)))


def test_a_score_is_the_sum_of_its_terms() -> None:
    assert len(WEIGHTS) == len(terms(FACTS)) == len(FEATURES) + 2
    assert MADE.z(FACTS) == pytest.approx(0.5 + 3.0 * 0.9 + 0.4 * 2.0 + 0.1 * 1.0 + 2.0 * 0.1)
    chinese = (0.9, 1.0, *FACTS[2:])
    assert MADE.z(chinese) == pytest.approx(MADE.z(FACTS) + 1.0 - 2.0 * 0.9), "a cosine means something else there"


def test_labels_tighten_early_and_loosen_late() -> None:
    """Below zero an offset counts at once, above zero only as far as it is sure."""
    plain = MADE.p_low(FACTS, 0.0, 0.0)
    assert plain == pytest.approx(probability(MADE.z(FACTS)))
    assert MADE.p_low(FACTS) == MADE.p_low(FACTS, 0.0, MADE.spread) == plain, "a new scope starts from the whole"
    assert MADE.p_low(FACTS, -1.0, 0.9) == MADE.p_low(FACTS, -1.0, 0.0) < plain
    assert MADE.p_low(FACTS, 0.5, 0.9) == plain < MADE.p_low(FACTS, 1.0, 0.9) < MADE.p_low(FACTS, 1.0, 0.1)


@given(st.floats(-20, 20), st.floats(-20, 20), st.floats(0, 3))
def test_p_low_grows_with_z_and_shrinks_with_doubt(one: float, two: float, deviation: float) -> None:
    low, high = sorted((one, two))
    assert MADE.p_low(FACTS, low, deviation) <= MADE.p_low(FACTS, high, deviation)
    assert 0.0 <= MADE.p_low(FACTS, one, deviation) <= MADE.p_low(FACTS, one, 0.0) <= 1.0


def test_the_bar_is_the_lowest_that_keeps_the_budget() -> None:
    assert [MADE.bar(budget) for budget in (0.5, 0.1, 0.05, 0.02, 0.01, 0.005)] == [0.4, 0.4, 0.8, 0.8, 0.95, 0.95]
    assert MADE.bar(0.004) > 1.0, "even the surest were wrong more often: nothing is served"
    assert MADE.bar(1.0) == 0.0
    assert replace(MADE, bars=()).bar(0.3) > 1.0


DECIDED = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 0.3), st.booleans(), st.sampled_from([0.5, 1.0, 3.0])), max_size=60
)


@given(DECIDED, st.floats(0, 1), st.floats(0, 1))
def test_a_stricter_budget_never_lowers_the_bar(
    decided: list[tuple[float, float, bool, float]], one: float, two: float
) -> None:
    made = replace(MADE, bars=_bars(decided))
    strict, loose = sorted((one, two))
    assert made.bar(strict) >= made.bar(loose)


@given(DECIDED)
def test_what_a_bar_promises_lies_between_what_was_counted_and_what_was_expected(
    decided: list[tuple[float, float, bool, float]],
) -> None:
    """Weighed as if the expectation had been seen in EXPECTED more decisions."""
    for share, low in _bars(decided):
        served = [each for each in decided if round(each[0], 5) >= low]
        weight = sum(each[3] for each in served)
        counted = sum(each[3] * each[2] for each in served) / weight
        expected = sum(each[3] * (1 - _right(each)) for each in served) / weight
        assert share >= min(counted, expected) - 1e-4
        # Of several decisions with one p_low all or none are served; the promise is for all.
        assert share == pytest.approx((weight * counted + EXPECTED * expected) / (weight + EXPECTED), abs=1e-4)


def test_none_wrong_among_ten_proves_nothing_and_one_does_not_decide() -> None:
    ten = [0.9] * 10
    assert bars_of(ten, [0.95] * 10, [False] * 10, [1.0] * 10) == ((pytest.approx(40 * 0.05 / 50, abs=1e-5), 0.9),)
    ((share, _),) = bars_of(ten, [0.95] * 10, [True] + [False] * 9, [1.0] * 10)
    assert 0.05 < share < 0.1


def test_many_counted_outweigh_what_was_expected() -> None:
    count = 10_000
    ((share, _),) = bars_of([0.9] * count, [0.999] * count, [n % 20 == 0 for n in range(count)], [1.0] * count)
    assert share == pytest.approx(0.05, abs=3e-4)


def test_the_bars_fall_in_share_and_rise_in_certainty() -> None:
    count = 2000
    lows = [n / count for n in range(count)]
    bars = bars_of(lows, lows, [n * 7919 % count > n for n in range(count)], [1.0] * count)
    assert len(bars) > 5
    assert [share for share, _ in bars] == sorted((share for share, _ in bars), reverse=True)
    assert [low for _, low in bars] == sorted(low for _, low in bars)
    assert bars_of([], [], [], []) == ()


@pytest.mark.parametrize(
    ("values", "at", "found"), [([3.0, 1.0], 0, 2.0), ([3.0, 1.0], 1, -2.0), ([3.0], 0, 9.0), ([1.0, 4.0, 2.0], 1, 2.0)]
)
def test_a_lead_is_over_the_best_of_the_others(values: list[float], at: int, found: float) -> None:
    assert lead(values, at, 9.0) == found


# ── on disk ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_calibration_comes_back_as_it_was_written() -> None:
    assert from_json(to_json(MADE)) == MADE
    assert from_json(to_json(MADE).encode()) == MADE


def test_the_one_that_ships_can_be_read() -> None:
    shipped = read_calibration(DEFAULT_FOLDER / "trust.json")
    assert shipped is not None
    assert shipped.bar(0.01) <= 1.0, "the default budget serves something"
    assert shipped.bar(0.01) > shipped.bar(0.05)
    agreement, known = shipped.weights[1 + FEATURES.index("agreement")], shipped.weights[1 + FEATURES.index("known")]
    assert agreement == known == 0.0, "nobody's labels are known where nobody trained"


def test_where_there_is_none_there_is_none(tmp_path: Path) -> None:
    assert read_calibration(tmp_path / "trust.json") is None


def _without(name: str) -> str:
    said = json.loads(to_json(MADE))
    del said[name]
    return json.dumps(said)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "3", '"text"', "{}", _without("weights"), _without("bars"), _without("reader"),
        json.dumps({**json.loads(to_json(MADE)), "weights": [1.0]}),
        json.dumps({**json.loads(to_json(MADE)), "weights": [math.nan, *WEIGHTS[1:]]}),
        json.dumps({**json.loads(to_json(MADE)), "spread": "wide"}),
        json.dumps({**json.loads(to_json(MADE)), "bars": [0.1, 0.2]}),
    ],
)  # fmt: skip
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trust.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"trust\.json is not a calibration: .+"):
        read_calibration(path)


def test_what_is_no_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    path.mkdir()
    with pytest.raises(ValueError, match=r"trust\.json is not a calibration"):
        read_calibration(path)


def _right(decided: tuple[float, float, bool, float]) -> float:
    return min(1.0, decided[0] + decided[1])


def _bars(decided: list[tuple[float, float, bool, float]]) -> tuple[tuple[float, float], ...]:
    return bars_of(
        [each[0] for each in decided], [_right(each) for each in decided], [each[2] for each in decided],
        [each[3] for each in decided],
    )  # fmt: skip
