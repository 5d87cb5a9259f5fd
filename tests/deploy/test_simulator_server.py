"""`python -m deploy.simulator`: workers over HTTP, paced by the engine, that tell their KV events as vLLM does."""

import asyncio
import contextlib
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import zmq
import zmq.asyncio
from prometheus_client.parser import text_string_to_metric_families

from deploy.simulator.__main__ import parsed, planned
from deploy.simulator.facts import Shape, Timing
from deploy.simulator.server import Fleet, Plan, opened

FAST = Timing(prefill_base_s=0.001, prefill_token_s=0.0005, decode_base_s=0.001, decode_sequence_s=0.0)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with opened(Plan((0, 0), shape=Shape(timing=FAST), folder=tmp_path)) as found:
        yield found


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def ask(http: aiohttp.ClientSession, url: str, text: str, **fields: Any) -> Any:
    body = {"model": "demo", "messages": [{"role": "user", "content": text}], **fields}
    async with http.post(f"{url}/v1/chat/completions", json=body, headers={"X-Session-ID": "ann"}) as reply:
        assert reply.status == 200
        return await reply.json()


async def metrics(http: aiohttp.ClientSession, url: str) -> dict[str, float]:
    async with http.get(f"{url}/metrics") as reply:
        families = text_string_to_metric_families(await reply.text())
    return {sample.name: sample.value for family in families for sample in family.samples}


@contextlib.asynccontextmanager
async def listening(kind: int, endpoint: str) -> AsyncIterator[zmq.asyncio.Socket]:
    context = zmq.asyncio.Context()
    socket = context.socket(kind)
    try:
        if kind == zmq.SUB:
            socket.subscribe(b"")
        socket.connect(endpoint.replace("*", "127.0.0.1"))
        yield socket
    finally:
        context.destroy(linger=0)


async def sources(http: aiohttp.ClientSession, url: str) -> Any:
    async with http.get(f"{url}/kv_event_sources") as reply:
        return (await reply.json())["0"]


async def replayed(endpoint: str, first: int = 0) -> list[tuple[int, Any]]:
    told = []
    async with asyncio.timeout(5), listening(zmq.DEALER, endpoint) as dealer:
        await dealer.send_multipart([b"", struct.pack(">Q", first)])
        while True:
            _, topic, seq, payload = await dealer.recv_multipart()
            if seq == struct.pack(">q", -1):
                assert (topic, payload) == (b"", b"")
                return told
            told.append((struct.unpack(">Q", seq)[0], msgspec.msgpack.decode(payload)))


async def test_a_known_prefix_is_prefilled_faster(fleet: Fleet, http: aiohttp.ClientSession) -> None:
    text, times_s, cached = "word " * 400, [], []
    for _ in range(2):
        began_s = time.monotonic()
        answer = await ask(http, fleet.urls[0], text, max_tokens=1)
        times_s.append(time.monotonic() - began_s)
        cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached[0] == 0 and cached[1] >= 384
    assert times_s[0] >= 0.2 > times_s[1]
    told = await metrics(http, fleet.urls[0])
    assert told["vllm:prefix_cache_hits_total"] == cached[1]
    assert (await metrics(http, fleet.urls[1]))["vllm:prefix_cache_queries_total"] == 0, "each has its own"


async def test_who_waits_and_who_runs_is_told(http: aiohttp.ClientSession, tmp_path: Path) -> None:
    slow = Shape(max_num_seqs=2, timing=Timing(prefill_base_s=30.0))
    async with opened(Plan((0,), shape=slow, folder=tmp_path)) as fleet:
        [url] = fleet.urls
        asked = [asyncio.create_task(ask(http, url, f"Question {n}")) for n in range(5)]
        await fleet.workers[0].until(lambda: len(fleet.workers[0].calls) == 5)
        told = await metrics(http, url)
        assert told["vllm:num_requests_running"] + told["vllm:num_requests_waiting"] == 5
        assert told["vllm:num_requests_waiting"] >= 3 and told["vllm:kv_cache_usage_perc"] > 0
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await fleet.workers[0].until(lambda: all(call.disconnected_at_s for call in fleet.workers[0].calls))
        told = await metrics(http, url)
        assert told["vllm:num_requests_running"] + told["vllm:num_requests_waiting"] == 0, "who leaves is aborted"


@pytest.mark.parametrize("where", ["ipc", "tcp"])
async def test_events_have_vllm_s_layout_live_and_replayed(
    http: aiohttp.ClientSession, tmp_path: Path, where: str
) -> None:
    plan = Plan((0,), shape=Shape(timing=FAST), kv_events=where, folder=tmp_path)
    async with opened(plan) as fleet, asyncio.timeout(10):
        [url] = fleet.urls
        source = await sources(http, url)
        assert source["enable_kv_cache_events"] and source["publisher"] == "zmq"
        assert source["endpoint"].startswith(("ipc://", "tcp://*:"))
        async with listening(zmq.SUB, source["endpoint"]) as subscriber:
            number = 0
            while not await subscriber.poll(20):  # until the subscription has arrived
                number += 1
                await ask(http, url, f"{number} " + "word " * 50, cache_salt="acme")
            topic, seq, payload = await subscriber.recv_multipart()
        assert topic == source["topic"].encode() and len(seq) == 8
        batches = await replayed(source["replay_endpoint"])
        assert [each for each, _ in batches] == list(range(len(batches)))
        assert msgspec.msgpack.decode(payload) == dict(batches)[struct.unpack(">Q", seq)[0]]
        at_s, [first, *_], rank = batches[0][1]
        assert abs(at_s - time.time()) < 60 and rank == 0
        assert first["type"] == "BlockStored" and first["medium"] == "GPU" and first["session_id"] == "ann"
        assert len(first["token_ids"]) == 16 * len(first["block_hashes"]) > 0
        assert first["parent_block_hash"] is None and first["extra_keys"][0] == ["acme"]
        assert (await replayed(source["replay_endpoint"], 1))[0][0] == 1


async def test_tokens_in_events_are_those_of_the_tokenize_door(fleet: Fleet, http: aiohttp.ClientSession) -> None:
    body = {"messages": [{"role": "user", "content": "word " * 40}]}
    async with http.post(f"{fleet.urls[0]}/tokenize", json=body) as reply:
        tokens = (await reply.json())["tokens"]
    await ask(http, fleet.urls[0], "word " * 40)
    [(_, (_, [first, *_], _)), *_] = await replayed((await sources(http, fleet.urls[0]))["replay_endpoint"])
    assert first["token_ids"] == tokens[: len(first["token_ids"])]


async def test_a_restart_forgets_everything_and_counts_from_zero(fleet: Fleet, http: aiohttp.ClientSession) -> None:
    url, text = fleet.urls[0], "word " * 100
    source = await sources(http, url)
    await ask(http, url, text)
    assert (await ask(http, url, text))["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    started = (await metrics(http, url))["process_start_time_seconds"]
    async with http.post(f"{url}/_restart", json={"down_s": 0.1}) as reply:
        assert reply.status == 200
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                if (await metrics(http, url))["process_start_time_seconds"] > started:
                    break
            await asyncio.sleep(0.02)
    assert await replayed(source["replay_endpoint"]) == []
    assert (await ask(http, url, text))["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert (await replayed(source["replay_endpoint"]))[0][0] == 0


async def test_a_reset_is_an_event(fleet: Fleet, http: aiohttp.ClientSession) -> None:
    url = fleet.urls[0]
    await ask(http, url, "word " * 100)
    async with http.post(f"{url}/reset_prefix_cache") as reply:
        assert await reply.json() == {"success": True}
    told = await replayed((await sources(http, url))["replay_endpoint"])
    assert told[-1][1][1] == [{"type": "AllBlocksCleared"}]


async def test_faults_are_those_of_the_demo_worker(fleet: Fleet, http: aiohttp.ClientSession) -> None:
    async with http.post(f"{fleet.urls[0]}/_fault", json={"mode": "status", "status": 503, "times": 1}) as reply:
        assert reply.status == 200
    async with http.post(f"{fleet.urls[0]}/v1/chat/completions", json={"messages": []}) as reply:
        assert reply.status == 503
    assert await ask(http, fleet.urls[1], "Well?")


def test_the_command_line_says_what_is_simulated(tmp_path: Path) -> None:
    plan = planned(parsed(["--workers", "3", "--port", "9001", "--speed", "10"]), tmp_path)
    assert plan.ports == [9001, 9002, 9003] and plan.shape is not None
    assert plan.shape.timing.decode_base_s == pytest.approx(Timing().decode_base_s / 10)
    assert planned(parsed(["--ports", "7,9", "--plain"]), tmp_path).shape is None
    for wrong in (["--workers", "51"], ["--workers", "0"], ["--speed", "0"]):
        with pytest.raises(ValueError, match=r"50|above 0"):
            planned(parsed(wrong), tmp_path)
