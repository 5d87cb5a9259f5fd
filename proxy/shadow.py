"""Shadow checks: some of the answers that were served by meaning are asked for again, where and when it hurts nobody.

The user was served long ago. A sampled hit waits here with the asker's own request; when a worker has nothing to do,
it answers that once more, and the comparator says whether the two answers agree. The fresh answer is then forgotten:
nothing of it is stored. Which hits, in which order, and for how much of a worker's time is decided in `proxy.sampling`;
what the outcomes add up to in `proxy.measured`.

A check yields the moment a user's request goes to its worker, see `proxy.spare`. One check runs at a time.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from cache import Agreement, Clock, Comparator, Hit, Label, Likeness, Served, Source, known_other
from proxy import openai
from proxy.checks import Check, Lately, check_of, request_of
from proxy.measured import Measured
from proxy.metrics import Metrics
from proxy.reading import Asked
from proxy.routing.workers import Worker
from proxy.sampling import Waiting, chance, control_chance
from proxy.spare import SpareTime

log = logging.getLogger(__name__)

Learn = Callable[[Label], None]
Suspects = Callable[[], Served | None]

KIND: Final = "shadow check"
ROOM: Final = 256  # checks that wait
PATIENCE_S: Final = 900.0  # how long each may
_LARGEST_BODY: Final = 65_536  # bytes; a larger request is not kept for a check
_AFTER_A_BUG_S: Final = 1.0
_SUSPECTS_S: Final = 2.0  # how often it is looked whether an entry is suspect
_TRIES: Final = 3  # how often a check may yield


class Shadow:
    """An async context manager that owns its checks.

    spare: the workers' idle time.  share: of hits by meaning that are checked when there are labels enough; 0 = none.
    forgets: how often the cache has forgotten something on purpose.  learn: takes labels; None = nobody does.
    suspects: hits of entries that turned out to be wrong, one at each call; every one of them is checked.
    clock: seconds since the epoch; ticks: seconds that never go back."""

    def __init__(
        self, spare: SpareTime, comparator: Comparator, measured: Measured, metrics: Metrics, *, share: float,
        forgets: Callable[[], int] = int, learn: Learn | None = None, suspects: Suspects = lambda: None,
        clock: Clock = time.time, ticks: Callable[[], float] = time.monotonic,
        dice: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._spare = spare
        self._comparator = comparator
        self._measured = measured
        self._metrics = metrics
        self._share = share
        self._forgets = forgets
        self._learn = learn
        self._suspects = suspects
        self._clock = clock
        self._ticks = ticks
        self._dice = dice
        self._waiting: Waiting[Check] = Waiting(ROOM, PATIENCE_S)
        self._lately = Lately()
        self._forgotten_at = 0
        self._wake = asyncio.Event()
        self._worker_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._share > 0 and self._spare.on(KIND):
            self._worker_task = asyncio.get_running_loop().create_task(self._work(), name="rejoinder-shadow")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker_task is not None:
            self._worker_task.cancel()
            await asyncio.gather(self._worker_task, return_exceptions=True)

    # ── what the journey tells ───────────────────────────────────────────────────────────────────────────────────

    def served(self, path: str, asked: Asked, hit: Hit, body_bytes: int) -> None:
        """This hit went out; perhaps it is checked. Never waits."""
        if self._worker_task is None or hit.likeness is not Likeness.MEANING or body_bytes > _LARGEST_BODY:
            return
        self._heed_forgetting()
        scope = asked.question.scope
        probability = chance(self._measured.labels(scope.tenant, scope.model), self._share)
        check = check_of(path, asked.body, asked.question, hit, weight=1 / probability, forgets=self._forgets())
        if check is None:
            return
        self._lately.note(check)
        if self._dice() < probability:
            self._count("dropped", self._waiting.put(check, self._ticks()))
            self._wake.set()

    def state(self) -> dict[str, Any]:
        """For people: what waits, and what each worker may still spend."""
        return {
            "share": self._share, "time_share": self._spare.share, "priority": self._spare.priority,
            "waiting": len(self._waiting), "workers": self._spare.state(KIND),
        }  # fmt: skip

    @property
    def waiting(self) -> int:
        """Checks that have not begun."""
        return len(self._waiting)

    def _heed_forgetting(self) -> None:
        """Somebody wanted something forgotten, perhaps what waits here: then all of it goes. It comes again."""
        if self._forgets() != self._forgotten_at:
            self._forgotten_at = self._forgets()
            self._lately.clear()
            self._count("forgotten", self._waiting.clear())

    def _look_at_suspects(self) -> None:
        while (served := self._suspects()) is not None:
            check = self._lately.again(served.entry_id, served.text, served.scope)
            if check is None:
                self._count("not remembered")
            else:
                self._count("dropped", self._waiting.put(check, self._ticks()))

    # ── when a worker is free ────────────────────────────────────────────────────────────────────────────────────

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            try:
                pause_s = await self._next()
            except Exception:  # a bug of ours must not end the checks for good
                log.exception("a shadow check failed; others go on")
                self._count("failed")
                pause_s = _AFTER_A_BUG_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()

    async def _next(self) -> float:
        """Begin what can be begun. Returns how long nothing more can."""
        self._heed_forgetting()
        self._look_at_suspects()
        self._count("expired", self._waiting.expire(self._ticks()))
        if not len(self._waiting):
            return _SUSPECTS_S
        worker, pause_s = await self._spare.find(KIND, lambda worker: any(map(_for(worker), self._waiting)))
        found = self._waiting.take(_for(worker)) if worker is not None else None
        if worker is None or found is None:
            return min(pause_s, _SUSPECTS_S)
        await self._run(worker, *found)
        return 0.0

    async def _run(self, worker: Worker, since_s: float, check: Check) -> None:
        """One check, from the worker to the label."""
        twice = self._dice() < control_chance(self._measured.null_controls(check.tenant, check.model))
        answers: list[str | None] = []

        async def ask() -> None:
            for again in range(1 + twice):
                answers.append(await self._answer(worker, check, courteous=bool(again)))

        ended = await self._spare.use(KIND, worker, ask)
        self._metrics.shadow_spent(ended.seconds)
        if not answers:
            if ended.why == "yielded" and check.tries < _TRIES:
                self._waiting.put_back(replace(check, tries=check.tries + 1), since_s)
            self._count(ended.why or "failed")
            return
        await self._judged(check, answers)

    async def _answer(self, worker: Worker, check: Check, *, courteous: bool) -> str | None:
        """The worker's whole answer; None where it has no end, or is not one text. Raises WorkerFailed, Refused."""
        body = request_of(check, courteous=courteous, lowest=self._spare.priority)
        value = await self._spare.post(worker, check.path, body, f"shadow-{openai.request_id()}")
        told = openai.read_answer(200, value)
        if told.answer is not None:
            self._metrics.shadow_tokens(told.answer.tokens or 0)
        whole = told.outcome.finish_reasons == ("stop",)
        return told.outcome.texts[0] if whole else None

    # ── what it says ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _judged(self, check: Check, answers: list[str | None]) -> None:
        fresh = answers[0]
        agreement = Agreement.UNSURE
        if fresh is not None:
            found = await self._comparator.compare(fresh, check.served_text)
            agreement = found.agreement
            log.debug("shadow check of entry %016x: %s (%s)", check.entry_id, agreement, found.reason)
        if check.forgets != self._forgets():
            self._count("forgotten")
            return
        self._count(agreement.value)
        if check.sampled:
            self._measured.checked(check.tenant, check.model, agreement, check.weight)
        self._taught(check, agreement)
        if fresh is not None:
            await self._control(check, fresh, answers[1] if len(answers) > 1 else None)

    def _taught(self, check: Check, agreement: Agreement) -> None:
        """A sure verdict is a label for whoever learns."""
        if agreement is Agreement.UNSURE or check.evidence is None or self._learn is None:
            return
        label = Label(
            agreement is Agreement.AGREE, Source.SHADOW, self._clock(), check.weight, check.tenant, check.model,
            check.entry_id, check.evidence,
        )  # fmt: skip
        self._learn(label)

    async def _control(self, check: Check, fresh: str, again: str | None) -> None:
        """How much does the comparator err? Once with two answers to one question, once with answers to two."""
        if again is not None:
            found = await self._comparator.compare(fresh, again)
            self._measured.null_control(check.tenant, check.model, found.agreement)
            self._metrics.shadow_control("null", found.agreement.value)
        others = self._lately.others(check)
        place = await asyncio.to_thread(known_other, check.asked, [other.stored for other in others])
        if place is not None:
            found = await self._comparator.compare(fresh, others[place].served_text)
            self._measured.known_bad(check.tenant, check.model, found.agreement)
            self._metrics.shadow_control("known-bad", found.agreement.value)

    def _count(self, outcome: str, times: int = 1) -> None:
        if times:
            self._metrics.shadowed(outcome, times)


def _for(worker: Worker) -> Callable[[Check], bool]:
    return lambda check: worker.serves(check.wanted_model)
