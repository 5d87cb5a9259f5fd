"""What a check asks is what the asker asked, and says nothing of who asked it."""

from typing import Any

import orjson
from entries import entry as make_entry
from hypothesis import given
from hypothesis import strategies as st

from cache import Hit, Kind, Likeness, Question, Scope
from proxy.checks import Check, Lately, check_of, request_of, text_of

BODY = {
    "model": "demo", "temperature": 0.7, "max_tokens": 50, "seed": 5, "stream": True,
    "stream_options": {"include_usage": True}, "user": "anna", "session_id": "s", "metadata": {"a": 1},
    "prompt_cache_key": "k", "safety_identifier": "x", "priority": -5, "cache": {"threshold": 0.9},
    "messages": [{"role": "system", "content": "You sell shoes."}, {"role": "user", "content": "Do you ship?"}],
}  # fmt: skip


def check(body: dict[str, Any] = BODY, *, entry: int = 1, asked: str = "Do you ship?", scope: str = "s") -> Check:
    answer = orjson.dumps({"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]})
    return Check("/v1/chat/completions", body, asked, "Do you deliver?", answer, Scope("t", "demo", scope), entry, None,
                 2.0, 0)  # fmt: skip


def test_the_worker_is_asked_what_the_user_asked_but_whole_and_without_who_asked() -> None:
    assert orjson.loads(request_of(check())) == {
        "model": "demo", "temperature": 0.7, "max_tokens": 50, "seed": 5, "messages": BODY["messages"],
    }  # fmt: skip


def test_where_the_worker_keeps_priorities_a_check_comes_behind_everybody() -> None:
    assert orjson.loads(request_of(check(), lowest=True))["priority"] > 0


def test_the_second_time_the_question_is_only_more_courteous() -> None:
    again = orjson.loads(request_of(check(), courteous=True))
    assert again["messages"][0] == BODY["messages"][0]
    assert again["messages"][1]["content"] == "Do you ship? Thank you!"
    assert BODY["messages"][1]["content"] == "Do you ship?", "the asker's own body is not touched"
    chinese = request_of(check({"prompt": "你们送货吗？"}, asked="你们送货吗？"), courteous=True)
    assert orjson.loads(chinese) == {"prompt": "你们送货吗？谢谢！"}


@given(st.lists(st.fixed_dictionaries({}, optional={
    "role": st.sampled_from(["user", "assistant", "tool"]), "content": st.text(max_size=5) | st.none() | st.just([]),
}), max_size=4), st.booleans())  # fmt: skip
def test_no_shape_of_messages_breaks_it(messages: list[dict[str, Any]], courteous: bool) -> None:
    asked = orjson.loads(request_of(check({"messages": messages}), courteous=courteous))
    assert len(asked["messages"]) == len(messages)


def test_a_check_knows_its_model_and_its_served_words() -> None:
    assert check().wanted_model == "demo"
    assert check({"model": ""}).wanted_model is None
    assert check().served_text == "Yes."
    assert text_of(b'{"choices": []}') == ""


def test_a_hit_without_a_text_cannot_be_checked() -> None:
    question = Question(Kind.CHAT, Scope("t", "m", "s"), "Do you ship?", "k", "p", "w", frozenset(), None, None)
    hit = Hit(make_entry("Do you deliver?", id=4), "similar", Likeness.MEANING, 1.0)
    made = check_of("/v1/chat/completions", BODY, question, hit, weight=4.0, forgets=2)
    assert made is not None and (made.entry_id, made.weight, made.tenant, made.model) == (4, 4.0, "t", "m")
    silent = Question(Kind.CHAT, question.scope, None, "k", "p", None, frozenset(), None, None)
    assert check_of("/v1/chat/completions", BODY, silent, hit, weight=1.0, forgets=0) is None


def test_a_suspect_hit_is_found_again_and_counts_in_no_rate() -> None:
    lately = Lately()
    lately.note(check(entry=7))
    assert lately.again(7, "Do you ship?", Scope("t", "demo", "another")) is None
    found = lately.again(7, "Do you ship?", Scope("t", "demo", "s"))
    assert found is not None and not found.sampled and found.weight == 1
    lately.clear()
    assert lately.again(7, "Do you ship?", Scope("t", "demo", "s")) is None


def test_others_are_those_of_the_same_tenant_that_another_entry_answered() -> None:
    lately = Lately()
    for entry in (1, 2, 2, 3):
        lately.note(check(entry=entry))
    assert [each.entry_id for each in lately.others(check(entry=1))] == [2, 3]


def test_what_is_remembered_is_bounded() -> None:
    lately = Lately()
    for number in range(2000):
        lately.note(check(entry=number, asked=str(number)))
    assert lately.again(0, "0", Scope("t", "demo", "s")) is None
    assert lately.again(1999, "1999", Scope("t", "demo", "s")) is not None
    assert len(lately.others(check(entry=-1))) <= 16
