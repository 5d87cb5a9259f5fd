"""The doctor's conclusions: each thing that people lost a day over is found, and each finding has a way out."""

from typing import Any

import pytest

from proxy.checkup import Level, Probe, of_hits, of_pool, of_state, of_worker, totals, worst

WELL = Probe("w", True, "", 1000, 992, 992, 0.1, None)


def levels(found: Any) -> list[Level]:
    return [each.level for each in found]


def stats(**changed: Any) -> dict[str, Any]:
    return {
        "since_s": 1.0, "lookups": 1000, "hits_total": 400, "misses": {"nothing-near": 600},
        "false_hit_rate": {"budget": 0.01, "measured": []}, **changed,
    }  # fmt: skip


def worker(**changed: Any) -> dict[str, Any]:
    return {"name": "w", "url": "http://w:8000", "state": "up", "trouble": "", "gauges": {"running": 0}, **changed}


def test_a_healthy_worker_is_said_to_be_one() -> None:
    (finding,) = of_worker(WELL, 3.0)
    assert finding.level is Level.OK and "992 of 1000" in finding.what


@pytest.mark.parametrize(
    "probe, level, word",
    [
        (Probe("w", False, "timed out"), Level.NOTE, "timed out"),
        (Probe("w", True, "", 1000, 0, 0), Level.PROBLEM, "--enable-prefix-caching"),
        (Probe("w", True, "", 1000, None, 0), Level.PROBLEM, "--enable-prefix-caching"),
        (Probe("w", True, "", 1000, None, None), Level.WARNING, "--enable-prompt-tokens-details"),
        (Probe("w", True, "", 1000, None, 992), Level.WARNING, "--enable-prompt-tokens-details"),
        (Probe("w", True, "", 1000, 992, 992, 45.0), Level.WARNING, "NTP"),
        (Probe("w", True, "", 1000, 992, 992, 0.0, 1.5), Level.PROBLEM, "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"),
    ],
)
def test_what_is_wrong_with_a_worker_comes_with_a_way_out(probe: Probe, level: Level, word: str) -> None:
    found = list(of_worker(probe, 3.0))
    assert worst(found) is level
    bad = next(each for each in found if each.level is level)
    assert word in bad.what + bad.way_out and bad.way_out


def test_a_connection_that_is_kept_long_enough_is_no_finding() -> None:
    assert levels(of_worker(Probe("w", True, "", 1000, 992, 992, 0.0, 5.0), 3.0)) == [Level.OK]


def test_workers_that_are_down_or_say_nothing() -> None:
    assert levels(of_pool([worker()], {})) == []
    assert worst(of_pool([], {})) is Level.PROBLEM
    assert worst(of_pool([worker(state="down", trouble="refused"), worker()], {})) is Level.PROBLEM
    assert worst(of_pool([worker(gauges=None)], {})) is Level.WARNING
    assert worst(of_pool([worker()], {"dns://vllm": "no such name"})) is Level.WARNING


def test_a_store_that_does_not_answer_is_a_problem() -> None:
    assert worst(of_hits(stats(), None, 0, None)) is Level.PROBLEM
    assert worst(of_hits(stats(), 7, 0, None)) is Level.OK


@pytest.mark.parametrize(
    "changed, volatile, word",
    [
        ({"hits_total": 3}, 0, "nothing-near"),
        ({"misses": {"embedder-unavailable": 300, "refused": 300}}, 0, "embedder"),
        ({}, 12, "explain"),
    ],
)
def test_a_cache_that_does_not_pay_is_a_warning(changed: dict[str, Any], volatile: int, word: str) -> None:
    found = [each for each in of_hits(stats(**changed), 7, volatile, None) if each.level is Level.WARNING]
    assert found and word in found[0].what + found[0].way_out


def test_few_lookups_say_nothing() -> None:
    assert worst(of_hits(stats(lookups=10, hits_total=0), 7, 0, None)) is Level.NOTE


def test_a_hit_share_that_fell_is_told_and_one_that_held_is_not() -> None:
    before = totals(stats())
    fell = stats(lookups=2000, hits_total=420)
    assert any("fell from 40 % to 2 %" in each.what for each in of_hits(fell, 7, 0, before))
    assert worst(of_hits(stats(lookups=2000, hits_total=790), 7, 0, before)) is Level.OK
    assert worst(of_hits(stats(since_s=9.0), 7, 0, before)) is Level.NOTE  # counts began anew, so nothing fell


def test_more_wrong_answers_than_allowed_are_a_problem_only_when_it_is_sure() -> None:
    def measured(low: float) -> dict[str, Any]:
        rate = {"estimate": 0.05, "low": low, "high": 0.1}
        return {"budget": 0.01, "measured": [{"tenant": "shop", "model": "m", "corrected": rate, "why": ""}]}

    assert worst(of_hits(stats(false_hit_rate=measured(0.03)), 7, 0, None)) is Level.PROBLEM
    assert worst(of_hits(stats(false_hit_rate=measured(0.001)), 7, 0, None)) is Level.OK


@pytest.mark.parametrize(
    "mode, secret, writable, level",
    [
        (0o700, 0o600, True, Level.OK), (0o755, 0o600, True, Level.PROBLEM), (0o700, 0o644, True, Level.PROBLEM),
        (None, None, False, Level.NOTE), (0o700, 0o600, False, Level.NOTE),
    ],
)  # fmt: skip
def test_rights_of_the_state_directory(mode: int | None, secret: int | None, writable: bool, level: Level) -> None:
    assert worst(of_state("/state", mode, secret, writable)) is level
