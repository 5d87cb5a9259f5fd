"""Session keys that are none, found out by how they behave. Pure, bounded state.

Two mistakes are common: a key that changes at every turn (a request id), and a key that everybody shares ("default").
Single-turn traffic looks like the first mistake and one busy user like the second, so neither is judged by counting
values alone: *per request* needs later turns whose key was never seen before, *global* needs many different chats.
"""

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from xxhash import xxh3_64_intdigest

WINDOW: Final = 256  # latest requests of one (tenant, source)
LATER_TURNS_NEEDED: Final = 50  # of them, before a key may be called per-request
PER_REQUEST_SHARE: Final = 0.95  # of those later turns came with a key never seen before
REQUESTS_NEEDED: Final = 200  # before a key may be called global
GLOBAL_SHARE: Final = 0.5  # of the window had the same value …
CHATS_NEEDED: Final = 8  # … from at least as many different chats
RECOUNT_EVERY: Final = 20  # requests between two looks through a window for a global value
MOST_RECORDS: Final = 256  # (tenant, source) pairs; least recently used goes first
MOST_VALUES: Final = 65_536  # values remembered over all records; about 100 B each
_OPENING: Final = "opening"  # `identity.Source.OPENING`


class Flaw(Enum):
    """Why a key does not name a session."""

    PER_REQUEST = "it changes with every request, so it cannot keep a chat on its worker"
    GLOBAL = "most requests share one value, so it would put them on one worker"

    @property
    def meaning(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a request tells about chats, whatever its key. opening: xxh3-64 of its opening, 0 = none.
    later_turn: somebody answered before."""

    opening: int
    later_turn: bool


class _Record:
    """The window of one (tenant, source). seed: keeps equal values of two records apart.
    shared: the value that is global by now, if there is one."""

    __slots__ = ("counts", "fresh_later_turns", "later_turns", "recount_in", "seed", "shared", "window")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.window: deque[tuple[int, int, bool, bool]] = deque()  # value, opening, later turn, fresh
        self.counts: Counter[int] = Counter()
        self.later_turns = 0
        self.fresh_later_turns = 0
        self.recount_in = RECOUNT_EVERY
        self.shared: int | None = None

    def add(self, value: int, opening: int, later_turn: bool, fresh: bool) -> None:
        self.window.append((value, opening, later_turn, fresh))
        self.counts[value] += 1
        self.later_turns += later_turn
        self.fresh_later_turns += later_turn and fresh
        if len(self.window) > WINDOW:
            value, _, later_turn, fresh = self.window.popleft()
            self.counts[value] -= 1
            if not self.counts[value]:
                del self.counts[value]
            self.later_turns -= later_turn
            self.fresh_later_turns -= later_turn and fresh
        self.recount_in -= 1

    def changes_every_turn(self) -> bool:
        return self.later_turns >= LATER_TURNS_NEEDED and self.fresh_later_turns >= PER_REQUEST_SHARE * self.later_turns

    def recount(self, *, chats_needed: int) -> None:
        """Now and then: is there a value that most of the window has, and does it come from so many different chats?"""
        if self.recount_in > 0:
            return
        self.recount_in = RECOUNT_EVERY
        self.shared = None
        value, count = self.counts.most_common(1)[0]
        if len(self.window) >= REQUESTS_NEEDED and count > GLOBAL_SHARE * len(self.window):
            chats = {opening for seen, opening, _, _ in self.window if seen == value}
            self.shared = value if len(chats) >= chats_needed else None

    def flaw(self, source: str, digest: int) -> Flaw | None:
        # The opening of a chat as its key cannot change every turn, and whoever shares it opened alike.
        if source != _OPENING and self.changes_every_turn():
            return Flaw.PER_REQUEST
        return Flaw.GLOBAL if digest == self.shared else None


class KeyWatch:
    """Learns, per tenant and source, whether the values can be session names. A few µs a request."""

    def __init__(self) -> None:
        self._records: OrderedDict[tuple[str, str], _Record] = OrderedDict()
        self._values: dict[int, None] = {}  # insertion order is order of last use

    def see(self, tenant: str, source: str, value: bytes, sighting: Sighting) -> Flaw | None:
        """Note one request's key; the flaw of this key, if by now it has one."""
        where = (tenant, source)
        record = self._records.get(where)
        if record is None:
            record = self._records[where] = _Record(xxh3_64_intdigest(f"{tenant}\0{source}".encode()))
            if len(self._records) > MOST_RECORDS:
                self._records.popitem(last=False)
        self._records.move_to_end(where)
        digest = xxh3_64_intdigest(value, record.seed)
        fresh = self._values.pop(digest, self) is self
        self._values[digest] = None
        if fresh and len(self._values) > MOST_VALUES:
            del self._values[next(iter(self._values))]
        record.add(digest, sighting.opening, sighting.later_turn, fresh)
        record.recount(chats_needed=1 if source == _OPENING else CHATS_NEEDED)
        return record.flaw(source, digest)

    def peek(self, tenant: str, source: str, value: bytes, _: Sighting) -> Flaw | None:
        """What `see` has found of this key by now, without counting the request: it was counted, or never comes."""
        record = self._records.get((tenant, source))
        return None if record is None else record.flaw(source, xxh3_64_intdigest(value, record.seed))
