"""What other replicas did, read from a stream with a connection of its own.

Records are numbered without gaps inside one *epoch* (a random name that an empty server is given), so whatever goes
wrong shows: trimmed away before it was read is a gap; flushed, restarted empty or failed over is another epoch, or a
number smaller than one already seen. Each of them becomes `reset`.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cache.errors import StateError, StoreUnavailable
from cache.store.link import Link, Reply

log = logging.getLogger(__name__)

BLOCK_S: Final = 1.0  # seconds one read waits for news, and so the longest that a flushed server goes unnoticed
AT_ONCE: Final = 100  # records in one read
DOUBTS: Final = 10_000  # own writes without an answer that are remembered


@dataclass(frozen=True, slots=True)
class Place:
    """Where a listener stands: everything up to this record of this epoch has been told."""

    epoch: str
    number: int
    stream_id: str


@dataclass(frozen=True, slots=True)
class News:
    """added: m and v of entries that are searchable and still there.  removed: ids.  reset: read everything again.
    quarantined: those of removed that were taken out of service.  hidden: (session, entry) that does not want it."""

    added: tuple[tuple[bytes, bytes], ...] = ()
    removed: tuple[int, ...] = ()
    reset: bool = False
    quarantined: tuple[int, ...] = ()
    hidden: tuple[tuple[str, int], ...] = ()


class Writes:
    """Names our own writes, so that the feed does not tell us what we know. A write whose answer never came may or may
    not have happened: it is told."""

    def __init__(self) -> None:
        self._name = secrets.token_hex(8)
        self._count = 0
        self._open: dict[str, asyncio.Future[bool]] = {}  # was it answered? Those that were are not in here

    @contextlib.contextmanager
    def one(self) -> Iterator[str]:
        """A name for the write inside; it counts as answered when that ends without an exception."""
        self._count += 1
        name = f"{self._name}:{self._count}"
        answered = self._open[name] = asyncio.get_running_loop().create_future()
        try:
            yield name
        except BaseException:
            answered.set_result(False)
            while len(self._open) > DOUBTS:
                del self._open[next(iter(self._open))]
            raise
        answered.set_result(True)
        del self._open[name]

    async def known(self, name: str) -> bool:
        """Was this write ours, and answered? Waits for the answer, which the feed often overtakes."""
        if not name.startswith(self._name):
            return False
        answered = self._open.get(name)
        return answered is None or await answered


class Feed:
    """base: before every key.  where: asks a link for the end of the feed.  place: where to start; None = unknown."""

    def __init__(
        self,
        link: Link,
        base: str,
        writes: Writes,
        where: Callable[[Link], Awaitable[Place]],
        place: Place | None,
        patience_s: float,
    ) -> None:
        self._link = link
        self._base = base
        self._writes = writes
        self._where = where
        self._place = place
        self._patience_s = patience_s

    async def read(self, retry_s: float) -> AsyncGenerator[News, None]:
        """For ever; a server that is away is waited for."""
        try:
            while True:
                try:
                    await self._link.connect()
                    while True:
                        news = await self._next()
                        if news is not None:
                            yield news
                except (StoreUnavailable, StateError) as error:
                    log.debug("no news from Redis: %s", error)
                    await self._link.close()
                    # A cluster that sends us to the node with our keys does not have to be waited for.
                    await asyncio.sleep(0.01 if self._link.moved else retry_s)
        finally:
            await self._link.close()

    async def _next(self) -> News | None:
        stream, meta = f"{self._base}:feed", f"{self._base}:meta"
        place = self._place
        if place is None:
            return await self._reset()
        ask = ("HMGET", meta, "epoch", "n")
        read = ("XREAD", "COUNT", AT_ONCE, "BLOCK", round(BLOCK_S * 1000), "STREAMS", stream, place.stream_id)
        (epoch, number), found = await self._link.calls(BLOCK_S + self._patience_s, [ask, read])
        if (epoch or b"").decode() != place.epoch or int(number or 0) < place.number:
            return await self._reset()
        added: dict[int, None] = {}
        removed: dict[int, None] = {}
        quarantined: list[int] = []
        hidden: list[tuple[str, int]] = []
        for stream_id, words in found[0][1] if found else ():
            record = dict(zip(words[::2], words[1::2], strict=True))
            if int(record[b"n"]) != place.number + 1:
                return await self._reset()
            place = Place(place.epoch, place.number + 1, stream_id.decode())
            if not await self._writes.known(record[b"o"].decode()):
                for entry_id in map(int, record[b"a"].split()):
                    added[entry_id] = None
                    removed.pop(entry_id, None)
                for entry_id in map(int, record[b"r"].split()):
                    removed[entry_id] = None
                    added.pop(entry_id, None)
                quarantined += map(int, record.get(b"q", b"").split())
                if b"h" in record:
                    entry, _, session = record[b"h"].decode().partition(":")
                    hidden.append((session, int(entry)))
        entries = await self._fetch(list(added))
        self._place = place
        if not (entries or removed or hidden):
            return None
        return News(tuple(entries), tuple(removed), quarantined=tuple(quarantined), hidden=tuple(hidden))

    async def _fetch(self, ids: Sequence[int]) -> list[tuple[bytes, bytes]]:
        if not ids:
            return []
        found: list[Reply] = await self._link.calls(
            self._patience_s, [("HMGET", f"{self._base}:e:{each}", "m", "v") for each in ids]
        )
        return [(meta, vector) for meta, vector in found if meta is not None and vector is not None]

    async def _reset(self) -> News:
        self._place = await self._where(self._link)  # before the listener reads the store: what follows will be told
        return News(reset=True)
