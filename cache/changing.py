"""What changed between two system prompts of one assistant, and the pattern that would leave it out of the key. Pure.

Only what is made anew for each request is ever proposed: dates, times, ids, and names where the words before say that
a user is named. Whether somebody's plan is Premium decides answers, however often it changes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cache.templates import Pattern, read_pattern, take_out

_SEGMENT = re.compile(r"[^\n.!?。！？]*(?:[.!?。！？](?=\s)|[。！？]|[.!?](?!\s)|\n|$)\s*")
_TOKEN = re.compile(r"\s+|[A-Za-z0-9_]+|[^\sA-Za-z0-9_]")
_PROPOSED = ("date", "time", "datetime", "id", "name")
_NAMES_SOMEBODY = re.compile(
    r"(?:\b(?:user|username|name|named|called|customer|client|guest|visitor|caller|hello|hi|dear|(?:talk|speak|chatt)ing"
    r" (?:to|with))(?:'s name)?|用户|姓名|名字|客户|顾客|称呼|名叫)\W{0,3}"
    r"(?:is\b|are\b|named\b|called\b|名?[是叫为])?\W{0,3}$",
    re.IGNORECASE,
)
# The year of a date and the hour of a time change seldom, and belong to them all the same.
_BEGUN = re.compile(r"(?:[A-Za-z_-]{0,8}\d[A-Za-z0-9:./+_年月日-]*[\s,]*)+$")
_LONGEST = 8_000  # characters that are compared
_SHOWN = 60
_LEAD_TOKENS = 12
_ALIKE = 0.5  # of the characters of the longer one


@dataclass(frozen=True, slots=True)
class Changed:
    """before, after: the first part that differs.  patterns: what would make both prompts one key, where something
    does; empty where answers may depend on what changes."""

    before: str
    after: str
    patterns: tuple[str, ...]


def alike(before: str, after: str) -> bool:
    """Whether the one is the other with something changed in it: at least half of it is the same."""
    before, after = before[:_LONGEST], after[:_LONGEST]
    differ = sum(max(len(one), len(other)) for one, other, _ in _differences(before, after))
    return differ <= (1 - _ALIKE) * max(len(before), len(after))


def changed(before: str, after: str) -> Changed | None:
    """None where these are two different prompts, or one and the same."""
    before, after = before[:_LONGEST], after[:_LONGEST]
    if before == after or not alike(before, after):
        return None
    parts = list(_differences(before, after))
    patterns: list[Pattern] = []
    for _, _, lead in parts:
        proposed = _proposed(lead, before, after, tuple(patterns))
        if proposed is not None:
            patterns.append(proposed)
    cured = take_out(before, tuple(patterns))[0] == take_out(after, tuple(patterns))[0]
    one, other, _ = parts[0]
    return Changed(one[:_SHOWN], other[:_SHOWN], tuple(each.source for each in patterns) if cured else ())


def _differences(before: str, after: str) -> Iterator[tuple[str, str, str]]:
    """(old, new, the words before them), segment by segment where there are as many."""
    ones, others = _segments(before), _segments(after)
    if len(ones) != len(others):
        ones, others = [before], [after]
    lead = ""
    for one, other in zip(ones, others, strict=True):
        if one != other:
            start, old, new = _middle(one, other)
            own = re.search(r"[^\W\d_]{2}", _BEGUN.sub("", start))
            yield old, new, start if own else lead + start
        lead = (lead + one)[-200:]


def _segments(text: str) -> list[str]:
    return [each for each in _SEGMENT.findall(text) if each]


def _middle(one: str, other: str) -> tuple[str, str, str]:
    """The text before the difference, and the two texts that differ, cut between tokens."""
    ones, others = _TOKEN.findall(one), _TOKEN.findall(other)
    start, most = 0, min(len(ones), len(others))
    while start < most and ones[start] == others[start]:
        start += 1
    end = 0
    while end < most - start and ones[-1 - end] == others[-1 - end]:
        end += 1
    cut = slice(start, -end if end else None)
    return "".join(ones[:start]), "".join(ones[cut]), "".join(others[cut])


def _proposed(lead: str, before: str, after: str, so_far: tuple[Pattern, ...]) -> Pattern | None:
    """The first pattern that brings the two prompts nearer."""
    was = _differ(before, after, so_far)
    tokens = _TOKEN.findall(_BEGUN.sub("", lead))
    leads = []
    for back in range(min(len(tokens), 5)):
        words = "".join(tokens[: len(tokens) - back][-_LEAD_TOKENS:])
        words = re.sub(r"^[^\w]+", "", words.rpartition("\n")[2] or words).replace("{", "{{").replace("}", "}}")
        leads.append(words)
    for kind in _PROPOSED:
        for words in leads:
            if kind == "name" and not _NAMES_SOMEBODY.search(words):
                continue
            try:
                pattern = read_pattern(f"{words}{{{kind}}}")
            except ValueError:
                continue
            found = take_out(before, (pattern,))[1], take_out(after, (pattern,))[1]
            if not all(found) or (kind == "id" and not all(re.search(r"\d", each[0].value) for each in found)):
                continue
            if _differ(before, after, (*so_far, pattern)) < was:
                return pattern
    return None


def _differ(before: str, after: str, patterns: tuple[Pattern, ...]) -> int:
    """In how many segments."""
    one, other = (take_out(text, patterns)[0] for text in (before, after))
    return 0 if one == other else sum(1 for _ in _differences(one, other)) or 1
