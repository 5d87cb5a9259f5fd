"""The front: the only module that calls the constructors of the proxy's parts. It opens them in order, closes them in
reverse, and runs the production server.

`open_proxy` gives a running server; tests use the very same one (aiohttp's test server hides that, without
`handler_cancellation`, a client that leaves keeps its worker busy).
"""

import asyncio
import contextlib
import gc
import hashlib
import importlib.metadata
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web

from cache import (
    CacheSettings,
    Comparator,
    Judge,
    Reach,
    Rules,
    SharedBoard,
    SharedJournal,
    StateError,
    TieredCache,
    Timed,
    open_cache,
    read_pattern,
    read_split,
)
from proxy import dashboard, shadow, warming
from proxy.admin import MOST_DEEDS, Access, Admin, Audit, Route
from proxy.admin.answers import Answers
from proxy.admin.lab import PairLab
from proxy.admin.overview import Overview
from proxy.admin.workers import Workers
from proxy.api import Api
from proxy.auth import NOBODY, Door
from proxy.continuation import Continuation
from proxy.deliveries import WINDOW_S
from proxy.dispatch import Dispatch
from proxy.errands import Errands
from proxy.explain import routing_of
from proxy.feedback import Feedback
from proxy.flights import Flights
from proxy.gateway import Gateway
from proxy.health import Health
from proxy.judge import VllmJudge
from proxy.kv_events import KvListener
from proxy.landing import Landed, Landing
from proxy.logbook import Logbook
from proxy.measured import Measured
from proxy.membership import Membership
from proxy.metrics import Metrics
from proxy.observer import Observer
from proxy.reading import Reader
from proxy.responses import Responses
from proxy.routing.pins import MOST_PINS
from proxy.routing.router import Router
from proxy.routing.worker import Worker
from proxy.routing.workers import WorkerPool
from proxy.settings import Settings
from proxy.shadow import Shadow
from proxy.spare import SpareTime
from proxy.upstream import Upstream
from proxy.warming import Warming
from proxy.watched import watched

log = logging.getLogger(__name__)

_VERSION = importlib.metadata.version("rejoinder")

# What decides which answers are served; reports of what would be say it.
DECISIVE = (
    "embedder", "reader", "account_questions", "reach", "similarity_threshold", "max_false_hit_rate", "ttl_s",
    "recent_window_s", "capacity", "capacity_bytes", "lineage", "lineage_reset_on_standalone",
    "standalone_across_history",
)  # fmt: skip

_RESPONSES_S = 86_400.0  # how long replicas tell each other who keeps a response


class CacheOpener(Protocol):
    """Opens the cache. judge: for the grey band; None = there is none.  timed: is told what its stages took."""

    def __call__(
        self, settings: CacheSettings, /, *, judge: Judge | None = None, timed: Timed = ...
    ) -> AbstractAsyncContextManager[TieredCache]: ...


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running server. url: where it listens.  dashboard: whether its page answers."""

    url: str
    gateway: Gateway
    cache: TieredCache
    pool: WorkerPool
    health: Health
    flights: Flights[Landed]
    measured: Measured
    shadow: Shadow
    judge: VllmJudge | None
    warming: Warming
    dashboard: bool


@contextlib.asynccontextmanager
async def open_proxy(
    settings: Settings, *, sock: socket.socket | None = None, cache_of: CacheOpener = open_cache
) -> AsyncIterator[Proxy]:
    """Open every part, then the doors. sock: a bound socket to listen on instead of host and port.
    cache_of: opens the cache (tests give it a clock, a store or an embedder of their own).
    Raises StateError, OSError (the port is taken)."""
    state_dir = settings.state_dir.expanduser() if settings.store == "sqlite" and not settings.redis_url else None
    secret = _secret(settings, state_dir)
    opened = cache_settings(settings, state_dir, hashlib.sha256(b"rejoinder fingerprint\0" + secret).hexdigest()[:16])
    door = Door(
        settings.api_keys, frozenset(settings.trusted_tenants), secret, open_loopback=settings.loopback,
        curate_keys=frozenset(key.get_secret_value() for key in settings.curate_keys),
    )  # fmt: skip
    worker_key = settings.worker_api_key.get_secret_value() if settings.worker_api_key else None
    async with contextlib.AsyncExitStack() as stack:
        metrics = await stack.enter_async_context(Metrics())
        upstream = await stack.enter_async_context(Upstream())
        pool = WorkerPool()
        metrics.watching(pool, worked=lambda: pool.worked_s)
        probe_headers = [("Authorization", f"Bearer {worker_key}")] if worker_key else []
        health = await stack.enter_async_context(
            Health(pool, upstream, interval_s=settings.probe_s, headers=probe_headers)
        )
        membership = await stack.enter_async_context(Membership(
            pool, settings.workers, file=settings.workers_file, refresh_s=settings.workers_refresh_s,
            drain_s=settings.worker_drain_s, alone=settings.processes == 1,
        ))  # fmt: skip
        listener = KvListener(pool, upstream, headers=probe_headers)
        if settings.kv_events:
            await stack.enter_async_context(listener)
        router = Router(pool, alone=settings.redis_url is None, exact=listener.blocks_of)
        dispatch = Dispatch(pool, upstream, router, first_byte_s=settings.first_byte_s, idle_s=settings.idle_s)
        judge = None
        if settings.judge == "on":
            judge = VllmJudge(
                dispatch, pool, metrics, model=settings.judge_model, deadline_s=settings.judge_deadline_s,
                api_key=worker_key,
            )  # fmt: skip
            await stack.enter_async_context(judge)
        watch = await watched(stack, settings, metrics.took, version=_VERSION)
        cache = await stack.enter_async_context(cache_of(opened, judge=judge, timed=watch.timed))
        measured = Measured(time.time)
        metrics.measuring(measured.all)
        await stack.enter_async_context(Logbook(measured, state_dir / "measured.json" if state_dir else None))
        kinds = {shadow.KIND: settings.shadow_share > 0, warming.KIND: settings.warm_up and settings.mode == "serve"}
        spare = SpareTime(
            pool, upstream, share=settings.spare_time_share / settings.processes,
            kinds=[kind for kind, wanted in kinds.items() if wanted], priority=settings.worker_priority,
            api_key=worker_key,
        )  # fmt: skip
        checks = Shadow(
            spare, Comparator(cache.embedder), measured, metrics, share=settings.shadow_share,
            forgets=lambda: cache.forgets, learn=cache.learn, suspects=cache.reviews.served.next_suspect,
        )  # fmt: skip
        await stack.enter_async_context(checks)
        responses = await _open_responses(stack, settings, pool, secret)
        errands = Errands(secret, responses, authenticates=door.authenticates, worker_api_key=worker_key)
        warmer = await stack.enter_async_context(
            Warming(spare, router, pool, metrics, partial(errands.whose, learn=False), forgets=lambda: cache.forgets)
        )
        observer = None
        if settings.mode == "observe":
            observer = Observer(
                Comparator(cache.embedder), measured, metrics, budget=settings.max_false_hit_rate,
                settings={name: getattr(settings, name) for name in DECISIVE}, forgets=lambda: cache.forgets,
                learn=cache.learn, clock=time.time,
            )  # fmt: skip
            await stack.enter_async_context(observer)
        flights = await stack.enter_async_context(
            Flights[Landed](abandoned=settings.abandoned if settings.finish_abandoned else 0)
        )
        continuation = Continuation(
            cache, watch.asking(dispatch), errands, pool, Landing(cache, metrics), metrics, rescue=settings.rescue,
            cuts=settings.continuation and observer is None, worker_api_key=worker_key,
        )  # fmt: skip
        gateway = Gateway(
            cache, flights, watch.asking(dispatch), router, errands, responses, metrics, pool, opened.rules, secret,
            continuation, shadow=checks, warming=warmer, promote_after=settings.promote_after, observer=observer,
            regenerate_s=WINDOW_S if settings.regenerate == "window" else 0.0,
        )  # fmt: skip
        await stack.enter_async_context(gateway)
        feedback = Feedback(
            cache, gateway.receipts, metrics, secret, authenticates=door.authenticates, quorum=settings.bad_quorum,
            window_s=settings.feedback_window_s,
        )  # fmt: skip

        workers = Workers(pool, membership, routing_state=partial(_routing, settings, listener, router))
        routes = [
            *Answers(
                gateway, feedback, trust=partial(_trust, settings, cache, measured, checks, judge),
                observed=observer.report if observer is not None else None,
            ).routes(),
            *workers.routes(),
            *PairLab(cache, Reader(opened.rules, secret, pool, bytes_limit=1 << 20), pool).routes(),
            *Overview(settings, cache, metrics, measured, gateway.popular, workers, version=_VERSION).routes(),
        ]  # fmt: skip
        admin = await _open_admin(stack, settings, state_dir, secret, door, routes)
        api = Api(
            gateway, feedback, admin, pool, door, metrics, cors_origins=settings.cors_origins,
            body_limit_bytes=settings.body_limit_bytes, metrics_open=settings.metrics,
            assets=await asyncio.to_thread(dashboard.load) if settings.dashboard else {}, around=watch.around,
        )  # fmt: skip
        yield Proxy(
            await stack.enter_async_context(_listening(settings, api, sock)), gateway, cache, pool, health, flights,
            measured, checks, judge, warmer, settings.dashboard,
        )  # fmt: skip
        api.closing = True


async def _open_admin(
    stack: contextlib.AsyncExitStack, settings: Settings, state_dir: Path | None, secret: bytes, door: Door,
    routes: list[Route],
) -> Admin:  # fmt: skip
    shared, kept_s = None, settings.audit_days * 86_400
    if settings.redis_url is not None:
        url = settings.redis_url.get_secret_value()
        shared = SharedJournal(url, settings.redis_prefix, "audit", time.time, most=MOST_DEEDS, life_s=kept_s)
        await stack.enter_async_context(shared)
    path = state_dir / "audit.jsonl" if state_dir else None
    audit = Audit(path, retention_s=kept_s, clock=time.time, shared=shared)
    await stack.enter_async_context(audit)
    access = Access(door, settings.admin_tokens, settings.api_keys, secret, time.time)
    return Admin(routes, access, audit, version=_VERSION)


async def _trust(
    settings: Settings, cache: TieredCache, measured: Measured, checks: Shadow, judge: VllmJudge | None
) -> dict[str, Any]:
    return {
        "budget": settings.max_false_hit_rate, "budgets": settings.budgets,
        "measured": [
            {**each.as_json(), "alarmed": cache.lab.alarmed(each.tenant, each.model)} for each in measured.all()
        ],
        "shadow": checks.state(),
        "judge": judge.state() if judge is not None else {"on": False, "why": "the setting judge is off"},
    }  # fmt: skip


def _routing(settings: Settings, listener: KvListener, router: Router, worker: Worker) -> dict[str, Any]:
    source = listener.source_of(worker) if settings.kv_events else "its answers: the setting kv_events is off"
    return routing_of(router.desk(worker), source, router.homes.counts.get(worker.url, 0))


@contextlib.asynccontextmanager
async def _listening(settings: Settings, api: Api, sock: socket.socket | None) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    request = partial(web.BaseRequest, loop=loop, client_max_size=settings.body_limit_bytes)
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


async def _open_responses(
    stack: contextlib.AsyncExitStack, settings: Settings, pool: WorkerPool, secret: bytes
) -> Responses:
    if settings.redis_url is None:
        return Responses(pool)
    board = SharedBoard(
        settings.redis_url.get_secret_value(), settings.redis_prefix, "responses", time.time, most=MOST_PINS,
        life_s=_RESPONSES_S, deadline_s=settings.store_deadline_s,
    )  # fmt: skip
    return Responses(pool, await stack.enter_async_context(board), secret)


def cache_settings(settings: Settings, state_dir: Path | None, fingerprint: str) -> CacheSettings:
    """What the cache needs of the settings. state_dir: None keeps everything in memory."""
    rules = Rules(
        ttl_s=settings.ttl_s, time_bound_ttl_s=settings.time_bound_ttl_s, recent_window_s=settings.recent_window_s,
        reach=Reach[settings.reach.upper()], account_questions=settings.account_questions,
        lineage=settings.lineage, lineage_reset_on_standalone=settings.lineage_reset_on_standalone,
        standalone_across_history=settings.standalone_across_history,
        ignore=tuple(map(read_pattern, settings.context_ignore)),
        splits=tuple((tenant, read_split(each)) for tenant, each in settings.question_patterns.items()),
    )  # fmt: skip
    return CacheSettings(
        rules=rules,
        fingerprint=fingerprint,
        state_dir=state_dir,
        redis_url=settings.redis_url.get_secret_value() if settings.redis_url else None,
        redis_prefix=settings.redis_prefix,
        capacity=settings.capacity,
        capacity_bytes=settings.capacity_bytes,
        embedder=settings.embedder,
        embed_deadline_s=settings.embed_deadline_s,
        similarity_threshold=settings.similarity_threshold,
        max_false_hit_rate=settings.max_false_hit_rate,
        budgets=settings.budgets,
        reader=settings.reader,
        reader_deadline_s=settings.reader_deadline_s,
        adapted_dir=settings.adapted_dir.expanduser() if settings.adapted_dir is not None else None,
        store_deadline_s=settings.store_deadline_s,
        session_idle_s=settings.session_idle_s,
        sessions=settings.sessions,
        sweep_s=settings.sweep_s,
        receipts=settings.lineage_receipts,
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
