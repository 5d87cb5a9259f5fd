"""The session tier: what this conversation was already told, in this process, without waiting.

Personal answers live here, and in the store under a scope of their session's own: so they outlive a restart and a move
to another replica, and nobody finds them but this session. A session that says nothing for a while is forgotten whole.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from cache.entry import Entry
from cache.protocols import Clock
from cache.question import Question, Reach, Scope
from cache.tiers.shelf import Shelf


class SessionTier:
    """Bounded in sessions, in entries and bytes a session, and in bytes over all of them, as ids are free to invent.
    Where it is full, the tenant that holds most gives up its least recently used session: who invents sessions
    displaces his own and not his neighbours'."""

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
        self._of_tenant: dict[str, OrderedDict[str, None]] = {}  # tenant → its sessions, least recently used first
        self._held: Counter[str] = Counter()  # tenant → bytes
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
            self._leave(place)
            return
        self._shelves[place] = (shelf, now_s)
        self._of_tenant[place[0]].move_to_end(place[1])
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
        if held is not None and now_s - held[1] > self._idle_s:
            self._leave(place)
            held = None
        shelf = held[0] if held is not None else Shelf(self._entries_limit, self._bytes_limit)
        before = shelf.bytes
        shelf.put(entry)
        self._weigh(place, shelf.bytes - before)
        self._holders.setdefault(entry.id, set()).add(place)
        self._shelves[place] = (shelf, now_s)
        sessions = self._of_tenant.setdefault(place[0], OrderedDict())
        sessions[place[1]] = None
        sessions.move_to_end(place[1])
        while len(self._shelves) > self._sessions_limit or (self._bytes > self._total_bytes and len(self._shelves) > 1):
            self._leave(self._least())

    def private(self, entry: Entry) -> Entry | None:
        """The entry as it stands in a store that others read too: in a scope that only its session can name. None where
        no session holds it, or several do."""
        places = self._holders.get(entry.id, set())
        if len(places) != 1:
            return None
        (place,) = places
        now_s = self._clock()
        return replace(
            entry, scope=private_scope(entry.scope, place[1]), expires_s=min(entry.expires_s, now_s + self._idle_s)
        )

    def _least(self) -> tuple[str, str]:
        """Who leaves where it is full."""
        if self._bytes > self._total_bytes:
            tenant = max(self._of_tenant, key=lambda each: self._held[each])
        else:
            tenant = max(self._of_tenant, key=lambda each: len(self._of_tenant[each]))
        return tenant, next(iter(self._of_tenant[tenant]))

    def _leave(self, place: tuple[str, str]) -> None:
        shelf, _ = self._shelves.pop(place)
        self._weigh(place, -shelf.bytes)
        sessions = self._of_tenant[place[0]]
        del sessions[place[1]]
        if not sessions:
            del self._of_tenant[place[0]], self._held[place[0]]

    def _weigh(self, place: tuple[str, str], more: int) -> None:
        self._bytes += more
        self._held[place[0]] += more

    def forget(self, entry_ids: Iterable[int]) -> int:
        """Drop these entries from every session. Returns how many copies were here."""
        dropped = 0
        for entry_id in entry_ids:
            for place in self._holders.pop(entry_id, ()):
                held = self._shelves.get(place)
                if held is not None:
                    before = held[0].bytes
                    dropped += held[0].forget([entry_id])
                    self._weigh(place, held[0].bytes - before)
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
            self._leave(place)
        for place, (shelf, _) in self._shelves.items():
            before = shelf.bytes
            shelf.forget([entry.id for entry in shelf if now_s >= entry.expires_s])
            self._weigh(place, shelf.bytes - before)
        holders: dict[int, set[tuple[str, str]]] = {}
        for place, (shelf, _) in self._shelves.items():
            for entry in shelf:
                holders.setdefault(entry.id, set()).add(place)
        self._holders = holders
        return len(idle)

    def __len__(self) -> int:
        return len(self._shelves)


def private_scope(scope: Scope, session: str) -> Scope:
    """A scope that nobody can name without the session's digest and the scope's. Source: RFC 7693, 2.9."""
    key = hashlib.blake2b(b"session " + session.encode(), key=scope.key.encode(), digest_size=16).hexdigest()
    return replace(scope, key=key)
