"""One conversation told in different words is one context: the chain of what was meant before. Pure.

A turn that was answered from entry E counts as E, whatever words its asker chose; any other turn counts as its exact
text. That a turn was answered from E is known by receipt and never by resemblance: when E is delivered, a keyed digest
of everything exact (scope, the turns of the chain so far, this turn, the answer's text) is noted with E's id. Whoever
edits an answer, leaves out a turn, changes their order or invents a history makes another digest and has no receipt.

The digests are chained, so all of a request's can be told before any is looked up: one read of the store is enough.

The chain begins at the last turn that surely stands alone (`cache.standalone`), or at the beginning where that is not
sure. A question that stands alone itself has no chain: it is the same question as in a new conversation.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from cache import fingerprint
from cache.entry import Answer
from cache.followups import in_passing, of_the_matter
from cache.leeway import shows_in
from cache.policy import Rules
from cache.question import Past, Question
from cache.standalone import Turn, leans, looks_back, points_farther
from cache.subjects import borrowed, subjects

MOST_TURNS = 64  # answered turns before a question; with more, it is known by its exact bytes only
_NAMES = (b"scope ", b"key ", b"proof ")
# Of an assistant's turn: what a client sends back besides its text, where it says nothing.
_EMPTY: tuple[Any, ...] = (None, "", [], {}, False)


@dataclass(frozen=True, slots=True)
class Chat:
    """The messages of a chat that lineage understands: instructions, then user and assistant by turns, then the user.

    before: what stands before the first turn.  turns: (user message, the assistant's text), oldest first."""

    before: Sequence[Mapping[str, Any]]
    turns: Sequence[tuple[Mapping[str, Any], str]]


def read_chat(messages: Sequence[Mapping[str, Any]]) -> Chat | None:
    """None where anything else stands there: a tool's result, two users in a row, an instruction in between, a picture.
    The last message is the question and is not looked into."""
    start = 0
    while start < len(messages) and messages[start].get("role") in ("system", "developer"):
        start += 1
    talk = messages[start:-1]
    if len(talk) % 2 or len(talk) > 2 * MOST_TURNS:
        return None
    turns = []
    for user, assistant in zip(talk[::2], talk[1::2], strict=True):
        answer = _answer(assistant)
        if user.get("role") != "user" or answer is None or _text(user.get("content")) is None:
            return None
        turns.append((user, answer))
    return Chat(messages[:start], turns)


def past_of(
    chat: Chat, question: str, last: Mapping[str, Any], fresh: tuple[str, str, str], exact: tuple[str, str, str],
    rules: Rules, *, kept: bool,
) -> Past:  # fmt: skip
    """How much of what was said before a question belongs to it.

    question: its text.  last: the message it stands in.  fresh, exact: scope key, key and proof without its turns, and
    as it stands.  kept: the question is one person's affair: all that he said belongs to it."""
    talk = [Turn(_text(user.get("content")) or "", answer) for user, answer in chat.turns]
    start, reason, alone = _start(talk, question, rules, kept=kept)
    place, count = fresh[0], len(chat.turns)
    said = [fingerprint.canonical(user) for user, _ in chat.turns]
    asks = fingerprint.canonical(last)

    def chain(begin: int) -> list[str]:
        """The receipts of the turns from there on, each made of the one before."""
        links = [_tied(place, b"chain")]
        for at in range(begin, count):
            links.append(receipt(_tied(links[-1], said[at]), chat.turns[at][1]))
        return links

    links = {begin: chain(begin) for begin in {0, start, count if alone else start}}
    narrow = rules.lineage_reset_on_standalone and not kept
    places = _without_asides(talk, start, question) if narrow else list(range(start, count))
    told = frozenset(places)
    return Past(
        turns=tuple(_tied(place, fingerprint.canonical([said[at].decode(), chat.turns[at][1]])) for at in places),
        receipts=tuple(links[start][1 + at - start] for at in places), whole=len(places) == count,
        asked=tuple({_tied(each[-1], asks): None for each in links.values()}),
        fresh=fresh, exact=exact, reason=reason,
        said=(*(talk[at].said for at in places), question),
        unsaid=tuple(turn.said for at, turn in enumerate(talk) if at not in told),
    )  # fmt: skip


def receipt(asked: str, answer: str) -> str:
    """Under what it is noted that this answer was given there. asked: one of `Past.asked`.  32 hex digits."""
    return _tied(asked, b"answer " + answer.encode("utf-8", "surrogatepass"))


def within(question: Question, known: Mapping[str, int]) -> Question:
    """The question in the context that its receipts tell. known: receipt → id of the entry that the turn was answered
    from, as far as there are such.  A question of whose past nothing is known stays as it is."""
    past = question.past
    if past is None:
        return question
    if not past.turns:
        scope_key, key, proof = past.fresh
    elif past.whole and known.keys().isdisjoint(past.receipts):
        scope_key, key, proof = past.exact
    else:
        chain = [known.get(noted, exact) for noted, exact in zip(past.receipts, past.turns, strict=True)]
        told = fingerprint.canonical(chain)
        scope_key, key, proof = (_tied(each, name + told) for each, name in zip(past.fresh, _NAMES, strict=True))
    return _as(question, scope_key, key, proof, sum(each in known for each in past.receipts))


def kept_as(question: Question, answer: Answer) -> Question:
    """The question that an answer is kept under. With all that its key left out, where the answer shows something of
    it; with all of its history, where the answer speaks of what only turns outside of its chain named, or of what was
    said before it. Then it is no answer for others who share the key, or the chain."""
    past, leeway = question.past, question.leeway
    text = answer_text(answer) if leeway is not None or (past is not None and not past.whole) else None
    if leeway is not None and (text is None or shows_in(leeway, text)):
        return _as(question, *leeway.exact)
    if past is None or past.whole:
        return question
    if text is None or (borrowed(text, past.said, past.unsaid) is None and not (past.unsaid and looks_back(text))):
        return question
    return in_full(question) or question


def in_full(question: Question) -> Question | None:
    """The question with all of its history as it stands, where it is looked up with a part of it, then with all that
    its key left out; None where it is so already."""
    past, leeway = question.past, question.leeway
    if leeway is not None and question.scope.key == leeway.exact[0]:
        return None
    if past is not None and not past.whole and question.proof != past.exact[2]:
        return _as(question, *past.exact)
    return None if leeway is None else _as(question, *leeway.exact)


def answer_text(answer: Answer) -> str | None:
    """The text of its only choice, as a client puts it into its history. None where there is more in it than a text."""
    try:
        choices = orjson.loads(answer.body)["choices"]
        message = choices[0]["message"]
        text = message["content"]
    except (ValueError, LookupError, TypeError):
        return None
    return text if len(choices) == 1 and isinstance(text, str) and text and not message.get("tool_calls") else None


def _start(talk: Sequence[Turn], question: str, rules: Rules, *, kept: bool) -> tuple[int, str, bool]:
    """Which turn is the first that the question may lean on (len(talk) = none), why, and whether it stands alone."""
    if not talk:
        return 0, "it begins the conversation", True
    why = leans(question, talk)
    if kept:
        return 0, "it is one person's affair: all of the history belongs to it", why is None
    if why is None:
        if rules.standalone_across_history:
            return len(talk), "it stands alone", True
        return 0, "it stands alone, but standalone_across_history is off", True
    if not rules.lineage_reset_on_standalone:
        return 0, f"it may lean on the history: {why}", False
    if points_farther(question):
        return 0, f"it may lean on any earlier turn: {why}", False
    for place in range(len(talk) - 1, 0, -1):
        if leans(talk[place].said, talk[:place]) is None:
            near = frozenset[str]().union(*(subjects(turn.said) for turn in talk[place:]))
            far = frozenset[str]().union(*(subjects(turn.said) for turn in talk[:place]))
            named = min(subjects(question) & (far - near), default=None)
            if named is not None:
                return 0, f"it may lean on an earlier turn, which named {named!r}: {why}", False
            return place, f"it may lean on the last {len(talk) - place} turns: {why}", False
        if points_farther(talk[place].said):
            break
    return 0, f"it may lean on the history: {why}", False


def _without_asides(talk: Sequence[Turn], start: int, question: str) -> list[int]:
    """The turns of the chain, without those that a short follow-up about the matter does not lean on: after "is it
    free?" and "yes", "how long does that take?" still asks of what was talked of before."""
    if not of_the_matter(question):
        return list(range(start, len(talk)))
    places: list[int] = []
    heard: list[str] = []
    for at in range(start, len(talk)):
        if not places or not in_passing(talk[at].said, talk[at].answer, heard):
            places.append(at)
        heard += [talk[at].said, talk[at].answer]
    return places


def _as(question: Question, scope_key: str, key: str, proof: str, recognised: int = 0) -> Question:
    if scope_key == question.scope.key and proof == question.proof:
        return question
    scope = replace(question.scope, key=scope_key)
    return replace(question, scope=scope, key=key, proof=proof, recognised=recognised)


def _tied(key: str, data: bytes) -> str:
    """32 hex digits. key: a keyed digest itself, so nobody without the secret can make one. Source: RFC 7693, 2.9."""
    return hashlib.blake2b(data, key=key.encode(), digest_size=16).hexdigest()


def _answer(message: Mapping[str, Any]) -> str | None:
    if message.get("role") != "assistant":
        return None
    if any(value not in _EMPTY for name, value in message.items() if name not in ("role", "content")):
        return None
    return _text(message.get("content"))


def _text(content: object) -> str | None:
    """A text, or the one text part that says the same."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], Mapping):
        part = content[0]
        content = part.get("text") if part.keys() == {"type", "text"} and part.get("type") == "text" else None
    return content if isinstance(content, str) and content else None
