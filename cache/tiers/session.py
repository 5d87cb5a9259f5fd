"""The session tier: what this conversation was already told, in this process, without waiting.

Personal answers live here and nowhere else. A session that says nothing for a while is forgotten whole.
"""

from collections import OrderedDict
from collections.abc import Iterable

from cache.entry import Entry
from cache.protocols import Clock
from cache.question import Question, Reach
from cache.tiers.shelf import Shelf


class SessionTier:
    """Bounded in sessions, in entries and bytes a session, and in bytes over all of them, as ids are free to invent.
    Least recently used leave first."""

    name = "session"

    def __init__(
        self, clock: Clock, *, sessions: int = 10_000, entries: int = 64, bytes_limit: int = 1 << 20,
        total_bytes: int = 256 << 20, idle_s: float = 3600.0,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._sessions_limit = sessions
        self._entries_limit = entries
        self._bytes_limit = bytes_limit
        self._total_bytes = total_bytes
        self._bytes = 0
        self._idle_s = idle_s
        self._shelves: OrderedDict[tuple[str, str], tuple[Shelf, float]] = OrderedDict()
        self._holders: dict[int, set[tuple[str, str]]] = {}  # entry id → sessions; `sweep` drops what went stale

    def find(self, question: Question) -> Iterable[Entry]:
        """Candidates of this question's session, surest first."""
        if question.session is None:
            return
        place = (question.scope.tenant, question.session)
        held = self._shelves.get(place)
        if held is None:
            return
        shelf, used_s = held
        now_s = self._clock()
        if now_s - used_s > self._idle_s:
            del self._shelves[place]
            self._bytes -= shelf.bytes
            return
        self._shelves[place] = (shelf, now_s)
        self._shelves.move_to_end(place)
        entry = shelf.exact(question.scope.key, question.key)
        if entry is not None:
            yield entry
        if question.wording is not None:
            entry = shelf.worded(question.scope.key, question.wording)
            if entry is not None:
                yield entry

    def put(self, question: Question, entry: Entry) -> None:
        """Keep what this session was told; without a strong session id there is nowhere to keep it."""
        if question.session is None:
            return
        place = (question.scope.tenant, question.session)
        now_s = self._clock()
        held = self._shelves.get(place)
        before = held[0].bytes if held is not None else 0
        if held is None or now_s - held[1] > self._idle_s:
            held = (Shelf(self._entries_limit, self._bytes_limit), now_s)
        held[0].put(entry)
        self._bytes += held[0].bytes - before
        self._holders.setdefault(entry.id, set()).add(place)
        self._shelves[place] = (held[0], now_s)
        self._shelves.move_to_end(place)
        while len(self._shelves) > self._sessions_limit or (self._bytes > self._total_bytes and len(self._shelves) > 1):
            _, (shelf, _) = self._shelves.popitem(last=False)
            self._bytes -= shelf.bytes

    def forget(self, entry_ids: Iterable[int]) -> int:
        """Drop these entries from every session. Returns how many copies were here."""
        dropped = 0
        for entry_id in entry_ids:
            for place in self._holders.pop(entry_id, ()):
                held = self._shelves.get(place)
                if held is not None:
                    before = held[0].bytes
                    dropped += held[0].forget([entry_id])
                    self._bytes += held[0].bytes - before
        return dropped

    def forget_shared(self) -> int:
        """Drop what others can find too: what they did to it meanwhile is unknown. Returns how many were here."""
        return self.forget({entry.id for entry in self.matching(None, None) if entry.reach >= Reach.RECENT})

    def __contains__(self, entry_id: int) -> bool:
        return entry_id in self._holders

    def matching(self, tenant: str | None, model: str | None) -> list[Entry]:
        """Entries of this tenant and model (None = any), for a purge that must reach every tier."""
        return [
            entry
            for shelf, _ in self._shelves.values()
            for entry in shelf
            if tenant in (None, entry.scope.tenant) and model in (None, entry.scope.model)
        ]

    def sweep(self) -> int:
        """Forget idle sessions. Returns how many."""
        now_s = self._clock()
        idle = [place for place, (_, used_s) in self._shelves.items() if now_s - used_s > self._idle_s]
        for place in idle:
            del self._shelves[place]
        for shelf, _ in self._shelves.values():
            shelf.forget([entry.id for entry in shelf if now_s >= entry.expires_s])
        holders: dict[int, set[tuple[str, str]]] = {}
        for place, (shelf, _) in self._shelves.items():
            for entry in shelf:
                holders.setdefault(entry.id, set()).add(place)
        self._holders = holders
        self._bytes = sum(shelf.bytes for shelf, _ in self._shelves.values())
        return len(idle)

    def __len__(self) -> int:
        return len(self._shelves)
