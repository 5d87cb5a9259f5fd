"""The durable store of one process: SQLite on a thread of its own.

Everything that touches the file happens on that thread, in the order asked, except that reads overtake writes that
nobody was told about yet. Puts that wait together share one transaction (group commit), and each returns after it.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from cache.entry import Entry
from cache.errors import StateError, StoreUnavailable
from cache.evidence import Label
from cache.protocols import Change, Clock, Receipt, Row, Selection
from cache.question import Scope
from cache.review import Complaint, Quarantined
from cache.store.directory import DirectoryLock, make_private, move_aside
from cache.store.ledger import Ledger
from cache.store.record import KEY_VERSION, named
from cache.store.tables import CHUNK, Tables, admit
from cache.worth import Capacity

log = logging.getLogger(__name__)
T = TypeVar("T")

GROUP = 256  # puts in one transaction
BATCH = 1024  # rows handed over at once


@dataclass(slots=True, eq=False)
class _Job:
    """work: what to do on the thread; entry: what to put, instead of work. urgent: a read, which may overtake."""

    future: asyncio.Future[Any]
    work: Callable[[Tables], Any] | None = None
    entry: Entry | None = None
    urgent: bool = False


_STOP = _Job(future=None)  # type: ignore[arg-type]


class SqliteStore:
    """An EntryStore in one file, for one process.

    path: the database; its directory is locked for this process alone.  capacity: what may be held.
    fingerprint: of the secret that keyed the entries; previous_fingerprints: of secrets that may still be read.
    deadline_s: most seconds a lookup waits.  queue_limit: most puts that may wait to be written."""

    def __init__(
        self,
        path: Path,
        capacity: Capacity,
        clock: Clock,
        *,
        fingerprint: str = "",
        previous_fingerprints: Sequence[str] = (),
        key_version: int = KEY_VERSION,
        deadline_s: float = 1.0,
        queue_limit: int = 10_000,
    ) -> None:
        self._path = Path(path)
        self._capacity = capacity
        self._clock = clock
        self._fingerprints = (fingerprint, *previous_fingerprints)
        self._key_version = key_version
        self._deadline_s = deadline_s
        self._queue_limit = queue_limit
        self._lock = DirectoryLock(self._path.parent)
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._waiting = 0  # puts accepted and not yet settled; event loop only
        self._open = False
        self._damaged = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        state = "open" if self._open else "closed"
        return f"<SqliteStore {self._path} [{state}, {self._waiting} puts waiting]>"

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = self._loop.create_future()
        self._ended = self._loop.create_future()
        threading.Thread(target=self._run, args=(opened,), name="sqlite-store", daemon=True).start()
        await opened
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what was accepted, then close. Safe to call twice."""
        if self._open and self._ended is not None:
            self._open = False
            self._jobs.put(_STOP)
            await asyncio.shield(self._ended)

    # -- the seam ------------------------------------------------------------------------------------------------

    async def put(self, entry: Entry) -> tuple[int, ...]:
        """A caller that is cancelled while it waits does not learn whether the entry was kept."""
        if self._waiting >= self._queue_limit:
            raise StoreUnavailable(f"{self._waiting} entries wait to be written already")
        self._waiting += 1
        try:
            gone: tuple[int, ...] = await self._submit(_Job(self._future(), entry=entry))
        finally:
            self._waiting -= 1
        return gone

    async def use(self, uses: Sequence[tuple[int, float]], number: int) -> None:
        await self._write(lambda tables: tables.use(uses, number))

    async def find(self, scope: Scope, key: str, wording: str | None, since_s: float) -> list[Entry]:
        now = self._clock()
        return await self._read(lambda tables: tables.find(scope, key, wording, since_s, now))

    async def get(self, entry_ids: Sequence[int]) -> list[Entry]:
        now = self._clock()
        found: list[Entry] = []
        for start in range(0, len(entry_ids), CHUNK):  # a long list must not hold up everybody else's lookups
            part = entry_ids[start : start + CHUNK]
            found += await self._read(partial(Tables.get, entry_ids=part, now_s=now))
        return found

    async def matching(self, selection: Selection) -> int:
        return len(await self._write(lambda tables: tables.matching(selection)))

    async def forget(self, selection: Selection) -> tuple[int, ...]:
        places = await self._write(lambda tables: tables.matching(selection))
        gone: list[int] = []
        for start in range(0, len(places), CHUNK):  # in small transactions, so that lookups pass between them
            gone += await self._write(partial(_delete, places[start : start + CHUNK]))
        gone += await self._write(lambda tables: tables.noted(lambda ledger: ledger.forget(selection)))
        if selection.expired_by_s is None:
            ended = list({*gone, *named(selection)})
            for start in range(0, len(ended), CHUNK):
                await self._write(partial(_erase, ended[start : start + CHUNK]))
        untidy = bool(gone) or selection.expired_by_s is None
        while untidy:
            untidy = await self._write(Tables.tidy)
        return tuple(gone)

    async def sweep(self) -> tuple[int, ...]:
        return await self.forget(Selection(expired_by_s=self._clock()))

    async def rows(self, embedder: str, after: int = 0) -> AsyncIterator[list[Row]]:
        read = partial(Tables.rows, embedder=embedder, now_s=self._clock(), limit=BATCH)
        while True:
            batch, after = await self._write(partial(read, after=after))
            if batch:
                yield batch
            if len(batch) < BATCH:
                return

    async def ids(self, embedder: str) -> set[int]:
        step = 50 * BATCH
        read = partial(Tables.ids, embedder=embedder, now_s=self._clock(), limit=step)
        found: set[int] = set()
        after = 0
        while True:
            some, after = await self._write(partial(read, after=after))
            found.update(some)
            if len(some) < step:
                return found

    async def position(self) -> int:
        return await self._write(Tables.position)

    async def changes(self) -> AsyncIterator[Change]:
        """Nothing: this process owns the file."""
        return
        yield Change()  # makes this a generator

    async def count(self) -> int:
        return await self._read(Tables.count)

    async def add_label(self, label: Label, session: str = "", comment: str = "") -> int:
        return await self._write(lambda tables: tables.noted(lambda ledger: ledger.add(label, session, comment)))

    async def labels(self, since_s: float) -> list[Label]:
        return await self._write(lambda tables: tables.ledger.labels(since_s))

    async def hidden(self) -> list[tuple[str, int]]:
        return await self._write(lambda tables: tables.ledger.hidden())

    async def complaints(self, limit: int) -> list[Complaint]:
        return await self._write(lambda tables: tables.ledger.complaints(limit))

    async def quarantine(self, entry_ids: Sequence[int], reason: str, tenant: str) -> tuple[int, ...]:
        now = self._clock()
        return await self._write(lambda tables: tables.quarantine(entry_ids, reason, tenant, now))

    async def quarantined(self, limit: int) -> list[Quarantined]:
        now = self._clock()
        return await self._write(lambda tables: tables.ledger.quarantined(limit, now))

    async def release(self, entry_id: int) -> tuple[Entry, tuple[int, ...]] | None:
        now = self._clock()
        return await self._write(lambda tables: tables.release(entry_id, now))

    async def asked_by(self, place: str, principal: str, tenant: str) -> int:
        now = self._clock()
        return await self._write(
            lambda tables: tables.noted(lambda ledger: ledger.asked_by(place, principal, tenant, now))
        )

    async def note_receipts(self, noted: Sequence[Receipt]) -> None:
        await self._write(lambda tables: tables.noted(lambda ledger: ledger.note_receipts(noted)))

    async def receipts(self, names: Sequence[str]) -> list[Receipt]:
        now = self._clock()
        return await self._read(lambda tables: tables.ledger.receipts(names, now)) if names else []

    # -- from the event loop to the thread -------------------------------------------------------------------------

    def _future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def _submit(self, job: _Job) -> Any:
        if not self._open:
            raise StoreUnavailable("the store is closed")
        self._jobs.put(job)
        return await job.future

    async def _read(self, work: Callable[[Tables], T]) -> T:
        """A lookup: it overtakes writes, and it has a deadline."""
        try:
            async with asyncio.timeout(self._deadline_s):
                result: T = await self._submit(_Job(self._future(), work, urgent=True))
        except TimeoutError:
            raise StoreUnavailable(f"no answer within {self._deadline_s:g} s") from None
        return result

    async def _write(self, work: Callable[[Tables], T]) -> T:
        """In its turn, with no deadline: a write must not be given up half-way, and upkeep is in no hurry."""
        result: T = await self._submit(_Job(self._future(), work))
        return result

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self, opened: asyncio.Future[None]) -> None:
        try:
            tables = self._open_tables()
        except BaseException as error:  # whatever it is, it belongs to whoever opens the store
            self._lock.release()
            self._settle([(opened, None, _translated(error))])
            return
        self._settle([(opened, None, None)])
        try:
            self._serve(tables)
        finally:
            try:
                tables.close()
            except sqlite3.Error as error:
                log.warning("%s: not closed in good order: %s", self._path, error)
                self._damaged = True
            self._lock.release(clean=not self._damaged)
            assert self._ended is not None
            self._settle([(self._ended, None, None)])

    def _open_tables(self) -> Tables:
        try:
            clean = self._lock.acquire()
            make_private(self._path)
        except OSError as error:
            raise StateError(f"the state directory {self._path.parent} cannot be used: {error}") from error
        try:
            tables = Tables(self._path, self._capacity)
            reason = None if clean else tables.damage()
            reason = reason or admit(tables, self._key_version, self._fingerprints)
        except (sqlite3.DatabaseError, KeyError, ValueError) as error:
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                # Busy, unreadable, full: it is not what the file says.
                raise StateError(f"{self._path} cannot be opened: {error}") from error
            reason = f"damaged ({error})"
        if reason is None:
            tables.noted(Ledger.create)
            tables.count_held()
            return tables
        move_aside(self._path, self._clock(), reason)
        make_private(self._path)
        tables = Tables(self._path, self._capacity)
        admit(tables, self._key_version, self._fingerprints)
        tables.noted(Ledger.create)
        return tables

    def _serve(self, tables: Tables) -> None:
        stopping = False
        while not stopping:
            jobs = [self._jobs.get()]
            while len(jobs) < GROUP:
                try:
                    jobs.append(self._jobs.get_nowait())
                except queue.Empty:
                    break
            stopping = _STOP in jobs
            self._settle([self._do(tables, job) for job in jobs if job.urgent and not job.future.cancelled()])
            group: list[_Job] = []
            for job in jobs:
                if job.entry is not None and not job.future.cancelled():
                    group.append(job)
                elif job.work is not None and not job.urgent:
                    self._settle(self._put(tables, group))
                    group = []
                    self._settle([self._do(tables, job)])
            self._settle(self._put(tables, group))

    def _do(self, tables: Tables, job: _Job) -> "_Outcome":
        assert job.work is not None
        try:
            return job.future, job.work(tables), None
        except Exception as error:
            return job.future, None, self._failed(error)

    def _put(self, tables: Tables, group: Sequence[_Job]) -> "list[_Outcome]":
        if not group:
            return []
        try:
            gone = tables.put([job.entry for job in group if job.entry is not None])
        except Exception as error:
            if len(group) == 1:
                return [(group[0].future, None, self._failed(error))]
            # One bad entry must not take the others with it.
            return [outcome for job in group for outcome in self._put(tables, [job])]
        return [(job.future, ids, None) for job, ids in zip(group, gone, strict=True)]

    def _failed(self, error: Exception) -> BaseException:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of it tells details
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            if not self._damaged:
                log.error("%s: %s. Its content will be checked at the next start", self._path, error)
            self._damaged = True
        return _translated(error)

    def _settle(self, outcomes: "Sequence[_Outcome]") -> None:
        """Hand results to the event loop, one wake-up for all of them."""
        if outcomes and self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(_resolve, outcomes)
            except RuntimeError:  # the loop is closed: nobody waits any more
                log.debug("the event loop has gone; %d results dropped", len(outcomes))


def _delete(places: Sequence[int], tables: Tables) -> tuple[int, ...]:
    return tables.delete(places)


def _erase(entry_ids: Sequence[int], tables: Tables) -> None:
    tables.noted(lambda ledger: ledger.erase(entry_ids))


_Outcome = tuple[asyncio.Future[Any], Any, BaseException | None]


def _resolve(outcomes: Sequence[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def _translated(error: BaseException) -> BaseException:
    """The one door through which sqlite3's errors, and entries it cannot write, leave as ours."""
    if isinstance(error, sqlite3.Error | OSError | ValueError | OverflowError):
        unavailable = StoreUnavailable(str(error))
        unavailable.__cause__ = error
        return unavailable
    return error
