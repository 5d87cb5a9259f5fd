"""The cache's front: the one place that calls the constructors of its parts, in order, and closes them in reverse."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cache.adapted import calibrated, own_reader, read_adapted, reader_name
from cache.assessor import Assessor
from cache.embedder import open_embedder
from cache.index.partitions import PartitionIndex
from cache.index.snapshot import open_index, save
from cache.policy import Rules
from cache.protocols import Clock, Embedder, EntryStore, Judge, Timed, untimed
from cache.reader import open_reader, reader_folder
from cache.receipts import Receipts
from cache.store.memory import MemoryStore
from cache.store.redis import RedisStore
from cache.store.sqlite import SqliteStore
from cache.tiered import TieredCache
from cache.tiers.recent import RecentTier
from cache.tiers.session import SessionTier
from cache.tiers.similar import SimilarTier
from cache.worth import Capacity

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """What the cache needs to know; times in seconds.

    state_dir: where store and index live; None keeps everything in memory.  redis_url: shared store instead.
    fingerprint: of the secret that keys the digests; a store made under another one is refused.
    max_false_hit_rate: the budget, a share in [0, 1] of what is served by meaning; budgets: a tenant's own.
    reader: `default` (shipped), `none`, or a folder that holds model.onnx.  adapted_dir: where `rejoinder train` leaves
    what it learned; None = the place beside the store.  receipts: most turns whose entries are remembered in memory."""

    rules: Rules
    fingerprint: str
    state_dir: Path | None = None
    redis_url: str | None = None
    redis_prefix: str = "rejoinder"
    capacity: int = 100_000
    capacity_bytes: int | None = None
    embedder: str = "default"
    embed_deadline_s: float = 0.05
    similarity_threshold: float | None = None
    max_false_hit_rate: float = 0.01
    budgets: Mapping[str, float] = field(default_factory=dict)
    reader: str = "default"
    reader_deadline_s: float = 0.08
    adapted_dir: Path | None = None
    store_deadline_s: float = 0.05
    session_idle_s: float = 3600.0
    sessions: int = 10_000
    sweep_s: float = 60.0
    receipts: int = 100_000


@contextlib.asynccontextmanager
async def open_cache(
    settings: CacheSettings, *, clock: Clock = time.time, store: EntryStore | None = None,
    embedder: Embedder | None = None, judge: Judge | None = None, timed: Timed = untimed,
) -> AsyncIterator[TieredCache]:  # fmt: skip
    """Open store, embedder and index, and the cache over them.

    store, embedder: used instead of what the settings say (tests).  judge: for the grey band, None = there is none.
    timed: is told what each stage of a lookup by meaning took.
    Raises StateError with what to do about it."""
    async with contextlib.AsyncExitStack() as stack:
        kept = await stack.enter_async_context(store or _store(settings, clock))
        model = embedder or open_embedder(settings.embedder, deadline_s=settings.embed_deadline_s)
        similar = None
        if model is not None:
            model = await stack.enter_async_context(model)
            similar = await stack.enter_async_context(_similar(settings, kept, model, timed))
        session = SessionTier(clock, sessions=settings.sessions, idle_s=settings.session_idle_s)
        recent = RecentTier(kept, clock, window_s=settings.rules.recent_window_s, deadline_s=settings.store_deadline_s)
        assessor = await _assessor(settings, clock, model, judge, timed, stack)
        most = settings.receipts if settings.rules.lineage else 0
        receipts = Receipts(kept, clock, most=most, deadline_s=settings.store_deadline_s)
        cache = TieredCache(
            kept, session, recent, similar, clock, sweep_s=settings.sweep_s, assessor=assessor, receipts=receipts
        )
        yield await stack.enter_async_context(cache)


async def _assessor(
    settings: CacheSettings, clock: Clock, embedder: Embedder | None, judge: Judge | None, timed: Timed,
    stack: contextlib.AsyncExitStack,
) -> Assessor:  # fmt: skip
    """With the reader, where one was calibrated together with this embedder; nothing calibrated for one embedder is
    used with another, and a reader without a calibration says nothing."""

    def budget_of(tenant: str) -> float:
        return settings.budgets.get(tenant, settings.max_false_hit_rate)

    adapted = settings.adapted_dir or (settings.state_dir / "adapted" if settings.state_dir is not None else None)
    folders = [folder for folder in (adapted, reader_folder(settings.reader)) if folder is not None]
    for folder in folders if settings.reader != "none" else []:
        if embedder is None or calibrated(folder, embedder.name) is None:
            continue
        own = folder == adapted and own_reader(folder, _name_of(reader_folder(settings.reader)))
        reader = open_reader(str(folder) if own else settings.reader, deadline_s=settings.reader_deadline_s)
        if reader is None:
            break
        reader = await stack.enter_async_context(reader)
        found = read_adapted(folder, embedder.name, reader.name)
        if found is not None:
            return Assessor(clock, reader=reader, adapted=found, judge=judge, budget_of=budget_of, timed=timed)
    if embedder is not None and settings.reader != "none":
        log.info(
            "no reader was calibrated for the embedder %s: its cautious threshold and all guards decide", embedder.name
        )
    return Assessor(clock, judge=judge, budget_of=budget_of, timed=timed)


def _name_of(folder: Path | None) -> str | None:
    """Of the reader that ships, or that the operator named; None = there is none."""
    try:
        return None if folder is None else reader_name(folder / "model.onnx")
    except OSError:
        return None


def _store(settings: CacheSettings, clock: Clock) -> EntryStore:
    capacity = Capacity(settings.capacity, settings.capacity_bytes)
    if settings.redis_url is not None:
        return RedisStore(
            settings.redis_url, capacity=capacity, clock=clock, prefix=settings.redis_prefix,
            fingerprint=settings.fingerprint,
        )  # fmt: skip
    if settings.state_dir is None:
        return MemoryStore(capacity, clock)
    return SqliteStore(
        settings.state_dir / "entries.sqlite", capacity=capacity, clock=clock, fingerprint=settings.fingerprint
    )


def _similar(settings: CacheSettings, store: EntryStore, embedder: Embedder, timed: Timed) -> SimilarTier:
    # A shared store has no snapshot: each replica's index would be another file, and Redis is the truth for all.
    path = settings.state_dir / "index.snapshot" if settings.state_dir and not settings.redis_url else None

    async def opened() -> PartitionIndex:
        return await open_index(store, embedder.name, embedder.dim, path)

    def saved(index: object, position: int, call: Callable[[Callable[[], Any]], Any]) -> None:
        if isinstance(index, PartitionIndex) and path is not None:
            save(index, path, position=position, embedder=embedder.name, call=call)

    return SimilarTier(
        store, embedder, open_index=opened, empty_index=lambda: PartitionIndex(embedder.dim),
        save_index=saved if path is not None else None, threshold=settings.similarity_threshold,
        timed=timed,
    )  # fmt: skip
