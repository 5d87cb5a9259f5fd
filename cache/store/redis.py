"""The store that replicas share: Redis or Valkey, alone or as a cluster.

Every call has a deadline, and an ailing server is left alone until it is well (`lifeline`); being away at start is no
different. What others change is told through a stream (`feed`). Every change happens in one script (`scripts`).

All keys carry one hash tag, so a cluster keeps them on one node: correct there, but not spread over it.
Entries of another schema or key version live under another prefix: versions can run side by side and never misread.
"""

import asyncio
import contextlib
import hashlib
import math
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import orjson

from cache.entry import Entry
from cache.errors import StateError, StoreUnavailable
from cache.evidence import Label
from cache.protocols import Change, Clock, Receipt, Row, Selection
from cache.question import Scope
from cache.review import Complaint, Quarantined
from cache.store.feed import Feed, Place, Writes
from cache.store.hashes import digest, read, read_row, write
from cache.store.ledger_scripts import RECEIPTS, SCRIPTS
from cache.store.lifeline import FOREIGN, Lifeline, run
from cache.store.link import Link, Reply, Word
from cache.store.record import KEY_VERSION, SCHEMA
from cache.store.redis_ledger import RedisLedger
from cache.store.scripts import ADMIT, FIND, FORGET, PUT, USE, Script
from cache.worth import WINDOW, Capacity, gain_of, size_of

T = TypeVar("T")

PAGE: Final = 200  # entries looked at in one script or one write: a few milliseconds of the server's only thread
IDS_PAGE: Final = 5000
WRITES: Final = 8  # changes under way at once: a burst of puts waits here, and not in front of a lookup


class RedisStore:
    """An EntryStore in Redis.

    url: redis://, rediss:// or unix://.  fingerprint, previous_fingerprints: of the secrets, as for SqliteStore.
    deadline_s: of a lookup.  write_deadline_s: of a put, for which nobody waits.  patience_s: of one step of upkeep.
    connect_s: of connecting.  failures: deadlines missed in a row after which the store counts as down.
    retry_s: between two attempts to come back.  feed_length: changes kept for listeners, about."""

    def __init__(
        self,
        url: str,
        capacity: Capacity,
        clock: Clock,
        prefix: str = "rejoinder",
        *,
        fingerprint: str = "",
        previous_fingerprints: Sequence[str] = (),
        key_version: int = KEY_VERSION,
        deadline_s: float = 0.02,
        write_deadline_s: float = 0.25,
        patience_s: float = 2.0,
        connect_s: float = 0.5,
        failures: int = 3,
        retry_s: float = 0.5,
        feed_length: int = 20_000,
    ) -> None:
        self._url = url
        self._capacity = capacity
        self._clock = clock
        self._base = f"{{{prefix}:s{SCHEMA}k{key_version}}}"
        self._fingerprint = fingerprint
        self._previous = tuple(previous_fingerprints)
        self._deadline_s = deadline_s
        self._write_deadline_s = write_deadline_s
        self._patience_s = patience_s
        self._connect_s = connect_s
        self._retry_s = retry_s
        self._feed_length = feed_length
        self._link = Link(url, connect_s)
        self._lifeline = Lifeline(self._link, self._admit, failures, retry_s)
        self._writes = Writes()
        self._turns = asyncio.Semaphore(WRITES)
        self._place: Place | None = None  # the end of the feed when we last connected
        self._opened_at: Place | None = None
        self._ledger = RedisLedger(self._base, clock, self._patiently, self._commands)
        self._embedder: str | None = None  # whose vectors the index that listens holds

    def __repr__(self) -> str:
        return f"<RedisStore {self._base} [{self._lifeline}]>"

    async def __aenter__(self) -> Self:
        """Raises StateError when the server holds another secret's entries. A server that is away does not matter."""
        await self._lifeline.open()
        self._opened_at = self._place  # None where the server is away: then `changes` begins with a reset
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lifeline.close()

    async def put(self, entry: Entry) -> tuple[int, ...]:
        return await self._put(entry, "")

    async def _put(self, entry: Entry, how: str) -> tuple[int, ...]:
        meta, body, vector = write(entry)
        left_s = entry.expires_s - self._clock()
        ttl: Word = "" if left_s == math.inf else max(1, round(left_s * 1000))
        room = self._capacity
        bounds = (room.entries, room.bytes or 0, room.half_life, WINDOW, room.remembered)
        value = (size_of(entry), gain_of(entry))
        return await self._change(
            self._write_deadline_s, PUT, entry.id, meta, body, vector, ttl, how, *bounds, *value
        )  # fmt: skip

    async def use(self, uses: Sequence[tuple[int, float]], number: int) -> None:
        for page in _pages(uses, PAGE):
            words = [word for entry_id, weight in page for word in (entry_id, weight)]
            share = round(number * len(page) / len(uses))
            await self._lifeline.run(self._patience_s, USE, self._base, self._capacity.half_life, share, *words)

    async def find(self, scope: Scope, key: str, wording: str | None, since_s: float) -> list[Entry]:
        found = await self._lifeline.run(
            self._deadline_s, FIND, self._base, digest(scope), key, wording or "", _score(since_s), self._clock()
        )
        entries = [read(meta, body) for meta, body in zip(found[::2], found[1::2], strict=True)]
        return [entry for entry in entries if entry.scope == scope]

    async def get(self, entry_ids: Sequence[int]) -> list[Entry]:
        now = self._clock()
        found = await self._fetch(self._deadline_s, entry_ids, "b")
        entries = [read(meta, body) for meta, body in found.values()]
        return [entry for entry in entries if entry.expires_s > now]

    async def matching(self, selection: Selection) -> int:
        want = {**_want(selection), "count": True}
        return sum([len(await self._drop(want, page)) async for page in self._chosen(selection)])

    async def forget(self, selection: Selection) -> tuple[int, ...]:
        want = _want(selection)
        gone: list[int] = []
        async for page in self._chosen(selection):
            gone += await self._drop(want or {"named": selection.ids is not None}, page)
        return (*gone, *await self._ledger.forget(want, selection, gone))

    async def _chosen(self, selection: Selection) -> AsyncIterator[Sequence[int]]:
        """Ids among which all that match are, in pages."""
        if selection.ids is not None:
            for page in _pages(list(dict.fromkeys(selection.ids)), PAGE):
                yield page
            return
        scan = ("ZSCAN", f"{self._base}:created")
        if selection.tag is not None:
            scan = ("SSCAN", f"{self._base}:g:{hashlib.sha1(selection.tag.encode()).hexdigest()}")
        cursor = b"0"
        while True:  # a scan gives everything that is there from its start to its end, at least once
            cursor, found = await self._ask(scan[0], scan[1], cursor, "COUNT", PAGE)
            for page in _pages([int(each) for each in (found if scan[0] == "SSCAN" else found[::2])], PAGE):
                yield page
            if cursor == b"0":
                return

    async def sweep(self) -> tuple[int, ...]:
        now = self._clock()
        gone: list[int] = []
        while True:
            found = await self._ask("ZRANGEBYSCORE", f"{self._base}:expires", "-inf", now, "LIMIT", 0, PAGE)
            gone += await self._drop({"expired_by": now}, [int(each) for each in found])
            if len(found) < PAGE:
                return (*gone, *await self._ledger.forget({"expired_by": now}, Selection(expired_by_s=now), gone))

    async def rows(self, embedder: str, after: int = 0) -> AsyncIterator[list[Row]]:
        self._embedder = embedder
        now = self._clock()
        async for ids in self._searchable(embedder, after, PAGE):
            found = await self._fetch(self._patience_s, ids, "v")
            if len(found) < len(ids):  # expired, or thrown out by Redis for want of memory: then others must hear of it
                await self._drop({"missing": True}, [each for each in ids if each not in found])
            rows = [read_row(meta, vector, now, embedder) for meta, vector in found.values()]
            if batch := [row for row in rows if row is not None]:
                yield batch

    async def ids(self, embedder: str) -> set[int]:
        now, start, expired = self._clock(), 0, set[int]()
        while True:
            words = ("ZRANGEBYSCORE", f"{self._base}:expires", "-inf", now, "LIMIT", start, IDS_PAGE)
            page = await self._ask(*words)
            expired.update(map(int, page))
            start += IDS_PAGE
            if len(page) < IDS_PAGE:
                break
        return {each async for page in self._searchable(embedder, 0, IDS_PAGE) for each in page} - expired

    async def position(self) -> int:
        return int(await self._ask("HGET", f"{self._base}:meta", "seq") or 0)

    async def count(self) -> int:
        return int(await self._ask("ZCARD", f"{self._base}:created"))

    async def changes(self) -> AsyncIterator[Change]:
        """What other replicas did since this one was opened. Added are only vectors of the embedder that `rows` was
        asked for, if it was: a replica with another embedder must not fill our index with what we cannot compare."""
        link = Link(self._url, self._connect_s)
        feed = Feed(link, self._base, self._writes, self._where, self._opened_at, self._patience_s)
        async with contextlib.aclosing(feed.read(self._retry_s)) as all_news:
            async for news in all_news:
                rows = [read_row(meta, vector, self._clock(), self._embedder) for meta, vector in news.added]
                added = tuple(row for row in rows if row is not None)
                if added or news.removed or news.reset or news.hidden:
                    yield Change(added, news.removed, news.reset, news.hidden, news.quarantined)

    # What people say of entries.

    async def add_label(self, label: Label, session: str = "", comment: str = "") -> int:
        return await self._ledger.add_label(label, session, comment)

    async def labels(self, since_s: float) -> list[Label]:
        return await self._ledger.labels(since_s)

    async def hidden(self) -> list[tuple[str, int]]:
        return await self._ledger.hidden()

    async def complaints(self, limit: int) -> list[Complaint]:
        return await self._ledger.complaints(limit)

    async def quarantine(self, entry_ids: Sequence[int], reason: str, tenant: str) -> tuple[int, ...]:
        return await self._ledger.quarantine(entry_ids, reason, tenant)

    async def quarantined(self, limit: int) -> list[Quarantined]:
        return await self._ledger.quarantined(limit)

    async def release(self, entry_id: int) -> tuple[Entry, tuple[int, ...]] | None:
        entry = await self._ledger.release(entry_id)
        return None if entry is None else (entry, await self._put(entry, "release"))

    async def asked_by(self, place: str, principal: str, tenant: str) -> int:
        return await self._ledger.asked_by(place, principal, tenant)

    async def note_receipts(self, noted: Sequence[Receipt]) -> None:
        await self._ledger.note_receipts(noted)

    async def receipts(self, names: Sequence[str]) -> list[Receipt]:
        if not names:
            return []
        found = await self._lifeline.run(self._deadline_s, RECEIPTS, self._base, self._clock(), *names)
        return [
            Receipt(str(name.decode()), int(entry_id), math.inf if expires == b"" else float(expires))
            for name, entry_id, expires in zip(found[::3], found[1::3], found[2::3], strict=True)
        ]

    async def _admit(self) -> None:
        await self._link.calls(self._connect_s, [("SCRIPT", "LOAD", script.source) for script in SCRIPTS])
        self._place = await self._where(self._link)

    async def _where(self, link: Link) -> Place:
        """The end of the feed. Raises StateError when the entries there belong to another secret."""
        arguments = (self._fingerprint, secrets.token_hex(8), "", *self._previous)
        try:
            epoch, number, stream_id = await run(link, self._connect_s, ADMIT, self._base, *arguments)
        except StoreUnavailable as error:
            if FOREIGN in str(error):
                raise StateError(
                    "the answers in Redis were made with another secret. Give every replica the same secret, or use "
                    "another redis_prefix to start anew"
                ) from error
            raise
        return Place(epoch.decode(), int(number), stream_id.decode())

    async def _change(self, deadline_s: float, script: Script, *arguments: Word) -> tuple[int, ...]:
        return tuple(map(int, await self._changed(deadline_s, script, *arguments)))

    async def _changed(self, deadline_s: float, script: Script, *arguments: Word) -> Reply:
        async with self._turns:
            with self._writes.one() as name:
                common = (self._fingerprint, secrets.token_hex(8), name, self._feed_length)
                return await self._lifeline.run(deadline_s, script, self._base, *common, *arguments)

    async def _patiently(self, script: Script, *arguments: Word) -> Reply:
        return await self._changed(self._patience_s, script, *arguments)

    async def _commands(self, commands: Sequence[Sequence[Word]]) -> list[Reply]:
        return await self._lifeline.calls(self._patience_s, commands)

    async def _drop(self, want: dict[str, Any], ids: Sequence[int]) -> tuple[int, ...]:
        return await self._change(self._patience_s, FORGET, orjson.dumps(want), *ids) if ids else ()

    async def _ask(self, *words: Word) -> Reply:
        return (await self._lifeline.calls(self._patience_s, [words]))[0]

    async def _fetch(self, deadline_s: float, ids: Sequence[int], part: str) -> dict[int, tuple[bytes, bytes]]:
        """m and one other field of the entries that exist, in the order asked for."""
        found: dict[int, tuple[bytes, bytes]] = {}
        for page in _pages(ids, PAGE):
            commands = [("HMGET", f"{self._base}:e:{each}", "m", part) for each in page]
            replies = await self._lifeline.calls(deadline_s, commands)
            found |= {
                each: (meta, other) for each, (meta, other) in zip(page, replies, strict=True) if meta is not None
            }
        return found

    async def _searchable(self, embedder: str, after: int, count: int) -> AsyncIterator[list[int]]:
        """Ids in the order of their positions, those that have expired included."""
        while True:
            words = ("ZRANGEBYSCORE", f"{self._base}:rows:{embedder}", f"({after}", "+inf", "WITHSCORES")
            found = await self._ask(*words, "LIMIT", 0, count)
            if found:
                yield [int(each) for each in found[::2]]
                after = int(found[-1])
            if len(found) < 2 * count:
                return


def _want(selection: Selection) -> dict[str, Any]:
    """What must hold of an entry beside its id, for the scripts."""
    want: dict[str, Any] = {
        "tenant": selection.tenant, "model": selection.model, "scope": selection.scope_key, "tag": selection.tag,
        "unless": selection.unless, "before": selection.before_s,
    }  # fmt: skip
    if selection.expired_by_s is not None:
        want["expired_by"] = min(selection.expired_by_s, 1e300)  # JSON knows no infinity
    return {name: value for name, value in want.items() if value is not None}


def _score(moment_s: float) -> Word:
    return "-inf" if moment_s == -math.inf else moment_s


def _pages(ids: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))
