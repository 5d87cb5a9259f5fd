"""What a worker must have read to hold this prompt in its KV cache, as a chain of hashes over the text. Pure.

vLLM hashes blocks of tokens, each chained to the one before. We chain xxh3-64 over steps of 256 bytes (64 tokens or so)
of the prompt's JSON: tools first, then the turns, as chat templates render them. The next turn of a chat has this one's
bytes as its prefix, so it shares all but its last marks; another system text shares none (sglang#26263 hashed the first
message only, kubeai#509 its first 100 characters). Model, LoRA and `cache_salt` seed the chain: vLLM never shares
blocks across these.

The bytes of an image or a recording are in no prompt: a digest stands for them, as vLLM hashes them into its blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

STEP_BYTES: Final = 256
_MEDIA: Final = ("image", "audio", "video", "file", "document")  # in the `type` of a part of a turn
_RAW: Final = frozenset({"data", "file_data"})  # fields that hold base64 without saying so
_SHORT: Final = 128  # characters; such a text is as good as its digest


@dataclass(frozen=True, slots=True)
class Trail:
    """marks: one hash per full step; `marks[i]` stands for the first `(i + 1) * STEP_BYTES` bytes of the prompt.
    size: bytes of the whole prompt.
    media: it has images, recordings or files, whose tokens nobody can tell from its bytes."""

    marks: tuple[int, ...]
    size: int
    media: bool = False


def trail_of(body: Mapping[str, Any]) -> Trail | None:
    """The trail of a decoded request; None = there is no prompt that grows (embeddings, transcriptions, pictures to be
    made).

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
        spare = _Spare()
        text = (
            turns.encode() if isinstance(turns, str) else orjson.dumps(spare.turns(turns))[:-1]
        )  # more may follow "]"
    except (TypeError, UnicodeEncodeError, RecursionError):  # lone surrogates, or integers beyond 64 bits
        return None
    mark = xxh3_64_intdigest(seed)
    whole = len(text) - len(text) % STEP_BYTES
    marks: list[int] = []
    for start in range(0, whole, STEP_BYTES):
        mark = xxh3_64_intdigest(text[start : start + STEP_BYTES], mark)
        marks.append(mark)
    return Trail(tuple(marks), len(seed) + len(text), spare.media)


def unread(body: Mapping[str, Any]) -> bool:
    """Whether vLLM computes the whole prompt whatever is in its cache: log probabilities of the prompt need it."""
    return body.get("prompt_logprobs") is not None or (bool(body.get("echo")) and body.get("logprobs") is not None)


class _Spare:
    """Turns without the bytes of their media. media: whether there were any."""

    __slots__ = ("media",)

    def __init__(self) -> None:
        self.media = False

    def turns(self, turns: list[Any]) -> list[Any]:
        """The same list where all turns are text, which is nearly always."""
        for turn in turns:
            if type(turn) is dict and (type(turn.get("content")) is list or type(turn.get("output")) is list):
                return [self._without_bytes(turn, "") for turn in turns]
        return turns

    def _without_bytes(self, value: Any, name: str) -> Any:
        if isinstance(value, dict):
            said = value.get("type")
            if isinstance(said, str) and any(word in said for word in _MEDIA):
                self.media = True
            return {key: self._without_bytes(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self._without_bytes(each, "") for each in value]
        if not isinstance(value, str) or len(value) <= _SHORT or name == "text":
            return value
        return xxh3_128_hexdigest(value.encode()) if name in _RAW or value.startswith("data:") else value


def _is_response(body: Mapping[str, Any]) -> bool:
    value = body.get("input")
    if isinstance(value, str):
        return "instructions" in body or "max_output_tokens" in body or "previous_response_id" in body
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "role" in value[0]
