"""How sure a count makes us. Pure; no library: the few sums are short.

Clopper and Pearson (1934): the bounds are those shares under which a count at least (at most) as extreme would come
with a chance of α/2. They hold whatever the true share is, so with few hits they are wide, and honest.
"""

import math
from collections.abc import Sequence

import numpy as np

CLOPPER_PEARSON = "Clopper-Pearson, 95 %"
POISSON_BINOMIAL = (
    "central 95 % of the Poisson-binomial distribution with these probabilities: chance alone, taking the estimates as "
    "calibrated"
)
_STEPS = 60  # of bisection; far beyond the precision of a float
EXACT = 4_000  # hits up to which the distribution is computed; beyond, it is normal to three digits


def clopper_pearson(wrong: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """The two-sided interval of a share, in [0, 1]. (0, 1) where nothing was counted."""
    if not 0 <= wrong <= of:
        raise ValueError(f"{wrong} of {of}")
    tail = (1.0 - confidence) / 2.0
    return _lower(wrong, of, tail), 1.0 - _lower(of - wrong, of, tail)


def lower_bound(wrong: int, of: int, confidence: float = 0.95) -> float:
    """The one-sided lower bound of a share: what is at least wrong. A budget above it is not refuted."""
    return _lower(wrong, of, 1.0 - confidence)


def _lower(wrong: int, of: int, tail: float) -> float:
    """The share under which `wrong` or more come with the chance `tail`."""
    if wrong == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_least(wrong, of, middle) < tail else (low, middle)
    return low


def _at_least(count: int, of: int, share: float) -> float:
    """P(X ≥ count) of a binomial. The shorter tail is summed."""
    if count <= 0 or share >= 1.0:
        return 1.0
    if share <= 0.0:
        return 0.0
    upper = count > of * share
    first, last = (count, of) if upper else (0, count - 1)
    ks = np.arange(first, last + 1)
    # log k! by cumulative sums; of fits memory many times over
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, of + 1)))])
    terms = logs[of] - logs[ks] - logs[of - ks] + ks * math.log(share) + (of - ks) * math.log1p(-share)
    total = float(np.exp(terms).sum())
    return min(1.0, total) if upper else max(0.0, 1.0 - total)


def wrong_among(p_wrong: Sequence[float], confidence: float = 0.95) -> tuple[float, int, int]:
    """How many are wrong when each is so with its own probability in [0, 1]: (expected, low, high)."""
    chances = np.clip(np.asarray(p_wrong, dtype=np.float64), 0.0, 1.0)
    expected = float(chances.sum())
    if not len(chances):
        return 0.0, 0, 0
    tail = (1.0 - confidence) / 2.0
    if len(chances) > EXACT:
        return about_wrong(expected, float((chances * (1.0 - chances)).sum()), len(chances))
    mass = np.zeros(len(chances) + 1)
    mass[0] = 1.0
    for nth, chance in enumerate(chances, 1):
        mass[1 : nth + 1] = mass[1 : nth + 1] * (1.0 - chance) + mass[:nth] * chance
        mass[0] *= 1.0 - chance
    below = np.cumsum(mass)
    low = int(np.searchsorted(below, tail, side="right"))
    high = int(np.searchsorted(below, 1.0 - tail, side="left"))
    return expected, min(low, len(chances)), min(high, len(chances))


def about_wrong(expected: float, variance: float, of: int) -> tuple[float, int, int]:
    """The same for so many that the distribution is normal, from its two moments; 95 %."""
    reach = 1.959964 * math.sqrt(variance)
    return expected, max(0, math.floor(expected - reach)), min(of, math.ceil(expected + reach))
