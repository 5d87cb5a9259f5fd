"""Asking whoever should answer: choose, ask, and ask another when a worker fails before it has said a byte.

The failure contract (DESIGN, routing): a connect error, or a death before the first byte, is retried elsewhere,
invisibly, at most twice; 429, 502, 503 and 504 from a worker count as such while another worker is there to ask. After
the first byte nothing is retried. What a worker answers with any other status is its answer.
"""

import contextlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from proxy.errors import NoWorker, UpstreamFailed, UpstreamTimedOut
from proxy.headers import retry_after_s
from proxy.routing.choice import Choice, Kind, Prompt
from proxy.routing.eligible import eligible
from proxy.routing.rides import Ride
from proxy.routing.router import Router
from proxy.routing.worker import Worker
from proxy.routing.workers import WorkerPool
from proxy.upstream import Upstream, UpstreamReply
from proxy.upstream_errors import Phase, WorkerFailed, WorkerSilent, WorkerUnreachable

log = logging.getLogger(__name__)

_BUSY = frozenset({429, 502, 503, 504})
_ASKS_FOR_TIME = frozenset({429, 503})
_PAUSE_S = 1.0  # for a worker that does not say how long it is busy


@dataclass(frozen=True, slots=True)
class Errand:
    """What a worker is asked. prompt: what routing knows of it.
    keeper: the only worker that can answer; None = any."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes | None
    prompt: Prompt
    keeper: Worker | None = None


class Asks(Protocol):
    """Asks a worker; `Dispatch`, or whoever stands around it."""

    def ask(self, errand: Errand, /) -> AbstractAsyncContextManager[tuple[Ride, UpstreamReply]]: ...


class Dispatch:
    """first_byte_s, idle_s: how long a worker may say nothing, in seconds; None = for ever.
    retries: how many other workers may be asked after the first."""

    def __init__(
        self, pool: WorkerPool, upstream: Upstream, router: Router, *, first_byte_s: float | None,
        idle_s: float | None, retries: int = 2,
    ) -> None:  # fmt: skip
        self._pool = pool
        self._upstream = upstream
        self._router = router
        self._first_byte_s = first_byte_s
        self._idle_s = idle_s
        self._retries = retries

    @contextlib.asynccontextmanager
    async def ask(self, errand: Errand) -> AsyncIterator[tuple[Ride, UpstreamReply]]:
        """The reply of the first worker that gives one, and the ride, to be told what the answer took.

        Raises NoWorker, ModelNotFound, UpstreamFailed, UpstreamTimedOut; inside the block WorkerFailed becomes
        UpstreamFailed or UpstreamTimedOut."""
        avoid: frozenset[str] = frozenset()
        trouble: WorkerFailed | None = None
        for tries_left in range(self._retries, -1, -1):
            choice = self._choose(errand, avoid, trouble)
            worker = choice.worker
            telling = False
            try:
                with self._router.ride(choice, errand.prompt) as ride:
                    async with self._upstream.ask(
                        worker, errand.method, errand.target, errand.headers, errand.body,
                        first_byte_s=self._first_byte_s, idle_s=self._idle_s,
                    ) as reply:  # fmt: skip
                        if reply.status in _ASKS_FOR_TIME:
                            self._pool.busy(worker, retry_after_s(reply.headers, time.time()) or _PAUSE_S)
                        if reply.status in _BUSY and tries_left and self._another(errand, avoid | {worker.url}):
                            avoid |= {worker.url}
                            log.info("%s answered %d, asking another worker", worker.name, reply.status)
                            continue
                        telling = True
                        if reply.status < 400:  # who refuses has read nothing, and is nobody's home for it
                            ride.answered()
                        if reply.status < 500:
                            reply.opened = ride.opened
                        yield ride, reply
                        return
            except WorkerFailed as failed:
                if isinstance(failed, WorkerUnreachable):
                    self._pool.unreachable(worker, failed.trouble, connected=failed.connected)
                elif isinstance(failed, WorkerSilent) and failed.phase is Phase.CONNECT:
                    self._pool.unreachable(worker, failed.trouble, connected=True)  # swallowed, not refused: probe it
                if telling or not failed.may_ask_another or not tries_left:
                    raise _told(failed) from failed
                log.warning("%s; asking another worker", failed)
                avoid |= {worker.url}
                trouble = failed
        raise AssertionError("unreachable: the last try returns or raises")

    def _choose(self, errand: Errand, avoid: frozenset[str], trouble: WorkerFailed | None) -> Choice:
        if (keeper := errand.keeper) is not None and keeper.url not in avoid:
            return Choice(keeper, Kind.ONLY, "it keeps the response that this request is about")
        try:
            if keeper is not None:
                raise NoWorker("", retry_after_s=2)
            return self._router.choose(errand.prompt, avoid)
        except NoWorker:
            if trouble is None:
                raise
            log.warning("nobody is left to ask: %s", trouble)  # the client need not know where our workers live
            raise NoWorker("No worker is up for this request. Try again in 2 s.", retry_after_s=2) from trouble

    def _another(self, errand: Errand, avoid: frozenset[str]) -> bool:
        view = self._pool.view(errand.prompt.model)
        return errand.keeper is None and bool(eligible(view, self._pool.clock(), avoid))


async def told_chunks(reply: UpstreamReply) -> AsyncIterator[bytes]:
    """A reply's bytes, for whoever only passes them on: a failure comes in the client's words."""
    try:
        async for chunk in reply.chunks():
            yield chunk
    except WorkerFailed as failed:
        raise _told(failed) from failed


def _told(failed: WorkerFailed) -> UpstreamFailed | UpstreamTimedOut | NoWorker:
    """In the client's words; which worker it was, and where, stands in the log."""
    log.warning("%s", failed)
    if isinstance(failed, WorkerSilent):
        return UpstreamTimedOut(f"The worker took too long: nothing within {failed.waited_s:g} s. Try again.")
    if isinstance(failed, WorkerUnreachable):
        return NoWorker("No worker could be reached. Try again in 2 s.", retry_after_s=2)
    return UpstreamFailed("The worker broke off: this answer is not complete. Try again.")
