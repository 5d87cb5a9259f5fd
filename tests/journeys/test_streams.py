"""One answer, two shapes: JSON and server-sent events. CASES.md, group E; routing cases 31 and 47."""

import asyncio
from typing import Any

import openai
import orjson
import pytest
from aiohttp import web
from embedders import alike
from house import EMBEDDERS, House, OpenHouse, Told, request, turns
from scripted import Asked, ScriptedWorker, chunked, completion, stream_of

from proxy.demo import SimulatedWorker

# Whatever a worker may say in a message; the last ones are fields of tomorrow.
MESSAGE: dict[str, Any] = {
    "role": "assistant",
    "content": 'Blue light is scattered more.\n\n第二行 🌍 "quoted" \\ back',
    "reasoning": "They ask about the sky. Rayleigh, then.",
    "reasoning_content": "An older name of the same thing.",
    "annotations": [{"type": "url_citation", "url_citation": {"url": "https://example.org", "start_index": 0}}],
    "audio": {"id": "audio_1", "expires_at": 1, "data": "", "transcript": "Blue"},
    "next_years_text": "a text",
    "next_years_number": 7,
    "next_years_flag": False,
    "next_years_object": {"a": {"b": [1, 2, {"c": "d"}]}},
    "next_years_list": [1, "two", {"three": 3}],
}
FIELDS = {"system_fingerprint": "fp-1", "service_tier": "default", "next_years_top_level": {"x": [1]}}


async def whole_or_stream(request_: web.Request, asked: Asked) -> web.StreamResponse:
    """The same message in the shape that was asked for; the stream tells each text in two pieces."""
    if not asked.json.get("stream"):
        return web.json_response(completion(MESSAGE, **FIELDS))
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for name, value in MESSAGE.items():
        if name == "role":
            continue
        if isinstance(value, str):
            deltas += [{name: value[:9]}, {name: value[9:]}]
        else:
            deltas.append({name: value})
    return await stream_of(request_, [chunked(deltas, **FIELDS)])


@pytest.mark.parametrize("first", [False, True], ids=["json first", "stream first"])
@pytest.mark.parametrize("second", [False, True], ids=["json", "stream"])
async def test_every_field_of_the_message_survives_a_hit(house: OpenHouse, first: bool, second: bool) -> None:
    """E4 (litellm#32068): reasoning was lost on a hit. Field by field, both ways, in both shapes."""
    async with ScriptedWorker(whole_or_stream) as worker, house([worker]) as h:
        fresh = await h.ask(stream=first)
        hit = await h.ask(stream=second)
        assert not fresh.hit and hit.hit and hit.streamed is second
        assert len(worker.calls) == 1
        for told in (fresh, hit):
            for name, value in MESSAGE.items():
                assert told.message[name] == value, name
            assert told.message.keys() == MESSAGE.keys()
            for name, value in FIELDS.items():
                assert told.json[name] == value, name
            choice = told.json["choices"][0]
            assert (choice["index"], choice["finish_reason"]) == (0, "stop")
            assert (told.json["model"], told.json["created"]) == ("demo", 1_700_000_000)
        assert hit.json["id"] != fresh.json["id"], "each delivery has an id of its own"
        assert hit.json["id"].startswith("chatcmpl-")


@pytest.mark.parametrize("shapes", [(False, True), (True, False), (True, True), (False, False)])
async def test_every_field_survives_a_shared_generation_too(house: OpenHouse, shapes: tuple[bool, bool]) -> None:
    """E4, H6: a refusal is never stored, so only a generation in the air can be shared."""
    message = {**MESSAGE, "refusal": "I would rather not."}
    go_on = asyncio.Event()

    async def answer(request_: web.Request, asked: Asked) -> web.StreamResponse:
        await go_on.wait()
        if asked.json.get("stream"):
            return await stream_of(request_, [chunked([message])])
        return web.json_response(completion(message))

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        leader = asyncio.create_task(h.ask(stream=shapes[0]))
        await h.until(lambda: worker.calls)
        follower = asyncio.create_task(h.ask(stream=shapes[1]))
        await h.until(lambda: all(flight.listeners == 2 for flight in flights(h)))
        go_on.set()
        for told, stream in zip(await asyncio.gather(leader, follower), shapes, strict=True):
            assert told.streamed is stream
            assert told.message == message
        assert len(worker.calls) == 1
        assert await h.stored() == 0


def flights(h: House) -> list[Any]:
    return list(h.proxy.flights._by_key.values())


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_ten_streams_of_one_question_are_nine_hits(house: OpenHouse, embedder: str) -> None:
    """E1 (semantic-router#1555, #2030): streamed answers were never stored. E3 (higress#1624): they missed."""
    async with house(embedder=embedder) as h:
        told = [await h.ask(stream=True) for _ in range(10)]
        assert [one.hit for one in told] == [False] + [True] * 9
        assert (await h.ask("Why is the sky so blue?", stream=True)).hit, "by meaning, too"
        assert h.calls == 1


async def test_a_half_told_answer_is_never_seen_as_a_whole_one(house: OpenHouse) -> None:
    """E1: an empty placeholder shadowed the full answer."""
    halfway, go_on = asyncio.Event(), asyncio.Event()

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        data = chunked([{"role": "assistant", "content": ""}, {"content": "the whole "}, {"content": "answer"}])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request_)
        await response.write(data[: len(data) // 2])
        halfway.set()
        await go_on.wait()
        await response.write(data[len(data) // 2 :])
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        leader = asyncio.create_task(h.ask(stream=True))
        await halfway.wait()
        late = [asyncio.create_task(h.ask(stream=stream)) for stream in (True, False)]
        await h.until(lambda: flights(h)[0].listeners == 3)
        assert (await h.ask(cache_control="only-if-cached")).status == 504
        go_on.set()
        told = await asyncio.gather(leader, *late)
        assert [one.text for one in told] == ["the whole answer"] * 3
        assert (await h.ask()).text == "the whole answer"
        assert len(worker.calls) == 1


async def test_the_openai_library_reads_a_replayed_stream(house: OpenHouse) -> None:
    """E2, routing 47 (semantic-router#913): a stream hit was no stream."""
    async with house() as h, openai.AsyncOpenAI(base_url=f"{h.url}/v1", api_key="sk-x", max_retries=0) as client:
        messages: list[Any] = turns("Why is the sky blue?")
        whole = await client.chat.completions.create(model="demo", messages=messages)
        await h.settled()
        for include_usage in (True, False):
            options: Any = {"include_usage": True} if include_usage else openai.omit
            stream = await client.chat.completions.create(
                model="demo", messages=messages, stream=True, stream_options=options
            )
            chunks = [chunk async for chunk in stream]
            spoken = [chunk for chunk in chunks if chunk.choices]
            assert len({chunk.id for chunk in chunks}) == 1
            assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
            assert spoken[0].choices[0].delta.role == "assistant"
            assert len(spoken) > 3, "in pieces, as a worker tells it"
            assert "".join(c.choices[0].delta.content or "" for c in spoken) == whole.choices[0].message.content
            assert [c.choices[0].finish_reason for c in spoken].count("stop") == 1
            assert spoken[-1].choices[0].finish_reason == "stop"
            usages = [chunk.usage for chunk in chunks if chunk.usage is not None]
            assert usages == ([whole.usage] if include_usage else [])
        assert h.calls == 1


async def test_the_usage_chunk_is_told_to_those_who_asked_for_it_and_to_nobody_else(house: OpenHouse) -> None:
    """E2: we ask the worker for it in any case, the caller must not notice."""
    async with house() as h:
        for fields in ({}, {"stream_options": {"include_usage": True}}, {"stream_options": {"include_usage": False}}):
            for question in ("Why is the sky blue?", f"Why is {fields} so?"):  # a hit (but for the first), and a miss
                told = await h.ask(question, stream=True, **fields)
                asked = bool(fields.get("stream_options", {}).get("include_usage"))
                assert [bool(chunk.get("usage")) for chunk in told.chunks if not chunk["choices"]] == [True] * asked
                assert told.done and told.body.count(b"[DONE]") == 1


async def test_a_stream_and_its_replay_tell_events_of_one_shape(house: OpenHouse) -> None:
    """E2: what a client can see of the framing."""
    async with house() as h:
        for told in (await h.ask(stream=True), await h.ask(stream=True)):
            assert told.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            for block in told.body.removesuffix(b"\n\n").split(b"\n\n"):
                assert block.startswith(b"data: ") and b"\n" not in block
            for chunk in told.chunks:
                assert {"id", "object", "created", "model", "choices"} <= chunk.keys()
                assert all({"index", "delta", "finish_reason"} <= choice.keys() for choice in chunk["choices"])


@pytest.mark.parametrize("done", [False, True], ids=["without [DONE]", "with [DONE]"])
@pytest.mark.parametrize("after", [0, 1, 5])
async def test_a_stream_that_was_cut_is_not_stored(house: OpenHouse, done: bool, after: int) -> None:
    """E5 (gonka#1722): stored for an hour; a synthetic [DONE] fooled the check."""
    async with house() as h:
        h.workers[0].fault("cut", after=after, done=done, times=1)
        await h.ask(stream=True)
        assert await h.stored() == 0
        told = await h.ask()
        assert not told.hit and told.text
        assert h.calls == 2


@pytest.mark.parametrize(("finish", "done"), [("stop", False), (None, True), (None, False)])
async def test_a_stream_is_whole_only_with_its_finish_reason_and_its_done(
    house: OpenHouse, finish: str | None, done: bool
) -> None:
    """E5: either alone may be made up by something between us and the worker."""
    whole = chunked([{"role": "assistant", "content": ""}, {"content": "all of it"}], finish=finish)
    said = whole if done else whole.removesuffix(b"data: [DONE]\n\n")

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        return await stream_of(request_, [said])

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        for _ in range(2):
            told = await h.ask(stream=True, stream_options={"include_usage": True})
            assert (told.body, told.hit) == (said, False)
            assert await h.stored() == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_without_choices_is_told_as_it_is_and_never_stored(house: OpenHouse, stream: bool) -> None:
    """E7 (litellm PR#40294): such an entry gave a 500, or a blank stream."""
    async with house() as h:
        h.workers[0].fault("no_choices", times=1)
        told = await h.ask(stream=stream)
        assert told.status == 200
        assert await h.stored() == 0
        assert (await h.ask(stream=stream)).text
        assert h.calls == 2


STRANGE = (
    {"choices": ["text"]}, {"choices": [None]}, {"choices": {"0": {}}}, {"choices": [{"index": "one", "delta": {}}]},
    {"choices": [{"index": 0, "delta": "text"}]}, {"choices": [{"index": 0, "delta": ["text"]}]},
    {"choices": [{"index": 0, "delta": {"content": {"a": 1}}}]}, {"choices": 7}, [], "text", 1, None,
    {"choices": [{"index": 0, "text": 5}]}, {"choices": [{"index": [], "delta": {}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": "x"}}]}, {"usage": "many", "choices": []},
    {"choices": [{"index": 0, "message": "x", "finish_reason": ["stop"]}]},
)  # fmt: skip


@pytest.mark.parametrize("strange", STRANGE, ids=[orjson.dumps(one).decode() for one in STRANGE])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_we_cannot_read_is_passed_on_unharmed_and_never_stored(
    house: OpenHouse, strange: Any, stream: bool
) -> None:
    """E7, the whole kind: our reading of an answer must not break the answer."""
    good = chunked([{"role": "assistant", "content": "fine"}])
    said = b"data: " + orjson.dumps(strange) + b"\n\n" + good if stream else orjson.dumps(strange)

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        if stream:
            return await stream_of(request_, [said])
        return web.Response(body=said, content_type="application/json")

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        told = await h.ask(stream=stream, stream_options={"include_usage": True} if stream else None)
        assert told.status == 200
        assert told.body == said
        if not (stream and strange == {"usage": "many", "choices": []}):
            assert await h.stored() == 0


async def test_who_leaves_in_the_middle_leaves_nothing_behind(house: OpenHouse) -> None:
    """E8 (freellmapi#1098): half an answer must not be stored as one."""
    async with house() as h:
        h.workers[0].fault("stall", after=4)
        async with h.client.post("/v1/chat/completions", json=request("Why is the sky blue?", stream=True)) as reply:
            await reply.content.readuntil(b"\n\n")
        await h.workers[0].until(lambda: h.asked[0].disconnected_at_s)
        await h.until(lambda: h.at_rest)
        assert await h.stored() == 0
        h.workers[0].fault()
        assert not (await h.ask()).hit


async def test_a_tools_result_is_never_answered_by_meaning(house: OpenHouse) -> None:
    """E10 (litellm#28778): lost tool results made agents run in circles."""

    def agent(weather: str) -> list[dict[str, Any]]:
        call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        return [
            {"role": "user", "content": "Which coat do I need?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": weather},
        ]

    async with house(embedder=alike()) as h:
        for messages in (agent("rain"), agent("snow"), [*agent("rain"), *turns("And which shoes?")],
                         [*agent("snow"), *turns("And which shoes?")],
                         [*agent("snow"), *turns("So which shoes?")]):  # fmt: skip
            told = await h.ask(messages)
            assert told.status == 200 and not told.hit
        assert h.calls == 5


WORDS = "Grüße, 世界 🌍!"
UTF8 = b"".join(
    b"data: " + orjson.dumps(chunk) + b"\n\n"
    for chunk in (
        {"id": "1", "object": "chat.completion.chunk", **rest}
        for rest in (
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": WORDS}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        )
    )
) + b"data: [DONE]\n\n"  # fmt: skip


COMMENTED = b": hello\n\n" + UTF8.replace(b"data: ", b"data:")


@pytest.mark.parametrize("data", [UTF8, UTF8.replace(b"\n", b"\r\n"), COMMENTED],
                         ids=["vLLM", "CRLF", "comment, no space"])  # fmt: skip
async def test_bytes_are_relayed_as_they_came_wherever_the_network_cut_them(house: OpenHouse, data: bytes) -> None:
    """31 (litellm#30224, aibrix#2653, plano#980): events and UTF-8 characters split across reads were re-framed or
    lost.
    Every split point, and once byte by byte."""

    async def answer(request_: web.Request, asked: Asked) -> web.StreamResponse:
        cut = asked.json["cut"]
        pieces = [data[i : i + 1] for i in range(len(data))] if cut == 0 else [data[:cut], data[cut:]]
        return await stream_of(request_, [piece for piece in pieces if piece])

    async def split_at(h: House, cut: int) -> tuple[Told, Told]:
        with_usage = {"stream": True, "stream_options": {"include_usage": True}}
        return await h.ask(cut=cut, **with_usage), await h.ask(cut=cut)

    async with ScriptedWorker(answer) as worker, house([worker], embedder="none") as h:
        for start in range(0, len(data), 40):
            for relayed, stored in await asyncio.gather(*(
                split_at(h, cut) for cut in range(start, min(start + 40, len(data)))
            )):  # fmt: skip
                assert relayed.body == data
                assert stored.hit and stored.text == WORDS
        without = await h.ask(cut=5, stream=True, cache_control="no-cache")
        assert not any(chunk.get("usage") for chunk in without.chunks)
        assert without.text == WORDS


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_completion_is_reused_in_both_shapes(house: OpenHouse, stream: bool) -> None:
    """E3, `/v1/completions`."""
    async with SimulatedWorker() as worker, house([worker]) as h:
        body = {"model": "demo", "prompt": "Once upon a time"}

        async def told(streamed: bool) -> Told:
            one = await h.send("POST", "/v1/completions", json={**body, "stream": streamed})
            await h.settled()
            return one

        first, second, third = await told(stream), await told(not stream), await told(stream)
        assert [one.hit for one in (first, second, third)] == [False, True, True]
        assert len({one.json["choices"][0]["text"] for one in (first, second, third)}) == 1
        assert {one.json["object"] for one in (first, second, third)} == {"text_completion"}
        assert h.calls == 1
