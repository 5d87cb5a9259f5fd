"""Workers that hang, die, refuse or come back. Routing cases 17–20, 24, 25, 27, 28, 32, 34, 40, 52, 54."""

import asyncio
from typing import Any

import aiohttp
import openai
import orjson
import pytest
from aiohttp import web
from house import CHAT, House, OpenHouse, request
from scripted import Asked, ScriptedWorker, chunked, completion

from proxy.demo import Pace, SimulatedWorker
from proxy.routing.workers import State

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])


def states(h: House) -> list[str]:
    return [worker.state.value for worker in h.proxy.pool]


@BOTH
async def test_a_worker_that_dies_before_its_first_byte_is_not_noticed(house: OpenHouse, stream: bool) -> None:
    """20 (production-stack#420, #643, #382), issue: retried invisibly, on another worker, and booked nowhere."""
    async with house(workers=3) as h:
        for worker in h.workers[:2]:
            worker.fault("reset")
        for n in range(12):
            told = await h.ask(f"Explain code A{n}", stream=stream)
            assert told.status == 200 and f"A{n}" in told.text
            assert not stream or told.done
        assert h.in_flight == 0


@BOTH
async def test_a_refused_connection_ejects_the_worker_at_once(house: OpenHouse, stream: bool) -> None:
    """20: requests kept going to nodes that were deleted."""
    async with house(workers=2, probe_s=30) as h:
        await h.workers[0].kill()
        told = await asyncio.gather(*(h.ask(f"Explain code A{n}", stream=stream, session=f"s{n}") for n in range(20)))
        assert {one.status for one in told} == {200}
        assert states(h) == ["down", "up"]
        before = len(h.workers[1].calls)
        again = await asyncio.gather(*(h.ask(f"Explain code B{n}", session=f"s{n}") for n in range(20)))
        assert {one.status for one in again} == {200}
        assert len(h.workers[1].calls) == before + 20


async def test_a_worker_that_comes_back_is_used_again(house: OpenHouse) -> None:
    """28 (litellm#30192): stuck until the proxy was restarted."""
    async with house(workers=2, probe_s=0.1) as h:
        await h.workers[0].kill()
        await h.ask("Explain code A1", session="a")
        await h.until(lambda: states(h) == ["down", "up"])
        await h.workers[0].start()
        await h.until(lambda: states(h) == ["up", "up"])
        told = await asyncio.gather(*(h.ask(f"Explain code B{n}", session=f"s{n}") for n in range(20)))
        assert {one.status for one in told} == {200}
        assert h.workers[0].calls


@BOTH
async def test_a_worker_that_dies_in_mid_answer_is_told_as_an_error_and_nothing_is_stored(
    house: OpenHouse, stream: bool
) -> None:
    """32 (open-webui#29628, vllm#52852): a truncated 200 that looked clean. 34 (miles#1334): never generated twice."""
    async with house(workers=2) as h:
        for worker in h.workers:
            worker.fault("die", after=3, times=1)
        heard = b""
        if stream:
            with pytest.raises(aiohttp.ClientPayloadError):
                async with h.client.post(CHAT, json=request("Why is the sky blue?", stream=True)) as reply:
                    assert reply.status == 200
                    async for piece in reply.content.iter_any():
                        heard += piece
            events = [event for event in heard.split(b"\n\n") if event]
            error = orjson.loads(events[-1].removeprefix(b"data: "))["error"]
            assert set(error) == {"message", "type", "param", "code"} and error["code"] == "worker_failed"
            assert len(events) == 4 and b"[DONE]" not in heard
        else:
            told = await h.ask()
            assert (told.status, told.error["code"]) == (502, "worker_failed")
        assert h.calls == 1, "what had begun is not asked again"
        assert await h.stored() == 0
        await h.until(lambda: h.at_rest)
        assert await h.metric("rejoinder_not_stored_total") >= 0
        for worker in h.workers:
            worker.fault()
        assert not (await h.ask(stream=stream)).hit


async def test_the_openai_library_raises_when_a_stream_dies(house: OpenHouse) -> None:
    """32: what a program sees."""
    async with house() as h, openai.AsyncOpenAI(base_url=f"{h.url}/v1", api_key="sk-x", max_retries=0) as client:
        h.workers[0].fault("die", after=3)
        messages: list[Any] = request("Why is the sky blue?")["messages"]
        heard = []
        stream = await client.chat.completions.create(model="demo", messages=messages, stream=True)
        with pytest.raises(openai.APIError, match="broke off"):
            async for chunk in stream:
                heard.append(chunk)
        assert len(heard) == 3


async def test_listeners_of_a_stream_that_dies_all_hear_that_it_did(house: OpenHouse) -> None:
    """32, H6: nobody gets a stump that looks whole, in neither shape."""
    go_on = asyncio.Event()

    async def answer(request_: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request_)
        await response.write(chunked([{"role": "assistant", "content": "half"}])[:150])
        await go_on.wait()
        assert request_.transport is not None
        request_.transport.abort()  # type: ignore[attr-defined]
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        leader = asyncio.create_task(h.ask(stream=True))
        await h.until(lambda: worker.calls)
        others = [asyncio.create_task(h.ask(stream=stream)) for stream in (True, False)]
        await h.until(lambda: sum(flight.listeners for flight in h.proxy.flights._by_key.values()) == 3)
        go_on.set()
        told = await asyncio.gather(leader, *others, return_exceptions=True)
        assert [type(one) for one in told[:2]] == [aiohttp.ClientPayloadError] * 2
        assert not isinstance(told[2], BaseException) and told[2].status == 502
        assert await h.stored() == 0


@BOTH
async def test_one_hung_worker_costs_its_own_callers_and_nobody_else(house: OpenHouse, stream: bool) -> None:
    """19 (production-stack#749): no timeouts, and the router stopped answering everybody."""
    async with house(workers=2, first_byte_s=0.3) as h:
        h.workers[0].fault("hang")
        told = await asyncio.gather(*(h.ask(f"Explain code A{n}", stream=stream, session=f"s{n}") for n in range(20)))
        by_status = {status: [one for one in told if one.status == status] for status in (200, 504)}
        assert len(by_status[200]) == len(h.workers[1].calls) > 0
        assert len(by_status[504]) == len(h.workers[0].calls) > 0
        assert len(by_status[200]) + len(by_status[504]) == 20
        assert {one.error["code"] for one in by_status[504]} == {"worker_timeout"}
        await h.until(lambda: h.at_rest)


async def test_a_worker_that_falls_silent_in_a_stream_is_given_up(house: OpenHouse) -> None:
    """19: idle timeout; the error stands in the stream."""
    async with house(idle_s=0.2) as h:
        h.workers[0].fault("stall", after=2)
        heard = b""
        with pytest.raises(aiohttp.ClientPayloadError):
            async with h.client.post(CHAT, json=request("Why is the sky blue?", stream=True)) as reply:
                async for piece in reply.content.iter_any():
                    heard += piece
        assert b'"code":"worker_timeout"' in heard and b"[DONE]" not in heard
        await h.workers[0].until(lambda: h.asked[0].disconnected_at_s)
        await h.until(lambda: h.at_rest)


@pytest.mark.parametrize("status", [400, 404, 422, 429, 500, 503])
async def test_a_workers_no_is_not_its_death(house: OpenHouse, status: int) -> None:
    """24 (sglang#25811, #25822, router#60, sglang#13762): 400s opened the breaker, and the fleet was 503."""
    async with house(workers=2) as h:
        for worker in h.workers:
            worker.fault("status", status=status, retry_after_s=3)
        for n in range(40):
            told = await h.ask(f"Explain code A{n}", session=f"s{n}")
            assert told.status == status
            assert told.headers["Retry-After"] == "3", "the worker's own words"
        assert states(h) == ["up", "up"]
        for worker in h.workers:
            worker.fault()
        assert (await h.ask()).status == 200


async def test_a_busy_worker_is_passed_over_while_another_is_there(house: OpenHouse) -> None:
    """24: 503 is busy, not dead; the client should not notice."""
    async with house(workers=2) as h:
        h.workers[0].fault("status", status=503)
        told = [await h.ask(f"Explain code A{n}", session=f"s{n}") for n in range(10)]
        assert {one.status for one in told} == {200}
        assert h.workers[0].calls and states(h) == ["up", "up"]


async def test_the_last_worker_is_asked_whatever_the_probes_say(house: OpenHouse) -> None:
    """25 (sglang#13894, #12355): never eject the last one."""
    async with house(workers=2, probe_s=0.05) as h:
        for worker in h.workers:
            worker.fault("unhealthy")
        await h.until(lambda: states(h) == ["down", "down"])
        assert (await h.ask()).status == 200
        for worker in h.workers:
            worker.fault()
        await h.until(lambda: states(h) == ["up", "up"])


async def test_a_worker_that_talks_is_alive_though_its_health_page_is_not(house: OpenHouse) -> None:
    """27 (rllm#926, sglang#22511): a long prefill starved /health, and the worker was removed while it served."""
    async with (
        SimulatedWorker(pace=Pace(token_s=0.02)) as talking,
        SimulatedWorker() as other,
        house([talking, other], probe_s=0.1) as h,
    ):
        pool = list(h.proxy.pool)
        pool[1].state = State.DRAINING  # so that the talking one is asked
        h.proxy.pool.changed()
        talking.fault("deaf")

        async def talk() -> None:
            n = 0
            while not done.is_set():
                n += 1
                assert (await h.ask(f"Explain code A{n}", stream=True)).done

        done = asyncio.Event()
        task = asyncio.create_task(talk())
        try:
            await h.until(lambda: pool[0].trouble, timeout_s=15)  # a probe has failed: it had 2 s
            checks = talking.health_checks
            await h.until(lambda: talking.health_checks > checks, timeout_s=15)  # and the next one is out
            assert pool[0].state is State.UP
            assert pool[0].failures == 0
        finally:
            done.set()
            await task


@BOTH
async def test_a_retry_is_the_same_request_under_the_same_id(house: OpenHouse, stream: bool) -> None:
    """34 (miles#1334): a retry after the body was sent may double a generation; both carry one X-Request-Id."""
    seen: list[Asked] = []

    async def dies(request_: web.Request, asked: Asked) -> web.StreamResponse:
        seen.append(asked)
        assert request_.transport is not None
        request_.transport.abort()  # type: ignore[attr-defined]
        return web.Response()

    async def answers(_: web.Request, asked: Asked) -> web.StreamResponse:
        seen.append(asked)
        return web.json_response(completion({"content": "fine"}))

    async with ScriptedWorker(dies) as one, ScriptedWorker(answers) as two, house([one, two]) as h:
        for n in range(30):
            seen.clear()
            told = await h.ask(
                f"Explain code A{n}", stream=stream, session=f"s{n}", headers={"X-Request-Id": f"mine-{n}"}
            )
            assert told.text == "fine"
            assert told.headers["X-Request-Id"] == f"mine-{n}"
            if len(seen) > 1:
                break
        assert len(seen) > 1, "the dying worker was never asked; on a connection that had served it is asked twice"
        assert len({asked.body for asked in seen}) == 1
        assert {asked.header("X-Request-Id") for asked in seen} == {f"mine-{n}"}


async def test_what_is_used_is_counted_at_the_end_of_a_stream_and_not_at_its_head(house: OpenHouse) -> None:
    """40 (OmniRoute#4595): usage was finalised when the headers came."""
    async with house() as h:
        h.workers[0].fault("stall", after=3)
        async with h.client.post(CHAT, json=request("Why is the sky blue?", stream=True)) as reply:
            await reply.content.readuntil(b"\n\n")
            assert await h.metric("rejoinder_upstream_tokens_total") == 0
            assert await h.metric("rejoinder_requests_in_flight") == 1
            assert h.in_flight == 1
        await h.until(lambda: h.at_rest)
        h.workers[0].fault()
        told = await h.ask(stream=True, stream_options={"include_usage": True})
        assert await h.metric("rejoinder_upstream_tokens_total") == told.chunks[-1]["usage"]["completion_tokens"] > 0
        await h.ask(stream=True)
        assert await h.metric("rejoinder_upstream_tokens_total") == told.chunks[-1]["usage"]["completion_tokens"]
        assert await h.metric("rejoinder_served_tokens_total") == told.chunks[-1]["usage"]["completion_tokens"]


async def test_the_sessions_of_a_dead_worker_spread_over_all_that_are_left(house: OpenHouse) -> None:
    """52 (vllm-router's consistent hash): all went to `healthy[0]`."""
    async with house(workers=10, probe_s=30, embedder="none") as h:
        names = [f"session {n}" for n in range(400)]

        async def homes() -> dict[str, str]:
            told = await asyncio.gather(*(h.ask("Hello?", session=name, cache_control="no-store") for name in names))
            return {name: one.worker for name, one in zip(names, told, strict=True)}

        before = await homes()
        await h.workers[3].kill()
        after = await homes()
        dead = h.workers[3].url.removeprefix("http://")
        moved = [after[name] for name in names if before[name] == dead]
        assert dead not in after.values()
        assert all(after[name] == before[name] for name in names if before[name] != dead), "nobody else moves"
        assert len(moved) > 15
        assert len(set(moved)) >= 6, "over all nine, as far as so few can"
        assert max(moved.count(worker) for worker in set(moved)) <= len(moved) / 2


@pytest.mark.parametrize("path", [CHAT, "/v1/responses"])
async def test_a_slow_reader_slows_the_worker_and_does_not_fill_our_memory(house: OpenHouse, path: str) -> None:
    """54 (vllm-router router.rs:2073): an unbounded channel buffered the whole stream."""
    block = b"data: " + orjson.dumps({"choices": [{"index": 0, "delta": {"content": "x" * 65_000}}]}) + b"\n\n"
    sent, stuck = 0, asyncio.Event()

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request_)
        for _ in range(1500):  # 98 MB
            try:
                async with asyncio.timeout(1.0):
                    await response.write(block)
            except TimeoutError:
                stuck.set()
                await asyncio.Event().wait()
            sent += len(block)
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        async with h.client.post(path, json=request("Tell all", stream=True)) as reply:
            await reply.content.readuntil(b"\n\n")
            async with asyncio.timeout(30):
                await stuck.wait()
            assert sent < 24 << 20
        await h.until(lambda: worker.left == 1)
        await h.until(lambda: h.at_rest)


async def test_two_readers_of_one_generation_go_as_fast_as_the_slower_one(house: OpenHouse) -> None:
    """54, H6: a slow listener must not lose a piece, nor cost us the whole answer in memory."""
    pieces = [f"{n:06d} " + "x" * 60_000 for n in range(150)]  # 9 MB
    go_on = asyncio.Event()

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request_)
        await go_on.wait()
        data = chunked([{"content": piece} for piece in pieces])
        for start in range(0, len(data), 1 << 18):
            await response.write(data[start : start + (1 << 18)])
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        fast = asyncio.create_task(h.ask(stream=True))
        await h.until(lambda: worker.calls)
        async with h.client.post(CHAT, json=request("Why is the sky blue?", stream=True)) as slow:
            go_on.set()
            await slow.content.readuntil(b"000000 ")
            held = [flight._bytes for flight in h.proxy.flights._by_key.values()]
            assert all(size < 6 << 20 for size in held)
            rest = await slow.content.read()
        assert (await fast).text == "".join(pieces)
        assert rest.count(b"xxxxx" * 10_000) == len(pieces)
        assert len(worker.calls) == 1
