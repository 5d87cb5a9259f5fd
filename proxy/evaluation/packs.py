"""Files of JSON lines that can be replayed: a stream of questions, pairs of questions, or somebody's own log.

    stream   {"query", "answer_id"}           also "question", or "messages" with the fields of an OpenAI body
    log      the same, with "answer" (a text or a chat.completion), "at", "tenant", "tokens" or "usage" where known
    chats    {"messages": [user, assistant, …]}, each user message with its "answer_id": a stream of turns, in order
    pairs    {"a", "b", "same", "category"}   "would the answer to a serve b?"; a_messages, b_messages for whole chats

The first line decides what a file is; every other line must be of the same kind, and a bad one is named. A log without
"answer_id" may say by "answer" which questions share one: equal words, equal answer. Then short answers ("yes", "5")
look more equal than they are.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from proxy.tally import plain

MODEL = "evaluated"  # stands where a row names no model
# What of a log's line belongs to the request; anything else (an id, a rating) would make every scope another one.
_REQUEST = (
    "model", "messages", "tools", "tool_choice", "response_format", "temperature", "top_p", "seed", "stop", "n",
    "max_tokens", "max_completion_tokens", "logprobs", "reasoning_effort", "cache",
)  # fmt: skip
_TEXTS = ("query", "question", "prompt")
_QUESTION = 'a question such as {"query": "…", "answer_id": "…"} or {"messages": […], "answer": "…"}'
_PAIR = 'a pair such as {"a": "…", "b": "…", "same": true}'
_MILLISECONDS = 1e11  # a larger number of seconds would be the year 5138


class PackError(Exception):
    """A file cannot be replayed. The message names it, the line, and what was expected there."""


class PackKind(StrEnum):
    """What one line of a file is."""

    STREAM = "stream"
    PAIRS = "pairs"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One question of a stream or a log.

    body: an OpenAI chat body.  text: its last user turn, for people.  answer_id: equal for questions that may share
    an answer; None = unknown.  answer: what was told at that time.  at_s: seconds since the Unix epoch, or None.
    tokens: prompt and completion together, as the log has it.  answer_tokens: those of the answer alone.
    conversation: a name for the chat whose turns are replayed one by one, with the answers that were told meanwhile in
    place of the pack's; None = the messages stand as they are.  leaning: whether the turn cannot be understood without
    those before it; None = nobody said."""

    body: Mapping[str, Any]
    text: str
    answer_id: str | None = None
    answer: str | None = None
    tenant: str | None = None
    at_s: float | None = None
    tokens: int | None = None
    answer_tokens: int | None = None
    conversation: str | None = None
    leaning: bool | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions. same: whether the answer to `stored` also answers `asked`."""

    stored: Arrival
    asked: Arrival
    same: bool
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Pack:
    """A file that was read. Exactly one of arrivals and pairs holds something."""

    name: str
    kind: PackKind
    arrivals: tuple[Arrival, ...] = ()
    pairs: tuple[Pair, ...] = ()

    def __len__(self) -> int:
        return len(self.arrivals) + len(self.pairs)


def read_pack(path: Path, *, log: bool = False) -> Pack:
    """Read one file. log: it tells what happened, so its times count and nobody needs to know which answers are right;
    else the lines' own order counts, and every question must say which answer is right.  Raises PackError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as bad:
        raise PackError(f"{path} is not UTF-8 text: byte {bad.start} cannot be read.") from None
    except OSError as trouble:
        raise PackError(f"{path} cannot be read: {trouble.strerror}.") from None
    return parse(text, path.stem, log=log, shown=str(path))


def parse(text: str, name: str, *, log: bool = False, shown: str | None = None) -> Pack:
    """The pack in a text. shown: what errors call it.  Raises PackError."""
    shown = shown or name
    kind: PackKind | None = None
    arrivals: list[Arrival] = []
    pairs: list[Pair] = []
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: U+2028 may stand inside a JSON string
        if not line.strip():
            continue
        try:
            row = _object(line)
            is_pair = "same" in row
            if kind is None:
                kind = PackKind.PAIRS if is_pair else PackKind.STREAM
            if kind is PackKind.PAIRS:
                pairs.append(_pair(row))
            elif is_pair:
                raise PackError(f"this is a pair, but the file began with questions; expected {_QUESTION}")
            elif not log and _is_chat(row):
                arrivals += _turns(row, number)
            else:
                arrivals.append(_arrival(row, log=log))
        except PackError as wrong:
            raise PackError(f"{shown}, line {number}: {wrong}.") from None
    if kind is None:
        raise PackError(f"{shown} holds no lines. Expected JSON lines, each {_QUESTION} or {_PAIR}.")
    if arrivals and all(arrival.at_s is not None for arrival in arrivals):
        arrivals.sort(key=lambda arrival: arrival.at_s or 0.0)
    return Pack(name, kind, tuple(arrivals), tuple(pairs))


def first_of(pack: Pack, share: float, limit: int | None = None) -> Pack:
    """The beginning of a pack: a share in (0, 1] of it, and at most `limit` rows. At least one row is left."""
    count = max(1, round(share * len(pack)))
    if limit is not None:
        count = min(count, limit)
    return Pack(pack.name, pack.kind, pack.arrivals[:count], pack.pairs[:count])


def split(pack: Pack, share: float) -> tuple[Sequence[Arrival], Pack]:
    """A stream's first share in (0, 1), and the rest as a pack. Raises PackError where one of them would be empty."""
    count = round(share * len(pack.arrivals))
    if pack.kind is not PackKind.STREAM or not 0 < count < len(pack):
        raise PackError(f"{pack.name}: only a stream of several questions can be cut in two; leave --adapt-first out.")
    return pack.arrivals[:count], Pack(pack.name, pack.kind, pack.arrivals[count:])


def _object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as bad:
        raise PackError(f"not JSON ({bad}); expected {_QUESTION} or {_PAIR}") from None
    if not isinstance(row, dict):
        raise PackError(f"a JSON {type(row).__name__} and no object; expected {_QUESTION} or {_PAIR}")
    return row


def _pair(row: Mapping[str, Any]) -> Pair:
    if not isinstance(row.get("same"), bool):
        raise PackError(f'"same" must be true or false; expected {_PAIR}')
    category = row.get("category", row.get("subtype"))
    return Pair(_side(row, "a"), _side(row, "b"), row["same"], None if category is None else str(category))


def _side(row: Mapping[str, Any], name: str) -> Arrival:
    value = row.get(name, row.get(f"{name}_messages"))
    if isinstance(value, str) and value.strip():
        return _said(value)
    if isinstance(value, list):
        return _chat({"messages": value})
    raise PackError(f'"{name}" must be a text, or {name}_messages a chat; expected {_PAIR}')


def _arrival(row: Mapping[str, Any], *, log: bool) -> Arrival:
    body = row.get("body", row.get("request"))
    text = next((row[name] for name in _TEXTS if isinstance(row.get(name), str) and row[name].strip()), None)
    if isinstance(body, dict) and "messages" in body:
        asked = _chat(body)
    elif "messages" in row:
        asked = _chat({name: row[name] for name in _REQUEST if name in row})
    elif text is not None:
        asked = _said(text, row.get("model"))
    else:
        raise PackError(f"no question in it; expected {_QUESTION}")
    reply = row.get("answer", row.get("response"))
    answer = _answer(reply)
    answer_id = row.get("answer_id")
    if answer_id is None and answer is not None:
        answer_id = plain(answer)
    if answer_id is None and not log:
        raise PackError(f'nothing says which answer is right: "answer_id" or "answer" is missing; expected {_QUESTION}')
    tenant = row.get("tenant")
    at_s = _moment(row.get("at")) if log else None
    return Arrival(
        asked.body, asked.text, None if answer_id is None else str(answer_id), answer,
        None if tenant is None else str(tenant), at_s, *_tokens(row, reply),
    )  # fmt: skip


def _is_chat(row: Mapping[str, Any]) -> bool:
    """Whether its own turns say which answers are right."""
    messages = row.get("messages")
    return isinstance(messages, list) and any(isinstance(turn, dict) and "answer_id" in turn for turn in messages)


def _turns(row: Mapping[str, Any], number: int) -> list[Arrival]:
    """Every user turn of a whole conversation, with what stands before it."""
    found: list[Arrival] = []
    said: list[dict[str, Any]] = []
    messages = row["messages"]
    rest = {name: row[name] for name in _REQUEST if name in row and name != "messages"}
    for place, turn in enumerate(messages):
        if not isinstance(turn, dict) or not isinstance(turn.get("content"), str):
            raise PackError('"messages" of a conversation must be turns such as {"role": "user", "content": "…"}')
        said.append({"role": turn.get("role"), "content": turn["content"]})
        if turn.get("role") != "user":
            continue
        if turn.get("answer_id") is None:
            raise PackError('a user turn does not say which answer is right: "answer_id" is missing')
        following = messages[place + 1] if place + 1 < len(messages) else {}
        told = isinstance(following, dict) and following.get("role") == "assistant"
        answer = following.get("content") if told else None
        leaning = turn.get("context_dependent")
        found.append(Arrival(
            {"model": MODEL, **rest, "messages": list(said)}, turn["content"], str(turn["answer_id"]),
            answer if isinstance(answer, str) else None, None if row.get("tenant") is None else str(row["tenant"]),
            conversation=f"{row.get('conversation_id', '')}#{number}",
            leaning=leaning if isinstance(leaning, bool) else None,
        ))  # fmt: skip
    return found


def _said(text: str, model: object = None) -> Arrival:
    name = model if isinstance(model, str) and model else MODEL
    return Arrival({"model": name, "messages": [{"role": "user", "content": text}]}, text)


def _chat(body: Mapping[str, Any]) -> Arrival:
    messages = body["messages"]
    if not isinstance(messages, list) or not messages or not all(isinstance(turn, dict) for turn in messages):
        raise PackError('"messages" must be a list of turns such as {"role": "user", "content": "…"}')
    last = messages[-1].get("content")
    if isinstance(last, list):
        last = " ".join(str(part.get("text", "")) for part in last if isinstance(part, dict))
    return Arrival({"model": MODEL, **body}, last if isinstance(last, str) else "")


def _answer(reply: object) -> str | None:
    """The text of an answer: itself, or the first choice of a chat.completion."""
    if isinstance(reply, dict):
        choices = reply.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        reply = message.get("content") if isinstance(message, dict) else None
    if reply is None or isinstance(reply, str | int | float):
        return None if reply is None else str(reply)
    raise PackError('"answer" must be a text or an OpenAI chat.completion')


def _moment(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
        return value / 1000 if value > _MILLISECONDS else float(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    raise PackError(f'"at" is {value!r}; expected seconds since 1970 or a time such as "2026-05-01T12:00:00Z"')


def _tokens(row: Mapping[str, Any], reply: object) -> tuple[int | None, int | None]:
    """(prompt and completion together, completion alone), where the log knows."""
    usage = row.get("usage", reply.get("usage") if isinstance(reply, dict) else None)
    usage = usage if isinstance(usage, dict) else {}
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    total = _count(row, "tokens")
    if total is None:
        total = _count(usage, "total_tokens")
    if total is None and prompt is not None:
        total = prompt + (completion or 0)
    return total, completion


def _count(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise PackError(f'"{name}" is {value!r}; expected a number of tokens')
