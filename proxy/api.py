"""The doors: HTTP in, HTTP out. Reads requests, writes replies, words errors; decides nothing.

Errors that are ours have one shape, OpenAI's envelope. CORS is answered before anybody is asked for a key, and its
headers stand on errors too, or a browser would hide them.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDict

from proxy import dashboard, openai
from proxy.admin import PREFIX, Admin, Person
from proxy.auth import Door, Tenant
from proxy.call import Call, Journey, Reply
from proxy.errors import BadRequest, BodyTooLarge, ModelNotFound, NotFound, NoWorker, ProxyError
from proxy.feedback import Feedback
from proxy.gateway import Gateway
from proxy.metrics import CONTENT_TYPE, Metrics
from proxy.routing.workers import State, WorkerPool
from proxy.sse import event
from proxy.wire import whole

log = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Coroutine[Any, Any, web.StreamResponse]]

_MODEL = "/v1/models/"
_BODY_S = 300.0  # how long a body may take; who sends half of one holds it in our memory
_PRIVATE = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]  # what an operator is told
_LONGEST_ID = 256  # characters of a request id that we repeat
_CORS_EXPOSED = "Cache-Status, Age, X-Request-Id, X-Rejoinder-Reply, X-Rejoinder-Worker, Retry-After"
_LOGGED_MESSAGE = "Something broke on our side; the log has the details under this request id."


class Api:
    """cors_origins: who may call from a browser; "*" is anybody.  metrics_open: whether /metrics answers.
    admin: what is behind /admin.  assets: the files of /dashboard; none = there is no dashboard.
    around: puts those who watch around a journey."""

    def __init__(
        self, gateway: Gateway, feedback: Feedback, admin: Admin, pool: WorkerPool, door: Door, metrics: Metrics, *,
        cors_origins: tuple[str, ...], body_limit_bytes: int, metrics_open: bool,
        assets: Mapping[str, dashboard.Asset], around: Callable[[Journey], Journey],
    ) -> None:  # fmt: skip
        self._answer, self._relay = around(gateway.answer), around(gateway.relay)
        self._gateway = gateway
        self._feedback = feedback
        self._admin = admin
        self._pool = pool
        self._door = door
        self._metrics = metrics
        self._origins = frozenset(cors_origins)
        self._body_limit_bytes = body_limit_bytes
        self._metrics_open = metrics_open
        self._assets = assets
        self.closing = False

        self._handlers: dict[tuple[str, str], Handler] = {
            ("POST", "/v1/chat/completions"): self.cached,
            ("POST", "/v1/completions"): self.cached,
            ("GET", "/v1/models"): self.models,
            ("GET", "/health"): self.health,
            ("HEAD", "/health"): self.health,
            ("GET", "/ready"): self.ready,
            ("HEAD", "/ready"): self.ready,
            ("GET", "/metrics"): self.exposition,
            ("POST", "/v1/feedback"): self.rate,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Every request comes in here. What is not one of our own paths is what vLLM serves besides."""
        path = request.path
        handler = self._handlers.get((request.method, path))
        if handler is not None:
            return await handler(request)
        if request.method == "GET" and path.startswith(_MODEL):
            return await self.model(request)
        if path == PREFIX or path.startswith(f"{PREFIX}/"):
            return await self.inside(request)
        if path == dashboard.PREFIX or path.startswith(f"{dashboard.PREFIX}/"):
            return await self.page(request)
        return await self.other(request)

    # ── what is cached, and what is passed on ────────────────────────────────────────────────────────────────────

    async def cached(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /v1/chat/completions and /v1/completions."""
        return await self._guarded(request, lambda call: self._tell(request, call, self._answer))

    async def other(self, request: web.BaseRequest) -> web.StreamResponse:
        """Every other path, passed on byte for byte."""
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return self._preflight(request)
        return await self._guarded(request, lambda call: self._tell(request, call, self._relay))

    async def _tell(self, request: web.BaseRequest, call: Call, journey: Journey) -> web.StreamResponse:
        async with journey(call) as reply:
            self._metrics.replied(reply.status, reply.source, time.perf_counter() - call.came_s)
            headers = [*reply.headers, ("X-Request-Id", call.request_id), *self._cors(request)]
            if reply.stream is None:
                return whole(request, reply.status, headers, reply.body or b"")
            return await self._stream(request, reply, headers, call)

    async def _stream(
        self, request: web.BaseRequest, reply: Reply, headers: list[tuple[str, str]], call: Call
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=_multi(headers))
        assert reply.stream is not None
        if self.closing:
            response.force_close()
        await response.prepare(request)
        try:
            await self._write_all(response, reply, call)
        except ConnectionError:
            raise  # the client left
        except Exception as trouble:
            # The status is out; only the stream itself can still say it. No [DONE], and the connection breaks off, so
            # that no client takes what it has for the whole answer.
            error = trouble if isinstance(trouble, ProxyError) else ProxyError(_LOGGED_MESSAGE)
            log.warning("a reply broke off after it had begun: %s", trouble, exc_info=error is not trouble)
            if response.content_type == "text/event-stream":
                await response.write(event(openai.error_body(error)))
            if request.transport is not None:
                request.transport.close()
            return response
        await response.write_eof()
        return response

    async def _write_all(self, response: web.StreamResponse, reply: Reply, call: Call) -> None:
        assert reply.stream is not None
        timed = response.content_type != "text/event-stream"  # only then a piece is a token
        async with aclosing(reply.stream) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                await response.write(piece)
                if not timed:
                    timed = True
                    self._metrics.first_token(reply.source, time.perf_counter() - call.came_s)

    # ── small doors ──────────────────────────────────────────────────────────────────────────────────────────────

    async def models(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /v1/models: what the workers serve, merged."""

        async def listed(_: Call) -> web.StreamResponse:
            cards = self._pool.models()
            if not cards:
                raise NoWorker("No worker has said yet which models it serves. Try again in 2 s.", retry_after_s=2)
            return self._json(request, {"object": "list", "data": cards})

        return await self._guarded(request, listed)

    async def model(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /v1/models/{model}."""

        async def one(_: Call) -> web.StreamResponse:
            name = request.path.removeprefix(_MODEL)
            for card in self._pool.models():
                if card.get("id") == name:
                    return self._json(request, card)
            raise ModelNotFound(f"The model `{name}` does not exist or you do not have access to it.", param="model")

        return await self._guarded(request, one)

    async def health(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /health: this process is alive."""
        return web.Response(text="ok\n", headers=_multi(self._cors(request)))

    async def ready(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /ready: a worker is up, and we are not shutting down."""
        up = sum(worker.state is State.UP for worker in self._pool)
        ready = up > 0 and not self.closing
        body = {"ready": ready, "workers_up": up, "workers": len(self._pool)}
        return web.json_response(body, status=200 if ready else 503, headers=_multi(self._cors(request)))

    async def exposition(self, _: web.BaseRequest) -> web.StreamResponse:
        """GET /metrics, for Prometheus."""
        if not self._metrics_open:
            return web.Response(status=404, text="metrics are switched off\n")
        states: dict[str, int] = {state.value: 0 for state in State}
        for worker in self._pool:
            states[worker.state.value] += 1
        self._metrics.workers(states)
        self._metrics.owed(self._gateway.owed)
        return web.Response(body=self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def rate(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /v1/feedback: what a caller says of a reply."""

        async def rated(call: Call) -> web.StreamResponse:
            return self._json(request, await self._feedback.rate(call))

        return await self._guarded(request, rated)

    async def inside(self, request: web.BaseRequest) -> web.StreamResponse:
        """Everything under /admin; never passed on to a worker."""
        cookies = request.cookies if "Cookie" in request.headers else {}
        entered: list[Person] = []

        def enter() -> Tenant:
            person = self._admin.enter(request.method, request.path, request.headers, cookies, request.version)
            entered.append(person)
            return entered[0].tenant

        async def done(call: Call) -> web.StreamResponse:
            told = await self._admin.answer(call, entered[0])
            if not isinstance(told, Reply):
                return self._json(request, told, cors=False)
            headers = [*told.headers, *_PRIVATE, ("X-Request-Id", call.request_id)]
            if told.stream is None:
                return whole(request, told.status, headers, told.body or b"")
            return await self._stream(request, told, headers, call)

        return await self._guarded(request, done, enter=enter)

    async def page(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /dashboard/ and its files. They hold no data, so everybody may have them."""
        if request.path == dashboard.PREFIX and self._assets:
            return web.Response(status=308, headers={"Location": f"{dashboard.PREFIX}/"})
        asset = self._assets.get(request.path.removeprefix(f"{dashboard.PREFIX}/") or "index.html")
        if asset is None or request.method not in ("GET", "HEAD"):
            request_id = openai.request_id()
            return self._error(request, NotFound(f"There is no {request.method} {request.path} here."), request_id)
        fresh = request.headers.get("If-None-Match") == asset.tag
        status, body = (304, None) if fresh else (200, asset.body)
        return web.Response(status=status, headers=_multi(asset.headers()), body=body)

    # ── around every handler ─────────────────────────────────────────────────────────────────────────────────────

    async def _guarded(
        self, request: web.BaseRequest, answer: Callable[[Call], Coroutine[Any, Any, web.StreamResponse]],
        enter: Callable[[], Tenant] | None = None,
    ) -> web.StreamResponse:  # fmt: skip
        """Count the request, let it in, and turn every error into the one envelope. enter: who it is; None = as the
        API keys say."""
        request_id = request.headers.get("X-Request-Id")
        if not request_id or len(request_id) > _LONGEST_ID or not request_id.isprintable():
            request_id = openai.request_id()
        self._metrics.entered()
        try:
            return await answer(await self._read(request, request_id, enter))
        except ProxyError as error:
            return self._error(request, error, request_id)
        except (ConnectionResetError, asyncio.CancelledError):
            raise  # the client left: nobody is there to be told
        except Exception:
            log.exception("request %s failed", request_id)
            return self._error(request, ProxyError(_LOGGED_MESSAGE), request_id)
        finally:
            self._metrics.left()

    async def _read(self, request: web.BaseRequest, request_id: str, enter: Callable[[], Tenant] | None) -> Call:
        headers = request.headers
        tenant = self._door.enter(headers) if enter is None else enter()
        body = b""
        if (request.content_length or 0) > self._body_limit_bytes:
            raise self._too_large()
        if request.body_exists:
            if headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
                # Only now, so that a wrong key or a body that is too large costs nobody the upload (RFC 9110, 10.1.1).
                request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            try:
                if request.content.is_eof():  # all of it came with the head, as most do: nothing to wait for
                    body = request.content.read_nowait()
                    if len(body) > self._body_limit_bytes:
                        raise self._too_large()
                else:
                    async with asyncio.timeout(_BODY_S):
                        body = await request.read()
            except TimeoutError:
                raise BadRequest(f"The request body did not arrive within {_BODY_S:g} s.") from None
            except web.HTTPRequestEntityTooLarge:
                raise self._too_large() from None
            except (web.HTTPBadRequest, ValueError) as bad:
                raise BadRequest(f"The request body cannot be read: {bad}") from None
        return Call(
            request.method, request.path, _target(request), headers,
            request.raw_headers, request.cookies if "Cookie" in headers else {}, body, tenant, request_id,
        )  # fmt: skip

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"The request body is larger than {self._body_limit_bytes} bytes. Send less, or raise body_limit_bytes."
        )

    def _error(self, request: web.BaseRequest, error: ProxyError, request_id: str) -> web.Response:
        self._metrics.replied(error.status, "error", None)
        headers = [("Content-Type", "application/json"), ("X-Request-Id", request_id), *self._cors(request)]
        if error.retry_after_s is not None:
            headers.append(("Retry-After", str(error.retry_after_s)))
        if error.status == 401:
            headers.append(("WWW-Authenticate", "Bearer"))
        response = web.Response(status=error.status, headers=_multi(headers), body=openai.error_body(error))
        if error.status == 413:
            response.force_close()  # the rest of the body is not worth reading
        return response

    def _json(self, request: web.BaseRequest, value: object, *, cors: bool = True) -> web.Response:
        headers = [("Content-Type", "application/json"), *(self._cors(request) if cors else _PRIVATE)]
        return web.Response(headers=_multi(headers), body=orjson.dumps(value))

    # ── CORS ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _cors(self, request: web.BaseRequest) -> list[tuple[str, str]]:
        origin = request.headers.get("Origin")
        if origin is None or request.path.startswith(PREFIX):
            return []
        if "*" in self._origins:
            return [("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", _CORS_EXPOSED)]
        if origin in self._origins:
            return [
                ("Access-Control-Allow-Origin", origin), ("Vary", "Origin"),
                ("Access-Control-Expose-Headers", _CORS_EXPOSED),
            ]  # fmt: skip
        return [("Vary", "Origin")]

    def _preflight(self, request: web.BaseRequest) -> web.Response:
        headers = self._cors(request)
        if any(name == "Access-Control-Allow-Origin" for name, _ in headers):
            asked = request.headers.get("Access-Control-Request-Headers", "Authorization, Content-Type")
            headers += [
                ("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS"),
                ("Access-Control-Allow-Headers", asked), ("Access-Control-Max-Age", "600"),
            ]  # fmt: skip
        return web.Response(status=204, headers=_multi(headers))


def _target(request: web.BaseRequest) -> str:
    """Path and query byte for byte; without its authority when a client sends an absolute URI (RFC 9112, 3.2.2)."""
    target = request.raw_path if request.raw_path.startswith("/") else str(request.rel_url)
    if not target.startswith("/"):
        raise NotFound(f"{request.method} {target} is nothing that can be asked here.")
    return target


def _multi(headers: list[tuple[str, str]]) -> CIMultiDict[str]:
    """Duplicates kept, as a worker may send several of one name."""
    return CIMultiDict(headers)
