"""Receipts as the cache keeps them: at once in memory, soon in the store, and worth nothing without their entry."""

import asyncio

import orjson
import pytest
from chats import ANSWER, FIRST, FOLLOW, asked, chat
from entries import entry

from cache.entry import Entry
from cache.errors import StoreUnavailable
from cache.protocols import Receipt
from cache.question import Question, Reach
from cache.receipts import Receipts
from cache.store.memory import MemoryStore
from cache.worth import Capacity


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Store(MemoryStore):
    """Counts, and is away when a test says so."""

    reads = 0
    away = False
    slow = False

    async def receipts(self, names: object) -> list[Receipt]:
        self.reads += 1
        if self.away:
            raise StoreUnavailable("away")
        if self.slow:
            await asyncio.Event().wait()
        return await super().receipts(names)  # type: ignore[arg-type]

    async def note_receipts(self, noted: object) -> None:
        if self.away:
            raise StoreUnavailable("away")
        await super().note_receipts(noted)  # type: ignore[arg-type]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return Store(Capacity(100), clock)


def answered(reach: Reach = Reach.SIMILAR) -> Entry:
    body = orjson.dumps({"choices": [{"message": {"role": "assistant", "content": ANSWER}}]})
    found = entry("first", reach=reach, body=body)
    return found


def pair() -> tuple[Question, Question]:
    one, other = (asked(chat(first, ANSWER, FOLLOW)) for first in FIRST)
    return one, other


async def test_what_was_just_delivered_is_known_at_once_and_after_a_restart(store: Store, clock: Clock) -> None:
    kept = answered()
    await store.put(kept)
    receipts = Receipts(store, clock)
    for first in FIRST:
        receipts.note(asked(chat(first)), kept)
    one, other = map(receipts.at_hand, pair())
    assert one.scope == other.scope != pair()[0].scope
    assert await receipts.resolved(pair()[0]) == one and store.reads == 0, "memory knew all of it"
    await receipts.flush()
    again = Receipts(store, clock)
    assert again.at_hand(pair()[0]) == pair()[0]
    assert await again.resolved(pair()[0]) == one and store.reads == 1
    assert again.at_hand(pair()[0]) == one, "read once"


async def test_a_store_that_is_away_or_slow_costs_exact_words_and_nothing_else(store: Store, clock: Clock) -> None:
    receipts = Receipts(store, clock, deadline_s=0.01)
    store.away = True
    assert await receipts.resolved(pair()[0]) == pair()[0]
    store.away, store.slow = False, True
    assert await receipts.resolved(pair()[0]) == pair()[0]


async def test_what_could_not_be_written_is_written_later(store: Store, clock: Clock) -> None:
    kept = answered()
    await store.put(kept)
    receipts = Receipts(store, clock)
    receipts.note(asked(chat(FIRST[0])), kept)
    store.away = True
    await receipts.flush()
    store.away = False
    await receipts.flush()
    assert (await Receipts(store, clock).resolved(pair()[0])).scope != pair()[0].scope


async def test_receipts_of_a_forgotten_or_expired_entry_are_worth_nothing(store: Store, clock: Clock) -> None:
    kept = answered()
    receipts = Receipts(store, clock)
    receipts.note(asked(chat(FIRST[0])), kept)
    receipts.forget([kept.id])
    assert receipts.at_hand(pair()[0]) == pair()[0], "it waited to be noted"
    receipts.note(asked(chat(FIRST[0])), kept)
    assert receipts.at_hand(pair()[0]) != pair()[0]
    receipts.forget([kept.id])
    assert receipts.at_hand(pair()[0]) == pair()[0] and len(receipts) == 0
    receipts.note(asked(chat(FIRST[0])), kept)
    clock.now_s = kept.expires_s
    assert receipts.at_hand(pair()[0]) == pair()[0]


async def test_what_never_leaves_its_session_has_no_receipt(store: Store, clock: Clock) -> None:
    receipts = Receipts(store, clock)
    receipts.note(asked(chat(FIRST[0])), answered(Reach.SESSION))
    assert receipts.at_hand(pair()[0]) == pair()[0]


async def test_memory_is_bounded_and_the_oldest_leave_first(store: Store, clock: Clock) -> None:
    receipts = Receipts(store, clock, most=10)
    kept = answered()
    for number in range(50):
        receipts.note(asked(chat(f"Question number {number} about bears")), kept)
    last = asked(chat("Question number 49 about bears", ANSWER, FOLLOW))
    first = asked(chat("Question number 0 about bears", ANSWER, FOLLOW))
    assert receipts.at_hand(last) != last and receipts.at_hand(first) == first
    assert len(receipts) <= 10
    off = Receipts(store, clock, most=0)
    off.note(asked(chat(FIRST[0])), kept)
    assert await off.resolved(pair()[0]) == pair()[0] and store.reads == 0


def said(text: str, words: str) -> Entry:
    return entry(words, body=orjson.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}))


@pytest.mark.parametrize(
    ("answers", "nearly", "one"),
    [
        ((ANSWER, ANSWER), True, True),
        ((ANSWER, ANSWER), False, False),  # nothing says that the questions are alike
        ((ANSWER, ANSWER + " "), True, False),
        (("Yes, it is.", "Yes, it is."), True, False),  # says of nothing what it is
    ],
)
async def test_two_entries_are_one_meaning_when_the_fresh_answer_is_that_of_the_one_nearly_served(
    store: Store, clock: Clock, answers: tuple[str, str], nearly: bool, one: bool
) -> None:
    receipts = Receipts(store, clock)
    old, new = said(answers[0], FIRST[0]), said(answers[1], FIRST[1])
    receipts.note(asked(chat(FIRST[0])), old)
    receipts.note(asked(chat(FIRST[1])), new, old.id if nearly else None)
    follow = [
        receipts.at_hand(asked(chat(first, answer, FOLLOW))) for first, answer in zip(FIRST, answers, strict=True)
    ]
    assert (follow[0].scope == follow[1].scope) is one
    receipts.note(asked(chat("and a third wording")), new)
    third = receipts.at_hand(asked(chat("and a third wording", answers[1], FOLLOW)))
    assert (third.scope == follow[0].scope) is one, "whoever is served the second is in the first one's context too"
    receipts.forget([old.id])
    receipts.note(asked(chat(FIRST[1])), new)
    assert receipts.at_hand(asked(chat(FIRST[1], answers[1], FOLLOW))).recognised == 1, "it stands for itself again"
