"""Several replicas on one Redis: what one stores the others find by meaning within a second, and forget as fast."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from house import House, Told, open_house, until
from redis_server import RedisServer

from cache import Selection, StateError
from proxy.app import Proxy, open_proxy
from proxy.demo import SimulatedWorker
from proxy.settings import load

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
SECRET = "a secret that every replica shares"


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@contextlib.asynccontextmanager
async def replica(worker: SimulatedWorker, redis: RedisServer, secret: str = SECRET) -> AsyncIterator[Proxy]:
    settings, _ = load({"workers": (worker.url,), "port": 0, "drain_s": 1.0, "redis_url": redis.url, "secret": secret})
    async with open_proxy(settings) as proxy:
        assert await proxy.health.wait_ready(10)
        yield proxy


async def ask(session: aiohttp.ClientSession, url: str, text: str) -> str:
    body = {"model": "demo", "messages": [{"role": "user", "content": text}]}
    async with session.post(
        url + "/v1/chat/completions", json=body, headers={"Cache-Control": "max-age=9999"}
    ) as reply:
        assert reply.status == 200, await reply.text()
        return reply.headers["Cache-Status"]


async def test_an_answer_stored_by_one_is_found_by_meaning_in_another_within_a_second(redis: RedisServer) -> None:
    async with (
        SimulatedWorker() as worker, replica(worker, redis) as one, replica(worker, redis) as two,
        aiohttp.ClientSession() as session,
    ):  # fmt: skip
        assert "fwd=miss" in await ask(session, one.url, "How do I reset my password?")
        await one.gateway.settled()
        began = time.monotonic()
        only = {"Cache-Control": "only-if-cached"}
        body = {"model": "demo", "messages": [{"role": "user", "content": "How can I reset my password?"}]}
        while True:
            async with session.post(two.url + "/v1/chat/completions", json=body, headers=only) as reply:
                if reply.status == 200:
                    assert "similar meaning" in reply.headers["Cache-Status"]
                    break
            assert time.monotonic() - began < 1.0, "not found within a second"

        gone = await one.cache.forget(Selection())
        assert gone >= 1
        began = time.monotonic()
        while True:
            async with session.post(two.url + "/v1/chat/completions", json=body, headers=only) as reply:
                if reply.status == 504:
                    break
            assert time.monotonic() - began < 1.0, "still served a second after it was deleted"


async def test_a_replica_that_starts_later_knows_what_the_others_know(redis: RedisServer) -> None:
    async with SimulatedWorker() as worker, replica(worker, redis) as one, aiohttp.ClientSession() as session:
        await ask(session, one.url, "How do I reset my password?")
        await one.gateway.settled()
        async with replica(worker, redis) as late:
            assert "similar meaning" in await ask(session, late.url, "How can I reset my password?")


async def test_a_session_that_moves_to_another_replica_is_told_again_what_is_its_own(redis: RedisServer) -> None:
    """DESIGN, processes: the local copy first, then Redis; nobody else finds it there."""
    question = {"model": "demo", "messages": [{"role": "user", "content": "What is my account balance?"}]}

    async def status(session: aiohttp.ClientSession, url: str, who: str, **headers: str) -> str:
        told = {"X-Session-ID": who, **headers}
        async with session.post(url + "/v1/chat/completions", json=question, headers=told) as reply:
            await reply.read()
            return reply.headers["Cache-Status"]

    async with (
        SimulatedWorker() as worker, replica(worker, redis) as one, replica(worker, redis) as two,
        aiohttp.ClientSession() as session,
    ):  # fmt: skip
        await status(session, one.url, "ann")
        await one.gateway.settled()
        assert "session exact" in await status(session, two.url, "ann")
        assert "fwd=miss" in await status(session, two.url, "bob")
        assert await one.cache.forget(Selection()) == 2
        assert "fwd=miss" in await status(session, two.url, "cid")


async def test_a_replica_with_another_secret_refuses_to_start(redis: RedisServer) -> None:
    async with SimulatedWorker() as worker, replica(worker, redis):
        with pytest.raises(StateError, match="secret"):
            async with replica(worker, redis, "quite another secret"):
                pass


async def test_three_processes_share_one_port_and_one_memory(redis: RedisServer) -> None:
    async with SimulatedWorker() as worker:
        command = [
            sys.executable, "-m", "proxy", "serve", "--worker", worker.url, "--port", "0", "--processes", "3",
            "--redis-url", redis.url, "--set", "embedder=hashing", "--set", "drain_s=1",
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "REJOINDER_SECRET": SECRET},
        )  # fmt: skip
        try:
            assert process.stdout is not None and process.stderr is not None
            urls = set()
            async with asyncio.timeout(40):
                for _ in range(3):
                    found = re.search(r"http://[\d.:]+", (await process.stdout.readline()).decode())
                    assert found is not None
                    urls.add(found[0])
            assert len(urls) == 1, "one port"
            url = urls.pop()
            await _until_ready(url)
            seen = set()
            for _ in range(30):  # a fresh connection each time, so that the kernel spreads them
                async with aiohttp.ClientSession() as session:
                    seen.add("; hit;" in await ask(session, url, "How do I mend a flat tyre?"))
            assert len(worker.calls) <= 3, "at most once a process before it is in Redis"
            assert True in seen
            async with asyncio.timeout(10):  # each process tells its numbers once a second
                while await _lookups(url) < 30:
                    pass
            assert await _lookups(url) == 30, "metrics add up over processes"
        finally:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                _, errors = await process.communicate()
        assert process.returncode == 0
        assert b"Traceback" not in errors


async def test_a_process_that_is_killed_is_replaced_and_none_outlives_its_parent(redis: RedisServer) -> None:
    """Found in review: a child was started after the stop, and children went on serving without their parent."""
    async with SimulatedWorker() as worker:
        command = [
            sys.executable, "-m", "proxy", "serve", "--worker", worker.url, "--port", "0", "--processes", "2",
            "--redis-url", redis.url, "--set", "embedder=none", "--set", "drain_s=1",
        ]  # fmt: skip
        parent = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "REJOINDER_SECRET": SECRET},
        )  # fmt: skip
        try:
            assert parent.stdout is not None

            async def born() -> int:
                assert parent.stdout is not None
                found = re.search(r"process (\d+) listens", (await parent.stdout.readline()).decode())
                assert found is not None
                return int(found[1])

            async with asyncio.timeout(60):
                children = {await born(), await born()}
                victim = children.pop()
                os.kill(victim, signal.SIGKILL)
                children.add(await born())
                assert victim not in children
        finally:
            parent.kill()
            await parent.wait()
        async with asyncio.timeout(20):
            while any(_lives(child) for child in children):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(") ")[2][0] != "Z"


async def test_processes_that_cannot_start_end_with_one_line(redis: RedisServer) -> None:
    async with SimulatedWorker() as worker, replica(worker, redis):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "proxy", "serve", "--worker", worker.url, "--port", "0", "--processes", "2",
            "--redis-url", redis.url, "--set", "embedder=none",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "REJOINDER_SECRET": "quite another secret"},
        )  # fmt: skip
        async with asyncio.timeout(60):
            _, errors = await process.communicate()
        assert process.returncode == 2
        assert b"another secret" in errors and b"Traceback" not in errors


async def _lookups(url: str) -> float:
    async with aiohttp.ClientSession() as session, session.get(url + "/metrics") as reply:
        found = re.search(r"^rejoinder_lookups_total (\S+)", await reply.text(), re.MULTILINE)
    assert found is not None
    return float(found[1])


async def _until_ready(url: str) -> None:
    """Every process must have seen its worker; a fresh connection each time reaches them in turn."""
    async with asyncio.timeout(20):
        in_a_row = 0
        while in_a_row < 12:
            async with aiohttp.ClientSession() as session, session.get(url + "/ready") as reply:
                in_a_row = in_a_row + 1 if reply.status == 200 else 0


async def test_all_replicas_heed_what_one_of_them_was_told(redis: RedisServer, tmp_path: Path) -> None:
    """Feedback: a session's wish, a quarantine, and copies in the memory of another process."""
    keys = {"key-ann": "acme", "key-bob": "acme", "key-editor": "acme"}
    shared: dict[str, Any] = {
        "redis_url": redis.url, "secret": SECRET, "store_deadline_s": 5, "api_keys": keys, "curate_keys": "key-editor",
    }  # fmt: skip
    question, mine = "How do I reset my password?", "What is the status of my order 4711?"

    async def bad(h: House, told: Told, key: str) -> Any:
        body = orjson.dumps({"reply": told.headers["X-Rejoinder-Reply"], "rating": "bad"})
        return (await h.post("/v1/feedback", body, {"Authorization": f"Bearer {key}"})).json

    async with (
        SimulatedWorker() as worker, open_house(tmp_path / "a", [worker], **shared) as here,
        open_house(tmp_path / "b", [worker], **shared) as there,
    ):  # fmt: skip
        told = await here.ask(question, key="key-ann", session="mine")
        assert (await there.ask(question, key="key-ann", session="other")).hit
        assert (await bad(here, told, "key-ann"))["hidden"]
        await until(lambda: there.proxy.cache.reviews._unwanted)
        fresh = await there.ask(question, key="key-ann", session="mine")
        assert not fresh.hit and (await there.ask(question, key="key-ann", session="mine")).hit

        personal = await there.ask(mine, key="key-ann", session="mine")  # stays in the memory of that process
        assert (await there.ask(mine, key="key-ann", session="mine")).hit
        for wrong in (personal, fresh):
            assert (await bad(here, wrong, "key-editor"))["quarantined"]
        await until(lambda: not there.proxy.cache._session.matching("acme", None))
        for h in (here, there):
            for asked in (mine, question):
                answer = await h.ask(asked, key="key-ann", session="mine", cache_control="only-if-cached")
                assert answer.status == 504


async def test_a_conversation_goes_on_at_another_replica_as_the_same_one(redis: RedisServer, tmp_path: Path) -> None:
    """Two users in other words, the first turn here, the follow-up there: the receipts are read from Redis."""
    first = ("How do I reset my password?", "how do I reset my password, please")
    follow = "and how long does that take?"
    shared = {"redis_url": redis.url, "secret": SECRET, "store_deadline_s": 5.0}
    async with open_house(tmp_path / "a", **shared) as here, open_house(tmp_path / "b", **shared) as there:
        talks = []
        for said in first:
            told = await here.ask(said)
            talks.append([{"role": "user", "content": said}, told.message, {"role": "user", "content": follow}])
        await here.ask(talks[0])
        await here.proxy.cache.receipts.flush()
        assert (await there.ask(talks[1])).hit
        assert (here.calls, there.calls) == (2, 0)
