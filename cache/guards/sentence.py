"""Guards over how a question is built: what it asks for, who does what to whom, when, and what trails it."""

from cache.guards.difference import Difference
from cache.guards.reading import Reading
from cache.guards.token import Kind
from cache.words import words

_LONGER = 4.0  # one text may have this many times the telling words of the other
_STRONG = frozenset(
    ("why", "when", "where", "who", "how", "how much", "how long", "how many", "how often", "how far")
)  # fmt: skip
_COMPATIBLE = {
    frozenset(pair)
    for pair in (
        ("how", "where"), ("how", "who"), ("where", "who"), ("when", "how long"), ("how long", "how many"),
        ("how many", "how often"), ("how much", "how many"), ("how", "how much"),
    )
}  # fmt: skip
_OPPOSED_ROLES = (
    (words("from"), words("to into onto")), (words("before"), words("after")), (words("with"), words("without")),
    (words("over above"), words("under below")),
)  # fmt: skip
_SWAPPED_ROLES = (words("to into onto"), words("from"), words("before"), words("after"), words("than"), words("by"))
_OF = words("of at in for on")
# Relations in which either may be named first.
_MUTUAL = words("""
    married marry marriage friend friends dating engaged similar related sibling siblings cousin neighbour difference
    different same between 区别 相同 结婚
    """)


def length(a: Reading, b: Reading) -> str | None:
    """Neither text may say many times more than the other, nor differ where it is too long to be read."""
    if a.rest != b.rest:
        return "too long to be read to the end"
    short, long = sorted((len(a.content) + len(a.numbers), len(b.content) + len(b.numbers)))
    return f"{short} words against {long}" if long > 6 and long > _LONGER * max(short, 1) else None


def form(a: Reading, b: Reading) -> str | None:
    """The same wishes for the shape of the answer: in one sentence, as a table, 用一句话."""
    return None if a.form == b.form else f"{_listed(a.form)} against {_listed(b.form)}"


def asking(a: Reading, b: Reading, between: Difference) -> str | None:
    """The same kind of answer must be wanted: how is not why, when is not how much."""
    if a.asking & b.asking or not a.asking or not b.asking:
        return None
    strong_a, strong_b = a.asking & _STRONG, b.asking & _STRONG
    clash = strong_a and strong_b and not any(frozenset((x, y)) in _COMPATIBLE for x in strong_a for y in strong_b)
    if clash or (between.alike and (strong_a or strong_b)):
        return f"{_listed(a.asking)} against {_listed(b.asking)}"
    return None


def _listed(said: frozenset[str]) -> str:
    return ", ".join(sorted(said)) or "nothing"


def persons(a: Reading, b: Reading, between: Difference) -> str | None:
    """The same he and she in the same order, the same I and you, and the same owner of a thing both name."""
    if a.genders != b.genders:
        return "he and she differ"
    if len(a.voices) > 1 and len(b.voices) > 1 and a.voices[:2] != b.voices[:2] and between.shared:
        return "I and you have changed places"
    for owner, thing in sorted(a.owners):
        others = {other for other, same in b.owners if same == thing}
        if others and owner not in others:
            return f"{thing} is {owner} against {', '.join(sorted(others))}"
    return None


def tense(a: Reading, b: Reading, between: Difference) -> str | None:
    """In sentences built alike: what is, what was and what will be are three questions."""
    return f"{a.tense} against {b.tense}" if between.alike and a.tense != b.tense else None


def tail(a: Reading, b: Reading, _: Difference) -> str | None:
    """A sentence that one side has on top, about something the other never mentions."""
    for here, there in ((a, b), (b, a)):
        if here.sentences <= there.sentences:
            continue
        for number in range(here.sentences):
            said = [token for token in here.content if token.sentence == number]
            if len(said) >= 3 and not any(token.keys & there.known for token in said):
                return f"only one side says {' '.join(token.low for token in said[:6])!r}"
    return None


def order(a: Reading, b: Reading, between: Difference) -> str | None:
    """Who does what to whom, and from where to where: shared words must not have changed places."""
    if (swapped := _roles(a, b, between)) is not None:
        return swapped
    here, there = between.order_a, between.order_b
    if here == there:
        if a.passive != b.passive and len(here) > 1 and _names_among(a, here):
            return "active against passive"
        return _repeated_words_moved(a, b) if between.alike else None
    moved = [concept for concept, other in zip(here, there, strict=True) if concept != other]
    if a.passive != b.passive and moved[::-1] == [concept for concept in there if concept in moved]:
        return None
    if len(moved) == 2 and (frozenset(moved) in a.joined & b.joined or a.known & b.known & _MUTUAL - set(moved)):
        return None
    if _same_roles(a, b, moved):
        return None
    if not _same_kind(a, moved) and (
        not between.alike or _rotated(a, b, here, there) or _regrouped(a, b, here, moved)
    ):  # fmt: skip
        return None
    return f"other order: {' '.join(here)} against {' '.join(there)}"


def _same_roles(a: Reading, b: Reading, moved: list[str]) -> bool:
    """Whether a preposition says the same of each moved word on both sides: from Oslo to Rome, to Rome from Oslo."""
    roles = [{token.concept: token.role for token in reading.tokens} for reading in (a, b)]
    return all(roles[0][concept] == roles[1][concept] != "" for concept in moved)


def _roles(a: Reading, b: Reading, between: Difference) -> str | None:
    """A word that is the source on one side and the goal on the other, or two that swapped their prepositions."""
    once = between.order_a
    role_a = {token.concept: token.role for token in a.tokens if token.concept in once}
    role_b = {token.concept: token.role for token in b.tokens if token.concept in once}
    for some, others in _OPPOSED_ROLES:
        for concept in once:
            one, other = role_a[concept], role_b[concept]
            if (one in some and other in others) or (one in others and other in some):
                return f"{concept}: {one} against {other}"
    if len(once) < 5 and a.known & b.known & _MUTUAL:
        return None
    for group in _SWAPPED_ROLES:
        gained = [concept for concept in once if role_a[concept] not in group and role_b[concept] in group]
        lost = [concept for concept in once if role_a[concept] in group and role_b[concept] not in group]
        if gained and lost:
            return f"{lost[0]} and {gained[0]} changed places"
    return None


def _repeated_words_moved(a: Reading, b: Reading) -> str | None:
    """Words said more than once have no single place; if all words are equal, so must be their whole order."""
    here = [token.concept for token in a.tokens if token.kind >= Kind.CONTENT]
    there = [token.concept for token in b.tokens if token.kind >= Kind.CONTENT]
    if here == there or sorted(here) != sorted(there):
        return None
    return f"other order: {' '.join(here)} against {' '.join(there)}"


def _names_among(a: Reading, concepts: tuple[str, ...]) -> bool:
    return any(token.kind is Kind.NAME and token.concept in concepts for token in a.tokens)


def _same_kind(a: Reading, moved: list[str]) -> bool:
    """Whether two of the moved words are of one kind, two names or two numbers: a swap of those changes all."""
    kinds = [
        token.member[0] if token.member else token.kind.name
        for token in a.tokens
        if token.concept in moved and (token.member or token.kind >= Kind.NAME)
    ]
    return len(kinds) != len(set(kinds))


def _rotated(a: Reading, b: Reading, here: tuple[str, ...], there: tuple[str, ...]) -> bool:
    """Whether one order is the other with its end brought to the front: "On the menu, what vegan dishes ..."

    What moves must be held by a preposition; of two bare words that change places, one acts and one suffers."""
    if a.chinese:
        return len(here) > 2 and any(
            here[cut:] + here[:cut] == there for cut in (1, len(here) - 1) if len(here[0 if cut == 1 else -1]) > 1
        )
    roles = [{token.concept: token.role for token in reading.tokens} for reading in (a, b)]
    return any(
        here[cut:] + here[:cut] == there
        and any(roles[0][edge] == roles[1][edge] != "" for edge in (here[0], here[cut]))
        for cut in range(1, len(here))
    )


def _regrouped(a: Reading, b: Reading, here: tuple[str, ...], moved: list[str]) -> bool:
    """Whether two neighbours only swapped because grammar asks for it: kitchen light, light in the kitchen."""
    if len(moved) != 2 or abs(here.index(moved[0]) - here.index(moved[1])) != 1:
        return False
    ones = [next(token for token in a.tokens if token.concept == concept) for concept in moved]
    others = [next(token for token in b.tokens if token.concept == concept) for concept in moved]
    if any(token.kind is not Kind.CONTENT for token in ones):
        return False
    if not ones[0].low.isascii():
        return any(len(token.low) > 1 for token in ones)
    held = [(one.role in _OF) != (other.role in _OF) for one, other in zip(ones, others, strict=True)]
    bent = any(_unowned(one.low) != _unowned(other.low) for one, other in zip(ones, others, strict=True))
    return sum(held) == 1 or (bent and not any(held))


def _unowned(low: str) -> str:
    return low.removesuffix("'s").removesuffix("'")
