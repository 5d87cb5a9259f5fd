"""One shadow check: what is kept of a hit so that it can be asked again, and what is asked. Pure.

What is kept is kept in memory, bounded, and dropped as soon as anything is forgotten on purpose: a check that comes
too seldom costs a label, a question that outlives its erasure costs trust.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from cache import Evidence, Hit, Question, Scope
from proxy import openai

_REMEMBERED: Final = 256  # entries whose last hits can be looked at again
_SIBLINGS: Final = 8  # hits of each
_OTHERS: Final = 16  # answered questions of one tenant and model, for known-bad controls
_PAIRS: Final = 64
LAST: Final = 1_000_000  # vLLM serves smaller priorities first; users have 0
_NOT_FOR_A_CHECK: Final = frozenset({
    "cache", "stream", "stream_options", "session_id", "user", "safety_identifier", "metadata", "prompt_cache_key",
    "prompt_cache_retention", "conversation", "previous_response_id", "request_id", "store", "priority",
})  # fmt: skip
_THANKS: Final = {True: "谢谢！", False: " Thank you!"}


@dataclass(frozen=True, slots=True)
class Check:
    """One hit that is to be looked at again. body: the asker's request, decoded.  asked, stored: the two questions.
    served: the stored answer's body.

    weight: one over the probability with which it was chosen.  forgets: how often the cache had forgotten something
    when it was served.  sampled: False for one that was chosen because its entry is suspect; it tells nothing about
    hits at large, so it gives a label and counts in no rate.  tries: how often it has yielded."""

    path: str
    body: Mapping[str, Any]
    asked: str
    stored: str
    served: bytes
    scope: Scope
    entry_id: int
    evidence: Evidence | None
    weight: float
    forgets: int
    sampled: bool = True
    tries: int = 0

    @property
    def tenant(self) -> str:
        return self.scope.tenant

    @property
    def model(self) -> str:
        return self.scope.model

    @property
    def wanted_model(self) -> str | None:
        """What a worker must serve; None = any worker will do."""
        model = self.body.get("model")
        return model if isinstance(model, str) and model else None

    @property
    def served_text(self) -> str:
        return text_of(self.served)


def check_of(
    path: str, body: Mapping[str, Any], question: Question, hit: Hit, *, weight: float, forgets: int
) -> Check | None:
    """None where there is no text to compare."""
    if question.text is None or hit.entry.text is None:
        return None
    return Check(
        path, body, question.text, hit.entry.text, hit.entry.answer.body, question.scope,
        hit.entry.id, hit.evidence, weight, forgets,
    )  # fmt: skip


def request_of(check: Check, *, courteous: bool = False, lowest: bool = False) -> bytes:
    """The body that a worker is asked: the asker's own, whole and at once, without who asked and in which session.

    courteous: with a "thank you" behind the question. To ask *the same* twice is no control where sampling is greedy:
    the same bytes come back (60 questions, SmolLM2-135M at temperature 0, CPU: none of them in contradiction; with a
    "thank you" 8, with other words for the question 15). A courtesy changes nothing that is asked.
    lowest: behind everybody, where the worker keeps priorities."""
    body = {name: value for name, value in check.body.items() if name not in _NOT_FOR_A_CHECK}
    if lowest:
        body["priority"] = LAST
    if courteous:
        thanks = _THANKS["\u4e00" <= check.asked[:1] <= "\u9fff"]
        if isinstance(body.get("prompt"), str):
            body["prompt"] += thanks
        if isinstance(body.get("messages"), list):
            body["messages"] = _with_thanks(body["messages"], thanks)
    return orjson.dumps(body)


def _with_thanks(messages: Sequence[Any], thanks: str) -> list[Any]:
    changed = list(messages)
    for place in range(len(changed) - 1, -1, -1):
        message = changed[place]
        if isinstance(message, dict) and message.get("role") == "user":
            if isinstance(message.get("content"), str):
                changed[place] = {**message, "content": message["content"] + thanks}
            break
    return changed


def text_of(answer: bytes) -> str:
    """The words of a stored answer; "" where it has none."""
    texts = openai.read_answer(200, orjson.loads(answer)).outcome.texts
    return texts[0] if texts else ""


class Lately:
    """What was served by meaning lately: what a suspect entry answered, and answers to other questions."""

    def __init__(self) -> None:
        self._served: OrderedDict[int, deque[Check]] = OrderedDict()
        self._others: OrderedDict[tuple[str, str], deque[Check]] = OrderedDict()

    def note(self, check: Check) -> None:
        self._served.setdefault(check.entry_id, deque(maxlen=_SIBLINGS)).append(check)
        self._served.move_to_end(check.entry_id)
        if len(self._served) > _REMEMBERED:
            self._served.popitem(last=False)
        pair = (check.tenant, check.model)
        others = self._others.setdefault(pair, deque(maxlen=_OTHERS))
        if all(check.entry_id != other.entry_id for other in others):
            others.append(check)
        self._others.move_to_end(pair)
        if len(self._others) > _PAIRS:
            self._others.popitem(last=False)

    def again(self, entry_id: int, asked: str, scope: Scope) -> Check | None:
        """This hit, to be checked for certain because its entry is suspect; None where it is not remembered."""
        for check in self._served.get(entry_id, ()):
            if check.asked == asked and check.scope == scope:
                return replace(check, weight=1.0, sampled=False)
        return None

    def others(self, check: Check) -> list[Check]:
        """Hits of the same tenant and model that were served with another entry."""
        return [each for each in self._others.get((check.tenant, check.model), ()) if each.entry_id != check.entry_id]

    def clear(self) -> None:
        self._served.clear()
        self._others.clear()
