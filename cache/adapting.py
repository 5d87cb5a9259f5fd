"""Learning from the operator's own labels: questions of which it is known which answer serves them.

The labelled questions are replayed as a stream, in their order: what would have been near, what would the reader have
said, was it right? From that come

    anchors       which known answer a question asks for, from its vector; every question is scored by a classifier that
                  has not seen it (cross-fitting), or the classifier would look better than it is
    weights       logistic regression around the weights that ship: few labels move them little, many move them far
    bars          the share of wrong answers above every bar, again scored by weights that have not seen the question

Nothing here needs a GPU or torch; a thousand questions take about a minute, most of it the reader's."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cache.adapted import Adapted
from cache.anchors import Anchors, agreement, fit
from cache.calibration import (
    FEATURES,
    Calibration,
    Features,
    bars_of,
    described,
    probability,
    terms,
)
from cache.errors import EmbedderUnavailable, TextTooLong
from cache.guards import objections, read
from cache.logistic import fitted
from cache.protocols import Embedder, Reader
from cache.rates import wilson
from cache.trust import HARD, READ

FOLDS = 8
NEAREST = 8  # neighbours that are looked at, as the similar tier does
PATIENCE_S = 30.0  # for a vector or a reading: nobody waits
HELD_OUT = 0.25  # of the labels decides whether the new is better than the old
MARGIN = 1.15  # next week's questions are a little harder than those that were labelled
FEWEST = 40  # labelled questions; fewer teach nothing that could be checked

Floats = NDArray[np.float32]
Tell = Callable[[str, float], None]  # what is being done, share done in [0, 1]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question, and the name of the answer that serves it."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Seen:
    """One decision of the replay: what would have been served, and whether it was right."""

    features: Features
    right: bool
    question: int


@dataclass(frozen=True, slots=True)
class Scorecard:
    """What a replay of labels that nothing had learned from would have served."""

    asked: int
    served: int
    wrong: int

    def within(self, budget: float) -> bool:
        """Whether the budget is kept, as far as these few can tell: half a wrong answer more than were seen may be
        twice the budget, so that neither none nor one among a handful proves anything."""
        return self.served == 0 or (self.wrong + 0.5) / (self.served + 1.0) <= 2.0 * budget

    def beats(self, other: "Scorecard", budget: float) -> bool:
        """More right answers within the budget, and by what these few can tell no larger share of wrong ones: neither
        the upper bound (Wilson, 95 %) nor the count rises further than the hits explain."""
        more = self.served - self.wrong > other.served - other.wrong
        if not more or not self.within(budget):
            return False
        return other.served == 0 or wilson(self.wrong, self.served).high <= wilson(other.wrong, other.served).high


@dataclass(frozen=True, slots=True)
class Lesson:
    """The outcome: what was learned, and how old and new did on labels that neither had seen.

    of_all: how the old one did on all labels, where it had learned from none of them; else None."""

    adapted: Adapted
    old: Scorecard
    new: Scorecard
    of_all: Scorecard | None = None

    def better(self, budget: float) -> bool:
        """One that keeps the budget is better than one that does not; of two that do, the one with more right answers;
        of two that do not, the one with the smaller share of wrong ones. A quarter may be too short for the old one to
        serve anything, right or wrong, so it must keep the budget on all labels that are unseen to it."""
        known = self.of_all or self.old
        old, new = known.within(budget), self.new.within(budget)
        if old != new:
            return new
        if new:
            return self.new.served - self.new.wrong > self.old.served - self.old.wrong
        return self.new.wrong * max(1, known.served) < known.wrong * max(1, self.new.served)


class Material:
    """The labelled questions with their vectors; what the guards and the reader say of a pair is asked once.

    parts: which part each question is of; only questions of one part meet.  readers: one for all, or one a part."""

    def __init__(
        self, labelled: Sequence[Labelled], vectors: Floats, reader: Reader | Sequence[Reader], floor: float,
        parts: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self.labelled = labelled
        self.vectors = vectors
        self.floor = floor
        self.parts = np.zeros(len(labelled), np.int64) if parts is None else np.asarray(parts, np.int64)
        self._readers = reader if isinstance(reader, Sequence) else [reader]
        self._logits: dict[tuple[int, int], float | None] = {}
        self._doubts: dict[tuple[int, int], frozenset[str]] = {}

    def doubts(self, asked: int, stored: int) -> frozenset[str]:
        if (asked, stored) not in self._doubts:
            found = objections(read(self.labelled[asked].question), read(self.labelled[stored].question))
            self._doubts[asked, stored] = frozenset(each.guard for each in found)
        return self._doubts[asked, stored]

    async def logits(self, asked: int, stored: Sequence[int]) -> list[float | None]:
        missing = [each for each in stored if (asked, each) not in self._logits]
        if missing:
            texts = [self.labelled[each].question for each in missing]
            reader = self._readers[self.parts[asked] if len(self._readers) > 1 else 0]
            said = await reader.read(self.labelled[asked].question, texts, deadline_s=PATIENCE_S)
            self._logits.update({(asked, each): logit for each, logit in zip(missing, said, strict=True)})
        return [self._logits[asked, each] for each in stored]

    def cut(self) -> int:
        """Questions before this place teach, the others decide between old and new."""
        return len(self.labelled) - int(len(self.labelled) * HELD_OUT)

    def read_by(self, readers: Sequence[Reader], parts: Sequence[int] | None) -> "Material":
        """The same questions, read by others."""
        other = Material(self.labelled, self.vectors, readers, self.floor, parts)
        other._doubts = self._doubts
        return other


async def gathered(
    labelled: Sequence[Labelled], embedder: Embedder, reader: Reader, floor: float, tell: Tell
) -> Material:
    """Vectors for all questions that can be compared; equal texts once. Raises EmbedderUnavailable."""
    kept, vectors, seen = [], [], set()
    for number, each in enumerate(labelled):
        if each.question in seen:
            continue
        seen.add(each.question)
        try:
            vectors.append(await embedder.embed(each.question, deadline_s=PATIENCE_S))
        except TextTooLong:
            continue
        kept.append(each)
        tell("reading the labelled questions", number / len(labelled))
    if not kept:
        raise EmbedderUnavailable("none of the labelled questions can be compared by meaning")
    # What decides between old and new must not be one end of the file: every fourth question goes to the back.
    order = sorted(range(len(kept)), key=lambda number: number % round(1 / HELD_OUT) == 0)
    return Material([kept[number] for number in order], np.stack(vectors)[order], reader, floor)


async def adapted(
    material: Material, start: Calibration, budget: float, name: str, tell: Tell = lambda what, share: None,
    in_use: Adapted | None = None, in_use_reads: Material | None = None,
) -> Lesson:  # fmt: skip
    """Learn from most of the labels, compare on the rest, then learn from all of them.

    start: the calibration to begin from.  budget: for the comparison, a share in (0, 1).  in_use: what the new one must
    beat, with the material as its reader reads it; None = start."""
    count, cut = len(material.labelled), material.cut()
    first = await _learned(material, start, cut, name, tell)
    current, reads = in_use or Adapted(start, None), in_use_reads or material
    old = await _scored(reads, current, cut, budget)
    of_all = await _scored(reads, current, 0, budget) if current.anchors is None else None
    new = await _scored(material, first, cut, budget)
    whole = await _learned(material, start, count, name, tell)
    return Lesson(whole, old, new, of_all)


async def _learned(material: Material, start: Calibration, until: int, name: str, tell: Tell) -> Adapted:
    answers = [each.answer for each in material.labelled[:until]]
    chances = _cross_fitted(material.vectors[:until], answers)

    def first(done: float) -> None:
        tell("replaying", done / 2)

    def second(done: float) -> None:
        tell("replaying", 0.5 + done / 2)

    # What misses would leave behind, and the harder case: a full cache.
    seen = await _replayed(material, chances, range(until), start, True, first)
    seen += await _replayed(material, chances, range(until), start, False, second)
    weights, deviation = _fitted(seen, start)
    z = _cross_scored(seen, start)
    right = [probability(each) for each in z]
    found = bars_of(right, right, [not each.right for each in seen], [0.5] * len(seen))
    bars = tuple((share * MARGIN, bar) for share, bar in found)
    calibration = replace(start, name=name, weights=weights, spread=deviation, bars=bars)
    return Adapted(calibration, fit(material.vectors[:until], answers))


def _cross_fitted(vectors: Floats, answers: Sequence[str]) -> list[Floats]:
    """For every question the chances of the known answers by a classifier that has not seen it. The folds know other
    answers, so only chances of one fold may be compared: each question gets those of all questions by its own fold."""
    fold = np.arange(len(answers)) % FOLDS
    made: list[Floats] = []
    for number in range(FOLDS):
        rest = fold != number
        anchors = fit(vectors[rest], [answer for answer, kept in zip(answers, rest, strict=True) if kept])
        made.append(np.zeros((len(answers), 1), np.float32) if anchors is None else anchors.chances(vectors))
    return made


async def _replayed(
    material: Material, chances: Sequence[Floats], asked: range, calibration: Calibration, forgets: bool,
    tell: Callable[[float], None],
) -> list[Seen]:  # fmt: skip
    """forgets: a question that a right neighbour would surely have served leaves nothing behind."""
    seen: list[Seen] = []
    stored: list[int] = []
    for place, number in enumerate(asked):
        mine = chances[number % FOLDS]
        found = await _nominated(material, mine, number, stored)
        served = False
        if found:
            features, best = max(found, key=lambda each: calibration.z(each[0]))
            right = material.labelled[best].answer == material.labelled[number].answer
            seen.append(Seen(features, right, number))
            served = forgets and right and calibration.z(features) > 2.5
        if not served:
            stored.append(number)
        tell(place / len(asked))
    return seen


async def _nominated(
    material: Material, chances: Floats, asked: int, stored: Sequence[int]
) -> list[tuple[Features, int]]:
    """(features, which labelled question) for each candidate that the reader read."""
    rows = np.asarray(stored, dtype=np.int64)
    rows = rows[material.parts[rows] == material.parts[asked]]
    if not len(rows):
        return []
    cosines = material.vectors[rows] @ material.vectors[asked]
    order = np.argsort(-cosines)[:NEAREST]
    near = [(int(rows[at]), float(cosines[at])) for at in order if cosines[at] >= material.floor]
    near = [each for each in near if not material.doubts(asked, each[0]) & HARD][:READ]
    if not near:
        return []
    logits = await material.logits(asked, [number for number, _ in near])
    near = [each for each, logit in zip(near, logits, strict=True) if logit is not None]
    if not near:
        return []
    readings = [logit for logit in logits if logit is not None]
    agreed = agreement(chances[asked], chances[[number for number, _ in near]])
    chinese = read(material.labelled[asked].question).chinese
    similarities = [cosine for _, cosine in near]
    known = float(chances[asked].max())
    return [
        (described(similarities, readings, material.doubts(asked, number), at,
                   chinese=chinese, agreement=float(agreed[at]), known=known), number)
        for at, (number, _) in enumerate(near)
    ]  # fmt: skip


# How far the labels may move a weight: prior deviations, by term. What ships holds unless many labels speak against it;
# the two adapted ones start at nothing and are free.
_MAY_MOVE = {"": 2.0, "similarity": 4.0, "reader": 0.3, "agreement": 2.0, "known": 3.0, "similarity_lead": 3.0}
_ELSE = 0.5


def _prior(start: Calibration) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    names = ("", *FEATURES, "")
    deviations = np.array([_MAY_MOVE.get(name, _ELSE) for name in names])
    return np.array(start.weights), deviations**-2


def _fitted(seen: Sequence[Seen], start: Calibration) -> tuple[tuple[float, ...], float]:
    """(weights, deviation of z for a typical question)."""
    x = np.array([terms(each.features) for each in seen]) if seen else np.zeros((0, len(start.weights)))
    right = np.array([float(each.right) for each in seen])
    mean, precision = _prior(start)
    # The two passes see each question twice: together they count once.
    found = fitted(x, right, np.full(len(seen), 0.5), mean, precision)
    typical = x.mean(axis=0) if seen else np.eye(len(mean))[0]
    deviation = math.sqrt(float(typical @ found.covariance @ typical))
    return tuple(round(float(each), 5) for each in found.mean), round(min(start.spread, deviation), 5)


def _cross_scored(seen: Sequence[Seen], start: Calibration) -> list[float]:
    """z of every decision by weights that have not seen its question."""
    z = [0.0] * len(seen)
    for number in range(FOLDS):
        rest = [each for each in seen if each.question % FOLDS != number]
        weights, _ = _fitted(rest, start)
        calibration = replace(start, weights=weights)
        for at, each in enumerate(seen):
            if each.question % FOLDS == number:
                z[at] = calibration.z(each.features)
    return z


async def _scored(material: Material, subject: Adapted, begin: int, budget: float) -> Scorecard:
    """Replay the questions from `begin` on, beginning with an empty cache."""
    anchors = subject.anchors
    count = len(material.labelled)
    chances = anchors.chances(material.vectors) if anchors is not None else np.zeros((count, 1), np.float32)
    bar = subject.calibration.bar(budget)
    stored: list[int] = []
    served = wrong = 0
    for number in range(begin, count):
        found = await _nominated(material, chances, number, stored)
        low, best = max(((subject.calibration.p_low(features), each) for features, each in found), default=(0.0, -1))
        if best >= 0 and low >= bar:
            served += 1
            wrong += material.labelled[best].answer != material.labelled[number].answer
        else:
            stored.append(number)
    return Scorecard(count - begin, served, wrong)


__all__ = ["FEWEST", "Anchors", "Labelled", "Lesson", "Material", "Scorecard", "adapted", "gathered"]
