import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.trail import STEP_BYTES, trail_of, unread

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


def picture(data: str, question: str = "What is this?", system: str = LONG) -> dict[str, object]:
    url = f"data:image/png;base64,{data}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": question}]
    return {"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": parts}]}


MEDIA = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}},
    {"type": "input_audio", "input_audio": {"data": "A" * 100_000, "format": "wav"}},
    {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 100_000},
    {"type": "input_file", "file_data": "A" * 100_000},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}},
    {"type": "tool_result", "content": [{"type": "image", "source": {"type": "base64", "data": "A" * 100_000}}]},
]


@pytest.mark.parametrize("part", MEDIA, ids=lambda part: part["type"])
def test_the_bytes_of_an_image_are_no_text_of_the_prompt(part: dict[str, object]) -> None:
    trail = trail_of({"messages": [{"role": "system", "content": LONG}, {"role": "user", "content": [part]}]})
    assert trail is not None and trail.media and trail.size < 2 * len(LONG)


def test_an_image_elsewhere_keeps_its_address_and_its_tokens_are_unknown_too() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    trail = trail_of({"messages": [{"role": "user", "content": [part]}]})
    assert trail is not None and trail.media


def test_other_images_end_the_shared_prefix_and_the_same_ones_do_not() -> None:
    long = "What is to be seen here? " * 40
    one, same, other = picture("A" * 5000, long), picture("A" * 5000, long), picture("A" * 4999 + "B", long)
    assert shared(one, same) == len(trail_of(one).marks) > shared(one, other) >= 3  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["data:image/png;base64," + "A" * 4000, "an image"])
def test_what_a_user_writes_about_images_is_text(text: str) -> None:
    for content in (text, [{"type": "text", "text": text}]):
        trail = trail_of({"messages": [{"role": "user", "content": content}]})
        assert trail is not None and not trail.media and trail.size > len(text)


@pytest.mark.parametrize(
    ("body", "yes"),
    [
        ({"prompt_logprobs": 0}, True),
        ({"echo": True, "logprobs": 1}, True),
        ({"prompt_logprobs": None}, False),
        ({"echo": True}, False),
        ({"logprobs": 1}, False),
    ],
)
def test_log_probabilities_of_the_prompt_need_all_of_it_computed(body: dict[str, object], yes: bool) -> None:
    assert unread(body) is yes
