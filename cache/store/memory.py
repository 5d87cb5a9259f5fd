"""A store that forgets when the process ends: for tests, for demos, and as the plainest reading of the contract."""

import heapq
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from cache.entry import Entry
from cache.evidence import Label
from cache.protocols import Change, Clock, Receipt, Row, Selection
from cache.question import Scope
from cache.review import Complaint, Quarantined
from cache.store.notes import Notes
from cache.store.record import matches, normalised
from cache.worth import Capacity, Departed, gain_of, later, size_of, window

BATCH = 1024  # rows handed over at once


class MemoryStore:
    """An EntryStore in dictionaries."""

    def __init__(self, capacity: Capacity, clock: Clock) -> None:
        self._capacity = capacity
        self._clock = clock
        self._entries: dict[int, Entry] = {}
        self._places: dict[int, int] = {}  # id -> position of its put
        self._keys: dict[tuple[Scope, str], int] = {}
        self._wordings: dict[tuple[Scope, str], set[int]] = {}
        self._worths: dict[int, float] = {}
        self._least: list[tuple[float, int, int]] = []  # heap of (worth, position, id); may hold what is no longer so
        self._departed = Departed(capacity.remembered)
        self._uses = 0
        self._bytes = 0
        self._position = 0
        self._notes = Notes()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __repr__(self) -> str:
        return f"<MemoryStore [{len(self._entries)} of {self._capacity.entries} entries]>"

    async def put(self, entry: Entry) -> tuple[int, ...]:
        if self._notes.out_of_service(entry.id):
            return (entry.id,)
        entry = normalised(entry)
        replaced = self._keys.get((entry.scope, entry.key))
        gone = [] if replaced is None or replaced == entry.id else [replaced]
        self._drop([entry.id, *gone])
        self._position += 1
        self._entries[entry.id] = entry
        self._places[entry.id] = self._position
        self._keys[entry.scope, entry.key] = entry.id
        self._bytes += size_of(entry)
        self._uses += 1
        before = self._departed.back(hash((entry.scope, entry.key)))
        self._value(entry.id, later(before, self._uses / self._capacity.half_life + gain_of(entry)))
        if entry.wording is not None:
            self._wordings.setdefault((entry.scope, entry.wording), set()).add(entry.id)
        while self._capacity.exceeded(len(self._entries), self._bytes):
            least = self._worth_least()
            if least is None:
                break
            left = self._entries[least]
            self._departed.left(hash((left.scope, left.key)), self._worths[least])
            self._drop([least])
            gone.append(least)
        return tuple(gone)

    async def use(self, uses: Sequence[tuple[int, float]], number: int) -> None:
        self._uses += number
        for entry_id, weight in uses:
            if entry_id in self._entries:
                moment = self._uses / self._capacity.half_life
                self._value(entry_id, later(self._worths[entry_id], moment + weight))

    async def find(self, scope: Scope, key: str, wording: str | None, since_s: float) -> list[Entry]:
        now = self._clock()
        exact = self._entries.get(self._keys.get((scope, key), -1))
        found = [exact] if exact is not None and exact.expires_s > now else []
        same = [self._entries[each] for each in self._wordings.get((scope, wording or ""), ())]
        recent = [each for each in same if each.created_s >= since_s and each.expires_s > now]
        if recent:
            newest = max(recent, key=lambda e: (e.created_s, self._places[e.id]))
            found += [newest] if exact is None or newest.id != exact.id else []
        return found

    async def get(self, entry_ids: Sequence[int]) -> list[Entry]:
        now = self._clock()
        known = (self._entries.get(each) for each in entry_ids)
        return [entry for entry in known if entry is not None and entry.expires_s > now]

    async def matching(self, selection: Selection) -> int:
        return sum(matches(selection, entry) for entry in self._entries.values())

    async def forget(self, selection: Selection) -> tuple[int, ...]:
        gone = tuple(e.id for e in self._entries.values() if matches(selection, e))
        self._drop(gone)
        return (*gone, *self._notes.forget(selection, gone))

    async def sweep(self) -> tuple[int, ...]:
        return await self.forget(Selection(expired_by_s=self._clock()))

    async def rows(self, embedder: str, after: int = 0) -> AsyncIterator[list[Row]]:
        now = self._clock()
        batch: list[Row] = []
        for entry in sorted(self._entries.values(), key=lambda e: self._places[e.id]):
            if self._places[entry.id] > after and entry.embedder == embedder and entry.expires_s > now:
                assert entry.vector is not None  # normalised: an embedder comes with its vector
                batch.append(Row(entry.id, entry.scope, entry.vector))
        for start in range(0, len(batch), BATCH):
            yield batch[start : start + BATCH]

    async def ids(self, embedder: str) -> set[int]:
        now = self._clock()
        return {e.id for e in self._entries.values() if e.embedder == embedder and e.expires_s > now}

    async def position(self) -> int:
        return self._position

    async def changes(self) -> AsyncIterator[Change]:
        """Nothing: no other process can reach this store."""
        return
        yield Change()  # makes this a generator

    async def count(self) -> int:
        return len(self._entries)

    async def add_label(self, label: Label, session: str = "", comment: str = "") -> int:
        return self._notes.add(label, session, comment)

    async def labels(self, since_s: float) -> list[Label]:
        return self._notes.labels(since_s)

    async def hidden(self) -> list[tuple[str, int]]:
        return self._notes.hidden()

    async def complaints(self, limit: int) -> list[Complaint]:
        return self._notes.complaints(limit)

    async def quarantine(self, entry_ids: Sequence[int], reason: str, tenant: str) -> tuple[int, ...]:
        held = [self._entries.get(each) for each in dict.fromkeys(entry_ids)]
        self._notes.quarantine(entry_ids, self._entries, reason, tenant, self._clock())
        gone = tuple(entry.id for entry in held if entry is not None)
        self._drop(gone)
        return gone

    async def quarantined(self, limit: int) -> list[Quarantined]:
        return self._notes.quarantined(limit, self._clock())

    async def release(self, entry_id: int) -> tuple[Entry, tuple[int, ...]] | None:
        entry = self._notes.release(entry_id, self._clock())
        return None if entry is None else (entry, await self.put(entry))

    async def asked_by(self, place: str, principal: str, tenant: str) -> int:
        return self._notes.asked_by(place, principal, tenant, self._clock())

    async def note_receipts(self, noted: Sequence[Receipt]) -> None:
        self._notes.note_receipts(noted)

    async def receipts(self, names: Sequence[str]) -> list[Receipt]:
        return self._notes.receipts(names, self._entries, self._clock())

    def _value(self, entry_id: int, worth: float) -> None:
        self._worths[entry_id] = worth
        heapq.heappush(self._least, (worth, self._places[entry_id], entry_id))
        if len(self._least) > 2 * len(self._entries) + BATCH:
            self._least = [(self._worths[each], self._places[each], each) for each in self._entries]
            heapq.heapify(self._least)

    def _worth_least(self) -> int | None:
        """None: all that there are are too new to leave."""
        spared: list[tuple[float, int, int]] = []
        found = None
        while self._least and found is None:
            worth, place, entry_id = heapq.heappop(self._least)
            if self._places.get(entry_id) != place or self._worths[entry_id] != worth:
                continue
            if place > self._position - window(len(self._entries)):
                spared.append((worth, place, entry_id))
            else:
                found = entry_id
        for each in spared:
            heapq.heappush(self._least, each)
        return found

    def _drop(self, entry_ids: Sequence[int]) -> None:
        for entry_id in entry_ids:
            entry = self._entries.pop(entry_id, None)
            if entry is None:
                continue
            del self._places[entry.id]
            del self._worths[entry.id]
            self._bytes -= size_of(entry)
            if self._keys.get((entry.scope, entry.key)) == entry.id:
                del self._keys[entry.scope, entry.key]
            if entry.wording is not None:
                same = self._wordings[entry.scope, entry.wording]
                same.discard(entry.id)
                if not same:
                    del self._wordings[entry.scope, entry.wording]
