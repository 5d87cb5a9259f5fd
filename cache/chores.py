"""Work that goes on beside the questions: what is done again and again, and what the store's feed tells.

Chores owns its tasks: it keeps them, and ends them when the cache closes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from cache.errors import StoreUnavailable
from cache.protocols import Change, EntryStore

log = logging.getLogger(__name__)

_AGAIN_S = 0.5  # after the feed broke off


class Chores:
    """Begun one by one, ended together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do this beside everything else."""
        task = asyncio.get_running_loop().create_task(work, name=f"rejoinder-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Cancel what is still going on, and wait for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def every(period_s: float, work: Callable[[], Awaitable[None]]) -> None:
    """For ever. A failure is logged, and tried again in its turn."""
    while True:
        await asyncio.sleep(period_s)
        try:
            await work()
        except Exception:
            log.exception("background work failed; it is tried again in %g s", period_s)


async def follow(store: EntryStore, apply: Callable[[Change], Awaitable[None]]) -> None:
    """Apply what other replicas did, for as long as the store tells. apply: may raise StoreUnavailable."""
    behind = False
    while True:
        try:
            if behind:  # what happened while the feed was broken is unknown
                await apply(Change(reset=True))
                behind = False
            async for change in store.changes():
                await apply(change)
            return  # a store of our own has no feed
        except StoreUnavailable as trouble:
            log.info("the feed broke off: %s", trouble)
            behind = True
            await asyncio.sleep(_AGAIN_S)
