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

BATCH = 1024  # rows handed over at once


class MemoryStore:
    """An EntryStore in dictionaries. capacity: most entries held, at least 1."""

    def __init__(self, capacity: int, clock: Clock) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self._capacity = capacity
        self._clock = clock
        self._entries: dict[int, Entry] = {}
        self._places: dict[int, int] = {}  # id -> position of its put
        self._keys: dict[tuple[Scope, str], int] = {}
        self._wordings: dict[tuple[Scope, str], set[int]] = {}
        self._ages: list[tuple[int, int]] = []  # heap of (position, id); may hold dropped ones
        self._position = 0
        self._notes = Notes()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __repr__(self) -> str:
        return f"<MemoryStore [{len(self._entries)} of {self._capacity} entries]>"

    async def put(self, entry: Entry) -> tuple[int, ...]:
        if self._notes.out_of_service(entry.id):
            return (entry.id,)
        entry = normalised(entry)
        replaced = self._keys.get((entry.scope, entry.key))
        gone = [] if replaced is None or replaced == entry.id else [replaced]
        self._drop([entry.id, *gone])
        if len(self._entries) >= self._capacity:
            oldest = self._oldest()
            self._drop([oldest])
            gone.append(oldest)
        self._position += 1
        self._entries[entry.id] = entry
        self._places[entry.id] = self._position
        self._keys[entry.scope, entry.key] = entry.id
        heapq.heappush(self._ages, (self._position, entry.id))
        if len(self._ages) > 2 * len(self._entries) + BATCH:
            self._ages = [(self._places[each.id], each.id) for each in self._entries.values()]
            heapq.heapify(self._ages)
        if entry.wording is not None:
            self._wordings.setdefault((entry.scope, entry.wording), set()).add(entry.id)
        return tuple(gone)

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

    async def forget(self, selection: Selection) -> tuple[int, ...]:
        gone = tuple(e.id for e in self._entries.values() if matches(selection, e.id, e.scope, e.expires_s))
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

    def _oldest(self) -> int:
        while True:
            place, entry_id = heapq.heappop(self._ages)
            if self._places.get(entry_id) == place:
                return entry_id

    def _drop(self, entry_ids: Sequence[int]) -> None:
        for entry_id in entry_ids:
            entry = self._entries.pop(entry_id, None)
            if entry is None:
                continue
            del self._places[entry.id]
            if self._keys.get((entry.scope, entry.key)) == entry.id:
                del self._keys[entry.scope, entry.key]
            if entry.wording is not None:
                same = self._wordings[entry.scope, entry.wording]
                same.discard(entry.id)
                if not same:
                    del self._wordings[entry.scope, entry.wording]
