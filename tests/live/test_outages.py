"""Redis stopped, frozen or swallowed by the network while users ask: no client error, no slow client, and it returns.

H2 — "Redis gone → 500, hang, or +1 s on every request."
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from redis_server import RedisServer
from tcp_tap import TcpTap

from proxy.app import Proxy, open_proxy
from proxy.demo import SimulatedWorker
from proxy.settings import load

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]
SECRET = "a secret that every replica shares"
RATE_S = 0.01  # one question every 10 ms, however long the answers take


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
async def worker() -> AsyncIterator[SimulatedWorker]:
    async with SimulatedWorker() as simulated:
        yield simulated


@contextlib.asynccontextmanager
async def proxy_on(worker: SimulatedWorker, redis_url: str | None, folder: Path) -> AsyncIterator[Proxy]:
    wishes = {"redis_url": redis_url, "secret": SECRET} if redis_url else {"state_dir": folder}
    settings, _ = load({"workers": (worker.url,), "port": 0, "drain_s": 1.0, "embedder": "hashing", **wishes})
    async with open_proxy(settings) as proxy:
        assert await proxy.health.wait_ready(10)
        yield proxy


class Load:
    """Asks at a steady rate, half of it new questions. Keeps every status and latency."""

    def __init__(self, url: str) -> None:
        self._url = url + "/v1/chat/completions"
        self._count = 0
        self.failures: list[str] = []

    async def run(self, seconds: float) -> list[float]:
        """Latencies in ms of `seconds` worth of questions."""
        latencies: list[float] = []
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def ask(number: int) -> None:
                text = f"What about article {number if number % 2 else 7}?"
                began = time.perf_counter()
                body = {"model": "demo", "messages": [{"role": "user", "content": text}]}
                try:
                    async with session.post(self._url, json=body) as reply:
                        answer = await reply.text()
                        if reply.status != 200:
                            self.failures.append(f"{reply.status} {answer}")
                except aiohttp.ClientError as error:
                    self.failures.append(repr(error))
                latencies.append((time.perf_counter() - began) * 1000)

            asked = []
            ends = time.perf_counter() + seconds
            while time.perf_counter() < ends:
                self._count += 1
                asked.append(asyncio.ensure_future(ask(self._count)))
                await asyncio.sleep(RATE_S)
            await asyncio.gather(*asked)
        return latencies


def p99(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98]


async def acknowledged(session: aiohttp.ClientSession, url: str) -> float:
    async with session.get(url + "/metrics") as reply:
        for line in (await reply.text()).splitlines():
            if line.startswith('rejoinder_stored_total{outcome="acknowledged"}'):
                return float(line.rsplit(" ", 1)[1])
    return 0.0


@pytest.mark.parametrize("outage", ["stopped", "frozen", "black hole"])
async def test_users_do_not_notice_that_redis_is_gone(
    outage: str, redis: RedisServer, worker: SimulatedWorker, tmp_path: Path
) -> None:
    async with (
        TcpTap("127.0.0.1", redis.port) as tap,
        proxy_on(worker, None, tmp_path) as alone,
        proxy_on(worker, f"redis://127.0.0.1:{tap.port}/0", tmp_path) as proxy,
        aiohttp.ClientSession() as session,
    ):
        with_redis, without = Load(proxy.url), Load(alone.url)
        await asyncio.gather(with_redis.run(1.0), without.run(1.0))
        assert await acknowledged(session, proxy.url) > 0

        running = asyncio.ensure_future(with_redis.run(2.0))  # it goes away under load
        await asyncio.sleep(0)
        if outage == "stopped":
            await asyncio.to_thread(redis.kill)
        elif outage == "frozen":
            redis.pause()
        else:
            tap.hole()
        await running

        paired = [await asyncio.gather(with_redis.run(1.5), without.run(1.5)) for _ in range(2)]  # the breaker is open
        down = p99([ms for ours, _ in paired for ms in ours])
        usual = p99([ms for _, theirs in paired for ms in theirs])
        assert with_redis.failures == []
        assert down - usual < 20, (
            f"p99 {down:.1f} ms without Redis, {usual:.1f} ms in the paired run that never had one"
        )

        before = await acknowledged(session, proxy.url)
        if outage == "stopped":
            await asyncio.to_thread(redis.start)
        elif outage == "frozen":
            redis.resume()
        else:
            tap.flow()
        async with asyncio.timeout(30):
            while await acknowledged(session, proxy.url) <= before:
                await with_redis.run(0.2)
        assert with_redis.failures == []


async def test_it_starts_and_serves_while_redis_is_away(worker: SimulatedWorker, tmp_path: Path) -> None:
    async with proxy_on(worker, "redis://127.0.0.1:1/0", tmp_path) as proxy:
        load_ = Load(proxy.url)
        assert len(await load_.run(0.5)) > 10
        assert load_.failures == []
