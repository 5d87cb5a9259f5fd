"""From what is counted to what people ask: how often, how fast, what was saved. Pure.

Quantiles are read from the buckets of a histogram, as Prometheus' `histogram_quantile` does: linear inside a bucket.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proxy.metrics import Sample

TIERS: Final = ("session", "recent", "similar")
HIT_SOURCES: Final = frozenset({*TIERS, "curated"})
MISS_SOURCES: Final = frozenset({"worker", "collapsed"})
_QUANTILES: Final = (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99))


@dataclass(frozen=True, slots=True)
class Price:
    """gpu_hour: what an hour of one GPU costs, None = not said.  gpus: of one worker."""

    gpu_hour: float | None
    currency: str
    gpus: int

    def of(self, gpu_s: float | None) -> float | None:
        return None if gpu_s is None or self.gpu_hour is None else gpu_s / 3600 * self.gpu_hour


class Figures:
    """samples: all of them, read at one time."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._by_name: defaultdict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for name, labels, value in samples:
            self._by_name[name].append((labels, value))

    def total(self, counter: str) -> float:
        return sum(value for _, value in self._by_name[f"rejoinder_{counter}_total"])

    def by(self, counter: str, label: str) -> dict[str, int]:
        """Highest first; a count of 0 is left out."""
        found: defaultdict[str, float] = defaultdict(float)
        for labels, value in self._by_name[f"rejoinder_{counter}_total"]:
            found[labels[label]] += value
        return {name: int(found[name]) for name in sorted(found, key=lambda each: (-found[each], each)) if found[name]}

    def latency(self, sources: Iterable[str]) -> dict[str, Any]:
        """From a request's last byte to its reply's first, in milliseconds; None where nothing was timed."""
        wanted = frozenset(sources)
        buckets: defaultdict[float, float] = defaultdict(float)
        for labels, value in self._by_name["rejoinder_reply_seconds_bucket"]:
            if labels["source"] in wanted:
                buckets[float(labels["le"])] += value
        total_s = sum(
            value for labels, value in self._by_name["rejoinder_reply_seconds_sum"] if labels["source"] in wanted
        )
        count = buckets.get(math.inf, 0.0)
        told: dict[str, Any] = {"count": int(count), "mean_ms": _ms(total_s / count) if count else None}
        return told | {name: _ms(quantile(buckets, share)) for name, share in _QUANTILES}

    def counts(self) -> dict[str, Any]:
        """Lookups = hits + misses; every miss has one reason."""
        hits, lookups = self.by("hits", "tier"), int(self.total("lookups"))
        served = sum(hits.values())
        return {
            "lookups": lookups, "hits": {tier: hits.get(tier, 0) for tier in {**dict.fromkeys(TIERS), **hits}},
            "hits_total": served, "hit_share": round(served / lookups, 4) if lookups else None,
            "likenesses": self.by("hits", "likeness"), "misses": self.by("misses", "reason"),
            "misses_total": int(self.total("misses")), "refusals": self.by("refused_candidates", "by"),
            "collapsed": int(self.total("collapsed")), "generations": int(self.total("flights")),
            "relayed": int(self.total("relayed")), "feedback": self.by("feedback", "rating"),
            "quarantined": int(self.total("quarantined")), "not_stored": self.by("not_stored", "reason"),
        }  # fmt: skip

    def saved(self, price: Price) -> dict[str, Any]:
        """What hits spared the workers. GPU-seconds: completion tokens served, times the GPU-seconds that a generated
        one takes on this traffic (time at work over tokens written: a worker that batches well makes them cheaper)."""
        tokens, written = self.total("served_tokens"), self.total("upstream_tokens")
        each_s = self.total("worker_seconds") * price.gpus / written if written else None
        gpu_s = tokens * each_s if each_s is not None else None
        return {
            "completion_tokens": int(tokens), "prompt_tokens": int(self.total("served_prompt_tokens")),
            "gpu_s": _rounded(gpu_s, 3), "money": _rounded(price.of(gpu_s), 6), "currency": price.currency,
            "gpu_s_per_token": _rounded(each_s, 7), "money_per_token": _rounded(price.of(each_s), 12),
            "generated_tokens": int(written), "why": _why(each_s, price),
        }  # fmt: skip


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """buckets: upper bound in seconds → how many at or below it. Seconds; None where nothing was counted. What lies
    beyond the last bound is told as that bound."""
    bounds = sorted(buckets)
    if not bounds or not buckets[bounds[-1]]:
        return None
    rank = share * buckets[bounds[-1]]
    below, low = 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            if bound == math.inf:
                return low
            inside = buckets[bound] - below
            return low + (bound - low) * ((rank - below) / inside if inside else 1.0)
        below, low = buckets[bound], bound
    return low


def _why(each_s: float | None, price: Price) -> str | None:
    if each_s is None:
        return "no worker has generated an answer yet, so nobody knows what a token costs here"
    return "the setting gpu_hour_price is not set" if price.gpu_hour is None else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
