"""An answer that was cut, on real vLLM in float32: the rest follows as if it had never been cut."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from vllm_workers import VllmWorker

from proxy import sse
from proxy.app import open_proxy
from proxy.settings import load

pytestmark = [pytest.mark.live, pytest.mark.timeout(500)]
QUESTION = "Explain step by step how a bicycle stays upright while it is ridden."


async def streamed(client: aiohttp.ClientSession, url: str, limit: int) -> tuple[dict[str, Any], float, str]:
    """The whole answer, seconds to its first text, and its Cache-Status."""
    body = {"model": "smollm2", "messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}, "max_tokens": limit}  # fmt: skip
    data, first_s, began_s = b"", 0.0, time.perf_counter()
    async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
        async for piece in reply.content.iter_any():
            data += piece
            told = [orjson.loads(each) for each in sse.events(data) if each.endswith(b"}")] if not first_s else []
            if any(c["delta"].get("content") for chunk in told for c in chunk["choices"]):
                first_s = time.perf_counter() - began_s
        return sse.assemble(data), first_s, reply.headers.get("Cache-Status", "")


async def test_a_cut_answer_is_continued_word_for_word(
    another_worker: Callable[..., VllmWorker], tmp_path: Path
) -> None:
    small_worker = await asyncio.to_thread(another_worker, model="smollm2")
    settings, _ = load({
        "workers": (small_worker.url,), "port": 0, "state_dir": tmp_path, "embedder": "none", "warm_up": False,
        "shadow_share": 0.0, "drain_s": 1.0,
    })  # fmt: skip
    async with open_proxy(settings) as proxy, aiohttp.ClientSession() as client, asyncio.timeout(400):
        assert await proxy.health.wait_ready(30, workers=1)
        uncut, slow_s, _ = await streamed(client, small_worker.url, 256)
        cut, _, _ = await streamed(client, proxy.url, 64)
        assert cut["choices"][0]["finish_reason"] == "length"
        await proxy.gateway.settled()
        told, first_s, status = await streamed(client, proxy.url, 256)
        assert "fwd=partial" in status and first_s < min(0.1, slow_s)
        assert told["choices"][0]["message"]["content"] == uncut["choices"][0]["message"]["content"]
        for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert told["usage"][count] == uncut["usage"][count]
