"""Equal questions in the air share one generation, and nothing else does. CASES.md, H6; the list of the issue."""

import asyncio
import contextlib
import time
from typing import Any

import pytest
from aiohttp import web
from house import House, OpenHouse, Told, request
from scripted import Asked, ScriptedWorker, chunked, completion, stream_of

from proxy.demo import Pace, SimulatedWorker

CHAT = "/v1/chat/completions"


def listeners(h: House) -> int:
    return sum(flight.listeners for flight in h.proxy.flights._by_key.values())


async def all_at_once(h: House, count: int, *, go_on: asyncio.Event, **fields: Any) -> list[Told]:
    """So many equal requests, `stream` given by a function of their number, all in the air before a worker answers."""
    stream = fields.pop("stream")
    tasks = [asyncio.create_task(h.ask(stream=stream(n), session=f"s{n}", **fields)) for n in range(count)]
    await h.until(lambda: listeners(h) == count)
    go_on.set()
    return list(await asyncio.gather(*tasks))


class Held:
    """Answers only when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, request_: web.Request, asked: Asked) -> web.StreamResponse:
        await self.go_on.wait()
        if asked.json.get("stream"):
            return await stream_of(
                request_, [chunked([{"role": "assistant", "content": ""}, {"content": "one "}, {"content": "answer"}])]
            )
        return web.json_response(completion({"content": "one answer"}))


SHAPES = {
    "json": lambda n: False,
    "stream": lambda n: True,
    "mixed": lambda n: n % 2 == 0,
    "mixed too": lambda n: n % 2 == 1,
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_hundred_at_once_are_one_generation(house: OpenHouse, shape: str) -> None:
    """H6 (wuphf#823, jeanibarz#794, langfuse#12977, praxis#316, promptfoo#8643)."""
    held = Held()
    async with ScriptedWorker(held) as worker, house([worker]) as h:
        told = await all_at_once(h, 100, go_on=held.go_on, stream=SHAPES[shape])
        assert len(worker.calls) == 1
        assert {one.text for one in told} == {"one answer"}
        assert {one.status for one in told} == {200}
        assert sum(one.collapsed for one in told) == 99
        assert [one.streamed for one in told] == [SHAPES[shape](n) for n in range(100)]
        assert all(one.done for one in told if one.streamed)
        assert (await h.metric("rejoinder_flights_total"), await h.metric("rejoinder_collapsed_total")) == (1, 99)
        assert await h.metric("rejoinder_upstream_tokens_total") == 7, "counted once"
        await h.until(lambda: h.at_rest)
        assert await h.stored() == 1


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_hundred_without_any_waiting_are_one_generation_too(house: OpenHouse, shape: str) -> None:
    """H6: a fast worker answers while the others are still being looked up; they must find its answer."""
    async with house(workers=2) as h:
        for question in ("Why is the sky blue?", "How far is the moon?", "Who built the pyramids?"):
            before = h.calls
            await asyncio.gather(*(h.ask(question, stream=SHAPES[shape](n)) for n in range(100)))
            assert h.calls == before + 1


@pytest.mark.parametrize("usage", [True, False])
async def test_who_comes_late_hears_from_the_start(house: OpenHouse, usage: bool) -> None:
    """Issue: a late joiner first gets what was said, then follows live."""
    options = {"stream_options": {"include_usage": True}} if usage else {}
    halfway, go_on = asyncio.Event(), asyncio.Event()
    data = chunked([{"role": "assistant", "content": ""}, *({"content": f"word{n} "} for n in range(20))])

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request_)
        await response.write(data[:1000])
        halfway.set()
        await go_on.wait()
        await response.write(data[1000:])
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        leader = asyncio.create_task(h.ask(stream=True, stream_options={"include_usage": True}))
        await halfway.wait()
        async with h.client.post(CHAT, json=request("Why is the sky blue?", stream=True, **options)) as late:
            first = await late.content.readuntil(b"word0")
            assert b'"role":"assistant"' in first, "before the worker goes on"
            go_on.set()
            heard = first + await late.read()
        assert (await leader).body == data
        assert (heard == data) is usage
        assert heard.count(b"word") == 20 and heard.endswith(b"[DONE]\n\n")
        assert len(worker.calls) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("count", [1, 3])
async def test_the_last_listener_who_leaves_stops_the_worker(house: OpenHouse, stream: bool, count: int) -> None:
    """Issue; 17 (production-stack#634, #867, #1040), 18 (bifrost#3164, litellm#30223): engines finished for nobody, and
    counters leaked for ever."""
    async with house() as h:
        h.workers[0].fault("stall" if stream else "hang", after=2)
        tasks = [asyncio.create_task(h.ask(stream=stream)) for _ in range(count)]
        await h.until(lambda: listeners(h) == count and h.calls == 1)
        if stream:
            await h.workers[0].until(lambda: h.asked[0].chunks == 2)
        for task in tasks[:-1]:
            await left(task)
        if count > 1:
            await h.until(lambda: listeners(h) == 1)
            assert h.asked[0].disconnected_at_s is None, "somebody still listens"
        left_at_s = time.monotonic()
        await left(tasks[-1])
        await h.workers[0].until(lambda: h.asked[0].disconnected_at_s)
        assert (h.asked[0].disconnected_at_s or 0) - left_at_s < 0.2
        await h.until(lambda: h.at_rest)
        assert len(h.proxy.flights._by_key) == 0
        assert await h.metric("rejoinder_requests_in_flight") == 0
        h.workers[0].fault()
        assert (await h.ask(stream=stream)).text, "and the pooled connection is not used again"
        assert h.calls == 2


async def left(task: "asyncio.Task[Told]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_the_first_who_asked_may_leave_and_the_others_hear_the_end(house: OpenHouse, stream: bool) -> None:
    """H6: the leader's disconnect must not be everybody's."""
    held = Held()
    async with ScriptedWorker(held) as worker, house([worker]) as h:
        leader = asyncio.create_task(h.ask(stream=stream))
        await h.until(lambda: worker.calls)
        others = [asyncio.create_task(h.ask(stream=n == 1)) for n in range(3)]
        await h.until(lambda: listeners(h) == 4)
        await left(leader)
        await h.until(lambda: listeners(h) == 3)
        held.go_on.set()
        assert {told.text for told in await asyncio.gather(*others)} == {"one answer"}
        assert len(worker.calls) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("status", [500, 503, "dies"])
async def test_a_failure_before_the_first_byte_is_tried_again_and_not_spread(
    house: OpenHouse, status: int | str, stream: bool
) -> None:
    """H6, issue: the leader's failure is the leader's alone; a follower takes over."""
    held = Held()
    spoilt = 0

    async def answer(request_: web.Request, asked: Asked) -> web.StreamResponse:
        nonlocal spoilt
        if spoilt == 0:
            spoilt += 1
            await held.go_on.wait()
            if status == "dies":
                assert request_.transport is not None
                request_.transport.close()
                return web.Response()
            return web.json_response({"error": {"message": "mine"}}, status=int(status))
        return await held(request_, asked)

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        told = await all_at_once(h, 30, go_on=held.go_on, stream=lambda n: stream)
        failed = [one for one in told if one.status != 200]
        assert len(failed) <= 1, "at most the one whose generation it was"
        assert {one.text for one in told if one.status == 200} == {"one answer"}
        assert len(worker.calls) <= 3
        await h.until(lambda: h.at_rest)


async def test_a_second_failure_ends_the_trying(house: OpenHouse) -> None:
    """H6: retries are bounded, a sick worker is not hammered once per listener."""
    go_on = asyncio.Event()

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        await go_on.wait()
        return web.json_response({"error": {"message": "no"}}, status=500)

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        told = await all_at_once(h, 30, go_on=go_on, stream=lambda n: False)
        assert {one.status for one in told} == {500}
        assert len(worker.calls) == 2


@pytest.mark.parametrize(
    ("mine", "yours"),
    [
        ({"cache_control": "no-cache"}, {"cache_control": "no-cache"}),
        ({"cache_control": "no-store"}, {"cache_control": "no-store"}),
        ({"cache": {"no-cache": True}}, {}),
        ({"cache": False}, {}),
        ({"max_tokens": 5}, {"max_tokens": 500}),
        ({"max_tokens": 500}, {}),
        ({"max_completion_tokens": 7}, {"max_completion_tokens": 8}),
        ({"temperature": 0.1}, {"temperature": 0.2}),
        ({"cache": {"namespace": "a"}}, {"cache": {"namespace": "b"}}),
        ({"stream_options": {"continuous_usage_stats": True}, "stream": True}, {"stream": True}),
        ({"key": "sk-ann"}, {"key": "sk-bob"}),
        ({"question": "Tell me a joke"}, {"question": "Tell me a joke"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_what_may_not_be_shared_is_not_shared_in_the_air(
    house: OpenHouse, mine: dict[str, Any], yours: dict[str, Any], stream: bool
) -> None:
    """H6: coalescing must not apply where caching does not; never across tenants, limits or wishes."""
    held = Held()
    async with ScriptedWorker(held) as worker, house([worker]) as h:
        tasks = [asyncio.create_task(h.ask(**{"stream": stream, **fields})) for fields in (mine, yours)]
        await h.until(lambda: len(worker.calls) == 2)
        held.go_on.set()
        told = await asyncio.gather(*tasks)
        assert not any(one.collapsed or one.hit for one in told)
        assert {one.text for one in told} == {"one answer"}


async def test_a_generation_larger_than_memory_allows_is_still_told_whole(house: OpenHouse) -> None:
    """Issue: who comes when the beginning is gone gets a generation of his own, never a stump."""
    piece, count = "x" * 60_000, 120  # 7 MB; 4 MB are kept for late joiners
    halfway, go_on = asyncio.Event(), asyncio.Event()

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        data = chunked([{"role": "assistant", "content": ""}, *({"content": piece} for _ in range(count))])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request_)
        await response.write(data[: 6 << 20])
        halfway.set()
        await go_on.wait()
        await response.write(data[6 << 20 :])
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        leader = asyncio.create_task(h.ask(stream=True))
        await halfway.wait()
        await h.until(lambda: not any(flight.joinable for flight in h.proxy.flights._by_key.values()))
        late = asyncio.create_task(h.ask(stream=True))
        await h.until(lambda: len(worker.calls) == 2)
        go_on.set()
        for told in await asyncio.gather(leader, late):
            assert len(told.text) == len(piece) * count
        assert await h.stored() == 0, "too large to keep"


async def test_questions_that_come_and_go_leave_no_counter_behind(house: OpenHouse) -> None:
    """17, 18: whatever mixture of ends."""
    async with SimulatedWorker(pace=Pace(first_token_s=0.01, token_s=0.002)) as worker, house([worker]) as h:
        tasks = [
            asyncio.create_task(
                h.ask(f"Explain {n % 7}", stream=n % 2 == 0, cache_control=("no-cache", None)[n % 3 == 0])
            )
            for n in range(60)
        ]
        await h.until(lambda: h.calls > 10)
        for task in tasks[::2]:
            task.cancel()
        told = await asyncio.gather(*tasks, return_exceptions=True)
        assert {one.status for one in told if isinstance(one, Told)} == {200}
        await h.until(lambda: h.at_rest)
        assert await h.metric("rejoinder_requests_in_flight") == 0
        assert not h.proxy.flights._by_key
