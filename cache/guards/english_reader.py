"""Cuts an English text into tokens: numbers with units, phrases, names, and words in base form with their roles."""

import re
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from cache.guards.grammar import (
    COMMON_TOO,
    EMPTY,
    FRAME,
    KEEPS_ROLE,
    LIGHT,
    MAY_BE_MONTH,
    MONTH_NEIGHBOURS,
    ORDINARY_CAPITALS,
    PARTICLES,
    PREPOSITIONS,
    SMALL,
    SPLIT_VERBS,
)
from cache.guards.lexicon import ENGLISH
from cache.guards.names import MEMBERS, is_proper
from cache.guards.quantities import ORDINALS, UNITS, Quantity, bare_unit, durations, find_digits, is_time, spelled
from cache.guards.token import Kind, Token, is_prose_mark
from cache.inflection import lemma
from cache.words import words

_WORD = r"[^\W\d_]+(?:['’&-][^\W\d_]+|\.[^\W\d_]{1,3}\b)*(?:\+\+|\#)?"
_PIECE = re.compile(
    rf"""(?P<quote>"[^"\n]{{1,80}}"|“[^”\n]{{1,80}}”|(?<!\w)'[^'\n]{{1,60}}'(?!\w)|`[^`\n]{{1,80}}`)
    |(?P<address>https?://\S+|[\w.+-]+@[\w-]+\.[\w.-]+|(?<!\w)/[\w/.-]+\w|\w+(?:[_/\\]\w+)+|\w+\(\))
    |(?P<number>[$€£¥￥₹]?\s?[-]?[\d½¼¾⅓⅔⅕⅛.][\d½¼¾⅓⅔⅕⅛.,:/]*[\w%°$€£℃]*(?:-[a-z]+)*)
    |(?P<word>{_WORD}-?\d[\w.-]*|{_WORD})
    |(?P<stop>[.!?;\n]+)
    |(?P<mark>[^\s\w])""",
    re.VERBOSE | re.IGNORECASE,
)
_JOINED = frozenset(joined for phrases in ENGLISH.phrases.values() for _, joined in phrases)
_NUMBER_SIGNS = re.compile(r"[\d½¼¾⅓⅔⅕⅛]")
# Units that are ordinary words when a blank stands before them: "5 in blue", "2 s".
_NOT_AFTER_BLANK = words("in s p st inc")
_NOT_AFTER_WORD = _NOT_AFTER_BLANK | words("c f m g l h w v")
_STARTS_NUMBER = frozenset("zotfsenhmbdcpq")  # first letters of number words
_DENIALS = words("""
    cannot dont doesnt didnt isnt wasnt cant wont arent havent hasnt couldnt wouldnt shouldnt
    """)
_DEGREES = words("long far old often soon quickly fast")  # behind "how" they only say what is asked for
_COUNTABLE_LIKE_ONE = words("one second couple pair once half double both")
_BEFORE_PRONOUN = words("""
    a an the new old this that which no any every another each other some right wrong quick last next first
    """)
_AFTER_PRONOUN = words("of is has can to without that who and from for")
_SMALL_NAMES = {"US": "usa", "IT": "computing", "WHO": "world health organisation"}  # never "us", "it", "who"
_PLAGUE = words("covid-19 covid19 sars-cov-2")


def tokens(text: str) -> tuple[Token, ...]:
    """The tokens of an English text, in order. text: folded (see `cache.wording.folded`)."""
    return _Reader(text).read()


class _Reader:
    """Goes over one text from left to right. Each step takes one piece or more and says how many."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._case_says = not _titled(text)
        self._out: list[Token] = []
        self._sentence = 0
        self._starts = True
        self._words: list[str] = []
        self._pieces: list[str] = []

    def read(self) -> tuple[Token, ...]:
        low = self._text.lower()
        numbers = find_digits(low) if _NUMBER_SIGNS.search(low) else []
        matches = _PIECE.finditer(self._text)
        pieces = [(match.lastgroup or "", match.group(), match.start(), match.end()) for match in matches]
        self._words = [
            piece.lower().replace("’", "'") if kind == "word" else f"\0{kind}" for kind, piece, _, _ in pieces
        ]
        self._pieces = [piece for _, piece, _, _ in pieces]
        at = 0
        while at < len(pieces):
            kind, piece, start, end = pieces[at]
            if kind == "word":
                at += self._word(at, piece)
            elif kind == "number":
                inside = [number for number in numbers if start <= number.start < end]
                at += self._number(inside, at, piece, end)
            else:
                self._mark(kind, piece)
                at += 1
            self._starts = kind == "stop" or piece == ":"
        return tuple(_with_roles(self._out))

    def _put(self, token: Token) -> None:
        self._out.append(replace(token, sentence=self._sentence) if self._sentence else token)

    def _name(self, low: str) -> None:
        if low:
            self._put(Token(low, low, Kind.NAME, frozenset((low,))))

    def _quantity(self, value: Fraction, unit: str, low: str, soft: bool = False) -> None:
        value, unit = durations(value, unit)
        shown = f"{value} {unit}"
        self._put(Token(low, shown, Kind.NUMBER, frozenset((shown,)), value=value, unit=unit, soft=soft))

    def _mark(self, kind: str, piece: str) -> None:
        if kind == "stop":
            self._sentence += 1
        elif kind == "quote":
            self._name(piece[1:-1].strip().lower())
        elif kind == "address" or not is_prose_mark(piece):
            self._name(piece)

    def _at(self, index: int) -> str:
        return self._words[index] if 0 <= index < len(self._words) else "\0stop"

    def _number(self, inside: list[Quantity], at: int, piece: str, end: int) -> int:
        """A piece with digits: a quantity with its unit ("5 km", "30-year"), several ("5-10"), or a code ("2fa")."""
        if not inside:
            self._name(piece.strip(" .,:/-").lower())
            return 1
        for number in inside[:-1]:
            self._quantity(number.value, number.unit, piece)
        number, unit, took = inside[-1], inside[-1].unit, 1
        rest = self._text[number.end : end].lower()
        tails = [part for part in rest.strip(" .,:-/").split("-") if part]
        if tails and not unit:
            if tails[0] in UNITS:
                unit = UNITS[tails.pop(0)]
            elif tails[0][0].isalnum() and rest[:1] not in ("-", " "):
                self._name(piece.strip(" .,:/").lower())
                return 1
        elif not unit:
            unit, took = self._unit_after(at, end)
        self._quantity(number.value, unit, piece)
        for part in tails:
            self._put(_plain(part))
        return took

    def _unit_after(self, at: int, end: int) -> tuple[str, int]:
        """The unit in the pieces after a number, and how many pieces number and unit are."""
        following = self._at(at + 1)
        if following in UNITS and following not in _NOT_AFTER_BLANK:
            return UNITS[following], 2
        if following == "\0mark" and self._text[end : end + 2].strip()[:1] in ("%", "°", '"', "'", "″", "′"):
            return {"%": "percent", '"': "inch", "″": "inch", "'": "foot", "′": "foot"}.get(
                self._text[end : end + 2].strip()[:1], ""
            ), 2
        return ("percent", 3) if following == "per" and self._at(at + 2) == "cent" else ("", 1)

    def _word(self, at: int, piece: str) -> int:
        low = self._words[at]
        if not low:  # a particle that its verb has already taken
            return 1
        took = self._spelled_number(at, low) or self._phrase(at, low)
        if took:
            return took
        if low in _DEGREES and self._at(at - 1) == "how":
            self._put(Token(low, f"how {low}", Kind.FRAME, frozenset((f"how {low}",))))
        elif low.endswith("n't") or low in _DENIALS:
            self._put(_plain("not"))
        else:
            self._put(self._cased(piece, low, at))
        return 1

    def _spelled_number(self, at: int, low: str) -> int:
        """A number in words, with its unit or hour; 0 where there is none."""
        if low in ORDINALS and low not in ("first", "second"):
            self._quantity(Fraction(ORDINALS[low]), "#", low)
            return 1
        number = spelled(self._words, at) if low[0] in _STARTS_NUMBER else None
        if number is None or self._is_pronoun(at, number[1]):
            return self._counted_compound(low)
        value, took = number
        following = self._at(at + took)
        if following in ("am", "pm", "a.m", "p.m", "o'clock") and 0 < value <= 12:
            self._quantity(value % 12 * 60 + (720 if following.startswith("p") else 0), "clock", low)
            return took + 1
        unit = ""
        if following in UNITS and following not in _NOT_AFTER_WORD:
            unit, took = UNITS[following], took + 1
        elif following == "per" and self._at(at + took + 1) == "cent":
            unit, took = "percent", took + 2
        self._quantity(value, unit, low, soft=low in ("one", "single") and not unit)
        return took

    def _counted_compound(self, low: str) -> int:
        """ "two-factor", "four-bed", "one-hour": a number and what it counts."""
        head, dash, tail = low.partition("-")
        number = spelled([head], 0) if dash and tail.isalpha() else None
        if number is None:
            return 0
        self._quantity(number[0], UNITS.get(tail, ""), head)
        if tail not in UNITS:
            self._put(_plain(tail))
        return 1

    def _is_pronoun(self, at: int, took: int) -> bool:
        """Whether "one" stands for a thing said before ("a new one", "which one") instead of counting."""
        low = self._words[at]
        if took > 1 or low not in _COUNTABLE_LIKE_ONE:
            return False
        if low not in ("one", "second"):
            return low in ("once", "both")
        after = self._at(at + 1)
        return self._at(at - 1) in _BEFORE_PRONOUN or after.startswith("\0stop") or after in _AFTER_PRONOUN

    def _phrase(self, at: int, low: str) -> int:
        """A phrase of the word lists, also one that is torn apart ("turn the light off"); 0 where there is none."""
        base = lemma(low)
        for phrase, joined in ENGLISH.phrases.get(low, ()) or ENGLISH.phrases.get(base, ()):
            if tuple(self._words[at + 1 : at + len(phrase)]) == phrase[1:]:
                self._put(_plain(joined))
                return len(phrase)
        if low in ("covid", "corona") and self._at(at + 1) == "\0number":  # "COVID 19"
            self._put(_plain("covid"))
            return 2
        if base in SPLIT_VERBS:
            for ahead in range(at + 2, min(at + 6, len(self._words))):
                word = self._words[ahead]
                if word == "\0stop":
                    break
                if word in PARTICLES and f"{base}_{word}" in _JOINED:
                    self._put(_plain(f"{base}_{word}"))
                    self._words[ahead] = ""
                    return 1
        return 0

    def _cased(self, piece: str, low: str, at: int) -> Token:
        """A single word, made a name where its capitals, its digits or its neighbours say so."""
        capital = self._case_says and piece[0].isupper() and not self._starts
        if low in MAY_BE_MONTH:
            if capital or "\0number" in (self._at(at - 1), self._at(at + 1)) or self._at(at - 1) in MONTH_NEIGHBOURS:
                return Token(low, low, Kind.NAME, frozenset((low,)), member=MEMBERS.get(low))
            return Token(low, low, Kind.EMPTY if low == "may" else Kind.CONTENT, frozenset((low,)))
        token = _plain(low)
        if low in _PLAGUE:
            return token
        if len(piece) == 1 and self._lettered(piece, at):
            return Token(low, low, Kind.NAME, frozenset((low,)))
        if token.kind < Kind.CONTENT and self._case_says and piece in _SMALL_NAMES:
            known = _SMALL_NAMES[piece]
            return Token(low, known, Kind.NAME, frozenset((known,)), member=MEMBERS.get(known))
        if any(map(str.isdigit, low)):
            return replace(token, kind=Kind.NAME, concept=low)
        if token.kind is Kind.NAME and low in COMMON_TOO and not capital:
            return replace(token, kind=Kind.CONTENT)
        if token.kind is Kind.CONTENT and self._case_says and _looks_named(piece, capital):
            return replace(token, kind=Kind.NAME)
        return token

    def _lettered(self, piece: str, at: int) -> bool:
        """Whether a single letter names something: "does A beat B", "(a) or (b)"."""
        around = self._pieces[at - 1 : at] + self._pieces[at + 1 : at + 2]
        if around == ["(", ")"]:
            return True
        return piece == "A" and self._case_says and not self._starts


def _looks_named(piece: str, capital: bool) -> bool:
    if len(piece) > 1 and piece.isupper():
        return piece not in ORDINARY_CAPITALS
    return capital or any(map(str.isupper, piece[1:]))


@lru_cache(maxsize=20_000)
def _plain(low: str) -> Token:
    """A lower-case word or joined phrase without its surroundings."""
    base = lemma(low)
    bare = low[:-2] if low.endswith("'s") else low.rstrip("'")
    member = MEMBERS.get(low) or MEMBERS.get(bare) or MEMBERS.get(base)
    group = ENGLISH.group.get(low) or ENGLISH.group.get(bare) or ENGLISH.group.get(base)
    concept = group or (member[1] if member else base)
    keys = frozenset((low, bare, base, concept))
    against = frozenset().union(*(ENGLISH.against.get(key, frozenset()) for key in keys))
    unit = bare_unit(low)
    if unit is not None and not (member or group):
        kind = Kind.LIGHT if is_time(unit) else Kind.CONTENT
        return Token(low, unit, kind, keys | {unit}, against, member, unit=unit)
    if low in EMPTY:
        kind = Kind.EMPTY
    elif low in FRAME:
        kind = Kind.FRAME
    elif member is not None and is_proper(member[0]):
        kind = Kind.NAME
    elif low in LIGHT or base in LIGHT or group in LIGHT:
        kind = Kind.LIGHT
    else:
        kind = Kind.CONTENT
    return Token(low, concept, kind, keys, against, member)


def _titled(text: str) -> bool:
    """Whether capitals say nothing here: all of them, or a Headline Style That Raises Its Small Words Too."""
    if text.isupper():
        return True
    small = [word for word in re.findall(r"(?<=[a-z,] )[A-Za-z]+", text) if word.lower() in SMALL]
    return bool(small) and all(word[0].isupper() for word in small)


def _with_roles(found: list[Token]) -> list[Token]:
    """Gives each noun the preposition that governs it: in "from savings to checking", savings is "from"."""
    out: list[Token] = []
    role = ""
    for token in found:
        if token.low in PREPOSITIONS:
            role = token.low
        elif token.kind >= Kind.LIGHT:
            out.append(replace(token, role=role) if role else token)
            continue
        elif token.low not in KEEPS_ROLE and token.kind is not Kind.EMPTY:
            role = ""
        out.append(token)
    return out
