"""kill -9 at any moment loses nothing that was acknowledged, and pairs no vector with another's answer.

REJOINDER_KILLS says how often; `make proof` kills a hundred times."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from entries import DIM, EMBEDDER, vector_of

from cache.index.snapshot import open_index
from cache.store.sqlite import SqliteStore
from cache.worth import Capacity

ROOT = Path(__file__).parents[3]
SUPPORT = ROOT / "tests" / "support"
ROOMY = 1_000_000  # nothing is evicted, so everything acknowledged must be there
FULL = 500


def write_until_killed(directory: Path, seed: int, capacity: int) -> tuple[set[int], set[int]]:
    """The ids that were acknowledged, and those of them or of older ones that may have ended."""
    chance = random.Random(seed)
    child = subprocess.Popen(
        [sys.executable, str(SUPPORT / "writer.py"), str(directory), str(seed), str(capacity)],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{SUPPORT}"},
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    with child.stdout as out:
        try:
            # One time in five it dies at some moment of its start, else under load.
            if chance.random() < 0.2:
                time.sleep(chance.uniform(0.2, 1.0))  # not to wait for anything: the moment is the test
                lines: list[bytes] = []
            else:
                assert out.readline() == b"ready\n"
                lines = [out.readline() for _ in range(chance.randrange(1, 2500))]
        finally:
            child.send_signal(signal.SIGKILL)
        lines += out.readlines()
        child.wait(10)
    words = [line.split() for line in lines if line.endswith(b"\n") and line != b"ready\n"]
    kept = {int(each) for sign, *ids in words if sign == b"+" for each in ids}
    ended = {int(each) for sign, *ids in words if sign == b"?" for each in ids}
    return kept, ended


async def check(directory: Path, capacity: int, expected: set[int]) -> set[int]:
    """Opens what the killed process left. Returns all ids that are there now."""
    async with SqliteStore(directory / "entries.db", Capacity(capacity), time.time, fingerprint="f") as store:
        index = await open_index(store, EMBEDDER, DIM, directory / "index", large=256)
        held = await store.ids(EMBEDDER)
        assert index.ids() == held
        assert await store.count() == len(held) <= capacity
        assert not expected - held, f"{len(expected - held)} acknowledged entries are lost"
        entries = {each.id: each for each in await store.get(sorted(held))}
        assert entries.keys() == held
        for entry_id, each in entries.items():
            assert each.text == str(entry_id)
            assert each.answer.body.startswith(str(entry_id).encode())
        async for rows in store.rows(EMBEDDER):
            for row in rows:
                assert float(row.vector @ vector_of(str(row.entry_id))) > 0.999
                assert row.scope == entries[row.entry_id].scope
        for scopes, ids, vectors in index.export(1000):
            for scope, entry_id, vector in zip(scopes, ids, vectors, strict=True):
                assert float(vector.astype("f4") @ vector_of(str(entry_id))) > 0.999
                assert scope == entries[entry_id].scope
        return held


async def kill_again_and_again(directory: Path, times: int, capacity: int) -> None:
    held: set[int] = set()
    acknowledged_in_all = 0
    for seed in range(times):
        kept, ended = await asyncio.to_thread(write_until_killed, directory, seed, capacity)
        acknowledged_in_all += len(kept)
        expected = (kept | held) - ended if capacity == ROOMY else set[int]()
        held = await check(directory, capacity, expected)
    assert acknowledged_in_all > 50 * times


async def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    await kill_again_and_again(tmp_path, int(os.environ.get("REJOINDER_KILLS", "5")), ROOMY)


async def test_kill_9_in_a_full_store_leaves_store_and_index_in_agreement(tmp_path: Path) -> None:
    await kill_again_and_again(tmp_path, int(os.environ.get("REJOINDER_KILLS", "5")) // 2, FULL)


@pytest.mark.proof
@pytest.mark.timeout(1800)
async def test_kill_9_a_hundred_times(tmp_path: Path) -> None:
    await kill_again_and_again(tmp_path, max(100, int(os.environ.get("REJOINDER_KILLS", "100"))), ROOMY)
