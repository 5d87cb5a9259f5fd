"""An answer that stopped too early, and what comes after it: may it be continued, what is asked for the rest, and how
the two become one stream. Pure.

A prompt can only be continued where nothing but its text decides what comes next. So the fields that are known to be
harmless are listed, and any other means no: penalties count the tokens of an answer and would not see the first part's,
a seed would begin anew, stop words may lie across the seam, and what tomorrow's field does nobody knows.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from cache import Answer, Kind
from proxy import sse
from proxy.flights import Block

_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_HARMLESS: Final = frozenset(
    (
        "model", "messages", "prompt", "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "user",
        "session_id", "conversation", "metadata", "cache", "cache_salt", "priority", "prompt_cache_key",
        "safety_identifier", "store", "service_tier", *_LIMITS,
    )
)  # fmt: skip
_AT_REST: Final[Mapping[str, tuple[Any, ...]]] = {  # these say nothing when they say this
    "n": (1,), "best_of": (1,), "presence_penalty": (0,), "frequency_penalty": (0,), "repetition_penalty": (1,),
    "logprobs": (False,), "top_logprobs": (0,), "echo": (False,), "stop": ([],), "tools": ([],),
    "response_format": ({"type": "text"},),
}  # fmt: skip
_SAID: Final = frozenset(("role", "content"))

# A chat by which a model's template is tested: does the answer's beginning extend the prompt, as it stands?
TEST_CHAT: Final = [{"role": "user", "content": "Say the letters."}]
TEST_PART: Final = "A, b and c"


class Unspliceable(Exception):
    """What came is not the rest of what was told."""


def why_not(body: Mapping[str, Any], kind: Kind) -> str | None:
    """Why an answer to this request is never continued; None where it may be."""
    for name, value in body.items():
        if name not in _HARMLESS and value is not None and value not in _AT_REST.get(name, ()):
            if name == "seed" and body.get("temperature") == 0:
                continue
            return f"{name} is not continued"
    if kind is Kind.COMPLETION:
        return None if isinstance(body.get("prompt"), str) else "the prompt is no text"
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(last, Mapping) or last.get("role") != "user":
        return "the last turn is not a user's"
    return None


def deterministic(body: Mapping[str, Any]) -> bool:
    """Whether the rest is the same whoever generates it, but for rounding."""
    return bool(body.get("temperature") == 0)


def beginning(kind: Kind, answer: Answer) -> str | None:
    """The part of a cut answer that is told before the rest is asked for: its text up to the white space at its end,
    which templates trim. None where it has none, or says more than a text."""
    try:
        (choice,) = orjson.loads(answer.body)["choices"]
        message = choice["message"] if kind is Kind.CHAT else {"content": choice["text"]}
        text = message["content"]
    except (ValueError, LookupError, TypeError):
        return None
    if not isinstance(text, str) or any(value for name, value in message.items() if name not in _SAID):
        return None
    return told_so_far(kind, text)


def told_so_far(kind: Kind, text: str) -> str | None:
    """The same of a text: what may stand as an answer's beginning in a prompt. None = it may not."""
    part = text.rstrip()
    if not part or "\ufffd" in part:  # half a character stands where a token was cut in two
        return None
    return None if kind is Kind.CHAT and part != part.lstrip() else part


def rest_of(body: Mapping[str, Any], kind: Kind, part: str, left: int | None) -> dict[str, Any]:
    """The request for what comes after `part`, as a stream. left: how many tokens more are accepted; None = any."""
    rest = {name: value for name, value in body.items() if name not in (*_LIMITS, "cache")}
    if kind is Kind.CHAT:
        rest["messages"] = [*body["messages"], {"role": "assistant", "content": part}]
        rest |= {"continue_final_message": True, "add_generation_prompt": False}
    else:
        rest["prompt"] = body["prompt"] + part
    if left is not None:
        named = next((name for name in reversed(_LIMITS) if body.get(name) is not None), _LIMITS[0])
        rest[named] = left
    return rest | {"stream": True, "stream_options": {"include_usage": True}}


def extends(prompt: list[int], continued: list[int], part: list[int]) -> bool:
    """Whether a template lets an answer's beginning extend the prompt. Token ids: of the chat with its generation
    prompt, of the chat with the beginning, of the beginning alone."""
    return bool(part) and continued == [*prompt, *part]


class Splice:
    """Makes one stream of a beginning and its rest: one id, the same `created`, one role, usage of both.

    head: `id`, `created`, `model` of the stream.  told_tokens: of the beginning.  owed: white space that was told
    already and that the rest must begin with.  asked: tokens of the prompt, where they are known."""

    def __init__(
        self, kind: Kind, head: Mapping[str, Any], told_tokens: int, owed: str = "", asked: int | None = None
    ) -> None:
        self._chat = kind is Kind.CHAT
        self._head = {**head, "object": "chat.completion.chunk" if self._chat else "text_completion"}
        self._told_tokens = told_tokens
        self._owed = owed
        self._asked = asked
        self._silent = not head  # nothing was told yet, no role either
        self.finished = False
        self.done = False
        self.usage: tuple[int, int | None, int] | None = None  # of the rest: prompt, cached, written

    def opening(self, part: str) -> bytes:
        """The events that tell the beginning."""
        if not self._chat:
            return self._chunk({"text": part})
        return self._chunk({"delta": {"role": "assistant", "content": ""}}) + self._chunk({"delta": {"content": part}})

    def take(self, data: bytes) -> Iterator[Block]:
        """Whole events of the rest, as they are told. Raises Unspliceable."""
        for payload in sse.events(data):
            if payload == b"[DONE]":
                if not self.finished:
                    raise Unspliceable("it ended without a finish_reason")
                self.done = True
                yield Block(sse.DONE)
                continue
            try:
                chunk = orjson.loads(payload)
                choices = chunk["choices"]
                if chunk.get("error") is not None:
                    raise Unspliceable("the worker reports an error")
                usage = chunk.get("usage")
                if not choices and usage is not None:
                    yield Block(self._counted(chunk, usage), usage=True)
                    continue
                (choice,) = choices
                told = self._said(choice)
            except (ValueError, LookupError, TypeError, AttributeError) as odd:
                raise Unspliceable("it is no stream of one answer") from odd
            if told is not None:
                yield Block(sse.event(orjson.dumps({**chunk, **self._head, "choices": [told]})))

    def _said(self, choice: dict[str, Any]) -> dict[str, Any] | None:
        self.finished = self.finished or choice.get("finish_reason") is not None
        if not self._chat:
            return {**choice, "text": self._unpaid(choice["text"] or "")}
        delta = {name: value for name, value in choice["delta"].items() if value is not None and name != "role"}
        if self._silent and choice["delta"].get("role"):
            self._silent = False
            return choice
        if any(value for name, value in delta.items() if name != "content"):
            raise Unspliceable("the rest says more than a text")
        delta["content"] = self._unpaid(delta.get("content") or "")
        if not delta["content"] and choice.get("finish_reason") is None:
            return None
        return {**choice, "delta": delta}

    def _unpaid(self, text: str) -> str:
        shared = min(len(text), len(self._owed))
        if text[:shared] != self._owed[:shared]:
            raise Unspliceable("the rest does not begin where the answer stopped")
        self._owed = self._owed[shared:]
        return text[shared:]

    def _counted(self, chunk: dict[str, Any], usage: dict[str, Any]) -> bytes:
        prompt, written = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        self.usage = (prompt, cached, written)
        asked = self._asked if self._asked is not None else max(0, prompt - self._told_tokens)
        whole = self._told_tokens + written
        told = {**usage, "prompt_tokens": asked, "completion_tokens": whole, "total_tokens": asked + whole}
        if cached is not None:
            told["prompt_tokens_details"] = {**usage["prompt_tokens_details"], "cached_tokens": min(cached, asked)}
        return sse.event(orjson.dumps({**chunk, **self._head, "usage": told}))

    def _chunk(self, said: dict[str, Any]) -> bytes:
        return sse.event(orjson.dumps({**self._head, "choices": [{"index": 0, **said, "finish_reason": None}]}))
