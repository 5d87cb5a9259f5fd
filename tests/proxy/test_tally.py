"""Counts that are kept while traffic runs: bounded, and the same whether a log or a live server is counted."""

import pytest

from cache import Agreement, Kind, Likeness, Miss, Question, Reach, Refusal, Scope, Trait, Verdict
from proxy.tally import SHOWN, Pair, Tally, about_tokens, latency_ms, reason_of, same_words


def pair(asked: str = "asked", p_right: float | None = 0.99, likeness: Likeness = Likeness.MEANING) -> Pair:
    return Pair(asked, "stored", likeness, 0.9, p_right)


def asked(*traits: Trait, reach: Reach = Reach.SESSION) -> tuple[Question, Verdict]:
    question = Question(Kind.CHAT, Scope("t", "m", "k"), "x", "k", "p", None, frozenset(traits), None, None)
    return question, Verdict(reach, reach, 60.0, "")


def test_every_question_is_counted_once() -> None:
    tally = Tally()
    for likeness in Likeness:
        tally.served(pair(likeness=likeness), 0.001)
    tally.missed("numbers", 0.003)
    told = tally.report(0.01, {"embedder": "default"})
    assert (told["questions"], told["served"], told["refused"]) == (4, 3, {"numbers": 1})
    assert told["served_by"] == {"exact": 1, "wording": 1, "meaning": 1}
    assert told["latency_ms"]["p99"] == 3.0 and told["settings"] == {"embedder": "default"}


def test_a_million_hits_take_no_more_memory_than_some_thousand() -> None:
    tally = Tally()
    for number in range(20_000):
        tally.served(pair(f"asked {number}", 0.9), 0.001)
    assert (len(tally.riskiest), len(tally.times), len(tally.chances), len(tally.lookup_s)) == (
        SHOWN, SHOWN, 4_000, 10_000,
    )  # fmt: skip
    wrong = tally.report(0.01, {})["estimated_wrong"]
    assert wrong["expected"] == pytest.approx(2000)
    low, high = wrong["interval"]
    assert 1900 < low < 2000 < high < 2100


def test_the_riskiest_stay_and_each_is_shown_once() -> None:
    tally = Tally()
    for number in range(100):
        tally.served(pair(f"asked {number}", number / 100), 0.0)
        tally.served(pair("asked 3", 0.03), 0.0)
    shown = tally.report(0.01, {})["riskiest"]
    assert [each["p_right"] for each in shown] == [number / 100 for number in range(SHOWN)]
    assert {each["asked"]: each["times"] for each in shown}["asked 3"] == 101
    tally.forget_pairs()
    assert tally.report(0.01, {})["riskiest"] == [] and tally.questions == 200


def test_a_copy_does_not_move_on() -> None:
    tally = Tally()
    tally.served(pair(), 0.0)
    told = tally.copy()
    tally.served(pair("another"), 0.0)
    tally.compared(Agreement.AGREE)
    assert told.report(0.01, {})["served"] == 1 and told.measured() is None and len(told.riskiest) == 1


def test_what_was_compared_has_an_interval_and_nothing_compared_is_not_zero() -> None:
    tally = Tally()
    assert tally.measured() is None
    for agreement in (Agreement.AGREE, Agreement.AGREE, Agreement.UNSURE, Agreement.DISAGREE):
        tally.compared(agreement)
    told = tally.measured()
    assert told is not None
    assert (told["compared"], told["agree"], told["disagree"], told["unsure"]) == (4, 2, 1, 1)
    assert told["share_called_wrong"] == 0.25
    assert told["interval"][0] < 0.25 < told["interval"][1]


def test_why_a_question_would_not_be_served_has_one_word() -> None:
    near = (Refusal(1, "x", 0.9, "numbers", "5 against 6"),)
    assert reason_of(*asked(), Miss("refused", "", near)) == "numbers"
    assert reason_of(*asked(Trait.PERSONAL), Miss("not-in-session")) == "personal"
    assert reason_of(*asked(Trait.ACCOUNT), Miss("not-in-session")) == "account"
    shared = asked(Trait.ACCOUNT, Trait.TIME_BOUND, reach=Reach.RECENT)
    assert reason_of(*shared, Miss("not-recent")) == "time-bound"
    assert reason_of(*asked(Trait.PERSONAL), Miss("store-unavailable")) == "store-unavailable"
    assert reason_of(*asked(), Miss("nothing-near")) == "nothing-near"


def test_percentiles_are_by_nearest_rank() -> None:
    assert latency_ms([]) == {"p50": None, "p95": None, "p99": None}
    assert latency_ms(n / 1000 for n in range(1, 101)) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}


def test_answers_are_equal_but_for_case_and_white_space() -> None:
    assert same_words("At nine.", " at  NINE. ")
    assert not same_words("At nine.", "At nine")


def test_a_rough_count_of_tokens_knows_both_scripts() -> None:
    assert about_tokens("four letters") == 3
    assert about_tokens("订单到哪了") == 5
    assert about_tokens("") == 0
