"""The index against vLLM's own word: `cached_tokens` of the requests that follow."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import orjson
import pytest
from vllm_workers import VllmWorker

from proxy.app import open_proxy
from proxy.health import Health
from proxy.kv_events import KvListener
from proxy.routing.blocks import Blocks, own_hashes
from proxy.routing.workers import Worker, WorkerPool
from proxy.settings import Settings
from proxy.upstream import Upstream

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

BLOCK = 32  # worker.sh's
JSON = [("Content-Type", "application/json")]
_openings = itertools.count()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Seen:
    def __init__(self, upstream: Upstream, pool: WorkerPool, listener: KvListener) -> None:
        self.upstream, self.pool, self.listener = upstream, pool, listener
        [self.worker] = pool

    @property
    def blocks(self) -> Blocks:
        blocks = self.listener.blocks_of(self.worker)
        assert blocks is not None, self.listener.source_of(self.worker)
        return blocks

    async def post(self, path: str, body: object, *, session: str | None = None) -> dict:
        headers = [*JSON, *([("X-Session-ID", session)] if session else [])]
        async with self.upstream.ask(self.worker, "POST", path, headers, orjson.dumps(body)) as reply:
            assert reply.status == 200, await reply.read()
            return orjson.loads(await reply.read() or b"{}")

    async def tokens(self, messages: list[dict]) -> list[int]:
        return (await self.post("/tokenize", {"model": "tiny", "messages": messages}))["tokens"]

    async def chat(self, messages: list[dict], *, session: str | None = None, **fields: object) -> dict:
        body = {"model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 8, **fields}
        return await self.post("/v1/chat/completions", body, session=session)

    async def foretold(self, messages: list[dict], extra_keys: list | None = None) -> int:
        """The cached tokens that the index expects: whole blocks, never the last token."""
        tokens = await self.tokens(messages)
        return BLOCK * self.blocks.leading(own_hashes(tokens[:-1], BLOCK, extra_keys))


def cached(answer: dict) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


async def until(happened: Callable[[], object], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not happened():  # noqa: ASYNC110 - the socket tells nobody
            await asyncio.sleep(0.02)


@asynccontextmanager
async def listening(server: VllmWorker) -> AsyncIterator[Seen]:
    pool = WorkerPool([Worker(server.url)])
    async with Upstream() as upstream, Health(pool, upstream, interval_s=0.5), KvListener(pool, upstream) as listener:
        seen = Seen(upstream, pool, listener)
        await until(lambda: listener.blocks_of(seen.worker) is not None)
        yield seen


@pytest.fixture
def publishing(another_worker: Callable[..., VllmWorker], tmp_path: Path) -> VllmWorker:
    # On loopback, vLLM would connect instead of listening; a replay address always listens.
    options = ["--kv-events", f"ipc://{tmp_path}/kv.sock", "--kv-replay", f"tcp://127.0.0.1:{free_port()}"]
    return another_worker(options=[*options, "--kv-memory", "4M", "--max-len", "2048"])


def question(words: str, repeat: int = 40) -> list[dict]:
    return [{"role": "user", "content": f"number {next(_openings)}: " + f"{words} " * repeat}]


async def test_the_index_says_what_the_worker_says(publishing: VllmWorker) -> None:
    async with listening(publishing) as seen:
        assert seen.blocks.complete and len(seen.blocks) == 0

        # A shared prefix, cold and warm, and a second turn on top of a generated answer.
        first = question("alpha beta gamma delta")
        assert await seen.foretold(first) == 0 == cached(await seen.chat(first, session="chat-42"))
        await until(lambda: seen.blocks.tip("chat-42") is not None)
        tip = seen.blocks.tip("chat-42")
        assert tip is not None
        assert seen.blocks.chain(tip)[:3] == own_hashes(await seen.tokens(first), BLOCK)[:3]
        longer = [{"role": "user", "content": first[0]["content"] + " and now something else " * 20}]
        for messages in (first, longer):
            expected = await seen.foretold(messages)
            assert expected >= 3 * BLOCK and expected == cached(await seen.chat(messages))
        before = len(seen.blocks)
        salted = await seen.chat(first, cache_salt="tenantA")
        assert cached(salted) == 0
        await until(lambda: len(seen.blocks) > before)
        expected = await seen.foretold(first, [("tenantA",)])
        assert expected == cached(await seen.chat(first, cache_salt="tenantA")) > 0
        assert await seen.foretold(first, [("tenantB",)]) == 0

        # More prompts than 4 MB can hold: blocks go, and the index knows which.
        prompts = [question("many different words here", 150) for _ in range(40)]
        for messages in prompts:
            expected = await seen.foretold(messages)
            assert cached(await seen.chat(messages, max_tokens=1)) == expected
        wrong = []
        for messages in (first, *prompts):
            expected = await seen.foretold(messages)
            if expected != (told := cached(await seen.chat(messages, max_tokens=1))):
                wrong.append((expected, told))
        assert not wrong
        counts = seen.listener.counts_of(seen.worker)
        assert counts.blocks > len(seen.blocks), "nothing was evicted: the worker's memory is too large for this test"
        assert counts.gaps == counts.purges == counts.malformed == counts.unknown_events == seen.blocks.skipped == 0

        # vLLM tells of a reset with its next step.
        publishing.reset_prefix_cache()
        fresh = question("after the reset")
        assert cached(await seen.chat(fresh)) == 0
        fresh_owns = own_hashes(await seen.tokens(fresh), BLOCK)
        await until(lambda: seen.blocks.leading(fresh_owns) == len(fresh_owns))
        assert seen.blocks.complete and await seen.foretold(first) == 0 == cached(await seen.chat(first))

    # Another proxy, later: the replay gives it the same.
    async with listening(publishing) as seen:
        assert seen.blocks.complete
        expected = await seen.foretold(first)
        assert expected == cached(await seen.chat(first)) > 0


@pytest.mark.proof  # a start of vLLM of its own takes most of a minute
async def test_a_killed_engine_leaves_nothing_in_the_index(publishing: VllmWorker) -> None:
    async with listening(publishing) as seen:
        messages = question("alpha beta gamma delta")
        await seen.chat(messages)
        await until(lambda: len(seen.blocks))
        publishing.kill()
        await until(lambda: seen.listener.blocks_of(seen.worker) is None)
        publishing.start()
        await asyncio.to_thread(publishing.wait_ready)
        await until(lambda: seen.listener.blocks_of(seen.worker) is not None)
        assert len(seen.blocks) == 0 and seen.blocks.complete
        assert await seen.foretold(messages) == 0 == cached(await seen.chat(messages))
        await until(lambda: len(seen.blocks))
        assert await seen.foretold(messages) == cached(await seen.chat(messages)) > 0


async def test_the_proxy_learns_which_blocks_a_text_became_without_a_tokenizer(publishing: VllmWorker) -> None:
    settings = Settings(workers=(publishing.url,), port=0, store="memory", embedder="none", reader="none", probe_s=0.5)
    headers = {"X-Session-ID": "learnt", "Cache-Control": "no-store"}
    async with open_proxy(settings) as proxy, aiohttp.ClientSession(proxy.url) as client:
        assert await proxy.health.wait_ready(60)

        async def source() -> str:
            async with client.get("/admin/workers") as reply:
                return str((await reply.json())["workers"][0]["routing"]["source"])

        async with asyncio.timeout(60):
            while not (await source()).startswith("KV events"):  # noqa: ASYNC110 - the socket tells nobody
                await asyncio.sleep(0.1)

        messages = question("the river runs past the mill", 60)
        for turn in range(3):
            body = {"model": "tiny", "messages": messages, "max_tokens": 8, "temperature": 0}
            async with client.post("/v1/chat/completions", json=body, headers=headers) as reply:
                assert reply.status == 200
                told, reason = await reply.json(), reply.headers["X-Rejoinder-Worker"]
            if turn:  # what the choice believed is what vLLM then found, but for one block that it computes anyway
                believed = int(reason.partition("; ")[2].rpartition(" of ")[0].rpartition(" ")[2].strip('"'))
                assert "by its KV events" in reason and abs(believed - cached(told)) <= BLOCK, reason
            await asyncio.sleep(0.3)  # the last events of an answer come behind it
            answer = {"role": "assistant", "content": told["choices"][0]["message"]["content"]}
            messages = [*messages, answer, {"role": "user", "content": f"And then {turn}? " * 9}]
