"""The front: the only module that calls the constructors of the proxy's parts. It opens them in order, closes them in
reverse, and runs the production server.

`open_proxy` gives a running server; tests use the very same one (aiohttp's test server hides that, without
`handler_cancellation`, a client that leaves keeps its worker busy).
"""

import asyncio
import contextlib
import functools
import gc
import hashlib
import logging
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from cache import CacheSettings, Reach, Rules, StateError, TieredCache, open_cache
from proxy.api import Api
from proxy.auth import NOBODY, Door
from proxy.dispatch import Dispatch
from proxy.flights import Flights
from proxy.gateway import Gateway, Landed
from proxy.health import Health
from proxy.metrics import Metrics
from proxy.routing.homes import Homes
from proxy.routing.workers import WorkerPool
from proxy.settings import Settings
from proxy.upstream import Upstream

log = logging.getLogger(__name__)

CacheOpener = Callable[[CacheSettings], AbstractAsyncContextManager[TieredCache]]


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running server. url: where it listens."""

    url: str
    gateway: Gateway
    cache: TieredCache
    pool: WorkerPool
    health: Health
    flights: Flights[Landed]


@contextlib.asynccontextmanager
async def open_proxy(
    settings: Settings, *, sock: socket.socket | None = None, cache_of: CacheOpener = open_cache
) -> AsyncIterator[Proxy]:
    """Open every part, then the doors. sock: a bound socket to listen on instead of host and port.
    cache_of: opens the cache (tests give it a clock, a store or an embedder of their own).
    Raises StateError, OSError (the port is taken)."""
    state_dir = settings.state_dir.expanduser() if settings.store == "sqlite" and not settings.redis_url else None
    secret = _secret(settings, state_dir)
    rules = Rules(
        ttl_s=settings.ttl_s, time_bound_ttl_s=settings.time_bound_ttl_s, recent_window_s=settings.recent_window_s,
        reach=Reach[settings.reach.upper()],
    )  # fmt: skip
    door = Door(settings.api_keys, frozenset(settings.trusted_tenants), secret, open_loopback=settings.loopback)
    worker_key = settings.worker_api_key.get_secret_value() if settings.worker_api_key else None
    async with contextlib.AsyncExitStack() as stack:
        metrics = await stack.enter_async_context(Metrics())
        cache = await stack.enter_async_context(cache_of(_cache_settings(settings, rules, state_dir, secret)))
        upstream = await stack.enter_async_context(Upstream())
        pool = WorkerPool(settings.workers)
        probe_headers = [("Authorization", f"Bearer {worker_key}")] if worker_key else []
        health = await stack.enter_async_context(
            Health(pool, upstream, interval_s=settings.probe_s, headers=probe_headers)
        )
        homes = None if settings.redis_url else Homes()  # replicas must agree, and only the hash is the same in all
        dispatch = Dispatch(pool, upstream, homes, first_byte_s=settings.first_byte_s, idle_s=settings.idle_s)
        flights = await stack.enter_async_context(Flights[Landed]())
        gateway = await stack.enter_async_context(
            Gateway(cache, flights, dispatch, door, metrics, pool, rules, secret, worker_api_key=worker_key)
        )
        api = Api(
            gateway, pool, door, metrics, cors_origins=settings.cors_origins,
            body_limit_bytes=settings.body_limit_bytes, metrics_open=settings.metrics,
        )  # fmt: skip
        url = await stack.enter_async_context(_listening(settings, api, sock))
        yield Proxy(url, gateway, cache, pool, health, flights)
        api.closing = True


@contextlib.asynccontextmanager
async def _listening(settings: Settings, api: Api, sock: socket.socket | None) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    request = functools.partial(web.BaseRequest, loop=loop, client_max_size=settings.body_limit_bytes)
    # The server without aiohttp's Application: our paths are one dictionary, and its router costs a tenth of a hit.
    server = web.Server(
        api.handle,
        request_factory=request,
        handler_cancellation=True,  # the client leaving must cancel the generation; aiohttp's default is False
        access_log=None,
        keepalive_timeout=75.0,  # longer than the idle timeout of the usual load balancers (60 s)
        auto_decompress=False,
    )
    runner = web.ServerRunner(server, shutdown_timeout=settings.drain_s)
    await runner.setup()
    try:
        site: web.BaseSite
        if sock is not None:
            site = web.SockSite(runner, sock, backlog=1024)
        else:
            site = web.TCPSite(runner, settings.host, settings.port, backlog=1024)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        await runner.cleanup()


def _cache_settings(settings: Settings, rules: Rules, state_dir: Path | None, secret: bytes) -> CacheSettings:
    return CacheSettings(
        rules=rules,
        fingerprint=hashlib.sha256(b"rejoinder fingerprint\0" + secret).hexdigest()[:16],
        state_dir=state_dir,
        redis_url=settings.redis_url.get_secret_value() if settings.redis_url else None,
        redis_prefix=settings.redis_prefix,
        capacity=settings.capacity,
        embedder=settings.embedder,
        embed_deadline_s=settings.embed_deadline_s,
        similarity_threshold=settings.similarity_threshold,
        store_deadline_s=settings.store_deadline_s,
        session_idle_s=settings.session_idle_s,
        sessions=settings.sessions,
        sweep_s=settings.sweep_s,
    )


def _secret(settings: Settings, state_dir: Path | None) -> bytes:
    """The secret that keys every digest: given, or made once and kept with mode 0600. Raises StateError."""
    if settings.secret is not None:
        return settings.secret.get_secret_value().encode()
    if state_dir is None:
        return secrets.token_bytes(32)  # everything dies with this process, and so may its secret
    path = state_dir / "secret"
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError), open(path, "xb", opener=_private) as file:
            file.write(secrets.token_hex(32).encode())
        secret = path.read_bytes().strip()
    except OSError as trouble:
        raise StateError(
            f"The state directory {state_dir} cannot be used: {trouble.strerror}. Choose another with state_dir."
        ) from trouble
    if len(secret) < 16:
        raise StateError(f"The secret in {path} is too short. Delete the file and the store beside it to start anew.")
    return secret


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


async def serve(settings: Settings, announce: Callable[[Proxy], None], sock: socket.socket | None = None) -> None:
    """Run until SIGINT or SIGTERM; running answers get `drain_s` to end, a second signal ends them at once."""
    if not settings.loopback and not settings.api_keys:
        log.warning(
            "listening on %s without api_keys: anybody who reaches this address may ask, and see what is cached for %r",
            settings.host, NOBODY,
        )  # fmt: skip
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    main = asyncio.current_task()

    def stopped() -> None:
        if stop.is_set() and main is not None:
            main.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped)
    try:
        async with open_proxy(settings, sock=sock) as proxy:
            gc.freeze()  # what was loaded by now stays; collecting it again and again costs milliseconds
            gc.set_threshold(50_000, 20, 20)  # a request leaves few cycles; looking every 700 objects costs 5 %
            announce(proxy)
            await stop.wait()
            log.info("stopping; running answers have %g s", settings.drain_s)
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
