"""At the door: keys, CORS, sizes, errors, and whatever nonsense comes in. Routing cases 22, 37, 38, 42."""

import asyncio
import json
import time
from typing import Any

import orjson
import pytest
from aiohttp import web
from house import CHAT, OpenHouse, request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted import Asked, ScriptedWorker, completion

PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/models",
    "/v1/models/demo",
    "/v1/embeddings",
    "/tokenize",
    "/nowhere",
)


async def test_an_unknown_model_is_404_in_openais_words(house: OpenHouse) -> None:
    """Issue: and says which models there are."""
    async with house() as h:
        for stream in (False, True):
            told = await h.ask(model="gpt-5", stream=stream)
            assert (told.status, told.error["code"], told.error["param"]) == (404, "model_not_found", "model")
            assert "`gpt-5`" in told.error["message"] and "`demo`" in told.error["message"]
        assert h.calls == 0


async def test_without_any_worker_it_is_503_and_says_when_to_come_back(house: OpenHouse) -> None:
    """Issue."""
    async with house(0) as h:
        for stream in (False, True):
            told = await h.ask(stream=stream)
            assert (told.status, told.error["code"]) == (503, "no_worker")
            assert int(told.headers["Retry-After"]) >= 1
        assert (await h.send("GET", "/ready")).status == 503
        assert (await h.send("GET", "/v1/models")).status == 503
        assert (await h.send("GET", "/health")).status == 200


async def test_when_all_workers_are_gone_what_is_cached_is_still_answered(house: OpenHouse) -> None:
    """Issue: that is what a cache is for."""
    async with house(workers=2) as h:
        await h.ask()
        for worker in h.workers:
            await worker.kill()
        assert (await h.ask(stream=True)).hit
        told = await h.ask("How far is the moon?")
        assert told.status == 503 and int(told.headers["Retry-After"]) >= 1


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
async def test_a_body_beyond_the_limit_is_413_in_openais_words(house: OpenHouse, path: str, chunked: bool) -> None:
    """37 (hermes-agent#13875, mnfst#2126, sglang#38735): 404, or a truncated JSON. Chunked uploads count, too."""
    body = orjson.dumps(request("x" * 3000))

    async def pieces() -> Any:
        for start in range(0, len(body), 500):
            yield body[start : start + 500]

    async with house(body_limit_bytes=2048) as h:
        data = pieces() if chunked else body
        told = await h.send("POST", path, data=data, headers={"Content-Type": "application/json"})
        assert (told.status, told.error["code"], told.error["type"]) == (
            413,
            "request_too_large",
            "invalid_request_error",
        )
        assert "2048" in told.error["message"]
        assert h.calls == 0
        assert (await h.ask()).status == 200


async def test_pictures_of_many_megabytes_pass(house: OpenHouse) -> None:
    """37, 38 (GIE#854, #2928): 1 MB and 5 MB caps broke pictures, prompts over 128 KB were 500."""
    picture = "data:image/png;base64," + "iVBORw0KGgo" * 1_000_000  # 11 MB
    async with house() as h:
        told = await h.ask([{"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": picture}}]}])  # fmt: skip
        assert told.status == 200
        assert h.bodies[0]["messages"][0]["content"][1]["image_url"]["url"] == picture


async def test_a_prompt_of_eight_megabytes_passes_and_blocks_nobody(house: OpenHouse) -> None:
    """38: the loop that reads it is everybody's."""

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        return web.json_response(completion({"content": "fine"}))

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        long = asyncio.create_task(h.ask("word " * 1_600_000))
        slowest_s = 0.0
        while not long.done():
            began_s = time.perf_counter()
            assert (await h.send("GET", "/health")).status == 200
            slowest_s = max(slowest_s, time.perf_counter() - began_s)
        assert (await long).status == 200
        assert len(worker.calls[0].body) > 8_000_000
        assert slowest_s < 0.5, "some 0.1 s on an idle machine; it was 10 s when every word was read"


async def test_health_answers_at_once_while_a_thousand_wait(house: OpenHouse) -> None:
    """22 (production-stack#448): the liveness probe timed out and the pod was restarted."""
    async with house() as h:
        h.workers[0].fault("hang")
        waiting = [asyncio.create_task(h.ask(f"Question {n}?")) for n in range(1000)]
        await h.until(lambda: h.calls == 1000, timeout_s=30)
        for path in ("/health", "/ready", "/metrics"):
            durations = []
            for _ in range(10):
                began_s = time.perf_counter()
                assert (await h.send("GET", path)).status == 200
                durations.append(time.perf_counter() - began_s)
            assert sorted(durations)[5] < 0.05, path
        assert await h.metric("rejoinder_requests_in_flight") == 1000
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await h.until(lambda: h.at_rest)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", PATHS)
async def test_with_keys_configured_every_path_asks_for_one(house: OpenHouse, path: str) -> None:
    """Issue: api_keys."""
    async with house(api_keys={"key-ann": "acme"}) as h:
        method = "GET" if "models" in path else "POST"
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "key-ann2"}, {"X-Api-Key": "wrong"}):
            told = await h.send(method, path, json=request("hi") if method == "POST" else None, headers=headers)
            assert (told.status, told.error["code"]) == (401, "invalid_api_key")
            assert told.headers["WWW-Authenticate"] == "Bearer"
        assert h.calls == 0
        for headers in (
            {"Authorization": "Bearer key-ann"},
            {"Authorization": "bearer  key-ann"},
            {"X-Api-Key": "key-ann"},
        ):
            told = await h.send(method, path, json=request("hi") if method == "POST" else None, headers=headers)
            assert told.status != 401


async def test_the_clients_key_never_reaches_a_worker_when_we_asked_for_it(house: OpenHouse) -> None:
    """Issue, DESIGN 8: `worker_api_key` does; without our own keys the client's are forwarded."""
    async with house(api_keys={"key-ann": "acme"}, worker_api_key="for-workers") as h:
        for path in (CHAT, "/v1/embeddings"):
            await h.post(path, orjson.dumps(request("hi")), {
                "Authorization": "Bearer key-ann", "X-Api-Key": "key-ann", "Cookie": "rejoinder_session=x; other=y",
            })  # fmt: skip
        for call in h.asked:
            assert call.headers["Authorization"] == "Bearer for-workers"
            assert "key-ann" not in str(call.headers)
    async with house(store="memory") as h:
        await h.ask(key="sk-own")
        assert h.asked[0].headers["Authorization"] == "Bearer sk-own"


# ── CORS ─────────────────────────────────────────────────────────────────────────────────────────────────────────

PREFLIGHT = {
    "Origin": "https://chat.example", "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-session-id",
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_a_preflight_is_answered_before_anybody_is_asked_for_a_key(house: OpenHouse, path: str) -> None:
    """42 (agentgateway#1020, 9router#3025, llm-rosetta#404)."""
    async with house(api_keys={"k": "acme"}) as h:
        told = await h.send("OPTIONS", path, headers=PREFLIGHT)
        assert told.status in (200, 204)
        assert told.headers["Access-Control-Allow-Origin"] in ("*", PREFLIGHT["Origin"])
        assert "POST" in told.headers["Access-Control-Allow-Methods"]
        assert "x-session-id" in told.headers["Access-Control-Allow-Headers"].lower()
        assert h.calls == 0


async def test_errors_can_be_read_by_a_page_too(house: OpenHouse) -> None:
    """42: a 401 without CORS headers is "network error" in a browser."""
    page = {"Origin": "https://chat.example"}
    async with house(api_keys={"k": "acme"}, body_limit_bytes=2000) as h:
        good = {**page, "Authorization": "Bearer k"}
        for status, body, headers in (
            (401, b"{}", page), (400, b"{", good), (413, b" " * 3000, good),
            (404, orjson.dumps(request("hi", model="x")), good),
            (504, orjson.dumps(request("hi", cache={"only-if-cached": True})), good),
            (200, orjson.dumps(request("hi")), good),
            (200, orjson.dumps(request("hi", stream=True)), good),
        ):  # fmt: skip
            told = await h.post(CHAT, body, headers)
            assert told.status == status
            assert told.headers["Access-Control-Allow-Origin"] == "*"
            assert "Cache-Status" in told.headers["Access-Control-Expose-Headers"]


async def test_only_the_configured_origins_may_call_and_none_may_see_the_admin(house: OpenHouse) -> None:
    """42, DESIGN 8: no CORS on /admin."""
    async with house(cors_origins=("https://chat.example",)) as h:
        mine, other = {"Origin": "https://chat.example"}, {"Origin": "https://evil.example"}
        assert (await h.ask(headers=mine)).headers["Access-Control-Allow-Origin"] == mine["Origin"]
        told = await h.ask(headers=other)
        assert "Access-Control-Allow-Origin" not in told.headers
        assert told.headers["Vary"] == "Origin"
        preflight = await h.send("OPTIONS", CHAT, headers={**PREFLIGHT, **other})
        assert "Access-Control-Allow-Origin" not in preflight.headers
        for headers in (mine, {**PREFLIGHT, **mine}):
            told = await h.send("OPTIONS", "/admin/explain", headers=headers)
            assert "Access-Control-Allow-Origin" not in told.headers
        told = await h.post("/admin/explain", orjson.dumps(request("hi")), mine)
        assert told.status == 403 and "Access-Control-Allow-Origin" not in told.headers


# ── nonsense ─────────────────────────────────────────────────────────────────────────────────────────────────────

NOT_JSON = (b"", b"{", b"nonsense", b"\xff\xfe\x00", b'{"model": "demo",}', b"{'model': 1}", b"\x00" * 100,
            b'{"a":' * 5000, b'"\\ud800"', b'{"temperature": NaN}', b'{"temperature": 1e999}')  # fmt: skip
NOT_A_REQUEST = (b"[]", b"null", b"5", b'"text"', b"true")


@pytest.mark.parametrize("body", NOT_JSON + NOT_A_REQUEST)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_what_is_no_request_is_400_and_says_so(house: OpenHouse, path: str, body: bytes) -> None:
    """Issue: invalid JSON."""
    async with house(embedder="none") as h:
        told = await h.post(path, body)
        assert (told.status, told.error["type"]) == (400, "invalid_request_error")
        assert "JSON" in told.error["message"]
        assert h.calls == 0


HI = [{"role": "user", "content": "hi"}]
ODD = (
    {}, {"messages": None}, {"messages": "hi"}, {"messages": []}, {"messages": [1]}, {"messages": [{}]},
    {"model": 5, "messages": []},
    {"messages": [{"role": "user"}]}, {"messages": [{"role": 5, "content": {"a": 1}}]},
    {"messages": [{"role": "user", "content": [5]}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
    {"messages": [{"role": "user", "content": ""}]},
    {"messages": [{"role": ["user"], "content": "hi"}]},
    {"messages": [{"role": {"a": 1}, "tool_calls": 7, "content": "hi"}]},
    {"messages": HI, "stream": "yes"}, {"messages": HI, "stream_options": 5},
    {"messages": HI, "max_tokens": "many"}, {"messages": HI, "max_tokens": -5},
    {"messages": HI, "max_tokens": 1e30}, {"messages": HI, "n": "two"},
    {"messages": HI, "session_id": 5, "user": [], "conversation": {"id": {}}},
    {"messages": [{"role": "user", "content": "\u0000\uffff"}], "response_format": "json", "modalities": {"a": 1}},
    {"messages": HI, "tools": "all", "functions": 3, "logprobs": "x", "audio": []},
    {"prompt": {"a": 1}}, {"prompt": [[1, 2], [3]]},
)  # fmt: skip


@pytest.mark.parametrize("body", ODD, ids=lambda body: json.dumps(body)[:60])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_what_we_do_not_understand_the_worker_may_judge(
    house: OpenHouse, path: str, body: dict[str, Any]
) -> None:
    """Issue: no traceback, no 500 of ours; the worker's own words come through."""
    async with ScriptedWorker(teapot) as worker, house([worker], embedder="none") as h:
        told = await h.post(path, orjson.dumps(body))
        assert told.status in (400, 418), told.body
        assert told.body == TEAPOT or told.error["type"] == "invalid_request_error"
        assert len(worker.calls) == (told.status == 418)


TEAPOT = b'{"error":{"message":"teapot","type":"Teapot","param":null,"code":418}}'


async def teapot(request_: web.Request, _: Asked) -> web.StreamResponse:
    return web.Response(status=418, body=TEAPOT, content_type="application/json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KNOWN = ("model", "messages", "prompt", "stream", "stream_options", "max_tokens", "n", "tools", "response_format",
         "cache", "session_id", "conversation", "user", "metadata", "logprobs", "temperature", "seed", "modalities",
         "audio")  # fmt: skip
TURN = st.fixed_dictionaries({}, optional={
    "role": st.sampled_from(["user", "assistant", "system", "tool", "developer"]) | JSON, "content": JSON,
    "tool_calls": JSON, "audio": JSON, "name": JSON,
})  # fmt: skip
BODY = (
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(KNOWN, JSON),
            "messages": st.lists(TURN, max_size=5) | JSON,
            "model": st.just("demo") | JSON,
        },
    )
    | JSON
)
NAMES = ("Cache-Control", "X-Session-ID", "X-Request-Id", "Pragma", "Cookie", "Authorization", "Origin", "Content-Type")
HEADERS = st.dictionaries(
    st.sampled_from(NAMES), st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=40), max_size=3
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(asked=st.lists(st.tuples(BODY, HEADERS, st.sampled_from([CHAT, "/v1/completions", "/tokenize"])),
                      min_size=5, max_size=12))  # fmt: skip
async def test_arbitrary_json_never_hangs_and_never_breaks_us(house: OpenHouse, asked: list[Any]) -> None:
    """Issue: bad input never hangs, never shows a traceback, is never our own 500."""
    async with ScriptedWorker(teapot) as worker, house([worker], embedder="none", store="memory", metrics=False) as h:
        for body, headers, path in asked:
            async with asyncio.timeout(5):
                told = await h.post(
                    path, orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS) if fits(body) else b"{}", headers
                )
            assert told.status in (400, 404, 418), (told.status, told.body)
            assert b"Traceback" not in told.body
            assert told.body == TEAPOT or set(told.error) == {"message", "type", "param", "code"}
        await h.until(lambda: h.at_rest)


def fits(value: Any) -> bool:
    """orjson writes integers of 64 bits only."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("depth", [200, 260, 1000])
@pytest.mark.parametrize("place", ["a_new_field", "messages", "cache", "metadata"])
async def test_a_body_as_deep_as_a_well_is_no_error_of_ours(house: OpenHouse, depth: int, place: str) -> None:
    """Issue: what the parser reads, the canonical form must write, or we must say no."""
    nested = b"[" * depth + b"]" * depth
    async with ScriptedWorker(teapot) as worker, house([worker], embedder="none") as h:
        body = b'{"model":"demo","messages":[{"role":"user","content":"hi"}],"stream":true,"%b":%b}' % (
            place.encode(),
            nested,
        )
        told = await h.post(CHAT, body)
        assert told.status in (400, 418), told.body


RAW = (
    b"GET http://elsewhere.example/v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET //v1//models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET /v1/models/%ff%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"POST /tokenize HTTP/1.1\r\nHost: x\r\nX-Request-Id: \xff\xfe\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    b"POST /tokenize HTTP/1.1\r\nHost: x\r\nX-Session-ID: \xff\xfe\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: \xff\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\nContent-Length: 2\r\n"
    b"Connection: close\r\n\r\n{}",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n"
    b"Connection: close\r\n\r\n{}",
    b"GET /admin/../v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"BREW /pot HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"not http at all\r\n\r\n",
)


@pytest.mark.parametrize("raw", RAW)
async def test_odd_bytes_on_the_wire_are_answered_and_are_no_fault_of_ours(
    house: OpenHouse, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue: what no client library sends, somebody sends."""
    async with ScriptedWorker(teapot) as worker, house([worker], embedder="none") as h:
        host, port = h.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(raw)
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1."), answer
        assert not answer.split(b" ")[1].startswith(b"5"), answer
        assert b"Traceback" not in answer
        assert not [
            record for record in caplog.records if record.exc_info and record.name.startswith(("proxy", "cache"))
        ]
        assert (await h.send("GET", "/health")).status == 200


async def test_the_admin_door_is_never_passed_on(house: OpenHouse) -> None:
    """DESIGN 8: our own name space."""
    async with ScriptedWorker(teapot) as worker, house([worker]) as h:
        for method in ("GET", "POST", "DELETE", "PUT"):
            for path in ("/admin", "/admin/", "/admin/entries", "/admin/explain/x"):
                told = await h.send(method, path)
                assert (told.status, told.error["code"]) == (404, "not_found")
        assert worker.calls == []


async def test_the_workers_own_cors_headers_stop_at_our_door(house: OpenHouse) -> None:
    """Found in review: a forbidden origin was let in by the worker, and an allowed one got two Allow-Origin headers."""

    async def answer(_: web.Request, __: Asked) -> web.StreamResponse:
        headers = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true"}
        return web.json_response(completion({"content": "fine"}), headers=headers)

    async with ScriptedWorker(answer) as worker, house([worker], cors_origins=("https://ok.example",)) as h:
        for origin, allowed in (("https://ok.example", ["https://ok.example"]), ("https://evil.example", [])):
            for path in ("/v1/chat/completions", "/v1/score"):
                told = await h.send("POST", path, json=request("Hello?"), headers={"Origin": origin})
                assert told.headers.getall("Access-Control-Allow-Origin", []) == allowed
                assert "Access-Control-Allow-Credentials" not in told.headers


async def test_a_body_that_curl_calls_a_form_reaches_the_worker_as_the_json_it_is(house: OpenHouse) -> None:
    """Found in review: `curl -d` says so, and vLLM takes nothing but application/json."""
    async with house() as h:
        body = orjson.dumps(request("How do I descale the kettle?"))
        told = await h.post("/v1/chat/completions", body, {"Content-Type": "application/x-www-form-urlencoded"})
        assert told.status == 200
        [call] = h.asked
        assert [value for name, value in call.headers.items() if name.lower() == "content-type"] == ["application/json"]


async def test_callers_with_different_credentials_share_nothing_whatever_the_header(house: OpenHouse) -> None:
    """Found in review, B3: a worker may check any of them, so each of them is another caller."""
    async with house() as h:
        for header in ("Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"):
            for who in ("alice", "bob"):
                assert not (await h.ask("How do I descale the kettle?", headers={header: f"{who} {header}"})).hit
        assert h.calls == 8
