"""Finding out which workers are up: probes, and what requests tell about them.

Every worker is probed by a task of its own, so that one that hangs delays nobody: /health, then /v1/models. Two
failures in a row make it DOWN, one success UP; what makes a failure is written in `proxy.routing.workers`. A worker in
doubt — new, failing, or one that a request could not reach — is probed at once and then at growing intervals. With
every fifth probe, and whenever it may have been restarted, its /metrics are read; one that has none is no worse for it.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import orjson

from proxy.routing.gauges import gauges_of
from proxy.routing.workers import Card, State, Worker, WorkerPool
from proxy.upstream import Upstream
from proxy.upstream_errors import WorkerFailed, WorkerUnreachable

log = logging.getLogger(__name__)

SOONEST_S: Final = 0.1  # between two probes of one worker, however many requests fail on it
GAUGES_EVERY: Final = 5  # probes
JITTER: Final = 0.1  # of a pause, either way: many proxies must not probe in step


class Health:
    """Keeps a pool's states true while it is entered. It owns the probing tasks, and ends them when it is left.

    headers: sent with probes; the worker's API key, where /v1/models asks for one."""

    def __init__(
        self,
        pool: WorkerPool,
        upstream: Upstream,
        *,
        interval_s: float = 2.0,
        timeout_s: float = 2.0,
        down_after: int = 2,
        headers: Sequence[tuple[str, str]] = (),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._pool = pool
        self._upstream = upstream
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._down_after = down_after
        self._headers = list(headers)
        self._chance = chance
        self._probes: dict[Worker, tuple[asyncio.Task[None], asyncio.Event]] = {}
        self._changed = asyncio.Event()
        self._stop_listening: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        self._stop_listening = self._pool.on_change(self._attend)
        self._attend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
        tasks = [task for task, _ in self._probes.values()]
        self._probes.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_ready(self, timeout_s: float, *, workers: int = 1) -> bool:
        """Whether so many workers were UP before the time was over."""
        try:
            async with asyncio.timeout(timeout_s):
                while sum(w.state is State.UP for w in self._pool) < workers:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _attend(self) -> None:
        """After each change of the pool: one task per worker, and those in doubt are probed now."""
        self._changed.set()
        present = set(self._pool)
        for worker in [w for w in self._probes if w not in present]:
            self._probes.pop(worker)[0].cancel()
        for worker in present:
            if worker not in self._probes:
                wake = asyncio.Event()
                task = asyncio.create_task(self._follow(worker, wake), name=f"health of {worker.name}")
                self._probes[worker] = task, wake
            elif worker.suspect:
                self._probes[worker][1].set()

    async def _follow(self, worker: Worker, wake: asyncio.Event) -> None:
        probes, generation = 0, -1
        while True:
            wake.clear()
            doubted = worker.suspect or worker.state is not State.UP
            worker.suspect = False
            try:
                await self._probe(worker, measure=doubted or probes % GAUGES_EVERY == 0)
                if worker.generation != generation and not worker.failures:
                    generation = worker.generation
                    if worker.gauges is None:
                        await self._measure(worker)
                probes += 1
            except Exception:  # a fault of ours must not end the probing of this worker for good
                log.exception("probing %s", worker.name)
                self._failed(worker, "the probe itself failed; see the log")
            pause_s = self._pause_s(worker)
            await asyncio.sleep(min(SOONEST_S, pause_s))
            try:
                async with asyncio.timeout(max(0.0, pause_s - SOONEST_S)):
                    await wake.wait()
            except TimeoutError:
                pass

    def _pause_s(self, worker: Worker) -> float:
        pause_s = self._interval_s
        if worker.failures and worker.failures < 16:
            pause_s = min(pause_s, SOONEST_S * 2 ** (worker.failures - 1))
        return pause_s * (1 + JITTER * (2 * self._chance() - 1))

    async def _probe(self, worker: Worker, *, measure: bool) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                status, _ = await self._get(worker, "/health")
                if status >= 400:
                    self._failed(worker, f"/health answered {status}")
                    return
                status, body = await self._get(worker, "/v1/models")
        except TimeoutError:
            # Silence is not a no: it counts only if no answer flowed meanwhile.
            self._failed(worker, f"no reply to a probe within {self._timeout_s:g} s", grace_s=self._interval_s)
        except WorkerUnreachable as error:
            if error.connected:
                self._failed(worker, error.trouble, grace_s=self._interval_s)
            else:
                self._failed(worker, error.trouble, refused=True)
        except WorkerFailed as error:
            self._failed(worker, error.trouble, grace_s=self._interval_s)
        else:
            if status >= 500:
                self._failed(worker, f"/v1/models answered {status}")
            else:
                # Before it is UP, so that whoever is sent there finds the right generation. One that was away becomes a
                # new one in any case, and is measured after.
                if measure and not worker.was_away:
                    await self._measure(worker)
                # 401 and 404 are an answer too: it lives, and only does not tell us what it serves
                self._pool.answered(worker, cards_of(body) if status == 200 else None)

    async def _measure(self, worker: Worker) -> None:
        """A worker that does not tell in time keeps what was known; only one that says it has none loses it."""
        try:
            async with asyncio.timeout(self._timeout_s):
                status, body = await self._get(worker, "/metrics")
        except (TimeoutError, WorkerFailed):
            return
        if status < 500:
            self._pool.measured(worker, gauges_of(body, self._pool.clock()) if status == 200 else None)

    async def _get(self, worker: Worker, path: str) -> tuple[int, bytes]:
        async with self._upstream.ask(worker, "GET", path, self._headers, proves_life=False) as reply:
            return reply.status, await reply.read()

    def _failed(self, worker: Worker, trouble: str, *, grace_s: float = 0.0, refused: bool = False) -> None:
        self._pool.probe_failed(worker, trouble, down_after=self._down_after, grace_s=grace_s, refused=refused)


def cards_of(body: bytes) -> Mapping[str, Card] | None:
    """Model id → card, from a /v1/models answer; None = not such an answer."""
    try:
        listed: Any = orjson.loads(body)
        return {str(card["id"]): card for card in listed["data"]}
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
