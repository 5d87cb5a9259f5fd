"""Asking whoever should answer: choose, ask, and ask another when a worker fails before it has said a byte.

The failure contract (DESIGN, routing): a connect error, or a death before the first byte, is retried elsewhere,
invisibly, at most twice; 502, 503 and 504 from a worker count as such while another worker is there to ask. After the
first byte nothing is retried. What a worker answers with any other status is its answer.
"""

import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from proxy.errors import NoWorker, UpstreamFailed, UpstreamTimedOut
from proxy.routing.homes import Homes
from proxy.routing.router import Choice, choose
from proxy.routing.workers import State, WorkerPool
from proxy.upstream import Upstream, UpstreamReply
from proxy.upstream_errors import Phase, WorkerFailed, WorkerSilent, WorkerUnreachable

log = logging.getLogger(__name__)

_BUSY = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Errand:
    """What a worker is asked. session: digest for affinity; None = whoever is free."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes | None
    model: str | None
    session: str | None


class Dispatch:
    """first_byte_s, idle_s: how long a worker may say nothing, in seconds; None = for ever.
    retries: how many other workers may be asked after the first.  homes: where sessions live; None where several
    processes or replicas choose, who must agree without seeing each other's tables."""

    def __init__(
        self, pool: WorkerPool, upstream: Upstream, homes: Homes | None, *, first_byte_s: float | None,
        idle_s: float | None, retries: int = 2,
    ) -> None:  # fmt: skip
        self._pool = pool
        self._upstream = upstream
        self._homes = homes
        self._first_byte_s = first_byte_s
        self._idle_s = idle_s
        self._retries = retries

    @contextlib.asynccontextmanager
    async def ask(self, errand: Errand) -> AsyncIterator[tuple[Choice, UpstreamReply]]:
        """The reply of the first worker that gives one. Raises NoWorker, ModelNotFound, UpstreamFailed,
        UpstreamTimedOut; inside the block WorkerFailed becomes UpstreamFailed or UpstreamTimedOut."""
        avoid: frozenset[str] = frozenset()
        trouble: WorkerFailed | None = None
        for tries_left in range(self._retries, -1, -1):
            choice = self._choose(errand, avoid, trouble)
            worker = choice.worker
            telling = False
            try:
                with self._pool.booked(worker):
                    async with self._upstream.ask(
                        worker, errand.method, errand.target, errand.headers, errand.body,
                        first_byte_s=self._first_byte_s, idle_s=self._idle_s,
                    ) as reply:  # fmt: skip
                        if reply.status in _BUSY and tries_left and self._another(errand, avoid | {worker.url}):
                            avoid |= {worker.url}
                            log.info("%s answered %d, asking another worker", worker.name, reply.status)
                            continue
                        telling = True
                        if self._homes is not None and errand.session is not None and reply.status < 500:
                            self._homes.settle(errand.session, worker.url)
                        yield choice, reply
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

    def choice(self, model: str | None, session: str | None, avoid: frozenset[str] = frozenset()) -> Choice:
        """Who would be asked now. Raises NoWorker, ModelNotFound."""
        homes = self._homes
        if homes is None or session is None:
            return choose(self._pool, model=model, session=session, avoid=avoid)
        return choose(
            self._pool, model=model, session=session, avoid=avoid, home=homes.of(session), settled=homes.counts
        )

    def _choose(self, errand: Errand, avoid: frozenset[str], trouble: WorkerFailed | None) -> Choice:
        try:
            return self.choice(errand.model, errand.session, avoid)
        except NoWorker:
            if trouble is None:
                raise
            log.warning("nobody is left to ask: %s", trouble)  # the client need not know where our workers live
            raise NoWorker("No worker is up for this request. Try again in 2 s.", retry_after_s=2) from trouble

    def _another(self, errand: Errand, avoid: frozenset[str]) -> bool:
        return any(w.state is State.UP and w.url not in avoid and w.serves(errand.model) for w in self._pool)


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
