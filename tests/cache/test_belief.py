"""What labels teach about one scope: as much as they are worth, while they hold; and an alarm when they turn."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.belief import ALARM, HALF_LIFE_S, MOST_LABELS, MOST_WEIGHT, RELIEF, Belief

NOW = 1_700_000_000.0
SPREAD = 0.9


def taught(
    rights: str, *, z: float = 2.0, weight: float = 1.0, at_s: float = NOW, expected_wrong: float = 0.01
) -> Belief:
    """rights: one sign a label, + right, - wrong."""
    belief = Belief(SPREAD)
    for sign in rights:
        belief.add(z, sign == "+", weight, at_s, expected_wrong)
    return belief


def test_who_has_heard_nothing_is_as_unsure_as_sources_differ() -> None:
    assert Belief(SPREAD).offset(NOW) == (0.0, SPREAD)
    assert Belief(SPREAD).count == 0 and not Belief(SPREAD).alarmed


def test_right_labels_lift_and_wrong_ones_lower() -> None:
    up, surer = taught("+" * 40).offset(NOW)
    down, _ = taught("+-" * 20).offset(NOW)
    assert up > 0 > down
    assert surer < SPREAD
    assert taught("+" * 400).offset(NOW)[1] < surer, "more labels, less doubt"


def test_a_label_counts_half_after_its_half_life() -> None:
    fresh, old, older = (taught("-" * 10, at_s=NOW - ago * HALF_LIFE_S).offset(NOW) for ago in (0, 1, 40))
    half = taught("-" * 5).offset(NOW)
    assert fresh[0] < old[0] < older[0] <= 0
    assert old == pytest.approx(half, abs=1e-6)
    assert older == pytest.approx((0.0, SPREAD), abs=1e-6)


def test_labels_fade_also_where_no_new_one_comes() -> None:
    belief = taught("-" * 10)
    fresh = belief.offset(NOW)
    assert belief.offset(NOW + HALF_LIFE_S / 1000) == fresh, "not computed anew for every question"
    assert belief.offset(NOW + 40 * HALF_LIFE_S) == pytest.approx((0.0, SPREAD), abs=1e-6)


def test_a_label_of_the_future_counts_once() -> None:
    assert taught("---", at_s=NOW + 1e6).offset(NOW) == taught("---").offset(NOW)


def test_equal_weights_are_no_weights() -> None:
    assert taught("+-+" * 9, weight=50.0).offset(NOW) == pytest.approx(taught("+-+" * 9).offset(NOW))


def test_a_label_that_stands_for_many_weighs_more_but_never_alone() -> None:
    def mixed(weight: float) -> float:
        belief = taught("+" * 20)
        belief.add(2.0, False, weight, NOW, 0.01)
        return belief.offset(NOW)[0]

    assert mixed(5.0) < mixed(1.0)
    assert mixed(1e12) == pytest.approx(mixed(1e9), abs=1e-6), "bounded"
    mean, deviation = taught("+" * 20).offset(NOW)
    assert mixed(1e9) > mean - MOST_WEIGHT * deviation
    assert mixed(0.001) == mixed(1.0), "nobody is drawn with more than certainty"


def test_unequal_weights_say_less_than_as_many_equal_ones() -> None:
    """Kish's effective number of labels."""
    uneven = Belief(SPREAD)
    for number in range(40):
        uneven.add(2.0, True, 50.0 if number % 10 == 0 else 1.0, NOW, 0.01)
    assert uneven.offset(NOW)[1] > taught("+" * 40).offset(NOW)[1]


@given(st.lists(st.tuples(st.floats(-5, 5), st.booleans(), st.floats(1, 100)), min_size=1, max_size=12), st.randoms())
def test_the_order_of_labels_does_not_move_the_offset(
    labels: list[tuple[float, bool, float]], shuffle: random.Random
) -> None:
    def offset(order: list[tuple[float, bool, float]]) -> tuple[float, float]:
        belief = Belief(SPREAD)
        for z, right, weight in order:
            belief.add(z, right, weight, NOW, 0.01)
        return belief.offset(NOW)

    shuffled = list(labels)
    shuffle.shuffle(shuffled)
    assert offset(shuffled) == pytest.approx(offset(labels), abs=1e-5)


def test_the_oldest_labels_are_given_up() -> None:
    belief = taught("-" * 50 + "+" * MOST_LABELS)
    assert belief.count == MOST_LABELS
    assert belief.offset(NOW)[0] > 0


# ── who says it ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_says_it_again_says_it_once() -> None:
    """Otherwise one caller could talk a scope into anything."""
    belief = Belief(SPREAD)
    for _ in range(200):
        belief.add(2.0, True, 1.0, NOW, 0.01, "bob:7")
    assert belief.count == 1
    assert belief.offset(NOW) == taught("+").offset(NOW)
    for _ in range(200):
        belief.add(2.0, False, 1.0, NOW, 0.01, "bob:7")
    assert belief.offset(NOW) == taught("-").offset(NOW), "his last word counts"
    assert not belief.alarmed


def test_several_people_are_several_labels() -> None:
    belief = Belief(SPREAD)
    for who in ("ann:7", "bob:7", "bob:8", "", ""):
        belief.add(2.0, True, 1.0, NOW, 0.01, who)
    assert belief.count == 5


# ── when something has changed ───────────────────────────────────────────────────────────────────────────────────────


def test_a_run_of_wrong_ones_raises_the_alarm() -> None:
    assert not taught("+" * 200 + "--").alarmed
    assert taught("+" * 200 + "----").alarmed
    wrong = next(count for count in itertools.count() if taught("-" * count).alarmed)
    assert ALARM <= wrong <= ALARM + 1


def test_what_the_budget_allows_is_no_alarm() -> None:
    once_in_a_hundred = ("+" * 99 + "-") * 20
    assert not taught(once_in_a_hundred, expected_wrong=0.01).alarmed
    assert taught(("+" * 9 + "-") * 20, expected_wrong=0.01).alarmed, "ten times as often"


def test_the_alarm_ends_after_enough_right_ones_in_a_row() -> None:
    belief = taught("----")
    for _ in range(RELIEF - 1):
        belief.add(2.0, True, 1.0, NOW, 0.01)
        assert belief.alarmed
    belief.add(2.0, False, 1.0, NOW, 0.01)
    for _ in range(RELIEF - 1):
        belief.add(2.0, True, 1.0, NOW, 0.01)
    assert belief.alarmed, "the row was broken"
    belief.add(2.0, True, 1.0, NOW, 0.01)
    assert not belief.alarmed
    belief.add(2.0, False, 1.0, NOW, 0.01)
    assert not belief.alarmed, "it starts from nothing again"
