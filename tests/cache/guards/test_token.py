"""How much a word says is ordered."""

from cache.guards.token import Kind


def test_from_least_to_most() -> None:
    assert Kind.EMPTY < Kind.FRAME < Kind.LIGHT < Kind.CONTENT < Kind.NAME < Kind.NUMBER
