"""What becomes of a generation that has ended: its answer is read, admitted or not, kept at once, and stored behind the
reply. This module waits for the store; `cache.inadmissible` decides."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import orjson

from cache import Entry, Miss, TieredCache, inadmissible
from proxy import openai, sse
from proxy.metrics import Metrics
from proxy.reading import Asked

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Landed:
    """What a flight learned: the whole answer, and the entry that now holds it (None: not admitted)."""

    told: openai.Told
    entry: Entry | None


class Landing:
    """Where generations land."""

    def __init__(self, cache: TieredCache, metrics: Metrics) -> None:
        self._cache = cache
        self._metrics = metrics
        self._storing: set[asyncio.Task[None]] = set()

    def of(
        self, asked: Asked, miss: Miss, code: int, kept: list[bytes] | None, since: int, entry_id: int, *,
        streamed: bool, known: int = 0,
    ) -> Landed | None:  # fmt: skip
        """kept: all that was said; None = too large to keep.  since: `TieredCache.forgets` when it was asked for.
        known: how many of its tokens were stored and not generated now.  None: it is no whole answer."""
        if kept is None:
            self._metrics.refused_to_store("too large")
            return None
        try:
            data = b"".join(kept)
            told = openai.read_answer(code, sse.assemble(data) if streamed else orjson.loads(data))
        except ValueError as broken:  # Incomplete, or not JSON
            self._metrics.refused_to_store("the stream broke off" if streamed else "not JSON")
            log.debug("an answer was not stored: %s", broken)
            return None
        self._metrics.generated(told, known)
        reason = inadmissible(told.outcome) if told.answer is not None else "no choice in it"
        if reason is not None or told.answer is None:
            self._metrics.refused_to_store(reason or "")
            return Landed(told, None)
        entry = self._cache.keep(
            asked.question, asked.verdict, told.answer, since, entry_id, asked.principal, miss.nearly
        )
        if entry is not None:
            self.background(self._store(entry, miss))
        return Landed(told, entry)

    async def settled(self) -> None:
        """Wait until every answer that was kept is stored."""
        while self._storing:
            await asyncio.gather(*self._storing, return_exceptions=True)

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin work that nobody waits for but `settled`."""
        task = asyncio.get_running_loop().create_task(work, name="rejoinder-store")
        self._storing.add(task)
        task.add_done_callback(self._finished)

    async def _store(self, entry: Entry, miss: Miss) -> None:
        self._metrics.stored(await self._cache.store(entry, miss.vector))

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._storing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("storing an answer failed", exc_info=error)
