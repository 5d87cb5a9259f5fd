"""A log without labels: what may be said of it, and with how much certainty."""

import pytest
from trials import refused, served, stream

from cache import Likeness
from proxy.evaluation.replay import as_text, replayed
from proxy.evaluation.report import Report
from proxy.evaluation.run import Trial


def told_of(*trials: Trial) -> Report:
    return replayed(stream(("q", "1"), name="log"), trials, 0.01, {})


def test_the_wrong_are_estimated_from_what_trust_believed() -> None:
    told = told_of(*[served(right=None, p_right=0.99)] * 100, served(likeness=Likeness.EXACT), refused())
    wrong = told["estimated_wrong"]
    assert wrong["expected"] == pytest.approx(1.0)
    assert wrong["interval"] == [0, 3]
    assert wrong["plus_minus"] == pytest.approx(2.0)
    assert "Poisson-binomial" in wrong["interval_kind"]
    assert (told["questions"], told["served"], told["served_by"]["meaning"]) == (102, 101, 100)


def test_a_hit_without_an_estimate_is_said_to_have_none() -> None:
    told = told_of(served(right=None, p_right=None), served(right=None, p_right=0.9))
    assert told["estimated_wrong"]["hits_without_estimate"] == 1
    assert told["estimated_wrong"]["expected"] == pytest.approx(0.1)
    assert "without an estimate, not counted in it: 1" in as_text(told)


def test_no_estimate_is_not_an_estimate_of_none() -> None:
    told = told_of(served(right=None, p_right=None))
    assert (told["estimated_wrong"]["expected"], told["estimated_wrong"]["interval"]) == (None, None)
    assert "no estimate of how many are wrong of the 1 by meaning" in as_text(told)
    assert told_of(refused())["estimated_wrong"]["expected"] == 0.0


def test_tokens_of_the_log_are_taken_and_others_are_said_to_be_estimated() -> None:
    counted = told_of(served(tokens=120), served(tokens=80), refused())["tokens_saved"]
    assert (counted["total"], counted["how"]) == (200, "counted in the log")
    guessed = told_of(served(tokens=120), served(asked="four words are asked", answer="two words"))["tokens_saved"]
    assert (guessed["counted"], guessed["estimated"], guessed["hits_estimated"]) == (120, 8, 1)
    assert guessed["how"].startswith("estimated")


def test_the_answers_of_a_log_are_compared_word_for_word() -> None:
    told = told_of(served(answer="At nine."), served(answer="at  nine."), served())
    assert (told["answers_equal"]["equal"], told["answers_equal"]["of"]) == (2, 2)
    assert told_of(served())["answers_equal"] is None


def test_the_riskiest_pairs_are_those_of_which_trust_was_least_sure() -> None:
    told = told_of(*(served(p_right=p) for p in (0.999, 0.985, 0.99)), served(likeness=Likeness.EXACT))
    assert [pair["p_right"] for pair in told["riskiest"]] == [0.985, 0.99, 0.999]
    assert len(told_of(*(served(asked=f"asked {n}") for n in range(50)))["riskiest"]) == 20
    assert [pair["times"] for pair in told_of(*[served()] * 50)["riskiest"]] == [50]


def test_the_story_is_told_in_a_sentence() -> None:
    text = as_text(told_of(served(tokens=1500, p_right=0.98), served(likeness=Likeness.WORDING), refused("order")))
    assert "Had you switched Rejoinder on: 2 of 3 questions served" in text
    assert "exact 0, wording 1, meaning 1" in text
    assert "estimated wrong 0.0 ±" in text
    assert "Not served because of order 1." in text
    assert "The riskiest pairs" in text


def test_an_empty_harvest_is_told_too() -> None:
    text = as_text(told_of(refused()))
    assert "0 of 1 questions served" in text
