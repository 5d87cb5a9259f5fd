"""Guards over the small words: before and during, should and must, I and me; who acts, and what a denial denies.

Such words weigh next to nothing in a vector, and they turn an answer round. They are compared only in sentences built
alike, where a word that differs was chosen; further apart, the same thing is said with other small words anyway."""

import re
from collections import Counter
from functools import lru_cache

from cache.guards.difference import Difference
from cache.guards.grammar import KEEPS_ROLE, PREPOSITIONS
from cache.guards.reading import Reading
from cache.guards.shape import addressed
from cache.guards.token import Kind, Token
from cache.inflection import VERBS, lemma
from cache.words import words

_CLOSE = 0.5  # likeness; chosen on our development packs (tests/bench/guards_report)
_OVERLAPPING = 0.66  # overlap; likewise
# Where one side says such a word and the other says neither it nor one that means the same, the answer may turn.
_DECIDING = words("""
    before after during until till since within beyond over above under below beneath near nearby outside inside behind
    against unless while although though despite even from into onto via by without towards toward through across
    between among around once twice too few a_few same same_as upon
    以上 以下 以内 以外 以前 以后 之前 之后 之内 之间 之外 前 后 内 外 旁边 附近 被 让 将 比 超过 不到 不足 至少 只有
    """)
# They decide only where the answer is yes or no: "is it still open", but not "why is it still open".
_DECIDING_YES = words("ever sometimes some still already just")
_SAME = tuple(
    map(
        words,
        (
            "until till",
            "once when if whenever after",
            "during while within",
            "inside within in",
            "through via by with",
            "by with",
            "near nearby around by",
            "into onto on in to",
            "from of at against",
            "towards toward to",
            "upon on",
            "over above beyond",
            "under below beneath",
            "以前 之前 前",
            "以后 之后 后",
            "以内 之内 内",
            "以外 之外 外",
            "附近 旁边",
        ),
    )
)
# Prepositions that may stand for one another before the same noun.
_NEIGHBOURS = tuple(map(words, ("in at on of for about as", "for to of about", "with of about", "to of about")))
_TURNING = words("with for to in at on as of about")
# What only says something against its counterpart on the other side.
_COUNTERPARTS = (("上", "下"), ("来", "去"), ("里", "外"), ("进", "出"), ("被", "让"), ("给", "从"), ("向", "从"))

_MODALS = {
    word: mode
    for mode, said in {
        "leave": """
            can could may might able allowed possible permitted 可以 能 能够 可 可否 能否 能不能 可不可以 是否可以""",
        "advice": "should ought recommended advisable 应该 应当 该 该不该",
        "duty": "must required mandatory obligatory compulsory 必须 必需 要 要不要 需要 需不需要 得 我要 用不用",
        "future": "will would shall 会 会不会",
    }.items()
    for word in said.split()
}  # fmt: skip
_DUTY = re.compile(
    r"\b(?:do|does|did|will|would|should) (?:\w+ ){1,4}(?:need|have to|require)\b|\bha(?:ve|s|d) to\b|\bneeds? to be\b"
    r"|\b(?:is|are|am|was|were) (?:\w+ ){1,4}(?:needed|necessary|obliged)\b|\bneed i\b"
)
_ADVICE = re.compile(r"\b(?:am|are|is) (?:\w+ ){0,3}supposed to\b|\bhad better\b|\b(?:i|you|we)'d better\b")
_WAYS = re.compile(r"\bhow (?:can|could|should|do|would|must|to)\b|\bwhat (?:can|could|should|do|must|would) \w+ do\b")
_SAME_AS = re.compile(r"\bsame (?:\w+ )?as\b")
_SOME = re.compile(r"^(?:is|are|do|does|did|can|will|would|have|has|were|was|should|must) some\b")
_DONE_ZH = words("了 过 已 已经 完")

# "Who owns it" asks for the one who acts, "who does it own" for the other.
_WHO = r"(?:who|whom|what|which \w+)"
_HELPERS = r"(?:do|does|did|can|could|will|would|should|may|might|must|has|have|had)"
_DOER = re.compile(rf"{_WHO} (?!(?:is|are|was|were|{_HELPERS})\b)\w")
_DONE_TO = re.compile(rf"{_WHO} {_HELPERS}\b")
_FOR_ME = re.compile(r"\bfor me to\b")
_SUBJECTS = {"i": "i", "they": "they", "he": "he", "she": "she", "we": "we"}
_OBJECTS = {"me": "i", "them": "they", "him": "he", "her": "she", "us": "we"}
_OWN = {"my": "i", "mine": "i", "our": "we", "your": "you", "their": "they", "his": "he", "her": "she"}
_PRONOUN = re.compile(r"\b(?:i|me|they|them|he|him|she|her|we|us|you)\b(?!-)")
_QUESTION_WORDS = words("how what when where why who which and but so please if")
_INVERTED = re.compile(r"(?:^|why |how come |[.?!,;] ?)\w+n[o']t\b")
_SENTENCE = re.compile(r"[.?!;\n]+\s*")
_AUXILIARIES = words(
    "can could do does did will would should may might must shall has have had don't doesn't can't won't"
)
_UNDERGOES = re.compile(
    r"\b(?:be|been|being|get|gets|got|getting|am|is|are|was|were)\b(?: (?:i|we|you|they|he|she|it))?(?: (?:not|still"
    r"|already|also|ever|always))? (?P<verb>\w+(?:ed|en|wn|ght|ept|old|aid|ade|ent|ost|uilt|one|ut|eld|ead))\b"
)
_PASSIVE_PERSON = re.compile(
    r"\b(?:(?:am|are|was|were|is) (?P<late>i|we|you|they|he|she)|(?P<early>i|we|you|they|he|she)(?:'m|'re)?"
    r"(?: (?:can|could|will|would|should|may|might|must|have|has|not|also|still|always)){0,2}"
    r" (?:be|been|get|gets|got|am|are|was|were)) (?P<verb>\w+(?:ed|en|wn|ght|aid|ent|old|ept))\b"
)
# Participles that tell what one is or may, not what one suffers.
_STATES = words("""
    allow require suppose need oblige permit entitle expect interest concern worry tired bored lose stick do use
    vaccinated married divorced finish please confuse eligible able locked
    """)
_PERSONS_ZH = {
    "我": "我", "我们": "我", "咱": "我", "咱们": "我", "我的": "我", "你": "你", "您": "你", "你们": "你",
    "他": "他", "她": "她", "它": "它", "他们": "他们", "她们": "他们", "谁": "谁",
}  # fmt: skip
_CUT_OFF = re.compile(
    r"(?:\b(?:no|not|never|don't|doesn't|can't|cannot|won't|stop)|不要?|不是|不能|不用|没有?|别)\s?[,.;:!，。；：！—–]+\s*[\w一-鿿]"
)
_DENYING = words("not no never cannot 不 没 没有 不要 不能 不会 别 only just 只 仅 只能")


def _close(between: Difference) -> bool:
    """Whether a small word that differs was chosen; in short sentences one other word leaves little in common."""
    return between.alike or between.likeness >= _CLOSE or between.overlap >= _OVERLAPPING


def small_words(a: Reading, b: Reading, between: Difference) -> str | None:
    """In sentences built alike, no small word that decides may stand on one side only: before, during, 以上."""
    if not _close(between):
        return None
    small_a, small_b = said_a, said_b = _small(a), _small(b)
    if ("yes or no" in a.asking) != ("yes or no" in b.asking):
        said_a, said_b = said_a - _DECIDING_YES, said_b - _DECIDING_YES
    odd_a, odd_b = _unanswered(said_a, said_b), _unanswered(said_b, said_a)
    if odd_a or odd_b:
        return f"{_shown(odd_a)} against {_shown(odd_b)}"
    for one, other in _COUNTERPARTS:
        for here, there in ((said_a, said_b), (said_b, said_a)):
            if one in here - there and other in there - here:
                return f"{one} against {other}"
    return _governed(a, b, small_a, small_b)


def _small(reading: Reading) -> frozenset[str]:
    said = {token.low for token in reading.tokens if token.kind < Kind.CONTENT or not token.low.isascii()}
    if _SAME_AS.search(reading.plain):
        said.add("same_as")
    if "few" in said and re.search(r"\ba few\b", reading.plain):
        said = said - {"few"} | {"a_few"}
    if "by" in said and reading.passive:
        said -= {"by"}
    if "yes or no" not in reading.asking:
        said -= _DECIDING_YES
    elif "some" in said and not _SOME.search(reading.plain):
        said -= {"some"}
    return frozenset(said)


def _unanswered(here: frozenset[str], there: frozenset[str]) -> list[str]:
    return sorted(
        word
        for word in here & (_DECIDING | _DECIDING_YES) - there
        if not any(word in same and same & there for same in _SAME)
    )  # fmt: skip


def _shown(odd: list[str]) -> str:
    return ", ".join(map(repr, odd)) or "nothing"


def _governed(a: Reading, b: Reading, small_a: frozenset[str], small_b: frozenset[str]) -> str | None:
    """The same noun behind prepositions that are no neighbours: for a friend, with a friend."""
    roles_a, roles_b = _roles(a), _roles(b)
    for concept, one in roles_a.items():
        other = roles_b.get(concept, one)
        if one != other and {one, other} <= _TURNING and not any({one, other} <= near for near in _NEIGHBOURS):
            return f"{concept}: {one} against {other}"
    if a.chinese:
        return None
    odd_a, odd_b = (here & _TURNING - there - {"to"} for here, there in ((small_a, small_b), (small_b, small_a)))
    if odd_a and odd_b and not any({one, other} <= near for one in odd_a for other in odd_b for near in _NEIGHBOURS):
        return f"{_shown(sorted(odd_a))} against {_shown(sorted(odd_b))}"
    return None


def _roles(reading: Reading) -> dict[str, str]:
    if reading.chinese:
        return {}
    found: dict[str, str] = {}
    role = ""
    for token in reading.tokens:
        if token.low in _TURNING or token.low in PREPOSITIONS:
            role = token.low
        elif token.kind >= Kind.CONTENT:
            if role and not (role == "to" and token.low in VERBS):
                found[token.concept] = role
            role = ""
        elif token.low not in KEEPS_ROLE:
            role = ""
    return found


def modes(a: Reading, b: Reading, between: Difference) -> str | None:
    """In sentences built alike: what I may do, should do, must do and will do are four questions."""
    if not _close(between):
        return None
    mode_a, mode_b = _modes(a), _modes(b)
    if mode_a == mode_b:
        return None
    odd_a, odd_b = mode_a - mode_b, mode_b - mode_a
    ways = bool(_WAYS.search(a.plain)) and bool(_WAYS.search(b.plain))
    if ways and "duty" not in odd_a | odd_b:
        return None
    clash = bool(odd_a and odd_b)
    if not clash:
        clash = not a.chinese and bool((odd_a | odd_b) & {"advice", "duty"}) and _asks(a) and _asks(b)
    if not clash and a.chinese and (odd_a | odd_b) & {"leave", "future"}:
        able, done = (a, b) if odd_a else (b, a)
        clash = any(token.low in _DONE_ZH for token in done.tokens) and not any(
            token.low in _DONE_ZH for token in able.tokens
        )
    return f"{', '.join(sorted(mode_a)) or 'fact'} against {', '.join(sorted(mode_b)) or 'fact'}" if clash else None


def _modes(reading: Reading) -> frozenset[str]:
    if reading.chinese:
        said = [token.low for token in reading.tokens]
        return frozenset(_MODALS[low] for low in said if low in _MODALS)
    return _modes_of(reading.plain)


@lru_cache(maxsize=4096)
def _modes_of(text: str) -> frozenset[str]:
    """Of an English text; the asked one is compared with every candidate."""
    plain = addressed(text)
    found = {_MODALS[word] for word in re.findall(r"[a-z']+", plain) if word in _MODALS}
    if _DUTY.search(plain):
        found.add("duty")
    if _ADVICE.search(plain):
        found.add("advice")
    return frozenset(found)


def _asks(reading: Reading) -> bool:
    return "yes or no" in reading.asking


def actors(a: Reading, b: Reading, between: Difference) -> str | None:
    """In sentences built alike: who acts must act on both sides, and who suffers must suffer."""
    if not _close(between):
        return None
    if a.chinese:
        return _actors_zh(a, b)
    asked = {_DOER.match(a.plain) is not None, _DOER.match(b.plain) is not None}
    if between.order_a != between.order_b and len(asked) == 2 and (_DONE_TO.match(a.plain) or _DONE_TO.match(b.plain)):
        return "who acts against on whom"
    return _actors(a, b)


def _actors(a: Reading, b: Reading) -> str | None:
    plain_a, plain_b = (_FOR_ME.sub(" i ", addressed(reading.plain)) for reading in (a, b))
    said_a, said_b = _PRONOUN.findall(plain_a), _PRONOUN.findall(plain_b)
    full_a, full_b = _PRONOUN.findall(a.plain), _PRONOUN.findall(b.plain)
    laid = [(said_a, said_b)]
    if "you" in full_a and "you" in full_b:
        laid.append((full_a, full_b))
    parts_a, parts_b = _SENTENCE.split(plain_a), _SENTENCE.split(plain_b)
    if len(parts_a) == len(parts_b):
        laid.extend(
            (_PRONOUN.findall(one), _PRONOUN.findall(other)) for one, other in zip(parts_a, parts_b, strict=True)
        )
    for one, other in laid:
        acts_a, bears_a, acts_b, bears_b = _acts(one), _bears(one), _acts(other), _bears(other)
        for who in sorted((acts_a - bears_a) & (bears_b - acts_b) | (acts_b - bears_b) & (bears_a - acts_a)):
            return f"{who} acts on one side only"
    if said_a != said_b and Counter(said_a) == Counter(said_b) and len(set(said_a)) > 1:
        return f"{' '.join(said_a)} against {' '.join(said_b)}"
    if _passive_persons(plain_a) != _passive_persons(plain_b) and said_a and said_b:
        return "done by somebody against done to somebody"
    subject_a, subject_b = _subject(a), _subject(b)
    if subject_a and subject_b and subject_a != subject_b and bool(_undergone(a)) == bool(_undergone(b)):
        both_named = _mentions(b, subject_a) and _mentions(a, subject_b)
        return f"{subject_a} acts against {subject_b}" if both_named else None
    return None


def _acts(said: list[str]) -> set[str]:
    return {_SUBJECTS[word] for word in said if word in _SUBJECTS}


def _bears(said: list[str]) -> set[str]:
    return {_OBJECTS[word] for word in said if word in _OBJECTS}


def _passive_persons(plain: str) -> frozenset[tuple[str, str]]:
    """(who, what is done to them): "am I charged", "can I be charged"."""
    found = ((match["late"] or match["early"], lemma(match["verb"])) for match in _PASSIVE_PERSON.finditer(plain))
    return frozenset((who, verb) for who, verb in found if verb not in _STATES)


def _undergone(reading: Reading) -> bool:
    return _UNDERGOES.search(reading.plain) is not None


def _subject(reading: Reading) -> str:
    """Who acts, in a question: the head of what stands behind the first auxiliary; "" where that cannot be told."""
    for at, token in enumerate(reading.tokens):
        before = reading.tokens[at - 1].low if at else ""
        if token.low not in _AUXILIARIES or before in _SUBJECTS or before == "you":
            continue
        if before and before not in _QUESTION_WORDS and token.low not in ("do", "does", "did"):
            continue
        for other in reading.tokens[at + 1 : at + 6]:
            if other.low in _SUBJECTS or other.low == "you":
                return _SUBJECTS.get(other.low, "you")
            if other.kind >= Kind.CONTENT:
                return other.concept
            if other.kind is Kind.LIGHT or other.low in ("it", "there", "this", "that", "these", "be", "to"):
                return ""
        return ""
    return ""


def _mentions(reading: Reading, who: str) -> bool:
    return any(
        token.concept == who
        or who in token.low.split("_")
        or _SUBJECTS.get(token.low) == who
        or _OBJECTS.get(token.low) == who
        or _OWN.get(token.low) == who
        or (who == "you" and token.low == "you")
        for token in reading.tokens
    )


def _actors_zh(a: Reading, b: Reading) -> str | None:
    people_a, people_b = _people(a), _people(b)
    who_a, who_b = {who for who, _, _ in people_a}, {who for who, _, _ in people_b}
    if ("我" in who_a - who_b and "你" in who_b - who_a) or ("你" in who_a - who_b and "我" in who_b - who_a):
        return "I against you"
    here, there = _said_zh(a), _said_zh(b)
    if not who_a & who_b or Counter(here) != Counter(there) or here == there:
        return None
    others_a = [word for word in here if word not in _PERSONS_ZH.values()]
    others_b = [word for word in there if word not in _PERSONS_ZH.values()]
    bare_a, bare_b = ([who for who, owns, _ in people if not owns] for people in (people_a, people_b))
    if others_a == others_b:
        owned = len(bare_a) != len(people_a) or len(bare_b) != len(people_b)
        moved = [who for who, _, _ in people_a] != [who for who, _, _ in people_b]
        return "persons have changed places" if moved or not owned else None
    return "persons have changed places" if bare_a or bare_b else None


def _people(reading: Reading) -> list[tuple[str, bool, int]]:
    """(person, whether it owns what follows, place) of a Chinese text."""
    found = []
    for at, token in enumerate(reading.tokens):
        if token.low in _PERSONS_ZH:
            after = reading.tokens[at + 1].low if at + 1 < len(reading.tokens) else ""
            found.append((_PERSONS_ZH[token.low], token.low == "我的" or after == "的", at))
    return found


def _said_zh(reading: Reading) -> list[str]:
    return [
        _PERSONS_ZH.get(token.low, token.concept)
        for token in reading.tokens
        if token.low in _PERSONS_ZH or token.kind >= Kind.CONTENT
    ]


def focus(a: Reading, b: Reading, between: Difference) -> str | None:
    """A denial, or "only", must stand before the same word on both sides, and be cut off by a comma on both or none."""
    if bool(_CUT_OFF.search(a.plain)) != bool(_CUT_OFF.search(b.plain)):
        return "a pause behind the denial on one side only"
    if not _close(between):
        return None
    aimed_a, aimed_b = _aimed(a), _aimed(b)
    for word in aimed_a.keys() & aimed_b.keys():
        one, other = aimed_a[word], aimed_b[word]
        if word == "not" and bool(_INVERTED.search(a.plain)) != bool(_INVERTED.search(b.plain)):
            continue
        if one != other and one in {token.concept for token in b.tokens} and other in {t.concept for t in a.tokens}:
            return f"{word} {one} against {word} {other}"
    return None


def _aimed(reading: Reading) -> dict[str, str]:
    """What each denial denies: the next word that says something."""
    found: dict[str, str] = {}
    for at, token in enumerate(reading.tokens):
        if token.low in _DENYING:
            target = next((other for other in reading.tokens[at + 1 :] if _says(other)), None)
            found.setdefault(token.low, target.concept if target else "")
    return found


def _says(token: Token) -> bool:
    return token.kind >= Kind.LIGHT
