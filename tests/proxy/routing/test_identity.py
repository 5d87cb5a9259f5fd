from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from proxy.routing.identity import (
    Identity,
    Source,
    Strength,
    has_history,
    identify,
    new_cookie,
    opening_of,
    read_cookie,
    sign_cookie,
)
from proxy.routing.keys import KeyWatch
from proxy.routing.pins import Pins
from proxy.routing.workers import Worker

SECRET = b"a secret for tests"


def who(
    body: dict[str, Any] | None = None,
    /,
    cookies: dict[str, str] | None = None,
    tenant: str = "t",
    watch: KeyWatch | None = None,
    **headers: str,
) -> Identity | None:
    named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return identify(named, body or {}, cookies or {}, tenant, SECRET, watch=watch)


def chat(*turns: str, system: str = "Be kind.", **fields: Any) -> dict[str, Any]:
    """User and assistant in turn, the user first."""
    roles = ("user", "assistant")
    messages = [{"role": "system", "content": system}] if system else []
    messages += [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]
    return {"model": "m", "messages": messages, **fields}


def test_names_count_in_the_promised_order() -> None:
    cookie = new_cookie(SECRET)
    body = chat(
        "hi",
        session_id="a",
        conversation={"id": "b"},
        previous_response_id="c",
        prompt_cache_key="d",
        user="e",
        safety_identifier="f",
    )
    everything = who(body, cookies={"rejoinder_session": cookie}, x_session_id="h")
    assert everything is not None and everything.source is Source.HEADER
    order = [
        ("session_id", Source.SESSION_ID, Strength.STRONG),
        ("conversation", Source.CONVERSATION, Strength.STRONG),
        ("previous_response_id", Source.PREVIOUS_RESPONSE, Strength.WEAK),
        ("prompt_cache_key", Source.PROMPT_CACHE_KEY, Strength.WEAK),
        (None, Source.COOKIE, Strength.STRONG),
        ("user", Source.USER, Strength.WEAK),
        ("safety_identifier", Source.SAFETY_IDENTIFIER, Strength.WEAK),
    ]
    cookies = {"rejoinder_session": cookie}
    for field, source, strength in order:
        identity = who(body, cookies=cookies)
        assert identity is not None and (identity.source, identity.strength) == (source, strength)
        if field is None:
            cookies = {}
        else:
            del body[field]
    last = who(body)
    assert last is not None and (last.source, last.strength) == (Source.OPENING, Strength.WEAK)


def test_the_id_is_a_digest_and_never_the_raw_value() -> None:
    identity = who(x_session_id="chat-42")
    assert identity is not None
    assert len(identity.id) == 32 and set(identity.id) <= set("0123456789abcdef")
    assert "chat-42" not in repr(identity)


def test_the_same_name_in_the_header_and_in_the_body_is_one_session() -> None:
    assert who(x_session_id="chat-42").id == who({"session_id": "chat-42"}).id
    assert who({"user": "u"}).id == who({"safety_identifier": "u"}).id
    assert who({"conversation": "u"}).id == who({"conversation": {"id": "u"}}).id


def test_the_same_value_from_another_tenant_kind_or_secret_is_another_session() -> None:
    ids = {
        who(x_session_id="v").id,
        who(x_session_id="v", tenant="u").id,
        who({"conversation": "v"}).id,
        who({"prompt_cache_key": "v"}).id,
        who({"user": "v"}).id,
        identify(CIMultiDict({"X-Session-ID": "v"}), {}, {}, "t", b"another").id,
    }
    assert len(ids) == 6


def test_tenant_and_value_cannot_be_confused_with_one_another() -> None:
    assert who(x_session_id="x", tenant="ab").id != who(x_session_id="bx", tenant="a").id


@pytest.mark.parametrize("value", ["", "   ", "x" * 257, "a\nb", "a\x00b", "\x7f"])
def test_a_name_that_is_not_sane_is_ignored(value: str) -> None:
    assert who(chat("hi"), x_session_id=value).source is Source.OPENING
    assert who({"session_id": value}) is None


@pytest.mark.parametrize("value", [None, 7, 1.5, True, [], {}, ["a"], {"id": 3}])
def test_a_name_that_is_not_text_is_ignored(value: object) -> None:
    fields = ("session_id", "conversation", "previous_response_id", "prompt_cache_key", "user")
    assert who(dict.fromkeys(fields, value)) is None


def test_names_in_any_language_are_names() -> None:
    assert who({"session_id": "会话-四十二"}).source is Source.SESSION_ID


def test_request_ids_are_never_sessions() -> None:
    """CASES 1: the same chat under random request ids keeps its id."""
    first = who(chat("hi"), x_request_id="1", x_trace_id="2", x_correlation_id="3", traceparent="4")
    second = who(chat("hi"), x_request_id="5", x_trace_id="6", x_correlation_id="7", traceparent="8")
    assert first == second and first.source is Source.OPENING


def test_later_turns_of_a_chat_keep_its_id() -> None:
    turns = ["How do I reset my password?", "Click on …", "And on a phone?", "Open …", "Thanks!"]
    ids = {who(chat(*turns[:n])).id for n in (1, 3, 5)}
    assert len(ids) == 1


def test_other_openings_and_other_system_texts_are_other_chats() -> None:
    others = who(chat("a")), who(chat("b")), who(chat("a", system="x")), who(chat("a"), tenant="u")
    assert len({identity.id for identity in others}) == 4


def test_what_a_client_puts_in_after_the_first_question_does_not_move_the_chat() -> None:
    body = chat("hi", "hello", "next")
    body["messages"].insert(3, {"role": "system", "content": "It is 10:31."})
    assert who(body).id == who(chat("hi")).id


def test_parts_and_images_open_a_chat_too() -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:…"}}]
    same = [dict(reversed(part.items())) for part in parts]
    first = who({"messages": [{"role": "user", "content": parts}]})
    assert first.id == who({"messages": [{"content": same, "role": "user"}]}).id
    assert first.id != who({"messages": [{"role": "user", "content": parts[:1]}]}).id


def test_responses_and_messages_have_openings() -> None:
    asked = {"instructions": "Be kind.", "input": "hi"}
    assert who(asked).id == who({**asked, "input": [{"role": "user", "content": "hi"}]}).id
    assert who({"system": "Be kind.", "messages": [{"role": "user", "content": "hi"}]}).source is Source.OPENING


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": "Once upon"},
        {"input": "embed me"},
        {"input": ["a", "b"]},
        {"messages": []},
        {"messages": "x"},
        {"messages": [{"role": "system", "content": "x"}]},
        {"messages": [1]},
        {"input": [[1, 2]]},
    ],
)
def test_what_opens_no_conversation_has_no_identity(body: dict[str, Any]) -> None:
    assert who(body) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_survived(value: object) -> None:
    fields = ("messages", "input", "system", "instructions", "session_id", "conversation", "user", "prompt_cache_key")
    for field in fields:
        who({field: value})
    who({"messages": [{"role": "user", "content": value}]})
    who({"messages": [{"role": value, "content": "x"}]})
    has_history({"messages": value})
    opening_of({"messages": [value, {"role": "user"}]})


def test_history_is_seen() -> None:
    assert not has_history(chat("a"))
    assert has_history(chat("a", "b", "c"))
    assert has_history({"input": "x", "previous_response_id": "r"})
    assert not has_history({"input": "x"})


# -- cookies -----------------------------------------------------------------------------------------------------------


def test_a_cookie_counts_only_if_we_signed_it() -> None:
    good = new_cookie(SECRET)
    assert who(cookies={"rejoinder_session": good}).strength is Strength.STRONG
    for bad in ("abc", "abc.", ".", "", "abc." + "0" * 32, good[:-1], good + "0", "x" + good, "é.é", good.upper()):
        assert who(cookies={"rejoinder_session": bad}) is None


def test_cookies_signed_with_an_earlier_secret_are_believed_while_it_is_listed() -> None:
    old = sign_cookie("v", b"old")
    assert read_cookie(old, SECRET) is None
    assert read_cookie(old, SECRET, b"old") == "v"
    identity = identify(CIMultiDict(), {}, {"rejoinder_session": old}, "t", SECRET, previous_secrets=[b"old"])
    assert identity.source is Source.COOKIE


def test_cookies_are_not_guessable_and_not_equal() -> None:
    assert new_cookie(SECRET) != new_cookie(SECRET)
    assert len(new_cookie(SECRET)) == 32 + 1 + 32


# -- keys that are none ------------------------------------------------------------------------------------------------


def test_a_weak_key_that_changes_every_turn_is_skipped_and_the_chat_is_known_by_its_opening() -> None:
    watch = KeyWatch()
    for n in range(60):
        last = who(chat(f"question {n}", "a", "b", prompt_cache_key=f"request-{n}"), watch=watch)
    assert last.source is Source.OPENING
    assert last.warning == "prompt_cache_key: it changes with every request, so it cannot keep a chat on its worker"
    assert (
        who(chat("question 7", "a", "b", "c", "d", prompt_cache_key="request-x"), watch=watch).id
        == who(chat("question 7")).id
    )


def test_a_strong_key_that_changes_every_turn_is_used_with_a_warning() -> None:
    watch = KeyWatch()
    for n in range(60):
        last = who(chat(f"question {n}", "a", "b"), watch=watch, x_session_id=f"request-{n}")
    assert last.source is Source.HEADER and last.strength is Strength.STRONG
    assert last.warning == "X-Session-ID header: it changes with every request, so it cannot keep a chat on its worker"


def test_a_user_everybody_shares_is_skipped() -> None:
    watch = KeyWatch()
    for n in range(220):
        last = who(chat(f"question {n}", user="default"), watch=watch)
    assert last.source is Source.OPENING


def test_an_opening_most_chats_share_is_no_session() -> None:
    watch = KeyWatch()
    for _ in range(220):
        last = who(chat("Hello"), watch=watch)
    assert last is None
    assert who(chat("My printer is on fire"), watch=watch).source is Source.OPENING


# -- threads of the Responses API --------------------------------------------------------------------------------------


def test_turns_that_name_the_previous_response_stay_in_their_session() -> None:
    threads, worker = Pins(), Worker("http://a:1")

    def turn(text: str, previous: str | None, tenant: str = "t") -> Identity:
        body = {"instructions": "Be kind.", "input": text, **({"previous_response_id": previous} if previous else {})}
        identity = identify(CIMultiDict(), body, {}, tenant, SECRET, threads=threads, watch=KeyWatch())
        assert identity is not None
        return identity

    first = turn("hi", None)
    threads.note("t", "resp_1", worker, 0, first.id)
    second = turn("and then?", "resp_1")
    threads.note("t", "resp_2", worker, 0, second.id)
    assert first.id == second.id == turn("and then?", "resp_2").id
    assert turn("and then?", "resp_1", tenant="u").id != first.id
    assert turn("and then?", "resp_unknown").id != first.id
