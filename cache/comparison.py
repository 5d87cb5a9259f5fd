"""Do two answers to one question say the same? Agree, disagree, or unsure. Pure.

The comparator of the shadow checks: a fresh answer against the one that was served. It reads what can be read with
certainty (the same words; a yes against a no; other numbers with the same unit; other codes), and leaves the rest to
the cosine of the two answers, with a wide band where it says `unsure`. It errs, and its errors are measured beside it
(`proxy.measured`): that is what makes its counts worth something, not that it were always right.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from cache.guards import Reading, first_objection, read
from cache.guards.difference import difference
from cache.guards.quantities import durations
from cache.policy import sounds_like_an_apology
from cache.wording import folded

# Where the cosine of two whole answers decides by itself. Shipped embedder, answers of SmolLM2-135M at temperature 0.7
# (CPU, 2026-11): to unrelated questions 95 % lie below 0.23, to near but different ones 95 % below 0.75.
SAME = 0.80
OTHER = 0.30
_LOPSIDED = 4.0  # one answer is so many times longer than the other
_SHORT = 25  # words; in so short an answer each denial counts
_BUILT_ALIKE = 0.5  # likeness of two short answers from which a denial in one of them is a contradiction
_PASSAGE = 600  # characters that an embedder surely reads in English
_PASSAGE_ZH = 200  # likewise in Chinese, where a character is a token
_PASSAGES = 8  # of one answer; more is not read

_MARKERS = re.compile(r"^\s*(?:\(?\d{1,2}[.):、]|[-*•#>]+)\s*", re.MULTILINE)  # of lists and headings
_NOT_SAID = re.compile(r"[\W_]+")
_YES = re.compile(
    r"^\W*(?:yes|yeah|yep|certainly|absolutely|of course|是的?|可以|能|有的|对|会|当然)(?=\W|$)", re.IGNORECASE
)
_NO = re.compile(
    r"^\W*(?:no|nope|not really|unfortunately not|不是?|不可以|不能|没有|不会|不行|否)(?=\W|$)", re.IGNORECASE
)
_CODE = re.compile(
    r"https?://[^\s)>\]\"'，。]+|[\w.+-]+@[\w-]+\.[\w.]+|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9]+(?:-[A-Za-z0-9]+)+\b"
    r"|\b[A-Z]{1,5}\d{2,}\b"
)
_SENTENCE = re.compile(r"(?<=[.!?。！？\n])\s*")


class Agreement(StrEnum):
    AGREE = "agree"
    DISAGREE = "disagree"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Comparison:
    """reason: for a person.  cosine: of the two answers, in [-1, 1]; None where none was made."""

    agreement: Agreement
    reason: str
    cosine: float | None = None


def at_a_glance(fresh: str, served: str) -> Comparison | None:
    """What can be told without an embedder; None = only a cosine can help."""
    a, b = _said(fresh), _said(served)
    if not a or not b:
        return Comparison(Agreement.UNSURE, "an answer is empty")
    if a == b:
        return Comparison(Agreement.AGREE, "the same words")
    if sounds_like_an_apology(fresh) or sounds_like_an_apology(served):
        return Comparison(Agreement.UNSURE, "one of them apologises or refuses")
    found = _contradiction(fresh, served)
    return None if found is None else Comparison(Agreement.DISAGREE, found)


def by_cosine(fresh: str, served: str, cosine: float | None) -> Comparison:
    """For two answers that do not contradict each other openly. cosine: None = there is no embedder, or it was late."""
    if cosine is None:
        return Comparison(Agreement.UNSURE, "no vector")
    sizes = sorted((len(_said(fresh)), len(_said(served))))
    if cosine < OTHER:
        return Comparison(Agreement.DISAGREE, f"cosine {cosine:.3f}: about something else", cosine)
    if cosine >= SAME and sizes[1] <= _LOPSIDED * sizes[0]:
        return Comparison(Agreement.AGREE, f"cosine {cosine:.3f}", cosine)
    if cosine >= SAME:
        return Comparison(Agreement.UNSURE, f"one answer is {sizes[1] / max(1, sizes[0]):.0f} times longer", cosine)
    return Comparison(Agreement.UNSURE, f"cosine {cosine:.3f} tells neither", cosine)


def passages(text: str) -> list[str]:
    """An answer in pieces that an embedder reads, whole sentences where they fit; at most so many that a long answer
    delays nobody's question behind it."""
    room = _PASSAGE_ZH if read(text[:400]).chinese else _PASSAGE
    pieces: list[str] = []
    for sentence in _SENTENCE.split(text):
        for start in range(0, len(sentence), room):
            part = sentence[start : start + room]
            if pieces and len(pieces[-1]) + len(part) < room:
                pieces[-1] = f"{pieces[-1]} {part}"
            else:
                pieces.append(part)
    return [piece for piece in pieces if piece.strip()][:_PASSAGES]


def known_other(asked: str, others: Sequence[str]) -> int | None:
    """Which of these questions is surely another one, and yet the nearest: its answer is a *known bad* one for `asked`.

    Surely another: a guard objects. Where the guard was too strict, its answer fits after all, the comparator looks
    worse than it is, and the corrected rate is too high. The nearest: a far question would be too easy, and the rate
    too low. Some of that is left: what is served wrongly has passed every guard, and may be subtler than their catch.
    None: nothing of the kind is among them."""
    reading = read(asked)
    best, nearest = None, -1.0
    for place, other in enumerate(others):
        if first_objection(asked, other) is None:
            continue
        likeness = difference(reading, read(other)).likeness
        if likeness > nearest:
            best, nearest = place, likeness
    return best


def _said(text: str) -> str:
    return _NOT_SAID.sub("", folded(_MARKERS.sub("", text)).lower())


def _contradiction(fresh: str, served: str) -> str | None:
    """What one answer says and the other denies, in words; None when nothing of the kind can be read."""
    # Not the remembering `read`: answers are long, and would push the questions out of its memory.
    a, b = (read.__wrapped__(_MARKERS.sub("", text)) for text in (fresh, served))
    if {a.language, b.language} == {"en", "zh"}:
        return f"{a.language} against {b.language}"
    if (_YES.match(fresh) and _NO.match(served)) or (_NO.match(fresh) and _YES.match(served)):
        return "yes against no"
    return _other_numbers(a, b) or _other_codes(fresh, served) or _denied(a, b)


def _other_numbers(a: Reading, b: Reading) -> str | None:
    """Both name amounts of one unit, and not one of them is the same: 30 days against 14 days.

    A number without a unit counts only where each says exactly one: a long answer counts and dates many things."""
    here, there = _amounts(a), _amounts(b)
    for unit in here.keys() & there.keys():
        if unit == "" and not len(here[unit]) == len(there[unit]) == 1:
            continue
        if here[unit].isdisjoint(there[unit]):
            return f"{_listed(here[unit])} against {_listed(there[unit])} {unit}".rstrip()
    return None


def _amounts(reading: Reading) -> dict[str, set[Fraction]]:
    found: dict[str, set[Fraction]] = {}
    for token in reading.numbers:
        if token.value is None or token.soft or token.unit == "#":
            continue
        value, unit = durations(token.value, token.unit)
        found.setdefault(unit, set()).add(value)
    return found


def _listed(values: set[Fraction]) -> str:
    return ", ".join(f"{float(value):g}" for value in sorted(values)[:3])


def _other_codes(fresh: str, served: str) -> str | None:
    """Both name addresses or codes, and share none."""
    here, there = {_code(match) for match in _CODE.findall(fresh)}, {_code(match) for match in _CODE.findall(served)}
    if here and there and here.isdisjoint(there):
        return f"{min(here)} against {min(there)}"
    return None


def _code(found: str) -> str:
    return found.rstrip(".,;/").lower()


def _denied(a: Reading, b: Reading) -> str | None:
    """Two short answers that are built alike, and one of them denies what the other says."""
    if max(len(a.tokens), len(b.tokens)) > _SHORT or a.negations % 2 == b.negations % 2:
        return None
    return "only one side denies it" if difference(a, b).likeness >= _BUILT_ALIKE else None
