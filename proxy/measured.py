"""What shadow checks have found: the measured false-hit rate, per tenant and model, with all that it stands on. Pure.

A check is *called wrong* when the comparator says that the fresh answer contradicts the served one. The comparator
errs, and three counts say how much:

* **checks**, weighted by one over the probability with which each was chosen: the raw rate;
* **null controls**: two fresh answers to one question. How often they are called wrong is 1 - specificity;
* **known-bad controls**: a fresh answer against the answer to another, near question that a guard tells apart. How
  often they are *not* called wrong is 1 - sensitivity.

"Unsure" counts as *not called wrong* in all three alike, so it costs sensitivity and biases nothing.
From these: `cache.rates.corrected_rate`. Without enough of any of them there is no rate, and a sentence that says why.
Old evidence fades with a half-life; so a tenant that was silent for long is looked at more closely again.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson

from cache import Agreement, Clock, Rate, corrected_rate, effective_number, wilson

HALF_LIFE_S: Final = 14 * 86_400.0
LEAST_CHECKS: Final = 30  # equally weighted ones; with fewer the interval says nothing that anybody could use
LEAST_CONTROLS: Final = 20  # of each kind
MOST_PAIRS: Final = 20  # of tenant and model that have a row of their own
OTHER: Final = "other"
CONFIDENCE: Final = 0.95
_VERSION: Final = 1  # of what is kept over a restart

Pair = tuple[str, str]  # tenant, model


@dataclass(slots=True)
class Count:
    """of: how many were compared.  wrong: how many of them were called wrong. Both fade."""

    of: float = 0.0
    wrong: float = 0.0

    def add(self, wrong: bool) -> None:
        self.of += 1
        self.wrong += wrong

    def fade(self, by: float) -> None:
        self.of *= by
        self.wrong *= by

    def plus(self, other: "Count") -> "Count":
        return Count(self.of + other.of, self.wrong + other.wrong)


@dataclass(slots=True)
class _Row:
    at_s: float
    weight: float = 0.0
    squares: float = 0.0
    weight_wrong: float = 0.0
    checks: Count = field(default_factory=Count)
    unsure: float = 0.0
    null: Count = field(default_factory=Count)
    known_bad: Count = field(default_factory=Count)

    def fade(self, now_s: float) -> None:
        by = 0.5 ** (max(0.0, now_s - self.at_s) / HALF_LIFE_S)
        self.at_s = max(self.at_s, now_s)
        self.weight *= by
        self.squares *= by * by
        self.weight_wrong *= by
        self.unsure *= by
        for count in (self.checks, self.null, self.known_bad):
            count.fade(by)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One tenant and model. checks: compared, faded.  effective: how many equally weighted ones they are worth.
    raw: called wrong, weighted; `corrected`: with the comparator's error taken out; None: not enough evidence, and
    `why` says of what.  null, known_bad: (compared, called wrong)."""

    tenant: str
    model: str
    checks: float
    unsure: float
    effective: float
    raw: Rate | None
    corrected: Rate | None
    why: str
    null: tuple[float, float]
    known_bad: tuple[float, float]

    @property
    def specificity(self) -> float | None:
        of, wrong = self.null
        return 1 - wrong / of if of else None

    @property
    def sensitivity(self) -> float | None:
        of, wrong = self.known_bad
        return wrong / of if of else None

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant, "model": self.model, "checks": round(self.checks, 2),
            "unsure": round(self.unsure, 2), "worth_equal_checks": round(self.effective, 2),
            "raw": _told(self.raw), "corrected": _told(self.corrected), "why": self.why,
            "comparator": {
                "specificity": _rounded(self.specificity), "null_controls": round(self.null[0], 2),
                "sensitivity": _rounded(self.sensitivity), "known_bad_controls": round(self.known_bad[0], 2),
            },
        }  # fmt: skip


class Measured:
    """The counts of one process, in memory. clock: seconds since the epoch."""

    def __init__(self, clock: Clock, *, most_pairs: int = MOST_PAIRS) -> None:
        self._clock = clock
        self._most = most_pairs
        self._rows: dict[Pair, _Row] = {}

    def checked(self, tenant: str, model: str, agreement: Agreement, weight: float) -> None:
        """A served answer was compared with a fresh one. weight: one over the probability of that."""
        row = self._row(tenant, model)
        wrong = agreement is Agreement.DISAGREE
        row.checks.add(wrong)
        row.unsure += agreement is Agreement.UNSURE
        row.weight += weight
        row.squares += weight * weight
        row.weight_wrong += weight * wrong

    def null_control(self, tenant: str, model: str, agreement: Agreement) -> None:
        """One question was answered twice."""
        self._row(tenant, model).null.add(agreement is Agreement.DISAGREE)

    def known_bad(self, tenant: str, model: str, agreement: Agreement) -> None:
        """A fresh answer was compared with the answer to another question."""
        self._row(tenant, model).known_bad.add(agreement is Agreement.DISAGREE)

    def labels(self, tenant: str, model: str) -> float:
        """How many checks there are, faded."""
        return self._faded(self._pair(tenant, model)).checks.of

    def null_controls(self, tenant: str, model: str) -> float:
        """How many null controls there are, faded."""
        return self._faded(self._pair(tenant, model)).null.of

    def all(self) -> list[Measurement]:
        """Every tenant and model of which anything is known, in order of their names."""
        return [self._measurement(pair) for pair in sorted(self._rows)]

    def kept(self) -> bytes:
        """Everything that is known, to be read by `recall` after a restart."""
        return orjson.dumps({"version": _VERSION, "rows": [[*pair, asdict(row)] for pair, row in self._rows.items()]})

    def recall(self, kept: bytes) -> None:
        """Go on from what was known. Raises ValueError where these are no such bytes; nothing has changed then."""
        try:
            told = orjson.loads(kept)
            if told["version"] != _VERSION:
                raise ValueError(f"written by version {told['version']}")
            rows = {(str(tenant), str(model)): _row_of(row) for tenant, model, row in told["rows"]}
        except (KeyError, TypeError, AttributeError) as broken:
            raise ValueError(f"this is no list of measurements: {broken!r}") from None
        self._rows = dict(list(rows.items())[: self._most])

    def forget(self, tenant: str | None, model: str | None) -> None:
        """Drop the rows of this tenant and model (None = any)."""
        for pair in list(self._rows):
            if tenant in (None, pair[0]) and model in (None, pair[1]):
                del self._rows[pair]

    def _pair(self, tenant: str, model: str) -> Pair:
        pair = (tenant, model)
        return pair if pair in self._rows or len(self._rows) < self._most else (OTHER, OTHER)

    def _row(self, tenant: str, model: str) -> _Row:
        pair = self._pair(tenant, model)
        row = self._rows.setdefault(pair, _Row(self._clock()))
        row.fade(self._clock())
        return row

    def _faded(self, pair: Pair) -> _Row:
        row = self._rows.get(pair)
        if row is None:
            return _Row(self._clock())
        row.fade(self._clock())
        return row

    def _measurement(self, pair: Pair) -> Measurement:
        row = self._faded(pair)
        tenant, model = pair
        n = effective_number(row.weight, row.squares)
        share = min(1.0, row.weight_wrong / row.weight) if row.weight > 0 else 0.0
        null = self._controls(pair, lambda each: each.null)
        bad = self._controls(pair, lambda each: each.known_bad)
        raw = wilson(share * n, n, CONFIDENCE) if n >= LEAST_CHECKS else None
        rate, why = None, f"{n:.0f} checks, {LEAST_CHECKS} are needed"
        if raw is not None:
            rate, why = _corrected(share, n, null, bad)
        return Measurement(
            tenant, model, row.checks.of, row.unsure, n, raw, rate, why, (null.of, null.wrong), (bad.of, bad.wrong)
        )

    def _controls(self, pair: Pair, of: Callable[[_Row], Count]) -> Count:
        """Its own controls where there are enough, else those of every tenant of the model: how a comparator errs
        depends most on how a model words the same thing twice."""
        own = of(self._faded(pair))
        if own.of >= LEAST_CONTROLS:
            return own
        pooled = Count()
        for other in self._rows:
            if other[1] == pair[1]:
                pooled = pooled.plus(of(self._faded(other)))
        return pooled


def _row_of(told: dict[str, Any]) -> _Row:
    """Raises KeyError, TypeError, ValueError."""
    numbers = {name: float(told[name]) for name in ("at_s", "weight", "squares", "weight_wrong", "unsure")}
    counts = {
        name: Count(float(told[name]["of"]), float(told[name]["wrong"])) for name in ("checks", "null", "known_bad")
    }
    row = _Row(**numbers, **counts)  # type: ignore[arg-type]
    sound = all(math.isfinite(number) and number >= 0 for number in numbers.values())
    if not sound or any(not 0 <= count.wrong <= count.of < math.inf for count in counts.values()):
        raise ValueError("a count is impossible")
    return row


def _corrected(share: float, n: float, null: Count, bad: Count) -> tuple[Rate | None, str]:
    if null.of < LEAST_CONTROLS:
        return None, f"{null.of:.0f} null controls, {LEAST_CONTROLS} are needed"
    if bad.of < LEAST_CONTROLS:
        return None, f"{bad.of:.0f} known-bad controls, {LEAST_CONTROLS} are needed"
    try:
        rate = corrected_rate(
            share * n, n, caught=bad.wrong, known_wrong=bad.of, cleared=null.of - null.wrong, known_right=null.of,
            confidence=CONFIDENCE,
        )  # fmt: skip
    except ValueError as useless:
        return None, f"the comparator tells nothing here: {useless}"
    return rate, ""


def _told(rate: Rate | None) -> dict[str, float] | None:
    if rate is None:
        return None
    return {"estimate": round(rate.estimate, 5), "low": round(rate.low, 5), "high": round(rate.high, 5)}


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
