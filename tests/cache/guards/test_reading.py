"""A text is read once."""

from hypothesis import given
from hypothesis import strategies as st

from cache.guards.reading import read


def test_the_same_text_is_not_read_twice() -> None:
    assert read("Where can I park?") is read("Where can I park?")


def test_what_a_reading_holds() -> None:
    seen = read("Hi, why didn't my friend's 2 parcels reach Oslo by May? Thanks")
    assert seen.language == "en"
    assert seen.negations == 1
    assert seen.asking == {"why"}
    assert seen.tense == "past"
    assert {token.low for token in seen.names} == {"oslo", "may"}
    assert [token.value for token in seen.numbers] == [2]
    assert ("mine", "friend's") in seen.owners or ("mine", "friend") in seen.owners


def test_the_same_in_chinese() -> None:
    seen = read("你好，为什么我没有收到2个包裹？")
    assert seen.language == "zh"
    assert seen.negations == 1
    assert seen.asking == {"why"}
    assert [token.value for token in seen.numbers] == [2]


def test_what_is_too_long_to_be_read_is_kept_to_be_compared() -> None:
    assert read("word " * 2_000).rest != ""
    assert read("word").rest == ""


@given(st.text(max_size=150))
def test_any_text_can_be_read(text: str) -> None:
    assert read(text).text == text
