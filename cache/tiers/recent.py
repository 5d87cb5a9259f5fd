"""The recent tier: the same bytes, or the same words within a window. A hot shelf in memory, then the entry store.

With Redis as the store, every replica sees what the others stored. A store that is gone or slow costs one deadline,
then its breaker makes it a counted miss.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from cache.entry import Entry
from cache.errors import StoreUnavailable
from cache.protocols import Clock, EntryStore
from cache.question import Question
from cache.tiers.session import private_scope
from cache.tiers.shelf import Shelf


class RecentTier:
    """window_s: how old an entry found by wording may be; one found by its exact bytes may have any age within its
    life.  deadline_s: how long the store may take before the tier counts as missed."""

    name = "recent"

    def __init__(
        self, store: EntryStore, clock: Clock, *, window_s: float, deadline_s: float = 0.05,
        hot_entries: int = 10_000, hot_bytes: int = 64 << 20,
    ) -> None:  # fmt: skip
        self._store = store
        self._clock = clock
        self._window_s = window_s
        self._deadline_s = deadline_s
        self._hot = Shelf(hot_entries, hot_bytes)

    def hot(self, question: Question) -> Iterable[Entry]:
        """Candidates in memory, surest first; never waits."""
        entry = self._hot.exact(question.scope.key, question.key)
        if entry is not None:
            yield entry
        if question.wording is not None:
            entry = self._hot.worded(question.scope.key, question.wording)
            if entry is not None and entry.created_s >= self._clock() - self._window_s:
                yield entry

    async def find(self, question: Question) -> list[Entry]:
        """Candidates in the store, surest first. Raises StoreUnavailable."""
        since_s = self._clock() - self._window_s
        try:
            async with asyncio.timeout(self._deadline_s):
                found = await self._store.find(question.scope, question.key, question.wording, since_s)
        except TimeoutError as late:
            raise StoreUnavailable(f"no answer from the store within {self._deadline_s * 1000:g} ms") from late
        return found

    async def find_private(self, question: Question) -> list[Entry]:
        """What the store keeps for this question's session alone, as entries of its own scope. Raises
        StoreUnavailable."""
        if question.session is None:
            return []
        found = await self.find(replace(question, scope=private_scope(question.scope, question.session)))
        return [replace(entry, scope=question.scope) for entry in found]

    def replaced(self, entry: Entry) -> bool:
        """Whether a later answer to the same request stands in memory already."""
        held = self._hot.exact(entry.scope.key, entry.key)
        return held is not None and held.id != entry.id and held.created_s >= entry.created_s

    def keep_hot(self, entry: Entry) -> None:
        """Hold an entry in memory, so that its next repetition needs no store."""
        self._hot.put(entry)

    def forget(self, entry_ids: Iterable[int]) -> int:
        """Drop these from memory; the store is told by its owner."""
        return self._hot.forget(entry_ids)

    def forget_all(self) -> None:
        """Drop everything from memory: what the store did meanwhile is unknown."""
        self._hot.forget([entry.id for entry in self._hot])

    def __contains__(self, entry_id: int) -> bool:
        return entry_id in self._hot

    def matching(self, tenant: str | None, model: str | None) -> list[Entry]:
        """Entries in memory of this tenant and model (None = any), for a purge."""
        return [
            entry for entry in self._hot if tenant in (None, entry.scope.tenant) and model in (None, entry.scope.model)
        ]
