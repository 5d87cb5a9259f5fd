import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.trail import STEP_BYTES, trail_of

LONG = "You are a helpful assistant of the city library. " * 30


def chat(*turns: str, **rest: object) -> dict[str, object]:
    roles = ["system", *(["user", "assistant"] * len(turns))]
    return {
        "model": "m",
        "messages": [{"role": r, "content": t} for r, t in zip(roles, turns, strict=False)],
        **rest,
    }


def shared(a: dict[str, object], b: dict[str, object]) -> int:
    one, two = trail_of(a), trail_of(b)
    assert one is not None and two is not None
    same = [x == y for x, y in zip(one.marks, two.marks, strict=False)]
    return same.index(False) if False in same else len(same)


def test_the_next_turn_of_a_chat_has_this_one_as_its_prefix() -> None:
    first = chat(LONG, "When do you open?")
    second = chat(LONG, "When do you open?", "At nine.", "And on Sundays?")
    trail = trail_of(first)
    assert trail is not None and shared(first, second) == len(trail.marks) > 3


def test_only_the_first_message_is_not_enough_to_share_a_prefix() -> None:  # sglang#26263
    a, b = chat(LONG, LONG + "one"), chat(LONG, LONG.replace("library", "swimming pool") + "one")
    same = shared(a, b)
    assert 0 < same <= len(LONG) // STEP_BYTES + 1 < len(trail_of(a).marks)  # type: ignore[union-attr]


@pytest.mark.parametrize("field", [{"model": "lora"}, {"cache_salt": "a"}, {"tools": [{"type": "function"}]}])
def test_what_vllm_never_shares_has_no_mark_in_common(field: dict[str, object]) -> None:
    assert shared(chat(LONG, "Hi"), chat(LONG, "Hi") | field) == 0


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": LONG},
        {"prompt": list(range(1000))},
        {"messages": [{"role": "user", "content": LONG}], "system": "s"},
        {"input": LONG, "instructions": "Be brief."},
        {"input": [{"role": "user", "content": LONG}]},
    ],
)
def test_every_kind_of_prompt_that_grows_leaves_a_trail(body: dict[str, object]) -> None:
    trail = trail_of(body)
    assert trail is not None and len(trail.marks) >= 3


@pytest.mark.parametrize("body", [{}, {"input": ["a", "b"]}, {"messages": []}, {"prompt": "\ud800"}, {"prompt": 2**70}])
def test_what_has_no_growing_prompt_leaves_none(body: dict[str, object]) -> None:
    assert trail_of(body) is None


def test_a_short_prompt_has_a_size_and_no_marks() -> None:
    trail = trail_of(chat("Hi"))
    assert trail is not None and trail.marks == () and trail.size > 0


@given(st.text(max_size=2000), st.text(max_size=2000))
def test_a_longer_completion_prompt_keeps_every_mark_of_the_shorter(start: str, rest: str) -> None:
    one, two = trail_of({"prompt": start}), trail_of({"prompt": start + rest})
    if one is not None and two is not None:
        assert two.marks[: len(one.marks)] == one.marks
