"""OpenAI's words: what is read out of requests and answers, and how errors are worded."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import Answer, Kind, Outcome
from proxy import openai
from proxy.errors import BadRequest, ModelNotFound, NoWorker, ProxyError, Unauthorized

# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_body_is_one_json_object() -> None:
    assert openai.read_body('{"model":"m","messages":[{"role":"user","content":"é"}]}'.encode())["model"] == "m"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not valid JSON"), (b"{", "not valid JSON"), (b"\xff{}", "not valid JSON"),
        (b'{"a":NaN}', "not valid JSON"),
        (b'{"temperature":1e999}', "not valid JSON"), (b'{"a":"\\ud800"}', "not valid JSON"),
        (b"[]", "must be a JSON object"), (b"null", "must be a JSON object"), (b'"text"', "must be a JSON object"),
        (b'{"messages":' + b"[" * 300 + b"]" * 300 + b"}", "nested more than"),
        (b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}", "not valid JSON"),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_the_callers_to_mend(body: bytes, says: str) -> None:
    with pytest.raises(BadRequest, match=says) as refused:
        openai.read_body(body)
    assert refused.value.status == 400


def test_a_long_conversation_is_not_a_deep_one() -> None:
    body = orjson.dumps({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}] * 500})
    assert len(openai.read_body(body)["messages"]) == 500


@pytest.mark.parametrize(("model", "read"), [("m", "m"), (None, None), ("", None)])
def test_a_model_may_be_left_to_the_worker(model: str | None, read: str | None) -> None:
    assert openai.model_of({"model": model}) == read
    assert openai.model_of({}) is None


@pytest.mark.parametrize("model", [7, [], {"id": "m"}, True])
def test_a_model_is_a_name(model: object) -> None:
    with pytest.raises(BadRequest) as refused:
        openai.model_of({"model": model})
    assert refused.value.param == "model"


@pytest.mark.parametrize(
    ("stream", "wanted"),
    [
        (True, True), (False, False), (None, False), ("true", True), (1, True), ("false", False), (0, False),
        ([], False),
    ],
)  # fmt: skip
def test_what_vllm_takes_for_true_means_stream(stream: object, wanted: bool) -> None:
    assert openai.wants_stream({"stream": stream}) is wanted


@pytest.mark.parametrize("options", [None, "x", [], {}, {"include_usage": False}, {"include_usage": 1}])
def test_usage_is_wanted_only_by_who_says_so(options: object) -> None:
    assert not openai.wants_usage({"stream_options": options})
    assert openai.wants_usage({"stream_options": {"include_usage": True}})


def test_the_worker_gets_the_clients_own_bytes() -> None:
    raw = b'{ "model" : "m",\n "messages":[], "x": 1.0 }'
    assert openai.for_worker(orjson.loads(raw), raw, None) is raw
    asked = b'{"stream":true, "stream_options":{"include_usage":true}}'
    assert openai.for_worker(orjson.loads(asked), asked, "digest") is asked


def test_our_own_field_never_reaches_the_worker() -> None:
    body = {"model": "m", "cache": {"no-store": True}, "x": [1]}
    assert orjson.loads(openai.for_worker(body, b"", None)) == {"model": "m", "x": [1]}
    assert "cache" in body


def test_a_worker_sees_the_digest_of_a_session_and_never_its_name() -> None:
    body = {"model": "m", "session_id": "ann@example.org"}
    assert orjson.loads(openai.for_worker(body, b"", "d" * 32)) == {"model": "m", "session_id": "d" * 32}
    assert orjson.loads(openai.for_worker(body, b"", None)) == {"model": "m"}


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"continuous_usage_stats": True}, "odd"])
def test_a_stream_always_tells_its_usage_to_us(options: object) -> None:
    body = {"stream": True, "stream_options": options}
    sent = orjson.loads(openai.for_worker(body, b"", None))["stream_options"]
    assert sent["include_usage"] is True
    assert sent == {**(options if isinstance(options, dict) else {}), "include_usage": True}
    assert body["stream_options"] is options


def test_requests_of_one_shape_can_hear_the_same_bytes() -> None:
    plain = {"stream": True}
    assert openai.shape(plain) == openai.shape({"stream": True, "stream_options": {"include_usage": True}})
    assert openai.shape(plain) != openai.shape({"stream": False})
    assert openai.shape(plain) != openai.shape({"stream": True, "stream_options": {"continuous_usage_stats": True}})
    assert openai.shape({"stream_options": {"a": 1}}) == openai.shape({}) == "json"
    two = ({"stream": True, "stream_options": options} for options in ({"a": 1, "b": 2}, {"b": 2, "a": 1}))
    assert len({openai.shape(body) for body in two}) == 1


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def chat(*messages: dict[str, Any], finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {
        "id": "c-1", "object": "chat.completion",
        "choices": [{"index": i, "message": message, "finish_reason": finish} for i, message in enumerate(messages)],
        **fields,
    }  # fmt: skip


def test_an_answer_is_kept_without_its_id() -> None:
    value = chat({"role": "assistant", "content": "Hello"}, usage={
        "prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}})  # fmt: skip
    told = openai.read_answer(200, value)
    assert told.outcome == Outcome(200, ("stop",), ("Hello",))
    assert told.answer is not None
    assert (told.answer.tokens, told.answer.prompt_tokens, told.cached_tokens) == (2, 9, 8)
    assert orjson.loads(told.answer.body) == {name: field for name, field in value.items() if name != "id"}


@pytest.mark.parametrize(
    ("message", "tool_calls", "refusal"),
    [
        ({"content": None, "tool_calls": [{"id": "a"}]}, True, False),
        ({"content": None, "function_call": {"name": "f"}}, True, False),
        ({"content": None, "refusal": "no"}, False, True),
        ({"content": "a", "tool_calls": [], "refusal": None}, False, False),
    ],
)
def test_tool_calls_and_refusals_are_seen_in_any_choice(
    message: dict[str, Any], tool_calls: bool, refusal: bool
) -> None:
    outcome = openai.read_answer(200, chat({"content": "a"}, message)).outcome
    assert (outcome.tool_calls, outcome.refusal) == (tool_calls, refusal)
    assert outcome.finish_reasons == ("stop", "stop")


def test_a_completion_is_read_too() -> None:
    told = openai.read_answer(
        200, {"object": "text_completion", "choices": [{"text": "ab", "finish_reason": "length"}]}
    )
    assert told.outcome == Outcome(200, ("length",), ("ab",))
    assert told.answer is not None
    assert told.answer.tokens is None


@pytest.mark.parametrize(
    "value", [None, [], "x", {}, {"choices": None}, {"choices": {}}, {"choices": [7]}, {"error": {}}]
)
def test_what_is_no_answer_is_none(value: object) -> None:
    told = openai.read_answer(200, value)
    assert told.answer is None
    assert told.outcome == Outcome(200, (), ())


@pytest.mark.parametrize(
    "usage",
    [
        None,
        [],
        {"completion_tokens": "4"},
        {"completion_tokens": True},
        {"prompt_tokens_details": 4},
        {"completion_tokens": -1, "prompt_tokens_details": {"cached_tokens": -1}},
    ],  # vLLM begins to count at -1
)
def test_odd_usage_counts_as_unknown(usage: object) -> None:
    told = openai.read_answer(200, chat({"content": "a"}, usage=usage))
    assert told.answer is not None
    assert (told.answer.tokens, told.cached_tokens) == (None, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "finish_reason", "text", "completion_tokens"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_json_can_be_read(value: object) -> None:
    told = openai.read_answer(200, value)
    assert len(told.outcome.texts) == len(told.outcome.finish_reasons)


@pytest.mark.parametrize(("kind", "prefix"), [(Kind.CHAT, "chatcmpl-"), (Kind.COMPLETION, "cmpl-")])
def test_each_delivery_has_an_id_of_its_own(kind: Kind, prefix: str) -> None:
    answer = Answer(orjson.dumps({"object": "x", "choices": [{"text": "é"}]}), 1)
    one, two = (orjson.loads(openai.deliver(kind, answer)) for _ in range(2))
    replayed = openai.opened(kind, answer)
    ids = {one.pop("id"), two.pop("id"), replayed.pop("id")}
    assert len(ids) == 3
    assert all(each.startswith(prefix) and len(each) > 30 for each in ids)
    assert one == two == replayed == orjson.loads(answer.body)


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "error",
    [ProxyError("oops"), BadRequest("wrong", param="model"), Unauthorized("who?"), ModelNotFound("none", param="model"),
     NoWorker("later", retry_after_s=2)],
)  # fmt: skip
def test_every_error_has_the_one_envelope(error: ProxyError) -> None:
    assert orjson.loads(openai.error_body(error)) == {
        "error": {"message": error.message, "type": error.type, "param": error.param, "code": error.code}
    }


# ── what is only passed on ───────────────────────────────────────────────────────────────────────────────────────────

FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\x00\xff\r\n--b\r\n' \
       b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--b--\r\n'  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "body", "seen"),
    [
        ("application/json", b'{"model":"m","input":"x"}', {"model": "m", "input": "x"}),
        ("application/json; charset=utf-8", b'{"model":"m"}', {"model": "m"}),
        ("", b'{"model":"m"}', {"model": "m"}),
        ("multipart/form-data; boundary=b", FORM, {"model": "whisper-1"}),
        ("multipart/form-data; boundary=b", b"--b--", {}),
        ("application/json", b"{", {}), ("application/json", b"[1]", {}), ("application/json", b"", {}),
        ("text/plain", b'{"model":"m"}', {}), ("application/octet-stream", b"\x00" * 99, {}),
    ],
)  # fmt: skip
def test_routing_looks_but_never_complains(kind: str, body: bytes, seen: dict[str, Any]) -> None:
    assert openai.peek(kind, body) == seen


@given(st.text(max_size=40), st.binary(max_size=80))
def test_peeking_never_fails(kind: str, body: bytes) -> None:
    assert openai.peek(kind, body) is not None
    assert openai.peek("multipart/form-data", body) == {} or b"model" in body


def test_two_numbers_that_a_float_cannot_tell_apart_are_refused_and_not_taken_for_one() -> None:
    """Found in review: …901 and …999 were one key, and one got the other's answer."""
    for body in (b'{"chat_template_kwargs":{"account":123456789012345678901}}', b'{"x":[-9223372036854775809]}'):
        with pytest.raises(BadRequest, match="64 bits"):
            openai.read_body(body)
    assert openai.read_body(b'{"seed":18446744073709551615}') == {"seed": 18446744073709551615}
    assert openai.read_body(b'{"prompt":"account 123456789012345678901"}')["prompt"].endswith("901")


@pytest.mark.parametrize(("body", "words"), [
    (b'{"error": {"message": "PIN 4711", "type": "BadRequestError", "code": 400}}', "400 BadRequestError"),
    (b'{"object": "error", "message": "PIN 4711", "type": "NotFoundError"}', "400 NotFoundError"),
    (b'{"error": {"type": "my PIN is 4711"}}', "400"),
    (b'{"error": {"type": ["4711"]}}', "400"),
    (b'{"detail": "PIN 4711"}', "400"),
    (b"PIN 4711", "400"), (b'["4711"]', "400"), (b"", "400"),
])  # fmt: skip
def test_a_workers_error_is_named_by_status_and_type_and_by_no_word_of_a_prompt(body: bytes, words: str) -> None:
    assert openai.refusal(400, body) == words
