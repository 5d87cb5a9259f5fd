"""A worker that says exactly what a test tells it to say, byte by byte, and remembers what it was asked.

    async with ScriptedWorker(answer) as worker:      # answer: async (request, asked) -> web.StreamResponse
        …

Where `proxy.demo` behaves like vLLM, this one behaves like whatever went wrong."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web

STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came. target: path and query, raw.  headers: as they came, duplicates included."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    version: tuple[int, int]

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for known, value in self.headers if known.lower() == name.lower()), None)


Answer = Callable[[web.Request, Asked], Awaitable[web.StreamResponse]]


class ScriptedWorker:
    """models: what /v1/models says: model id → root."""

    def __init__(self, answer: Answer, *, models: Mapping[str, str] | Iterable[str] = ("demo",)) -> None:
        self.answer = answer
        self.models = dict(models) if isinstance(models, Mapping) else {model: model for model in models}
        self.calls: list[Asked] = []
        self.left = 0  # clients who left before their answer was over
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.add_routes([
            web.get("/health", self._health), web.get("/v1/models", self._models),
            web.get("/metrics", self._exposition), web.get("/kv_event_sources", self._no_events),
            web.route("*", "/{path:.*}", self._any),
        ])  # fmt: skip
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _no_events(self, _: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _exposition(self, _: web.Request) -> web.Response:
        """Probes read it, too, and are no calls; a worker without metrics is no worse for it."""
        return web.Response(status=404)

    async def _models(self, _: web.Request) -> web.Response:
        cards = [{"id": name, "object": "model", "created": 1, "owned_by": "test", "root": root}
                 for name, root in self.models.items()]  # fmt: skip
        return web.json_response({"object": "list", "data": cards})

    async def _any(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = tuple((name.decode(), value.decode("latin-1")) for name, value in request.raw_headers)
        asked = Asked(request.method, request.raw_path, headers, body, tuple(request.version[:2]))
        self.calls.append(asked)
        try:
            return await self.answer(request, asked)
        except (asyncio.CancelledError, ConnectionResetError):
            self.left += 1
            raise


def completion(message: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A `chat.completion` that says this message."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    return {"id": "chatcmpl-w", "object": "chat.completion", "created": 1_700_000_000, "model": "demo",
            "choices": [choice], "usage": usage, **fields}  # fmt: skip


def chunked(
    deltas: Iterable[Mapping[str, Any]], *, finish: str | None = "stop", usage: bool = True, **fields: Any
) -> bytes:
    """The same as a stream: one event per delta, then the finish_reason, the usage and [DONE]."""
    base = {"id": "chatcmpl-w", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "demo", **fields}
    pieces = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish is not None:
        pieces.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        pieces.append({**base, "choices": [],
                       "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}})  # fmt: skip
    return b"".join(b"data: " + orjson.dumps(piece) + b"\n\n" for piece in pieces) + b"data: [DONE]\n\n"


async def stream_of(
    request: web.Request, pieces: Iterable[bytes], headers: Mapping[str, str] = STREAM
) -> web.StreamResponse:
    """Each piece is a write of its own."""
    response = web.StreamResponse(headers=dict(headers))
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
        await asyncio.sleep(0)
    await response.write_eof()
    return response
