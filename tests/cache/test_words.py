"""Word lists are written as text."""

from cache.words import listed, words


def test_blanks_and_lines_part_words() -> None:
    assert listed("  one two\n   one ") == ("one", "two", "one")
    assert words("one two\n one") == {"one", "two"}
