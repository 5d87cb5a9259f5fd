"""Observe mode: what would have been served is counted, and compared with what a worker said instead.

Nothing of it reaches a caller: every question goes to a worker. The fresh answer to a question that a stored one would
have served is not kept, as in life a hit stores nothing; so the cache holds what it would hold if it served. Comparing
costs no worker anything: the fresh answer was generated for the caller anyway.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from cache import Agreement, Clock, Comparator, Hit, Label, Likeness, Miss, Source
from proxy.checks import text_of
from proxy.measured import Measured
from proxy.metrics import Metrics
from proxy.openai import Told
from proxy.reading import Asked
from proxy.tally import Pair, Tally, reason_of

log = logging.getLogger(__name__)

Learn = Callable[[Label], None]

REASON: Final = "observed"  # of a miss that would have been a hit
ROOM: Final = 256  # comparisons that wait; a newer one is dropped, which is counted
_LONGEST_SHOWN: Final = 1000  # characters of a question in a list


@dataclass(frozen=True, slots=True)
class _Comparison:
    hit: Hit
    fresh: str
    forgets: int


class Observer:
    """An async context manager that owns its comparisons, one at a time.

    budget, settings: told with the report.  forgets: how often the cache has forgotten something on purpose.
    learn: takes labels.  clock: seconds since the epoch."""

    def __init__(
        self, comparator: Comparator, measured: Measured, metrics: Metrics, *, budget: float,
        settings: Mapping[str, Any], forgets: Callable[[], int], learn: Learn, clock: Clock,
    ) -> None:  # fmt: skip
        self._comparator = comparator
        self._measured = measured
        self._metrics = metrics
        self._budget = budget
        self._settings = dict(settings)
        self._forgets = forgets
        self._learn = learn
        self._clock = clock
        self._since_s = clock()
        self._tally = Tally()
        self._forgotten_at = 0
        self._waiting: deque[_Comparison] = deque()
        self._dropped = 0
        self._wake = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._worker = asyncio.get_running_loop().create_task(self._work(), name="rejoinder-observer")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    # ── what the journey tells ───────────────────────────────────────────────────────────────────────────────────

    def looked_up(self, asked: Asked, found: Hit | Miss, seconds: float) -> Miss:
        """One lookup, counted. Returns the miss that it is to the caller."""
        if isinstance(found, Miss):
            self._tally.missed(reason_of(asked.question, asked.verdict, found), seconds)
            return found
        self._heed_forgetting()
        self._metrics.observed(found.tier)
        p_right = None if found.evidence is None else found.evidence.p_right
        question, stored = ((text or "")[:_LONGEST_SHOWN] for text in (asked.question.text, found.entry.text))
        self._tally.served(Pair(question, stored, found.likeness, found.similarity, p_right), seconds)
        near = "" if found.similarity is None else f" {found.similarity:.3f}"
        detail = f"{found.tier} {found.likeness.value}{near} would have been served"
        return Miss(REASON, detail, found.refused, found.vector)

    def answered(self, hit: Hit, told: Told | None) -> None:
        """What a worker said where this hit would have been served; None: nothing whole. Never waits."""
        if told is None or told.answer is None:
            return
        prompt, completion = told.answer.prompt_tokens, told.answer.tokens
        text = told.outcome.texts[0] if told.outcome.texts else ""
        tokens = None if prompt is None or completion is None else prompt + completion
        self._tally.answered(tokens, texts=[hit.entry.text or ""], answer=text)
        if told.outcome.finish_reasons != ("stop",):
            return  # half an answer says nothing about a whole one
        self._heed_forgetting()
        if len(self._waiting) >= ROOM:
            self._dropped += 1
            return
        self._waiting.append(_Comparison(hit, text, self._forgets()))
        self._wake.set()

    async def report(self) -> dict[str, Any]:
        """For people: what `rejoinder replay` tells of a log, and what comparing the answers found."""
        self._heed_forgetting()
        tally = self._tally.copy()
        told = await asyncio.to_thread(tally.report, self._budget, self._settings)  # some thousand hits: milliseconds
        return {
            "mode": "observe", "since_s": self._since_s, **told, "measured_wrong": tally.measured(),
            "comparisons": {"waiting": len(self._waiting), "dropped": self._dropped},
        }  # fmt: skip

    def _heed_forgetting(self) -> None:
        """Somebody wanted something forgotten, perhaps what waits or is shown here: then all of it goes."""
        if self._forgets() != self._forgotten_at:
            self._forgotten_at = self._forgets()
            self._waiting.clear()
            self._tally.forget_pairs()

    # ── beside the questions ─────────────────────────────────────────────────────────────────────────────────────

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            while self._waiting:
                try:
                    await self._compare(self._waiting.popleft())
                except Exception:  # a bug of ours must not end the comparisons for good
                    log.exception("a fresh answer could not be compared with the stored one; others will be")
            await self._wake.wait()

    async def _compare(self, each: _Comparison) -> None:
        hit, stored = each.hit, text_of(each.hit.entry.answer.body)
        self._tally.put_side_by_side(stored, each.fresh)
        if hit.likeness is not Likeness.MEANING:
            return
        agreement = (await self._comparator.compare(each.fresh, stored)).agreement
        if each.forgets != self._forgets():
            return
        scope = hit.entry.scope
        self._tally.compared(agreement)
        self._measured.checked(scope.tenant, scope.model, agreement, 1.0)  # all of them are: each counts for itself
        if agreement is Agreement.UNSURE or hit.evidence is None:
            return
        self._learn(
            Label(
                agreement is Agreement.AGREE, Source.SHADOW, self._clock(), 1.0, scope.tenant, scope.model,
                hit.entry.id, hit.evidence,
            )
        )  # fmt: skip
