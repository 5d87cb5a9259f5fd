"""A simulated vLLM worker on a loopback port: for `rejoinder demo` and for tests. A tool; it says so in every answer.

    async with SimulatedWorker() as worker:          # worker.url, worker.calls, worker.fault("die", after=3)
        …

It runs in this process on aiohttp's production runner, with `handler_cancellation`, so that it notices a client that
leaves as vLLM does. Faults can also be switched over HTTP: `POST /_fault {"mode": "die", "after": 3, "times": 1}`;
`GET /calls?body=200` tells what it was asked (of each body the first 200 bytes), `DELETE /calls` forgets it.
"""

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4
from weakref import WeakSet

import orjson
from aiohttp import web

from proxy import simulated, simulated_doors, simulated_metrics, socket_faults
from proxy.clockwork import Clockwork, Pacer, Turn
from proxy.faults import APOLOGY, MODES, Call, Fault, Pace
from proxy.simulated import Json, PrefixCache, Prompt, Unfit, Written
from proxy.simulated_doors import json_answer, read_object, refusal

__all__ = ["Call", "Fault", "Pace", "SimulatedWorker"]

MOST_CALLS: Final = 10_000
_QUIET: Final = frozenset(
    {"/health", "/ping", "/v1/models", "/metrics", "/calls", "/_fault", "/version", "/load", "/kv_event_sources"}
)
_BROKEN: Final = frozenset({"die", "stall", "cut", "half_close"})  # in the middle of an answer
_CALL: Final = web.RequestKey("call", Call)
_MODE: Final = web.RequestKey("mode", str)


class SimulatedWorker:
    """Enter it to start it; `stop`, `kill` and `start` keep its port, so that a worker can come back.

    clockwork: paces the answers instead of `pace`.  doors: more routes, left out of `calls`."""

    def __init__(
        self,
        *,
        models: Iterable[str] = ("demo",),
        host: str = "127.0.0.1",
        port: int = 0,
        pace: Pace | None = None,
        fault: Fault | None = None,
        api_key: str | None = None,
        name: str | None = None,
        clockwork: Clockwork | None = None,
        doors: Iterable[web.RouteDef] = (),
    ) -> None:
        self.models = tuple(models)
        self.pacer = Pacer(pace or Pace(), PrefixCache())
        self.clockwork: Clockwork = clockwork or self.pacer
        self.calls: list[Call] = []
        self.health_checks = 0
        self.verdict: Callable[[str], float] | None = None  # prompt of a completion → P(yes), for playing the judge
        self.api_key = api_key
        self._name = name
        self._fault = fault or Fault()
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None
        self._changed = asyncio.Event()
        self._created = int(time.time())
        self._started_at_s = time.time()
        self._waiting = 0
        self._doors = tuple(doors)
        self._quiet = _QUIET | {door.path for door in self._doors}
        self._served: WeakSet[asyncio.Transport] = WeakSet()  # connections that have had an answer

    # -- life ----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}"

    @property
    def name(self) -> str:
        return self._name or f"simulated-{self._port}"

    @property
    def pace(self) -> Pace:
        return self.pacer.pace

    @pace.setter
    def pace(self, pace: Pace) -> None:
        self.pacer.pace = pace

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()

    async def start(self) -> None:
        """Listen, on the port it had before if it had one; a restarted worker has an empty prefix cache."""
        app = web.Application(client_max_size=1 << 30, middlewares=[self._around])
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/ping", self._health),
                web.get("/version", self._version),
                web.get("/load", self._load),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.get("/calls", self._tell_calls),
                web.delete("/calls", self._forget_calls),
                web.post("/_fault", self._set_fault),
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._completions),
                web.post("/tokenize", self._tokenize),
                web.post("/v1/embeddings", self._embeddings),
                web.post("/reset_prefix_cache", self._reset_prefix_cache),
                *self._doors,
            ]
        )
        self.clockwork.start()
        self._started_at_s = time.time()
        # 5 s is vLLM's own keep-alive (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); aiohttp's default would hide stale connections.
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0, keepalive_timeout=5.0
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """As SIGTERM: finish what is running (at most 1 s), then leave."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()
            self.clockwork.stop()
            self._served.clear()

    async def kill(self) -> None:
        """As SIGKILL: every connection is reset now."""
        if self._runner is not None:
            self.drop_connections()
            await self.stop()

    def drop_connections(self) -> None:
        """Reset every connection, idle ones too, and keep listening."""
        if self._runner is not None and self._runner.server is not None:
            for connection in list(self._runner.server.connections):
                socket_faults.reset(connection.transport)

    def fault(self, mode: str = "none", **settings: Any) -> Fault:
        """Switch the fault, from the next question on; without arguments: well again."""
        self._fault = Fault(mode, **settings)
        return self._fault

    async def until(self, happened: Callable[[], Any], timeout_s: float = 5.0) -> None:
        """Wait until something that this worker can notice is true. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while not happened():
                self._changed.clear()
                await self._changed.wait()

    # -- every request -------------------------------------------------------------------------------------------

    @web.middleware
    async def _around(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self.api_key and request.path.startswith("/v1") and not self._authorized(request):
            return json_answer({"error": "Unauthorized"}, status=401)
        if request.path in self._quiet:
            try:
                return await handler(request)
            except Unfit as unfit:
                return json_answer(unfit.body, status=unfit.status)
        call = Call(request.method, request.raw_path, request.headers.copy(), b"", time.monotonic())
        call.version = (request.version.major, request.version.minor)
        call.client_port = _port(request)
        self.calls.append(call)
        del self.calls[:-MOST_CALLS]
        request[_CALL] = call
        self._waiting += 1
        try:
            call.body = await request.read()
            self._changed.set()
            response = await self._spoilt(request) or await handler(request)
            if request.transport is not None:
                self._served.add(request.transport)
        except asyncio.CancelledError:
            call.disconnected_at_s = time.monotonic()
            raise
        except ConnectionResetError:  # it left between two chunks, and we noticed by writing
            call.disconnected_at_s = time.monotonic()
            response = web.Response()
        except Unfit as unfit:
            response = json_answer(unfit.body, status=unfit.status)
        except web.HTTPException as error:  # vLLM's own words for unknown paths and methods
            response = json_answer({"detail": error.reason}, status=error.status)
        finally:
            self._waiting -= 1
            call.ended_at_s = time.monotonic()
            self._changed.set()
        return response

    def _authorized(self, request: web.Request) -> bool:
        return request.headers.get("Authorization") == f"Bearer {self.api_key}"

    async def _spoilt(self, request: web.Request) -> web.StreamResponse | None:
        """What the fault does before a byte of an answer, on any path but /tokenize and …/render; None = go on."""
        fault = self._fault
        if request.path.endswith(("/tokenize", "/render")):  # what a router asks for itself; no question
            return None
        if fault.mode == "stale":
            return socket_faults.drop(request, rst=False) if request.transport in self._served else None
        mode = request[_MODE] = fault.take()
        if mode == "hang":
            await socket_faults.for_ever()
        if mode == "slow":
            await asyncio.sleep(fault.wait_s)
        if mode == "reset":
            return socket_faults.drop(request)
        if mode == "status":
            return refusal(fault)
        if mode == "slow_headers":
            return await socket_faults.trickle(request, fault.wait_s)
        if mode == "raw":
            return await socket_faults.say(request, fault.raw, fault.wait_s)
        if mode == "half_close" and not fault.after:
            return await socket_faults.half_close(request)
        return None

    # -- questions -----------------------------------------------------------------------------------------------

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "chat")

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "text")

    async def _answer(self, request: web.Request, kind: str) -> web.StreamResponse:
        call, fault, mode = request[_CALL], self._fault, request.get(_MODE, "none")
        body = read_object(call.body)
        read = simulated.read_chat if kind == "chat" else simulated.read_completion
        prompt = read(body, self.models, self.models[0])
        written = self._write(request, prompt, fault, mode, kind)
        turn, whole = self.clockwork.begin(prompt, written.tokens, request.headers.get("X-Session-ID")), False
        try:
            call.cached_tokens = await turn.prefilled()
            written = dataclasses.replace(written, cached=call.cached_tokens)
            tell = self._stream if body.get("stream") else self._whole
            response = await tell(request, written, turn, fault, mode, kind)
            whole = mode not in _BROKEN
        finally:
            turn.close(whole=whole)
        return response

    async def _whole(
        self, request: web.Request, written: Written, turn: Turn, fault: Fault, mode: str, kind: str
    ) -> web.StreamResponse:
        await turn.written(len(written.tokens))
        choices = 0 if mode == "no_choices" else int(written.prompt.body.get("n") or 1)
        whole = simulated.chat_whole if kind == "chat" else simulated.completion_whole
        answer = orjson.dumps(whole(written, choices=choices))
        if mode in _BROKEN:
            return await self._half(request, answer, fault, mode)
        return web.Response(body=answer, content_type="application/json", headers=self._headers(request))

    def _write(self, request: web.Request, prompt: Prompt, fault: Fault, mode: str, kind: str) -> Written:
        text = {"empty": "", "apology": APOLOGY}.get(mode)
        tokens = simulated.tokens_of(simulated.answer_to(prompt) if text is None else text)
        p_yes = self.verdict(prompt.question) if self.verdict is not None and kind == "text" else None
        if p_yes is not None:
            tokens = [" yes" if p_yes > 0.5 else " no"]
        finish = "tool_calls" if prompt.tool else "stop"
        limits = [n for n in (prompt.limit, fault.after if mode == "length" else None) if n is not None]
        if limits and len(tokens) > min(limits):
            tokens, finish = tokens[: min(limits)], "length"
        if mode == "content_filter":
            finish = mode
        prefix = "chatcmpl" if kind == "chat" else "cmpl"
        name = f"{prefix}-{request.headers.get('X-Request-Id') or uuid4().hex}"
        return Written(name, int(time.time()), prompt, tuple(tokens), finish, 0, p_yes)

    async def _stream(
        self, request: web.Request, written: Written, turn: Turn, fault: Fault, mode: str, kind: str
    ) -> web.StreamResponse:
        call = request[_CALL]
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", **self._headers(request)}
        )
        await response.prepare(request)
        if mode == "flood":
            for _ in range(fault.after):
                await response.write(socket_faults.FLOOD)
                call.chunks += 1
        for chunk in self._events(written, kind, mode):
            if mode in _BROKEN and call.chunks >= fault.after:
                return await self._break(request, response, fault, mode)
            await turn.written(min(call.chunks, len(written.tokens)))
            await response.write(b"data: " + orjson.dumps(chunk) + b"\n\n")
            call.chunks += 1
            self._changed.set()
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _break(
        self, request: web.Request, response: web.StreamResponse, fault: Fault, mode: str
    ) -> web.StreamResponse:
        if mode == "cut":
            await response.write(b"data: [DONE]\n\n" if fault.done else b"")
            return response
        if mode == "stall":
            await socket_faults.for_ever()
        if mode == "half_close":
            await socket_faults.half_close(request)
        return socket_faults.drop(request, response, rst=fault.rst)

    def _events(self, written: Written, kind: str, mode: str) -> Iterator[Json]:
        choices = int(written.prompt.body.get("n") or 1)
        make = simulated.chat_chunks if kind == "chat" else simulated.completion_chunks
        for chunk in make(written, choices=choices):
            yield {**chunk, "choices": []} if mode == "no_choices" else chunk
        if written.prompt.include_usage:
            yield simulated.usage_chunk(written, kind="chat.completion.chunk" if kind == "chat" else "text_completion")

    async def _half(self, request: web.Request, answer: bytes, fault: Fault, mode: str) -> web.StreamResponse:
        """A whole answer that is announced, and only half of it sent."""
        response = web.StreamResponse(headers={"Content-Type": "application/json", **self._headers(request)})
        response.content_length = len(answer)
        await response.prepare(request)
        await response.write(answer[: len(answer) // 2])
        return await self._break(request, response, fault, "die" if mode == "cut" else mode)

    def _headers(self, request: web.Request) -> dict[str, str]:
        return {"X-Simulated": "true", "x-request-id": request.headers.get("X-Request-Id") or uuid4().hex}

    # -- the other endpoints ---------------------------------------------------------------------------------------

    async def _health(self, request: web.Request) -> web.Response:
        self.health_checks += 1
        self._changed.set()
        await self._deaf()
        return web.Response(status=500 if self._fault.mode == "unhealthy" else 200)

    async def _deaf(self) -> None:
        if self._fault.mode == "deaf":
            await asyncio.Event().wait()

    async def _models(self, request: web.Request) -> web.Response:
        await self._deaf()
        cards = [simulated.model_card(model, self._created) for model in self.models]
        return json_answer({"object": "list", "data": cards})

    async def _version(self, request: web.Request) -> web.Response:
        return json_answer({"version": "0.32.0"})

    async def _load(self, request: web.Request) -> web.Response:
        return json_answer({"server_load": self._waiting})

    async def _metrics(self, request: web.Request) -> web.Response:
        text = simulated_metrics.exposition(self.clockwork.gauges(), self.models[0], self._started_at_s)
        return web.Response(text=text, headers={"X-Simulated": "true"})

    async def _tokenize(self, request: web.Request) -> web.Response:
        return simulated_doors.tokenize(read_object(request[_CALL].body), self.models)

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = read_object(request[_CALL].body)
        return simulated_doors.embeddings(body, body.get("model") or self.models[0])

    async def _reset_prefix_cache(self, request: web.Request) -> web.Response:
        return json_answer({"success": self.clockwork.forget()})

    async def _tell_calls(self, request: web.Request) -> web.Response:
        most = request.query.get("body")
        return json_answer([call.as_json(int(most) if most and most.isdecimal() else None) for call in self.calls])

    async def _forget_calls(self, request: web.Request) -> web.Response:
        self.calls.clear()
        return json_answer({"success": True})

    async def _set_fault(self, request: web.Request) -> web.Response:
        settings = read_object(await request.read())
        try:
            self.fault(**{"mode": "none", **settings})
        except (TypeError, ValueError) as error:
            return json_answer(simulated.error_body(str(error), status=400, kind="BadRequestError"), status=400)
        return json_answer({"mode": self._fault.mode, "known": MODES})


def _port(request: web.Request) -> int:
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    return int(peer[1]) if peer else 0
