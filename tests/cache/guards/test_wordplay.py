"""Opposites, denials, words of extent, and single words in the place of others, one guard at a time."""

import pytest

from cache.guards import wordplay
from cache.guards.difference import difference
from cache.guards.reading import read
from cache.guards.verdict import Guard


def says(guard: Guard, one: str, other: str) -> str | None:
    a, b = read(one), read(other)
    return guard(a, b, difference(a, b))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("enable it", "disable it"), ("turn it on", "turn it off"), ("lock it", "unlock it"), ("legal ways",
        "illegal ways"),
        ("refundable seats", "non-refundable seats"), ("earlier trains", "later trains"), ("before lunch",
        "after lunch"),
        ("the tenant pays", "the landlord pays"), ("打开", "关闭"), ("优点", "缺点"),
    ],
)  # fmt: skip
def test_opposites_are_opposed(one: str, other: str) -> None:
    assert says(wordplay.opposites, one, other) is not None
    assert says(wordplay.opposites, other, one) is not None


def test_a_word_both_sides_say_is_opposed_to_nothing() -> None:
    assert says(wordplay.opposites, "open and close the door", "close and open the door") is None


def test_denials_are_counted() -> None:
    assert says(wordplay.negation, "Why does it not start?", "Why does it start?") == "1 denials against 0"
    assert says(wordplay.negation, "It isn't true", "It is not true") is None
    assert says(wordplay.negation, "我不去", "我去") is not None
    assert says(wordplay.negation, "能不能去", "能去吗") is None


def test_far_apart_a_word_of_failure_stands_for_a_denial() -> None:
    assert (
        says(
            wordplay.negation,
            "the payment of my ticket was declined",
            "my ticket: payment didn't go through, what is the matter",
        )
        is None
    )


def test_words_of_extent_count() -> None:
    assert says(wordplay.scope, "Only adults swim", "Adults swim") == "only against nothing"
    assert says(wordplay.scope, "the first door", "the last door") == "first against last"
    assert says(wordplay.scope, "the last door", "the final door") is None


def test_one_word_in_the_place_of_another_decides() -> None:
    assert says(wordplay.substitution, "Can I bring my uncle along?", "Can I bring my lawyer along?") is not None
    assert says(wordplay.substitution, "Can I bring my uncle along?", "Can I bring my uncle along, please?") is None


def test_having_to_is_not_being_able_to() -> None:
    assert says(wordplay.modality, "Must I sign the form?", "Can I sign the form?") is not None
    assert says(wordplay.modality, "May I sign the form?", "Can I sign the form?") is None


def test_nothing_in_common_is_an_objection() -> None:
    assert says(wordplay.common_ground, "Where is the pool?", "How do I pay?") == "no word in common"
    assert says(wordplay.common_ground, "Where is the pool?", "pool location") is None
