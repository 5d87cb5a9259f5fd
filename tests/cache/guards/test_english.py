"""The English word lists hold no slips of the pen."""

from cache.guards import english


def test_no_word_is_in_two_groups() -> None:
    said = [word for group in english.SYNONYMS.split(";") for word in group.split()]
    assert sorted({word for word in said if said.count(word) > 1}) == []


def test_a_group_of_one_says_nothing() -> None:
    assert [group for group in english.SYNONYMS.split(";") if len(group.split()) < 2] == []


def test_every_pair_of_opposites_has_two_sides() -> None:
    sides = [pair.split("|") for pair in english.OPPOSITES.split(";")]
    assert [pair for pair in sides if len(pair) != 2 or not all(side.strip() for side in pair)] == []


def test_a_word_of_extent_has_one_meaning() -> None:
    assert english.SCOPE["entire"] == english.SCOPE["all"]
    assert english.SCOPE["first"] != english.SCOPE["last"]
