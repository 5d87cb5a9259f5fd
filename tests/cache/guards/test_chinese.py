"""The Chinese word lists hold no slips of the pen."""

from cache.guards import chinese


def test_no_word_is_in_two_groups() -> None:
    said = [word for group in chinese.SYNONYMS.split(";") for word in group.split()]
    assert sorted({word for word in said if said.count(word) > 1}) == []


def test_a_group_of_one_says_nothing() -> None:
    assert [group for group in chinese.SYNONYMS.split(";") if len(group.split()) < 2] == []


def test_every_pair_of_opposites_has_two_sides() -> None:
    sides = [pair.split("|") for pair in chinese.OPPOSITES.split(";")]
    assert [pair for pair in sides if len(pair) != 2 or not all(side.strip() for side in pair)] == []


def test_what_only_looks_like_a_denial_is_none() -> None:
    assert not set(chinese.NEGATIONS) & set(chinese.NOT_NEGATIONS)
