"""One warm-up: what a worker is asked so that it reads a turn which the cache answered. Pure.

The request is the served one with its answer, and one turn behind it that stands for the user's next. For templates
treat the *last* answer differently from those before: some keep its reasoning tags, some refuse to end there. With a
turn behind it, it is rendered as the next real turn will render it, and all blocks up to that turn are shared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from cache import Entry
from proxy import openai
from proxy.checks import LAST
from proxy.routing.choice import Prompt
from proxy.routing.trail import trail_of

LEAST_TOKENS: Final = 512  # that are lacking; fewer are computed in no time
LARGEST_BODY: Final = 262_144  # bytes; a larger chat is not kept for a warm-up
# What decides how a chat is rendered and in whose cache its blocks lie. Nothing else is said: sampling is not needed.
_KEPT: Final = (
    "model", "tools", "chat_template", "chat_template_kwargs", "documents", "cache_salt", "reasoning_effort",
    "add_special_tokens", "mm_processor_kwargs", "media_io_kwargs",
)  # fmt: skip
_UNFIT: Final = ("continue_final_message", "truncate_prompt_tokens", "kv_transfer_params", "prompt_embeds")
_NEXT: Final = {"role": "user", "content": "."}


@dataclass(frozen=True, slots=True)
class WarmUp:
    """body: the request.  prompt: what routing knows of it.  steps: marks of the served request alone."""

    body: bytes
    prompt: Prompt
    steps: int


def later_turn(body: Mapping[str, Any], size: int) -> bool:
    """Whether a served request may be worth a warm-up; a first turn has no home yet. Costs next to nothing.

    size: bytes of the request."""
    messages = body.get("messages")
    return size <= LARGEST_BODY and isinstance(messages, list) and len(messages) >= 3


def warm_up(body: Mapping[str, Any], entry: Entry, session: str, *, lowest: bool) -> WarmUp | None:
    """None = that turn cannot be read into the cache so.

    body: of the served chat request.  entry: what answered it.  session: its digest.  lowest: behind everybody, where
    the worker keeps priorities."""
    outcome = openai.read_answer(200, orjson.loads(entry.answer.body)).outcome
    messages = body.get("messages")
    if len(outcome.texts) != 1 or not outcome.texts[0] or outcome.tool_calls or not isinstance(messages, list):
        return None
    if any(body.get(name) for name in _UNFIT):
        return None
    asked: dict[str, Any] = {name: body[name] for name in _KEPT if name in body}
    if body.get("tool_choice") == "none":  # such tools may be left out of the prompt
        asked["tool_choice"] = "none"
    read = [*messages, {"role": "assistant", "content": outcome.texts[0]}]
    served = trail_of({**asked, "messages": messages})
    trail = trail_of({**asked, "messages": read})
    if served is None or trail is None:
        return None
    asked["messages"] = [*read, _NEXT]
    asked |= {"max_tokens": 1, "stream": False}
    if lowest:
        asked["priority"] = LAST
    model = asked.get("model")
    prompt = Prompt(model if isinstance(model, str) and model else None, session, trail, trail.size)
    return WarmUp(orjson.dumps(asked), prompt, len(served.marks))
