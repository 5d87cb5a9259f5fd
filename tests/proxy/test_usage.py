"""The usage of a response, wherever the network cut its bytes."""

import itertools

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.usage import Usage, UsageFinder

USAGE = {"input_tokens": 37, "input_tokens_details": {"cached_tokens": 32, "cache_write_tokens": 0},
         "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 42}  # fmt: skip
LIES = '"usage": {"input_tokens": 1, "output_tokens": 1}'  # in the text of the answer
ANSWER = {"id": "resp_1", "usage_of_tools": None, "output": [{"type": "message", "content": LIES}], "usage": USAGE,
          "user": None}  # fmt: skip
STREAM = b"".join(
    b"event: x\ndata: " + orjson.dumps({"response": {**ANSWER, "usage": usage}}) + b"\n\n"
    for usage in (None, None, USAGE)
)


def found(data: bytes, cuts: list[int]) -> Usage | None:
    finder, places = UsageFinder(), sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        finder.feed(data[start:end])
    return finder.found


@given(st.lists(st.integers(0, 10_000)))
def test_it_is_found_in_json_and_in_a_stream_wherever_they_are_cut(cuts: list[int]) -> None:
    for data in (orjson.dumps(ANSWER), orjson.dumps(ANSWER, option=orjson.OPT_INDENT_2), STREAM):
        assert found(data, cuts) == Usage(37, 32, 5)


def test_byte_by_byte() -> None:
    assert found(STREAM, list(range(len(STREAM)))) == Usage(37, 32, 5)


@pytest.mark.parametrize("usage", [
    None, {}, [], {"input_tokens": "37", "output_tokens": 5}, {"input_tokens": True, "output_tokens": 5},
    {"input_tokens": -1, "output_tokens": 5}, {"type": "object", "properties": {"input_tokens": {"type": "int"}}},
    {**USAGE, "input_tokens_details": {"cached_tokens": 32, "input_tokens_per_turn": [20, 17]}},
])  # fmt: skip
def test_what_says_nothing_of_one_prompt_is_not_taken(usage: object) -> None:
    assert found(orjson.dumps({"id": "resp_1", "usage": usage}), []) is None


def test_a_worker_that_does_not_tell_what_was_cached_is_not_taken_to_have_had_nothing() -> None:
    for details in (None, {}, {"cached_tokens": None}, {"cached_tokens": 38}):
        assert found(orjson.dumps({"usage": {**USAGE, "input_tokens_details": details}}), []) == Usage(37, None, 5)


def test_a_tool_whose_schema_names_usage_hides_nothing_and_memory_is_bounded() -> None:
    tools = {"tools": [{"parameters": {"usage": {"type": "string", "description": "x" * 9000}}}]}
    assert found(orjson.dumps({"usage": USAGE, **tools}), [10, 500]) == Usage(37, 32, 5)
    assert found(orjson.dumps({**tools, "usage": USAGE}), [10, 500]) == Usage(37, 32, 5)
    finder = UsageFinder()
    for _ in range(100):
        finder.feed(b'"usage":{' + b"x" * 1000)
    assert finder.found is None and len(finder._rest) <= 8192
