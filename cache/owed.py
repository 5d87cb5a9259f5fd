"""Vectors that are owed: answers which were stored without one, because the embedder was late.

They are made up for later, patiently, because no user waits for them. Until then such an answer is found by its bytes
and its words all the same.
"""

from collections.abc import Awaitable, Callable

from cache.entry import Entry, Vector
from cache.errors import EmbedderUnavailable, StoreUnavailable, TextTooLong

_MOST = 10_000  # entries; beyond it an answer stays without a vector


class OwedVectors:
    """embed: makes one; raises TextTooLong, EmbedderUnavailable.  put: stores an entry again, with its vector, unless
    it is gone meanwhile; raises StoreUnavailable."""

    def __init__(
        self, embed: Callable[[str], Awaitable[Vector]], put: Callable[[Entry, Vector], Awaitable[None]]
    ) -> None:
        self._embed = embed
        self._put = put
        self._entries: dict[int, Entry] = {}

    def add(self, entry: Entry) -> None:
        """This one was stored without its vector."""
        if len(self._entries) < _MOST:
            self._entries[entry.id] = entry

    def drop(self, entry_id: int) -> None:
        """The entry is gone, and so is the debt."""
        self._entries.pop(entry_id, None)

    async def repay(self) -> None:
        """Make as many as can be made now."""
        while self._entries:
            entry_id, entry = next(iter(self._entries.items()))
            try:
                vector = await self._embed(entry.text or "")
            except TextTooLong:
                self._entries.pop(entry_id, None)
                continue
            except EmbedderUnavailable:
                if self._entries.pop(entry_id, None) is not None:
                    self._entries[entry_id] = entry  # to the end, so that one bad text does not hold up the others
                return
            try:
                await self._put(entry, vector)
            except StoreUnavailable:
                return
            self._entries.pop(entry_id, None)

    def __len__(self) -> int:
        return len(self._entries)
