"""Server-sent events as OpenAI and vLLM speak them: cut a byte stream at event ends, assemble a whole answer from its
chunks, and play a stored answer back as chunks. Pure.

Rule 1: bytes are relayed as they came; this module only decides where they may be cut.
Rule 2: a stream is complete when every choice has a finish_reason and `[DONE]` was seen; anything else broke off.
Format: the WHATWG event stream; OpenAI uses only `data:` lines, one JSON object each, and `data: [DONE]`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

DONE = b"data: [DONE]\n\n"
_LONGEST_EVENT_BYTES = 4 << 20
_PIECE_CHARS = 24  # how much of a stored answer one replayed chunk carries


_MARKS = (b"\n\n", b"\r\n\r\n", b"\r\r")


def _end_of_last(data: bytes, mark: bytes) -> int:
    at = data.rfind(mark)
    return at + len(mark) if at >= 0 else 0


class Splitter:
    """Cuts a byte stream at event ends. Feed it what arrives; it gives back whole events and keeps the rest."""

    __slots__ = ("_bytes", "_tail")

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Every whole event that is now known, as one piece, unchanged; empty when none is. An event that does not end
        within some megabytes is no event: it is passed on as it is."""
        edge = self._edge()  # a mark may lie across two reads
        end = max(_end_of_last(edge + data, mark) for mark in _MARKS) - len(edge)
        if end <= 0 and self._bytes + len(data) <= _LONGEST_EVENT_BYTES:
            self._tail.append(data)
            self._bytes += len(data)
            return b""
        if end <= 0:
            end = len(data)
        whole = b"".join((*self._tail, data[:end])) if self._tail else data[:end]
        self._tail = [data[end:]] if end < len(data) else []
        self._bytes = len(data) - end
        return whole

    def rest(self) -> bytes:
        """What never became a whole event."""
        return b"".join(self._tail)

    def _edge(self) -> bytes:
        """The last bytes that are held, enough to complete a mark."""
        edge = b""
        for part in reversed(self._tail):
            edge = part[-3:] + edge
            if len(edge) >= 3:
                break
        return edge[-3:]


def events(data: bytes) -> Iterator[bytes]:
    """The `data` payload of each event, in order; comments and other fields are skipped."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for block in data.split(b"\n\n"):
        lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
        if lines:
            yield b"\n".join(lines)


def event(payload: bytes) -> bytes:
    """One event that carries this payload (a single line)."""
    return b"data: " + payload + b"\n\n"


def split_usage(data: bytes) -> tuple[bytes, bytes, bytes]:
    """(before, the usage-only event, after): a chunk with no choices and a usage, which only a caller that asked for
    `include_usage` may see. The middle is empty when there is none. data: whole events."""
    if b'"usage"' not in data:
        return data, b"", b""
    mark = next((mark for mark in _MARKS if mark in data), _MARKS[0])
    position = 0
    for block in data.split(mark):
        end = position + len(block) + len(mark)
        if b'"usage"' in block and is_usage_only(block):
            return data[:position], data[position:end], data[end:]
        position = end
    return data, b"", b""


def is_usage_only(block: bytes) -> bool:
    """Whether an event says how many tokens were used and nothing else."""
    for payload in events(block):
        try:
            chunk = orjson.loads(payload)
        except orjson.JSONDecodeError:
            return False
        return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
    return False


class Incomplete(ValueError):
    """The stream is not a whole answer."""


def assemble(data: bytes) -> dict[str, Any]:
    """The object that a non-streaming call would have returned, from every chunk of a stream.

    Text fields are joined, lists of indexed parts (tool calls) are merged by index, any other field keeps its last
    value, so that a field of tomorrow's vLLM survives too. Raises Incomplete."""
    whole: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    done = False
    for payload in events(data):
        if payload == b"[DONE]":
            done = True
            continue
        if done:
            raise Incomplete("it went on after [DONE]")
        try:
            chunk = orjson.loads(payload)
        except orjson.JSONDecodeError as bad:
            raise Incomplete("an event is not JSON") from bad
        if not isinstance(chunk, dict) or chunk.get("error") is not None:
            raise Incomplete("the stream carries an error")
        try:
            for piece in chunk.pop("choices", None) or ():
                choice = choices.setdefault(int(piece.get("index", 0)), {})
                if choice.get("finish_reason") is not None and _says(piece):
                    raise Incomplete("it went on after its finish_reason")
                _merge_choice(choice, piece)
        except (TypeError, ValueError, AttributeError) as odd:  # JSON, but not as anybody writes a chunk
            raise Incomplete("an event is no chunk of an answer") from odd
        usage = chunk.pop("usage", None)
        whole.update(chunk)
        if usage is not None:
            whole["usage"] = usage
    if not done or not choices or any(choice.get("finish_reason") is None for choice in choices.values()):
        raise Incomplete("the stream ended before the answer did")
    whole["object"] = str(whole.get("object", "")).removesuffix(".chunk")
    whole["choices"] = [_joined(choices[index]) for index in sorted(choices)]
    return whole


def _says(piece: dict[str, Any]) -> bool:
    """Whether a chunk adds words or calls."""
    delta = piece.get("delta") or {}
    return bool(piece.get("text")) or any(value for name, value in delta.items() if name != "role")


class _Pieces:
    """A text that is still growing; joined once at the end, because adding 30,000 tokens one by one is quadratic."""

    __slots__ = ("parts",)

    def __init__(self, *parts: str) -> None:
        self.parts = list(parts)


def _joined(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value.parts)
    if isinstance(value, dict):
        return {name: _joined(each) for name, each in value.items()}
    return [_joined(each) for each in value] if isinstance(value, list) else value


def _added(held: Any, value: str) -> _Pieces:
    if isinstance(held, _Pieces):
        held.parts.append(value)
        return held
    return _Pieces(held, value)


def _merge_choice(choice: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, value in piece.items():
        if name == "delta":
            _merge_delta(choice.setdefault("message", {"role": "assistant", "content": None}), value or {})
        elif name == "text":
            choice["text"] = _added(choice.get("text", ""), _text(value))
        elif isinstance(value, dict) and isinstance(choice.get(name), dict):  # logprobs come piece by piece
            _merge_delta(choice[name], value)
        elif isinstance(value, list) and isinstance(choice.get(name), list):  # and so do token ids
            _merge_list(choice[name], value)
        elif value is not None or name not in choice:
            choice[name] = value


def _text(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError("a text that is no string")
    return value or ""


def _merge_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        held = message.get(name)
        if name == "role":
            message[name] = value or held
        elif held is None:
            message[name] = _without_index(value) if isinstance(value, list) else value
        elif isinstance(value, str) and isinstance(held, str | _Pieces):
            message[name] = _added(held, value)
        elif isinstance(value, list) and isinstance(held, list):
            _merge_list(held, value)
        elif isinstance(value, dict) and isinstance(held, dict):
            _merge_delta(held, value)
        elif value is not None and isinstance(held, _Pieces | str | list | dict):
            raise TypeError("a field that changes its type")  # to keep either half would lose the other
        elif value is not None:
            message[name] = value


def _without_index(parts: list[Any]) -> list[Any]:
    def plain(part: Any) -> Any:  # a completion's logprobs may hold a token that is called "index", with a float
        indexed = isinstance(part, dict) and isinstance(part.get("index"), int)
        return {k: v for k, v in part.items() if k != "index"} if indexed else part

    return [plain(part) for part in parts]


def _merge_list(held: list[Any], parts: list[Any]) -> None:
    for part in parts:
        at = part.get("index") if isinstance(part, dict) else None
        if isinstance(at, int) and 0 <= at < len(held) and isinstance(held[at], dict):
            # Who repeats a part's id and type in each chunk says them again, it does not add to them.
            said = [k for k in ("index", "type", "id") if k == "index" or held[at].get(k) is not None]
            _merge_delta(held[at], {k: v for k, v in part.items() if k not in said})
        else:
            held.extend(_without_index([part]))


@dataclass(frozen=True, slots=True)
class SoFar:
    """A stream that broke off. text: of its answer.  head: its `id`, `created` and `model`; empty while nothing came.
    finished: its finish_reason was told."""

    text: str
    head: dict[str, Any]
    finished: bool


def so_far(data: bytes) -> SoFar | None:
    """What whole events told. None where they tell anything but one text."""
    parts: list[str] = []
    head: dict[str, Any] = {}
    finished = False
    try:
        for payload in events(data):
            chunk = orjson.loads(payload)
            head = head or {name: chunk[name] for name in ("id", "created", "model")}
            for choice in chunk["choices"]:
                delta = choice.get("delta")
                said = {"content": choice["text"]} if delta is None else delta
                if choice["index"] != 0 or any(v for name, v in said.items() if name not in ("role", "content")):
                    return None
                parts.append(_text(said.get("content")))
                finished = finished or choice.get("finish_reason") is not None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return SoFar("".join(parts), head, finished)


def replay(answer: dict[str, Any], *, include_usage: bool) -> Iterator[bytes]:
    """A stored answer as the events of a stream: role, content in several pieces, finish_reason, usage when asked,
    `[DONE]`. answer: a `chat.completion` or `text_completion` object with its `id`."""
    told = {k: v for k, v in answer.items() if k not in ("choices", "usage", "object")}
    head = {k: v for k, v in told.items() if not isinstance(v, list | dict)}
    once = {k: v for k, v in told.items() if k not in head}  # a prompt's token ids in every chunk would be megabytes
    chat = answer.get("object") != "text_completion"
    head["object"] = "chat.completion.chunk" if chat else "text_completion"

    def chunk(choice_index: int, **fields: Any) -> bytes:
        choice = {"index": choice_index, **fields}
        choice.setdefault("finish_reason", None)
        choice.setdefault("logprobs", None)
        data = orjson.dumps({**head, **once, "choices": [choice]})
        once.clear()
        return event(data)

    for place, choice in enumerate(answer.get("choices", ())):
        index = int(choice.get("index", place))
        ending = {k: v for k, v in choice.items() if k not in ("index", "message", "text", "logprobs")}
        logprobs = choice.get("logprobs")
        if not chat:
            for piece in _pieces(choice.get("text") or ""):
                yield chunk(index, text=piece)
            yield chunk(index, text="", logprobs=logprobs, **ending)
            continue
        message = dict(choice.get("message") or {})
        silent = message.get("content") is None
        yield chunk(index, delta={"role": message.pop("role", "assistant"), "content": None if silent else ""})
        for name in ("reasoning", "reasoning_content", "content"):
            if isinstance(message.get(name), str):
                for piece in _pieces(message.pop(name)):
                    yield chunk(index, delta={name: piece})
        others = {name: _indexed(name, value) for name, value in message.items() if value is not None}
        if others or logprobs is not None:
            yield chunk(index, delta=others, logprobs=logprobs)
        yield chunk(index, delta={}, **ending)
    if include_usage:
        yield event(orjson.dumps({**head, "choices": [], "usage": answer.get("usage")}))
    yield DONE


def _indexed(name: str, value: Any) -> Any:
    if name == "tool_calls" and isinstance(value, list):
        return [{"index": index, **call} for index, call in enumerate(value)]
    return value


def _pieces(text: str) -> Iterable[str]:
    """Short pieces that end at a space where there is one; joined they are the text again."""
    start = 0
    while start < len(text):
        end = min(start + _PIECE_CHARS, len(text))
        if end < len(text):
            space = text.rfind(" ", start + 1, end)
            end = space + 1 if space > 0 else end
        yield text[start:end]
        start = end
