"""What a worker is asked to read: exactly what the next turn will begin with, and nothing that only a user may want."""

from typing import Any

import orjson
import pytest
from entries import entry

from proxy.warmups import LARGEST_BODY, later_turn, warm_up

CHAT = [
    {"role": "user", "content": "Why is the sky blue? " * 40}, {"role": "assistant", "content": "It scatters. " * 40},
    {"role": "user", "content": "And red?"},
]  # fmt: skip


def answered(text: str | None = "Because of dust.", **message: Any) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    value = {"id": "x", "object": "chat.completion", "choices": [choice]}
    return entry(body=orjson.dumps(value))


def asked(**fields: Any) -> dict[str, Any]:
    made = warm_up({"model": "m", "messages": CHAT, **fields}, answered(), "digest", lowest=False)
    assert made is not None
    return dict(orjson.loads(made.body))


def test_it_is_the_chat_with_its_answer_and_a_turn_that_stands_for_the_next() -> None:
    """Templates render the last answer differently from those before, or refuse to end there."""
    said = asked()["messages"]
    assert said[:3] == CHAT
    assert said[3] == {"role": "assistant", "content": "Because of dust."}
    assert [message["role"] for message in said[4:]] == ["user"]


def test_it_asks_for_one_token_and_for_nothing_of_what_sampling_may_be_told() -> None:
    kept = {"tools": [{"type": "function", "function": {"name": "f"}}], "cache_salt": "s",
            "chat_template_kwargs": {"enable_thinking": False}}  # fmt: skip
    told = asked(
        **kept, stream=True, stream_options={"include_usage": True}, temperature=0.3, seed=1, max_tokens=900,
        max_completion_tokens=900, n=2, stop=["."], logprobs=True, top_logprobs=3, min_tokens=7,
        response_format={"type": "json_object"}, user="anna", session_id="raw", metadata={"a": 1}, priority=-5,
        tool_choice="required", cache={"no-store": True}, guided_json={},
    )  # fmt: skip
    del told["messages"]
    assert told == {"model": "m", **kept, "max_tokens": 1, "stream": False}


def test_tools_that_may_be_left_out_of_the_prompt_are_left_out_again() -> None:
    assert asked(tools=[], tool_choice="none")["tool_choice"] == "none"


def test_where_the_worker_keeps_priorities_it_comes_last() -> None:
    made = warm_up({"model": "m", "messages": CHAT}, answered(), "digest", lowest=True)
    assert made is not None and orjson.loads(made.body)["priority"] > 0


def test_its_trail_goes_on_from_that_of_the_served_request() -> None:
    made = warm_up({"model": "m", "messages": CHAT}, answered("It is dust. " * 60), "digest", lowest=False)
    before = warm_up({"model": "m", "messages": CHAT[:1]}, answered("It scatters. " * 40), "digest", lowest=False)
    assert made is not None and made.prompt.trail is not None
    assert before is not None and before.prompt.trail is not None
    assert made.prompt.session == "digest" and made.prompt.model == "m"
    assert 0 < made.steps < len(made.prompt.trail.marks)
    shared = before.prompt.trail.marks
    assert made.prompt.trail.marks[: len(shared)] == shared


@pytest.mark.parametrize("entry_of", [
    answered(""), answered(None), answered(None, tool_calls=[{"id": "1"}]), answered("x", tool_calls=[{"id": "1"}]),
    entry(body=b'{"choices":[]}'),
])  # fmt: skip
def test_what_is_not_one_text_is_not_read_ahead(entry_of: Any) -> None:
    assert warm_up({"model": "m", "messages": CHAT}, entry_of, "digest", lowest=False) is None


@pytest.mark.parametrize("field", [{"continue_final_message": True}, {"truncate_prompt_tokens": 100}])
def test_a_prompt_that_would_not_grow_into_the_next_is_not_read_ahead(field: dict[str, Any]) -> None:
    assert warm_up({"model": "m", "messages": CHAT, **field}, answered(), "digest", lowest=False) is None


def test_only_later_turns_of_a_bearable_size_are_worth_a_look() -> None:
    assert later_turn({"messages": CHAT}, 1000)
    assert not later_turn({"messages": CHAT[:1]}, 1000)
    assert not later_turn({"messages": CHAT}, LARGEST_BODY + 1)
    for broken in ({}, {"messages": "a text"}, {"messages": None}):
        assert not later_turn(broken, 10)
