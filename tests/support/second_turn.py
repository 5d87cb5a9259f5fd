"""A chat whose second turn was a hit. Anna's chat filled the cache from one worker; Ben has the same chat on another.

async with two_turns(house) as (h, chat):      # chat: Ben's messages with his third question, which nobody asked yet
    …
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from house import House, OpenHouse, Told, turns

from proxy.faults import Call, Pace

FIRST = "Here is a text about bicycles. " + " ".join(f"Wheel number {n} is round." for n in range(60))
SECOND = "And here is one about boats. " + " ".join(f"Boat number {n} floats well." for n in range(300))
THIRD = "Which of the two is longer?"


@contextlib.asynccontextmanager
async def two_turns(
    house: OpenHouse, *, pace: Pace | None = None, busy: bool = False,
    before: Callable[[House], Any] = lambda _: None, **settings: Any,
) -> AsyncIterator[tuple[House, list[dict[str, str]]]]:  # fmt: skip
    """The cache has just answered Ben's second turn. pace: of his worker from then on.
    busy: a request of somebody else is booked on his worker until the end.  before: called before that turn."""
    wanted = {"embedder": "none", "warm_up": True, "spare_time_share": 1.0, **settings}
    async with house(workers=2, **wanted) as h:
        pool = h.proxy.pool
        annas, bens = (pool.find(worker.url) for worker in h.workers)
        pool.drain(bens)
        chat = [FIRST]
        for text in (SECOND, THIRD):
            chat += [(await h.ask(turns(*chat), session="anna")).text, text]
        pool.undrain(bens)
        pool.drain(annas)
        await h.ask(turns(FIRST), session="ben", cache_control="no-cache")
        if pace is not None:
            h.workers[1].pace = pace
        before(h)
        with pool.booked(bens) if busy else contextlib.nullcontext():
            await h.ask(turns(*chat[:3]), session="ben")
            yield h, turns(*chat)


def warm_ups(h: House) -> list[Call]:
    return [call for call in h.asked if call.headers["X-Request-Id"].startswith("warm-up-")]


def cached(told: Told) -> int:
    """Tokens of the prompt that the worker had in its prefix cache."""
    return int(told.json["usage"]["prompt_tokens_details"]["cached_tokens"])


def computed(told: Told) -> int:
    """Those that it had not."""
    return int(told.json["usage"]["prompt_tokens"]) - cached(told)


async def ended(h: House, outcome: str = "done", times: int = 1) -> None:
    """Wait until so many warm-ups ended so."""
    async with asyncio.timeout(8):
        while await h.metric("rejoinder_warmups_total", outcome=outcome) < times:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
