import asyncio
import base64
import contextlib
import math
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest
from openai import APIConnectionError, APIStatusError, AsyncOpenAI
from prometheus_client.parser import text_string_to_metric_families

from proxy.demo import Fault, Pace, SimulatedWorker
from proxy.faults import APOLOGY
from proxy.simulated import BLOCK_TOKENS, PrefixCache, answer_to, read_chat, tokens_of


@pytest.fixture
async def worker() -> AsyncIterator[SimulatedWorker]:
    async with SimulatedWorker(models=["demo", "other"]) as started:
        yield started


@pytest.fixture
async def http(worker: SimulatedWorker) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(worker.url) as session:
        yield session


def asks(text: str = "Why is the sky blue?", **fields: Any) -> dict[str, Any]:
    return {"model": "demo", "messages": [{"role": "user", "content": text}], **fields}


async def post(http: aiohttp.ClientSession, path: str, body: Any) -> tuple[int, Any]:
    async with http.post(path, json=body) as response:
        return response.status, await response.json()


async def events(http: aiohttp.ClientSession, body: Any, path: str = "/v1/chat/completions") -> list[Any]:
    async with http.post(path, json={**body, "stream": True}) as response:
        assert response.content_type == "text/event-stream"
        told = (await response.read()).decode().removesuffix("\n\n").split("\n\n")
    return [line if line == "data: [DONE]" else orjson.loads(line.removeprefix("data: ")) for line in told]


async def test_it_says_that_it_is_simulated(http: aiohttp.ClientSession) -> None:
    async with http.get("/v1/models") as response:
        assert response.headers["X-Simulated"] == "true"
        cards = (await response.json())["data"]
    assert [card["id"] for card in cards] == ["demo", "other"]
    assert {card["owned_by"] for card in cards} == {"rejoinder-simulated"}
    async with http.post("/v1/chat/completions", json=asks()) as response:
        assert response.headers["X-Simulated"] == "true"


async def test_a_whole_answer_has_vllm_s_fields(http: aiohttp.ClientSession) -> None:
    status, answer = await post(http, "/v1/chat/completions", asks())
    assert status == 200
    assert {
        "id",
        "object",
        "created",
        "model",
        "choices",
        "service_tier",
        "system_fingerprint",
        "usage",
        "prompt_logprobs",
    } <= set(answer)
    choice = answer["choices"][0]
    fields = {"role", "content", "refusal", "annotations", "audio", "function_call", "reasoning"}
    assert set(choice["message"]) == fields
    assert choice["finish_reason"] == "stop" and "Why is the sky blue?" in choice["message"]["content"]
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert set(usage["prompt_tokens_details"]) == {"cached_tokens", "created_cache_tokens", "multimodal_tokens"}


async def test_a_stream_says_the_same_in_chunks(http: aiohttp.ClientSession) -> None:
    _, whole = await post(http, "/v1/chat/completions", asks())
    told = await events(http, asks(stream_options={"include_usage": True}))
    assert told[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert told[-1] == "data: [DONE]" and told[-2]["choices"] == []
    assert told[-2]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert "".join(c["choices"][0]["delta"]["content"] for c in told[:-2]) == whole["choices"][0]["message"]["content"]
    assert [c["choices"][0]["finish_reason"] for c in told[:-2]] == [None] * (len(told) - 3) + ["stop"]
    assert {c["id"] for c in told[:-1]} == {told[0]["id"]}
    assert "usage" not in (await events(http, asks()))[-2]


async def test_completions_have_both_shapes_too(http: aiohttp.ClientSession) -> None:
    body = {"model": "demo", "prompt": "Once upon a time"}
    _, whole = await post(http, "/v1/completions", body)
    assert whole["object"] == "text_completion" and "Once upon a time" in whole["choices"][0]["text"]
    told = await events(http, body, "/v1/completions")
    assert "".join(c["choices"][0]["text"] for c in told[:-1]) == whole["choices"][0]["text"]


async def test_log_probabilities_have_vllm_s_shape(http: aiohttp.ClientSession) -> None:
    _, told = await post(http, "/v1/completions", {"prompt": "Hello", "logprobs": 3, "max_tokens": 2})
    logprobs = told["choices"][0]["logprobs"]
    assert set(logprobs) == {"text_offset", "token_logprobs", "tokens", "top_logprobs"}
    assert "".join(logprobs["tokens"]) == told["choices"][0]["text"]
    assert [set(top) for top in logprobs["top_logprobs"]] == [{token} for token in logprobs["tokens"]]
    assert logprobs["text_offset"] == [0, len(logprobs["tokens"][0])]
    assert (await post(http, "/v1/completions", {"prompt": "Hello"}))[1]["choices"][0]["logprobs"] is None


async def test_a_verdict_has_two_sides(worker: SimulatedWorker, http: aiohttp.ClientSession) -> None:
    worker.verdict = lambda prompt: 0.25
    _, told = await post(http, "/v1/completions", {"prompt": "Yes or no?", "logprobs": 20, "max_tokens": 1})
    (choice,) = told["choices"]
    assert choice["text"] == " no" and choice["finish_reason"] == "stop"
    assert choice["logprobs"]["top_logprobs"][0] == pytest.approx({" yes": math.log(0.25), " no": math.log(0.75)})
    assert "simulated answer" in str((await post(http, "/v1/chat/completions", asks()))[1]), "chats are as ever"


async def test_the_official_client_can_use_it(worker: SimulatedWorker) -> None:
    async with AsyncOpenAI(base_url=f"{worker.url}/v1", api_key="x", max_retries=0) as client:
        whole = await client.chat.completions.create(**asks())
        stream = await client.chat.completions.create(**asks(), stream=True)
        assert "".join([c.choices[0].delta.content or "" async for c in stream]) == whole.choices[0].message.content
        assert (await client.embeddings.create(model="demo", input=["a", "b"])).data[1].embedding
        worker.fault("status", status=429)
        with pytest.raises(APIStatusError):
            await client.chat.completions.create(**asks())
        worker.fault("reset")
        with pytest.raises(APIConnectionError):
            await client.chat.completions.create(**asks())


def test_another_question_history_or_model_gives_another_answer() -> None:
    def answer(model: str, *turns: str) -> str:
        messages = [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]
        return answer_to(read_chat({"model": model, "messages": messages}, ["a", "b"], "a"))

    answers = [
        answer("a", "q"),
        answer("b", "q"),
        answer("a", "p"),
        answer("a", "p", "x", "q"),
        answer("a", "p", "y", "q"),
    ]
    assert len(set(answers)) == 5 and answers[0] == answer("a", "q")


async def test_later_turns_hit_the_prefix_cache_with_the_answers_before(http: aiohttp.ClientSession) -> None:
    long = "word " * 100
    _, first = await post(http, "/v1/chat/completions", asks(long))
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    answer = first["choices"][0]["message"]
    turns = [
        {"role": "user", "content": long},
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": "And then?"},
    ]
    _, second = await post(http, "/v1/chat/completions", {"model": "demo", "messages": turns})
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert first["usage"]["prompt_tokens"] < cached < second["usage"]["prompt_tokens"] and cached % BLOCK_TOKENS == 0


def test_the_last_token_is_always_computed_and_salts_do_not_share() -> None:
    cache, prompt = PrefixCache(), ["x "] * 32
    assert [cache.take(prompt), cache.take(prompt), cache.take(prompt, "salt"), cache.take(prompt, "salt")] == [
        0,
        16,
        0,
        16,
    ]


def test_the_prefix_cache_forgets_the_oldest() -> None:
    cache = PrefixCache(blocks=4)
    old = [f"o{i}" for i in range(33)]
    cache.take(old)
    cache.take([f"n{i}" for i in range(64)])
    assert cache.take(old) == 0


async def test_a_truncated_answer_can_be_continued(http: aiohttp.ClientSession) -> None:
    _, whole = await post(http, "/v1/chat/completions", asks())
    _, part = await post(http, "/v1/chat/completions", asks(max_tokens=5))
    assert part["choices"][0]["finish_reason"] == "length" and part["usage"]["completion_tokens"] == 5
    begun = part["choices"][0]["message"]["content"]
    body = asks()
    body["messages"].append({"role": "assistant", "content": begun})
    status, _ = await post(http, "/v1/chat/completions", {**body, "continue_final_message": True})
    assert status == 400
    _, rest = await post(
        http, "/v1/chat/completions", {**body, "continue_final_message": True, "add_generation_prompt": False}
    )
    assert begun + rest["choices"][0]["message"]["content"] == whole["choices"][0]["message"]["content"]


async def test_several_choices_and_tools(http: aiohttp.ClientSession) -> None:
    _, several = await post(http, "/v1/chat/completions", asks(n=3))
    assert [c["index"] for c in several["choices"]] == [0, 1, 2]
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
    _, plain = await post(http, "/v1/chat/completions", asks(tools=tools))
    assert plain["choices"][0]["finish_reason"] == "stop"
    _, called = await post(http, "/v1/chat/completions", asks("Please call a tool", tools=tools))
    choice = called["choices"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "look_up"
    told = await events(http, asks("Please call a tool", tools=tools))
    assert told[1]["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "look_up"
    assert told[-2]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        (
            "/v1/chat/completions",
            {"model": "none", "messages": [{"role": "user", "content": "x"}]},
            404,
            "NotFoundError",
        ),
        ("/v1/chat/completions", {"model": "demo"}, 400, "Bad Request"),
        ("/v1/chat/completions", {**asks(), "cache_salt": ""}, 400, "BadRequestError"),
        ("/v1/completions", {"model": "demo"}, 400, "Bad Request"),
        ("/v1/chat/completions", [], 400, "Bad Request"),
    ],
)
async def test_refusals_have_vllm_s_envelope(
    http: aiohttp.ClientSession, path: str, body: Any, status: int, kind: str
) -> None:
    got, refusal = await post(http, path, body)
    assert got == status and refusal["error"]["type"] == kind and refusal["error"]["code"] == status
    assert set(refusal["error"]) == {"message", "type", "param", "code"}


async def test_unknown_paths_and_methods_are_refused_as_vllm_does(http: aiohttp.ClientSession) -> None:
    assert await post(http, "/v1/none", {}) == (404, {"detail": "Not Found"})
    async with http.get("/v1/chat/completions") as response:
        assert response.status == 405 and await response.json() == {"detail": "Method Not Allowed"}


async def test_calls_are_recorded_and_told_over_http(worker: SimulatedWorker, http: aiohttp.ClientSession) -> None:
    async with http.post("/v1/chat/completions", json=asks(), headers={"X-Session-ID": "s"}) as response:
        assert response.status == 200
    async with http.get("/health") as response:
        assert await response.read() == b""
    call = worker.calls[0]
    assert (call.path, call.headers["X-Session-ID"], call.json) == ("/v1/chat/completions", "s", asks())
    assert call.disconnected_at_s is None and call.ended_at_s is not None
    async with http.get("/calls") as response:
        assert [c["path"] for c in await response.json()] == ["/v1/chat/completions"]


async def test_faults_are_switched_over_http_and_can_be_counted(http: aiohttp.ClientSession) -> None:
    assert (await post(http, "/_fault", {"mode": "status", "status": 503, "times": 2}))[0] == 200
    assert [(await post(http, "/v1/chat/completions", asks()))[0] for _ in range(3)] == [503, 503, 200]
    for wrong in ({"mode": "no such"}, {"mode": "die", "colour": "red"}, []):
        assert (await post(http, "/_fault", wrong))[0] == 400


@pytest.mark.parametrize(
    ("mode", "text", "finish"),
    [
        ("empty", "", "stop"),
        ("apology", APOLOGY, "stop"),
        ("content_filter", None, "content_filter"),
        ("length", None, "length"),
    ],
)
async def test_poor_answers_come_whole_and_streamed(
    worker: SimulatedWorker, http: aiohttp.ClientSession, mode: str, text: str | None, finish: str
) -> None:
    worker.fault(mode)
    _, whole = await post(http, "/v1/chat/completions", asks())
    told = (await events(http, asks()))[:-1]
    assert whole["choices"][0]["finish_reason"] == told[-1]["choices"][0]["finish_reason"] == finish
    streamed = "".join(c["choices"][0]["delta"]["content"] for c in told)
    assert whole["choices"][0]["message"]["content"] == streamed
    if text is not None:
        assert streamed == text


async def test_choices_can_be_missing(worker: SimulatedWorker, http: aiohttp.ClientSession) -> None:
    worker.fault("no_choices")
    assert (await post(http, "/v1/chat/completions", asks()))[1]["choices"] == []
    assert all(chunk["choices"] == [] for chunk in (await events(http, asks()))[:-1])


@pytest.mark.parametrize("done", [True, False])
async def test_a_stream_can_be_cut_with_and_without_done(
    worker: SimulatedWorker, http: aiohttp.ClientSession, done: bool
) -> None:
    worker.fault("cut", after=3, done=done)
    told = await events(http, asks())
    assert len(told) == 3 + done and (told[-1] == "data: [DONE]") == done
    assert told[2]["choices"][0]["finish_reason"] is None


@pytest.mark.parametrize("stream", [True, False])
async def test_it_can_die_in_mid_answer(worker: SimulatedWorker, http: aiohttp.ClientSession, stream: bool) -> None:
    worker.fault("die", after=2)
    with pytest.raises(aiohttp.ClientError):
        async with http.post("/v1/chat/completions", json=asks(stream=stream)) as response:
            assert response.status == 200
            await response.read()


@pytest.mark.parametrize("stream", [True, False])
async def test_it_notices_a_client_that_leaves(
    worker: SimulatedWorker, http: aiohttp.ClientSession, stream: bool
) -> None:
    worker.pace = Pace(token_s=60)
    asking = asyncio.create_task(post(http, "/v1/chat/completions", asks(stream=stream)))
    await worker.until(lambda: worker.calls and worker.calls[0].body)
    if stream:
        await worker.until(lambda: worker.calls[0].chunks)
    left_s = time.monotonic()
    asking.cancel()
    await worker.until(lambda: worker.calls[0].disconnected_at_s)
    assert worker.calls[0].disconnected_at_s - left_s < 0.2


async def test_pace_is_kept_and_cached_tokens_are_free(http: aiohttp.ClientSession, worker: SimulatedWorker) -> None:
    worker.pace = Pace(prefill_token_s=0.002)
    body, times_s = asks("word " * 100, max_tokens=1), []
    for _ in range(2):
        began_s = time.monotonic()
        await post(http, "/v1/chat/completions", body)
        times_s.append(time.monotonic() - began_s)
    assert times_s[0] >= 0.2 and worker.calls[1].cached_tokens >= 96


async def test_it_can_be_killed_and_started_again_on_its_port(worker: SimulatedWorker) -> None:
    url = worker.url
    async with aiohttp.ClientSession() as session:
        await worker.kill()
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{url}/health")
        await worker.start()
        assert worker.url == url
        async with session.get(f"{url}/health") as response:
            assert response.status == 200


async def test_an_api_key_is_asked_for_where_vllm_asks() -> None:
    async with SimulatedWorker(api_key="k") as worker, aiohttp.ClientSession(worker.url) as http:
        async with http.get("/health") as response:
            assert response.status == 200
        assert (await post(http, "/v1/chat/completions", asks()))[0] == 401
        async with http.post("/v1/chat/completions", json=asks(), headers={"Authorization": "Bearer k"}) as response:
            assert response.status == 200


async def test_the_small_endpoints(http: aiohttp.ClientSession) -> None:
    for body in ({"prompt": "one two"}, asks("one two")):
        status, told = await post(http, "/tokenize", body)
        assert status == 200 and told["count"] == len(told["tokens"]) >= 2
    async with http.get("/version") as response:
        assert await response.json() == {"version": "0.32.0"}
    async with http.get("/load") as response:
        assert await response.json() == {"server_load": 0}
    async with http.get("/metrics") as response:
        assert "vllm:num_requests_running{" in await response.text()
    assert await post(http, "/reset_prefix_cache", {}) == (200, {"success": True})


def test_tokens_are_words_and_nothing_is_lost() -> None:
    for text in ("", " ", "a", "a b", "  a\n\nb  ", "你好 世界"):
        assert "".join(tokens_of(text)) == text


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown fault"):
        Fault("no such")


# -- faults on the wire ----------------------------------------------------------------------------------------------


async def dialogue(worker: SimulatedWorker, *requests: bytes, patience_s: float = 5.0) -> bytes:
    """What one connection says to these requests, until it is closed or silent for so long."""
    port = int(worker.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = b""
    try:
        for request in requests:
            writer.write(request)
            await writer.drain()
        async with asyncio.timeout(patience_s):
            while piece := await reader.read(65_536):
                heard += piece
    except TimeoutError:
        heard += b"<silence>"
    except ConnectionResetError:
        heard += b"<reset>"
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return heard


def raw_request(path: str = "/v1/chat/completions", **fields: Any) -> bytes:
    body = orjson.dumps(asks(**fields))
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings", "/v1/nowhere"])
async def test_what_happens_before_an_answer_happens_on_any_path(worker: SimulatedWorker, path: str) -> None:
    worker.fault("reset")
    assert await dialogue(worker, raw_request(path)) == b"<reset>"
    worker.fault("hang")
    assert await dialogue(worker, raw_request(path), patience_s=0.2) == b"<silence>"
    worker.fault("status", status=503, retry_after_s=2)
    told = await dialogue(worker, raw_request(path), patience_s=0.2)
    assert told.startswith(b"HTTP/1.1 503") and b"Retry-After: 2" in told
    pieces = (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", b"\r\nhi")
    worker.fault("raw", pieces=[base64.b64encode(piece).decode() for piece in pieces])
    assert await dialogue(worker, raw_request(path)) == b"".join(pieces)


async def test_a_half_closed_connection_ends_without_a_reset_and_is_seen_when_the_client_goes(
    worker: SimulatedWorker,
) -> None:
    worker.fault("half_close", after=0)
    assert await dialogue(worker, raw_request()) == b""
    await worker.until(lambda: worker.calls[0].disconnected_at_s)
    worker.fault("half_close", after=2)
    told = await dialogue(worker, raw_request(stream=True))
    assert told.count(b"data: ") == 2 and b"[DONE]" not in told


async def test_a_head_that_never_ends_is_said_byte_by_byte(worker: SimulatedWorker) -> None:
    worker.fault("slow_headers", wait_s=0.01)
    told = await dialogue(worker, raw_request(), patience_s=0.3)
    assert told.startswith(b"HTTP/1.1") and b"\r\n\r\n" not in told


async def test_a_stale_connection_serves_once(worker: SimulatedWorker) -> None:
    worker.fault("stale")
    told = await dialogue(worker, raw_request(), raw_request())
    assert told.count(b"HTTP/1.1 200") == 1 and b"<" not in told.replace(b"<|", b"")
    assert len({call.client_port for call in worker.calls}) == 1


async def test_a_flood_is_as_fast_as_its_reader(worker: SimulatedWorker, http: aiohttp.ClientSession) -> None:
    worker.fault("flood", after=400)  # 26 MB
    async with http.post("/v1/chat/completions", json=asks(stream=True)) as response:
        await response.content.readexactly(1)
        assert 0 < worker.calls[0].chunks < 400
        assert len(await response.read()) > 26_000_000


async def test_an_answer_can_be_late(worker: SimulatedWorker, http: aiohttp.ClientSession) -> None:
    worker.fault("slow", wait_s=0.2)
    began_s = time.monotonic()
    assert (await post(http, "/v1/chat/completions", asks()))[0] == 200
    assert time.monotonic() - began_s >= 0.2


async def test_metrics_have_vllm_s_names_and_count_tokens(worker: SimulatedWorker, http: aiohttp.ClientSession) -> None:
    async def read() -> dict[str, float]:
        async with http.get("/metrics") as response:
            families = text_string_to_metric_families(await response.text())
        return {sample.name: sample.value for family in families for sample in family.samples}

    _, first = await post(http, "/v1/chat/completions", asks("word " * 100))
    _, second = await post(http, "/v1/chat/completions", asks("word " * 100))
    told = await read()
    usages = [answer["usage"] for answer in (first, second)]
    assert told["vllm:prefix_cache_queries_total"] == sum(usage["prompt_tokens"] for usage in usages)
    cached = usages[1]["prompt_tokens_details"]["cached_tokens"]
    assert told["vllm:prefix_cache_hits_total"] == cached >= 96
    assert told["vllm:generation_tokens_total"] == sum(usage["completion_tokens"] for usage in usages)
    assert (told["vllm:num_requests_running"], told["vllm:kv_cache_usage_perc"]) == (0, 0)
    worker.fault("stall", after=1)
    async with http.post("/v1/chat/completions", json=asks(stream=True)) as response:
        await response.content.readexactly(1)
        told = await read()
        assert told["vllm:num_requests_running"] == 1 and 0 < told["vllm:kv_cache_usage_perc"] < 1
    async with http.get("/metrics") as response:
        assert 'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="4096"' in await response.text()


async def test_calls_can_be_forgotten_and_told_in_short(http: aiohttp.ClientSession) -> None:
    await post(http, "/v1/chat/completions", asks())
    async with http.get("/calls?body=5") as response:
        [call] = await response.json()
    assert call["body"] == '{"mod' and call["body_bytes"] > 50 and call["version"] == [1, 1]
    async with http.delete("/calls") as response:
        assert response.status == 200
    async with http.get("/calls") as response:
        assert await response.json() == []
