"""The judge and the shadow checks against real vLLM. The tiny model babbles: it proves the plumbing, not the judgement.

Its self-test must fail, and say why; what a real worker's log-probabilities look like is read from its real reply."""

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from vllm_workers import VllmWorker

from proxy.app import open_proxy
from proxy.sampling import at_rest
from proxy.settings import load
from proxy.yes_or_no import TOP, TRIALS, _top, probability, request

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]
SHORT = {"min_tokens": 5, "logit_bias": {"2": 100}, "temperature": 0}  # see test_proxy_on_vllm


def post(worker: VllmWorker, body: dict[str, Any]) -> Any:
    sent = urllib.request.Request(
        f"{worker.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sent, timeout=60) as reply:
        return json.loads(reply.read())


async def test_the_log_probabilities_of_a_real_worker_are_read(tiny_workers: list[VllmWorker]) -> None:
    told = await asyncio.to_thread(post, tiny_workers[0], request(TRIALS[0], "tiny"))
    top = _top(told)
    assert len(top) >= TOP
    assert 0 < sum(share for _, share in top) <= 1.000001
    assert probability(told) is None or 0 <= probability(told) <= 1
    # Made to say yes, so that the worker's own spelling of it is seen; the probabilities are those before the bias.
    yes = await asyncio.to_thread(post, tiny_workers[0], {**request(TRIALS[0], "tiny"), "logit_bias": token_of(
        tiny_workers[0], " yes")})  # fmt: skip
    assert yes["choices"][0]["text"] == " yes"
    assert 0 < dict(_top(yes))["yes"] < 0.01 and probability(yes) is None


def token_of(worker: VllmWorker, text: str) -> dict[str, int]:
    sent = urllib.request.Request(
        f"{worker.url}/tokenize", json.dumps({"model": "tiny", "prompt": text, "add_special_tokens": False}).encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sent, timeout=60) as reply:
        (token,) = json.loads(reply.read())["tokens"]
    return {str(token): 100}


async def test_a_model_that_cannot_judge_is_not_asked(tiny_workers: list[VllmWorker], tmp_path: Path) -> None:
    settings, _ = load({
        "workers": (tiny_workers[0].url,), "port": 0, "state_dir": tmp_path, "judge": "on", "judge_deadline_s": 5.0,
        "drain_s": 1.0,
    })  # fmt: skip
    async with open_proxy(settings) as proxy, asyncio.timeout(120):
        judge = proxy.judge
        assert judge is not None
        while "own cases right" not in judge.why:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert not judge.on and "80% are needed" in judge.why
        assert await judge.judge("Do you ship?", "Do you deliver?", "Yes.") is None


async def test_a_rewording_served_from_the_cache_is_checked_on_a_real_worker(
    tiny_workers: list[VllmWorker], tmp_path: Path
) -> None:
    settings, _ = load({
        "workers": (tiny_workers[0].url,), "port": 0, "state_dir": tmp_path, "spare_time_share": 1.0, "drain_s": 1.0,
    })  # fmt: skip

    async with open_proxy(settings) as proxy, aiohttp.ClientSession(proxy.url) as client, asyncio.timeout(120):
        assert await proxy.health.wait_ready(30)

        async def ask(question: str) -> str:
            body = {"model": "tiny", "messages": [{"role": "user", "content": question}], **SHORT}
            async with client.post("/v1/chat/completions", json=body) as reply:
                assert reply.status == 200, await reply.text()
                return reply.headers["Cache-Status"]

        await ask("How do I reset my password?")
        await proxy.gateway.settled()
        assert "; hit;" in await ask("How can I reset my password?")
        while not proxy.measured.all():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        (row,) = proxy.measured.all()
        assert row.checks == pytest.approx(1, abs=0.01)
        (worker,) = proxy.shadow.state()["workers"].values()
        assert worker["spent_s"] > 0


async def test_a_real_worker_says_when_it_rests(tiny_workers: list[VllmWorker]) -> None:
    async with aiohttp.ClientSession(tiny_workers[1].url) as client, asyncio.timeout(60):

        async def rests() -> bool | None:
            async with client.get("/metrics") as reply:
                return at_rest(await reply.text())

        while await rests() is not True:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        body = {"model": "tiny", "prompt": "Hello", "max_tokens": 1500, "ignore_eos": True}
        running = asyncio.ensure_future(client.post("/v1/completions", json=body))
        while await rests() is not False:
            assert not running.done()
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        while await rests() is not True:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
