"""From counters to what people ask: the identities hold, and what is not known is not told as 0."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import Answer, Entry, Hit, Kind, Likeness, Miss, Reach, Refusal, Scope
from proxy.figures import HIT_SOURCES, MISS_SOURCES, Figures, Price, quantile
from proxy.metrics import Metrics, Sample

FREE = Price(None, "USD", 1)


def hit(tier: str, tokens: int) -> Hit:
    entry = Entry(
        id=1, kind=Kind.CHAT, scope=Scope("t", "m", "s"), text="q", key="k", proof="p", wording="w",
        reach=Reach.SIMILAR, answer=Answer(b"{}", tokens, 7), created_s=0.0, expires_s=60.0,
    )  # fmt: skip
    return Hit(entry, tier, Likeness.EXACT, 1.0)


def counted() -> Metrics:
    metrics = Metrics()
    for tier, times in (("session", 1), ("recent", 3), ("similar", 2)):
        for _ in range(times):
            metrics.looked_up(hit(tier, tokens=100))
    refusal = Refusal(1, "q", 0.9, "numbers", "5 against 7")
    for miss in (Miss("refused", "", (refusal,)), Miss("refused", "", (refusal,)), Miss("nothing-near", "")):
        metrics.looked_up(miss)
    return metrics


def test_lookups_are_hits_and_misses_by_reason() -> None:
    told = Figures(counted().samples()).counts()
    assert told["lookups"] == 9 == told["hits_total"] + told["misses_total"]
    assert told["hits"] == {"session": 1, "recent": 3, "similar": 2} and told["hit_share"] == round(6 / 9, 4)
    assert told["misses"] == {"refused": 2, "nothing-near": 1} and told["refusals"] == {"numbers": 2}


def test_where_nothing_was_asked_nothing_is_known() -> None:
    figures = Figures(Metrics().samples())
    assert figures.counts()["hit_share"] is None
    assert figures.latency(HIT_SOURCES) == {"count": 0, "mean_ms": None, "p50_ms": None, "p90_ms": None, "p99_ms": None}
    saved = figures.saved(Price(2.0, "EUR", 1))
    assert saved["gpu_s"] is None and saved["money"] is None and "no worker has generated" in saved["why"]


def test_hits_and_misses_are_timed_apart() -> None:
    metrics = Metrics()
    for source, seconds in (("recent", 0.0008), ("similar", 0.004), ("worker", 0.2), ("relay", 9.0)):
        metrics.replied(200, source, seconds)
    figures = Figures(metrics.samples())
    hits, misses = figures.latency(HIT_SOURCES), figures.latency(MISS_SOURCES)
    assert (hits["count"], hits["mean_ms"]) == (2, 2.4) and hits["p50_ms"] <= 1.0 < hits["p99_ms"] <= 5.0
    assert (misses["count"], misses["mean_ms"]) == (1, 200.0) and 100 < misses["p50_ms"] <= 250


def test_what_was_saved_is_priced_by_what_generated_tokens_cost_here() -> None:
    """600 tokens served; workers wrote 1,000 in 50 s of work on 2 GPUs: 0.1 GPU-seconds each."""
    metrics = counted()
    metrics.watching((), worked=lambda: 50.0)
    samples = [*metrics.samples(), Sample("rejoinder_upstream_tokens_total", {}, 1_000)]
    saved = Figures(samples).saved(Price(3.6, "EUR", 2))
    assert (saved["completion_tokens"], saved["gpu_s_per_token"], saved["gpu_s"]) == (600, 0.1, 60.0)
    assert (saved["money"], saved["money_per_token"], saved["currency"], saved["why"]) == (0.06, 0.0001, "EUR", None)
    unpriced = Figures(samples).saved(FREE)
    assert unpriced["gpu_s"] == 30.0 and unpriced["money"] is None and "gpu_hour_price" in unpriced["why"]


@pytest.mark.parametrize(("share", "told"), [(0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (0.75, 1.5), (0.99, 2.0), (1.0, 2.0)])
def test_a_quantile_lies_inside_its_bucket_and_never_beyond_the_last_bound(share: float, told: float) -> None:
    assert quantile({1.0: 4, 2.0: 7.6, math.inf: 8}, share) == pytest.approx(told, abs=0.12)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_is_monotone_and_bounded(values: list[float], share: float) -> None:
    bounds = [0.5, 1.0, 5.0, math.inf]
    buckets = {bound: float(sum(value <= bound for value in values)) for bound in bounds}
    low, high = quantile(buckets, share / 2), quantile(buckets, share)
    assert low is not None and high is not None and 0 <= low <= high <= 5.0


def test_without_counts_there_is_no_quantile() -> None:
    assert quantile({}, 0.5) is None and quantile({1.0: 0, math.inf: 0}, 0.5) is None
