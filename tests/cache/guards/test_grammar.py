"""The small words of English."""

from cache.guards import english, grammar


def test_empty_words_deny_nothing_and_place_nothing() -> None:
    assert grammar.EMPTY & (english.NEGATIONS | grammar.PREPOSITIONS | set(english.SCOPE)) == {"of"}


def test_a_word_has_one_weight() -> None:
    assert not grammar.EMPTY & grammar.FRAME
    assert not grammar.FRAME & grammar.LIGHT
    assert not grammar.EMPTY & grammar.LIGHT
