"""The judge of the grey band: a worker is asked whether a stored answer fits, and says one token.

A caller waits for it, so it has a deadline, a breaker, and a place in the worker's books like any other request. It is
off until it has passed a self-test with our own cases, and it is tested again when other weights stand behind its name.
What is asked, and how the token is read, stands in `proxy.yes_or_no`.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import orjson

from cache import Breaker
from proxy import openai
from proxy.dispatch import Dispatch, Errand
from proxy.errors import ProxyError
from proxy.metrics import Metrics
from proxy.routing.choice import Prompt
from proxy.routing.workers import State, WorkerPool
from proxy.upstream_errors import WorkerFailed
from proxy.yes_or_no import PASSING, TRIALS, Case, passed, probability, request

log = logging.getLogger(__name__)

_WARM_UP_S: Final = 60.0  # for the first question ever; it fills the prefix cache
_AGAIN_S: Final = 30.0  # after a self-test that no worker answered in time
_TOLERATED: Final = 5
_COOL_DOWN_S: Final = 10.0


class VllmJudge:
    """A `Judge`, and an async context manager that owns its self-test.

    model: None = the first one that the workers serve.  deadline_s: for one verdict.  api_key: what we show to workers.
    """

    def __init__(
        self, dispatch: Dispatch, pool: WorkerPool, metrics: Metrics, *, model: str | None, deadline_s: float,
        api_key: str | None = None, again_s: float = _AGAIN_S, ticks: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._dispatch = dispatch
        self._pool = pool
        self._metrics = metrics
        self._model = model
        self._deadline_s = deadline_s
        self._headers = [("Content-Type", "application/json")]
        if api_key is not None:
            self._headers.append(("Authorization", f"Bearer {api_key}"))
        self._again_s = again_s
        self._ticks = ticks
        self._breaker = Breaker(tolerated=_TOLERATED, stall_s=0.0, cooldown_s=_COOL_DOWN_S, clock=ticks)
        self._changed = asyncio.Event()
        self._testing: asyncio.Task[None] | None = None
        self._stop_listening: Callable[[], None] | None = None
        self.on = False
        self.why = "not tested yet: no worker is up"

    async def __aenter__(self) -> Self:
        self._stop_listening = self._pool.on_change(self._changed.set)
        self._testing = asyncio.get_running_loop().create_task(self._keep_testing(), name="rejoinder-judge")
        self._metrics.judging(False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
        if self._testing is not None:
            self._testing.cancel()
            await asyncio.gather(self._testing, return_exceptions=True)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def judge(self, asked: str, stored: str, answer: str) -> float | None:
        """The probability that `answer`, given to `stored`, fully and correctly answers `asked`; None = no verdict in
        time, or the judge is off. Never raises."""
        if not self.on or not self._breaker.admits():
            self._metrics.judged("off" if not self.on else "resting", None)
            return None
        began_s = self._ticks()
        try:
            found = await self._ask(Case(asked, stored, answer), self._deadline_s)
        except TimeoutError:
            self._breaker.failed(began_s)
            self._metrics.judged("late", self._ticks() - began_s)
            return None
        except (ProxyError, WorkerFailed, ValueError) as trouble:
            self._breaker.failed(began_s)
            self._metrics.judged("failed", self._ticks() - began_s)
            log.info("the judge gave no verdict: %s", trouble)
            return None
        except asyncio.CancelledError:
            self._breaker.gave_up()
            raise
        self._breaker.succeeded()
        outcome = "none" if found is None else "yes" if found > 0.5 else "no"
        self._metrics.judged(outcome, self._ticks() - began_s)
        return found

    async def _ask(self, case: Case, deadline_s: float) -> float | None:
        """Raises TimeoutError, ProxyError, WorkerFailed; ValueError where the reply is none."""
        model = self._asked_model()
        body = orjson.dumps(request(case, model))
        headers = [*self._headers, ("X-Request-Id", f"judge-{openai.request_id()}")]
        async with asyncio.timeout(deadline_s):
            errand = Errand("POST", "/v1/completions", headers, body, Prompt(model, size=len(body)))
            async with self._dispatch.ask(errand) as (_, reply):
                data = await reply.read()
        if reply.status != 200:
            raise ValueError(f"it was refused: {openai.refusal(reply.status, data)}")
        value: Any = orjson.loads(data)
        return probability(value)

    def _asked_model(self) -> str | None:
        if self._model is not None:
            return self._model
        cards = self._pool.models()
        return str(cards[0]["id"]) if cards else None

    # ── the self-test ────────────────────────────────────────────────────────────────────────────────────────────

    async def _keep_testing(self) -> None:
        """Once when a worker is up, and whenever other weights stand behind a name."""
        tested: str | None = None
        while True:
            self._changed.clear()
            revision = self._pool.revision(self._asked_model())
            final = True
            if self._somebody_is_up() and revision != tested:
                try:
                    final = await self._test()
                except Exception:  # a bug of ours must not take the judge's state for good
                    log.exception("the judge's self-test failed")
                    self._is(False, "the self-test itself failed, see the log")
                tested = revision if final else None
            try:
                async with asyncio.timeout(None if final else self._again_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _somebody_is_up(self) -> bool:
        return any(worker.state is State.UP and worker.models for worker in self._pool)

    async def _test(self) -> bool:
        """Returns whether the outcome is final: an unreachable or slow worker may be better later."""
        self._is(False, "the self-test runs")
        verdicts: list[tuple[Case, float | None]] = []
        late = 0
        slowest_s = 0.0
        try:
            await self._ask(TRIALS[0], _WARM_UP_S)
            for case in TRIALS:
                began_s = self._ticks()
                try:
                    verdicts.append((case, await self._ask(case, self._deadline_s)))
                    slowest_s = max(slowest_s, self._ticks() - began_s)
                except TimeoutError:
                    late += 1
                    verdicts.append((case, None))
        except (TimeoutError, ProxyError, WorkerFailed, ValueError) as trouble:
            self._is(False, f"no worker answered the self-test: {trouble or 'too late'}")
            return False
        right, of = passed(verdicts)
        if right >= PASSING * of:
            self._is(True, f"{right} of {of} own cases right, the slowest in {1000 * slowest_s:.0f} ms")
            return True
        self._is(False, f"{right} of {of} own cases right, {late} too late for {self._deadline_s:g} s; "
                        f"{PASSING:.0%} are needed")  # fmt: skip
        return late == 0

    def _is(self, on: bool, why: str) -> None:
        self.on, self.why = on, why
        self._metrics.judging(on)
        log.info("the judge is %s: %s", "on" if on else "off", why)

    def state(self) -> dict[str, Any]:
        """For people."""
        return {"on": self.on, "why": self.why, "model": self._asked_model(), "deadline_s": self._deadline_s}
