"""The idle time of workers: who may use it, for how long, and how he makes way when a user comes.

    worker, pause_s = await spare.find("warm-up", wanted)  # from here to `use` no await: nobody may come in between
    ended = await spare.use("warm-up", worker, lambda: ask(worker))

A worker is idle when our books have nothing on it and its own /metrics say that it rests. The moment a user's request
is booked there, whoever uses its idle time is cancelled, his connection closes, and vLLM aborts him. Where `priority`
is set the worker sees to that itself (`--scheduling-policy priority`). One at a time uses a worker's idle time.

Each kind of work has an allowance of its own, an equal part of the whole share. Out of one common purse, short work
would always take what long work is still saving for.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from proxy import openai
from proxy.routing.workers import State, Worker, WorkerPool
from proxy.sampling import Allowance, at_rest
from proxy.upstream import Upstream
from proxy.upstream_errors import WorkerFailed

log = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 0.25  # while something waits and no worker is free
_ASK_METRICS_S: Final = 1.0  # of a worker that said it was busy


class Refused(Exception):
    """The worker does not answer this; asking again is of no use."""


@dataclass(frozen=True, slots=True)
class Ended:
    """why: it was stopped (yielded, over budget, refused, failed); None = it came to its end.
    seconds: that the worker was used."""

    why: str | None
    seconds: float


class SpareTime:
    """share: of each worker's time that all kinds together may take, in [0, 1].  kinds: of work, by name.
    priority: workers serve low priority themselves.  api_key: what we show to workers; never a client's.
    ticks: seconds that never go back."""

    def __init__(
        self, pool: WorkerPool, upstream: Upstream, *, share: float, kinds: Sequence[str], priority: bool = False,
        api_key: str | None = None, ticks: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.share = share
        self.priority = priority
        self._pool = pool
        self._upstream = upstream
        self._headers = [("Content-Type", "application/json")]
        if api_key is not None:
            self._headers.append(("Authorization", f"Bearer {api_key}"))
        self._ticks = ticks
        self._allowances: dict[str, dict[Worker, Allowance]] = {kind: {} for kind in kinds}
        self._busy_until: dict[Worker, float] = {}
        self._taken: set[Worker] = set()
        self._warned: set[str] = set()
        self._allow(ticks())

    def on(self, kind: str) -> bool:
        """Whether this kind of work is done at all."""
        return self.share > 0 and kind in self._allowances

    def state(self, kind: str) -> dict[str, Any]:
        """What each worker has given and may still give; for people."""
        now_s = self._ticks()
        return {
            worker.name: {"spent_s": round(each.spent_s, 3), "saved_s": round(each.saved(now_s), 3)}
            for worker, each in self._allowances.get(kind, {}).items()
        }

    async def find(self, kind: str, wanted: Callable[[Worker], bool]) -> tuple[Worker | None, float]:
        """An idle worker that is wanted and can be paid for; or None, and the seconds after which to look again
        (inf = nothing is wanted of anybody)."""
        now_s = self._ticks()
        self._allow(now_s)
        pause_s = math.inf
        for worker, allowance in list(self._allowances[kind].items()):
            if not wanted(worker):
                continue
            wait_s = max(allowance.ready_in(now_s), self._busy_until.get(worker, 0.0) - now_s)
            pause_s = min(pause_s, max(wait_s, _LOOK_AGAIN_S))
            if wait_s > 0 or not self._free(worker):
                continue
            if not self.priority and not await self._says_it_rests(worker):
                self._busy_until[worker] = self._ticks() + _ASK_METRICS_S
                continue
            if worker in self._allowances[kind] and self._free(worker) and wanted(worker):
                return worker, 0.0
        return None, pause_s

    async def use(self, kind: str, worker: Worker, work: Callable[[], Coroutine[Any, Any, None]]) -> Ended:
        """Do `work` there until it ends, a user comes, or what was saved is spent. Raises what is a bug of `work`."""
        allowance = self._allowances[kind][worker]
        began_s = self._ticks()
        stopped = ""
        working = asyncio.get_running_loop().create_task(work(), name=f"rejoinder-{kind}")

        def give_way() -> None:
            nonlocal stopped
            stopped = "yielded"
            working.cancel()

        self._taken.add(worker)
        if not self.priority:
            worker.guest = give_way
        try:
            done, _ = await asyncio.wait({working}, timeout=allowance.saved(began_s))
            if not done:
                stopped = "over budget"
        finally:
            worker.guest = None
            working.cancel()
            (ended,) = await asyncio.gather(working, return_exceptions=True)
            self._taken.discard(worker)
            seconds = self._ticks() - began_s
            allowance.spend(seconds, self._ticks(), whole=ended is None)
        if ended is None:
            return Ended(None, seconds)
        if isinstance(ended, Refused):
            self._warn_once(f"{worker.name} refused a {kind}: {ended}")
            return Ended("refused", seconds)
        if isinstance(ended, asyncio.CancelledError):
            return Ended(stopped or "failed", seconds)
        if isinstance(ended, WorkerFailed):
            return Ended("failed", seconds)
        raise ended

    async def post(
        self, worker: Worker, path: str, body: bytes, request_id: str, headers: Sequence[tuple[str, str]] = ()
    ) -> Any:
        """The worker's whole answer, decoded. Raises WorkerFailed, Refused."""
        said = [*self._headers, *headers, ("X-Request-Id", request_id)]
        async with self._upstream.ask(worker, "POST", path, said, body) as reply:
            data = await reply.read()
        if reply.status != 200:
            if reply.status >= 500:
                raise WorkerFailed(worker, f"answered {reply.status}")
            raise Refused(openai.refusal(reply.status, data))
        return orjson.loads(data)

    def _allow(self, now_s: float) -> None:
        """Every worker has an allowance, from when it is first seen; those that left have none."""
        present = set(self._pool)
        for allowances in self._allowances.values():
            for gone in [worker for worker in allowances if worker not in present and worker not in self._taken]:
                del allowances[gone]
                self._busy_until.pop(gone, None)
            for worker in self._pool:
                if worker not in allowances:
                    allowances[worker] = Allowance(self.share / len(self._allowances), now_s)

    def _free(self, worker: Worker) -> bool:
        """By our own books. A worker that has told us its models lets us in with the key that we have, or without."""
        if worker.state is not State.UP or not worker.models or worker in self._taken:
            return False
        return self.priority or worker.idle

    async def _says_it_rests(self, worker: Worker) -> bool:
        """By its own metrics: others than we may use it."""
        try:
            async with asyncio.timeout(_ASK_METRICS_S):
                async with self._upstream.ask(worker, "GET", "/metrics", self._headers, proves_life=False) as reply:
                    text = (await reply.read()).decode("utf-8", "replace") if reply.status == 200 else ""
        except (WorkerFailed, TimeoutError):
            return False
        rests = at_rest(text)
        if rests is None:
            self._warn_once(f"{worker.name} does not tell on /metrics whether it is busy: its idle time is not used")
        return rests is True

    def _warn_once(self, words: str) -> None:
        if words not in self._warned and len(self._warned) < 100:
            self._warned.add(words)
            log.warning("%s", words)
