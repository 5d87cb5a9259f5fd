"""Counts that somebody will build a decision on: what is in them, and what is not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials import lines, refused, served, stream

from cache import Likeness
from proxy.evaluation.packs import parse
from proxy.evaluation.report import Report, as_text, exceeded, latency_ms, percent, pooled, refusals, report
from proxy.evaluation.run import Trial

PAIRS = parse(lines({"a": "x", "b": "y", "same": True}), "pairs")


def of_stream(*trials: Trial, name: str = "shop") -> Report:
    return report(stream(("q", "1"), name=name), trials, 0.01, {"embedder": "hashing"})


def test_exact_repeats_do_not_hide_what_meaning_got_wrong() -> None:
    told = of_stream(
        *[served(likeness=Likeness.EXACT)] * 6, *[served(likeness=Likeness.WORDING)] * 2, served(), served(right=False)
    )
    assert (told["hits"], told["false_hits"], told["false_share"]) == (10, 1, 0.1)
    assert (told["semantic_hits"], told["semantic_false_hits"], told["semantic_false_share"]) == (2, 1, 0.5)
    assert told["hits_by"] == {"exact": 6, "wording": 2, "meaning": 2}
    assert told["interval"] == "Clopper-Pearson, 95 %"
    assert told["false_share_interval"] == pytest.approx([0.002529, 0.445016], abs=1e-6)


def test_no_hit_is_no_evidence_and_not_zero_percent() -> None:
    told = of_stream(refused())
    assert told["false_share"] is None
    assert told["false_share_interval"] == [0.0, 1.0]
    assert "no hits, no evidence" in as_text([told])


@given(st.lists(st.sampled_from([served(), served(right=False), served(likeness=Likeness.EXACT), refused("numbers"),
                                 refused("nothing-near")])))  # fmt: skip
def test_hits_and_refusals_are_all_there_is(trials: list[Trial]) -> None:
    told = of_stream(*trials)
    assert told["queries"] == len(trials) == told["hits"] + sum(told["refused"].values())
    assert told["hits"] == sum(told["hits_by"].values())
    assert told["false_hits"] <= told["hits"]
    assert json.loads(json.dumps(told)) == told


def test_refusals_are_counted_by_who_refused() -> None:
    assert refusals([refused("order"), refused("numbers"), refused("numbers"), served()]) == {"numbers": 2, "order": 1}


def test_pairs_are_told_by_what_they_are() -> None:
    sides = [(True, "reword"), (True, "reword"), (False, "number"), (False, None)]
    trials = [
        Trial(
            served().asked,
            0.001,
            Likeness.MEANING if place % 2 == 0 else None,
            served().stored,
            same if place % 2 == 0 else None,
            same=same,
            category=category,
        )
        for place, (same, category) in enumerate(sides)
    ]
    told = report(PAIRS, trials, 0.01, {})
    assert (told["kind"], told["pairs"]) == ("pairs", 4)
    assert (told["served_same"], told["n_same"], told["served_different"], told["n_different"]) == (1, 2, 1, 2)
    assert told["by_category"]["reword"] == {
        "served_same": 1, "n_same": 2, "served_different": 0, "n_different": 0,
    }  # fmt: skip
    assert "served 1 of 2 that share an answer, 1 of 2 that do not" in as_text([told])


def test_the_worst_are_those_of_which_trust_was_surest() -> None:
    told = of_stream(*(served(right=False, p_right=p, asked=f"q{p}") for p in (0.97, 0.999, 0.98)), served(p_right=1.0))
    assert [pair["p_right"] for pair in told["worst"]] == [0.999, 0.98, 0.97]
    assert told["worst"][0]["asked"] == "q0.999"
    assert told["worst"][0]["stored"] == "stored"


def test_at_most_twenty_of_the_worst_are_shown() -> None:
    assert len(of_stream(*[served(right=False)] * 50)["worst"]) == 20


def test_latency_is_that_of_the_lookup_by_rank() -> None:
    trials = [Trial(served().asked, milliseconds / 1000) for milliseconds in range(1, 101)]
    assert latency_ms(trials) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert latency_ms([]) == {"p50": None, "p95": None, "p99": None}


def test_a_pack_above_the_limit_is_named_with_its_figures() -> None:
    good, bad = of_stream(*[served()] * 100, name="good"), of_stream(*[served()] * 48, *[served(right=False)] * 2)
    assert exceeded([good, bad], 0.01) == [
        "shop: 2 of 50 hits by meaning were wrong, 4.00 %; more than the 1.00 % allowed."
    ]
    assert exceeded([good, bad, of_stream(refused())], 0.04) == []


def test_wrong_repeats_do_not_fail_a_limit_that_is_about_meaning() -> None:
    assert exceeded([of_stream(served(), served(right=False, likeness=Likeness.EXACT))], 0.01) == []


def test_streams_are_pooled_and_pairs_are_not() -> None:
    one, other = of_stream(served(), served(right=False)), of_stream(*[served()] * 8)
    together = pooled([one, other, report(PAIRS, [refused(same=True)], 0.01, {})])
    assert together is not None
    assert (together["queries"], together["semantic_hits"], together["semantic_false_share"]) == (10, 10, 0.1)
    assert pooled([one]) is None
    assert "(all streams)" in as_text([one, other])


def test_people_are_not_told_more_digits_than_there_are() -> None:
    assert [percent(share) for share in (None, 0.0, 0.00456, 0.1234)] == ["–", "0.00 %", "0.46 %", "12.3 %"]
