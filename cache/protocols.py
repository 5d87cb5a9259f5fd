"""The seams of the cache: what a part must do, whoever does it. Each has at least two implementations, and one
contract suite in tests/ that runs against every one of them."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from cache.entry import Entry, Vector
from cache.question import Scope

Clock = Callable[[], float]  # seconds since the Unix epoch; injected so that tests own the time


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
    reset: this listener fell behind what the feed still holds and must read `rows` again."""

    added: tuple[Row, ...] = ()
    removed: tuple[int, ...] = ()
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """Which entries to forget: all that match every field given. Nothing given = everything."""

    ids: tuple[int, ...] | None = None
    tenant: str | None = None
    model: str | None = None
    scope_key: str | None = None
    expired_by_s: float | None = None


class EntryStore(Resource, Protocol):
    """Keeps entries. *Acknowledged* = `put` returned; it then survives kill -9 where the store is durable.

    Every method raises StoreUnavailable when the store is gone or slow. Expired entries are never returned."""

    async def put(self, entry: Entry) -> tuple[int, ...]:
        """Keep an entry. Returns the ids that stopped existing because of it: the entry with the same (scope, key) that
        it replaces, and those evicted because the capacity was reached (first put, first out)."""
        ...

    async def find(self, scope: Scope, key: str, wording: str | None, since_s: float) -> list[Entry]:
        """At most two entries of the scope: the one with this exact key (any age), then the newest one with this
        wording made at or after since_s, when that is another one. Vectors may be left out."""
        ...

    async def get(self, entry_ids: Sequence[int]) -> list[Entry]:
        """The entries that still exist, in the order asked for. Vectors may be left out."""
        ...

    async def forget(self, selection: Selection) -> tuple[int, ...]:
        """Delete what matches, exactly. Returns the ids that are gone."""
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
        """Entries held, expired ones that were not yet swept included."""
        ...
