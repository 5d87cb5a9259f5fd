"""Cuts a Chinese text into tokens: by the longest listed word, otherwise character by character.

No segmenter: what a dictionary of general Chinese would add are boundaries inside words that both texts share anyway;
where they differ, a single differing character is as telling as a differing word, and it is found in microseconds."""

import re
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from cache.courtesy import ZH_ASKED
from cache.guards.chinese import ASKING, BOUNDS, FILLERS, NEGATIONS, NOT_NEGATIONS, NOT_NUMBERS, PLAIN, SCOPE
from cache.guards.lexicon import CHINESE, ENGLISH
from cache.guards.names import MEMBERS, is_proper
from cache.guards.quantities import UNITS, durations, find_digits, han_value, is_han_number, is_time
from cache.guards.token import Kind, Token, is_prose_mark

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_PIECE = re.compile(
    rf"""(?P<quote>"[^"\n]{{1,80}}"|“[^”\n]{{1,80}}”|「[^」\n]{{1,80}}」|『[^』\n]{{1,80}}』|《[^》\n]{{1,80}}》)
    |(?P<han>[{_HAN}]+)
    |(?P<latin>[A-Za-z_][A-Za-z0-9_.+#@/-]*)
    |(?P<number>[$€£¥￥]?-?[\d½¼¾.][\d½¼¾.,:/]*[%℃°]*[A-Za-z]*)
    |(?P<stop>[。！？!?；;\n]+)
    |(?P<mark>[^\sA-Za-z0-9_])""",
    re.VERBOSE,
)
_ASKED_BY = {word: kind for kind, words in ASKING.items() for word in words}
_WORDS = frozenset((
    *CHINESE.group, *CHINESE.against, *NEGATIONS, *NOT_NEGATIONS, *SCOPE, *FILLERS, *_ASKED_BY, *NOT_NUMBERS, *PLAIN,
    *BOUNDS,
    *(word for word in (*MEMBERS, *UNITS) if not word.isascii()),
))  # fmt: skip
_LONGEST = max(map(len, _WORDS))
_FILLERS = frozenset((*FILLERS, *BOUNDS))
_NOT_NUMBERS = frozenset(NOT_NUMBERS)
_MEASURES = {
    "个月": "month", "月": "#month", "号": "#day", "日": "#day", "岁": "age", "周岁": "age", "点": "#hour", "期": "",
    "次": "", "折": "discount", "倍": "times", "层": "", "楼": "#floor", "寸": "inch",
}  # fmt: skip
_DIRECTION = {
    "从": "from", "自": "from", "到": "to", "至": "to", "给": "to", "为": "to", "成": "to", "转到": "to", "转": "to",
    "换": "to", "换成": "to", "比": "than", "被": "by",
}  # fmt: skip
_SCALES = (("万", 10**4), ("亿", 10**8), ("千", 1000), ("百", 100))
_HIRES = re.compile(rf"请(?!{ZH_ASKED}|$)[{_HAN}]")
_LONGEST_NUMBER = 24  # characters; whatever is longer is no number that somebody means


def tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a Chinese text, in order. text: folded (see `cache.wording.folded`)."""
    out: list[Token] = []
    sentence = 0
    pieces = list(_PIECE.finditer(text))
    skip = 0  # characters of the coming Han run that a number before it has taken as its unit
    for at, match in enumerate(pieces):
        kind, piece = match.lastgroup, match.group()
        if kind == "han":
            out.extend(_han(piece[skip:]))
            skip = 0
        elif kind == "quote":
            low = piece[1:-1].strip().lower()
            if low:
                out.append(Token(low, low, Kind.NAME, frozenset((low,))))
        elif kind == "latin":
            out.append(_latin(piece))
        elif kind == "number":
            following = pieces[at + 1] if at + 1 < len(pieces) else None
            run = following.group() if following is not None and following.lastgroup == "han" else ""
            token, skip = _number(piece.lower(), run)
            out.append(token)
        elif kind == "stop":
            sentence += 1
        elif not is_prose_mark(piece):
            out.append(Token(piece, piece, Kind.NAME, frozenset((piece,))))
    return tuple(_with_roles(out))


def _number(piece: str, run: str) -> tuple[Token, int]:
    found = find_digits(piece)
    scale = 1
    skip = 0
    for word, factor in _SCALES:
        if run.startswith(word) and not run.startswith(("千米", "千克", "千瓦")):
            scale, skip = factor, 1
            break
    letters = piece[len(piece.rstrip("abcdefghijklmnopqrstuvwxyz%℃°")) :]
    if len(found) != 1 or (letters and letters not in UNITS):
        name = piece.strip(".,:")
        return Token(name, name, Kind.NAME, frozenset((name,))), 0
    value, unit = found[0].value * scale, found[0].unit or UNITS.get(letters, "")
    if not unit:
        unit, took = _measure(run, skip)
        skip += took
    return _quantity(value, unit, piece), skip


def _measure(run: str, at: int) -> tuple[str, int]:
    """The unit or counting word that stands in a run of characters, and its length; ("", 0) where there is none."""
    for size in (3, 2, 1):
        word = run[at : at + size]
        if len(word) == size and (word in _MEASURES or word in UNITS):
            return _MEASURES[word] if word in _MEASURES else UNITS[word], size
    return "", 0


def _quantity(value: Fraction, unit: str, low: str, soft: bool = False) -> Token:
    if unit == "year" and value > 999:
        unit = ""
    value, unit = durations(value, unit)
    shown = f"{value} {unit}"
    return Token(low, shown, Kind.NUMBER, frozenset((shown,)), value=value, unit=unit, soft=soft)


def _latin(piece: str) -> Token:
    low = piece.lower().strip(".")
    member = MEMBERS.get(low)
    concept = ENGLISH.group.get(low) or (member[1] if member else low)
    if concept == "app":
        return _word("app")
    return Token(low, concept, Kind.NAME, frozenset((low, concept)), member=member)


def _han(run: str) -> list[Token]:
    out: list[Token] = []
    at = 0
    while at < len(run):
        number = _han_number(run, at)
        if number is not None:
            token, took = number
            out.append(token)
            at += took
            continue
        for size in range(min(_LONGEST, len(run) - at), 0, -1):
            word = run[at : at + size]
            if size == 1 or word in _WORDS:
                out.append(_hired() if word == "请" and _HIRES.match(run, at) else _word(word))
                at += size
                break
    return out


def _han_number(run: str, at: int) -> tuple[Token, int] | None:
    if not is_han_number(run[at]) and run[at] != "半":
        return None
    if any(run[at : at + size] in _NOT_NUMBERS for size in (4, 3, 2)):
        return None
    if run[at] == "半":
        for size in (2, 1):
            unit = UNITS.get(run[at + 1 : at + 1 + size])
            if unit is not None and len(run[at + 1 : at + 1 + size]) == size and is_time(unit):
                return _quantity(Fraction(1, 2), unit, "半"), 1 + size
        return None
    end = at
    while end < min(len(run), at + _LONGEST_NUMBER + 1) and is_han_number(run[end]):
        end += 1
    digits = run[at:end]
    if (digits[0] in "百千万亿" and len(digits) == 1) or len(digits) > _LONGEST_NUMBER:
        return None
    value = Fraction(han_value(digits))
    ordinal = at > 0 and run[at - 1] == "第"
    unit, took = ("#", 0) if ordinal else _measure(run, end)
    return _quantity(value, unit, digits, soft=digits == "一" and not ordinal), end - at + took


def _hired() -> Token:
    return Token("请", "请", Kind.CONTENT, frozenset(("请",)))


@lru_cache(maxsize=20_000)
def _word(word: str) -> Token:
    member = MEMBERS.get(word)
    group = CHINESE.group.get(word)
    concept = group or (member[1] if member else word)
    keys = frozenset((word, concept))
    against = frozenset().union(*(CHINESE.against.get(key, frozenset()) for key in keys))
    unit = UNITS.get(word, "")
    if word in NEGATIONS or word in SCOPE or word in _ASKED_BY:
        return Token(word, _ASKED_BY.get(word, concept), Kind.FRAME, keys, against, member)
    if word in _FILLERS:
        return Token(word, concept, Kind.EMPTY, keys, against, member)
    if unit and not member and not group:
        kind = Kind.LIGHT if is_time(unit) else Kind.CONTENT
        return Token(word, unit, kind, keys | {unit}, against, member, unit=unit)
    kind = Kind.NAME if member is not None and is_proper(member[0]) else Kind.CONTENT
    return Token(word, concept, kind, keys, against, member)


def _with_roles(found: list[Token]) -> list[Token]:
    out: list[Token] = []
    role = ""
    for token in found:
        if token.low in _DIRECTION:
            role = _DIRECTION[token.low]
            out.append(token)
        elif token.kind >= Kind.CONTENT:
            out.append(replace(token, role=role) if role else token)
            role = ""
        else:
            out.append(token)
    return out
