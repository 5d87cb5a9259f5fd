"""Only inflection is undone; words that merely look related stay two words."""

import pytest

from cache.inflection import lemma, plain, singular
from cache.words import listed


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("cats", "cat"), ("boxes", "box"), ("policies", "policy"), ("movies", "movie"), ("addresses", "address"),
        ("watches", "watch"), ("resetting", "reset"), ("changing", "change"), ("renewing", "renew"), ("paying", "pay"),
        ("cancelling", "cancel"), ("dying", "die"), ("shows", "show"),
    ],
)  # fmt: skip
def test_plurals_and_gerunds_come_to_their_base(word: str, base: str) -> None:
    assert plain(word) == base


@pytest.mark.parametrize(
    "word",
    listed("""
    news glasses customs goods means arms species series physics this always status virus gas bus lens less unless
    paris texas james edwards williams windows teams wales parking building meeting setting morning evening string thing
    locked closed sent lost united organ organization universe university general generous https
    """),
)
def test_what_is_another_word_without_its_ending_keeps_it(word: str) -> None:
    assert plain(word) == word


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("university", "universe"), ("organization", "organ"), ("news", "new"), ("united", "unit"), ("sent", "send"),
        ("generous", "general"), ("policy", "police"), ("employer", "employee"), ("glasses", "glass"),
        ("customs", "custom"), ("training", "train"), ("building", "build"), ("hoping", "hop"), ("caring", "car"),
        ("planed", "plan"), ("needed", "need"), ("united", "unite"), ("locked", "lock"), ("physics", "physical"),
    ],
)  # fmt: skip
def test_the_fingerprint_joins_no_two_words(one: str, other: str) -> None:
    assert plain(one) != plain(other)


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("stolen", "steal"),
        ("sent", "send"),
        ("paid", "pay"),
        ("verified", "verify"),
        ("stopped", "stop"),
        ("children", "child"),
    ],
)
def test_the_guards_also_undo_the_past(word: str, base: str) -> None:
    assert lemma(word) == base


@pytest.mark.parametrize("word", ["", "s", "us", "bed", "red", "king", "é"])
def test_short_and_strange_words_stay(word: str) -> None:
    assert lemma(word) == plain(word) == singular(word) == word
