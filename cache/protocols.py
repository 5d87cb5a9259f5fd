"""The seams of the cache: what a part must do, whoever does it. Each has at least two implementations, and one
contract suite in tests/ that runs against every one of them."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from cache.entry import Entry, Vector
from cache.evidence import Label
from cache.question import Scope
from cache.review import Complaint, Quarantined

LABELS = 50_000  # judgements that a store keeps, the newest
HIDDEN = 20_000  # pairs of session and entry, likewise
QUARANTINE = 10_000  # entries out of service, likewise
BARRED_S = 86_400.0  # how long an id is barred that was called wrong before it was stored
ASKED_S = 86_400.0  # how long it counts who asked a question
ASKED = 200_000  # pairs of question and principal that are remembered
RECEIPTS = 200_000  # receipts that a store keeps, the newest

Clock = Callable[[], float]  # seconds since the Unix epoch; injected so that tests own the time


class Stage(StrEnum):
    """The parts of a lookup by meaning that take time, in this order."""

    EMBED = "embed"  # the question's vector, the wait for its batch included
    INDEX = "index"  # its nearest neighbours, and their entries from the store
    GUARDS = "guards"  # what the guards say of every neighbour
    READER = "reader"  # the pairs that passed them


Timed = Callable[[Stage, float], None]  # is told what a stage took, in seconds; also of one that failed


def untimed(stage: Stage, seconds: float) -> None:
    """Nobody wants to know."""


class Resource(Protocol):
    """Constructors do no I/O; entering opens, leaving closes."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Embedder(Resource, Protocol):
    """Turns a text into a vector, off the event loop, in micro-batches.

    name: identifies the vector space (model, revision, dimension); spaces never mix.
    threshold: the cautious cosine from which this model's neighbours are worth reading, in [0, 1].
    languages: ISO codes it can tell apart in; a text in another language is not matched by meaning."""

    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def threshold(self) -> float: ...
    @property
    def languages(self) -> frozenset[str]: ...

    async def embed(self, text: str, *, deadline_s: float | None = None) -> Vector:
        """float32, shape (dim,), unit length.  deadline_s: None = the embedder's own, which suits a user who waits.
        Raises TextTooLong; EmbedderUnavailable (deadline, queue, failure)."""
        ...


class Reader(Resource, Protocol):
    """Reads two questions and says whether one answer serves both, off the event loop.

    name: identifies the weights; what was calibrated for one reader means nothing for another."""

    @property
    def name(self) -> str: ...

    async def read(self, asked: str, stored: Sequence[str], *, deadline_s: float | None = None) -> list[float | None]:
        """For each stored question, in order, the logit of "one answer serves both"; None where it was not read (too
        long, signs that it does not know, late, failure), which is never a yes.  deadline_s: None = the reader's own,
        which suits a user who waits. Never raises."""
        ...


class Judge(Protocol):
    """Reads what nothing cheaper could decide: a caller waits for it, so it answers in time or not at all."""

    async def judge(self, asked: str, stored: str, answer: str) -> float | None:
        """The probability in [0, 1] that `answer`, which was given to `stored`, fully and correctly answers `asked`.
        None: no verdict in time, or none at all. Never raises."""
        ...


class VectorIndex(Protocol):
    """Nearest entries of one scope. Synchronous; its owner calls it from one thread of its own.

    It is only a hint: whatever it finds is read from the store again before it is served."""

    def add(self, scope: Scope, entry_id: int, vector: Vector) -> None:
        """Insert, or replace what stands under entry_id. vector: float32, shape (dim,), unit length."""
        ...

    def remove(self, entry_ids: Sequence[int]) -> int:
        """Forget these entries; unknown ids are ignored. Returns how many were known."""
        ...

    def search(self, scope: Scope, vector: Vector, k: int) -> list[tuple[int, float]]:
        """Nearest entries of one scope, best first: at most k (entry id, cosine in [-1, 1])."""
        ...

    def holds(self, scope: Scope) -> bool:
        """Whether anything at all can be found in this scope; a cheap look that saves an embedding."""
        ...

    def vectors(self, entry_ids: Sequence[int]) -> dict[int, Vector]:
        """The vectors of those entries that are in the index, float32, unit length."""
        ...

    def ids(self) -> set[int]:
        """Every entry id in the index, for the check against the store."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Row:
    """What an index needs of an entry."""

    entry_id: int
    scope: Scope
    vector: Vector


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to a store, told in the order in which it happened.

    added: a row that is now searchable.  removed: ids that are gone.
    hidden: (session, entry id): this session called this entry wrong.  quarantined: those of `removed` that somebody
    took out of service.  reset: this listener fell behind what the feed still holds and must read `rows` again."""

    added: tuple[Row, ...] = ()
    removed: tuple[int, ...] = ()
    reset: bool = False
    hidden: tuple[tuple[str, int], ...] = ()
    quarantined: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which entries to forget: all that match every field given. Nothing given = everything.

    tag: a name of `cache.tags` that they bear.  unless: one that they do not.  before_s: when they were made."""

    ids: tuple[int, ...] | None = None
    tenant: str | None = None
    model: str | None = None
    scope_key: str | None = None
    expired_by_s: float | None = None
    tag: str | None = None
    unless: str | None = None
    before_s: float | None = None

    @property
    def whole(self) -> bool:
        """Whether it means a tenant, a model or everything, so that what was said of its entries goes with them."""
        narrow = (self.ids, self.scope_key, self.expired_by_s, self.tag, self.unless, self.before_s)
        return all(each is None for each in narrow)


@dataclass(frozen=True, slots=True)
class Receipt:
    """A turn of a chat was answered from an entry. name: 32 hex digits, see `cache.lineage`.  expires_s: its end."""

    name: str
    entry_id: int
    expires_s: float


class Ledger(Protocol):
    """What people say of entries, and what follows. Part of every EntryStore.

    Every method raises StoreUnavailable. What is acknowledged is durable, as entries are."""

    async def add_label(self, label: Label, session: str = "", comment: str = "") -> int:
        """Keep a judgement in place of an earlier one of the same principal on the same entry; our own, whose principal
        is "", are all kept. The newest LABELS are.  session: digest of one that does not want this entry any more; ""
        = none.  comment: the person's words.  Returns how many distinct principals say (FEEDBACK) that it is wrong."""
        ...

    async def labels(self, since_s: float) -> list[Label]:
        """Those given at or after since_s, oldest first."""
        ...

    async def hidden(self) -> list[tuple[str, int]]:
        """(session, id of an entry that it does not want), oldest first; the newest HIDDEN are kept."""
        ...

    async def complaints(self, limit: int) -> list[Complaint]:
        """Entries that principals call wrong (FEEDBACK) and that are not quarantined, latest first. Some of them may
        have ended meanwhile."""
        ...

    async def quarantine(self, entry_ids: Sequence[int], reason: str, tenant: str) -> tuple[int, ...]:
        """Take entries out of everything above, at once and durably; each ends when it would have expired. An id that
        is not here is barred for a day: whoever is about to put it comes too late.  tenant: whose they are.
        Returns those that were held and are not any more. The newest QUARANTINE are kept."""
        ...

    async def quarantined(self, limit: int) -> list[Quarantined]:
        """What is out of service, latest first, barred ids included. Vectors may be left out."""
        ...

    async def release(self, entry_id: int) -> tuple[Entry, tuple[int, ...]] | None:
        """Put a quarantined entry back, as `put` does, vector included, and drop the complaints about it. Returns it,
        and the ids that stopped existing because of it; None where nothing was there to put back. A barred id is barred
        no more."""
        ...

    async def asked_by(self, place: str, principal: str, tenant: str) -> int:
        """Note who asked a question. place: a name for the question.  Returns how many distinct principals of this
        tenant asked it within a day, this one included."""
        ...

    async def note_receipts(self, noted: Sequence[Receipt]) -> None:
        """Keep receipts, each in place of an earlier one of its name. The newest RECEIPTS are kept."""
        ...

    async def receipts(self, names: Sequence[str]) -> list[Receipt]:
        """Those of these names whose entries can be served: held, not expired, not quarantined. In no order."""
        ...


class EntryStore(Resource, Ledger, Protocol):
    """Keeps entries. *Acknowledged* = `put` returned; it then survives kill -9 where the store is durable.

    Every method raises StoreUnavailable when the store is gone or slow. Expired entries are never returned."""

    async def put(self, entry: Entry) -> tuple[int, ...]:
        """Keep an entry. Returns the ids that stopped existing because of it: the entry with the same (scope, key) that
        it replaces, and those that left because the capacity was reached, those of least worth (`cache.worth`). One
        that is quarantined is not kept, and its own id is all that is returned."""
        ...

    async def use(self, uses: Sequence[tuple[int, float]], number: int) -> None:
        """Entries were served: (id, log2 of how often + `cache.worth.gain_of`). number: uses in all. Ids that are not
        held are ignored. Changes what leaves first, and nothing else."""
        ...

    async def find(self, scope: Scope, key: str, wording: str | None, since_s: float) -> list[Entry]:
        """At most two entries of the scope: the one with this exact key (any age), then the newest one with this
        wording made at or after since_s, when that is another one. Vectors may be left out."""
        ...

    async def get(self, entry_ids: Sequence[int]) -> list[Entry]:
        """The entries that still exist, in the order asked for. Vectors may be left out."""
        ...

    async def matching(self, selection: Selection) -> int:
        """How many entries `forget` would delete, those that are quarantined not counted."""
        ...

    async def forget(self, selection: Selection) -> tuple[int, ...]:
        """Delete what matches, exactly, quarantined or not. Returns the ids that are gone.

        Labels of the same ids, tenant or model go with it, and what their sessions had hidden; expiry leaves them."""
        ...

    async def sweep(self) -> tuple[int, ...]:
        """Delete what has expired. Returns the ids that are gone."""
        ...

    def rows(self, embedder: str, after: int = 0) -> AsyncIterator[list[Row]]:
        """Every searchable, unexpired entry whose vector this embedder made, in batches, in the order of `position`;
        with `after`, only those stored later than that position."""
        ...

    async def ids(self, embedder: str) -> set[int]:
        """The ids that `rows` would give, without their vectors."""
        ...

    async def position(self) -> int:
        """A number that grows with every put; a snapshot of the index remembers it."""
        ...

    def changes(self) -> AsyncIterator[Change]:
        """What other processes did to the store, for ever. A store that one process owns yields nothing and ends."""
        ...

    async def count(self) -> int:
        """Entries held, expired ones that were not yet swept included, quarantined ones not."""
        ...
