"""What is counted: the identities that must hold, and that no label grows with what clients or workers say."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cache import (
    Answer,
    Entry,
    Hit,
    Kind,
    Likeness,
    Miss,
    Outcome,
    Rate,
    Reach,
    Refusal,
    Scope,
    Stage,
    Why,
    inadmissible,
)
from proxy.measured import Measurement
from proxy.metrics import _SECONDS, KINDS, Metrics
from proxy.openai import Told


def hit(
    tier: str = "recent", likeness: Likeness = Likeness.EXACT, tokens: int | None = 5, refused: tuple[Refusal, ...] = ()
) -> Hit:
    entry = Entry(
        id=1, kind=Kind.CHAT, scope=Scope("t", "m", "s"), text="q", key="k", proof="p", wording="w",
        reach=Reach.SIMILAR,
        answer=Answer(b"{}", tokens), created_s=0.0, expires_s=60.0,
    )  # fmt: skip
    return Hit(entry, tier, likeness, 1.0, refused=refused)


def counted(metrics: Metrics) -> dict[str, float]:
    """Sample name with its labels → value, as Prometheus reads it."""
    return {
        sample.name + "".join(f" {k}={v}" for k, v in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def total(metrics: Metrics, name: str) -> float:
    return sum(value for key, value in counted(metrics).items() if key.split()[0] == name)


REASONS = [*KINDS, "a reason that nobody thought of"]
FOUND = st.lists(
    st.builds(
        hit,
        st.sampled_from(["session", "recent", "similar"]),
        st.sampled_from(list(Likeness)),
        st.none() | st.integers(0, 9),
    )
    | st.builds(Miss, st.sampled_from(REASONS)),
    max_size=30,
)


@given(FOUND)
def test_lookups_are_hits_and_misses_and_nothing_else(found: list[Hit | Miss]) -> None:
    metrics = Metrics()
    for each in found:
        metrics.looked_up(each)
    hits, misses = total(metrics, "rejoinder_hits_total"), total(metrics, "rejoinder_misses_total")
    assert total(metrics, "rejoinder_lookups_total") == len(found) == hits + misses
    assert hits == sum(isinstance(each, Hit) for each in found)
    kinds = {key.partition("kind=")[2].split()[0] for key in counted(metrics) if key.startswith("rejoinder_misses_t")}
    assert kinds <= {"miss", "refusal", "error", "bypass"}
    tokens = sum(each.entry.answer.tokens or 0 for each in found if isinstance(each, Hit))
    assert total(metrics, "rejoinder_served_tokens_total") == tokens


def test_every_reason_that_the_cache_gives_has_its_kind() -> None:
    """Read from the source, so that a new reason cannot become an unknown one."""
    package = Path(__file__).parents[2] / "cache"
    source = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    given = set(re.findall(r'\bMiss\("([^"]+)"', source)) | set(
        re.findall(r'reason = "([^"]+)" if [^\n]+ else "', source)
    )
    assert len(given) >= 8
    assert given | {why.value for why in Why} - {"miss"} <= set(KINDS)


def test_a_reason_that_nobody_listed_makes_no_label_of_its_own() -> None:
    metrics = Metrics()
    metrics.looked_up(Miss("whatever a later version says"))
    assert counted(metrics)["rejoinder_misses_total kind=miss reason=other"] == 1


@pytest.mark.parametrize(
    "time, sample",
    [
        (lambda m: m.first_token("recent", 0.002),
         "rejoinder_time_to_first_token_seconds_bucket le=0.0025 source=recent"),
        (lambda m: m.asking(0.002), "rejoinder_miss_overhead_seconds_bucket le=0.0025"),
        (lambda m: m.took(Stage.EMBED, 0.002), "rejoinder_lookup_stage_seconds_bucket le=0.0025 stage=embed"),
        (lambda m: m.judged("yes", 0.002), "rejoinder_judge_seconds_bucket le=0.0025"),
    ],
)  # fmt: skip
def test_what_takes_time_has_a_histogram(time: Callable[[Metrics], None], sample: str) -> None:
    metrics = Metrics()
    time(metrics)
    assert counted(metrics)[sample] == 1


def test_a_hit_is_counted_by_tier_and_likeness() -> None:
    metrics = Metrics()
    metrics.looked_up(hit("similar", Likeness.MEANING))
    assert counted(metrics)["rejoinder_hits_total likeness=meaning tier=similar"] == 1


def test_who_objected_is_counted_on_hits_and_misses() -> None:
    metrics = Metrics()
    refusal = Refusal(1, "q", 0.9, "numbers", "5 against 6")
    metrics.looked_up(hit(refused=(refusal,)))
    metrics.looked_up(Miss("refused", refused=(refusal, Refusal(2, "q", 0.8, "threshold", "far"))))
    assert counted(metrics)["rejoinder_refused_candidates_total by=numbers"] == 2
    assert counted(metrics)["rejoinder_refused_candidates_total by=threshold"] == 1


def test_generations_and_those_who_shared_one() -> None:
    metrics = Metrics()
    for joined in (False, True, True):
        metrics.flew(joined)
    assert total(metrics, "rejoinder_flights_total") == 1
    assert total(metrics, "rejoinder_collapsed_total") == 2


def test_tokens_of_workers_are_counted_where_they_are_known() -> None:
    metrics = Metrics()
    outcome = Outcome(200, ("stop",), ("a",))
    metrics.generated(Told(outcome, Answer(b"{}", 7, 20), 16))
    metrics.generated(Told(outcome, Answer(b"{}", None, None), None))
    metrics.generated(Told(outcome, None, None))
    names = (
        "rejoinder_upstream_tokens_total",
        "rejoinder_upstream_prompt_tokens_total",
        "rejoinder_upstream_cached_prompt_tokens_total",
    )
    assert [total(metrics, name) for name in names] == [7, 20, 16]


def test_what_the_store_said_of_an_answer() -> None:
    metrics = Metrics()
    metrics.stored(True)
    metrics.stored(False)
    assert {key: value for key, value in counted(metrics).items() if key.startswith("rejoinder_stored_total")} == {
        "rejoinder_stored_total outcome=acknowledged": 1, "rejoinder_stored_total outcome=memory only": 1,
    }  # fmt: skip


OUTCOMES = st.builds(
    Outcome, st.sampled_from([200, 400, 429, 500]),
    st.lists(st.text(max_size=9) | st.just("stop") | st.none(), max_size=3).map(tuple),
    st.lists(st.sampled_from(["", "text", "I'm sorry, no."]), max_size=2).map(tuple), st.booleans(), st.booleans(),
    st.booleans(),
)  # fmt: skip


@given(st.lists(OUTCOMES, min_size=1, max_size=40))
def test_no_finish_reason_of_a_workers_own_makes_a_new_label(outcomes: list[Outcome]) -> None:
    metrics = Metrics()
    refused = [reason for outcome in outcomes if (reason := inadmissible(outcome)) is not None]
    for reason in refused:
        metrics.refused_to_store(reason)
    labels = {key for key in counted(metrics) if key.startswith("rejoinder_not_stored_total")}
    known = {"status 400", "status 429", "status 500", "the stream broke off", "it calls a tool", "no choice in it",
    "empty",
             "the model refused", "it apologises or reports a failure", "finish_reason other"}  # fmt: skip
    assert {label.partition("reason=")[2] for label in labels} <= known
    assert total(metrics, "rejoinder_not_stored_total") == len(refused)


@pytest.mark.parametrize("finish", ["length", "tool_calls", "content_filter"])
def test_the_usual_finish_reasons_are_told_apart(finish: str) -> None:
    metrics = Metrics()
    metrics.refused_to_store(f"finish_reason {finish}")
    assert counted(metrics)[f"rejoinder_not_stored_total reason=finish_reason {finish}"] == 1


def test_replies_are_counted_by_status_and_source_and_timed_by_source() -> None:
    metrics = Metrics()
    metrics.replied(200, "recent", 0.002)
    metrics.replied(200, "recent", 0.004)
    metrics.replied(503, "error", 0.0)
    found = counted(metrics)
    assert found["rejoinder_replies_total source=recent status=200"] == 2
    assert found["rejoinder_replies_total source=error status=503"] == 1
    assert found["rejoinder_reply_seconds_count source=recent"] == 2
    assert found["rejoinder_reply_seconds_sum source=recent"] == pytest.approx(0.006)
    assert found["rejoinder_reply_seconds_bucket le=0.0025 source=recent"] == 1


@given(st.lists(st.floats(0, 200) | st.sampled_from(_SECONDS), max_size=30))
def test_times_told_at_once_are_what_observing_each_would_have_told(seconds: list[float]) -> None:
    metrics, registry = Metrics(), CollectorRegistry()
    one_by_one = Histogram("rejoinder_reply_seconds", "x", ["source"], buckets=_SECONDS, registry=registry)
    one_by_one.labels("worker")
    for each in seconds:
        metrics.replied(200, "worker", each)
        one_by_one.labels("worker").observe(each)
    wanted = {
        (sample.name, sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode()) for sample in family.samples
    }  # fmt: skip
    found = {
        (sample.name, sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode()) for sample in family.samples
        if sample.name.startswith("rejoinder_reply_seconds")
    }  # fmt: skip
    for key, value in wanted.items():
        if not key[0].endswith("_created") and (seconds or key in found):
            assert found[key] == pytest.approx(value)


def test_what_was_told_once_is_not_told_again() -> None:
    metrics = Metrics()
    metrics.relayed()
    assert total(metrics, "rejoinder_relayed_total") == total(metrics, "rejoinder_relayed_total") == 1


async def test_nothing_is_told_in_the_background_by_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    before = asyncio.all_tasks()
    async with Metrics() as metrics:
        assert asyncio.all_tasks() == before
        metrics.relayed()
    assert metrics.registry.get_sample_value("rejoinder_relayed_total") == 1


def test_requests_in_flight_go_up_and_down() -> None:
    metrics = Metrics()
    metrics.entered()
    metrics.entered()
    metrics.left()
    assert total(metrics, "rejoinder_requests_in_flight") == 1


def test_workers_are_shown_by_state_and_the_last_count_stands() -> None:
    metrics = Metrics()
    metrics.workers({"up": 3, "down": 0})
    metrics.workers({"up": 2, "down": 1})
    assert counted(metrics)["rejoinder_workers state=up"] == 2
    assert counted(metrics)["rejoinder_workers state=down"] == 1


def test_what_was_passed_on_is_counted() -> None:
    metrics = Metrics()
    metrics.relayed()
    assert total(metrics, "rejoinder_relayed_total") == 1


def test_two_registries_share_nothing() -> None:
    one, two = Metrics(), Metrics()
    one.relayed()
    assert total(two, "rejoinder_relayed_total") == 0


def test_every_metric_says_what_it_is() -> None:
    described: dict[str, Any] = {
        f.name: f.documentation for f in text_string_to_metric_families(Metrics().exposition().decode())
    }
    assert len(described) > 15
    assert all(name.startswith("rejoinder_") and len(words) > 8 for name, words in described.items())


def measurement(*, raw: Rate | None = None, corrected: Rate | None = None) -> Measurement:
    return Measurement("shop", "m", 31.0, 0.0, 31.0, raw, corrected, "" if corrected else "why", (20, 1), (20, 19))


def test_a_rate_that_is_not_known_is_absent_and_its_evidence_says_why() -> None:
    metrics = Metrics()
    known: list[Measurement] = []
    metrics.measuring(lambda: known)
    assert not any("false_hit" in name for name in counted(metrics))
    known.append(measurement())
    assert counted(metrics)["rejoinder_false_hit_evidence model=m tenant=shop"] == 31
    assert not any(name.startswith("rejoinder_false_hit_rate") for name in counted(metrics))
    known[:] = [measurement(raw=Rate(0.04, 0.01, 0.1), corrected=Rate(0.0, 0.0, 0.08))]
    told = counted(metrics)
    assert told["rejoinder_false_hit_rate bound=high model=m tenant=shop"] == 0.08
    assert told["rejoinder_false_hit_rate bound=estimate model=m tenant=shop"] == 0
    assert told["rejoinder_false_hit_rate_raw bound=low model=m tenant=shop"] == 0.01


def test_checks_controls_and_verdicts_are_counted() -> None:
    metrics = Metrics()
    metrics.shadowed("agree")
    metrics.shadowed("dropped", 3)
    metrics.shadow_control("null", "agree")
    metrics.shadow_spent(1.25)
    metrics.shadow_tokens(40)
    metrics.judged("late", 0.2)
    metrics.judged("off", None)
    metrics.judging(True)
    told = counted(metrics)
    assert told["rejoinder_shadow_checks_total outcome=dropped"] == 3
    assert told["rejoinder_shadow_controls_total control=null outcome=agree"] == 1
    assert (told["rejoinder_shadow_seconds_total"], told["rejoinder_shadow_tokens_total"]) == (1.25, 40)
    assert told["rejoinder_judge_verdicts_total outcome=off"] == told["rejoinder_judge_seconds_count"] == 1
    assert told["rejoinder_judge_on"] == 1
