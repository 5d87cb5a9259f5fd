"""One token with its log-probabilities becomes a probability, and a prompt's texts stay texts."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.yes_or_no import PASSING, TRIALS, Case, passed, probability, prompt, request

# As vllm 0.32.0 answered for SmolLM2-135M; the tail of the twenty is left out.
REAL = {
    "object": "text_completion", "choices": [{"index": 0, "text": " yes", "logprobs": {
        "text_offset": [0], "token_logprobs": [-0.6683379411697388], "tokens": [" yes"],
        "top_logprobs": [{" yes": -0.6683379411697388, " no": -0.7355471849441528, "\n": -6.21791934967041,
                          " Yes": -6.411576271057129, " No": -6.6810808181762695, "yes": -7.490199089050293,
                          " y": -8.259644508361816, "no": -9.852755546569824, " NO": -9.7898530960083}],
    }, "finish_reason": "length"}],
}  # fmt: skip


def reply(**top: float) -> dict[str, Any]:
    return {"choices": [{"logprobs": {"top_logprobs": [{token: math.log(p) for token, p in top.items()}]}}]}


def test_the_reply_of_a_real_worker_is_read() -> None:
    assert probability(REAL) == pytest.approx(0.51716, abs=1e-4)


def test_every_way_to_write_yes_counts() -> None:
    assert probability(reply(**{" yes": 0.3, "Yes": 0.2, "▁YES": 0.1, "Ġyes": 0.1, " no": 0.1, "maybe": 0.2})) == (
        pytest.approx(0.7 / 0.8)
    )
    assert probability(reply(**{"是": 0.6, "否": 0.2})) == pytest.approx(0.75)


def test_a_model_that_wants_to_say_something_else_gave_no_verdict() -> None:
    assert probability(reply(**{" The": 0.9, " yes": 0.05})) is None
    assert probability(reply(**{" The": 1.0})) is None


@pytest.mark.parametrize("broken", [
    None, [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"logprobs": None}]},
    {"choices": [{"logprobs": {"top_logprobs": []}}]}, {"choices": [{"logprobs": {"top_logprobs": [None]}}]},
    {"choices": [{"logprobs": {"top_logprobs": [{" yes": None, " no": "x", "yes": float("nan")}]}}]}, "yes", 5,
])  # fmt: skip
def test_a_reply_of_any_other_shape_is_no_verdict(broken: object) -> None:
    assert probability(broken) is None


def test_what_never_changes_stands_first_so_that_a_worker_computes_it_once() -> None:
    one, other = prompt(TRIALS[0]), prompt(TRIALS[3])
    shared = next(place for place in range(len(one)) if one[place] != other[place])
    assert shared > 0.7 * len(one)
    assert one.endswith("(yes or no)?")


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_no_text_can_pass_for_an_instruction(asked: str, stored: str, answer: str) -> None:
    """Each stands on one line, as one JSON string, however many lines, quotes and verdicts it holds."""
    lines = prompt(Case(asked, stored, answer)).split("\n")[-4:]
    assert json.loads(lines[0].removeprefix("Question A: ")) == stored
    assert json.loads(lines[1].removeprefix("Answer: ")) == answer
    assert json.loads(lines[2].removeprefix("Question B: ")) == asked


def test_a_long_answer_does_not_make_a_long_prompt() -> None:
    assert len(prompt(Case("q" * 9999, "s" * 9999, "a" * 99_999))) < 8000


def test_a_verdict_costs_one_token_and_has_no_chance_in_it() -> None:
    body = request(TRIALS[0], "m")
    assert (body["model"], body["max_tokens"], body["temperature"], body["logprobs"]) == ("m", 1, 0, 20)
    assert "model" not in request(TRIALS[0], None)


@pytest.mark.parametrize("always", [0.0, 1.0, 0.5, None])
def test_a_judge_that_always_says_the_same_does_not_pass(always: float | None) -> None:
    right, of = passed((case, always) for case in TRIALS)
    assert right < PASSING * of
    assert passed((case, 0.9 if case.right else 0.1) for case in TRIALS) == (of, of)


def test_the_self_test_asks_in_both_languages_and_nothing_that_the_prompt_already_shows() -> None:
    assert {"\u4e00" <= case.asked[0] <= "\u9fff" for case in TRIALS} == {True, False}
    for case in TRIALS:
        assert case.asked not in prompt(Case("x", "y", "z"))
