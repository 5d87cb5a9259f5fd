"""Where two readings differ: which words one has and the other lacks, and how alike their sentences are built."""

from dataclasses import dataclass
from functools import lru_cache

from cache.guards.reading import Reading
from cache.guards.token import Kind, Token
from cache.words import listed

_SUFFIXES = listed("""
    ations ation ements ement ments ment ities ity ions ion ances ance ences ence ally als al ness ing ings ed ers er
    ors or ly ive able ible ant ent ic es e y s t
    """)
# Chosen on our development packs: lower lets fewer rewordings through, higher more traps (tests/bench/guards_report).
ALIKE = 0.6  # likeness
OVERLAPPING = 0.85  # overlap
BRIEF = 2.5  # telling words; a single Chinese character is half of one
_SHORTEST_ROOT = 4  # letters
_POSSIBLE = ("able", "ible")
_DONE = ("ed", "en")
# Same root, other thing.
_FALSE_FRIENDS = frozenset(
    frozenset(pair.split("/"))
    for pair in listed("""
        universe/university organ/organization organ/organic general/generic general/generate commun/community
        import/important import/importance universal/university universal/universe employer/employee lessor/lessee
        physic/physical physics/physical physician/physics physical/physician author/authority minor/minority
        major/majority computer/compute secret/secretary secret/secretion relative/relation relate/relative
        active/activity executive/execute operate/operator part/party past/paste contract/contractor native/nation
        nation/native rate/ration station/state state/station statement/state port/portion port/porter act/actor
        account/accountant consult/consultant contest/content president/preside resident/reside confident/confidential
        potent/potential department/depart apartment/apart commit/committee train/trainer train/trainee pay/payer
        pay/payee invent/inventory direct/director direct/directory fact/factor factory/factor factory/fact
        doctor/doctoral mobile/mobility hospital/hospitality capital/capitalism social/society history/historian
        custom/customer person/personal personal/person nature/natural science/scientist experience/experiment
        except/exception manual/manually final/finally late/lately hard/hardly near/nearly policy/police polic/policy
        signal/sign significant/sign design/designer market/marketing price/priceless market/marketer game/gamer
        host/hostel motor/motion vision/visit visit/vision mission/miss miss/mission session/sess passion/pass
        pass/passion passive/pass message/mess percent/percentage vegetable/veget even/event event/even order/orderly
        number/numb
        """)
)


@dataclass(frozen=True, slots=True)
class Difference:
    """only_a, only_b: tokens that the other side lacks, light words included.  shared: how many telling words agree.
    likeness: share of all words, sentence frame included, that both have, in [0, 1].
    overlap: the same share among the words that say something.
    brief: both say so little that each word is half the question.
    order_a, order_b: the shared content words and numbers, each once, in either text's order."""

    only_a: tuple[Token, ...]
    only_b: tuple[Token, ...]
    shared: int
    likeness: float
    overlap: float
    brief: bool
    order_a: tuple[str, ...]
    order_b: tuple[str, ...]

    @property
    def alike(self) -> bool:
        """Whether the two are built so much alike that every differing word counts."""
        return self.likeness >= ALIKE or self.overlap >= OVERLAPPING or self.brief


def difference(a: Reading, b: Reading) -> Difference:
    """Match the words of two readings, by meaning first and by root second."""
    left_a, common = _unmatched(a.tokens, b.tokens)
    left_b, _ = _unmatched(b.tokens, a.tokens)
    left_a, left_b, kin = _without_kin(left_a, left_b)
    said_a = sum(1 for token in a.tokens if token.kind is not Kind.EMPTY)
    said_b = sum(1 for token in b.tokens if token.kind is not Kind.EMPTY)
    same = sum(1 for token in common if token.kind is not Kind.EMPTY) + kin
    shared = sum(1 for token in common if token.kind in (Kind.CONTENT, Kind.NAME)) + kin
    once = _once(a.tokens) & _once(b.tokens)
    return Difference(
        only_a=tuple(left_a),
        only_b=tuple(left_b),
        shared=shared,
        likeness=2 * same / (said_a + said_b) if said_a + said_b else 1.0,
        overlap=2 * shared / (len(a.content) + len(b.content)) if a.content or b.content else 0.0,
        brief=0 < max(a.size, b.size) <= BRIEF and _says(left_a) and _says(left_b),
        order_a=_order(a.tokens, once),
        order_b=_order(b.tokens, once),
    )


def _unmatched(here: tuple[Token, ...], there: tuple[Token, ...]) -> tuple[list[Token], list[Token]]:
    """(what there lacks of here, the rest); a name or number said more often than over there counts as lacking."""
    supply: dict[str, int] = {}  # a plain one: for a dozen words a Counter costs more than all the rest
    for token in there:
        supply[token.concept] = supply.get(token.concept, 0) + 1
    left, common = [], []
    for token in here:
        more = supply.get(token.concept)  # None: never said there, 0: said less often
        if more:
            supply[token.concept] = more - 1
            common.append(token)
        elif token.kind is not Kind.EMPTY and (more is None or token.kind >= Kind.NAME):
            left.append(token)
    return left, common


def _without_kin(left_a: list[Token], left_b: list[Token]) -> tuple[list[Token], list[Token], int]:
    """Takes away pairs that are one word in two shapes: form and formation, charge and charging."""
    kin = 0
    able = [token for token in left_b if Kind.LIGHT <= token.kind < Kind.NUMBER]  # to be related to anything
    for token in list(left_a):
        for other in able:
            if related(token, other):
                left_a.remove(token)
                left_b.remove(other)
                able.remove(other)
                kin += 1
                break
    return left_a, left_b, kin


def related(a: Token, b: Token) -> bool:
    """Whether two tokens are one English word in two shapes, such as verify and verification."""
    if a.kind < Kind.LIGHT or b.kind < Kind.LIGHT or a.kind is Kind.NUMBER or b.kind is Kind.NUMBER:
        return False
    low_a, low_b = a.low.removesuffix("'s"), b.low.removesuffix("'s")
    if low_a == low_b or not a.keys.isdisjoint(b.keys):
        return True
    if low_a[:_SHORTEST_ROOT] != low_b[:_SHORTEST_ROOT] or not (low_a + low_b).isascii():
        return False
    if a.kind is Kind.NAME or b.kind is Kind.NAME or frozenset((low_a, low_b)) in _FALSE_FRIENDS:
        return False
    return not _possible_and_done(low_a, low_b) and not _roots(low_a).isdisjoint(_roots(low_b))


def _possible_and_done(one: str, other: str) -> bool:
    """Whether one can be done and the other is done: refundable, refunded."""
    return one.endswith(_POSSIBLE) != other.endswith(_POSSIBLE) and (one.endswith(_DONE) or other.endswith(_DONE))


@lru_cache(maxsize=20_000)
def _roots(word: str) -> frozenset[str]:
    ends = [suffix for suffix in _SUFFIXES if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_ROOT]
    return frozenset((word, *(word[: -len(suffix)] for suffix in ends)))


def _order(tokens: tuple[Token, ...], once: set[str]) -> tuple[str, ...]:
    return tuple(token.concept for token in tokens if token.concept in once and token.kind >= Kind.CONTENT)


def _says(tokens: list[Token]) -> bool:
    return any(token.kind in (Kind.CONTENT, Kind.NAME) for token in tokens)


def _once(tokens: tuple[Token, ...]) -> set[str]:
    once: set[str] = set()
    again: set[str] = set()
    for token in tokens:
        if token.kind >= Kind.CONTENT:
            (again if token.concept in once else once).add(token.concept)
    return once - again
