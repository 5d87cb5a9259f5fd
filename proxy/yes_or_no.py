"""How the judge is asked, and how its one token is read. Pure.

The prompt is for /v1/completions, not for a chat: no template, so no model starts to think. What never changes stands
first, so that vLLM computes it once and finds it in its prefix cache ever after; the texts of the case stand last, as
JSON strings, so that nothing in them can pass for an instruction or for another case.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

TOP: Final = 20  # log-probabilities; vLLM's own limit (--max-logprobs)
PASSING: Final = 0.8  # of the self-test
_LEAST_MASS: Final = 0.1  # of yes and no together; a model that wants to say something else has not understood
_LONGEST_QUESTION: Final = 800  # characters
_LONGEST_ANSWER: Final = 2400

_YES: Final = frozenset({"yes", "是", "对"})
_NO: Final = frozenset({"no", "否", "不", "不是"})
_AROUND: Final = " \t\n\r\u2581\u0120\"'*.,:"  # a space may come as the marks of sentencepiece and of byte-level BPE


@dataclass(frozen=True, slots=True)
class Case:
    """An answer that was given to `stored`: does it also answer `asked`? right: known for our own."""

    asked: str
    stored: str
    answer: str
    right: bool = False


_INSTRUCTION = (
    "You decide whether a stored answer may be reused. An answer was written for question A. Somebody now asks "
    "question B. Say yes only if that same answer, unchanged, fully and correctly answers question B as well. "
    "Say no if B asks about another thing, number, name, time, direction, or the opposite, or asks for more.\n\n"
)
_SHOWN = (
    Case("How can I change my password?", "How do I reset my password?",
         "Open Settings, choose Security, and tap Reset password.", True),
    Case("How do I delete my account?", "How do I create an account?",
         "Tap Sign up, enter your email address, and confirm it.", False),
    Case("营业时间是几点到几点？", "你们几点开门，几点关门？", "我们每天九点开门，二十一点关门。", True),
    Case("从上海到北京的火车票多少钱？", "从北京到上海的火车票多少钱？", "北京到上海的二等座票价为553元。", False),
)  # fmt: skip

TRIALS: Final = (
    Case("Where do I find my invoices?", "Where can I see my invoices?", "Open Account and choose Billing.", True),
    Case("Can I pay by card?", "Do you accept card payments?", "Yes, we accept Visa and Mastercard.", True),
    Case("What is 15 % of 80?", "What is 15 % of 60?", "15 % of 60 is 9.", False),
    Case("How do I turn off notifications?", "How do I turn on notifications?",
         "Open Settings, choose Notifications, and switch them on.", False),
    Case("Which animals are not mammals?", "Which animals are mammals?", "Dogs, cats and whales are mammals.", False),
    Case("怎么修改收货地址？", "如何更改收货地址？", "在我的订单里点击修改地址即可。", True),
    Case("水在多少度沸腾？", "水的沸点是多少度？", "在标准大气压下，水的沸点是100摄氏度。", True),
    Case("怎么取消会员？", "怎么开通会员？", "在会员中心点击立即开通并付款。", False),
    Case("2018年的世界杯冠军是谁？", "2014年的世界杯冠军是谁？", "2014年的冠军是德国队。", False),
    Case("Is it safe to mix bleach and water?", "Is it safe to mix bleach and ammonia?",
         "No, it releases toxic chloramine gas.", False),
)  # fmt: skip


def prompt(case: Case) -> str:
    """The whole prompt; it ends where the model has to say yes or no."""
    return _PREFIX + _put(case)


def request(case: Case, model: str | None) -> dict[str, Any]:
    """The body for /v1/completions. model: None = the worker's own."""
    body: dict[str, Any] = {"prompt": prompt(case), "max_tokens": 1, "temperature": 0, "logprobs": TOP}
    return body if model is None else {"model": model, **body}


def probability(reply: object) -> float | None:
    """P(yes) against P(no) of a `text_completion`, in [0, 1]; None where the model wanted to say something else.

    reply: the decoded JSON, of any shape.  P = Σ p(yes) / (Σ p(yes) + Σ p(no)) over every way to write either."""
    top = _top(reply)
    yes = sum(share for word, share in top if word in _YES)
    no = sum(share for word, share in top if word in _NO)
    return yes / (yes + no) if yes + no >= _LEAST_MASS else None


def passed(verdicts: Iterable[tuple[Case, float | None]]) -> tuple[int, int]:
    """(right ones, all) of a self-test; no verdict is a wrong one."""
    outcomes = [found is not None and (found > 0.5) == case.right for case, found in verdicts]
    return sum(outcomes), len(outcomes)


def _top(reply: object) -> list[tuple[str, float]]:
    """(word, probability) of the first token's likeliest candidates."""
    try:
        (choice, *_) = reply["choices"]  # type: ignore[index]
        first = choice["logprobs"]["top_logprobs"][0]
    except (KeyError, IndexError, TypeError, ValueError):
        return []
    if not isinstance(first, Mapping):
        return []
    return [
        (token.strip(_AROUND).lower(), min(1.0, math.exp(min(0.0, logprob))))
        for token, logprob in first.items()
        if isinstance(token, str) and isinstance(logprob, int | float) and math.isfinite(logprob)
    ]


def _put(case: Case) -> str:
    asked, stored = _quoted(case.asked, _LONGEST_QUESTION), _quoted(case.stored, _LONGEST_QUESTION)
    return (
        f"Question A: {stored}\nAnswer: {_quoted(case.answer, _LONGEST_ANSWER)}\nQuestion B: {asked}\n"
        "Does the answer fully and correctly answer question B (yes or no)?"
    )


def _quoted(text: str, longest: int) -> str:
    return json.dumps(text if len(text) <= longest else f"{text[:longest]} …", ensure_ascii=False)


_PREFIX: Final = _INSTRUCTION + "".join(f"{_put(case)} {'yes' if case.right else 'no'}\n\n" for case in _SHOWN)
