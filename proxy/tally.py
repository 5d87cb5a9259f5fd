"""What would be served, counted one question at a time in bounded memory: for a log that is replayed, and for live
traffic that is observed. Pure.

How many of the served would be wrong is an estimate, the sum of 1 - p_right over the hits by meaning. Its interval is
that of chance alone; whether p_right itself is right is what comparing answers measures.
"""

import math
from bisect import insort
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final

from cache import Agreement, Likeness, Miss, Question, Reach, Trait, Verdict
from proxy.intervals import CLOPPER_PEARSON, EXACT, POISSON_BINOMIAL, about_wrong, clopper_pearson, wrong_among

SHOWN: Final = 20  # pairs in a list of the worst
_LATENCIES: Final = 10_000  # lookups that the percentiles are of, the newest
_BY_POLICY: Final = ("bypass", "not-in-session", "not-recent")
_KEPT_BACK: Final = (Trait.CREATIVE, Trait.PERSONAL, Trait.ACCOUNT, Trait.TIME_BOUND)  # as `judge` looks at them
_NOT_CORRECTED: Final = "the comparator's own error is not taken out; `unsure` counts as not called wrong"


@dataclass(frozen=True, slots=True)
class Pair:
    """A question beside the one whose answer it would get. p_right: what trust estimated; None = it did not."""

    asked: str
    stored: str
    likeness: Likeness
    similarity: float | None = None
    p_right: float | None = None

    @property
    def sureness(self) -> tuple[float, float]:
        return self.p_right or 0.0, self.similarity or 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "asked": self.asked, "stored": self.stored, "likeness": self.likeness.value,
            "similarity": None if self.similarity is None else round(self.similarity, 4),
            "p_right": None if self.p_right is None else round(self.p_right, 5),
        }  # fmt: skip


@dataclass(slots=True)
class Tally:
    """Counts; every question is told once to `served` or `missed`, and what came of a served one when it is known.

    counted_by: for people, who counted the tokens."""

    counted_by: str = "counted by the workers"
    questions: int = 0
    served_by: Counter[Likeness] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    lookup_s: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCIES))
    riskiest: list[Pair] = field(default_factory=list)  # each pair once
    times: Counter[Pair] = field(default_factory=Counter)  # how often each of those would be served
    estimated: int = 0
    expected_wrong: float = 0.0
    variance: float = 0.0
    chances: list[float] = field(default_factory=list)  # of the first EXACT
    tokens_told: int = 0
    tokens_guessed: int = 0
    guessed: int = 0
    without_answer: int = 0
    equal: int = 0
    put_beside: int = 0
    agreements: Counter[Agreement] = field(default_factory=Counter)

    # ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────

    def served(self, pair: Pair, lookup_s: float) -> None:
        """One question that a stored answer would serve."""
        self.questions += 1
        self.lookup_s.append(lookup_s)
        self.served_by[pair.likeness] += 1
        if pair.likeness is not Likeness.MEANING:
            return
        if pair.p_right is not None:
            wrong = min(1.0, max(0.0, 1.0 - pair.p_right))
            self.estimated += 1
            self.expected_wrong += wrong
            self.variance += wrong * (1.0 - wrong)
            if len(self.chances) < EXACT:
                self.chances.append(wrong)
        self._show(pair)

    def missed(self, reason: str, lookup_s: float) -> None:
        """One that a worker must answer. reason: as `reason_of` says it."""
        self.questions += 1
        self.lookup_s.append(lookup_s)
        self.reasons[reason] += 1

    def answered(self, tokens: int | None, *, texts: Iterable[str] = (), answer: str | None) -> None:
        """What the call of a served question cost, which would be saved. tokens: prompt and completion together.
        Where nobody counted them, both texts are counted roughly. texts: the prompt's.  answer: None = not known."""
        if tokens is not None:
            self.tokens_told += tokens
            return
        self.guessed += 1
        self.without_answer += answer is None
        self.tokens_guessed += about_tokens(" ".join(texts)) + about_tokens(answer or "")

    def put_side_by_side(self, stored: str, fresh: str) -> None:
        """The stored answer, and the one that a worker gave instead."""
        self.put_beside += 1
        self.equal += same_words(stored, fresh)

    def compared(self, agreement: Agreement) -> None:
        """What the comparator says of a stored and a fresh answer, of a hit by meaning."""
        self.agreements[agreement] += 1

    def forget_pairs(self) -> None:
        """Drop every text."""
        self.riskiest.clear()
        self.times.clear()

    def copy(self) -> "Tally":
        """As it is now, for somebody who reads it elsewhere."""
        told = copy(self)
        for name in ("served_by", "reasons", "lookup_s", "riskiest", "times", "chances", "agreements"):
            setattr(told, name, copy(getattr(self, name)))
        return told

    def _show(self, pair: Pair) -> None:
        if pair in self.times:
            self.times[pair] += 1
            return
        insort(self.riskiest, pair, key=lambda each: each.sureness)
        self.times[pair] = 1
        if len(self.riskiest) > SHOWN:
            del self.times[self.riskiest.pop()]

    # ── telling ──────────────────────────────────────────────────────────────────────────────────────────────────

    def report(self, max_false_hit_rate: float, settings: Mapping[str, Any]) -> dict[str, Any]:
        """As `rejoinder replay --json` prints it."""
        return {
            "questions": self.questions,
            "served": self.served_by.total(),
            "served_by": {likeness.value: self.served_by[likeness] for likeness in Likeness},
            "estimated_wrong": self._estimate(),
            "tokens_saved": self._tokens(),
            "answers_equal": self._equal(),
            "refused": dict(self.reasons.most_common()),
            "latency_ms": latency_ms(self.lookup_s),
            "max_false_hit_rate": max_false_hit_rate,
            "settings": dict(settings),
            "riskiest": [pair.as_json() | {"times": self.times[pair]} for pair in self.riskiest],
        }

    def measured(self) -> dict[str, Any] | None:
        """What comparing answers found of the hits by meaning; None where nothing was compared."""
        of, wrong = self.agreements.total(), self.agreements[Agreement.DISAGREE]
        if not of:
            return None
        return {
            "compared": of, **{each.value: self.agreements[each] for each in Agreement},
            "share_called_wrong": wrong / of,
            "interval": [round(bound, 6) for bound in clopper_pearson(wrong, of)], "interval_kind": CLOPPER_PEARSON,
            "note": _NOT_CORRECTED,
        }  # fmt: skip

    def _estimate(self) -> dict[str, Any]:
        """expected, interval: null where there are hits and none carries an estimate; that is not 0."""
        by_meaning = self.served_by[Likeness.MEANING]
        if self.estimated > len(self.chances):
            expected, low, high = about_wrong(self.expected_wrong, self.variance, self.estimated)
        else:
            expected, low, high = wrong_among(self.chances)
        known = self.estimated > 0 or not by_meaning
        return {
            "expected": round(expected, 3) if known else None,
            "plus_minus": round(max(expected - low, high - expected), 3) if known else None,
            "interval": [low, high] if known else None, "interval_kind": POISSON_BINOMIAL,
            "hits_without_estimate": by_meaning - self.estimated,
        }  # fmt: skip

    def _tokens(self) -> dict[str, Any]:
        """Prompt and completion that no worker would have to read and write: each served question's own call."""
        how = self.counted_by if not self.guessed else "estimated: four letters, or one Chinese character, are a token"
        return {
            "total": self.tokens_told + self.tokens_guessed, "counted": self.tokens_told,
            "estimated": self.tokens_guessed, "hits_estimated": self.guessed, "how": how,
            "without_answer": self.without_answer,
        }  # fmt: skip

    def _equal(self) -> dict[str, Any] | None:
        """How often the stored answer is the fresh one, word for word; None where no fresh one is known. At a
        temperature above 0 a worker seldom says the same twice, so this is a lower bound of what is right."""
        if not self.put_beside:
            return None
        return {
            "equal": self.equal, "of": self.put_beside, "share": self.equal / self.put_beside,
            "interval": [round(bound, 6) for bound in clopper_pearson(self.equal, self.put_beside)],
            "interval_kind": CLOPPER_PEARSON,
        }  # fmt: skip


def reason_of(question: Question, verdict: Verdict, miss: Miss) -> str:
    """Who refused: the guard (or trust) that objected to the nearest neighbour, the trait by which policy kept the
    question from being compared, or else the miss's own word."""
    if miss.reason == "refused" and miss.refused:
        return miss.refused[0].by
    if miss.reason in _BY_POLICY:
        return next((trait.value for trait in _KEPT_BACK if _keeps_back(trait, question, verdict)), miss.reason)
    return miss.reason


def _keeps_back(trait: Trait, question: Question, verdict: Verdict) -> bool:
    """Account questions that are shared (`Rules.account_questions`) may still be held back by something else."""
    shared = trait is Trait.ACCOUNT and verdict.read > Reach.SESSION
    return trait in question.traits and not shared


def latency_ms(seconds: Iterable[float]) -> dict[str, float | None]:
    """Percentiles by nearest rank."""
    ranked = sorted(seconds)
    if not ranked:
        return {"p50": None, "p95": None, "p99": None}
    return {
        f"p{rank}": round(1000 * ranked[max(0, math.ceil(rank / 100 * len(ranked)) - 1)], 3) for rank in (50, 95, 99)
    }


def plain(text: str) -> str:
    """Without case, and with single blanks."""
    return " ".join(text.casefold().split())


def same_words(one: str, other: str) -> bool:
    """Whether two answers are the same text, but for case and white space."""
    return plain(one) == plain(other)


def about_tokens(text: str) -> int:
    """A rough count where nobody counted: four letters, or one Chinese character, are a token."""
    wide = sum(1 for letter in text if letter >= "\u2e80")
    return wide + -(-(len(text) - wide) // 4)
