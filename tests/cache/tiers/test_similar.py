"""The similar tier: an index that is only a hint, beside a store that may be away, on a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from cache.embedder.hashing import HashingEmbedder
from cache.entry import Answer, Entry
from cache.errors import StoreUnavailable, TextTooLong
from cache.index.partitions import PartitionIndex
from cache.protocols import Row, VectorIndex
from cache.question import Kind, Question, Reach, Scope
from cache.store.memory import MemoryStore
from cache.tiers.similar import Caller, SimilarTier
from cache.worth import Capacity

SCOPE = Scope("shop", "m", "s")
EMBEDDER = HashingEmbedder()


def clock() -> float:
    return 1000.0


class Store(MemoryStore):
    """A MemoryStore that can be taken away, and that can be made to wait."""

    def __init__(self) -> None:
        super().__init__(Capacity(100), clock)
        self.away = False
        self.hangs = False

    async def get(self, entry_ids: Sequence[int]) -> list[Entry]:
        if self.hangs:
            await asyncio.Event().wait()
        if self.away:
            raise StoreUnavailable("gone")
        return await super().get(entry_ids)

    async def position(self) -> int:
        if self.away:
            raise StoreUnavailable("gone")
        return await super().position()


class Opening:
    """Builds the index from the store; can be held in the middle, and can fail."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.count = 0

    async def __call__(self) -> VectorIndex:
        self.count += 1
        if self.store.away:
            raise StoreUnavailable("gone")
        index = PartitionIndex(EMBEDDER.dim)
        async for batch in self.store.rows(EMBEDDER.name):
            for row in batch:
                index.add(row.scope, row.entry_id, row.vector)
        self.reached.set()
        await self.go_on.wait()
        return index


def tier_of(store: Store, opening: Opening | None = None, **settings: object) -> SimilarTier:
    return SimilarTier(
        store, EMBEDDER, open_index=opening or Opening(store), empty_index=lambda: PartitionIndex(EMBEDDER.dim),
        **{"deadline_s": 5.0, **settings},  # type: ignore[arg-type]
    )  # fmt: skip


async def entry(id: int, text: str, scope: Scope = SCOPE) -> Entry:
    return Entry(
        id=id, kind=Kind.CHAT, scope=scope, text=text, key=f"k{id}", proof="p", wording=None, reach=Reach.SIMILAR,
        answer=Answer(b"{}", 1), created_s=1000.0, expires_s=2000.0, embedder=EMBEDDER.name,
        vector=await EMBEDDER.embed(text),
    )  # fmt: skip


def row(of: Entry) -> Row:
    assert of.vector is not None
    return Row(of.id, of.scope, of.vector)


def question(text: str = "How do I pay?", scope: Scope = SCOPE) -> Question:
    return Question(
        kind=Kind.CHAT,
        scope=scope,
        text=text,
        key="k",
        proof="p",
        wording=None,
        traits=frozenset(),
        limit=None,
        session=None,
    )


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = Store()
    for number, text in enumerate(["How do I pay?", "How can I pay?", "Where is the sea?"], start=1):
        await store.put(await entry(number, text))
    yield store


async def near(tier: SimilarTier, asked: Question) -> list[int]:
    return [found.id for found, _ in await tier.find(asked, await tier.embed(asked.text or ""))]


async def test_entering_reads_what_the_store_holds(store: Store) -> None:
    async with tier_of(store) as tier:
        assert await tier.ids() == {1, 2, 3}
        found = await tier.find(question(), await tier.embed("How do I pay?"))
        assert [each.id for each, _ in found] == [1, 2, 3]
        cosines = [cosine for _, cosine in found]
        assert cosines == sorted(cosines, reverse=True)
        assert cosines[0] == pytest.approx(1.0, abs=1e-3)
        assert all(-1 <= cosine <= 1 for cosine in cosines)


async def test_a_scope_is_a_wall(store: Store) -> None:
    async with tier_of(store) as tier:
        other = Scope("bank", "m", "s")
        assert await near(tier, question(scope=other)) == []
        assert await tier.holds(SCOPE)
        assert not await tier.holds(other)


async def test_only_so_many_neighbours_are_read(store: Store) -> None:
    async with tier_of(store, k=2) as tier:
        assert await near(tier, question()) == [1, 2]


async def test_what_the_store_no_longer_holds_is_not_found(store: Store) -> None:
    async with tier_of(store) as tier:
        store._drop([1])
        assert await near(tier, question()) == [2, 3]


async def test_rows_come_and_go(store: Store) -> None:
    async with tier_of(store) as tier:
        new = await entry(4, "How do we pay?")
        await store.put(new)
        await tier.add([row(new)])
        assert 4 in await near(tier, question())
        assert await tier.forget([4, 99]) == 1
        assert await tier.forget([]) == 0
        assert 4 not in await near(tier, question())


async def test_a_store_that_is_away_is_unavailable_not_empty(store: Store) -> None:
    async with tier_of(store) as tier:
        store.away = True
        with pytest.raises(StoreUnavailable, match="gone"):
            await near(tier, question())


async def test_a_store_that_is_slow_is_unavailable(store: Store) -> None:
    async with tier_of(store, deadline_s=0.02) as tier:
        store.hangs = True
        with pytest.raises(StoreUnavailable, match="no neighbours within 20 ms"):
            await near(tier, question())


async def test_it_starts_empty_where_the_store_is_away_and_reads_it_later(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.away = True
    async with tier_of(store) as tier:
        assert await tier.ids() == set()
        assert "starting with an empty index" in caplog.text
        assert not await tier.reload()
        store.away = False
        assert await tier.reload()
        assert await tier.ids() == {1, 2, 3}
        store.away = True
        assert not await tier.reload()
        assert await tier.ids() == {1, 2, 3}, "a reload that fails leaves what was there"


async def test_what_happens_while_the_store_is_read_again_is_not_lost(store: Store) -> None:
    opening = Opening(store)
    async with tier_of(store, opening) as tier:
        opening.reached.clear()
        opening.go_on.clear()
        reloading = asyncio.get_running_loop().create_task(tier.reload())
        await opening.reached.wait()
        await tier.add([row(await entry(4, "How do we pay?")), row(await entry(5, "x"))])
        await tier.forget([1, 5])
        opening.go_on.set()
        assert await reloading
        assert await tier.ids() == {2, 3, 4}


async def test_a_reload_that_breaks_leaves_no_log_that_grows(store: Store) -> None:
    opening = Opening(store)
    async with tier_of(store, opening) as tier:
        opening.reached.clear()
        opening.go_on.clear()
        reloading = asyncio.get_running_loop().create_task(tier.reload())
        await opening.reached.wait()
        reloading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reloading
        await tier.add([row(await entry(4, "x"))])
        assert tier._meanwhile is None
        assert await tier.ids() == {1, 2, 3, 4}


async def test_a_snapshot_is_written_from_the_indexs_own_thread_when_it_closes(store: Store) -> None:
    saved: list[tuple[set[int], int, str]] = []

    def save(index: VectorIndex, position: int, call: Caller) -> None:
        saved.append((call(index.ids), position, call(lambda: threading.current_thread().name)))

    async with tier_of(store, save_index=save):
        assert saved == []
    assert [(ids, position) for ids, position, _ in saved] == [({1, 2, 3}, 3)]
    assert saved[0][2].startswith("rejoinder-index")


@pytest.mark.parametrize("away", [True, False])
async def test_a_snapshot_that_cannot_be_written_costs_a_line_in_the_log(
    store: Store, caplog: pytest.LogCaptureFixture, away: bool
) -> None:
    def save(index: VectorIndex, position: int, call: Caller) -> None:
        raise OSError("disk full")

    async with tier_of(store, save_index=save):
        store.away = away
    assert "no snapshot of the index was written" in caplog.text


async def test_its_threshold_is_never_below_the_embedders_own(store: Store) -> None:
    assert tier_of(store).threshold == EMBEDDER.threshold
    assert tier_of(store, threshold=0.1).threshold == EMBEDDER.threshold
    assert tier_of(store, threshold=0.99).threshold == 0.99


async def test_what_the_embedder_cannot_read_is_not_cut_short(store: Store) -> None:
    async with tier_of(store) as tier:
        with pytest.raises(TextTooLong):
            await tier.embed("x" * 10_000)


async def test_it_must_be_entered(store: Store) -> None:
    with pytest.raises(RuntimeError, match="not open"):
        await tier_of(store).ids()
