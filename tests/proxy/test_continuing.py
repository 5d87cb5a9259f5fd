"""May an answer be continued, what is asked for the rest, and how the two become one stream."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import chunked

from cache import Answer, Kind
from proxy import sse
from proxy.continuing import Splice, Unspliceable, beginning, deterministic, extends, rest_of, told_so_far, why_not

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Count."}]}
HEAD = {"id": "chatcmpl-1", "created": 7, "model": "demo"}


def told(pieces: list[bytes]) -> dict[str, Any]:
    return sse.assemble(b"".join(pieces))


def test_a_plain_request_is_continued_and_what_nobody_knows_is_not() -> None:
    assert why_not({**CHAT, "temperature": 0.7, "top_p": 0.9, "max_tokens": 9, "stream": True}, Kind.CHAT) is None
    assert why_not({**CHAT, "n": 1, "tools": [], "logprobs": False, "stop": None}, Kind.CHAT) is None
    assert why_not({**CHAT, "seed": 3, "temperature": 0}, Kind.CHAT) is None
    for name, value in {"n": 2, "seed": 3, "stop": "x", "of_tomorrow": 1, "chat_template_kwargs": {"a": 1}}.items():
        assert name in (why_not({**CHAT, name: value}, Kind.CHAT) or "")
    assert why_not({"messages": [{"role": "assistant", "content": "I"}]}, Kind.CHAT) is not None
    assert why_not({"prompt": [1, 2]}, Kind.COMPLETION) is not None
    assert why_not({"prompt": "a"}, Kind.COMPLETION) is None


@pytest.mark.parametrize(
    ("text", "part"),
    [("one two", "one two"), ("one two \n", "one two"), (" one", None), ("", None), ("  ", None), ("na\ufffd", None)],
)
def test_a_beginning_ends_before_the_white_space_that_templates_trim(text: str, part: str | None) -> None:
    assert told_so_far(Kind.CHAT, text) == part
    body = {"choices": [{"message": {"role": "assistant", "content": text, "reasoning": None}}]}
    assert beginning(Kind.CHAT, Answer(orjson.dumps(body), 3)) == part


def test_who_thought_before_he_spoke_is_not_continued() -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": "one", "reasoning": "hm"}}]}
    assert beginning(Kind.CHAT, Answer(orjson.dumps(body), 3)) is None
    assert beginning(Kind.CHAT, Answer(b"[]", 3)) is None


def test_the_rest_is_asked_with_what_is_left_of_the_limit() -> None:
    rest = rest_of({**CHAT, "max_completion_tokens": 20, "cache": {"ttl": 3}}, Kind.CHAT, "one two", 12)
    assert rest["messages"][-1] == {"role": "assistant", "content": "one two"} and len(CHAT["messages"]) == 1
    assert rest["max_completion_tokens"] == 12 and "cache" not in rest and "max_tokens" not in rest
    assert rest["continue_final_message"] is True and rest["add_generation_prompt"] is False
    assert rest_of({"prompt": "Count:"}, Kind.COMPLETION, " one", None)["prompt"] == "Count: one"


def test_a_template_extends_or_it_does_not() -> None:
    assert extends([1, 2], [1, 2, 3], [3])
    assert not extends([1, 2, 9], [1, 2, 3], [3])  # the generation prompt opened a thought
    assert not extends([1, 2], [1, 2], []) and not extends([1, 2], [1, 2, 3, 4], [3])
    assert deterministic({"temperature": 0}) and not deterministic({})


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9), min_size=2, max_size=8),
       st.data())  # fmt: skip
def test_beginning_and_rest_are_the_whole_wherever_it_was_broken(pieces: list[str], data: st.DataObject) -> None:
    whole = "".join(pieces)
    at = data.draw(st.integers(0, len(whole)))
    text = whole[:at]
    part = told_so_far(Kind.CHAT, text)
    if part is None:
        return
    splice = Splice(Kind.CHAT, HEAD, 5, text[len(part) :])
    out = [splice.opening(text)]
    rest = whole[len(part) :]
    cut = data.draw(st.integers(0, len(rest)))
    deltas = [{"role": "assistant", "content": ""}, {"content": rest[:cut]}, {"content": rest[cut:]}]
    out += [block.data for block in splice.take(chunked(deltas, id="chatcmpl-other", created=9))]
    answer = told(out)
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": whole}
    assert answer["id"] == "chatcmpl-1" and answer["created"] == 7 and splice.done
    assert answer["usage"] == {"prompt_tokens": 0, "completion_tokens": 12, "total_tokens": 12}


@pytest.mark.parametrize("delta", [{"reasoning": "hm"}, {"tool_calls": [{"index": 0}]}, {"content": "else"}])
def test_what_is_not_the_rest_is_not_told(delta: dict[str, Any]) -> None:
    splice = Splice(Kind.CHAT, HEAD, 5, " \n")
    with pytest.raises(Unspliceable):
        list(splice.take(chunked([delta])))


def test_a_stream_without_its_end_or_with_an_error_is_no_rest() -> None:
    for data in (chunked([{"content": "a"}], finish=None), b'data: {"error":{"message":"x"}}\n\n', b"data: [1]\n\n"):
        with pytest.raises(Unspliceable):
            list(Splice(Kind.CHAT, HEAD, 5).take(data))
