"""From a body to a question: every field alone, and what makes two requests the same question in the same scope."""

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.asking import FIELDS, Caller, Field, ask
from cache.policy import Controls
from cache.question import Kind, Question, Trait

SECRET = b"s" * 32
Json = dict[str, Any]
BODY: Json = {
    "model": "m",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why is the sky blue?"}],
    "temperature": 0.2,
}


def chat(
    body: Json = BODY, *, tenant: str = "shop", session: str | None = None, secret: bytes = SECRET, **controls: Any
) -> Question:
    return ask(Kind.CHAT, body, Caller(tenant, session), Controls(**controls), secret)


def said(*turns: str | Json, **fields: Any) -> Json:
    """A body whose plain strings are user turns."""
    return {"model": "m", "messages": [turn if isinstance(turn, dict) else user(turn) for turn in turns], **fields}


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

# ── the key: what can change the answer ──────────────────────────────────────────────────────────────────────────────

# Every request parameter of OpenAI's chat completions and of vLLM 0.32 that says something about the answer.
ANSWER_FIELDS: Json = {
    "model": "other", "messages": [user("Why?")], "temperature": 0.3, "top_p": 0.5, "top_k": 4, "min_p": 0.1, "n": 2,
    "best_of": 2,
    "stop": ["x"], "stop_token_ids": [1], "seed": 7, "frequency_penalty": 0.1, "presence_penalty": 0.1,
    "repetition_penalty": 1.1,
    "length_penalty": 1.1, "logit_bias": {"5": 1}, "logprobs": True, "top_logprobs": 3, "prompt_logprobs": 1,
    "response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "auto",
    "parallel_tool_calls": False, "functions": [{"name": "f"}], "function_call": "auto", "guided_json": {},
    "guided_regex": "x",
    "guided_choice": ["a"], "guided_grammar": "x", "structured_outputs": {"json": {}}, "ignore_eos": True,
    "min_tokens": 4,
    "skip_special_tokens": False, "spaces_between_special_tokens": False, "truncate_prompt_tokens": 9,
    "allowed_token_ids": [1],
    "bad_words": ["x"], "add_generation_prompt": False, "continue_final_message": True, "add_special_tokens": True,
    "echo": True,
    "documents": [{"text": "x"}], "chat_template": "x", "chat_template_kwargs": {"enable_thinking": False},
    "mm_processor_kwargs": {},
    "reasoning_effort": "low", "include_reasoning": False, "thinking_token_budget": 5, "use_beam_search": True,
    "suffix": "x",
    "modalities": ["text", "audio"], "audio": {"voice": "x"}, "prediction": {"type": "content", "content": "x"},
    "verbosity": "low",
    "web_search_options": {}, "return_token_ids": True, "return_tokens_as_token_ids": True, "cache_salt": "x",
    "lora_request": "x",
    "kv_transfer_params": {"x": 1}, "vllm_xargs": {"x": 1}, "logits_processors": ["x"], "tomorrows_parameter": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", list(ANSWER_FIELDS))
def test_a_field_that_can_change_the_answer_changes_the_key(name: str) -> None:
    changed = chat({**BODY, name: ANSWER_FIELDS[name]})
    assert changed.key != chat().key
    assert changed.proof != chat().proof


@pytest.mark.parametrize("name", [name for name in ANSWER_FIELDS if name != "messages"])
def test_a_field_that_can_change_the_answer_changes_the_scope(name: str) -> None:
    assert chat({**BODY, name: ANSWER_FIELDS[name]}).scope != chat().scope


@pytest.mark.parametrize("name", list(FIELDS))
def test_a_listed_field_changes_neither_key_nor_scope(name: str) -> None:
    changed = chat({**BODY, name: 17})
    assert (changed.key, changed.proof, changed.scope, changed.wording) == (
        chat().key,
        chat().proof,
        chat().scope,
        chat().wording,
    )


def test_no_field_is_listed_that_could_change_the_answer() -> None:
    assert not set(FIELDS) & set(ANSWER_FIELDS)
    assert Field.ANSWER not in FIELDS.values()
    assert {name for name, field in FIELDS.items() if field is Field.LIMIT} == {"max_tokens", "max_completion_tokens"}


@given(
    st.text(min_size=1, max_size=20).filter(lambda name: name not in {*FIELDS, *BODY}),
    st.integers() | st.text(max_size=5) | st.booleans(),
)
def test_an_unknown_field_is_part_of_the_key(name: str, value: object) -> None:
    try:
        changed = chat({**BODY, name: value})
    except ValueError:  # more than 64 bits, which no JSON body of ours can hold
        return
    assert changed.key != chat().key
    assert changed.scope != chat().scope


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: shuffled(value[name], order) for name in names}
    return [shuffled(each, order) for each in value] if isinstance(value, list) else value


@given(st.randoms(use_true_random=False), st.sets(st.sampled_from(list(ANSWER_FIELDS))))
def test_the_order_of_keys_changes_nothing(order: random.Random, names: set[str]) -> None:
    body = {**BODY, **{name: ANSWER_FIELDS[name] for name in names}}
    assert chat(shuffled(body, order)) == chat(body)


@pytest.mark.parametrize("name", list(ANSWER_FIELDS))
def test_null_is_the_same_as_absent(name: str) -> None:
    without = {key: value for key, value in BODY.items() if key != name}
    assert chat({**without, name: None}) == chat(without)


def test_a_number_keeps_its_form() -> None:
    assert chat({**BODY, "temperature": 1}).key != chat({**BODY, "temperature": 1.0}).key


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "bank"}, {"secret": b"t" * 32}, {"namespace": "x"}, {"sources": (("a", "1"),)},
    ],
)  # fmt: skip
def test_who_asks_and_what_it_stands_on_are_part_of_both(other: Json) -> None:
    assert chat(**other).scope != chat().scope
    assert chat(**other).proof != chat().proof


def test_a_namespace_cannot_be_taken_for_a_tenant() -> None:
    assert chat(tenant="a", namespace="b").scope.key != chat(tenant="b", namespace="a").scope.key
    assert chat(tenant="ab").scope.key != chat(tenant="a", namespace="b").scope.key


def test_kinds_never_share() -> None:
    body = {"model": "m", "prompt": "Why?"}
    one, two = (ask(kind, body, Caller("shop"), Controls(), SECRET) for kind in Kind)
    assert one.scope.key != two.scope.key
    assert one.key != two.key


def test_the_session_is_not_in_the_key() -> None:
    assert chat(session="a").key == chat(session="b").key
    assert chat(session="a").session == "a"


def test_reading_changes_no_body() -> None:
    body = copy.deepcopy({**BODY, "cache": {"question": "sky"}, "messages": [user([text("a"), text("sky b")])]})
    before = copy.deepcopy(body)
    chat(body, question="sky")
    assert body == before


# ── the scope: everything but the question's own words ───────────────────────────────────────────────────────────────


def test_other_words_are_another_question_in_the_same_scope() -> None:
    one, two = chat(said("Why is the sky blue?")), chat(said("How come the sky is blue?"))
    assert one.scope == two.scope
    assert one.key != two.key
    assert one.wording != two.wording
    assert (one.text, two.text) == ("Why is the sky blue?", "How come the sky is blue?")


def test_courtesy_and_case_are_another_key_but_the_same_wording() -> None:
    one, two = chat(said("Why is the sky blue?")), chat(said("please, why is the sky blue"))
    assert one.wording == two.wording
    assert one.key != two.key


TURNS = [
    said("Why?"), said("So?", "Why?"), said({"role": "assistant", "content": "Hm."}, "Why?"),
    said({"role": "system", "content": "a"}, "Why?"),
    said({"role": "system", "content": "b"}, "Why?"), said({"role": "developer", "content": "a"}, "Why?"),
    said({"role": "user", "name": "ann", "content": "Why?"}), said(user([text("Why?")])),
    said(user([text("a"), text("Why?")])),
    said(user([text("b"), text("Why?")])), said("Why?", "So?", "Why?"), said("Why?", temperature=0.1),
    said("Why?", model="m2"),
]  # fmt: skip


def test_any_other_turn_or_field_is_another_scope() -> None:
    assert len({chat(body).scope for body in TURNS}) == len(TURNS)


@pytest.mark.parametrize("body", TURNS)
def test_the_scope_is_equal_when_only_the_last_words_differ(body: Json) -> None:
    other = copy.deepcopy(body)
    last = other["messages"][-1]
    if isinstance(last["content"], str):
        last["content"] = "How so?"
    else:
        last["content"][-1]["text"] = "How so?"
    assert chat(other).scope == chat(body).scope
    assert chat(other).key != chat(body).key


@given(st.text(), st.text(), st.sampled_from(TURNS[:10]), st.sampled_from(TURNS[:10]))
def test_scopes_are_equal_exactly_when_the_rest_is(one: str, two: str, first: Json, second: Json) -> None:
    bodies = []
    for words, shape in ((one, first), (two, second)):
        body = copy.deepcopy(shape)
        last = body["messages"][-1]
        if isinstance(last["content"], str):
            last["content"] = words
        else:
            last["content"][-1]["text"] = words
        bodies.append(body)
    same_scope = chat(bodies[0]).scope == chat(bodies[1]).scope
    assert same_scope is (first == second)
    assert (chat(bodies[0]).key == chat(bodies[1]).key) is (bodies[0] == bodies[1])


def test_nobody_can_write_a_question_that_looks_like_the_hole() -> None:
    hole = "\x00the question"
    bodies = [
        said("Why?"),
        said(hole),
        said(user([text(hole)])),
        said(user([hole])),
        said(user([hole, ["", ""]])),
        said(hole, "Why?"),
    ]
    scopes = [chat(body).scope for body in bodies]
    assert scopes[0] == scopes[1]  # they differ in the question's words only
    assert len(set(scopes)) == len(bodies) - 1
    assert chat(said("Why?"), question="Why?").scope not in scopes


# ── several parts, marked questions ──────────────────────────────────────────────────────────────────────────────────


def test_of_several_text_parts_the_last_is_the_question() -> None:
    found = chat(said(user([text("Context: refunds take 5 days."), text("How long do refunds take?")])))
    assert found.text == "How long do refunds take?"


CONTEXT = "Documents: refunds take 5 days.\n\nQuestion: {}\nAnswer briefly."


def marked(words: str, context: str = CONTEXT) -> Question:
    return chat(said(context.format(words)), question=words)


def test_a_marked_question_is_compared_and_what_stands_around_it_joins_the_scope() -> None:
    one, two = marked("How long do refunds take?"), marked("When is my money back?")
    assert one.text == "How long do refunds take?"
    assert one.scope == two.scope
    assert one.scope != marked("How long do refunds take?", CONTEXT.replace("5", "6")).scope


def test_marking_moves_no_key() -> None:
    assert marked("How long do refunds take?").key == chat(said(CONTEXT.format("How long do refunds take?"))).key


@pytest.mark.parametrize(("content", "mark"), [("Why is it so?", "When?"), ("Why? Why?", "Why?"), ("", "Why?")])
def test_a_mark_that_is_not_there_once_leaves_only_bytes_to_compare(content: str, mark: str) -> None:
    found = chat(said(content), question=mark)
    assert (found.text, found.wording) == (None, None)
    assert Trait.NO_TEXT in found.traits
    assert found.key == chat(said(content)).key


def test_before_and_after_the_mark_are_not_interchangeable() -> None:
    assert chat(said("aa Why? "), question="Why?").scope != chat(said(" Why?aa "), question="Why?").scope


# ── what is compared byte for byte only ──────────────────────────────────────────────────────────────────────────────

TOOL = [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize(
    ("body", "trait"),
    [
        (said(user([text("What is this?"), IMAGE])), Trait.NOT_TEXT),
        (said(user([IMAGE]), "What is it?"), Trait.NOT_TEXT),
        (said(user([text("a"), {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}])),
        Trait.NOT_TEXT),
        (said({"role": "assistant", "content": None, "audio": {"id": "a"}}, "Go on"), Trait.NOT_TEXT),
        (said("Why?", modalities=["text", "audio"]), Trait.NOT_TEXT),
        (said("Why?", logprobs=True), Trait.LOGPROBS), (said("Why?", top_logprobs=2), Trait.LOGPROBS),
        (said("Why?", prompt_logprobs=1), Trait.LOGPROBS),
        (said("Why?", n=2), Trait.SEVERAL_CHOICES), (said("Why?", best_of=3), Trait.SEVERAL_CHOICES),
        (said("Why?", tools=TOOL), Trait.TOOLS), (said("Why?", functions=[{"name": "f"}]), Trait.TOOLS),
        (said("Why?", {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}, "And?"), Trait.TOOL_RESULTS),
        (said("Why?", {"role": "tool", "tool_call_id": "a", "content": "42"}), Trait.TOOL_RESULTS),
        (said("Why?", {"role": "function", "name": "f", "content": "42"}, "And?"), Trait.TOOL_RESULTS),
        (said("Why?", response_format={"type": "json_object"}), Trait.STRUCTURED),
        (said("Why?", response_format="odd"), Trait.STRUCTURED), (said("Why?", guided_choice=["a"]), Trait.STRUCTURED),
        (said("Why?", structured_outputs={"regex": "x"}), Trait.STRUCTURED),
        (said("  "), Trait.NO_TEXT), (said(""), Trait.NO_TEXT), (said(user(None)), Trait.NO_TEXT),
        (said(user([])), Trait.NO_TEXT),
        (said("Why?", {"role": "assistant", "content": "Because"}), Trait.NO_TEXT),
        ({"messages": []}, Trait.NO_TEXT), ({"messages": "Why?"}, Trait.NO_TEXT),
        ({"messages": ["Why?"]}, Trait.NO_TEXT), ({}, Trait.NO_TEXT),
    ],
)  # fmt: skip
def test_such_a_request_is_exact_only(body: Json, trait: Trait) -> None:
    found = chat(body)
    assert trait in found.traits
    assert found.wording is None
    assert found.text is None or not found.text.strip()


@pytest.mark.parametrize(
    "body",
    [
        said("Why?", n=1), said("Why?", tools=[]), said("Why?", logprobs=False),
        said("Why?", response_format={"type": "text"}),
        said("Why?", modalities=["text"]), said("Why?", best_of=1), said("Why?", top_logprobs=0),
    ],
)  # fmt: skip
def test_such_a_request_is_an_ordinary_one(body: Json) -> None:
    assert chat(body).text == "Why?"
    assert chat(body).traits == frozenset()


def test_a_raw_prompt_is_compared_by_bytes() -> None:
    found = ask(Kind.COMPLETION, {"model": "m", "prompt": "Once upon a time"}, Caller("shop"), Controls(), SECRET)
    assert (found.text, found.wording) == (None, None)
    assert found.traits == {Trait.NO_TEXT}


# ── what the words say ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "trait"),
    [
        (said("Where is my order?"), Trait.ACCOUNT),
        (said("My order number is 4821377.", {"role": "assistant", "content": "Thanks."}, "How do I pay?"),
        Trait.PERSONAL),
        (said(user([text("My order number is 4821377."), text("How do I pay?")])), Trait.PERSONAL),
        (said(user([text("Where is my order?"), IMAGE])), Trait.ACCOUNT),
        (said("Where is my order?", tools=TOOL), Trait.ACCOUNT),
        (said("Where is my order?", {"role": "tool", "tool_call_id": "a", "content": "shipped"}), Trait.ACCOUNT),
        (said(user(["Where is my order 70415?"])), Trait.PERSONAL),
        (said(user(["Where is my order?", IMAGE])), Trait.ACCOUNT),
        (said(user([{"type": "input_text", "text": "Where is my order?"}])), Trait.ACCOUNT),
        (said(user([{"text": "Where is my order?"}])), Trait.ACCOUNT),
        (said(user([{"type": "tomorrow", "inside": [{"deeper": "Where is my order?"}]}])), Trait.ACCOUNT),
        (said(user({"type": "text", "text": "Where is my order?"})), Trait.ACCOUNT),
        (said({"role": "customer", "content": "Where is my order?"}), Trait.ACCOUNT),
        (said({"role": "User", "content": "Where is my order?"}, "And the other?"), Trait.ACCOUNT),
        (said({"content": "Where is my order?"}), Trait.ACCOUNT),
        (said({"role": "user", "name": "ann@example.org", "content": "How do I pay?"}), Trait.PERSONAL),
        (said("Where is my order?", {"role": "assistant", "content": "Which?"}, "The blue shoes"), Trait.ACCOUNT),
        (said("我的快递到哪了？", {"role": "assistant", "content": "哪一个？"}, "蓝色的鞋"), Trait.ACCOUNT),
        (said("Where is my order?", user([IMAGE])), Trait.ACCOUNT),
        (said("Hi", {"role": "tool", "tool_call_id": "a", "content": "Ann, ann@example.org"}, "And?"), Trait.PERSONAL),
        ({"messages": ["Where is my order?"]}, Trait.ACCOUNT), ({"messages": "Where is my order?"}, Trait.ACCOUNT),
        (said("How do I pay?", documents=[{"text": "My name is Ann."}]), Trait.PERSONAL),
        (said("What is the weather today?"), Trait.TIME_BOUND),
        (said(user([text("What is the weather today?"), IMAGE])), Trait.TIME_BOUND),
        (said("Write a poem about rain"), Trait.CREATIVE),
    ],
)  # fmt: skip
def test_the_callers_words_set_traits_even_where_only_bytes_are_compared(body: Json, trait: Trait) -> None:
    assert trait in chat(body).traits


@pytest.mark.parametrize(
    ("prompt", "trait"), [("Where is my order?", Trait.ACCOUNT), ("The weather today is", Trait.TIME_BOUND)]
)
def test_a_raw_prompt_has_traits_too(prompt: str, trait: Trait) -> None:
    assert trait in ask(Kind.COMPLETION, {"prompt": prompt}, Caller("shop"), Controls(), SECRET).traits


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": ["Where is my order?"]}, {"prompt": ["Hello", "Where is my order?"]},
        {"prompt": "Dear Sir,", "suffix": "My order number is 70415."}, {"prompt": [[1, 2, 3]]}, {"prompt": [1, 2, 3]},
        {"prompt_embeds": "AAAA"},
    ],
)  # fmt: skip
def test_a_raw_prompt_in_another_form_is_no_way_around(fields: Json) -> None:
    """What cannot be read, such as token ids, is kept to its session."""
    assert {Trait.PERSONAL, Trait.ACCOUNT} & ask(Kind.COMPLETION, fields, Caller("shop"), Controls(), SECRET).traits


def test_the_operators_and_the_assistants_words_make_nothing_personal() -> None:
    turns = [{"role": role, "content": "Write to ann@example.org"} for role in ("system", "developer", "assistant")]
    assert chat(said(*turns, "How do I pay?")).traits == frozenset()


@pytest.mark.parametrize(
    ("message", "mark"),
    [
        ("I mean my order of last week. Where is it?", "Where is it?"),
        ("My order is 48213 and I live in Cork. What is the limit?", "What is the limit?"),
        ("Where is my bag?\nHow do I pay?", "How do I pay?"),
    ],
)
def test_marking_a_question_hides_nothing_that_the_caller_said_around_it(message: str, mark: str) -> None:
    found = chat(said(message), question=mark)
    assert found.text == mark
    assert {Trait.PERSONAL, Trait.ACCOUNT} & found.traits


HEAVY = [
    said("the cat sat. " * 300_000, "hi"), said(*["yes"] * 50_000, "hi"), said(user([text("yes")] * 50_000)),
    said(user(["yes"] * 50_000)), said("hi", documents=["yes"] * 50_000),
]  # fmt: skip


@pytest.mark.parametrize("body", HEAVY)
def test_what_is_too_much_to_read_is_compared_by_bytes_only(body: Json) -> None:
    found = chat(body)
    assert Trait.LONG_TEXT in found.traits
    assert (found.text, found.wording) == (None, None)
    assert found.key == chat(copy.deepcopy(body)).key


def test_the_documents_around_a_marked_question_are_not_the_callers_words() -> None:
    found = chat(said("Contact: help@shop.example, +1 555 010 9999.\nQ: How do I pay?"), question="How do I pay?")
    assert found.traits == frozenset()


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 0.0}, {"seed": 7}])
def test_who_wants_the_same_every_time_may_have_it(fields: Json) -> None:
    assert Trait.CREATIVE in chat(said("Write a poem about rain", temperature=0.7)).traits
    assert Trait.CREATIVE not in chat(said("Write a poem about rain", **fields)).traits


# ── limits and odd bodies ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None), ({"max_tokens": None}, None), ({"max_tokens": 5}, 5), ({"max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 5), ({"max_tokens": 9, "max_completion_tokens": None}, 9),
        ({"max_tokens": "5"}, 0), ({"max_tokens": True}, 0), ({"max_tokens": 5.5}, 0), ({"max_tokens": -1}, -1),
        ({"max_tokens": []}, 0),
    ],
)  # fmt: skip
def test_the_smaller_limit_counts_and_an_odd_one_fits_no_answer(fields: Json, limit: int | None) -> None:
    assert chat(said("Why?", **fields)).limit == limit


@pytest.mark.parametrize("model", [None, 7, [], "", {"id": "m"}])
def test_a_model_that_is_no_name_is_none(model: object) -> None:
    assert chat(said("Why?", model=model)).scope.model == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["messages", "role", "content", "user", "type", "text", "prompt", "tools", "n", "model",
        "max_tokens"]), inner, max_size=5
    ),
    max_leaves=15,
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(["messages", "prompt", "model", "tools", "response_format", "n", "stop"]), JSON),
    st.sampled_from(list(Kind)),
)
def test_any_body_becomes_a_question_with_a_key(body: Json, kind: Kind) -> None:
    found = ask(kind, body, Caller("shop"), Controls(), SECRET)
    assert len(found.key) == len(found.proof) == len(found.scope.key) == 32
    assert found == ask(kind, copy.deepcopy(body), Caller("shop"), Controls(), SECRET)


TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system", "assistant", "tool", "nobody"]), "content": JSON}
)


@given(st.lists(TURN, max_size=4), st.none() | st.text(min_size=1, max_size=3))
def test_any_conversation_becomes_a_question(messages: list[Json], mark: str | None) -> None:
    found = chat({"messages": messages}, question=mark)
    assert found.text is None or found.text in str(messages) or repr(found.text)[1:-1] in str(messages)
