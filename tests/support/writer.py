"""A process that writes to a store and its index as fast as it can, until it is killed. Started by test_kill9.

    python writer.py DIRECTORY SEED CAPACITY
It prints, one line each and only when it is true:  + ID  an entry was acknowledged;  ? ID  it may end from now on.
The text of an entry is its id, so whoever reads the store can tell whose vector and whose answer stand there."""

import asyncio
import os
import random
import sys
import time
from pathlib import Path

from entries import DIM, EMBEDDER, entry, vector_of

from cache.index.snapshot import open_index, save
from cache.protocols import Selection
from cache.question import Scope
from cache.store.sqlite import SqliteStore
from cache.worth import Capacity

KEYS = 1000


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def main(directory: Path, seed: int, capacity: int) -> None:
    chance = random.Random(seed)
    async with SqliteStore(directory / "entries.db", Capacity(capacity), time.time, fingerprint="f") as store:
        index = await open_index(store, EMBEDDER, DIM, directory / "index", large=256)
        held = index.ids()
        keys = {(each.scope, each.key): each.id for each in await store.get(sorted(held))}
        busy: set[tuple[Scope, str]] = set()  # two puts of one key at once: nobody could say which was replaced
        say("ready")

        async def write() -> None:
            while True:
                entry_id = chance.getrandbits(63)
                scope = Scope("t", "m", f"{chance.randrange(5)}")
                key = f"{chance.randrange(KEYS)}"
                if (scope, key) in busy:
                    continue
                busy.add((scope, key))
                if (scope, key) in keys:
                    say(f"? {keys[scope, key]}")
                new = entry(
                    str(entry_id), id=entry_id, scope=scope, key=key, wording=None, created_s=time.time(), ttl_s=3600,
                    body=str(entry_id).encode() * chance.randrange(1, 200),
                )  # fmt: skip
                gone = await store.put(new)
                say(f"+ {entry_id}")
                for each in gone:
                    say(f"? {each}")
                keys[scope, key] = entry_id
                busy.discard((scope, key))
                index.remove(gone)
                index.add(scope, entry_id, vector_of(str(entry_id)))
                held.add(entry_id)
                held.difference_update(gone)
                if chance.random() < 0.05 and held:
                    victims = chance.sample(sorted(held), min(3, len(held)))
                    say(" ".join(["?", *map(str, victims)]))
                    index.remove(await store.forget(Selection(ids=tuple(victims))))
                    held.difference_update(victims)

        async def snapshots() -> None:
            while True:
                position = await store.position()
                save(index, directory / "index", position, EMBEDDER)
                await asyncio.sleep(0.02)

        await asyncio.gather(snapshots(), *(write() for _ in range(16)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
