"""Question forms as families of frames: what is matched by one frame of a family can be said in any other.

A family is a block of a file (frames/*.txt), its frames between bars. `{x}` and `{y}` stand for what the question is
about, `{x:ing}` is an English verb phrase as a gerund. A frame that begins with `>` is said and never matched; one with
`!` sounds alike and asks for something else; every other one is matched and said."""

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

Fits = Callable[[dict[str, str]], bool]

_SLOT = re.compile(r"\{(\w)(:ing)?\}")
_ENDS = "？?。！!. "
# One syllable, or the stress on the last: the consonant is doubled.
_DOUBLED = frozenset(
    [
        "get",
        "set",
        "put",
        "cut",
        "run",
        "stop",
        "plan",
        "swap",
        "ship",
        "drop",
        "let",
        "sit",
        "swim",
        "quit",
        "beg",
        "log",
        "plug",
        "tap",
        "win",
        "dig",
        "shop",
        "spin",
        "step",
        "submit",
        "begin",
        "refer",
        "transfer",
        "forget",
        "cancel",
        "travel",
        "label",
        "model",
        "grab",
        "trim",
        "chop",
        "opt",
        "top",
        "strip",
        "unsubscrib",
        "rip",
        "zip",
        "pin",
        "wrap",
        "scan",
        "ban",
        "hit",
        "shut",
        "bet",
        "rub",
        "pop",
        "tip",
        "trap",
        "unzip",
        "unplug",
        "reset",
        "split",
    ]
)


@dataclass(frozen=True, slots=True)
class Family:
    """matched: patterns with the slots as groups.  said, missed: frames that keep the question, and that change it."""

    matched: tuple[re.Pattern[str], ...]
    said: tuple[str, ...]
    missed: tuple[str, ...]


def families(path: Path, slot: str, *, spaced: bool) -> list[Family]:
    """path: a file of families.  slot: the pattern of what a slot may hold.  spaced: whether words stand apart, and
    case does not matter."""
    made = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        frames = [frame.strip() for frame in re.split(r"[|\n]", block)]
        matched = [frame for frame in frames if frame[0] not in ">!" and ":ing" not in frame]
        made.append(Family(
            tuple(_pattern(frame, slot, spaced) for frame in matched),
            tuple(frame.removeprefix(">").strip() for frame in frames if frame[0] != "!"),
            tuple(frame[1:].strip() for frame in frames if frame[0] == "!"),
        ))  # fmt: skip
    return made


def _pattern(frame: str, slot: str, spaced: bool) -> re.Pattern[str]:
    parts, at = [], 0
    for match in _SLOT.finditer(frame):
        parts += [re.escape(frame[at : match.start()]), f"(?P<{match[1]}>{slot})"]
        at = match.end()
    return re.compile("".join([*parts, re.escape(frame[at:])]), re.IGNORECASE if spaced else 0)


def gerund(phrase: str) -> str | None:
    """cancel my order -> cancelling my order; None where the first word is no plain verb."""
    verb, _, rest = phrase.partition(" ")
    if not re.fullmatch(r"[a-z]{2,}", verb) or verb.endswith("ly") or verb in _NO_VERBS:
        return None
    if verb in _DOUBLED:
        said = verb + verb[-1] + "ing"
    elif verb.endswith("ie"):
        said = verb[:-2] + "ying"
    elif verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        said = verb[:-1] + "ing"
    else:
        said = verb + "ing"
    return f"{said} {rest}".rstrip()


_NO_VERBS = frozenset(
    [
        "not",
        "the",
        "my",
        "a",
        "an",
        "also",
        "just",
        "still",
        "only",
        "even",
        "best",
        "then",
        "first",
        "in",
        "on",
        "at",
        "from",
        "without",
        "with",
        "for",
        "to",
        "it",
        "they",
        "there",
    ]
)


def filled(frame: str, slots: dict[str, str]) -> str | None:
    said = frame
    for match in _SLOT.finditer(frame):
        value = slots.get(match[1])
        if value is None:
            return None
        if match[2]:
            value = gerund(value)
            if value is None:
                return None
        said = said.replace(match.group(), value)
    return said


def matches(text: str, known: Iterable[Family], fits: Fits) -> list[tuple[Family, dict[str, str]]]:
    """The families that the text is of, with what fills the slots."""
    core = text.strip(_ENDS)
    found = []
    for family in known:
        for pattern in family.matched:
            match = pattern.fullmatch(core)
            if match and fits(match.groupdict()):
                found.append((family, match.groupdict()))
                break
    return found


def said_otherwise(text: str, known: Iterable[Family], fits: Fits, rng: random.Random, *, missing: bool) -> str | None:
    """In another frame of a family that the text is of.  missing: in one that asks for something else."""
    found = [pair for pair in matches(text, known, fits) if not missing or pair[0].missed]
    if not found:
        return None
    family, slots = rng.choice(found)
    core = text.strip(_ENDS).lower()
    for frame in rng.sample(family.missed if missing else family.said, len(family.missed if missing else family.said)):
        said = filled(frame, slots)
        if said and said.lower() != core:
            return said
    return None


@lru_cache(None)
def alternatives(lines: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Words that may stand for one another, as (word, the others): a line is a group, words between bars."""
    made = []
    for line in lines.strip().split("\n"):
        group = tuple(word.strip() for word in line.split("|"))
        made += [(word, tuple(other for other in group if other != word)) for word in group]
    return tuple(sorted(made, key=lambda item: -len(item[0])))
