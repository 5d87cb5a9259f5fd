"""The vector index against brute force, the complaints about other indexes, and the snapshot."""

import asyncio
import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest
from entries import DIM, EMBEDDER, SCOPE, entry, vector_of

from cache.errors import StoreUnavailable
from cache.index.partitions import PartitionIndex
from cache.index.snapshot import load, open_index, save
from cache.protocols import Selection
from cache.question import Scope
from cache.store.memory import MemoryStore
from cache.worth import Capacity

SCOPES = [Scope(f"t{n % 2}", f"m{n % 3}", f"{n:032x}") for n in range(12)]


def near(vector: np.ndarray, noise: float, seed: int = 0) -> np.ndarray:
    """A unit vector not far from this one."""
    moved = vector + noise * np.random.default_rng(seed).standard_normal(len(vector)).astype(np.float32)
    return moved / np.float32(np.linalg.norm(moved))


def vectors(count: int, dim: int, clusters: int = 200, spread: float = 0.8, seed: int = 0) -> np.ndarray:
    """Unit vectors in clusters, as questions are."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, dim)).astype(np.float32)
    found = centres[rng.integers(0, clusters, count)] + spread * rng.standard_normal((count, dim)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture(params=[pytest.param(2048, id="exact"), pytest.param(16, id="faiss")])
def index(request: pytest.FixtureRequest) -> PartitionIndex:
    return PartitionIndex(DIM, large=request.param)


def test_every_vector_finds_its_own_entry(index: PartitionIndex) -> None:
    for n in range(600):
        index.add(SCOPES[n % 12], n, vector_of(f"q{n}"))
    assert len(index) == 600
    assert index.ids() == set(range(600))
    for n in range(600):
        (best, cosine), *_ = index.search(SCOPES[n % 12], vector_of(f"q{n}"), 3)
        assert best == n
        assert cosine == pytest.approx(1.0, abs=1e-3)


def test_results_are_real_cosines_best_first(index: PartitionIndex) -> None:
    for n in range(100):
        index.add(SCOPE, n, vector_of(f"q{n}"))
    asked = near(vector_of("q7"), 0.1)
    found = index.search(SCOPE, asked, 5)
    assert found[0][0] == 7
    assert [cosine for _, cosine in found] == sorted((cosine for _, cosine in found), reverse=True)
    for entry_id, cosine in found:
        assert cosine == pytest.approx(float(vector_of(f"q{entry_id}") @ asked), abs=1e-3)
        assert -1.0 <= cosine <= 1.0


def test_scopes_never_see_each_other(index: PartitionIndex) -> None:
    for n, scope in enumerate(SCOPES):
        for k in range(30):
            index.add(scope, n * 100 + k, vector_of("the same everywhere" if k == 0 else f"{k}"))
    for n, scope in enumerate(SCOPES):
        found = index.search(scope, vector_of("the same everywhere"), 100)
        assert {entry_id // 100 for entry_id, _ in found} == {n}
    assert all(index.holds(scope) for scope in SCOPES)
    assert not index.holds(Scope("t0", "m0", "elsewhere")) and not index.holds(Scope("nobody", "m0", SCOPES[0].key))
    assert index.search(Scope("t0", "m0", "elsewhere"), vector_of("q"), 5) == []
    assert index.search(Scope("nobody", "m0", SCOPES[0].key), vector_of("q"), 5) == []


def test_vectors_come_back_as_they_were_added(index: PartitionIndex) -> None:
    """In any order, of any scope; unknown ones are left out."""
    for n in range(40):
        index.add(SCOPES[n % 12], n, vector_of(f"q{n}"))
    found = index.vectors([39, 4711, 0, 7, 7])
    assert set(found) == {39, 0, 7}
    for n, vector in found.items():
        assert vector.dtype == np.float32 and vector.shape == (DIM,)
        assert vector == pytest.approx(vector_of(f"q{n}"), abs=1e-3)
        assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-3)
    assert index.vectors([]) == {}


def test_a_vector_is_the_latest_and_gone_when_its_entry_is(index: PartitionIndex) -> None:
    for n in range(40):
        index.add(SCOPE, n, vector_of(f"q{n}"))
    held = index.vectors([3])[3]
    index.add(SCOPES[1], 3, vector_of("new"))
    index.remove([4])
    assert index.vectors([3])[3] == pytest.approx(vector_of("new"), abs=1e-3)
    assert index.vectors([4]) == {}
    assert held == pytest.approx(vector_of("q3"), abs=1e-3), "what was handed out does not change"


def test_vectors_stay_with_their_entries_when_the_matrix_is_made_smaller() -> None:
    index = PartitionIndex(DIM)
    for n in range(3000):
        index.add(SCOPE, n, vector_of(f"q{n}"))
    index.remove(range(2500))
    for n, vector in index.vectors(range(2990, 3000)).items():
        assert vector == pytest.approx(vector_of(f"q{n}"), abs=1e-3)


def test_at_most_k_are_found(index: PartitionIndex) -> None:
    for n in range(40):
        index.add(SCOPE, n, vector_of(f"q{n}"))
    for k in (1, 2, 39, 40):
        assert len(index.search(SCOPE, vector_of("q0"), k)) == k
    assert len(index.search(SCOPE, vector_of("q0"), 1000)) == 40
    assert index.search(SCOPE, vector_of("q0"), 0) == []


def test_an_id_added_again_is_replaced_also_in_another_scope(index: PartitionIndex) -> None:
    for n in range(40):
        index.add(SCOPE, n, vector_of(f"q{n}"))
    index.add(SCOPE, 7, vector_of("new"))
    assert index.search(SCOPE, vector_of("new"), 1)[0][0] == 7
    assert index.search(SCOPE, vector_of("q7"), 1)[0][1] < 0.99
    index.add(SCOPES[3], 7, vector_of("newer"))
    assert 7 not in {each for each, _ in index.search(SCOPE, vector_of("new"), 100)}
    assert index.search(SCOPES[3], vector_of("newer"), 5)[0][0] == 7
    assert len(index) == 40


@pytest.mark.parametrize("wrong", [np.zeros(DIM + 1, np.float32), np.full(DIM, np.nan, np.float32)])
def test_a_vector_that_cannot_be_compared_is_refused(index: PartitionIndex, wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="vector"):
        index.add(SCOPE, 1, wrong)
    with pytest.raises(ValueError, match="entry id"):
        index.add(SCOPE, -1, vector_of("q"))
    assert len(index) == 0


def test_a_deleted_entry_is_never_found_and_the_others_keep_their_own(index: PartitionIndex) -> None:
    """G4: a delete kept the vector searchable, or shifted positions so that another payload was returned."""
    for n in range(100):
        index.add(SCOPE, n, vector_of(f"q{n}"))
    gone = set(np.random.default_rng(0).choice(100, 50, replace=False).tolist())
    assert index.remove([*gone, 12345]) == 50
    assert index.remove(list(gone)) == 0
    assert index.ids() == set(range(100)) - gone
    for n in range(100):
        found = index.search(SCOPE, vector_of(f"q{n}"), 100)
        assert not gone & {entry_id for entry_id, _ in found}
        if n not in gone:
            assert found[0] == (n, pytest.approx(1.0, abs=1e-3))


def test_after_a_flush_nothing_is_left(index: PartitionIndex) -> None:
    """G6: clear left the index full."""
    for n in range(500):
        index.add(SCOPES[n % 12], n, vector_of(f"q{n}"))
    assert index.remove(list(range(500))) == 500
    assert len(index) == 0
    assert index.ids() == set()
    assert index.nbytes == 0
    assert all(index.search(scope, vector_of("q1"), 5) == [] for scope in SCOPES)
    assert not any(index.holds(scope) for scope in SCOPES)
    index.add(SCOPE, 1, vector_of("q"))
    assert index.search(SCOPE, vector_of("q"), 5)[0][0] == 1


def test_memory_falls_when_most_entries_have_expired(index: PartitionIndex) -> None:
    """G3: expired vectors occupied memory until the capacity was reached."""
    stored = np.stack([vector_of(f"q{n % 50}") for n in range(10_000)])
    index.extend([SCOPES[n % 12] for n in range(10_000)], range(10_000), stored)
    full = index.nbytes
    index.remove(list(range(500, 10_000)))
    assert index.nbytes < full / 8
    assert index.ids() == set(range(500))
    for n in range(500):
        found = index.search(SCOPES[n % 12], vector_of(f"q{n % 50}"), 5)
        assert found[0][1] == pytest.approx(1.0, abs=1e-3)


def test_freed_rows_are_used_again() -> None:
    index = PartitionIndex(DIM)
    for n in range(1000):
        index.add(SCOPE, n, vector_of(f"q{n}"))
    full = index.nbytes
    for n in range(1000, 5000):
        index.remove([n - 1000])
        index.add(SCOPE, n, vector_of(f"q{n}"))
    assert index.nbytes == full
    assert index.search(SCOPE, vector_of("q4500"), 1)[0][0] == 4500


def test_a_thousand_deletes_of_a_hundred_thousand_are_cheap_and_exact() -> None:
    """G5: each delete rebuilt the index."""
    dim, count = 64, 100_000
    index = PartitionIndex(dim)
    stored = vectors(count, dim)
    index.extend([SCOPE] * count, range(count), stored)
    gone = np.random.default_rng(1).choice(count, 1000, replace=False).tolist()
    started = time.process_time()
    for each in gone:
        index.remove([each])
    assert time.process_time() - started < 1.0
    assert len(index) == count - 1000
    for each in gone[:200]:
        assert each not in {found for found, _ in index.search(SCOPE, stored[each], 10)}


def test_a_large_scope_finds_the_nearest_of_almost_every_rewording() -> None:
    dim, count = 64, 20_000
    index = PartitionIndex(dim)
    stored = vectors(count, dim)
    for start in range(0, count, 500):  # it grows, and is trained again on its way
        index.extend([SCOPE] * 500, range(start, start + 500), stored[start : start + 500])
    right = 0
    asked = np.random.default_rng(2).choice(count, 400, replace=False)
    for n in asked:
        question = near(stored[n], 0.05, int(n))
        nearest = int(np.argmax(stored @ question))
        found = index.search(SCOPE, question, 5)
        right += found[0][0] == nearest
        assert found[0][1] == pytest.approx(float(stored[found[0][0]] @ question), abs=1e-3)
    assert right / len(asked) >= 0.95


@pytest.mark.parametrize("large", [1, 2, 5, 13])
def test_a_scope_may_count_as_large_from_its_first_entry_on(large: int) -> None:
    index = PartitionIndex(DIM, large=large)
    for n in range(60):
        index.add(SCOPE, n, vector_of(f"q{n}"))
        assert index.search(SCOPE, vector_of(f"q{n}"), 1)[0][0] == n
    for n in range(60):
        index.remove([n])
        assert n not in {each for each, _ in index.search(SCOPE, vector_of(f"q{n}"), 60)}
    assert len(index) == 0


def test_a_scope_that_shrank_is_exact_again() -> None:
    index = PartitionIndex(DIM, large=64)
    for n in range(200):
        index.add(SCOPE, n, vector_of(f"q{n}"))
    index.remove(list(range(20, 200)))
    asked = vector_of("stranger")
    expected = sorted(range(20), key=lambda n: -float(vector_of(f"q{n}") @ asked))
    assert [entry_id for entry_id, _ in index.search(SCOPE, asked, 20)] == expected


def test_many_small_scopes_cost_little_more_than_their_vectors() -> None:
    index = PartitionIndex(384)
    stored = vectors(1000, 384).astype(np.float16)
    for start in range(0, 20_000, 1000):
        scopes = [Scope("t", "m", f"{n // 2:032x}") for n in range(start, start + 1000)]
        index.extend(scopes, range(start, start + 1000), stored)
    assert index.nbytes < 20_000 * 384 * 2 * 1.2
    assert "20000 vectors in 10000 scopes" in repr(index)


@pytest.mark.proof
def test_two_hundred_thousand_scopes_fit_in_a_gigabyte_and_open_in_ten_seconds(tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    index = PartitionIndex(384)
    stored = vectors(2000, 384).astype(np.float16)
    for start in range(0, 400_000, 2000):
        scopes = [Scope("tenant", "model", f"{n % 200_000:032x}") for n in range(start, start + 2000)]
        index.extend(scopes, range(start, start + 2000), stored)
    assert resident() - before < 1e9
    save(index, tmp_path / "snapshot", 1, EMBEDDER)
    del index
    started = time.process_time()
    loaded = load(tmp_path / "snapshot", EMBEDDER, 384)
    assert loaded is not None
    assert time.process_time() - started < 10
    assert len(loaded[0]) == 400_000


# -- the snapshot ------------------------------------------------------------------------------------------------------


def filled(count: int = 500, large: int = 2048) -> PartitionIndex:
    index = PartitionIndex(DIM, large=large)
    for n in range(count):
        index.add(SCOPES[n % 12], n, vector_of(f"q{n}"))
    return index


def test_a_snapshot_gives_back_the_same_index(tmp_path: Path) -> None:
    path = tmp_path / "state" / "index"
    index = filled(large=20)
    save(index, path, 77, EMBEDDER)
    loaded = load(path, EMBEDDER, DIM, large=20)
    assert loaded is not None
    again, position = loaded
    assert position == 77
    assert again.ids() == index.ids()
    for n in range(500):
        scope, asked = SCOPES[n % 12], vector_of(f"q{n}")
        assert again.search(scope, asked, 1) == index.search(scope, asked, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["index"]


def test_an_empty_index_has_a_snapshot_too(tmp_path: Path) -> None:
    save(PartitionIndex(DIM), tmp_path / "index", 0, EMBEDDER)
    loaded = load(tmp_path / "index", EMBEDDER, DIM)
    assert loaded is not None and len(loaded[0]) == 0


def test_a_snapshot_of_another_embedder_dimension_or_version_is_not_used(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "index"
    save(filled(), path, 1, EMBEDDER)
    assert load(path, "another@16", DIM) is None
    assert load(path, EMBEDDER, DIM * 2) is None
    assert load(tmp_path / "missing", EMBEDDER, DIM) is None
    monkeypatch.setattr("cache.index.snapshot.VERSION", 2)
    assert load(path, EMBEDDER, DIM) is None


@pytest.mark.parametrize("place", [0, 3, 60, 500, -20, -1])
def test_a_snapshot_with_one_wrong_byte_is_not_used(tmp_path: Path, place: int) -> None:
    path = tmp_path / "index"
    save(filled(), path, 1, EMBEDDER)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert load(path, EMBEDDER, DIM) is None


@pytest.mark.parametrize("length", [0, 1, 15, 16, 100, 2000])
def test_a_snapshot_cut_short_is_not_used(tmp_path: Path, length: int) -> None:
    path = tmp_path / "index"
    save(filled(), path, 1, EMBEDDER)
    os.truncate(path, length)
    assert load(path, EMBEDDER, DIM) is None


def test_a_failed_save_leaves_the_old_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "index"
    save(filled(10), path, 1, EMBEDDER)

    def broken(work):
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        save(filled(20), path, 2, EMBEDDER, broken)
    loaded = load(path, EMBEDDER, DIM)
    assert loaded is not None and len(loaded[0]) == 10
    assert len(list(tmp_path.iterdir())) == 1


def test_the_index_may_change_while_it_is_saved(tmp_path: Path, monkeypatch) -> None:
    """The pieces are then from different moments; each vector must stand with its own id all the same."""
    monkeypatch.setattr("cache.index.snapshot.PIECE", 50)
    index = filled(2000)
    texts = {n: f"q{n}" for n in range(2000)}
    step = 0

    def meanwhile(work):
        nonlocal step
        step += 1
        index.remove(list(range(step * 40, step * 40 + 35)))
        for n in range(10):
            entry_id = 10_000 + step * 10 + n
            texts[entry_id] = f"later {entry_id}"
            index.add(SCOPES[n], entry_id, vector_of(texts[entry_id]))
        return work()

    save(index, tmp_path / "index", 1, EMBEDDER, meanwhile)
    loaded = load(tmp_path / "index", EMBEDDER, DIM)
    assert loaded is not None
    for scopes, ids, rows in loaded[0].export(1000):
        for scope, entry_id, row in zip(scopes, ids, rows, strict=True):
            assert float(row.astype(np.float32) @ vector_of(texts[entry_id])) > 0.999
            assert scope == SCOPES[(entry_id if entry_id < 10_000 else entry_id % 10) % 12]


# -- opening -----------------------------------------------------------------------------------------------------------


async def store_with(count: int, clock=lambda: 1000.0) -> MemoryStore:
    store = MemoryStore(Capacity(100_000), clock)
    for n in range(count):
        await store.put(entry(f"q{n}", id=n, scope=SCOPES[n % 12]))
    return store


async def check(index: PartitionIndex, store: MemoryStore) -> None:
    assert index.ids() == await store.ids(EMBEDDER)
    async for rows in store.rows(EMBEDDER):
        for row in rows[::7]:
            assert index.search(row.scope, row.vector, 1)[0] == (row.entry_id, pytest.approx(1.0, abs=1e-3))


async def test_without_a_snapshot_everything_is_read_from_the_store(tmp_path: Path) -> None:
    """G7: warm-up filled the table only, and nothing was found by meaning."""
    store = await store_with(1500)
    await check(await open_index(store, EMBEDDER, DIM, None), store)
    await check(await open_index(store, EMBEDDER, DIM, tmp_path / "none"), store)


async def test_what_was_stored_replaced_and_deleted_since_the_snapshot_is_made_up_for(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("cache.index.snapshot.MARGIN", 5)
    path = tmp_path / "index"
    store = await store_with(1000)
    index = await open_index(store, EMBEDDER, DIM, None)
    await asyncio.to_thread(save, index, path, await store.position(), EMBEDDER)
    for n in range(1000, 1200):
        await store.put(entry(f"q{n}", id=n, scope=SCOPES[n % 12]))
    await store.forget(Selection(ids=tuple(range(100, 300))))
    await store.put(entry("q5", id=5000, scope=SCOPES[5]))  # takes the place of 5
    await store.put(entry("moved", id=6, scope=SCOPES[1]))  # another vector under the same id
    index = await open_index(store, EMBEDDER, DIM, path)
    await check(index, store)
    assert index.search(SCOPES[1], vector_of("moved"), 1)[0][0] == 6
    assert index.search(SCOPES[6], vector_of("q6"), 1)[0][0] != 6


async def test_a_put_that_was_not_yet_indexed_when_the_snapshot_was_taken_is_not_lost(tmp_path) -> None:
    path = tmp_path / "index"
    store = await store_with(100)
    index = await open_index(store, EMBEDDER, DIM, None)
    index.remove([99])  # stored, and its position counted, but the index had not come to it
    await asyncio.to_thread(save, index, path, await store.position(), EMBEDDER)
    await check(await open_index(store, EMBEDDER, DIM, path), store)


async def test_a_snapshot_from_the_future_is_made_up_for(tmp_path, monkeypatch, caplog) -> None:
    """A power cut may take the store's last commits, or a backup came back: the snapshot then knows more."""
    monkeypatch.setattr("cache.index.snapshot.MARGIN", 5)
    path = tmp_path / "index"
    store = await store_with(500)
    index = await open_index(store, EMBEDDER, DIM, None)
    await asyncio.to_thread(save, index, path, await store.position(), EMBEDDER)
    older = await store_with(200)
    for n in range(900, 950):
        await older.put(entry(f"q{n}", id=n, scope=SCOPES[n % 12]))
    await check(await open_index(older, EMBEDDER, DIM, path), older)
    assert "lacks 50 entries" in caplog.text


async def test_a_damaged_snapshot_costs_only_time(tmp_path, caplog) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"\x00" * 1000)
    store = await store_with(300)
    await check(await open_index(store, EMBEDDER, DIM, path), store)
    assert "damaged" in caplog.text


async def test_a_store_that_is_away_is_said_to_be_away() -> None:
    class Away(MemoryStore):
        async def ids(self, embedder: str) -> set[int]:
            raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        await open_index(Away(Capacity(10), lambda: 1000.0), EMBEDDER, DIM, None)


async def test_opening_leaves_the_event_loop_free(tmp_path) -> None:
    store = await store_with(3000)
    longest = 0.0
    done = asyncio.Event()

    async def tick() -> None:
        nonlocal longest
        while not done.is_set():
            started = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - started)

    ticking = asyncio.create_task(tick())
    await open_index(store, EMBEDDER, DIM, None)
    done.set()
    await ticking
    assert longest < 0.5
