"""Asking a worker: the only door to the aiohttp client. Bytes are relayed as they come; nothing here decides.

    async with upstream.ask(worker, "POST", "/v1/chat/completions", headers, body) as reply:
        async for chunk in reply.chunks(): …

Leaving the block early, by exception or cancellation too, closes the connection, and vLLM aborts the generation.

Pitfalls that the settings below answer: aiohttp keeps idle connections longer than vLLM's 5 s and never repeats a POST
(so a stale connection would be a 502); its cookie jar would carry one user's cookies to the next; `sock_read` timers
have poisoned pooled connections (aiohttp#12953), hence our own; bytes bodies above 1 MiB warn and block the loop.
"""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from proxy.headers import Headers, strip_hop_by_hop
from proxy.routing.workers import Worker
from proxy.upstream_errors import Phase, WorkerBroke, WorkerFailed, WorkerSilent, WorkerUnreachable

KEEPALIVE_S: Final = 3.0  # must stay below vLLM's VLLM_HTTP_TIMEOUT_KEEP_ALIVE (5 s)
READ_BUFFER_BYTES: Final = 65_536  # aiohttp's default of 256 KiB is GBs with some thousand slow readers
SLICE_BYTES: Final = 262_144  # large bodies go out in slices, so that other requests get their turn
_NO_AUTO_HEADERS: Final = frozenset({"User-Agent", "Accept", "Accept-Encoding", "Content-Type"})

_ASCII_PATH: Final = bytes(range(0x21, 0x7F)).decode()

Body = bytes | AsyncIterable[bytes] | None


class UpstreamReply:
    """A worker's answer, status and headers at once, body as it comes.

    headers: hop-by-hop ones are gone; Content-Length and Content-Encoding describe the bytes of `chunks()`."""

    __slots__ = (
        "_idle_s",
        "_proves_life",
        "_response",
        "_silent",
        "_waiting_since_s",
        "_watch",
        "body_bytes",
        "headers",
        "opened",
        "status",
        "worker",
    )

    def __init__(
        self, worker: Worker, response: aiohttp.ClientResponse, idle_s: float | None, *, proves_life: bool
    ) -> None:
        self.worker = worker
        self.status = response.status
        self.headers: Headers = strip_hop_by_hop(response.raw_headers)
        self.body_bytes = 0
        self.opened: Callable[[], None] | None = None  # called when the first byte of the body is here
        self._response = response
        self._idle_s = idle_s
        self._proves_life = proves_life
        self._waiting_since_s = 0.0  # 0 = not waiting for the worker (the client is slow, or it is over)
        self._silent = False
        self._watch: asyncio.TimerHandle | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, never re-framed or copied. Raises WorkerBroke or WorkerSilent when it ends badly."""
        read, worker, now_s = self._response.content.readany, self.worker, time.monotonic
        if self._idle_s is not None:
            self._watch_silence()
        try:
            while True:
                self._waiting_since_s = now_s()
                chunk = await read()
                self._waiting_since_s = 0.0
                if not chunk:
                    return
                if self._proves_life:
                    worker.last_seen_s = now_s()
                if self.opened is not None:
                    self.opened()
                    self.opened = None
                self.body_bytes += len(chunk)
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(error) from error
        finally:
            self._waiting_since_s = 0.0
            if self._watch is not None:
                self._watch.cancel()

    async def read(self) -> bytes:
        """The whole body; for answers that must be whole before anything can be told."""
        chunks = [chunk async for chunk in self.chunks()]
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Give the connection back if the answer is over, else close it, so that the worker stops generating."""
        if self._watch is not None:
            self._watch.cancel()
        self._response.close()

    def _failure(self, error: Exception) -> WorkerFailed:
        if self._silent and self._idle_s is not None:
            return WorkerSilent(self.worker, Phase.IDLE, self._idle_s, body_bytes=self.body_bytes)
        return WorkerBroke(self.worker, f"broke off its answer ({_words(error)})", body_bytes=self.body_bytes)

    def _watch_silence(self) -> None:
        """One timer per reply, which looks at the clock when it fires: re-arming one per chunk would cost more than
        the relay does. So silence is noticed after idle_s at the earliest, and after twice that at the latest."""
        assert self._idle_s is not None
        waited_s = time.monotonic() - self._waiting_since_s if self._waiting_since_s else 0.0
        if waited_s >= self._idle_s:
            self._silent = True
            # Wakes `read`. An error of its own: the one that `close` would set is a global of aiohttp, whose traceback
            # would grow with every stream that falls silent.
            self._response.content.set_exception(TimeoutError())
            self._response.close()
            return
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(self._idle_s - waited_s + 0.001, self._watch_silence)


class Upstream:
    """Connections to all workers. One per process; enter it before asking.

    connect_s: how long a new connection may take, name lookup included.  keepalive_s: how long an idle one is kept.
    Connections are not limited in number: admission is the gateway's business, and a full pool looks like a dead worker
    (litellm#14895, sglang#12355)."""

    def __init__(self, *, connect_s: float = 3.0, keepalive_s: float = KEEPALIVE_S) -> None:
        self._connect_s = connect_s
        self._keepalive_s = keepalive_s
        self._pooled: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._pooled = self._session(keepalive_timeout=self._keepalive_s)
        self._fresh = self._session(force_close=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._pooled, self._fresh):
            if session is not None:
                await session.close()
        self._pooled = self._fresh = None

    def _session(self, **pooling: Any) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(limit=0, ttl_dns_cache=10, **pooling),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_s, sock_connect=None, sock_read=None),
            auto_decompress=False,
            raise_for_status=False,
            trust_env=False,
            skip_auto_headers=_NO_AUTO_HEADERS,
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=65_536,
            max_field_size=65_536,
        )

    @asynccontextmanager
    async def ask(
        self,
        worker: Worker,
        method: str,
        path_qs: str,
        headers: Sequence[tuple[str, str]] = (),
        body: Body = None,
        *,
        first_byte_s: float | None = None,
        idle_s: float | None = None,
        proves_life: bool = True,
    ) -> AsyncIterator[UpstreamReply]:
        """Send one request to one worker; any status is an answer.

        path_qs: sent byte for byte; starts with "/".  headers: as `proxy.headers.upstream_headers` made them.
        first_byte_s: from here to the answer's headers: vLLM sends them with a whole answer, or when a stream opens.
        idle_s: the longest silence inside the body, first token included; time that *we* do not read does not count.
        proves_life: bytes of the answer, unless it is a 5xx, set `worker.last_seen_s`; False for probes.
        Raises WorkerUnreachable, WorkerSilent, WorkerBroke; what `body` itself raises comes through unchanged."""
        if not path_qs.startswith("/"):
            raise ValueError(f"path must start with '/': {path_qs!r}")
        url = URL(worker.url + _ascii(path_qs), encoded=True)
        response = await self._send(_Request(worker, method, url, _one_spelling(headers), body), first_byte_s)
        reply = UpstreamReply(worker, response, idle_s, proves_life=proves_life and response.status < 500)
        try:
            yield reply
        finally:
            reply.close()

    async def _send(self, request: "_Request", first_byte_s: float | None) -> aiohttp.ClientResponse:
        if first_byte_s is None:
            return await self._delivered(request)
        limit = asyncio.timeout(first_byte_s)
        try:
            async with limit:
                return await self._delivered(request)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the body's own
            raise WorkerSilent(request.worker, Phase.FIRST_BYTE, first_byte_s) from error

    async def _delivered(self, request: "_Request") -> aiohttp.ClientResponse:
        if self._pooled is None or self._fresh is None:
            raise RuntimeError("Upstream is not open: use `async with Upstream() as upstream`")
        try:
            return await _exchange(self._pooled, request)
        except WorkerUnreachable as stale:
            # The worker closed a connection that lay in our pool while we were writing on it. It has not answered,
            # so asking the same worker again, on a connection of its own, is the right repair.
            if not stale.reused or not request.repeatable:
                raise
        return await _exchange(self._fresh, request)


class _Request(NamedTuple):
    worker: Worker
    method: str
    url: URL
    headers: CIMultiDict[str]
    body: Body

    @property
    def repeatable(self) -> bool:
        return self.body is None or isinstance(self.body, bytes)


async def _exchange(session: aiohttp.ClientSession, request: _Request) -> aiohttp.ClientResponse:
    """Send and wait for the answer's headers, on one connection; aiohttp's errors become ours here."""
    leg = _Leg()
    _LEG.set(leg)
    worker, body = request.worker, request.body
    watched = None if body is None or isinstance(body, bytes) else _WatchedBody(body)
    try:
        return await session.request(
            request.method, request.url, headers=request.headers, data=watched or _sliced(body), allow_redirects=False
        )
    except (aiohttp.ClientError, OSError) as error:
        if watched is not None and watched.error is not None:
            raise watched.error from None
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            raise WorkerSilent(worker, Phase.CONNECT, session.timeout.connect or 0.0) from error
        if isinstance(error, aiohttp.ClientResponseError) or _spoke(error):
            raise WorkerBroke(worker, f"did not speak HTTP ({_words(error)})") from error
        trouble = "dropped the connection before answering" if leg.connected else "cannot be reached"
        raise WorkerUnreachable(
            worker, f"{trouble} ({_words(error)})", connected=leg.connected, reused=leg.reused
        ) from error


class _Leg:
    """What the connector tells about one request's connection."""

    __slots__ = ("connected", "reused")

    def __init__(self) -> None:
        self.connected = False
        self.reused = False


_LEG: ContextVar[_Leg] = ContextVar("_LEG")


class _Connector(aiohttp.TCPConnector):
    """Tells the request's leg when it has a connection, and whether that one had served before.

    aiohttp's trace hooks could tell the same, but await a signal at every step of every request."""

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Connection:  # noqa: ASYNC109
        connection = await super().connect(req, traces, timeout)
        leg = _LEG.get()
        leg.connected = True
        protocol: Any = connection.protocol
        leg.reused = getattr(protocol, "served", False)
        protocol.served = True
        return connection


class _WatchedBody:
    """A streamed body that remembers its own error: aiohttp would tell it as a failure of the worker."""

    __slots__ = ("_chunks", "error")

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks
        self.error: BaseException | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        except Exception as error:
            self.error = error
            raise


class _SlicedBody(aiohttp.BytesPayload):
    """A large body written in slices; `BytesPayload` writes it in one piece, and warns about that."""

    def __init__(self, value: bytes) -> None:
        super().__init__(b"")
        self._value = value
        self._size = len(value)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        view = memoryview(self._value)
        for start in range(0, len(view), SLICE_BYTES):
            await writer.write(view[start : start + SLICE_BYTES])


def _sliced(body: Body) -> Any:
    return _SlicedBody(body) if isinstance(body, bytes) and len(body) > SLICE_BYTES else body


def _one_spelling(headers: Sequence[tuple[str, str]]) -> CIMultiDict[str]:
    """aiohttp keeps repeated headers only if they are spelled alike; of `X-A` and `x-a` it drops the first."""
    if len({name.lower() for name, _ in headers}) == len(headers):
        return CIMultiDict(headers)
    spelled: dict[str, str] = {}
    return CIMultiDict([(spelled.setdefault(name.lower(), name), value) for name, value in headers])


def _ascii(path_qs: str) -> str:
    """A raw path with bytes beyond ASCII, percent-encoded: aiohttp would re-encode them, or fail on bad UTF-8."""
    return path_qs if path_qs.isascii() else quote(path_qs.encode("utf-8", "surrogateescape"), safe=_ASCII_PATH)


def _spoke(error: Exception) -> bool:
    """Whether the connection ended inside an answer's head: not "not one byte"."""
    return isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str)


def _words(error: Exception) -> str:
    """For the log. What the system says of a connection; of an answer that is no HTTP only the kind of the mistake, as
    aiohttp quotes the bytes, and they may be somebody's chat."""
    if isinstance(error, OSError) and str(error):
        return f"{type(error).__name__}: {error}"[:200]
    kinds = [type(each).__name__ for each in (error, error.__cause__) if each is not None]
    return ": ".join(dict.fromkeys(kinds))
