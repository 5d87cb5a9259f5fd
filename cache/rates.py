"""How often is something wrong, and how sure does a count make us of it? Pure arithmetic; no library beyond `math`.

Three questions, three answers:

* a count is all there is: Wilson's score interval (Wilson 1927, JASA 22: 209-212), or the one of Clopper and Pearson
  (1934, Biometrika 26: 404-413), which never promises too much;
* whoever counted errs himself, at known rates: the estimator of Rogan and Gladen (1978, Am. J. Epidemiol. 107: 71-76);
* and his error rates are themselves only counted: the interval of Lang and Reiczigel (2014, Prev. Vet. Med.
  113: 13-22).

Counts may be fractions: a weighted sample counts as Kish's effective number (1965, "Survey Sampling", 8.2).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

_STEPS = 80  # of bisection; a float has fewer bits
_TERMS = 500  # of the continued fraction; it converges in some ten for the arguments of this world
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Rate:
    """A share in [0, 1], and between which bounds it lies with the confidence that was asked for."""

    estimate: float
    low: float
    high: float


def wilson(wrong: float, of: float, confidence: float = 0.95) -> Rate:
    """Wilson's score interval. wrong, of: counts, 0 ≤ wrong ≤ of, of > 0. Raises ValueError."""
    _check(wrong, of, confidence)
    z = _z(confidence)
    share = wrong / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    reach = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    low = 0.0 if wrong == 0 else max(0.0, middle - reach)
    high = 1.0 if wrong == of else min(1.0, middle + reach)
    return Rate(share, low, high)


def clopper_pearson(wrong: float, of: float, confidence: float = 0.95) -> Rate:
    """The exact interval: quantiles of Beta(wrong, of - wrong + 1) and Beta(wrong + 1, of - wrong).

    Raises ValueError."""
    _check(wrong, of, confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if wrong == 0 else beta_quantile(tail, wrong, of - wrong + 1)
    high = 1.0 if wrong == of else beta_quantile(1 - tail, wrong + 1, of - wrong)
    return Rate(wrong / of, low, high)


def rogan_gladen(apparent: float, sensitivity: float, specificity: float) -> float:
    """The true share behind an apparent one: (apparent + specificity - 1) / (sensitivity + specificity - 1), in [0, 1].

    Raises ValueError where the judge is no better than a coin (sensitivity + specificity ≤ 1)."""
    youden = sensitivity + specificity - 1
    if youden <= 0:
        raise ValueError(f"sensitivity {sensitivity:g} and specificity {specificity:g} tell nothing")
    return min(1.0, max(0.0, (apparent + specificity - 1) / youden))


def corrected_rate(
    called_wrong: float, of: float, *, caught: float, known_wrong: float, cleared: float, known_right: float,
    confidence: float = 0.95,
) -> Rate:  # fmt: skip
    """The share that is truly wrong, when a judge that errs called `called_wrong` of `of` wrong.

    caught of known_wrong: what he called wrong of what is known to be; his sensitivity.
    cleared of known_right: what he did not call wrong of what is known to be right; his specificity.

    Estimate: Rogan and Gladen.  Interval: Lang and Reiczigel, equations 4, 6, 7, 16 and 17. With z the normal quantile,
    the counts are first drawn towards the middle: Se' = (caught + 1) / (known_wrong + 2), Sp' likewise, and
    AP' = (called_wrong + z²/2) / (of + z²), with n' the three denominators. Then, with P' the estimate made of these,

        V  = [ AP'(1-AP')/n' + P'² Se'(1-Se')/n_Se' + (1-P')² Sp'(1-Sp')/n_Sp' ] / (Se' + Sp' - 1)²
        dP = 2 z² [ P' Se'(1-Se')/n_Se' - (1-P') Sp'(1-Sp')/n_Sp' ]
        P' + dP ± z √V,  cut to [0, 1]

    Ours: the interval always holds the estimate. tests/cache/test_rates.py measures how often it holds the truth.
    Raises ValueError where the judge tells nothing."""
    _check(called_wrong, of, confidence)
    _check(caught, known_wrong, confidence)
    _check(cleared, known_right, confidence)
    estimate = rogan_gladen(called_wrong / of, caught / known_wrong, cleared / known_right)
    z = _z(confidence)
    n_wrong, n_right, n = known_wrong + 2, known_right + 2, of + z * z
    sensitivity, specificity = (caught + 1) / n_wrong, (cleared + 1) / n_right
    apparent = (called_wrong + z * z / 2) / n
    youden = sensitivity + specificity - 1
    if youden <= 0:
        raise ValueError(f"sensitivity {sensitivity:.2f} and specificity {specificity:.2f} tell nothing")
    share = (apparent + specificity - 1) / youden
    by_wrong = sensitivity * (1 - sensitivity) / n_wrong
    by_right = specificity * (1 - specificity) / n_right
    variance = (apparent * (1 - apparent) / n + share**2 * by_wrong + (1 - share) ** 2 * by_right) / youden**2
    middle = share + 2 * z * z * (share * by_wrong - (1 - share) * by_right)
    reach = z * math.sqrt(variance)
    low, high = max(0.0, min(middle - reach, estimate)), min(1.0, max(middle + reach, estimate))
    return Rate(estimate, low, high)


def effective_number(weight: float, squares: float) -> float:
    """Kish's effective number of a weighted sample: (Σw)² / Σw². 0 where there is none."""
    return weight * weight / squares if squares > 0 else 0.0


# ── the regularised incomplete beta function ─────────────────────────────────────────────────────────────────────────


def beta_share(x: float, a: float, b: float) -> float:
    """I_x(a, b), the distribution function of Beta(a, b), a and b > 0, x in [0, 1].

    Source: the continued fraction DLMF 8.17.22, summed by the modified method of Lentz; 8.17.4 turns it round where
    it converges slowly."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - beta_share(1.0 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _fraction(lambda m: _coefficient(m, x, a, b)))


def beta_quantile(share: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = share."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if beta_share(middle, a, b) < share else (low, middle)
    return (low + high) / 2


def _coefficient(nth: int, x: float, a: float, b: float) -> float:
    """d_n of DLMF 8.17.23."""
    m, odd = divmod(nth, 2)
    if odd:
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
    return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))


def _fraction(coefficient: Callable[[int], float]) -> float:
    """1 + d₁/(1 + d₂/(1 + …))."""
    value = upper = 1.0
    lower = 0.0
    for nth in range(1, _TERMS):
        d = coefficient(nth)
        lower = 1.0 + d * lower
        lower = 1.0 / (lower if abs(lower) > _TINY else _TINY)
        upper = 1.0 + d / upper
        upper = upper if abs(upper) > _TINY else _TINY
        step = upper * lower
        value *= step
        if abs(step - 1.0) < 1e-15:
            break
    return value


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def _check(count: float, of: float, confidence: float) -> None:
    if not (0 <= count <= of and of > 0):
        raise ValueError(f"{count:g} of {of:g} is no count")
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence:g}")
