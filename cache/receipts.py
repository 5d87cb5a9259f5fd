"""Which turns were answered from which entry: noted when an answer is delivered, looked up when its chat goes on.

In memory first, then one read of the store; written behind the reply's back, in batches. Bounded, and worth nothing
once the entry is gone. A store that is away or late costs a context told in exact words, and that is a miss at worst.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from cache.entry import Answer, Entry
from cache.errors import StoreUnavailable
from cache.lineage import answer_text, receipt, within
from cache.protocols import Clock, EntryStore, Receipt
from cache.question import Question, Reach

K = TypeVar("K")
V = TypeVar("V")

log = logging.getLogger(__name__)

_WAITING = 1024  # deliveries that may wait to be noted
_UNWRITTEN = 20_000  # receipts that may wait for a store that is away
_BATCH = 500
# An answer of fewer characters or bytes ("Yes, it is.") does not say what was asked.
_SAYS_WHAT = 20
_SAYS_WHAT_BYTES = 30


@dataclass(frozen=True, slots=True)
class _Delivery:
    asked: tuple[str, ...]
    answer: Answer
    entry_id: int
    expires_s: float
    nearly: int | None


class Receipts:
    """most: receipts held in memory; 0 = none are, and none are noted.  deadline_s: how long the store may take."""

    def __init__(self, store: EntryStore, clock: Clock, *, most: int = 100_000, deadline_s: float = 0.05) -> None:
        self._store = store
        self._clock = clock
        self._most = most
        self._deadline_s = deadline_s
        self._known: OrderedDict[str, tuple[int, float]] = OrderedDict()  # receipt → (entry id, until when)
        self._of: dict[int, set[str]] = {}  # entry id → its receipts
        self._waiting: dict[tuple[tuple[str, ...], int], _Delivery] = {}
        self._unwritten: dict[str, Receipt] = {}
        self._texts: OrderedDict[int, bytes] = OrderedDict()  # entry id → digest of its answer's text
        self._same: OrderedDict[int, int] = OrderedDict()  # entry id → the older one that means the same

    def note(self, question: Question, entry: Entry, nearly: int | None = None) -> None:
        """This answer is delivered to this question. Takes a microsecond: the way of every hit leads through here.

        nearly: of a fresh answer, the entry that was nearly served instead. Where the worker then said the very same,
        to the letter, the two are one: what is asked next is asked in one context."""
        past = question.past
        if past is None or entry.reach < Reach.RECENT or not self._most:
            return
        at = (past.asked, entry.id)
        if at not in self._waiting:
            if len(self._waiting) >= _WAITING:
                self._settle()
            self._waiting[at] = _Delivery(past.asked, entry.answer, entry.id, entry.expires_s, nearly)

    def at_hand(self, question: Question) -> Question:
        """The question in its context, as far as memory knows; never waits."""
        past = question.past
        if past is None or (past.whole and not past.turns):
            return question
        return within(question, self._remembered(past.receipts) if past.receipts else {})

    async def resolved(self, question: Question) -> Question:
        """The same with what the store knows: one read at most, and none where memory knows all. Never raises."""
        past = question.past
        if past is None or not past.receipts or not self._most:
            return self.at_hand(question)
        known = self._remembered(past.receipts)
        unknown = [each for each in past.receipts if each not in known]
        if unknown:
            try:
                async with asyncio.timeout(self._deadline_s):
                    found = await self._store.receipts(unknown)
            except (StoreUnavailable, TimeoutError) as trouble:
                log.debug("the turns before a question count by their exact words: %s", trouble)
                found = []
            for each in found:
                self._keep(each)
            known |= {each.name: each.entry_id for each in found}
        return within(question, known)

    async def flush(self) -> None:
        """Write what was noted."""
        self._settle()
        while self._unwritten:
            batch = [self._unwritten[name] for name in list(self._unwritten)[:_BATCH]]
            try:
                await self._store.note_receipts(batch)
            except StoreUnavailable as trouble:
                log.debug("%d receipts wait for the store: %s", len(self._unwritten), trouble)
                return
            for each in batch:
                if self._unwritten.get(each.name) is each:
                    del self._unwritten[each.name]

    def forget(self, entry_ids: Iterable[int]) -> None:
        """These entries are gone, and so is what their receipts were worth."""
        gone = set(entry_ids)
        for entry_id in gone:
            for name in self._of.pop(entry_id, ()):
                self._known.pop(name, None)
                self._unwritten.pop(name, None)
            self._texts.pop(entry_id, None)
            self._same.pop(entry_id, None)
        for twin in [each for each, older in self._same.items() if older in gone]:
            del self._same[twin]
        if self._waiting:
            self._waiting = {at: each for at, each in self._waiting.items() if each.entry_id not in gone}

    def forget_all(self) -> None:
        """What the store did meanwhile is unknown; it is asked again."""
        self._known.clear()
        self._of.clear()

    def __len__(self) -> int:
        return len(self._known)

    def _remembered(self, names: Iterable[str]) -> dict[str, int]:
        self._settle()
        now_s = self._clock()
        found = {}
        for name in names:
            held = self._known.get(name)
            if held is not None and held[1] > now_s:
                self._known.move_to_end(name)
                found[name] = held[0]
        return found

    def _settle(self) -> None:
        """What was delivered becomes receipts."""
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            text = answer_text(each.answer)
            if text is None:
                continue
            entry_id = self._meant(each, text)
            for asked in each.asked:
                noted = Receipt(receipt(asked, text), entry_id, each.expires_s)
                held = self._known.get(noted.name)
                if held is None or held[0] != noted.entry_id:
                    self._keep(noted)
                    self._unwritten[noted.name] = noted
        while len(self._unwritten) > _UNWRITTEN:
            del self._unwritten[next(iter(self._unwritten))]

    def _meant(self, delivered: _Delivery, text: str) -> int:
        """The entry that this delivery counts as."""
        entry_id, nearly = delivered.entry_id, delivered.nearly
        if len(text) < _SAYS_WHAT and len(text.encode("utf-8", "surrogatepass")) < _SAYS_WHAT_BYTES:
            return entry_id
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        _put(self._texts, entry_id, digest, self._most)
        if nearly is not None and self._texts.get(nearly) == digest:
            _put(self._same, entry_id, self._same.get(nearly, nearly), self._most)
        return self._same.get(entry_id, entry_id)

    def _keep(self, noted: Receipt) -> None:
        held = self._known.pop(noted.name, None)
        if held is not None:
            self._lose(held[0], noted.name)
        self._known[noted.name] = (noted.entry_id, noted.expires_s)
        self._of.setdefault(noted.entry_id, set()).add(noted.name)
        while len(self._known) > self._most:
            name, (entry_id, _) = self._known.popitem(last=False)
            self._lose(entry_id, name)

    def _lose(self, entry_id: int, name: str) -> None:
        names = self._of.get(entry_id)
        if names is not None:
            names.discard(name)
            if not names:
                del self._of[entry_id]


def _put(held: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """The newest are kept."""
    held[key] = value
    held.move_to_end(key)
    while len(held) > most:
        held.popitem(last=False)
