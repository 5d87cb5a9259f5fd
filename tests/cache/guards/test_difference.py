"""Where two readings differ."""

import pytest

from cache.guards.difference import difference, related
from cache.guards.english_reader import tokens
from cache.guards.reading import read


def test_equal_texts_differ_nowhere() -> None:
    between = difference(read("Where can I park?"), read("where can i park"))
    assert between.only_a == between.only_b == ()
    assert between.likeness == 1.0


def test_only_what_one_side_says_is_left() -> None:
    between = difference(read("How do I paint a wooden door?"), read("How do I paint a door?"))
    assert [token.low for token in between.only_a] == ["wooden"]
    assert between.only_b == ()
    assert between.alike


def test_texts_built_differently_are_not_alike() -> None:
    assert not difference(
        read("How do I paint a door?"), read("my front door needs a new coat of paint, any advice")
    ).alike


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("verify", "verification", True), ("form", "formation", True), ("registrations", "register", True),
        ("university", "universe", False), ("employer", "employee", False), ("policy", "police", False),
        ("organ", "organization", False), ("cat", "car", False), ("contract", "contractor", False),
    ],
)  # fmt: skip
def test_two_shapes_of_one_word_are_related(one: str, other: str, same: bool) -> None:
    (a,), (b,) = tokens(one), tokens(other)
    assert related(a, b) is same
    assert related(b, a) is same
