"""Stored responses as they pass by: bytes are relayed as they come, and what names a response goes to its keeper.

`keeper` says whom to ask before the request, `noted` remembers a new response while its bytes pass, and tells what it
took.
"""

import hmac
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from cache import StoreUnavailable
from proxy.call import Call
from proxy.errors import ResponseGone
from proxy.routing.pins import IdFinder, Pins, makes_response, named_response, read, written
from proxy.routing.rides import Ride
from proxy.routing.workers import Worker, WorkerPool
from proxy.usage import Usage, UsageFinder

log = logging.getLogger(__name__)


class Board(Protocol):
    """Where processes tell each other; both raise StoreUnavailable."""

    async def get(self, key: str, /) -> bytes | None: ...

    async def put(self, key: str, value: bytes, /) -> None: ...


class Responses:
    """pins: what this process remembers; `identify` takes it as its `threads`.
    board: what all processes and replicas remember; None = there is none.  secret: keys the names there."""

    def __init__(self, pool: WorkerPool, board: Board | None = None, secret: bytes = b"") -> None:
        self._pool = pool
        self._board = board
        self._secret = secret
        self.pins = Pins()

    async def recall(self, call: Call, body: Mapping[str, Any]) -> None:
        """Before `keeper`: if the request names a response that this process did not see made, ask the others' board.
        One that is not there, or a board that does not answer in time, leaves it unknown."""
        named = named_response(call.method, call.path, body)
        if self._board is None or named is None or self.pins.of(call.tenant.name, named) is not None:
            return
        try:
            found = await self._board.get(self._name(call.tenant.name, named))
        except StoreUnavailable as trouble:
            log.debug("a response is looked for without its pin: %s", trouble)
            return
        if found is not None and (pin := read(self._pool, found)) is not None:
            self.pins.adopt(call.tenant.name, named, pin)

    def unknown(self, call: Call, body: Mapping[str, Any], status: int) -> ResponseGone | None:
        """What to say instead of a worker's 404 for a response that nobody here knows: he speaks for himself only."""
        named = named_response(call.method, call.path, body)
        if status != 404 or named is None or len(self._pool) < 2 or self.pins.of(call.tenant.name, named) is not None:
            return None
        remembers = "and the processes that share its Redis remember" if self._board is not None else "remembers"
        alone = "" if self._board is not None else " (with the setting redis_url, all would)"
        return ResponseGone(
            f"The response `{named[:64]}` is not known here. A response lives in the memory of the worker that made "
            f"it; this process {remembers} for a while which one that is{alone}. The worker that was asked does not "
            "have it. Send the whole conversation in `input` instead.",
            param="previous_response_id",
        )

    def _name(self, tenant: str, response_id: str) -> str:
        said = b"\0".join(
            (b"response", tenant.encode("utf-8", "surrogateescape"), response_id.encode("utf-8", "replace"))
        )
        return hmac.digest(self._secret, said, "sha256").hex()[:32]

    def keeper(self, call: Call, body: Mapping[str, Any]) -> Worker | None:
        """The only worker that can answer; None = anybody may. Raises ResponseGone."""
        named = named_response(call.method, call.path, body)
        return self.pins.worker(self._pool, call.tenant.name, named)

    def noted(
        self, call: Call, ride: Ride, status: int, chunks: AsyncIterator[bytes], took: Callable[[Ride, Usage], None]
    ) -> AsyncIterator[bytes]:
        """The same bytes. A response is pinned before the client sees its id: nobody can ask for it too early.
        took: told, at its end, what it took."""
        if not makes_response(call.method, call.path, status):
            return chunks
        return self._watched(call.tenant.name, ride, chunks, took)

    async def _watched(
        self, tenant: str, ride: Ride, chunks: AsyncIterator[bytes], took: Callable[[Ride, Usage], None]
    ) -> AsyncIterator[bytes]:
        ids, usage = IdFinder(), UsageFinder()
        async with aclosing(chunks) as passing:  # type: ignore[type-var]
            async for chunk in passing:
                if ids.id is None and (found := ids.feed(chunk)) is not None:
                    await self._pin(tenant, found, ride)
                usage.feed(chunk)
                yield chunk
        if usage.found is not None:
            took(ride, usage.found)

    async def _pin(self, tenant: str, response_id: str, ride: Ride) -> None:
        worker, session = ride.choice.worker, ride.prompt.session
        self.pins.note(tenant, response_id, worker, ride.generation, session)
        if self._board is None:
            return
        try:
            await self._board.put(self._name(tenant, response_id), written(worker, session))
        except StoreUnavailable as trouble:
            log.debug("a response is not known to other processes: %s", trouble)
