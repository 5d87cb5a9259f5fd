"""What a sentence asks for, when, and in whose voice."""

import pytest

from cache.guards import shape


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Why is it blue?", "why"), ("How come it is blue?", "why"), ("What is the reason for this?", "why"),
        ("How do I pay?", "how"), ("steps to pay", "how"), ("What is the best way to pay?", "how"),
        ("How much is it?", "how much"), ("What does it cost?", "how much"), ("How many are there?", "how many"),
        ("How long does it take?", "how long"), ("How often does it run?", "how often"), ("When does it run?", "when"),
        ("What time does it run?", "when"), ("Where is it?", "where"), ("In which city is it?", "where"),
        ("Who made it?", "who"), ("What is it?", "what"), ("Which one?", "which"), ("Is it blue?", "yes or no"),
    ],
)  # fmt: skip
def test_the_kind_of_answer_that_is_wanted(text: str, kind: str) -> None:
    assert shape.asked_for(text) == {kind}


def test_when_and_where_inside_a_sentence_ask_for_nothing() -> None:
    assert shape.asked_for("How do I pay when it rains?") == {"how"}
    assert shape.asked_for("How do I find someone who can pay?") == {"how"}


@pytest.mark.parametrize(
    ("text", "tense"),
    [
        ("Is it open?", "present"),
        ("Was it open?", "past"),
        ("Will it open?", "future"),
        ("Has it been opened?", "perfect"),
    ],
)
def test_the_time_of_which_it_speaks(text: str, tense: str) -> None:
    assert shape.tense(text) == tense


def test_wishes_for_the_shape_of_the_answer() -> None:
    assert shape.form("Explain it in one sentence") == {"in one sentence"}
    assert shape.form("用一句话解释") == {"用一句话"}
    assert shape.form("Explain it") == frozenset()


def test_active_and_passive() -> None:
    assert shape.is_passive("Was Anna called by Ben?")
    assert not shape.is_passive("Did Anna call Ben by night?")


def test_who_speaks_of_whom() -> None:
    assert shape.voices("Can you tell me what I should call you?") == ("i", "you")
    assert shape.voices("What will you call me?") == ("you", "i")
