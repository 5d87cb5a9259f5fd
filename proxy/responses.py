"""Stored responses as they pass by: bytes are relayed as they come, and what names a response goes to its keeper.

`keeper` says whom to ask before the request, `noted` remembers a new response while its bytes pass.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from proxy.call import Call
from proxy.routing.pins import IdFinder, Pins, makes_response, named_response
from proxy.routing.rides import Ride
from proxy.routing.workers import Worker, WorkerPool


class Responses:
    """pins: what this process remembers; `identify` takes it as its `threads`."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self.pins = Pins()

    def keeper(self, call: Call, body: Mapping[str, Any]) -> Worker | None:
        """The only worker that can answer; None = anybody may. Raises ResponseGone."""
        named = named_response(call.method, call.path, body)
        return self.pins.worker(self._pool, call.tenant.name, named)

    def noted(self, call: Call, ride: Ride, status: int, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same bytes. A response is pinned before the client sees its id: nobody can ask for it too early."""
        if not makes_response(call.method, call.path, status):
            return chunks
        worker, session = ride.choice.worker, ride.prompt.session
        return self._watched(call.tenant.name, worker, ride.generation, session, chunks)

    async def _watched(
        self, tenant: str, worker: Worker, generation: int, session: str | None, chunks: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        finder = IdFinder()
        async with aclosing(chunks) as passing:  # type: ignore[type-var]
            async for chunk in passing:
                if finder.id is None and (found := finder.feed(chunk)) is not None:
                    self.pins.note(tenant, found, worker, generation, session)
                yield chunk
