"""Following the KV events of every worker that is up, and handing out what is known of each. Waits, decides nothing.

    async with KvListener(pool, upstream) as listener:
        listener.blocks_of(worker)   # Blocks while its stream is in step; None: estimate in another way
        listener.source_of(worker)   # the same for people

    worker UP ──▶ GET /kv_event_sources ──▶ one KvStream per data-parallel rank ──lost──▶ ask again
                        └─ none ──▶ ask again rarely, or when the worker comes back as a new generation

A worker that goes DOWN is forgotten at once, whether its engine died or not: when it is back UP, its
publisher replays what it still has.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from proxy.kv_stream import KvStream, Sockets, StreamLost
from proxy.routing.blocks import MOST_SESSIONS, Blocks
from proxy.routing.kv_follower import Counts, Follower
from proxy.routing.kv_sources import Sources, sources_of
from proxy.routing.workers import State, Worker, WorkerPool
from proxy.upstream import Upstream
from proxy.upstream_errors import WorkerFailed

log = logging.getLogger(__name__)

NONE_RETRY_S: Final = 300.0  # after "I have no KV events", which only a restart changes
LOST_RETRY_S: Final = 5.0
ASK_S: Final = 5.0
FOLLOWED: Final = frozenset({State.UP, State.DRAINING})


class KvListener:
    """Enter it to listen. It owns a task per worker that is up, and ends them when it is left.

    headers: sent with `GET /kv_event_sources`, as `Health` does.  on_tip: called, synchronously, when a session's tip
    moved on a worker: `blocks.chain(blocks.tip(session))` is whole now, and may not be later.
    stream: settings of `KvStream`.  none_retry_s, lost_retry_s: seconds until a worker is asked again."""

    def __init__(
        self,
        pool: WorkerPool,
        upstream: Upstream,
        *,
        headers: Sequence[tuple[str, str]] = (),
        on_tip: Callable[[Worker, Blocks, str], None] | None = None,
        most_sessions: int = MOST_SESSIONS,
        none_retry_s: float = NONE_RETRY_S,
        lost_retry_s: float = LOST_RETRY_S,
        **stream: Any,
    ) -> None:
        self._pool = pool
        self._upstream = upstream
        self._headers = list(headers)
        self._on_tip = on_tip
        self._most_sessions = most_sessions
        self._none_retry_s = none_retry_s
        self._lost_retry_s = lost_retry_s
        self._stream = stream
        self._sockets = Sockets()
        self._followed: dict[Worker, _Followed] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._stop_listening: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        await self._sockets.__aenter__()
        self._stop_listening = self._pool.on_change(self._attend)
        self._attend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
        for followed in self._followed.values():
            self._leave(followed, "the proxy is stopping")
        await asyncio.gather(*self._leaving, return_exceptions=True)
        self._followed.clear()
        await self._sockets.__aexit__(kind, error, trace)

    # -- what others read ----------------------------------------------------------------------------------------

    def blocks_of(self, worker: Worker) -> Blocks | None:
        """What is resident there; None while that is not known. What it holds is on the worker; what it does not hold
        is not, if it is `complete`."""
        followed = self._followed.get(worker)
        return followed.blocks if followed is not None and followed.in_step else None

    def source_of(self, worker: Worker) -> str:
        """Where our knowledge of its blocks comes from, or why there is none, in words."""
        followed = self._followed.get(worker)
        return followed.words() if followed is not None else "no KV events: the worker is not up"

    def counts_of(self, worker: Worker) -> Counts:
        """Since we know the worker, all its ranks and lives together; they only grow, but for `lag_s`."""
        followed = self._followed.get(worker)
        return followed.counts() if followed is not None else Counts()

    # -- following -----------------------------------------------------------------------------------------------

    def _attend(self) -> None:
        """After each change of the pool."""
        for worker in [worker for worker in self._followed if worker not in self._pool]:
            self._leave(self._followed.pop(worker), "the worker was removed")
        for worker in self._pool:
            followed = self._followed.get(worker)
            if followed is not None and followed.task is not None:
                if worker.state is State.DOWN or followed.generation != worker.generation:
                    self._leave(followed, "the worker is down")
                else:
                    continue
            if worker.state in FOLLOWED:
                followed = self._followed.setdefault(worker, _Followed())
                followed.generation = worker.generation
                followed.task = asyncio.create_task(self._follow(worker, followed), name=f"KV events of {worker.name}")

    def _leave(self, followed: "_Followed", trouble: str) -> None:
        task, followed.task = followed.task, None
        followed.close(trouble)
        if task is not None:
            task.cancel()
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _follow(self, worker: Worker, followed: "_Followed") -> None:
        told: str | None = None
        while True:
            pause_s = self._lost_retry_s
            try:
                sources = await self._ask(worker)
                if sources.found:
                    await self._listen(worker, followed, sources)
                trouble, pause_s = sources.trouble or "the worker tells none", self._none_retry_s
            except StreamLost as error:
                trouble = str(error)
            except WorkerFailed as error:
                trouble = error.trouble
            except TimeoutError:
                trouble = f"/kv_event_sources did not answer within {ASK_S:g} s"
            except Exception:  # a fault of ours must not end the following of this worker for good
                log.exception("KV events of %s", worker.name)
                trouble = "following them failed; see the log"
            followed.close(trouble)
            if trouble != told:
                log.warning("worker %s, no KV events: %s", worker.name, trouble)
                told = trouble
            await asyncio.sleep(pause_s)

    async def _ask(self, worker: Worker) -> Sources:
        async with (
            asyncio.timeout(ASK_S),
            self._upstream.ask(worker, "GET", "/kv_event_sources", self._headers, proves_life=False) as reply,
        ):
            return sources_of(reply.status, await reply.read(), worker.url)

    async def _listen(self, worker: Worker, followed: "_Followed", sources: Sources) -> None:
        """Until one of its ranks is lost: raises that rank's error."""
        blocks = Blocks(most_sessions=self._most_sessions)
        on_tip = None if self._on_tip is None else partial(self._on_tip, worker, blocks)
        followers = [Follower(blocks, source.rank, on_tip=on_tip) for source in sources.found]
        streams = [
            KvStream(self._sockets, source, follower, **self._stream)
            for source, follower in zip(sources.found, followers, strict=True)
        ]
        followed.open(blocks, streams)
        tasks = [
            asyncio.create_task(stream.follow(), name=f"KV events of {worker.name}, rank {stream.source.rank}")
            for stream in streams
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class _Followed:
    """A worker that was up at least once. blocks: None while nothing is followed."""

    __slots__ = ("_past", "_streams", "blocks", "generation", "task", "trouble")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.generation = -1
        self.blocks: Blocks | None = None
        self.trouble = "it has not been asked yet"
        self._streams: list[KvStream] = []
        self._past = Counts()  # of streams that ended

    @property
    def in_step(self) -> bool:
        return bool(self._streams) and all(stream.in_step for stream in self._streams)

    def open(self, blocks: Blocks, streams: list[KvStream]) -> None:
        self.blocks, self._streams = blocks, streams

    def close(self, trouble: str) -> None:
        self._past = self.counts()
        self.blocks, self._streams, self.trouble = None, [], trouble

    def counts(self) -> Counts:
        total = Counts()
        total.add(self._past)
        if self._streams:
            total.lag_s = 0.0
        for stream in self._streams:
            total.add(stream.follower.counts)
        return total

    def words(self) -> str:
        if self.blocks is None:
            return f"no KV events: {self.trouble}"
        if not self.in_step:
            return "KV events, not in step now: connecting or catching up"
        gaps = {stream.follower.trouble for stream in self._streams if not stream.follower.complete}
        if not gaps:
            return "KV events, exact"
        why = "; ".join(sorted(gap for gap in gaps if gap)) or "we came late"
        return f"KV events; what was stored before is unknown ({why})"
