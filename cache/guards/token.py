"""One word of a text, as the guards see it."""

from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction

_PROSE_MARKS = frozenset(".,;:!?\"'()`-–—―…·•~“”‘’«»‹›¿¡、。，；：！？（）【】《》〈〉「」『』～_\u200d\ufe0e\ufe0f°")


def is_prose_mark(mark: str) -> bool:
    """Whether a mark only orders a sentence; any other (≥, ², →, an emoji) is something that is said."""
    return mark in _PROSE_MARKS


class Kind(IntEnum):
    """How much a word says. The order is from least to most."""

    EMPTY = 0  # may come and go: articles, auxiliaries, "really", 的
    FRAME = 1  # pronouns, prepositions, question words: the shape of the sentence
    LIGHT = 2  # "get", "want", "make": a verb with little meaning of its own
    CONTENT = 3
    NAME = 4  # a proper name, a code, a quotation
    NUMBER = 5


@dataclass(frozen=True, slots=True)
class Token:
    """low: as written, lower case.  concept: what it stands for; equal concepts are the same thing.
    keys: every name under which the word lists may know it.  against: the keys that contradict it.
    member: (kind, member) of `names.MEMBERS`, or None.  role: the preposition that governs it, or "".
    value, unit: of a number.  soft: a number that may be left out."""

    low: str
    concept: str
    kind: Kind
    keys: frozenset[str]
    against: frozenset[str] = frozenset()
    member: tuple[str, str] | None = None
    role: str = ""
    value: Fraction | None = None
    unit: str = ""
    soft: bool = False
    sentence: int = 0
