"""Who is asked. Routing cases 1, 5, 8, 10, 11."""

import asyncio
import contextlib
import secrets
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web
from house import CHAT, House, OpenHouse, open_house, turns
from scripted import Asked, ScriptedWorker, completion

from proxy.demo import SimulatedWorker

SECRET = "a secret of thirty-two characters"  # so that a session's home is the same in every run


async def test_a_chat_stays_on_its_worker_whatever_the_request_ids_say(house: OpenHouse) -> None:
    """1 (prime-rl#2822): keyed on x-request-id, the prefix hit rate of chats was 40 %."""
    async with house(workers=4, secret=SECRET, embedder="none") as h:
        homes: dict[int, set[str]] = {}
        for turn in range(5):
            for chat in range(12):
                texts = [f"Remark {n} of chat {chat}" for n in range(2 * turn + 1)]
                told = await h.ask(turns(*texts, system="You are kind."), headers={
                    "X-Request-Id": secrets.token_hex(8), "X-Correlation-Id": secrets.token_hex(8)})  # fmt: skip
                assert not told.hit
                homes.setdefault(chat, set()).add(told.worker)
        assert all(len(workers) == 1 for workers in homes.values())
        assert len(set.union(*homes.values())) >= 3


@pytest.mark.parametrize("name", ["header", "session_id", "conversation", "prompt_cache_key", "user"])
async def test_every_way_to_name_a_session_keeps_it_on_one_worker(house: OpenHouse, name: str) -> None:
    """2: and the worker is told a digest of it, the same at every turn."""
    async with house(workers=4, secret=SECRET, embedder="none") as h:
        homes: dict[str, set[str]] = {}
        for turn in range(4):
            for who in "abcdefgh":
                fields = {"headers": {"X-Session-ID": who}} if name == "header" else {name: who}
                told = await h.ask(f"Explain code {who}{turn}", cache_control="no-store", **fields)
                homes.setdefault(who, set()).add(told.worker)
        assert all(len(workers) == 1 for workers in homes.values())
        assert len(set.union(*homes.values())) > 1
        assert len({call.headers["X-Session-ID"] for call in h.asked}) == 8


async def held(_: web.Request, __: Asked) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def burst(h: House, count: int, workers: list[ScriptedWorker], **fields: object) -> Counter[str]:
    """So many requests at once, none of which gets a first byte; how many each worker got."""
    tasks = [
        asyncio.create_task(h.client.post("/v1/completions", json={"prompt": f"{n} " + "x" * 2000, **fields}))
        for n in range(count)
    ]
    await h.until(lambda: sum(len(worker.calls) for worker in workers) == count, timeout_s=20)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return Counter({worker.url: len(worker.calls) for worker in workers})


async def test_a_burst_of_long_prompts_spreads_before_anybody_answers(house: OpenHouse) -> None:
    """5 (sglang#15473, smg#1714): load was counted only when the headers came, so all piled onto worker 0."""
    async with contextlib.AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(ScriptedWorker(held)) for _ in range(4)]
        async with house(workers, embedder="none") as h:
            assert set((await burst(h, 32, workers)).values()) == {8}
            await h.until(lambda: h.in_flight == 0)


async def test_requests_that_come_one_by_one_are_spread_too(house: OpenHouse) -> None:
    """8 (Infera#103): nothing was in flight at each decision, and the split was 448 to 0."""
    async with house(workers=4, embedder="none") as h:
        for n in range(40):
            await h.send("POST", "/v1/completions", json={"prompt": f"Once upon a time number {n}"})
        assert [len(worker.calls) for worker in h.workers] == [10, 10, 10, 10]


async def test_several_proxies_that_see_the_same_do_not_all_choose_the_same(tmp_path: Path) -> None:
    """10 (dynamo#589): 16 routers with one snapshot sent a burst to one worker. max/mean at most 1.3."""

    async def answer(_: web.Request, __: Asked) -> web.StreamResponse:
        return web.json_response(completion({"content": "fine"}))

    async with contextlib.AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(ScriptedWorker(answer)) for _ in range(4)]
        houses = [
            await stack.enter_async_context(open_house(tmp_path / str(n), workers, embedder="none", secret=SECRET))
            for n in range(8)
        ]
        told = await asyncio.gather(*(
            h.ask(f"Explain code {place}-{n}") for n in range(50) for place, h in enumerate(houses)
        ))  # fmt: skip
        assert {one.status for one in told} == {200}
        counts = [len(worker.calls) for worker in workers]
        assert sum(counts) == 400
        assert max(counts) / (sum(counts) / len(counts)) <= 1.3, counts


async def test_unique_prompts_reach_every_worker(house: OpenHouse) -> None:
    """11 (dynamo#7836): two of five workers got nothing."""
    async with house(workers=5, embedder="none", secret=SECRET) as h:
        await asyncio.gather(*(h.ask(f"Explain code {n}", system=None) for n in range(300)))
        counts = [len(worker.calls) for worker in h.workers]
        assert min(counts) > 30 and max(counts) < 100, counts


async def test_requests_go_only_to_workers_that_serve_the_model(house: OpenHouse) -> None:
    """A12, routing: two models on four workers."""
    async with contextlib.AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(SimulatedWorker(models=(model,))) for model in ("a", "b", "a", "b")]
        async with house(workers, embedder="none") as h:
            for n in range(20):
                for model in ("a", "b"):
                    assert (await h.ask(f"Explain code {n}", model=model, session=f"s{n}")).json["model"] == model
            for worker in workers:
                assert {call.json["model"] for call in worker.calls} == set(worker.models)
            assert (await h.send("POST", CHAT, json={"model": "c", "messages": turns("hi")})).status == 404


async def test_two_spellings_of_one_worker_are_one_worker(house: OpenHouse) -> None:
    """44 (llm-d#1008), at the product: with /v1, as people paste their base_url."""
    async with ScriptedWorker(held) as worker:
        worker.url += "/v1"
        async with house([worker]) as h:
            assert [one.url for one in h.proxy.pool] == [worker.url.removesuffix("/v1")]


async def test_explain_skips_the_same_session_keys_as_routing_and_counts_none_of_its_own(house: OpenHouse) -> None:
    async with house(embedder="none") as h:
        for number in range(60):
            chat = turns(f"Question {number}?", "An answer.", "And then?")
            await h.ask(chat, prompt_cache_key=f"request-{number}")
        told = await h.explain(turns("Question 7?", "An answer.", "And then?"), prompt_cache_key="request-99")
        assert told["session"]["source"] == "opening"
        for number in range(300):  # who only asks what would happen teaches nothing
            await h.explain(f"Question {number}?", user="ann")
        assert (await h.explain("Question 1?", user="ann"))["session"]["source"] == "user"
