"""From what was seen of a pair of questions to the probability that one answer serves both. Pure.

    z      = weights · terms(features)       how the calibration's own questions behaved
    z_low  = z + shift                       what this scope's own labels say, see `shift`
    p_low  = sigmoid(z_low)                  what is compared with the bar
    bar(b) = the lowest p_low from which on no more than b of all that would be served was wrong, among the questions
             that the calibration was made on

A new scope starts from what all have taught. Its labels make an offset (see `belief`): one below zero counts at once,
one above zero only as far as it is sure, so labels tighten early and loosen late. `spread` says how far whole sources
differ from one another (the deviation of their intercepts), and with it how much a label may move. The bar bounds the
share of *served* answers that are wrong, not every single one: that is what the budget promises, and a bar of
1 - budget for each single answer would refuse most of what is right. All numbers of a calibration are fitted
(deploy/reader/calibrate.py, or `rejoinder train` for the user's own labels); none is copied from another system.

A calibration belongs to one embedder and one reader and is used with no other."""

import json
import math
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FEATURES = (
    "similarity",  # cosine of the two questions, in [-1, 1]
    "chinese",  # 1 where they are Chinese: the two embedders' cosines do not mean the same
    "reader",  # the reader's logit, cut to ±6
    "reader_lead",  # how far it is above the logit of the runner-up, cut to ±6; 6 where there is none
    "similarity_lead",  # the same of the cosines; 0.4 where there is none
    "alone",  # 1 where there is no runner-up
    "grave",  # 1 where a guard for names, opposites, denials, persons or extent objects
    "doubt",  # 1 where another guard objects
    "agreement",  # log of the chance that both ask for the same known answer (adapted only, else 0)
    "known",  # how surely the asked question is one of the known (adapted only, else 0)
)
GRAVE = frozenset(("names", "kinds", "opposites", "negation", "scope", "persons"))
CAUTION = 1.0  # deviations
MOST = 6.0  # where logits are cut
ALONE_LEAD = 0.4
NO_AGREEMENT = -6.9  # what `anchors.agreement` says of two questions with no known answer in common
EXPECTED = 40.0  # decisions

Features = tuple[float, ...]


def described(
    similarities: Sequence[float], readings: Sequence[float | None], doubts: Collection[str], place: int, *,
    chinese: bool, agreement: float | None = None, known: float | None = None,
) -> Features:  # fmt: skip
    """What is seen of the candidate at `place`, in the order of FEATURES: for the cache, for `rejoinder train` and for
    the shipped calibration, so that what was fitted is what decides.

    similarities, readings: of all candidates; a reading is the reader's logit, None where it did not read, which
    the one at `place` must not be.  doubts: the guards that object to it.  agreement, known: None = no labels."""
    cut = [None if reading is None else max(-MOST, min(MOST, reading)) for reading in readings]
    read_ones = [reading for reading in cut if reading is not None]
    at = sum(1 for reading in cut[:place] if reading is not None)
    return (
        similarities[place],
        float(chinese),
        read_ones[at],
        min(MOST, lead(read_ones, at, MOST)),
        lead(similarities, place, ALONE_LEAD),
        float(len(similarities) == 1),
        float(any(doubt in GRAVE for doubt in doubts)),
        float(any(doubt not in GRAVE for doubt in doubts)),
        NO_AGREEMENT if agreement is None else agreement,
        known or 0.0,
    )


def terms(features: Features) -> tuple[float, ...]:
    """What the weights multiply: a constant, the features, and the cosine again where the questions are Chinese."""
    similarity, chinese = features[:2]
    return (1.0, *features, similarity * chinese)


@dataclass(frozen=True, slots=True)
class Calibration:
    """name: for labels and logs.  embedder, reader: the only ones it may be used with.  floor: lowest cosine that is
    read at all.  weights: one per term.  spread: deviation of the intercept between sources.
    bar: (share of what is served that is wrong, p_low from which on it holds), by falling share."""

    name: str
    embedder: str
    reader: str
    floor: float
    weights: tuple[float, ...]
    spread: float
    bars: tuple[tuple[float, float], ...]

    def z(self, features: Features) -> float:
        return math.fsum(weight * term for weight, term in zip(self.weights, terms(features), strict=True))

    def p_low(self, features: Features, offset: float = 0.0, deviation: float = 0.0) -> float:
        """The lower confidence bound of P(right), in [0, 1].  offset, deviation: what the scope's labels say."""
        return probability(self.z(features) + shift(offset, deviation))

    def bar(self, budget: float) -> float:
        """The p_low that serves within the budget, in [0, 1]; above 1 where even the surest were wrong more often."""
        if budget >= 1.0:
            return 0.0
        within = [low for share, low in self.bars if share <= budget]
        return min(within, default=2.0)


def shift(offset: float, deviation: float) -> float:
    """How far a scope's labels move z: down at once, up only as far as they are sure."""
    return min(offset, 0.0) + max(0.0, offset - CAUTION * deviation)


def probability(z: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * z))


def lead(values: Sequence[float], at: int, none: float) -> float:
    """How far values[at] is above the greatest of the others; `none` where there are no others."""
    others = [value for place, value in enumerate(values) if place != at]
    return values[at] - max(others) if others else none


def bars_of(
    p_low: Sequence[float], p_right: Sequence[float], wrong: Sequence[bool], weight: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """(share wrong of all at or above p_low, p_low) for a falling bar, made monotone.

    The share is what was counted, drawn towards what the model expects (1 - p_right) as if that had been seen in
    EXPECTED more decisions: one wrong answer among ten must not decide, and none among ten proves nothing."""
    order = sorted(range(len(p_low)), key=lambda n: -p_low[n])
    found: list[tuple[float, float]] = []
    served = lost = expected = 0.0
    for number in order:
        served += weight[number]
        lost += weight[number] * wrong[number]
        expected += weight[number] * (1.0 - p_right[number])
        if found and found[-1][1] == round(p_low[number], 5):
            found.pop()  # of those with one p_low, all are served or none
        found.append(((lost + EXPECTED * expected / served) / (served + EXPECTED), round(p_low[number], 5)))
    kept: list[tuple[float, float]] = []
    best = math.inf
    for share, low in reversed(found):  # from the lowest bar up: keep those that lower the share
        if share < best:
            best = share
            kept.append((round(share, 5), low))
    return tuple(_thinned(kept))


def _thinned(bars: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """One bar per step of the shares that anybody asks for."""
    steps = [0.0005 * 1.15**n for n in range(60)]
    shares = [-share for share, _ in bars]  # rising
    chosen: dict[float, tuple[float, float]] = {}
    for step in steps:
        at = bisect_left(shares, -step)
        if at < len(bars):
            chosen.setdefault(bars[at][1], bars[at])
    return sorted(chosen.values(), key=lambda bar: -bar[0])


def to_json(calibration: Calibration) -> str:
    return json.dumps(asdict(calibration), indent=1)


def from_json(text: str | bytes) -> Calibration:
    """Raises ValueError, KeyError, TypeError for what is none."""
    said: dict[str, Any] = json.loads(text)
    weights = tuple(float(each) for each in said["weights"])
    if len(weights) != len(terms((0.0,) * len(FEATURES))):
        raise ValueError(f"{len(weights)} weights; this version has {len(terms((0.0,) * len(FEATURES)))} terms")
    made = Calibration(
        str(said["name"]), str(said["embedder"]), str(said["reader"]), float(said["floor"]), weights,
        float(said["spread"]), tuple((float(share), float(low)) for share, low in said["bars"]),
    )  # fmt: skip
    numbers = (made.floor, made.spread, *made.weights, *(each for bar in made.bars for each in bar))
    if not all(map(math.isfinite, numbers)):
        raise ValueError("some of its numbers are not finite")
    return made


def read_calibration(path: Path) -> Calibration | None:
    """None where there is none. Raises ValueError where the file is broken."""
    try:
        return from_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"{path} is not a calibration: {error}") from error
