"""The turn after a hit, on real vLLM: its `cached_tokens` say whether the warm-up read what the next turn needs."""

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
FIRST = "Here is a text about bicycles. " + " ".join(f"Wheel number {n} is round." for n in range(20))
SECOND = "And here is one about boats. " + " ".join(f"Boat number {n} floats well." for n in range(150))
THIRD = "Which of the two is longer?"


async def ask(client: aiohttp.ClientSession, proxy: Proxy, chat: list[str], session: str, control: str = "") -> Any:
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(chat)]
    headers = {"X-Session-ID": session, **({"Cache-Control": control} if control else {})}
    body = {"model": "tiny", "messages": messages, **SHORT}
    async with client.post("/v1/chat/completions", json=body, headers=headers) as reply:
        assert reply.status == 200, await reply.text()
        told = await reply.json()
    await proxy.gateway.settled()
    return told, "; hit;" in reply.headers["Cache-Status"]


async def computed_after_a_hit(workers: list[VllmWorker], state_dir: Path, *, warm_up: bool) -> tuple[int, int]:
    """How many tokens of the third turn's prompt were cached, and how many were computed."""
    for worker in workers:
        await asyncio.to_thread(worker.reset_prefix_cache)
    settings, _ = load({
        "workers": tuple(worker.url for worker in workers), "port": 0, "state_dir": state_dir, "embedder": "none",
        "warm_up": warm_up, "shadow_share": 0.0, "spare_time_share": 1.0, "drain_s": 1.0,
    })  # fmt: skip
    async with open_proxy(settings) as proxy, aiohttp.ClientSession(proxy.url) as client, asyncio.timeout(150):
        assert await proxy.health.wait_ready(30, workers=2)
        annas, bens = proxy.pool
        proxy.pool.drain(bens)
        chat = [FIRST]
        for text in (SECOND, THIRD):
            told, _ = await ask(client, proxy, chat, "anna")
            chat += [told["choices"][0]["message"]["content"], text]
        proxy.pool.undrain(bens)
        proxy.pool.drain(annas)
        _, hit = await ask(client, proxy, chat[:1], "ben", "no-cache")
        assert not hit
        _, hit = await ask(client, proxy, chat[:3], "ben")
        assert hit
        while warm_up:
            async with client.get("/metrics") as reply:
                if 'rejoinder_warmups_total{outcome="done"} 1.0' in await reply.text():
                    break
            await asyncio.sleep(0.05)
        told, hit = await ask(client, proxy, chat, "ben")
        assert not hit
        usage = told["usage"]
        cached = int(usage["prompt_tokens_details"]["cached_tokens"])
        return cached, int(usage["prompt_tokens"]) - cached


async def test_with_a_warm_up_the_turn_after_a_hit_is_in_the_kv_cache(
    tiny_workers: list[VllmWorker], tmp_path: Path
) -> None:
    cold, computed_cold = await computed_after_a_hit(tiny_workers, tmp_path / "off", warm_up=False)
    warm, computed_warm = await computed_after_a_hit(tiny_workers, tmp_path / "on", warm_up=True)
    assert computed_cold > 1000, "the second question was long, and this worker never saw it"
    assert computed_warm < 64, "the new question, and a part of one block"
    assert warm > cold + 900
