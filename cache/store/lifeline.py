"""A link that is given up when it fails, and that comes back by itself.

*Down* after some deadlines missed in a row, or as soon as the connection breaks: every call then fails at once. A task
of its own tries to come back, so no user's question ever is the probe: a circuit breaker without a half-open state.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from cache.errors import StateError, StoreUnavailable
from cache.store.link import Late, Link, LinkLost, Reply, UnknownScript, Word
from cache.store.scripts import Script

log = logging.getLogger(__name__)

FOREIGN: Final = "FOREIGN"  # how a script says that the data belong to another secret
REDIRECTS: Final = 3  # how often a cluster may send us on before we wait


async def run(link: Link, deadline_s: float, script: Script, base: str, *arguments: Word) -> Reply:
    """Run a script by its digest; by its source on a server that has not seen it."""
    try:
        return await link.call(deadline_s, "EVALSHA", script.digest, 1, base, *arguments)
    except UnknownScript:
        return await link.call(deadline_s, "EVAL", script.source, 1, base, *arguments)


class Lifeline:
    """admit: asks a freshly connected server whether it may be used; raises StateError when not.
    failures: deadlines missed one after the other.  retry_s: between two attempts to come back.
    what: is shared, for the log."""

    def __init__(
        self, link: Link, admit: Callable[[], Awaitable[None]], failures: int, retry_s: float, what: str = "answers"
    ) -> None:
        self._link = link
        self._admit = admit
        self._failures = failures
        self._retry_s = retry_s
        self._what = what
        self._up = False
        self._why = "not opened"
        self._missed = 0
        self._missed_at = 0.0  # when the last one was counted
        self._tried_at = -math.inf  # when we last tried to connect
        self._keeper: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return "up" if self._up else f"down: {self._why}"

    async def open(self) -> None:
        """Raises StateError. Returns whether or not the server is there."""
        try:
            await self._connect()
        except StoreUnavailable as error:
            self._why = str(error)
            self._link.drop(self._why)  # it may be connected, to a server that does not answer
            log.warning("Redis cannot be reached (%s); %s are not shared until it can", error, self._what)
        except BaseException:
            await self._link.close()
            raise
        self._keeper = asyncio.create_task(self._keep(), name="redis-keeper")

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        self._up, self._why = False, "closed"
        await self._link.close()

    async def calls(self, deadline_s: float, commands: Sequence[Sequence[Word]]) -> list[Reply]:
        with self._watched():
            return await self._link.calls(deadline_s, commands)

    async def run(self, deadline_s: float, script: Script, base: str, *arguments: Word) -> Reply:
        with self._watched():
            return await run(self._link, deadline_s, script, base, *arguments)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        if not self._up:
            raise StoreUnavailable(f"Redis is down: {self._why}")
        started = time.monotonic()
        try:
            yield
        except LinkLost as error:
            self._fall(str(error))
            raise
        except Late as error:
            # Calls that waited together are one failure: perhaps it was our own event loop that was late.
            if started >= self._missed_at:
                self._missed += 1
                self._missed_at = time.monotonic()
            if self._missed >= self._failures:
                self._fall(f"{self._missed} times {error}")
            raise
        except StoreUnavailable as error:
            if FOREIGN in str(error):
                self._fall(str(error))
            raise
        self._missed = 0

    def _fall(self, reason: str) -> None:
        if self._up:
            self._up, self._why = False, reason
            log.warning("Redis is down (%s); %s are not shared until it is back", reason, self._what)
            self._link.drop(reason)

    async def _connect(self) -> None:
        self._tried_at = time.monotonic()
        for _ in range(REDIRECTS):
            await self._link.connect()
            try:
                await self._admit()
            except LinkLost:
                if not self._link.moved:
                    raise
            else:
                self._up, self._missed = True, 0
                return
        raise LinkLost("the cluster sends us round in circles")

    async def _keep(self) -> None:
        while True:
            await self._link.lost.wait()
            self._fall("the connection was lost")
            # The first attempt comes at once, unless the last one was so recent that the server must be ailing.
            await asyncio.sleep(max(0.0, self._tried_at + self._retry_s - time.monotonic()))
            try:
                await self._connect()
            except StateError as error:
                if self._why != str(error):
                    log.error("Redis is there but must not be used: %s", error)
                self._why = str(error)
            except StoreUnavailable as error:
                self._why = str(error)
            except Exception as error:  # something that is not Redis answered; if this task ended, nobody would return
                self._why = f"{type(error).__name__}: {error}"
            else:
                log.info("Redis is up")
            if not self._up:
                self._link.drop(self._why)
