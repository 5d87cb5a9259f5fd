"""An English text, cut into numbers, names and words in base form."""

import pytest

from cache.guards.english_reader import tokens
from cache.guards.token import Kind, Token


def concepts(text: str, least: Kind = Kind.CONTENT) -> list[str]:
    return [token.concept.strip() for token in tokens(text) if token.kind >= least]


def named(text: str) -> list[str]:
    return [token.low for token in tokens(text) if token.kind is Kind.NAME]


def only(text: str, low: str) -> Token:
    (token,) = [token for token in tokens(text) if token.low == low]
    return token


def test_words_come_to_their_base_and_to_their_group() -> None:
    assert concepts("Purchasing stamps") == concepts("buy a stamp") == ["buy", "stamp"]


def test_a_phrase_is_one_word_even_torn_apart() -> None:
    assert concepts("turn off the lamp") == ["disable", "lamp"]
    assert concepts("turn the lamp off") == ["disable", "lamp"]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a 30-year loan", ["360 months"]), ("two weeks", ["20160 minutes"]), ("14 days", ["20160 minutes"]),
        ("5 km or 5km", ["5 kilometre", "5 kilometre"]), ("20 percent", ["20 percent"]), ("20%", ["20 percent"]),
        ("at five pm", ["1020 clock"]), ("a four-bed house", ["4"]), ("the third door", ["3 #"]),
        ("9:15", ["555 clock"]),
    ],
)  # fmt: skip
def test_numbers_have_a_value_and_a_unit(text: str, numbers: list[str]) -> None:
    assert [token.concept.strip() for token in tokens(text) if token.kind is Kind.NUMBER] == numbers


def test_one_that_stands_for_a_thing_is_no_number() -> None:
    assert [token.kind for token in tokens("a new one") if token.low == "one"] != [Kind.NUMBER]
    assert only("one egg", "one").soft


def test_capitals_inside_a_sentence_make_a_name() -> None:
    assert named("Does Ada Quill sell maps?") == ["ada", "quill"]
    assert named("Maps of the town") == []


def test_in_a_headline_capitals_say_nothing() -> None:
    assert named("Where Do I Sell My Maps?") == []
    assert named("WHERE DO I SELL MAPS") == []


@pytest.mark.parametrize(
    ("text", "name"),
    [("the K550 mixer", "k550"), ("read /etc/hosts", "/etc/hosts"), ("say 'so long'", "so long"), ("2fa code", "2fa")],
)
def test_codes_paths_and_quotations_are_names(text: str, name: str) -> None:
    assert name in named(text)


def test_may_is_a_month_only_where_it_can_be_one() -> None:
    assert named("May I go in May?") == ["may"]
    assert named("may I go") == []


def test_a_known_name_that_is_a_common_word_needs_its_capital() -> None:
    assert named("eat an apple") == []
    assert named("Is Oslo in Norway?") == ["oslo", "norway"]


def test_a_noun_knows_its_preposition() -> None:
    assert only("move it from my desk to the shelf", "desk").role == "from"
    assert only("move it from my desk to the shelf", "shelf").role == "to"


def test_a_plague_has_one_name() -> None:
    assert concepts("COVID-19") == concepts("covid 19") == concepts("the corona virus") == ["covid"]


def test_denials_are_heard_in_each_spelling() -> None:
    for text in ("it does not work", "it doesn't work", "it doesnt work", "it cannot work"):
        assert [token.low for token in tokens(text)].count("not") == 1
