"""A simulated vLLM worker on a loopback port: for `rejoinder demo` and for tests. A tool; it says so in every answer.

    async with SimulatedWorker() as worker:          # worker.url, worker.calls, worker.fault("die", after=3)
        …

It runs in this process on aiohttp's production runner, with `handler_cancellation`, so that it notices a client that
leaves as vLLM does. Faults can also be switched over HTTP: `POST /_fault {"mode": "die", "after": 3, "times": 1}`.
"""

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import orjson
from aiohttp import web

from proxy import simulated
from proxy.faults import APOLOGY, MODES, Call, Fault, Pace
from proxy.simulated import Json, PrefixCache, Prompt, Unfit, Written

__all__ = ["Call", "Fault", "Pace", "SimulatedWorker"]

MOST_CALLS: Final = 10_000
_QUIET: Final = frozenset({"/health", "/v1/models", "/metrics", "/calls", "/_fault", "/version", "/load"})
_CALL: Final = web.RequestKey("call", Call)


class SimulatedWorker:
    """Enter it to start it; `stop`, `kill` and `start` keep its port, so that a worker can come back."""

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
    ) -> None:
        self.models = tuple(models)
        self.pace = pace or Pace()
        self.calls: list[Call] = []
        self.health_checks = 0
        self.cache = PrefixCache()
        self.verdict: Callable[[str], float] | None = None  # prompt of a completion → P(yes), for playing the judge
        self.api_key = api_key
        self._name = name
        self._fault = fault or Fault()
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None
        self._changed = asyncio.Event()
        self._created = int(time.time())
        self._waiting = 0

    # -- life ----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}"

    @property
    def name(self) -> str:
        return self._name or f"simulated-{self._port}"

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
                web.post("/_fault", self._set_fault),
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._completions),
                web.post("/tokenize", self._tokenize),
                web.post("/v1/embeddings", self._embeddings),
                web.post("/reset_prefix_cache", self._reset_prefix_cache),
            ]
        )
        self.cache.clear()
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

    async def kill(self) -> None:
        """As SIGKILL: every connection is reset now."""
        if self._runner is not None:
            self.drop_connections()
            await self.stop()

    def drop_connections(self) -> None:
        """Reset every connection, idle ones too, and keep listening."""
        if self._runner is not None and self._runner.server is not None:
            for connection in list(self._runner.server.connections):
                _reset(connection.transport)

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
            return _json({"error": "Unauthorized"}, status=401)
        if request.path in _QUIET:
            try:
                return await handler(request)
            except Unfit as unfit:
                return _json(unfit.body, status=unfit.status)
        call = Call(request.method, request.path_qs, request.headers.copy(), b"", time.monotonic())
        self.calls.append(call)
        del self.calls[:-MOST_CALLS]
        request[_CALL] = call
        self._waiting += 1
        try:
            call.body = await request.read()
            self._changed.set()
            response = await handler(request)
        except asyncio.CancelledError:
            call.disconnected_at_s = time.monotonic()
            raise
        except ConnectionResetError:  # it left between two chunks, and we noticed by writing
            call.disconnected_at_s = time.monotonic()
            response = web.Response()
        except Unfit as unfit:
            response = _json(unfit.body, status=unfit.status)
        except web.HTTPException as error:  # vLLM's own words for unknown paths and methods
            response = _json({"detail": error.reason}, status=error.status)
        finally:
            self._waiting -= 1
            call.ended_at_s = time.monotonic()
            self._changed.set()
        return response

    def _authorized(self, request: web.Request) -> bool:
        return request.headers.get("Authorization") == f"Bearer {self.api_key}"

    # -- questions -----------------------------------------------------------------------------------------------

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "chat")

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "text")

    async def _answer(self, request: web.Request, kind: str) -> web.StreamResponse:
        call = request[_CALL]
        fault, mode = self._fault, self._fault.take()
        if mode == "hang":
            await asyncio.Event().wait()
        if mode == "reset":
            return _drop(request)
        if mode == "status":
            return _refusal(fault)
        body = _read(call.body)
        read = simulated.read_chat if kind == "chat" else simulated.read_completion
        prompt = read(body, self.models, self.models[0])
        cached = self.cache.take(prompt.tokens, prompt.salt)
        call.cached_tokens = cached
        written = self._write(request, prompt, cached, fault, mode, kind)
        await _sleep(self.pace.first_token_s + self.pace.prefill_token_s * (len(prompt.tokens) - cached))
        if body.get("stream"):
            return await self._stream(request, written, fault, mode, kind)
        await _sleep(self.pace.token_s * len(written.tokens))
        choices = 0 if mode == "no_choices" else int(body.get("n") or 1)
        whole = simulated.chat_whole if kind == "chat" else simulated.completion_whole
        answer = orjson.dumps(whole(written, choices=choices))
        if mode in ("die", "stall", "cut"):
            return await self._half(request, answer, fault, mode)
        self.cache.keep((*prompt.tokens, *written.tokens), prompt.salt)
        return web.Response(body=answer, content_type="application/json", headers=self._headers(request))

    def _write(self, request: web.Request, prompt: Prompt, cached: int, fault: Fault, mode: str, kind: str) -> Written:
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
        return Written(name, int(time.time()), prompt, tuple(tokens), finish, cached, p_yes)

    async def _stream(
        self, request: web.Request, written: Written, fault: Fault, mode: str, kind: str
    ) -> web.StreamResponse:
        call = request[_CALL]
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", **self._headers(request)}
        )
        await response.prepare(request)
        for chunk in self._events(written, kind, mode):
            if mode in ("die", "stall", "cut") and call.chunks >= fault.after:
                if mode == "cut":
                    await response.write(b"data: [DONE]\n\n" if fault.done else b"")
                    return response
                if mode == "stall":
                    await asyncio.Event().wait()
                return _drop(request, response, rst=fault.rst)
            if call.chunks:
                await _sleep(self.pace.token_s)
            await response.write(b"data: " + orjson.dumps(chunk) + b"\n\n")
            call.chunks += 1
            self._changed.set()
        await response.write(b"data: [DONE]\n\n")
        self.cache.keep((*written.prompt.tokens, *written.tokens), written.prompt.salt)
        return response

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
        if mode == "stall":
            await asyncio.Event().wait()
        return _drop(request, response, rst=fault.rst)

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
        return _json({"object": "list", "data": cards})

    async def _version(self, request: web.Request) -> web.Response:
        return _json({"version": "0.32.0"})

    async def _load(self, request: web.Request) -> web.Response:
        return _json({"server_load": self._waiting})

    async def _metrics(self, request: web.Request) -> web.Response:
        labels = f'{{engine="0",model_name="{self.models[0]}"}}'
        text = (
            f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{labels} {self._waiting}\n"
            f"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{labels} 0\n"
            f"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{labels} 0\n"
        )
        return web.Response(text=text, headers={"X-Simulated": "true"})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = _read(request[_CALL].body)
        read = simulated.read_chat if "messages" in body else simulated.read_completion
        words = read(body, self.models, self.models[0]).tokens
        numbers = [simulated.token_id(word) for word in words]
        return _json({"count": len(words), "max_model_len": 8192, "tokens": numbers, "token_strs": None})

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = _read(request[_CALL].body)
        texts = body.get("input", "")
        texts = [str(text) for text in texts] if isinstance(texts, list) else [str(texts)]
        vectors = enumerate(map(simulated.embedding, texts))
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in vectors]
        count = sum(len(simulated.tokens_of(text)) for text in texts)
        return _json(
            {
                "id": f"embd-{uuid4().hex}",
                "object": "list",
                "created": int(time.time()),
                "model": body.get("model") or self.models[0],
                "data": data,
                "usage": {"prompt_tokens": count, "total_tokens": count, "completion_tokens": 0},
            }
        )

    async def _reset_prefix_cache(self, request: web.Request) -> web.Response:
        self.cache.clear()
        return _json({"success": True})

    async def _tell_calls(self, request: web.Request) -> web.Response:
        return _json([call.as_json() for call in self.calls])

    async def _set_fault(self, request: web.Request) -> web.Response:
        settings = _read(await request.read())
        try:
            self.fault(**{"mode": "none", **settings})
        except (TypeError, ValueError) as error:
            return _json(simulated.error_body(str(error), status=400, kind="BadRequestError"), status=400)
        return _json({"mode": self._fault.mode, "known": MODES})


def _read(body: bytes) -> Json:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unfit(f"There was an error parsing the body: {error}", kind="Bad Request") from error
    if not isinstance(value, dict):
        raise Unfit("the body must be a JSON object", kind="Bad Request")
    return value


def _json(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(value),
        status=status,
        content_type="application/json",
        headers={"X-Simulated": "true", **(headers or {})},
    )


def _refusal(fault: Fault) -> web.Response:
    kinds = {400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError", 503: "ServiceUnavailableError"}
    body = simulated.error_body(
        f"simulated {fault.status}", status=fault.status, kind=kinds.get(fault.status, "InternalServerError")
    )
    after = {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
    return _json(body, status=fault.status, headers=after)


async def _sleep(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)


def _drop(request: web.Request, response: web.StreamResponse | None = None, *, rst: bool = True) -> web.StreamResponse:
    if rst:
        _reset(request.transport)
    elif request.transport is not None:
        request.transport.close()  # after what was written has gone out
    return response or web.Response()


def _reset(transport: asyncio.Transport | None) -> None:
    """Close with RST: what a client sees of a process that was killed."""
    if transport is None or transport.is_closing():
        return
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
