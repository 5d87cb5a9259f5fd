"""Who weighs: puts the reader, the calibration, what each scope's labels taught and the judge behind one question,
"may one of these neighbours be served?". It waits and remembers; `trust` decides.

Everything optional may be missing or late: without a reader, or with a calibration made for other models, the cautious
way of `trust` holds; without a judge the grey band is a miss."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from cache.adapted import Adapted
from cache.anchors import agreement
from cache.belief import Belief
from cache.calibration import FEATURES, Calibration
from cache.entry import Entry, Vector
from cache.evidence import Evidence, Label, Source
from cache.policy import Verdict
from cache.protocols import Clock, Judge, Reader, Stage, Timed, untimed
from cache.question import Question
from cache.trust import CAUTIOUS, CAUTIOUS_WRONG, WINDOW, Candidate, Near, Standing, Weighed, decide, examined, nominate

log = logging.getLogger(__name__)

DEFAULT_BUDGET = 0.01  # of what is served by meaning
JUDGED = "judge"  # stands for a calibration where the judge decided
JUDGED_RIGHT = 0.9  # what the judge must be sure of
_MOST_BELIEFS = 1_000  # tenants × models


@dataclass(frozen=True, slots=True)
class Assessed:
    """The decision, with what `explain` wants to show of it."""

    weighed: Weighed
    readings: dict[int, float]
    floor: float
    bar: float


class Assessor:
    """reader, calibration, judge: None = there is none.  budget_of: the tolerated share of wrong answers among what is
    served by meaning, in [0, 1], for a tenant.  adapted: what `rejoinder train` learned, used instead of
    calibration, with its anchors.  timed: is told what guards and reader took."""

    def __init__(
        self, clock: Clock, *, reader: Reader | None = None, calibration: Calibration | None = None,
        adapted: Adapted | None = None, judge: Judge | None = None,
        budget_of: Callable[[str], float] = lambda _: DEFAULT_BUDGET, timed: Timed = untimed,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._reader = reader
        self._calibration = adapted.calibration if adapted is not None else calibration
        self._anchors = adapted.anchors if adapted is not None else None
        self._judge = judge
        self._budget_of = budget_of
        self._timed = timed
        self._beliefs: dict[tuple[str, str], Belief] = {}

    @property
    def wants_vectors(self) -> bool:
        """Whether `assess` can use the neighbours' vectors."""
        return self._anchors is not None

    async def assess(
        self, question: Question, near: Sequence[tuple[Entry, float]], vector: Vector, verdict: Verdict,
        *, cautious: float, asked_floor: float | None, vectors: Mapping[int, Vector] | None = None,
    ) -> Assessed:  # fmt: skip
        """near: neighbours with their cosine, best first.  cautious: the embedder's own threshold.  asked_floor: the
        operator's.  vectors: the neighbours' own, by entry id."""
        calibration = self._calibration if self._reader is not None else None
        floor = max(asked_floor or 0.0, verdict.controls.threshold or 0.0)
        floor = max(floor, calibration.floor if calibration is not None else cautious)
        standing = self._standing(question, calibration)
        neighbours, known = self._with_agreement(near, vector, vectors or {})
        now_s, began_s = self._clock(), time.perf_counter()
        if calibration is None or self._reader is None:
            nominated = nominate(question, neighbours, floor, verdict, now_s, most=len(neighbours))
            logits: list[float | None] = [None] * len(nominated.nominees)
            self._timed(Stage.GUARDS, time.perf_counter() - began_s)
        else:
            nominated = nominate(question, neighbours, floor, verdict, now_s, window=WINDOW)
            stored = [nominee.near.entry.text or "" for nominee in nominated.nominees]
            guarded_s = time.perf_counter()
            self._timed(Stage.GUARDS, guarded_s - began_s)
            logits = await self._reader.read(question.text or "", stored) if stored else []
            if stored:
                self._timed(Stage.READER, time.perf_counter() - guarded_s)
        weighed = decide(question, nominated, logits, calibration, standing, max(cautious, asked_floor or 0.0), known)
        if weighed.grey is not None and self._judge is not None:
            weighed = await self._judged(question, weighed, weighed.grey)
        readings = {
            nominee.near.entry.id: logit
            for nominee, logit in zip(nominated.nominees, logits, strict=True)
            if logit is not None
        }
        return Assessed(weighed, readings, floor, standing.bar)

    def explained(
        self, question: Question, near: Sequence[tuple[Entry, float]], verdict: Verdict, assessed: Assessed
    ) -> tuple[Candidate, ...]:
        neighbours = [Near(entry, similarity) for entry, similarity in near]
        return examined(
            question, verdict, neighbours, assessed.weighed, assessed.readings, assessed.floor, assessed.bar,
            self._clock(),
        )  # fmt: skip

    def begin(self, labels: Iterable[Label]) -> None:
        """Start again from these, the oldest first: whatever was learned before is forgotten."""
        self._beliefs.clear()
        for label in labels:
            self._taught(label)
        for (tenant, model), belief in self._beliefs.items():
            if belief.alarmed:
                _warn(tenant, model)

    def learn(self, label: Label) -> None:
        """A judgement about a pair that was weighed. One that another calibration weighed teaches nothing; one that
        went the cautious way can raise the alarm, which ends that way."""
        before = self.alarmed(label.tenant, label.model)
        self._taught(label)
        if self.alarmed(label.tenant, label.model) and not before:
            _warn(label.tenant, label.model)

    def forget(self, tenant: str | None, model: str | None) -> None:
        """Erase what the labels of this tenant and model taught (None = any)."""
        for scope in [each for each in self._beliefs if tenant in (None, each[0]) and model in (None, each[1])]:
            del self._beliefs[scope]

    def _taught(self, label: Label) -> None:
        calibration, evidence = self._calibration, label.evidence
        if label.source is Source.FEEDBACK:
            return  # anybody can say so, as often as he likes: it hides and quarantines, and moves no calibration
        if calibration is None:
            return
        if evidence.calibration not in (CAUTIOUS, calibration.name):
            return
        belief = self._belief(label.tenant, label.model, calibration.spread)
        budget, key = self._budget_of(label.tenant), f"{label.principal}:{label.entry_id}" if label.principal else ""
        if evidence.calibration == CAUTIOUS:  # nothing to learn for others, but it may have become wrong too often
            belief.watch(label.right, budget, key)
        elif len(evidence.features) == len(FEATURES):
            belief.add(calibration.z(evidence.features), label.right, label.weight, label.at_s, budget, key)

    def alarmed(self, tenant: str, model: str) -> bool:
        """Whether this scope is tightened at the moment."""
        belief = self._beliefs.get((tenant, model))
        return belief is not None and belief.alarmed

    def _standing(self, question: Question, calibration: Calibration | None) -> Standing:
        if calibration is None:
            return Standing(0.0, 0.0, 2.0)  # the cautious way is the only one, and has no budget
        budget = self._budget_of(question.scope.tenant)
        belief = self._beliefs.get((question.scope.tenant, question.scope.model))
        if belief is None:
            return Standing(0.0, 0.0, calibration.bar(budget), budget >= CAUTIOUS_WRONG)
        if belief.alarmed:
            budget /= 2
        bar = calibration.bar(budget)
        if belief.alarmed and bar > 1.0:  # nothing would be served any more, so nothing could ever speak for it again
            bar = max((low for _, low in calibration.bars), default=2.0)
        return Standing(*belief.offset(self._clock()), bar, budget >= CAUTIOUS_WRONG and not belief.alarmed)

    def _belief(self, tenant: str, model: str, spread: float) -> Belief:
        found = self._beliefs.pop((tenant, model), None)
        if found is not None:
            self._beliefs[tenant, model] = found
        else:
            if len(self._beliefs) >= _MOST_BELIEFS:
                del self._beliefs[next(iter(self._beliefs))]  # the one that learned nothing for longest
            found = self._beliefs[tenant, model] = Belief(spread)
        return found

    def _with_agreement(
        self, near: Sequence[tuple[Entry, float]], vector: Vector, vectors: Mapping[int, Vector]
    ) -> tuple[list[Near], float | None]:
        if self._anchors is None:
            return [Near(entry, similarity) for entry, similarity in near], None
        there = [entry.id for entry, _ in near if entry.id in vectors]
        rows = np.stack([vector, *(vectors[entry_id] for entry_id in there)]).astype(np.float32)
        chances = self._anchors.chances(rows)
        agreed = dict(zip(there, agreement(chances[0], chances[1:]).tolist(), strict=True))
        found = [Near(entry, similarity, agreed.get(entry.id)) for entry, similarity in near]
        return found, float(chances[0].max())

    async def _judged(self, question: Question, weighed: Weighed, grey: Entry) -> Weighed:
        assert self._judge is not None
        answer = answer_text(grey)
        sure = None
        if answer is not None:
            with contextlib.suppress(Exception):  # a judge that breaks is a judge that says nothing
                sure = await self._judge.judge(question.text or "", grey.text or "", answer)
        if sure is None or sure < max(JUDGED_RIGHT, 1.0 - 2.0 * self._budget_of(question.scope.tenant)):
            return weighed
        similarity = weighed.evidence.similarity if weighed.evidence is not None else 0.0
        refused = tuple(each for each in weighed.refused if each.entry_id != grey.id)
        # Under a name of its own: labels of what a judge let through say nothing about the calibration.
        return Weighed(grey, similarity, refused, Evidence(similarity, (), sure, JUDGED))


def _warn(tenant: str, model: str) -> None:
    log.warning(
        "more answers were wrong than the budget allows (tenant %s, model %s): it is halved until the labels are right "
        "again", tenant, model,
    )  # fmt: skip


def answer_text(entry: Entry) -> str | None:
    """What the stored answer says; None where it cannot be read."""
    try:
        choice = orjson.loads(entry.answer.body)["choices"][0]
        said = choice["message"]["content"] if "message" in choice else choice["text"]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return said if isinstance(said, str) else None
