"""Guards over what a question is about: its language, its numbers and units, and the things it names."""

import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from cache.guards.difference import Difference, related
from cache.guards.names import is_proper
from cache.guards.reading import Reading
from cache.guards.token import Kind, Token
from cache.wording import worded

_BARE_DECIMAL = re.compile(
    r"(?<![\d.$€£¥￥])\d+\.\d+(?![\d.])(?!\s*(?:[$€£¥%]|usd|eur|gbp|cny|rmb|dollars?|euros?|pounds?|yuan|元|块|美元|percent))"
)
# A number behind a name or a word for a version is a name: Python 3, version 1.0.
_NAMED_NUMBER = re.compile(
    r"(?:\b(?:[Vv]ersion|[Rr]elease|[Bb]uild|[Vv]|[A-Z]\w+|python|java|node|ios|android|windows|macos|php|ruby|ubuntu|gpt)"
    r"|版本号?|第)[\s-]?(\d+(?:\.\d+)?)(?![\d.]\d|\s*(?:[$€£¥%]|usd|eur|gbp|dollars?|euros?|pounds?|yuan|元|块))"
)
_CASED_UNIT = re.compile(r"\d\s?([kKMmGgTtPp][BbWVAJ]|[kKMmGg][Bb]ps|[kMmG][Ww]h?|[mM]Hz|[mM][wv])\b")
_MARKS = re.compile(r"[\W_]+")
_ENDING = re.compile(r"[?？][\s?？!！.。…~]*$")  # what stands behind a question mark says nothing
_INSIDE = re.compile(r"(?<=[^\W\d_])['-](?=[^\W\d_])|\s")
_SHORTEST_SLIP = 6  # letters; in a shorter name two letters in the wrong order easily make another name


def language(a: Reading, b: Reading) -> str | None:
    """Both must be in the same language, and in one the guards can read."""
    if "other" in (a.language, b.language):
        return "in a language the guards do not read"
    if a.language != b.language and "und" not in (a.language, b.language):
        return f"{a.language} against {b.language}"
    return "one side is partly Chinese" if a.chinese != b.chinese else None


def numbers(a: Reading, b: Reading) -> str | None:
    """The same values with the same units in the same order. "One" and 一 may be said or not."""
    if not a.numbers and not b.numbers:
        return None
    if (odd := _versions(a, b) or _unit_case(a, b)) is not None:
        return odd
    hard_a, hard_b = _hard(a.numbers), _hard(b.numbers)
    if hard_a == hard_b:
        return None
    shown = f"{_listed(a.numbers)} against {_listed(b.numbers)}"
    if Counter(hard_a) == Counter(hard_b):
        return f"the same numbers in another order: {shown}"
    if _values(a) == _values(b) and _says_units_of(a, b) and _says_units_of(b, a):
        return None
    return shown


def _versions(a: Reading, b: Reading) -> str | None:
    """1.2 and 1.20 are one value and two versions; only money is written either way."""
    bare_a, bare_b = set(_BARE_DECIMAL.findall(a.plain)), set(_BARE_DECIMAL.findall(b.plain))
    named_a, named_b = set(_NAMED_NUMBER.findall(a.cased)), set(_NAMED_NUMBER.findall(b.cased))
    for odd_a, odd_b in ((bare_a - bare_b, bare_b - bare_a), (named_a - named_b, named_b - named_a)):
        for one in odd_a:
            for other in odd_b:
                if Fraction(one) == Fraction(other):
                    return f"{one} against {other}: two versions, perhaps"
    return None


def _unit_case(a: Reading, b: Reading) -> str | None:
    """A milliwatt is no megawatt, and a megabit no megabyte: in these units capitals count."""
    odd_a, odd_b = _cased_units(a), _cased_units(b)
    for one in odd_a - odd_b:
        for other in odd_b - odd_a:
            if one.lower() == other.lower():
                return f"{one} against {other}"
    return None


def _cased_units(reading: Reading) -> frozenset[str]:
    """Units whose capitals were chosen; all small letters are how everybody types bytes."""
    return frozenset(unit for unit in _CASED_UNIT.findall(reading.cased) if not (unit.islower() and unit[-1] in "bs"))


def marks(a: Reading, b: Reading) -> str | None:
    """Where only marks are unlike (5 and -5, "." and "?"), and the wording says that they matter, they do."""
    if a.plain == b.plain or _letters(a.plain) != _letters(b.plain):
        return None
    return "only marks differ, and they matter" if _marked(a.cased) != _marked(b.cased) else None


@lru_cache(maxsize=4096)
def _letters(plain: str) -> str:
    return _MARKS.sub("", plain)


def _marked(cased: str) -> str:
    """What the wording keeps of a text, without the hyphens and apostrophes inside of words."""
    return _INSIDE.sub("", "".join(worded(_ENDING.sub("", cased))).lower())


def _hard(tokens: Iterable[Token]) -> list[str]:
    return [token.concept for token in tokens if not token.soft]


def _values(reading: Reading) -> list[Fraction]:
    return sorted(token.value or Fraction(0) for token in reading.numbers if not token.soft)


def _says_units_of(a: Reading, b: Reading) -> bool:
    """Whether b names every unit that a puts at a number, somewhere: "10 GB" and "10 of my gigabytes"."""
    shared = set(_hard(b.numbers))
    return all(not token.unit or token.concept in shared or token.unit in b.known for token in a.numbers)


def _listed(tokens: Iterable[Token]) -> str:
    return ", ".join(token.concept.strip() for token in tokens) or "no number"


def units(a: Reading, b: Reading) -> str | None:
    """The same units of measure and currencies; units of time only where both name one (monthly, yearly)."""
    bound_a = a.units | {token.unit for token in a.numbers}
    bound_b = b.units | {token.unit for token in b.numbers}
    if a.units - bound_b or b.units - bound_a:
        return f"{_set(a.units)} against {_set(b.units)}"
    if a.spans and b.spans and a.spans != b.spans:
        return f"{_set(a.spans)} against {_set(b.spans)}"
    return None


def _set(units_named: Iterable[str]) -> str:
    return ", ".join(sorted(units_named)) or "no unit"


def names(a: Reading, b: Reading) -> str | None:
    """Whatever one side calls by name (a product, a place, a code, a quotation) the other must call too."""
    for here, there in ((a, b), (b, a)):
        for token in here.names:
            if not _named_in(token, there):
                return f"only one side names {token.low!r}"
    return None


def _named_in(token: Token, other: Reading) -> bool:
    if token.keys & other.known or (len(token.low) > 2 and token.low in other.plain):
        return True
    if any(related(token, candidate) for candidate in other.content):
        return True
    return (
        token.member is None
        and len(token.low) >= _SHORTEST_SLIP
        and any(candidate.member is None and _one_slip(token.low, candidate.low) for candidate in other.content)
    )


def _one_slip(a: str, b: str) -> bool:
    """Whether two words differ by two neighbouring letters in the wrong order, a slip of the fingers."""
    if len(a) != len(b) or a == b:
        return False
    odd = [index for index in range(len(a)) if a[index] != b[index]]
    return len(odd) == 2 and odd[1] == odd[0] + 1 and a[odd[0]] == b[odd[1]] and a[odd[1]] == b[odd[0]]


def kinds(a: Reading, b: Reading, between: Difference) -> str | None:
    """Two different members of one kind: dog against cat, husband against wife, JSON against XML."""
    for token in _members(between.only_a):
        for other in _members(between.only_b):
            if token[0] == other[0] and token[1] != other[1]:
                return f"{token[2]} against {other[2]}: another {token[0].rstrip('!')}"
    for kind, _, low in _members(between.only_a, Kind.NAME) + _members(between.only_b, Kind.NAME):
        if is_proper(kind):
            return f"only one side names {low!r}"
    return None


def _members(tokens: Iterable[Token], least: Kind = Kind.CONTENT) -> list[tuple[str, str, str]]:
    """(kind, member, as written) of the tokens that belong to a kind."""
    return [(*token.member, token.low) for token in tokens if token.member is not None and token.kind >= least]
