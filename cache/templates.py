"""Patterns that an operator writes: plain words with holes, such as `Today is {date}.` Pure.

Words stand for themselves in any case, a space for any white space; `{{` and `}}` are braces. There is nothing else to
learn, and nothing that could hang: every hole is bounded and gives back no more than a name's few words, so a search
takes time linear in the text. A pattern is tried out on an example of its own when it is read, so one that can never
match is told at start.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY = (
    r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b\.?|(?:星期|周|礼拜)[一二三四五六日天])"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = (
    rf"(?>(?:{_WEEKDAY},?\s{{0,3}}(?:the\s)?)?(?>\d{{4}}\s?[-/.年]\s?\d{{1,2}}\s?[-/.月]\s?\d{{1,2}}日?"
    rf"|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}|{_DAY}\s(?:of\s)?{_MONTH}(?:,?\s\d{{4}})?"
    rf"|{_MONTH}\s{_DAY}(?:,?\s\d{{4}})?|\d{{1,2}}月\d{{1,2}}日)(?:[,，]?\s?\(?{_WEEKDAY}\)?)?)"
)
_TIME = (
    r"(?>\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:\s?(?:[ap]m\b|[ap]\.m\.))?(?:\s?(?:utc|gmt|z|cet"
    r"|cest|[ecmp][sd]t)\b)?(?:\s?[+-]\d{2}:?\d{2})?|(?:上午|下午|晚上|凌晨)?\d{1,2}[点时:](?:\d{1,2}分?)?(?:\d{1,2}秒)?"
    r"|\d{1,2}\s?(?:[ap]m\b|[ap]\.m\.)|\d{10}(?:\d{3}){0,2}(?:\.\d{1,9})?)"
)
# A name's words begin with a capital, so that "Anna Miller and premium" is not taken for one.
_CAPITAL = r"(?-i:[^\W\d_a-zß-öø-ÿ\u4e00-\u9fff])(?:['’.-]?\w){0,40}+"
_NAME = (
    rf"(?:{_CAPITAL}(?:\s(?:(?:van|von|de|da|di|du|la|le|el|al|bin|den|der|dos)\s){{0,2}}+{_CAPITAL}){{0,3}}"
    r"|[\u4e00-\u9fff]{2,4})"
)
HOLES = {
    "date": (_DATE, "2026-12-01"),
    "time": (_TIME, "10:32:07"),
    "datetime": (rf"(?>{_DATE}(?:t|,?\s(?:at\s)?|\s?[-–|]\s?)?(?:{_TIME})?)", "2026-12-01T10:32:07Z"),
    "name": (_NAME, "Anna Miller"),
    "id": (r"(?>[a-z0-9](?:[\w.:@+/=-]{0,126}[\w=-])?)", "5d1f0c2b-9a7e"),
    "number": (r"(?>[-+]?\d(?:[\d.,]{0,30}\d)?)", "42"),
    "word": (r"(?>[^\s,;]{1,80})", "word"),
    "line": (r"(?>[^\n]{1,500})", "the rest of it"),
}
MOMENTS = frozenset(("date", "time", "datetime"))
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_LONGEST = 300  # characters of a pattern
_MOST_HOLES = 3  # a name may give back a word, so their number counts
_LONGEST_SEARCHED = 20_000  # first characters of a text: this runs on the event loop


@dataclass(frozen=True, slots=True)
class Pattern:
    """One of the operator's patterns. source: as he wrote it.  holes: their kinds, in their order.  words: its text."""

    source: str
    holes: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What stood in a hole. kind: one of `HOLES`.  pattern: whose."""

    kind: str
    value: str
    pattern: Pattern


def read_pattern(source: str) -> Pattern:
    """Raises ValueError with what is wrong and what would be right."""
    if not source.strip() or len(source) > _LONGEST:
        raise ValueError(f"a pattern has 1 to {_LONGEST} characters, such as 'Today is {{date}}'")
    pieces = _pieces(source)
    holes = [name for kind, name in pieces if kind]
    known = ", ".join(f"{{{name}}}" for name in HOLES)
    if not holes:
        raise ValueError(f"{source!r} takes nothing out: write one of {known} where the changing part stands")
    if len(holes) > _MOST_HOLES:
        raise ValueError(f"{source!r} has more than {_MOST_HOLES} holes: write several patterns")
    for name in holes:
        if name not in HOLES:
            raise ValueError(f"{source!r}: there is no {{{name}}}; there are {known}")
    first = pieces[0]
    if first[0] or not re.search(r"[^\W\d_]{2}", first[1]):
        raise ValueError(
            f"{source!r} must begin with the words that stand before the changing part, such as 'Today is {{date}}': "
            "alone it would also take out what answers depend on"
        )
    for (hole, name), (next_hole, next_text) in pairwise(pieces):
        if hole and next_hole:
            raise ValueError(f"{source!r}: words must stand between {{{name}}} and {{{next_text}}}")
        if hole and name == "line" and not next_text.startswith("\n"):
            raise ValueError(f"{source!r}: {{line}} takes the rest of its line, so nothing may follow it there")
    pattern = Pattern(source, tuple(holes), " ".join(text for hole, text in pieces if not hole).strip())
    example = "".join(HOLES[text][1] if hole else text for hole, text in pieces)
    if take_out(example, (pattern,))[1] == ():
        raise ValueError(
            f"{source!r} does not match its own example {example!r}: one of its holes takes what should follow it"
        )
    return pattern


def take_out(text: str, patterns: tuple[Pattern, ...]) -> tuple[str, tuple[Taken, ...]]:
    """The text with what stood in the holes replaced by the holes' names, and what stood there. What follows the first
    20,000 characters is left as it is."""
    text, rest = text[:_LONGEST_SEARCHED], text[_LONGEST_SEARCHED:]
    taken: list[Taken] = []
    for pattern in patterns:

        def emptied(match: re.Match[str], pattern: Pattern = pattern) -> str:
            whole, start, told, at = match[0], match.start(), [], 0
            for place, kind in enumerate(pattern.holes, 1):
                begin, end = match.start(place) - start, match.end(place) - start
                taken.append(Taken(kind, whole[begin:end], pattern))
                told += [whole[at:begin], f"\x00{kind}"]
                at = end
            return "".join([*told, whole[at:]])

        text = _compiled(pattern.source).sub(emptied, text)
    return text + rest, tuple(taken)


def _pieces(source: str) -> list[tuple[bool, str]]:
    """(is a hole, its name or the text), no two texts in a row."""
    pieces: list[tuple[bool, str]] = []
    text, at = "", 0
    for match in _TOKEN.finditer(source):
        text += source[at : match.start()]
        at = match.end()
        if match[0] in ("{{", "}}"):
            text += match[0][0]
        elif match[1] is None:
            raise ValueError(f"{source!r}: a single {match[0]} stands at {match.start() + 1}; write {match[0] * 2}")
        else:
            pieces += [(False, text)] if text else []
            pieces.append((True, match[1].strip()))
            text = ""
    text += source[at:]
    return [*pieces, (False, text)] if text else pieces


@lru_cache(maxsize=256)
def _compiled(source: str) -> re.Pattern[str]:
    parts = []
    pieces = _pieces(source)
    for (hole, text), following in zip(pieces, [*pieces[1:], (False, "")], strict=True):
        if hole:
            han = text == "name" and not re.match(r"[\u4e00-\u9fff]", following[1])
            ends = "" if text == "line" else r"(?![A-Za-z0-9_\u4e00-\u9fff])" if han else r"(?![A-Za-z0-9_])"
            parts.append(f"({HOLES[text][0]}){ends}")
            continue
        words = [re.escape(word) for word in re.split(r"\s+", text)]
        parts.append(r"(?>\s{1,20})".join(words))
    bound = r"(?<![A-Za-z0-9_])" if re.match(r"[A-Za-z0-9_]", source) else ""
    return re.compile(bound + "".join(parts), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Split:
    """Where the question stands in a longer message. before, after: the words right before and right behind it;
    an empty `after` is the end of the message."""

    source: str
    before: str
    after: str

    def question_in(self, text: str) -> str | None:
        """The question's text; None where the words are not there, or stand there more than once: a document that
        repeats them must not be taken for the question."""
        if text.count(self.before) != 1:
            return None
        found = text.partition(self.before)[2]
        if self.after:
            if found.count(self.after) != 1:
                return None
            found = found.partition(self.after)[0]
        return found.strip() or None


def read_split(source: str) -> Split:
    """Raises ValueError with what is wrong and what would be right."""
    example = "'{documents}Question: {question}' or 'Question: {question}\\nAnswer:'"
    if len(source) > _LONGEST:
        raise ValueError(f"a pattern has at most {_LONGEST} characters, such as {example}")
    pieces = _pieces(source)
    if [name for hole, name in pieces if hole and name != "documents"] != ["question"]:
        raise ValueError(f"{source!r} must hold {{question}} once, and nothing else but {{documents}}: write {example}")
    at = pieces.index((True, "question"))
    if any(one[0] and other[0] for one, other in pairwise(pieces)):
        raise ValueError(f"{source!r}: words must stand between two holes, as in {example}")
    before = pieces[at - 1][1] if at else ""
    if len(before.strip()) < 2:
        raise ValueError(f"{source!r}: the words right before {{question}} say where it begins: write {example}")
    return Split(source, before, pieces[at + 1][1] if at + 1 < len(pieces) else "")
