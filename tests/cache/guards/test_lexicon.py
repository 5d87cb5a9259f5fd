"""The word lists do not contradict themselves."""

import pytest

from cache.guards.lexicon import CHINESE, ENGLISH, Lexicon, compiled


def test_groups_opposites_and_phrases() -> None:
    small = compiled("big large; turn_off disable", "big | small; disable | enable turn_on")
    assert small.group["large"] == "big"
    assert small.against["small"] == {"big"}
    assert small.against["disable"] == small.against["turn_off"] == {"enable", "turn_on"}
    assert small.phrases["turn"] == ((("turn", "off"), "turn_off"), (("turn", "on"), "turn_on"))


@pytest.mark.parametrize("lexicon", [ENGLISH, CHINESE])
def test_no_group_holds_two_opposites(lexicon: Lexicon) -> None:
    wrong = [
        (word, other)
        for word, others in lexicon.against.items()
        for other in others
        if word == other or (word in lexicon.group and lexicon.group.get(word) == lexicon.group.get(other))
    ]
    assert wrong == []


@pytest.mark.parametrize("lexicon", [ENGLISH, CHINESE])
def test_what_contradicts_is_contradicted(lexicon: Lexicon) -> None:
    for word, others in lexicon.against.items():
        assert all(lexicon.against.get(other) for other in others), word
