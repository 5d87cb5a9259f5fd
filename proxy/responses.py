"""Stored responses as they pass by: bytes are relayed as they come, and what names a response goes to its keeper.

`keeper` says whom to ask before the request, `noted` remembers a new response while its bytes pass, and tells what it
took.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from proxy.call import Call
from proxy.routing.pins import IdFinder, Pins, makes_response, named_response
from proxy.routing.rides import Ride
from proxy.routing.workers import Worker, WorkerPool
from proxy.usage import Usage, UsageFinder


class Responses:
    """pins: what this process remembers; `identify` takes it as its `threads`."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self.pins = Pins()

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
                    self.pins.note(tenant, found, ride.choice.worker, ride.generation, ride.prompt.session)
                usage.feed(chunk)
                yield chunk
        if usage.found is not None:
            took(ride, usage.found)
