"""All guards in order, cheapest and surest first; each is one function of a pair that returns a reason or None.

A guard objects where the two answers *could* differ. It never has to prove that they do: unsure is an objection, and an
objection is a miss.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cache.guards import added, matter, relations, sentence, wordplay
from cache.guards.difference import Difference, difference
from cache.guards.reading import Reading, read

PlainGuard = Callable[[Reading, Reading], str | None]
Guard = Callable[[Reading, Reading, Difference], str | None]

# These look at either text by itself: most traps are caught before the texts are laid side by side.
PLAIN_GUARDS: tuple[tuple[str, PlainGuard], ...] = (
    ("language", matter.language),
    ("length", sentence.length),
    ("numbers", matter.numbers),
    ("units", matter.units),
    ("names", matter.names),
    ("form", sentence.form),
    ("marks", matter.marks),
    ("roles", added.roles),
    ("unseen", added.unseen),
    ("sentences", added.sentences),
    ("orders", added.orders),
    ("added", added.added),
)
GUARDS: tuple[tuple[str, Guard], ...] = (
    ("kinds", matter.kinds),
    ("opposites", wordplay.opposites),
    ("negation", wordplay.negation),
    ("scope", wordplay.scope),
    ("asking", sentence.asking),
    ("persons", sentence.persons),
    ("order", sentence.order),
    ("tense", sentence.tense),
    ("tail", sentence.tail),
    ("common ground", wordplay.common_ground),
    ("modality", wordplay.modality),
    ("small words", relations.small_words),
    ("modes", relations.modes),
    ("actors", relations.actors),
    ("focus", relations.focus),
    ("loose synonyms", wordplay.loose_synonyms),
    ("substitution", wordplay.substitution),
)


@dataclass(frozen=True, slots=True)
class Objection:
    """guard: its name, for metrics.  reason: for a person."""

    guard: str
    reason: str


def objections(asked: Reading, stored: Reading) -> list[Objection]:
    """Everything that speaks against answering `asked` with the answer to `stored`; empty when every guard agrees."""
    return [Objection(name, reason) for name, reason in _each(asked, stored)]


def first_objection(asked_text: str, stored_text: str) -> tuple[str, str] | None:
    """(the guard's name, its reason for a person), or None when every guard agrees."""
    return next(_each(read(asked_text), read(stored_text)), None)


def _each(asked: Reading, stored: Reading) -> Iterator[tuple[str, str]]:
    if asked.text == stored.text and asked.language != "other":
        return
    for name, plain_guard in PLAIN_GUARDS:
        if (reason := plain_guard(asked, stored)) is not None:
            yield name, reason
    between = difference(asked, stored)
    for name, guard in GUARDS:
        if (reason := guard(asked, stored, between)) is not None:
            yield name, reason
