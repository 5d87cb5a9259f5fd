"""A long document that many ask about, on real vLLM: whoever asks second finds it in a KV cache (issue 5, item 6)."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from vllm_workers import VllmWorker

from proxy.app import Proxy, open_proxy
from proxy.settings import load

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]
SHORT = {"min_tokens": 5, "logit_bias": {"2": 100}, "temperature": 0}  # see test_proxy_on_vllm
QUESTIONS = ("How much oil does the press need?", "Who checks the belt, and when?", "Where is the spare lamp kept?")


def document(name: str) -> str:
    return f"Manual of the {name}. " + " ".join(
        f"Step {n}: turn part {n} of the {name} to the left." for n in range(200)
    )


async def ask(
    client: aiohttp.ClientSession, proxy: Proxy, text: str, question: str, session: str
) -> tuple[str, int, int]:
    """Who answered, how many tokens the prompt has, and how many were cached."""
    body: dict[str, Any] = {
        "model": "tiny", "messages": [{"role": "user", "content": f"{text}\n\nQuestion: {question}"}],
        "cache": {"question": question, "sources": [{"id": "manual", "version": "1"}]}, **SHORT,
    }  # fmt: skip
    async with client.post("/v1/chat/completions", json=body, headers={"X-Session-ID": session}) as reply:
        assert reply.status == 200, await reply.text()
        usage = (await reply.json())["usage"]
    await proxy.gateway.settled()
    cached = (usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0
    return reply.headers["X-Rejoinder-Worker"].partition(";")[0], int(usage["prompt_tokens"]), int(cached)


async def test_whoever_asks_second_about_a_long_document_finds_it_on_the_worker_that_read_it(
    tiny_workers: list[VllmWorker], tmp_path: Path
) -> None:
    for worker in tiny_workers:
        await asyncio.to_thread(worker.reset_prefix_cache)
    settings, _ = load({
        "workers": tuple(worker.url for worker in tiny_workers), "port": 0, "state_dir": tmp_path, "embedder": "none",
        "shadow_share": 0.0, "drain_s": 1.0,
    })  # fmt: skip
    async with open_proxy(settings) as proxy, aiohttp.ClientSession(proxy.url) as client, asyncio.timeout(150):
        assert await proxy.health.wait_ready(30, workers=2)
        for name in ("press", "loom", "lathe"):
            text = document(name)
            first, *others = [
                await ask(client, proxy, text, question, f"{name} {at}") for at, question in enumerate(QUESTIONS)
            ]
            assert first[1] > 1500 and first[2] < 64, "nobody had read it yet"
            for worker, tokens, cached in others:
                assert worker == first[0], "other users, the same document"
                assert tokens - cached < 64, f"{cached} of {tokens} tokens were cached"
                print(f"\n{name}: {cached} of {tokens} prompt tokens from the KV cache of {worker}")
