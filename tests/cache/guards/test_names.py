"""Members of kinds."""

from cache.guards.names import MEMBERS, is_proper


def test_a_country_and_its_people_are_one_member() -> None:
    assert MEMBERS["norway"] == MEMBERS["norwegian"] == MEMBERS["挪威"]


def test_two_members_of_a_kind_differ() -> None:
    assert MEMBERS["cat"][0] == MEMBERS["rabbit"][0]
    assert MEMBERS["cat"] != MEMBERS["rabbit"]


def test_places_are_proper_names_and_animals_are_not() -> None:
    assert is_proper(MEMBERS["oslo"][0])
    assert not is_proper(MEMBERS["cat"][0])


def test_every_word_is_written_small() -> None:
    assert [word for word in MEMBERS if word != word.lower()] == []
