"""A text read once: everything the guards want to know about it, so that comparing two readings is cheap."""

import re
from dataclasses import dataclass
from functools import lru_cache

from cache.courtesy import without_courtesy
from cache.guards import chinese_reader, english_reader, shape
from cache.guards.chinese import NEGATIONS as ZH_NEGATIONS
from cache.guards.chinese import SCOPE as ZH_SCOPE
from cache.guards.english import NEGATIONS, SCOPE
from cache.guards.token import Kind, Token
from cache.language import language
from cache.wording import folded
from cache.words import words

_LONGEST = 4_000  # characters that are read; two longer texts must be equal beyond
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_MALE = words("he him his himself 他")
_FEMALE = words("she her hers herself 她")
_JOINERS = words("and or 和 与 或 或者 跟 以及")
_OWNERS = {"my": "mine", "our": "mine", "your": "yours", "his": "his", "her": "hers", "their": "theirs", "its": "its"}
_DENIALS_ZH = frozenset(ZH_NEGATIONS)


@dataclass(frozen=True, slots=True)
class Reading:
    """text: as it came.  plain: folded, without courtesy, lower case.  cased: the same as typed.
    rest: what lies beyond the part that is read.  language: see `cache.language`.  chinese: it has Chinese characters.
    tokens: in order.  content: those of them that say something; names, numbers: a part of them.
    known: every name under which some word of the text goes, for looking up the other side's names.
    units: of measure, without a number.  spans: the same of time ("monthly").  negations: how many denials.
    asking: the kinds of answer wanted.  scope: "only", "all", "most" ...  form: how the answer should look.
    genders: he and she in order, "m" or "f".  tense: "past", "future", "perfect" or "present"; "" in Chinese.
    owners: (owner, thing).  joined: pairs that "and" or "or" joins.  voices: "i" and "you" in order.
    size: telling words, where a Chinese character that is no listed word is half a word."""

    text: str
    plain: str
    cased: str
    rest: str
    language: str
    chinese: bool
    tokens: tuple[Token, ...]
    content: tuple[Token, ...]
    names: tuple[Token, ...]
    numbers: tuple[Token, ...]
    known: frozenset[str]
    units: frozenset[str]
    spans: frozenset[str]
    negations: int
    asking: frozenset[str]
    scope: frozenset[str]
    form: frozenset[str]
    genders: str
    tense: str
    passive: bool
    owners: frozenset[tuple[str, str]]
    joined: frozenset[frozenset[str]]
    voices: tuple[str, ...]
    sentences: int
    size: float


@lru_cache(maxsize=8192)
def read(text: str) -> Reading:
    """Read a text once. Pure; the last 8,192 readings are kept, so that a stored question is seldom read twice."""
    whole = folded(text).strip()
    spoken = language(whole)
    plain = without_courtesy(whole, spoken)
    plain, rest = plain[:_LONGEST], plain[_LONGEST:]
    chinese = spoken == "zh" or (spoken != "en" and _HAN.search(plain) is not None)
    tokens = chinese_reader.tokens(plain) if chinese else english_reader.tokens(plain)
    content = tuple(token for token in tokens if token.kind in (Kind.CONTENT, Kind.NAME))
    bare = [token for token in tokens if token.unit and token.kind is not Kind.NUMBER]
    scopes = ZH_SCOPE if chinese else SCOPE
    return Reading(
        text=text,
        plain=plain.lower(),
        cased=plain,
        rest=rest,
        language=spoken,
        chinese=_HAN.search(plain) is not None,
        tokens=tokens,
        content=content,
        names=tuple(token for token in tokens if token.kind is Kind.NAME),
        numbers=tuple(token for token in tokens if token.kind is Kind.NUMBER),
        known=frozenset(key for token in tokens for key in token.keys),
        units=frozenset(token.unit for token in bare if token.kind is Kind.CONTENT),
        spans=frozenset(token.unit for token in bare if token.kind is Kind.LIGHT),
        negations=sum(map(_denies_zh if chinese else _denies, tokens)),
        asking=shape.asked_for_zh({token.concept for token in tokens}) if chinese else shape.asked_for(plain),
        scope=frozenset(scopes[token.low] for token in tokens if token.low in scopes),
        form=shape.form(plain),
        genders="".join("m" if token.low in _MALE else "f" for token in tokens if token.low in _MALE | _FEMALE),
        tense="" if chinese else shape.tense(plain),
        passive=not chinese and shape.is_passive(plain),
        owners=frozenset() if chinese else _owners(tokens),
        joined=_joined(tokens),
        voices=() if chinese else shape.voices(plain),
        sentences=1 + max((token.sentence for token in tokens), default=0),
        size=sum(0.5 if len(token.low) == 1 and not token.low.isascii() else 1.0 for token in content),
    )


def _denies(token: Token) -> bool:
    return token.low in NEGATIONS or token.low.startswith("non-")


def _denies_zh(token: Token) -> bool:
    return token.low in _DENIALS_ZH


def _owners(tokens: tuple[Token, ...]) -> frozenset[tuple[str, str]]:
    """(owner, thing) of an English text: "my friend's bill" is (mine, friend) and (mine, bill)."""
    found = set()
    owner = ""
    for token in tokens:
        if token.low in _OWNERS:
            owner = _OWNERS[token.low]
        elif owner and token.kind >= Kind.CONTENT:
            found.add((owner, token.concept))
            if not token.low.endswith("'s"):
                owner = ""
        elif token.kind is not Kind.LIGHT:
            owner = ""
    return frozenset(found)


def _joined(tokens: tuple[Token, ...]) -> frozenset[frozenset[str]]:
    """Pairs of words that "and" or "or" puts side by side, which may stand in either order."""
    found = set()
    for at, token in enumerate(tokens):
        if token.low in _JOINERS:
            before = next((other for other in reversed(tokens[:at]) if other.kind is not Kind.EMPTY), None)
            after = next((other for other in tokens[at + 1 :] if other.kind is not Kind.EMPTY), None)
            if before is not None and after is not None:
                found.add(frozenset((before.concept, after.concept)))
    return frozenset(found)
