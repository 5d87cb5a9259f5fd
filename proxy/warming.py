"""Warm-ups: after a cached answer, the session's home worker reads that turn when it is idle.

Otherwise the turn after a hit would be slow: its worker has seen neither that question nor what the cache said. Nothing
of a warm-up is stored, and it counts as nobody's request. What it costs and what it saves is counted: it is used if the
session's next generation comes to that worker in time (`cached_tokens` of that answer says how much it saved), else
wasted. Which debts there are is decided in `proxy.routing.debts`, what is asked in `proxy.warmups`; idle time is
`proxy.spare`'s, so a user's request ends a warm-up at once. One warm-up runs at a time.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from cache import Hit, Kind
from proxy import openai
from proxy.call import Call
from proxy.metrics import Metrics
from proxy.reading import Asked
from proxy.routing.debts import Debt, Debts, Paid, Payments, Use
from proxy.routing.identity import Identity
from proxy.routing.router import Router
from proxy.routing.workers import Worker, WorkerPool
from proxy.spare import SpareTime
from proxy.warmups import LEAST_TOKENS, later_turn, warm_up

log = logging.getLogger(__name__)

KIND: Final = "warm-up"
_PATH: Final = "/v1/chat/completions"
_HEARD_BYTES: Final = 8 << 20  # of requests that are not looked at yet
_IDLE_S: Final = 10.0  # how often expired ones are looked for
_AFTER_A_BUG_S: Final = 1.0
_TRIES: Final = 3  # how often a warm-up may be broken off


class Warming:
    """An async context manager that owns its warm-ups.

    spare: the workers' idle time.  whose: the session that routing would take this for.
    forgets: how often the cache has forgotten something on purpose.  ticks: seconds that never go back."""

    def __init__(
        self, spare: SpareTime, router: Router, pool: WorkerPool, metrics: Metrics,
        whose: Callable[[Call, Mapping[str, Any]], Identity | None], *, forgets: Callable[[], int] = int,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._spare = spare
        self._router = router
        self._pool = pool
        self._metrics = metrics
        self._whose = whose
        self._forgets = forgets
        self._ticks = ticks
        self._heard: deque[tuple[Call, Asked, Hit, float]] = deque()
        self._heard_bytes = 0
        self._debts = Debts()
        self._payments = Payments()
        self._forgotten_at = 0
        self._warmed: str | None = None  # the session whose warm-up runs now; None as well when it was overtaken
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._spare.on(KIND):
            self._task = asyncio.get_running_loop().create_task(self._work(), name="rejoinder-warming")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ── what the journey tells ───────────────────────────────────────────────────────────────────────────────────

    def served(self, call: Call, asked: Asked, hit: Hit) -> None:
        """This hit went out. Never waits, and looks at nothing that takes time."""
        if self._task is None or asked.kind is not Kind.CHAT or not later_turn(asked.body, len(call.body)):
            return
        if self._heard_bytes + len(call.body) > _HEARD_BYTES:
            self._count("dropped")
            return
        self._heard.append((call, asked, hit, self._ticks()))
        self._heard_bytes += len(call.body)
        self._wake.set()

    def begun(self, session: str | None) -> None:
        """A worker answers this session's turn now, and reads whatever it lacked."""
        if session is None or self._task is None:
            return
        if self._warmed == session:
            self._warmed = None
        self._count("overtaken", self._debts.settle(session) is not None)

    def generated(self, session: str | None, worker: Worker, cached: int | None) -> None:
        """It has answered. cached: `cached_tokens` of the answer; None = the worker does not say."""
        if session is not None and self._task is not None:
            self._used(self._payments.generated(session, worker.url, worker.generation, cached))

    @property
    def waiting(self) -> int:
        """Warm-ups that have not begun."""
        return len(self._heard) + len(self._debts)

    # ── when a worker is free ────────────────────────────────────────────────────────────────────────────────────

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            try:
                pause_s = await self._next()
            except Exception:  # a bug of ours must not end the warm-ups for good
                log.exception("a warm-up failed; others go on")
                self._count("failed")
                pause_s = _AFTER_A_BUG_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()

    async def _next(self) -> float:
        """Begin what can be begun. Returns how long nothing more can."""
        while self._heard:
            self._note()
            await asyncio.sleep(0)  # users' requests first
        self._count("expired", self._debts.expire(self._ticks()))
        self._used(self._payments.expire(self._ticks()))
        worker, pause_s = await self._spare.find(KIND, lambda worker: self._debts.at(worker.url) > 0)
        self._heed_forgetting()
        debt = self._debts.take(worker.url) if worker is not None else None
        if worker is None or debt is None:
            return min(pause_s, _IDLE_S)
        if self._at_home(debt, worker):
            await self._run(worker, debt)
        else:
            self._count("dropped")
        return 0.0

    def _heed_forgetting(self) -> None:
        """Somebody wanted something forgotten, perhaps what waits here: then all of it goes."""
        if self._forgets() != self._forgotten_at:
            self._forgotten_at = self._forgets()
            self._count("forgotten", self._debts.clear() + len(self._heard))
            self._heard.clear()
            self._heard_bytes = 0

    def _note(self) -> None:
        """Of one hit that went out: does its session's home lack much now?"""
        self._heed_forgetting()
        if not self._heard:
            return
        call, asked, hit, since_s = self._heard.popleft()
        self._heard_bytes -= len(call.body)
        who = self._whose(call, asked.body)
        home = self._router.homes.of(who.id) if who is not None else None
        worker = self._pool.find(home.url) if home is not None else None
        if who is None or home is None or worker is None or worker.generation != home.generation:
            return
        wanted = warm_up(asked.body, hit.entry, who.id, lowest=self._spare.priority)
        lacking = self._router.lacking(worker, wanted.prompt) if wanted is not None else 0
        if wanted is not None and lacking >= LEAST_TOKENS:
            debt = Debt(
                who.id, home.url, home.generation, wanted.body, wanted.prompt, wanted.steps, lacking, since_s
            )  # fmt: skip
            self._count("dropped", self._debts.owe(debt))

    def _at_home(self, debt: Debt, worker: Worker) -> bool:
        """Whether the session still lives there, and the worker still has what came before."""
        home = self._router.homes.of(debt.session)
        return home is not None and (home.url, home.generation, worker.generation) == (
            debt.url, debt.generation, debt.generation,
        )  # fmt: skip

    async def _run(self, worker: Worker, debt: Debt) -> None:
        """One warm-up."""
        answers: list[openai.Told] = []

        async def ask() -> None:
            value = await self._spare.post(
                worker, _PATH, debt.body, f"warm-up-{openai.request_id()}", [("X-Session-ID", debt.session)]
            )
            answers.append(openai.read_answer(200, value))

        self._warmed = debt.session
        try:
            ended = await self._spare.use(KIND, worker, ask)
        finally:
            overtaken, self._warmed = self._warmed is None, None
        self._metrics.warmed(ended.seconds)
        if not answers or answers[0].answer is None:
            if ended.why in ("yielded", "over budget") and debt.tries < _TRIES and not overtaken:
                self._debts.put_back(debt)  # the blocks that were computed stay, so it goes on from there
            self._count(ended.why or "failed")
            return
        self._count("done")
        tokens, cached = answers[0].answer.prompt_tokens or 0, answers[0].cached_tokens
        computed = max(tokens - cached, 0) if cached is not None else debt.lacking
        if overtaken:
            self._used(Use(wasted=computed))
            return
        if self._at_home(debt, worker):
            self._router.warmed(worker, debt.prompt, tokens, debt.steps)
        self._used(self._payments.paid(debt.session, Paid(debt.url, debt.generation, computed, cached, self._ticks())))

    # ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _used(self, use: Use) -> None:
        self._metrics.warmed_tokens(saved=use.saved, wasted=use.wasted, unknown=use.unknown)

    def _count(self, outcome: str, times: int = 1) -> None:
        if times:
            self._metrics.warm_up(outcome, times)
