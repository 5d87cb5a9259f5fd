"""What the labels of one scope have taught about it: how far it is from what all others taught, and whether something
has changed. Pure; time is given.

A label fades: it counts half after HALF_LIFE_S. A label that was sampled rarely stands for many (importance
weight), but never for more than MOST_WEIGHT times the average, so that one label does not decide a scope.

The change detector is Page's cumulative sum (E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954) over
what was wrong beyond expectation. When it passes ALARM the scope is tightened at once: its budget is halved until
RELIEF labels in a row were right."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from cache.logistic import offset_of

HALF_LIFE_S = 14 * 86_400.0
MOST_WEIGHT = 10.0
MOST_LABELS = 2_000
_STALE_S = HALF_LIFE_S / 100  # so long the offset is remembered: labels fade by less than a hundredth
ALARM = 3.0  # wrong answers beyond expectation
RELIEF = 30  # right labels in a row


@dataclass(slots=True)
class _Seen:
    z: float
    right: bool
    weight: float
    at_s: float
    key: str


@dataclass(slots=True)
class Belief:
    """spread: deviation of a new scope's offset, before any label."""

    spread: float
    _labels: deque[_Seen] = field(default_factory=lambda: deque(maxlen=MOST_LABELS))
    _sum: float = 0.0
    _in_a_row: int = 0
    _alarmed: bool = False
    _known: tuple[float, float] | None = None
    _known_s: float = 0.0
    _said: dict[str, None] = field(default_factory=dict)

    def add(self, z: float, right: bool, weight: float, at_s: float, expected_wrong: float, key: str = "") -> None:
        """z: the calibration's score of the pair.  weight: one over the chance that it was labelled.
        expected_wrong: the share of wrong answers that was thought possible, in [0, 1].
        key: who says it of what; a second word replaces the first, and is no second sign of a change. "" = nobody."""
        self._known = None
        earlier = next((seen for seen in self._labels if seen.key == key), None) if key else None
        if earlier is not None:
            self._labels.remove(earlier)
        self._labels.append(_Seen(z, right, max(1.0, weight), at_s, key))
        self.watch(right, expected_wrong, key)

    def watch(self, right: bool, expected_wrong: float, key: str = "") -> None:
        """One more was right or wrong, which may be a sign of a change."""
        if key in self._said:
            return
        if key:
            self._said[key] = None
            if len(self._said) > MOST_LABELS:
                del self._said[next(iter(self._said))]
        self._sum = max(0.0, self._sum + (0.0 if right else 1.0) - 2.0 * expected_wrong)
        self._in_a_row = self._in_a_row + 1 if right else 0
        if self._alarmed and self._in_a_row >= RELIEF:
            self._alarmed, self._sum = False, 0.0
        elif self._sum >= ALARM:
            self._alarmed = True

    @property
    def alarmed(self) -> bool:
        return self._alarmed

    @property
    def count(self) -> int:
        return len(self._labels)

    def offset(self, now_s: float) -> tuple[float, float]:
        """(mean, deviation) of what this scope adds to z."""
        if self._known is None or abs(now_s - self._known_s) > _STALE_S:
            self._known, self._known_s = self._found(now_s), now_s
        return self._known

    def _found(self, now_s: float) -> tuple[float, float]:
        if not self._labels:
            return 0.0, self.spread
        weight = np.array([seen.weight for seen in self._labels])
        weight = np.minimum(weight, MOST_WEIGHT * weight.mean())
        weight *= weight.sum() / (weight**2).sum()  # unequal weights say less than their sum: Kish's effective number
        faded = weight * np.exp2([-max(0.0, now_s - seen.at_s) / HALF_LIFE_S for seen in self._labels])
        z = np.array([seen.z for seen in self._labels])
        right = np.array([float(seen.right) for seen in self._labels])
        return offset_of(z, right, faded, self.spread)
