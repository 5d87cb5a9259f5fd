"""The similar tier: embed the question, search its scope, read both questions, serve only what nobody objects to.

The index lives on a thread of its own: one owner, no lock, and the event loop never waits for arithmetic. It is a hint;
whatever it finds is read from the store again before it is served.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from cache.entry import Entry, Vector
from cache.errors import EmbedderUnavailable, StoreUnavailable, TextTooLong
from cache.protocols import Embedder, EntryStore, Row, Stage, Timed, VectorIndex, untimed
from cache.question import Question, Reach, Scope
from cache.traits import language

Result = TypeVar("Result")
Caller = Callable[[Callable[[], Any]], Any]
log = logging.getLogger(__name__)


class SimilarTier:
    """An async context manager; entering reads the index, which equals the store when it returns.

    open_index: builds an index that equals the store; raises StoreUnavailable.  empty_index: one that holds nothing,
    used while the store is away.  save_index: writes a snapshot, given (index,
    position, call); it may wait, and reads the index in pieces through `call`, which runs them on the index's thread.
    k: how many neighbours are read.  deadline_s: how long index and store together may take.
    threshold: cosine in [0, 1], the operator's; it never goes below the embedder's own.
    timed: is told what embedding a question and finding its neighbours took."""

    name = "similar"

    def __init__(
        self, store: EntryStore, embedder: Embedder, *,
        open_index: Callable[[], Awaitable[VectorIndex]], empty_index: Callable[[], VectorIndex],
        save_index: Callable[[VectorIndex, int, Caller], None] | None = None,
        threshold: float | None = None, k: int = 8, deadline_s: float = 0.1, timed: Timed = untimed,
    ) -> None:  # fmt: skip
        self._store = store
        self._embedder = embedder
        self._open_index = open_index
        self._empty_index = empty_index
        self._save_index = save_index
        self._index: VectorIndex | None = None
        self._meanwhile: list[Row | int] | None = None  # a log, kept only while `reload` reads
        self._k = k
        self._deadline_s = deadline_s
        self._asked_threshold = threshold
        self._timed = timed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rejoinder-index")

    async def __aenter__(self) -> Self:
        if not await self.reload():
            log.warning("the store does not answer: starting with an empty index, it is read when the store is back")
            self._index = self._empty_index()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.snapshot()
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def embedder(self) -> Embedder:
        """Whose vectors this tier compares."""
        return self._embedder

    @property
    def asked_threshold(self) -> float | None:
        """The operator's own lowest cosine, in [0, 1]; None = he has none."""
        return self._asked_threshold

    @property
    def threshold(self) -> float:
        """The cosine below which nothing is served that no reader has read, in [0, 1]; higher is stricter."""
        return max(self._asked_threshold or 0.0, self._embedder.threshold)

    async def reload(self) -> bool:
        """Read the whole index again from the store. Returns False where the store does not answer."""
        missed: list[Row | int] = []
        self._meanwhile = missed
        try:
            index = await self._open_index()
        except StoreUnavailable:
            return False
        finally:
            self._meanwhile = None
        # What was added or dropped while the store was being read may or may not be in it: say it again, in order.
        self._index = index
        await self._on_thread(_replay, index, missed)
        return True

    async def snapshot(self) -> None:
        """Write the index beside the store, so that the next start needs only what came since."""
        if self._save_index is None:
            return
        try:
            # Asked before the index is written: what is stored meanwhile is read again at start, never missed.
            position = await self._store.position()
            await asyncio.to_thread(self._save_index, self._held, position, self._call)
        except (StoreUnavailable, OSError) as trouble:
            log.warning("no snapshot of the index was written: %s", trouble)

    async def embed(self, text: str, *, deadline_s: float | None = None) -> Vector:
        """deadline_s: None = the embedder's own. Raises TextTooLong, EmbedderUnavailable."""
        if deadline_s is None:  # somebody waits for it
            began_s = time.perf_counter()
            try:
                return await self._embedder.embed(text)
            finally:
                self._timed(Stage.EMBED, time.perf_counter() - began_s)
        return await self._embedder.embed(text, deadline_s=deadline_s)

    def compares(self, entry: Entry) -> bool:
        """Whether a vector would be of use to this entry."""
        if entry.text is None or entry.reach < Reach.SIMILAR:
            return False
        return language(entry.text) in self._embedder.languages

    async def vector_of(self, entry: Entry) -> Vector | None:
        """None: not in time, or there is none; the entry is found by its bytes and its words all the same."""
        with contextlib.suppress(TextTooLong, EmbedderUnavailable):
            return await self._embedder.embed(entry.text or "")
        return None

    async def holds(self, scope: Scope) -> bool:
        """Whether a search in this scope can find anything; when not, the question needs no vector."""
        return await self._on_thread(self._held.holds, scope)

    async def find(self, question: Question, vector: Vector) -> list[tuple[Entry, float]]:
        """Neighbours that still exist, best first, with their cosine. Raises StoreUnavailable."""
        began_s = time.perf_counter()
        try:
            async with asyncio.timeout(self._deadline_s):
                near = await self._on_thread(self._held.search, question.scope, vector, self._k)
                if not near:
                    return []
                cosine = dict(near)
                entries = await self._store.get([entry_id for entry_id, _ in near])
        except TimeoutError as late:
            raise StoreUnavailable(f"no neighbours within {self._deadline_s * 1000:g} ms") from late
        finally:
            self._timed(Stage.INDEX, time.perf_counter() - began_s)
        return [(entry, cosine[entry.id]) for entry in entries]

    async def vectors(self, entry_ids: Sequence[int]) -> dict[int, Vector]:
        """The vectors of those that are in the index, float32, unit length."""
        return await self._on_thread(self._held.vectors, entry_ids)

    async def add(self, rows: Sequence[Row]) -> None:
        """Make rows findable; replaces what stands under their ids."""

        if self._meanwhile is not None:
            self._meanwhile.extend(rows)
        await self._on_thread(_replay, self._held, list(rows))

    async def forget(self, entry_ids: Sequence[int]) -> int:
        """Drop these vectors. Returns how many were known."""
        if self._meanwhile is not None:
            self._meanwhile.extend(entry_ids)
        return await self._on_thread(self._held.remove, entry_ids) if entry_ids else 0

    async def ids(self) -> set[int]:
        """Every id in the index."""
        return await self._on_thread(self._held.ids)

    @property
    def _held(self) -> VectorIndex:
        if self._index is None:
            raise RuntimeError("SimilarTier is not open")
        return self._index

    def _call(self, work: Callable[[], Any]) -> Any:
        """For a thread that may wait: run a step on the index's thread, so that searches come in between."""
        return self._thread.submit(work).result()

    async def _on_thread(self, work: Callable[..., Result], *args: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, functools.partial(work, *args))


def _replay(index: VectorIndex, steps: Sequence[Row | int]) -> None:
    for step in steps:
        if isinstance(step, Row):
            index.add(step.scope, step.entry_id, step.vector)
        else:
            index.remove([step])
