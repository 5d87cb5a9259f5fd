"""What a worker must have read to hold this prompt in its KV cache, as a chain of hashes over the text. Pure.

vLLM hashes blocks of tokens, each chained to the one before. We chain xxh3-64 over steps of 256 bytes (64 tokens or so)
of the prompt's JSON: tools first, then the turns, as chat templates render them. The next turn of a chat has this one's
bytes as its prefix, so it shares all but its last marks; another system text shares none (sglang#26263 hashed the first
message only, kubeai#509 its first 100 characters). Model, LoRA and `cache_salt` seed the chain: vLLM never shares
blocks across these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from xxhash import xxh3_64_intdigest

STEP_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Trail:
    """marks: one hash per full step; `marks[i]` stands for the first `(i + 1) * STEP_BYTES` bytes of the prompt.
    size: bytes of the whole prompt."""

    marks: tuple[int, ...]
    size: int


def trail_of(body: Mapping[str, Any]) -> Trail | None:
    """The trail of a decoded request; None = there is no prompt that grows (embeddings, audio, images).

    Chat completions and Messages (`messages`), Responses (`instructions`, `input`), completions (`prompt`: text or
    token ids). About 1 µs a kilobyte."""
    turns = body.get("messages")
    before: Any = body.get("system")
    if turns is None:
        turns, before = body.get("prompt"), None
    if turns is None and _is_response(body):
        turns, before = body.get("input"), body.get("instructions")
        turns = [{"role": "user", "content": turns}] if isinstance(turns, str) else turns
    if not isinstance(turns, str | list) or not turns:
        return None
    try:
        seed = orjson.dumps([body.get("model"), body.get("cache_salt"), body.get("tools"), before])
        text = turns.encode() if isinstance(turns, str) else orjson.dumps(turns)[:-1]  # without "]": more may follow
    except (TypeError, UnicodeEncodeError):  # lone surrogates, or integers beyond 64 bits
        return None
    mark = xxh3_64_intdigest(seed)
    whole = len(text) - len(text) % STEP_BYTES
    marks: list[int] = []
    for start in range(0, whole, STEP_BYTES):
        mark = xxh3_64_intdigest(text[start : start + STEP_BYTES], mark)
        marks.append(mark)
    return Trail(tuple(marks), len(seed) + len(text))


def _is_response(body: Mapping[str, Any]) -> bool:
    value = body.get("input")
    if isinstance(value, str):
        return "instructions" in body or "max_output_tokens" in body or "previous_response_id" in body
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "role" in value[0]
