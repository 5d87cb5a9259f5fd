"""Everything that is not cached passes byte for byte. The list of the issue; routing cases 2, 4, 35, 36, 50."""

import asyncio
import gc
import gzip
import tracemalloc
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
import pytest
from aiohttp import web
from house import CHAT, OpenHouse, request, turns, until
from scripted import Asked, ScriptedWorker, chunked, completion, stream_of
from yarl import URL

from proxy.demo import SimulatedWorker

BYTES = bytes(range(256)) * 40


async def echo(request_: web.Request, asked: Asked) -> web.StreamResponse:
    """What came, and then some bytes that are no text."""
    return web.Response(
        status=207,
        body=asked.body + BYTES,
        headers={"Content-Type": "application/x-odd; a=b", "X-Own": "yes", "ETag": '"7"'},
    )


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "REPORT"])
@pytest.mark.parametrize("target", [
    "/v1/embeddings", "/tokenize", "/v1/files/a%2Fb?limit=2&after=%20x&empty=&flag", "/a//b/../c;p=1?q=a+b%2B",
    "/v1/responses", "/v1/audio/transcriptions", "/pooling", "/v1/chat/completions/abc?x=%E4%B8%96", "/版本",
])  # fmt: skip
async def test_any_path_method_and_query_pass_unchanged(house: OpenHouse, method: str, target: str) -> None:
    """Issue: unknown paths, query strings, methods."""
    async with ScriptedWorker(echo) as worker, house([worker]) as h:
        raw = target if target.isascii() else quote(target)
        body = None if method in ("GET", "OPTIONS") else BYTES
        async with h.client.request(
            method,
            URL(h.url + raw, encoded=True),
            data=body,
            headers={"Content-Type": "application/x-thing", "X-Mine": "1"},
        ) as reply:
            told = await reply.read()
        [asked] = worker.calls
        assert (asked.method, asked.target, asked.body) == (method, raw, body or b"")
        assert (asked.header("Content-Type"), asked.header("X-Mine")) == ("application/x-thing", "1")
        assert (reply.status, told) == (207, (body or b"") + BYTES)
        assert (reply.headers["Content-Type"], reply.headers["X-Own"], reply.headers["ETag"]) == (
            "application/x-odd; a=b", "yes", '"7"')  # fmt: skip
        assert reply.headers["Content-Length"] == str(len(told))
        assert reply.headers["Cache-Status"] == "rejoinder; fwd=bypass"


async def test_head_is_get_without_the_body(house: OpenHouse) -> None:
    """Issue: HEAD/GET."""

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        return web.Response(body=b"12345", headers={"X-Own": "yes"})

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        for method, body in (("HEAD", b""), ("GET", b"12345"), ("HEAD", b""), ("GET", b"12345")):
            async with asyncio.timeout(5):
                told = await h.send(method, "/v1/files/x")
            assert (told.status, told.body, told.headers["Content-Length"]) == (200, body, "5")
        assert [call.method for call in worker.calls] == ["HEAD", "GET", "HEAD", "GET"]


async def test_an_audio_upload_reaches_the_worker_that_serves_its_model_byte_for_byte(house: OpenHouse) -> None:
    """Issue: multipart; its `model` field routes."""

    async def named(request_: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"text": "hello"})

    async with (
        ScriptedWorker(named, models=["chat"]) as chat,
        ScriptedWorker(named, models=["whisper"]) as whisper,
        house([chat, whisper]) as h,
    ):
        form = aiohttp.FormData()
        form.add_field("language", "en")
        form.add_field("model", "whisper")
        form.add_field("file", BYTES, filename="a.wav", content_type="audio/wav")
        async with h.client.post("/v1/audio/transcriptions", data=form) as reply:
            assert (reply.status, await reply.json()) == (200, {"text": "hello"})
        assert chat.calls == []
        [asked] = whisper.calls
        boundary = asked.header("Content-Type").partition("boundary=")[2].encode()  # type: ignore[union-attr]
        assert asked.body.count(b"--" + boundary) == 4
        assert BYTES in asked.body


async def test_embeddings_and_tokenize_say_what_the_worker_says(house: OpenHouse) -> None:
    """Issue; asked twice, it is asked twice."""
    async with house() as h:
        for path, body in (
            ("/v1/embeddings", {"model": "demo", "input": ["a", "b"]}),
            ("/tokenize", {"model": "demo", "prompt": "a b"}),
        ):
            raw = orjson.dumps(body, option=orjson.OPT_INDENT_2)
            for _ in range(2):
                through = await h.post(path, raw)
                async with h.client.post(h.workers[0].url + path, data=raw) as direct:
                    expected = orjson.loads(await direct.read())
                for answer in (expected, through.json):
                    for volatile in ("id", "created"):
                        answer.pop(volatile, None)
                assert (
                    through.json.keys()
                    and {k: v for k, v in through.json.items() if k not in ("id", "created")} == expected
                )
                assert h.workers[0].calls[-2].body == raw
        assert len(h.workers[0].calls) == 8


async def test_what_the_client_compressed_stays_compressed(house: OpenHouse) -> None:
    """Issue, byte for byte: Content-Encoding describes the bytes, in both directions."""
    packed = gzip.compress(b"hello " * 50)

    async def answer(request_: web.Request, asked: Asked) -> web.StreamResponse:
        assert asked.header("Accept-Encoding") == "gzip"
        return web.Response(body=packed, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        told = await h.send("GET", "/v1/files/x", headers={"Accept-Encoding": "gzip"})
        assert (told.body, told.headers["Content-Encoding"]) == (packed, "gzip")


async def test_the_chat_body_is_the_clients_own_bytes_unless_we_must_change_it(house: OpenHouse) -> None:
    """Issue: numbers, spacing, key order and escapes as they were."""
    raw = b'{ "messages":[{"content":"caf\\u00e9 \xe2\x98\x95","role":"user"}],\n "temperature":0.10,'
    raw += b' "model":"demo" ,"top_p":1E0}'
    async with house() as h:
        assert (await h.post(CHAT, raw)).status == 200
        assert h.asked[0].body == raw
        assert (
            await h.post(CHAT, raw.replace(b"0.10", b'0.2,"stream":true,"stream_options":{"include_usage":true}'))
        ).status == 200
        assert b'"caf\\u00e9 ' in h.asked[1].body


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings", "/tokenize", "/v1/responses", "/nowhere"])
async def test_every_endpoint_goes_through_the_one_selector(house: OpenHouse, path: str) -> None:
    """2 (vllm-project/router#85, #82): transparent paths dropped `x-session-id` silently."""
    async with house(workers=4) as h:
        homes = {}
        for name in ("ann", "bob", "cy", "dee", "eve", "fay"):
            for where in (CHAT, path, path):
                body = orjson.dumps({**request(f"Question of {name}"), "prompt": "x", "input": "x"})
                told = await h.post(where, body, {"X-Session-ID": name, "Cache-Control": "no-store"})
                homes.setdefault(name, set()).add(told.worker)
        assert all(len(workers) == 1 for workers in homes.values())
        assert len(set.union(*homes.values())) > 1
        sent = {call.headers["X-Session-ID"] for call in h.asked}
        assert len(sent) == 6 and not sent & set(homes), "workers see digests, never the raw id"


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings", "/v1/responses", "/never/heard/of/it"])
async def test_every_path_books_its_load(house: OpenHouse, path: str) -> None:
    """4 (vllm-project/router#179): the passthrough path never booked, and one of 8 engines got everything."""
    go_on = asyncio.Event()

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        await go_on.wait()
        return web.json_response(completion({"content": "fine"}))

    async with ScriptedWorker(answer) as one, ScriptedWorker(answer) as two, house([one, two]) as h:
        tasks = [asyncio.create_task(h.post(path, b'{"prompt": "x %d", "input": "x"}' % n)) for n in range(20)]
        await h.until(lambda: len(one.calls) + len(two.calls) == 20)
        assert h.in_flight == 20
        assert (len(one.calls), len(two.calls)) == (10, 10)
        go_on.set()
        assert {told.status for told in await asyncio.gather(*tasks)} == {200}
        await h.until(lambda: h.in_flight == 0)


HOP_BY_HOP = {
    "Connection": "keep-alive, X-Secret-Hop", "X-Secret-Hop": "1", "Keep-Alive": "timeout=5", "TE": "trailers",
    "Trailer": "X-Checksum", "Proxy-Authorization": "Basic x", "Upgrade": "h2c", "HTTP2-Settings": "AAMA",
}  # fmt: skip


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
async def test_hop_by_hop_headers_stop_here_in_both_directions(house: OpenHouse, path: str) -> None:
    """35 (GIE#2993): a copied `transfer-encoding` truncated streams. 50 (vllm-project/router#158): Host, HTTP/1.1."""

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"X-Answer-Hop": "1", "Keep-Alive": "timeout=9", "X-Own": "yes",
                                               "Content-Type": "application/json"})  # fmt: skip
        response.headers["Connection"] = "keep-alive, X-Answer-Hop"
        response.enable_chunked_encoding()
        await response.prepare(request_)
        await response.write(orjson.dumps(completion({"content": "fine"})))
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        told = await h.post(path, orjson.dumps(request("hi")), {**HOP_BY_HOP, "X-Mine": "1"})
        assert told.json["choices"][0]["message"]["content"] == "fine"
        assert told.headers["X-Own"] == "yes"
        assert "X-Answer-Hop" not in told.headers and "timeout=9" not in told.headers.get("Keep-Alive", "")
        [asked] = worker.calls
        seen = {name.lower() for name, _ in asked.headers}
        assert not seen & {name.lower() for name in HOP_BY_HOP} - {"connection"}
        assert asked.header("X-Mine") == "1"
        assert asked.header("Host") == worker.url.removeprefix("http://")
        assert asked.version == (1, 1)


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_the_length_is_that_of_the_body_that_is_sent(house: OpenHouse, stream: bool) -> None:
    """36 (sglang#27523, miles#1001): a stale Content-Length after a rewrite truncated the body."""
    async with house() as h:
        told = await h.ask(stream=stream, cache={"namespace": "n" * 500})
        assert told.status == 200
        [call] = h.asked
        assert call.headers["Content-Length"] == str(len(call.body))
        assert len(call.body) < 500, "it was rewritten"
        h.workers[0].fault("status", status=400)
        failed = await h.ask("How far is the moon?", stream=stream, cache={"namespace": "n" * 500})
        assert failed.error["message"] == "simulated 400"
        assert failed.headers["Content-Length"] == str(len(failed.body))


async def test_a_relayed_stream_that_dies_does_not_look_whole(house: OpenHouse) -> None:
    """32, on the path that is not cached."""

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request_)
        await response.write(b'data: {"type":"response.created"}\n\n')
        assert request_.transport is not None
        request_.transport.abort()  # type: ignore[attr-defined]
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        heard = b""
        with pytest.raises(aiohttp.ClientPayloadError):
            async with h.client.post("/v1/responses", json={"model": "demo", "input": "hi", "stream": True}) as reply:
                async for piece in reply.content.iter_any():
                    heard += piece
        assert heard.startswith(b'data: {"type":"response.created"}\n\ndata: {"error":')
        assert b"[DONE]" not in heard and b"HTTP/1.1" not in heard
        assert len(worker.calls) == 1
        await h.until(lambda: h.at_rest)


async def test_a_relayed_download_that_dies_does_not_look_whole(house: OpenHouse) -> None:
    """32: no event can say it there; the connection does."""

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 1000
        await response.prepare(request_)
        await response.write(b"x" * 500)
        assert request_.transport is not None
        request_.transport.abort()  # type: ignore[attr-defined]
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        with pytest.raises(aiohttp.ClientPayloadError):
            await h.send("GET", "/v1/files/x")
        assert len(worker.calls) == 1


async def test_a_relayed_request_that_is_left_stops_its_worker(house: OpenHouse) -> None:
    """17, 18, on the path that is not cached."""

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        task = asyncio.create_task(h.send("POST", "/v1/responses", json={"input": "hi"}))
        await until(lambda: worker.calls)
        task.cancel()
        await until(lambda: worker.left == 1, timeout_s=0.5)
        await until(lambda: h.at_rest)


async def test_what_the_models_door_says_is_what_the_workers_say(house: OpenHouse) -> None:
    """Issue: merged, each once, every field of the card."""
    async with (
        SimulatedWorker(models=("a", "b")) as one,
        SimulatedWorker(models=("b", "org/c")) as two,
        house([one, two]) as h,
    ):
        listed: Any = (await h.send("GET", "/v1/models")).json
        assert [card["id"] for card in listed["data"]] == ["a", "b", "org/c"]
        assert all(card["max_model_len"] == 8192 for card in listed["data"])
        assert (await h.send("GET", "/v1/models/org/c")).json == listed["data"][2]
        told = await h.send("GET", "/v1/models/nobody")
        assert (told.status, told.error["code"]) == (404, "model_not_found")


async def test_a_stream_passes_as_it_comes(house: OpenHouse) -> None:
    """Issue: nothing is held back until the end."""
    go_on = asyncio.Event()

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        response = await stream_start(request_)
        await response.write(b'data: {"n":1}\n\n')
        await go_on.wait()
        await response.write(b'data: {"n":2}\n\n')
        return response

    async def stream_start(request_: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request_)
        return response

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        for path in ("/v1/responses", CHAT):
            go_on.clear()
            async with h.client.post(path, json=request("hi", stream=True)) as reply:
                async with asyncio.timeout(5):
                    first = await reply.content.readany()
                assert first == b'data: {"n":1}\n\n'
                go_on.set()
                assert await reply.content.read() == b'data: {"n":2}\n\n'


async def test_a_stream_of_anything_else_passes_too(house: OpenHouse) -> None:
    """Issue: `chunked` helper data through a path of tomorrow."""
    data = chunked([{"content": "x"}])

    async def answer(request_: web.Request, _: Asked) -> web.StreamResponse:
        return await stream_of(request_, [data[:7], data[7:]])

    async with ScriptedWorker(answer) as worker, house([worker]) as h:
        assert (await h.send("POST", "/v9/think", json={})).body == data


@pytest.mark.proof
async def test_memory_does_not_grow_with_requests_that_are_over(house: OpenHouse) -> None:
    """30 (litellm#17388, #13891): pools that kept something of each request. A thousand at a time, no soak of hours."""
    async with house(workers=2, embedder="none") as h:

        async def thousand() -> int:
            for number in range(1000):
                path = (CHAT, "/v1/responses")[number % 2]  # the simulated worker knows no responses: a relayed 404
                body = {"model": "demo", "messages": turns("Hi"), "input": "Hi", "stream": number % 4 < 2}
                told = await h.send("POST", path, json=body, headers={"Cache-Control": "no-store"})
                assert told.status == (200 if path == CHAT else 404)
            await h.until(lambda: h.at_rest)
            for worker in h.workers:
                worker.calls.clear()  # the simulated worker keeps what it was asked
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            await thousand()
            first = await thousand()
            assert await thousand() - first < 256 << 10
        finally:
            tracemalloc.stop()
