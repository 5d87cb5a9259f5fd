"""Cutting, assembling and replaying event streams; every rule of `proxy.sse`, and the same again for random answers."""

import time
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import sse
from proxy.sse import DONE, Incomplete, Splitter, assemble, event, events, is_usage_only, replay, split_usage

Json = dict[str, Any]


def chunk(*choices: Json, **fields: Any) -> bytes:
    return event(orjson.dumps({"id": "c-1", "object": "chat.completion.chunk", **fields, "choices": list(choices)}))


def delta(index: int = 0, finish: str | None = None, **said: Any) -> Json:
    return {"index": index, "delta": said, "finish_reason": finish}


def whole(*choices: Json, **fields: Any) -> Json:
    return {
        "id": "c-1", "object": "chat.completion", "created": 7, "model": "m", "choices": list(choices),
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, **fields,
    }  # fmt: skip


def choice(index: int = 0, finish: str = "stop", **message: Any) -> Json:
    return {"index": index, "message": {"role": "assistant", "content": "", **message}, "finish_reason": finish}


def told(value: Any) -> Any:
    """Without the fields that say nothing: a stream need not mention them."""
    if isinstance(value, dict):
        return {k: told(v) for k, v in value.items() if v is not None}
    return [told(each) for each in value] if isinstance(value, list) else value


def again(answer: Json) -> Json:
    return assemble(b"".join(replay(answer, include_usage=True)))


# ── cutting ──────────────────────────────────────────────────────────────────────────────────────────────────────────

STREAM = b': comment\n\ndata: {"a":"\xc3\xa9"}\n\nid: 3\ndata: x\ndata: y\n\ndata: [DONE]\n\n'
STREAMS = [STREAM, STREAM.replace(b"\n", b"\r\n"), STREAM.replace(b"\n", b"\r"), STREAM + b"data: unfinished"]


@pytest.mark.parametrize("stream", STREAMS)
def test_wherever_the_bytes_are_split_they_come_out_the_same(stream: bytes) -> None:
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1, 7):
            splitter = Splitter()
            out = [splitter.feed(part) for part in (stream[:first], stream[first:second], stream[second:])]
            assert b"".join(out) + splitter.rest() == stream


@pytest.mark.parametrize("stream", STREAMS)
def test_a_piece_that_is_given_out_ends_where_an_event_ends(stream: bytes) -> None:
    for cut in range(len(stream) + 1):
        splitter = Splitter()
        for piece in (splitter.feed(stream[:cut]), splitter.feed(stream[cut:])):
            assert not piece or piece.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_number_of_splits_changes_no_event(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    splitter = Splitter()
    pieces = [splitter.feed(STREAM[a:b]) for a, b in pairwise(places)]
    assert [payload for piece in pieces for payload in events(piece)] == list(events(STREAM))
    assert splitter.rest() == b""


def test_half_an_event_is_kept_back() -> None:
    splitter = Splitter()
    assert splitter.feed(b"data: a\n") == b""
    assert splitter.rest() == b"data: a\n"
    assert splitter.feed(b"\ndata: b") == b"data: a\n\n"
    assert splitter.rest() == b"data: b"


def test_comments_and_other_fields_are_skipped_and_data_lines_are_joined() -> None:
    assert list(events(STREAM)) == ['{"a":"é"}'.encode(), b"x\ny", b"[DONE]"]


def test_one_space_after_the_colon_is_no_part_of_the_data() -> None:
    assert list(events(b"data:a\n\ndata:  b\n\n")) == [b"a", b" b"]


@pytest.mark.parametrize("mark", [b"\r\n", b"\r", b"\n"])
def test_each_of_the_three_line_ends_makes_the_same_events(mark: bytes) -> None:
    assert list(events(STREAM.replace(b"\n", mark))) == list(events(STREAM))


# ── the usage event ──────────────────────────────────────────────────────────────────────────────────────────────────

USAGE = event(orjson.dumps({"choices": [], "usage": {"completion_tokens": 4}}))


@pytest.mark.parametrize("mark", [b"\n", b"\r\n"])
def test_the_event_with_nothing_but_usage_is_cut_out(mark: bytes) -> None:
    before, after = chunk(delta(content="a")).replace(b"\n", mark), DONE.replace(b"\n", mark)
    usage = USAGE.replace(b"\n", mark)
    assert split_usage(before + usage + after) == (before, usage, after)


def test_a_chunk_that_carries_usage_beside_its_text_stays() -> None:
    data = chunk(delta(content="a"), usage={"completion_tokens": 1}) + DONE
    assert split_usage(data) == (data, b"", b"")


def test_the_word_usage_in_an_answer_is_no_usage_event() -> None:
    data = chunk(delta(content='say "usage" again'))
    assert split_usage(data) == (data, b"", b"")


@pytest.mark.parametrize(
    "payload", [b"[DONE]", b"{", b"[]", b'{"choices":[]}', b'{"usage":{}}', b'{"choices":[],"usage":null}']
)
def test_what_is_not_a_usage_event(payload: bytes) -> None:
    assert not is_usage_only(event(payload))


@given(st.lists(st.sampled_from([chunk(delta(content="x")), USAGE, DONE, b": ping\n\n"]), max_size=6))
def test_cutting_the_usage_out_loses_no_byte(parts: list[bytes]) -> None:
    data = b"".join(parts)
    before, usage, after = split_usage(data)
    assert before + usage + after == data
    assert usage in (b"", USAGE)
    assert (usage == USAGE) == (USAGE in parts)


# ── assembling ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_texts_are_joined_and_other_fields_keep_their_last_value() -> None:
    stream = chunk(delta(role="assistant", content=""), created=7, model="m", tomorrow=1)
    stream += chunk(delta(content="He")) + chunk(delta(content="llo"), tomorrow=2) + chunk(delta(finish="stop"))
    stream += event(orjson.dumps({"choices": [], "usage": {"total_tokens": 9}})) + DONE
    assert told(assemble(stream)) == {
        "id": "c-1", "object": "chat.completion", "created": 7, "model": "m", "tomorrow": 2,
        "usage": {"total_tokens": 9},
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    }  # fmt: skip


def test_choices_that_come_mixed_are_told_apart() -> None:
    stream = chunk(delta(1, content="b")) + chunk(delta(0, content="a"), delta(1, content="B"))
    stream += chunk(delta(1, finish="stop")) + chunk(delta(0, content="A", finish="stop")) + DONE
    assert [c["message"]["content"] for c in assemble(stream)["choices"]] == ["aA", "bB"]


def test_tool_calls_are_put_together_by_their_index() -> None:
    def call(index: int, **fields: Any) -> Json:
        return {"index": index, **fields}

    stream = chunk(delta(role="assistant", content=None))
    stream += chunk(delta(tool_calls=[call(0, id="a", type="function", function={"name": "sum", "arguments": ""})]))
    stream += chunk(delta(tool_calls=[call(0, function={"arguments": '{"x":'})]))
    stream += chunk(delta(tool_calls=[call(1, id="b", type="function", function={"name": "mul", "arguments": "{}"})]))
    stream += chunk(delta(tool_calls=[call(0, id="a", type="function", function={"arguments": "1}"})]))
    stream += chunk(delta(finish="tool_calls")) + DONE
    assert assemble(stream)["choices"][0]["message"] == {
        "role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "sum", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "mul", "arguments": "{}"}},
        ],
    }  # fmt: skip


def test_an_id_that_comes_late_is_not_lost() -> None:
    stream = chunk(delta(tool_calls=[{"index": 0, "function": {"name": "f"}}]))
    stream += (
        chunk(delta(tool_calls=[{"index": 0, "id": "late", "type": "function"}]))
        + chunk(delta(finish="tool_calls"))
        + DONE
    )
    assert assemble(stream)["choices"][0]["message"]["tool_calls"] == [
        {"function": {"name": "f"}, "id": "late", "type": "function"}
    ]


def test_logprobs_come_piece_by_piece() -> None:
    one, two = ({"token": t, "logprob": -0.5, "bytes": [97], "top_logprobs": []} for t in "ab")
    stream = b"".join(chunk({**delta(content=t["token"]), "logprobs": {"content": [t]}}) for t in (one, two))
    stream += chunk(delta(finish="stop")) + DONE
    assert assemble(stream)["choices"][0]["logprobs"] == {"content": [one, two]}


def test_a_token_called_index_is_a_token() -> None:
    stream = b"".join(
        event(orjson.dumps({"object": "text_completion", "choices": [
            {"index": 0, "text": "index", "logprobs": {"top_logprobs": [{"index": -0.25}]}, "finish_reason": finish}]}))
        for finish in (None, "stop")
    ) + DONE  # fmt: skip
    assert assemble(stream)["choices"][0]["logprobs"] == {"top_logprobs": [{"index": -0.25}, {"index": -0.25}]}


FINISHED = chunk(delta(content="Hello", finish="stop"))


@pytest.mark.parametrize(
    "stream",
    [
        b"", DONE, FINISHED, chunk(delta(content="Hello")) + DONE, chunk() + DONE,
        chunk(delta(0, finish="stop"), delta(1, content="b")) + DONE,
        FINISHED + event(b'{"error":{"message":"out of memory"}}') + DONE,
        FINISHED + event(b'{"id":') + DONE, FINISHED + event(b"[]") + DONE, FINISHED + event(b"oops") + DONE,
        chunk(7) + DONE, chunk({"index": None}) + DONE,
        chunk(delta(content=1), delta(content="a", finish="stop"), {"delta": 4}) + DONE,
        event(b'{"choices":5}') + DONE,
    ],
)  # fmt: skip
def test_a_stream_that_broke_off_or_makes_no_sense_is_refused(stream: bytes) -> None:
    with pytest.raises(Incomplete):
        assemble(stream)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("index", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["index", "delta", "text", "content", "finish_reason", "logprobs", "tool_calls", "id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.lists(JSON, max_size=5), st.booleans())
def test_whatever_a_worker_says_assembling_gives_an_answer_or_says_incomplete(chunks: list[Any], nested: bool) -> None:
    stream = b"".join(event(orjson.dumps({"choices": each} if nested else each)) for each in chunks) + DONE
    try:
        answer = assemble(stream)
    except Incomplete:
        return
    assert all(choice["finish_reason"] is not None for choice in answer["choices"])


# ── replaying ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "answer",
    [
        whole(choice(content="Hello there, this is more than one piece of an answer.")),
        whole(choice(content="")),
        whole(choice(content="42", reasoning="First I add, then I think about it for a long while.")),
        whole(choice(content="42", reasoning_content="an older vLLM's word for it")),
        whole(choice(content=None, refusal="I will not.")),
        whole(choice(content="a",
        annotations=[{"type": "url_citation", "url_citation": {"url": "http://x", "title": "t"}}])),
        whole(choice(content=None, finish="tool_calls", tool_calls=[
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}])),
        whole(choice(0, content="first"), choice(1, content="second one"), choice(2, content="")),
        whole({**choice(content="ab"),
        "logprobs": {"content": [{"token": "ab", "logprob": -0.1, "bytes": [97, 98], "top_logprobs": []}]}}),
        whole({**choice(content="ab"), "stop_reason": 128009, "token_ids": [1, 2]}, system_fingerprint="f",
        prompt_token_ids=[1, 2, 3]),
        whole(choice(content="ab", tomorrow={"a": [1]}), tomorrow={"b": None, "c": 2}, service_tier=None),
        {"id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m", "usage": {"total_tokens": 1},
        "choices": [
            {"index": 0, "text": "one and two and three and four", "finish_reason": "stop", "stop_reason": None},
            {"index": 1, "text": "", "finish_reason": "stop",
             "logprobs": {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5}],
             "text_offset": [0]}}]},
    ],
)  # fmt: skip
def test_a_replayed_answer_is_the_same_answer(answer: Json) -> None:
    assert told(again(answer)) == told(answer)


def test_content_that_was_null_is_null_again_and_empty_text_stays_text() -> None:
    assert again(whole(choice(content=None, refusal="no")))["choices"][0]["message"]["content"] is None
    assert again(whole(choice(content="")))["choices"][0]["message"]["content"] == ""


def test_usage_is_told_only_to_who_asked() -> None:
    answer = whole(choice(content="a"))
    assert b'"usage"' not in b"".join(replay(answer, include_usage=False))
    last = list(replay(answer, include_usage=True))[-2:]
    assert is_usage_only(last[0])
    assert last[1] == DONE


def test_a_replay_has_the_shape_of_a_stream() -> None:
    chunks = [
        orjson.loads(next(events(piece)))
        for piece in list(replay(whole(choice(content="a b " * 20)), include_usage=False))[:-1]
    ]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert {c["id"] for c in chunks} == {"c-1"}
    assert len(chunks) > 4
    assert all(c["choices"][0]["finish_reason"] is None for c in chunks[:-1])


def test_a_long_list_beside_the_choices_is_sent_once() -> None:
    answer = whole(choice(content="word " * 400), prompt_token_ids=list(range(5000)))
    assert sum(len(piece) for piece in replay(answer, include_usage=True)) < 200_000
    assert again(answer)["prompt_token_ids"] == list(range(5000))


TEXT = st.text(max_size=200) | st.sampled_from(
    ["👩‍👩‍👧‍👦 family", "data: [DONE]\n\n", "\r\n\r\n", "\u2028 \u2029", "e\u0301", '"usage"', "\x00\x1f"]
)


@given(TEXT, TEXT | st.none())
def test_any_text_survives_the_way_through_a_stream(content: str, reasoning: str | None) -> None:
    answer = whole(choice(content=content, reasoning=reasoning))
    stream = b"".join(replay(answer, include_usage=True))
    splitter = Splitter()
    relayed = b"".join(splitter.feed(stream[start : start + 11]) for start in range(0, len(stream), 11))
    message = assemble(relayed)["choices"][0]["message"]
    assert (message["content"], message.get("reasoning") or None) == (content, reasoning or None)


def test_a_very_long_text_survives() -> None:
    content = "Fährt der 🚂 nach Köln? " * 40_000
    assert again(whole(choice(content=content)))["choices"][0]["message"]["content"] == content


def test_a_text_without_spaces_is_cut_too() -> None:
    assert list(sse._pieces("x" * 60)) == ["x" * 24, "x" * 24, "x" * 12]


@pytest.mark.parametrize(
    "more",
    [
        b'data: {"choices":[{"index":0,"delta":{"content":" EXTRA"},"finish_reason":null}]}\n\ndata: [DONE]\n\n',
        b'data: [DONE]\n\ndata: {"choices":[{"index":0,"delta":{"content":" EXTRA"}}]}\n\n',
    ],
)
def test_a_stream_that_goes_on_after_its_end_is_nobodys_whole_answer(more: bytes) -> None:
    end = b'data: {"choices":[{"index":0,"delta":{"content":"yes"},"finish_reason":"stop"}]}\n\n'
    assert sse.assemble(end + b"data: [DONE]\n\n")["choices"][0]["message"]["content"] == "yes"
    with pytest.raises(sse.Incomplete):
        sse.assemble(end + more)


def test_an_event_without_an_end_is_passed_on_in_time_that_grows_with_it() -> None:
    """Found in review: 20 MB without an end took 4 s, because everything was searched again at every read."""
    splitter, out = sse.Splitter(), b""
    began_s = time.perf_counter()
    for _ in range(300):
        out += splitter.feed(b"x" * 65_536)
    assert time.perf_counter() - began_s < 1.0
    assert out + splitter.rest() == b"x" * 65_536 * 300
