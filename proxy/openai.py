"""OpenAI's words: reading request bodies, reading answers, wording errors. Pure; JSON enters the house here.

Sources: the OpenAI API reference, and vLLM 0.32's own replies where it says more (reasoning, cached tokens).
"""

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cache import Answer, Kind, Outcome
from proxy.errors import BadRequest, ProxyError

CACHED_PATHS = {"/v1/chat/completions": Kind.CHAT, "/v1/completions": Kind.COMPLETION}
_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})  # what vLLM (pydantic) takes for true
_FORM_MODEL = re.compile(rb'name="?model"?\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,256})')
_TYPE = re.compile(r"[A-Za-z_]{1,64}")  # of an error
_DEEPEST = 250  # levels of nesting; orjson reads 1024 and writes 254
_ID_PREFIX = {Kind.CHAT: "chatcmpl-", Kind.COMPLETION: "cmpl-"}

_LONG_NUMBER = re.compile(rb"\d{19}")
_ids = random.Random()  # seeded by the system; an id must be unique, not secret, and this is ten times faster


def read_body(body: bytes) -> dict[str, Any]:
    """The JSON object of a request. Raises BadRequest with what is wrong and where."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as bad:
        raise BadRequest(f"The request body is not valid JSON: {bad}. Send one JSON object, UTF-8.") from None
    if not isinstance(value, dict):
        raise BadRequest('The request body must be a JSON object such as {"model": …, "messages": […]}.')
    if body.count(b"[") + body.count(b"{") > _DEEPEST:  # perhaps; most are only long
        try:
            orjson.dumps(value)
        except TypeError:
            raise BadRequest(f"The request body is nested more than {_DEEPEST} levels deep.") from None
    if _LONG_NUMBER.search(body):
        json.loads(body, parse_int=_fitting)
    return value


def _fitting(digits: str) -> int:
    """An integer as it stands in JSON. Raises BadRequest: what orjson would round to a float could not be told from its
    neighbours, and two requests would share one answer."""
    number = int(digits) if len(digits) <= 21 else 1 << 64
    if not -(1 << 63) <= number < 1 << 64:
        raise BadRequest(f"The number {digits[:24]}… does not fit 64 bits. Send it as a string.")
    return number


def model_of(body: Mapping[str, Any]) -> str | None:
    """The model asked for; None when the worker may decide. Raises BadRequest."""
    model = body.get("model")
    if model is None or isinstance(model, str):
        return model or None
    raise BadRequest("`model` must be a string.", param="model")


def wants_stream(body: Mapping[str, Any]) -> bool:
    """Whether the caller asked for server-sent events."""
    value = body.get("stream")
    return value is True or value == 1 or (isinstance(value, str) and value.lower() in _TRUE)


def wants_usage(body: Mapping[str, Any]) -> bool:
    """Whether the caller asked for the usage chunk at the end of a stream."""
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def for_worker(body: Mapping[str, Any], raw: bytes, session: str | None) -> bytes:
    """The body as the worker gets it: the client's own bytes, unless something in it is not for the worker. Our `cache`
    field is taken out, a session id becomes its digest, and a stream always tells its usage (we need it; a caller who
    did not ask for it never sees it)."""
    ask_usage = wants_stream(body) and not wants_usage(body)
    if not ask_usage and "cache" not in body and "session_id" not in body:
        return raw
    changed = {name: value for name, value in body.items() if name not in ("cache", "session_id")}
    if "session_id" in body and session is not None:
        changed["session_id"] = session
    if ask_usage:
        options = changed.get("stream_options")
        changed["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return orjson.dumps(changed)


def shape(body: Mapping[str, Any]) -> str:
    """Requests of one shape can listen to the same bytes: everything in `stream_options` but `include_usage`."""
    if not wants_stream(body):
        return "json"
    options = body.get("stream_options")
    rest = {k: v for k, v in options.items() if k != "include_usage"} if isinstance(options, dict) else {}
    return "sse" + (orjson.dumps(rest, option=orjson.OPT_SORT_KEYS).decode() if rest else "")


@dataclass(frozen=True, slots=True)
class Told:
    """A worker's whole answer: what admission must know of it, and the answer itself."""

    outcome: Outcome
    answer: Answer | None
    cached_tokens: int | None = None


def read_answer(status: int, value: object) -> Told:
    """Read a `chat.completion` or `text_completion` object. value: the decoded JSON, of any shape."""
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(choices, list) or not all(isinstance(c, dict) for c in choices):
        return Told(Outcome(status, (), ()), None)
    texts: list[str] = []
    tool_calls = refusal = False
    for choice in choices:
        message = choice.get("message")
        if isinstance(message, dict):
            content = message.get("content")
            tool_calls = tool_calls or bool(message.get("tool_calls") or message.get("function_call"))
            refusal = refusal or bool(message.get("refusal"))
        else:
            content = choice.get("text")
        texts.append(content if isinstance(content, str) else "")
    outcome = Outcome(
        status, tuple(choice.get("finish_reason") for choice in choices), tuple(texts), tool_calls, refusal
    )
    usage = value.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    body = orjson.dumps({name: field for name, field in value.items() if name != "id"})
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Told(outcome, Answer(body, _count(usage.get("completion_tokens")), _count(usage.get("prompt_tokens"))),
                _count(cached))  # fmt: skip


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def new_id(kind: Kind) -> str:
    """An id for one delivery, in OpenAI's form."""
    return f"{_ID_PREFIX[kind]}{_ids.getrandbits(128):032x}"


def request_id() -> str:
    """An id for a request that came without one."""
    return f"req-{_ids.getrandbits(96):024x}"


def deliver(kind: Kind, answer: Answer) -> bytes:
    """A stored answer as one JSON object with a new id. The stored bytes are not decoded."""
    return b'{"id":"' + new_id(kind).encode() + b'",' + answer.body[1:]


def opened(kind: Kind, answer: Answer) -> dict[str, Any]:
    """A stored answer decoded, with a new id, for replay as a stream."""
    value: dict[str, Any] = {"id": new_id(kind), **orjson.loads(answer.body)}
    return value


def error_body(error: ProxyError) -> bytes:
    """OpenAI's error envelope; the one shape for every error that is ours."""
    return orjson.dumps(
        {"error": {"message": error.message, "type": error.type, "param": error.param, "code": error.code}}
    )


def refusal(status: int, body: bytes) -> str:
    """A worker's error for the log: status and type. Never its message, which may quote the prompt."""
    try:
        value: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return str(status)
    error = value.get("error", value) if isinstance(value, dict) else None
    kind = error.get("type") if isinstance(error, dict) else None
    return f"{status} {kind}" if isinstance(kind, str) and _TYPE.fullmatch(kind) else str(status)


def peek(content_type: str, body: bytes) -> Mapping[str, Any]:
    """What routing may know of a body that is only passed on: its fields when it is a JSON object, the `model` of a
    multipart form, else nothing. Never fails: the worker will say what is wrong with it."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        found = _FORM_MODEL.search(body)
        return {"model": found[1].decode("utf-8", "replace").strip()} if found else {}
    if kind not in ("application/json", "") or not body:
        return {}
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
