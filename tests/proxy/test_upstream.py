"""Against real sockets: scripted servers where a byte matters, the simulated worker where a worker does."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import orjson
import pytest

from proxy.demo import Pace, SimulatedWorker
from proxy.routing.workers import Worker
from proxy.upstream import SLICE_BYTES, Upstream
from proxy.upstream_errors import Phase, WorkerBroke, WorkerSilent, WorkerUnreachable

JSON = [("Content-Type", "application/json")]
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream(connect_s=2.0) as opened:
        yield opened


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[tuple[Worker, list[int]]]:
    """A server that runs the script on each connection; with it comes a list of the connections made."""
    made: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(len(made))
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Worker(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"), made
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, list[tuple[str, str]], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in head[1:-2]]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return head[0], headers, await reader.readexactly(length)


def chat(text: str = "Why is the sky blue?", **fields: object) -> bytes:
    return orjson.dumps({"model": "demo", "messages": [{"role": "user", "content": text}], **fields})


# -- what goes out ---------------------------------------------------------------------------------------------------


async def test_the_request_goes_out_byte_for_byte_with_nothing_added(upstream: Upstream) -> None:
    seen: asyncio.Future[tuple[str, list[tuple[str, str]], bytes]] = asyncio.get_running_loop().create_future()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(await read_request(reader))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    path = "/v1/x%2Fy/../z//%E4%BC%9A?q=a+b%20c&q=%7E#x"
    async with scripted(script) as (worker, _):
        headers = [("X-A", "1"), ("x-a", "2"), ("Accept-Encoding", "zstd"), ("Unicode", "é"), ("Cookie", "a=b")]
        async with upstream.ask(worker, "POST", path, headers, b'{"a": 1}') as reply:
            assert reply.status == 204 and await reply.read() == b""
        line, sent, body = await seen
    assert line == f"POST {path.partition('#')[0]} HTTP/1.1"
    assert body == b'{"a": 1}'
    spelled_once = [("X-A" if name == "x-a" else name, value) for name, value in headers]
    assert sorted(sent) == sorted([("Host", worker.name), *spelled_once, ("Content-Length", "8")])


async def test_a_path_that_is_not_ascii_is_percent_encoded(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        async with upstream.ask(Worker(server.url), "GET", "/é\udcff/%41", []) as reply:
            assert reply.status == 404
        assert server.calls[0].path == "/%C3%A9%FF/%41"


async def test_a_path_cannot_lead_to_another_host(upstream: Upstream) -> None:
    for path in ("http://evil/", "evil", "", "@evil/"):
        with pytest.raises(ValueError, match="path"):
            async with upstream.ask(Worker("http://127.0.0.1:9"), "GET", path):
                pass


@pytest.mark.parametrize("size", [0, 1, SLICE_BYTES, SLICE_BYTES + 1, 8 << 20])
async def test_bodies_of_any_size_arrive_whole(upstream: Upstream, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    async with SimulatedWorker() as server:
        async with upstream.ask(Worker(server.url), "POST", "/v1/unknown", JSON, body[:size]) as reply:
            assert reply.status == 404
        assert server.calls[0].body == body[:size]
        assert server.calls[0].headers["Content-Length"] == str(size)


async def test_a_streamed_body_is_sent_in_chunks(upstream: Upstream) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for n in range(100):
            yield b"%d," % n

    async with SimulatedWorker() as server:
        async with upstream.ask(Worker(server.url), "POST", "/v1/audio", JSON, parts()) as reply:
            assert reply.status == 404
        assert server.calls[0].body == b"".join([b"%d," % n for n in range(100)])
        assert "Content-Length" not in server.calls[0].headers


async def test_what_a_streamed_body_raises_is_not_blamed_on_the_worker(upstream: Upstream) -> None:
    class ClientLeft(Exception):
        pass

    async def parts(error: Exception) -> AsyncIterator[bytes]:
        yield b"a"
        raise error

    async with SimulatedWorker() as server:
        for error in (ClientLeft(), TimeoutError(), ConnectionResetError()):
            with pytest.raises(type(error)):
                async with upstream.ask(Worker(server.url), "POST", "/v1/audio", JSON, parts(error), first_byte_s=5):
                    pass


# -- what comes back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
async def test_any_status_is_an_answer(upstream: Upstream, status: int) -> None:
    async with SimulatedWorker() as server:
        server.fault("status", status=status, retry_after_s=7)
        async with upstream.ask(Worker(server.url), "POST", "/v1/chat/completions", JSON, chat()) as reply:
            assert reply.status == status
            assert orjson.loads(await reply.read())["error"]["code"] == status
            assert ("Retry-After", "7") in reply.headers


async def test_redirects_and_cookies_are_passed_on_not_followed(upstream: Upstream) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            _, headers, _ = await read_request(reader)
            assert "cookie" not in {name.lower() for name, _ in headers}
            writer.write(
                b"HTTP/1.1 307 Go\r\nLocation: /there\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n"
                b"Connection: X-Secret\r\nX-Secret: 1\r\nContent-Length: 0\r\n\r\n"
            )

    async with scripted(script) as (worker, made):
        for _ in range(2):
            async with upstream.ask(worker, "POST", "/", JSON, b"{}") as reply:
                assert reply.status == 307
                await reply.read()
                assert reply.headers == [
                    ("Location", "/there"),
                    ("Set-Cookie", "a=b"),
                    ("Set-Cookie", "c=d"),
                    ("Content-Length", "0"),
                ]
        assert made == [0]


async def test_compressed_answers_are_relayed_as_they_are(upstream: Upstream) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nnogzi")

    async with scripted(script) as (worker, _), upstream.ask(worker, "GET", "/") as reply:
        assert await reply.read() == b"nogzi"
        assert ("Content-Encoding", "gzip") in reply.headers


SSE = 'data: {"é":"会话"}\r\n\r\ndata: [DONE]\n\n'.encode()


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_stream_split_at_every_byte_arrives_verbatim(upstream: Upstream, chunked: bool) -> None:
    go = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for split in range(1, len(SSE)):
            await read_request(reader)
            parts = SSE[:split], SSE[split:]
            frame = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(SSE)}"
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{frame}\r\n\r\n".encode())
            for part in parts:
                writer.write(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
                go.clear()
                await writer.drain()
                if part is parts[0]:
                    await go.wait()
            if chunked:
                writer.write(b"0\r\n\r\n")

    async with scripted(script) as (worker, made):
        for split in range(1, len(SSE)):
            got = []
            async with upstream.ask(worker, "POST", "/", JSON, b"{}", idle_s=10) as reply:
                async for chunk in reply.chunks():
                    got.append(chunk)
                    go.set()
            assert got == [SSE[:split], SSE[split:]]
            assert reply.body_bytes == len(SSE)
        assert made == [0]  # and the connection served them all


async def test_every_token_is_relayed_when_it_comes_and_not_later(upstream: Upstream) -> None:
    async with SimulatedWorker(pace=Pace(token_s=0.02)) as server:
        chunks = []
        async with upstream.ask(
            Worker(server.url), "POST", "/v1/chat/completions", JSON, chat(stream=True), idle_s=5
        ) as reply:
            async for chunk in reply.chunks():
                chunks.append(chunk)
        assert len(chunks) >= server.calls[0].chunks - 1  # the last chunk and [DONE] may come together
        assert b"".join(chunks).endswith(b"data: [DONE]\n\n")


async def test_answers_prove_life_but_probes_and_errors_do_not(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        worker = Worker(server.url)

        async def ask(**how: bool) -> float:
            async with upstream.ask(worker, "POST", "/v1/chat/completions", JSON, chat(), **how) as reply:
                await reply.read()
            return worker.last_seen_s

        assert await ask(proves_life=False) == float("-inf")
        server.fault("status", status=500, times=1)
        assert await ask() == float("-inf")
        assert await ask() == pytest.approx(time.monotonic(), abs=5)


# -- what goes wrong -------------------------------------------------------------------------------------------------


async def test_a_port_nobody_listens_on_is_unreachable(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        worker = Worker(server.url)
    with pytest.raises(WorkerUnreachable) as failed:
        async with upstream.ask(worker, "GET", "/health"):
            pass
    assert not failed.value.connected and not failed.value.reused and failed.value.may_ask_another
    assert failed.value.worker is worker and worker.name in str(failed.value)


async def test_a_name_that_does_not_resolve_is_unreachable(upstream: Upstream) -> None:
    with pytest.raises(WorkerUnreachable) as failed:
        async with upstream.ask(Worker("http://no-such-host.invalid:8000"), "GET", "/health"):
            pass
    assert not failed.value.connected


async def test_a_connection_that_is_never_accepted_is_silence() -> None:
    """A listener whose backlog is full drops our SYN, as a black-holed host does."""
    import socket

    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)
        try:
            async with Upstream(connect_s=0.2) as upstream:
                with pytest.raises(WorkerSilent) as failed:
                    async with upstream.ask(Worker(f"http://127.0.0.1:{address[1]}"), "GET", "/health"):
                        pass
        finally:
            for filler in fillers:
                filler.close()
    assert failed.value.phase is Phase.CONNECT and failed.value.may_ask_another


async def test_a_death_before_the_first_byte_is_unreachable_and_asked_only_once(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        server.fault("reset")
        with pytest.raises(WorkerUnreachable) as failed:
            async with upstream.ask(Worker(server.url), "POST", "/v1/chat/completions", JSON, chat()):
                pass
        assert failed.value.connected and not failed.value.reused and len(server.calls) == 1


async def test_a_stale_connection_is_replaced_at_once(upstream: Upstream) -> None:
    """The worker closes an idle connection while our next request is on its way (vLLM does so after 5 s)."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await read_request(reader)  # and close without a word

    async with scripted(script) as (worker, made):
        for _ in range(3):
            async with upstream.ask(worker, "POST", "/", JSON, b"{}") as reply:
                assert await reply.read() == b"ok"
        assert len(made) == 3


async def test_a_stale_connection_under_a_streamed_body_is_told_because_the_body_is_spent(upstream: Upstream) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.readuntil(b"0\r\n\r\n")

    async def parts() -> AsyncIterator[bytes]:
        yield b"once"

    async with scripted(script) as (worker, made):
        async with upstream.ask(worker, "POST", "/", JSON, b"{}") as reply:
            await reply.read()
        with pytest.raises(WorkerUnreachable) as failed:
            async with upstream.ask(worker, "POST", "/", JSON, parts()):
                pass
        assert failed.value.reused and failed.value.connected and made == [0]


async def test_a_worker_that_was_restarted_is_reached_through_no_old_connection(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        worker = Worker(server.url)
        for _ in range(3):
            async with upstream.ask(worker, "POST", "/v1/chat/completions", JSON, chat()) as reply:
                assert reply.status == 200
                await reply.read()
            await server.kill()
            await server.start()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("rst", [True, False])
async def test_a_death_in_mid_answer_is_told_with_what_had_come(upstream: Upstream, stream: bool, rst: bool) -> None:
    async with SimulatedWorker(pace=Pace(token_s=0.01 if rst else 0)) as server:
        server.fault("die", after=3, rst=rst)
        got = b""
        with pytest.raises(WorkerBroke) as failed:
            async with upstream.ask(
                Worker(server.url), "POST", "/v1/chat/completions", JSON, chat(stream=stream)
            ) as reply:
                async for chunk in reply.chunks():
                    got += chunk
        assert failed.value.body_bytes == len(got)
        if not rst:  # RST may erase what is on its way
            assert got and not failed.value.may_ask_another
            assert got.count(b"\n\n") == (3 if stream else 0)


async def test_an_answer_cut_before_its_first_body_byte_may_still_go_elsewhere(upstream: Upstream) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async with scripted(script) as (worker, _):
        with pytest.raises(WorkerBroke) as failed:
            async with upstream.ask(worker, "POST", "/", JSON, b"{}") as reply:
                await reply.read()
        assert failed.value.body_bytes == 0 and failed.value.may_ask_another


@pytest.mark.parametrize("nonsense", [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le"])
async def test_what_is_not_http_is_broken_not_unreachable(upstream: Upstream, nonsense: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(nonsense)

    async with scripted(script) as (worker, _):
        with pytest.raises((WorkerBroke, WorkerUnreachable)) as failed:
            async with upstream.ask(worker, "GET", "/"):
                pass
        assert failed.value.may_ask_another


@pytest.mark.parametrize("head", [
    b"my PIN is 4711\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nmy PIN is 4711\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmy PIN is 4711\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxmy PIN is 4711\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nmy PIN is 4711",
])  # fmt: skip
async def test_what_a_worker_garbled_is_named_and_not_quoted(upstream: Upstream, head: bytes) -> None:
    """It may be a piece of somebody's chat, and what failed goes to the log."""

    async def garble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(head)

    async with scripted(garble) as (worker, _):
        with pytest.raises(WorkerBroke) as failed:
            async with upstream.ask(worker, "POST", "/v1/chat/completions", JSON, chat()) as reply:
                await reply.read()
    assert "4711" not in str(failed.value) and "(" in failed.value.trouble


async def test_no_answer_in_time_is_silence_and_is_not_asked_again(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        server.fault("hang")
        with pytest.raises(WorkerSilent) as failed:
            async with upstream.ask(Worker(server.url), "POST", "/v1/chat/completions", JSON, chat(), first_byte_s=0.2):
                pass
        assert failed.value.phase is Phase.FIRST_BYTE and not failed.value.may_ask_another
        await server.until(lambda: server.calls[0].disconnected_at_s)
        assert len(server.calls) == 1


async def test_a_stream_that_falls_silent_is_told_so(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        server.fault("stall", after=2)
        began_s = time.monotonic()
        with pytest.raises(WorkerSilent) as failed:
            async with upstream.ask(
                Worker(server.url), "POST", "/v1/chat/completions", JSON, chat(stream=True), idle_s=0.3
            ) as reply:
                await reply.read()
        assert failed.value.phase is Phase.IDLE and failed.value.body_bytes > 0
        assert time.monotonic() - began_s >= 0.3
        await server.until(lambda: server.calls[0].disconnected_at_s)


async def test_time_that_we_do_not_read_is_not_the_worker_s_silence(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        got = b""
        async with upstream.ask(
            Worker(server.url), "POST", "/v1/chat/completions", JSON, chat(stream=True), idle_s=0.05
        ) as reply:
            async for chunk in reply.chunks():
                if not got:
                    await asyncio.sleep(0.3)  # a slow client: this *is* the thing under test
                got += chunk
        assert got.endswith(b"data: [DONE]\n\n")


async def test_a_connection_that_lay_idle_longer_than_an_answer_may_is_used_again_unharmed(upstream: Upstream) -> None:
    """43 (aiohttp#12953): a read timer that ran on in the pool made the next request on that connection time out."""

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with scripted(twice) as (worker, made):
        for _ in range(2):
            async with upstream.ask(worker, "POST", "/", JSON, b"{}", first_byte_s=0.05, idle_s=0.05) as reply:
                assert await reply.read() == b"ok"
            await asyncio.sleep(0.2)  # longer than both limits: this *is* the thing under test
        assert len(made) == 1, "the same connection"


# -- leaving ---------------------------------------------------------------------------------------------------------


async def leave_early(upstream: Upstream, server: SimulatedWorker, *, stream: bool, how: str) -> float:
    """Seconds until the worker noticed that we had left."""
    reading = asyncio.Event()

    async def ask() -> None:
        async with upstream.ask(
            Worker(server.url), "POST", "/v1/chat/completions", JSON, chat(stream=stream), idle_s=30
        ) as reply:
            async for _ in reply.chunks():
                reading.set()
                if how == "break":
                    return
                if how == "error":
                    raise LookupError

    task = asyncio.create_task(ask())
    call_began = len(server.calls)
    await server.until(lambda: len(server.calls) > call_began and server.calls[-1].body)
    if stream:
        await reading.wait()
    left_s = time.monotonic()
    if how == "cancel":
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.until(lambda: server.calls[-1].disconnected_at_s)
    return server.calls[-1].disconnected_at_s - left_s


@pytest.mark.parametrize(("stream", "how"), [(True, "cancel"), (False, "cancel"), (True, "break"), (True, "error")])
async def test_leaving_early_is_noticed_by_the_worker_within_200_ms(upstream: Upstream, stream: bool, how: str) -> None:
    async with SimulatedWorker(pace=Pace(first_token_s=0 if stream else 30, token_s=30)) as server:
        assert await leave_early(upstream, server, stream=stream, how=how) < 0.2


async def test_a_connection_that_was_left_is_not_used_again(upstream: Upstream) -> None:
    async with SimulatedWorker(pace=Pace(token_s=0.01)) as server:
        for _ in range(3):
            await leave_early(upstream, server, stream=True, how="break")
            async with upstream.ask(Worker(server.url), "POST", "/v1/chat/completions", JSON, chat()) as reply:
                assert orjson.loads(await reply.read())["choices"][0]["finish_reason"] == "stop"


async def test_one_worker_that_hangs_does_not_delay_the_others(upstream: Upstream) -> None:
    async with SimulatedWorker() as hung, SimulatedWorker() as well:
        hung.fault("hang")

        async def hang() -> None:
            async with upstream.ask(Worker(hung.url), "POST", "/v1/chat/completions", JSON, chat()):
                pass

        tasks = [asyncio.create_task(hang()) for _ in range(200)]
        await hung.until(lambda: len(hung.calls) == 200)
        async with upstream.ask(
            Worker(well.url), "POST", "/v1/chat/completions", JSON, chat(), first_byte_s=5
        ) as reply:
            assert reply.status == 200
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await hung.until(lambda: all(call.disconnected_at_s for call in hung.calls))


async def test_a_slow_reader_holds_the_worker_back_instead_of_filling_memory(upstream: Upstream) -> None:
    sent = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
        for _ in range(500):
            writer.write(bytes(100_000))
            await writer.drain()
            sent += 100_000

    async with scripted(script) as (worker, _), upstream.ask(worker, "GET", "/") as reply:
        stalled, before = 0, -1
        while stalled < 5:  # until the worker no longer gets rid of anything
            await asyncio.sleep(0.02)
            stalled, before = (stalled + 1 if sent == before else 0), sent
        assert sent < 20_000_000  # kernel buffers, and at most 128 KiB of ours
        assert reply._response.content.total_bytes < 1_000_000
        assert len(await reply.read()) == 50_000_000


async def test_it_must_be_open() -> None:
    with pytest.raises(RuntimeError, match="not open"):
        async with Upstream().ask(Worker("http://127.0.0.1:9"), "GET", "/"):
            pass
