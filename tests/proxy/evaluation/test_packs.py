"""Files that people bring: what is read of them, and what they are told when a line is no good."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials import lines, stream

from proxy.evaluation.packs import PackError, PackKind, first_of, parse, read_pack, split


def test_a_stream_keeps_its_order_and_its_answers() -> None:
    pack = stream(("Where is my parcel?", "parcel"), ("How do I pay?", "pay"))
    assert (pack.name, pack.kind, len(pack)) == ("shop", PackKind.STREAM, 2)
    assert [(each.text, each.answer_id) for each in pack.arrivals] == [
        ("Where is my parcel?", "parcel"), ("How do I pay?", "pay"),
    ]  # fmt: skip


def test_pairs_are_known_by_their_own_words() -> None:
    pack = parse(lines({"a": "Pay by card?", "b": "Pay cash?", "same": False, "category": "entity"}), "traps")
    assert pack.kind is PackKind.PAIRS
    pair = pack.pairs[0]
    assert (pair.stored.text, pair.asked.text, pair.same, pair.category) == (
        "Pay by card?", "Pay cash?", False, "entity",
    )  # fmt: skip


def test_whole_chats_can_be_pairs() -> None:
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    row = {"a_messages": [*chat, {"role": "user", "content": "and now?"}], "b_messages": chat[:1], "same": False}
    pair = parse(lines(row), "chats").pairs[0]
    assert (pair.stored.text, pair.asked.text) == ("and now?", "Hi")
    assert len(pair.stored.body["messages"]) == 3


def test_a_log_of_request_bodies_keeps_what_belongs_to_the_request_and_nothing_else() -> None:
    row = {
        "model": "m", "messages": [{"role": "user", "content": "Why?"}], "temperature": 0, "answer": "Because.",
        "at": "2026-05-01T12:00:00Z", "tenant": "acme", "rating": 5,
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }  # fmt: skip
    arrival = parse(lines(row), "log", log=True).arrivals[0]
    assert dict(arrival.body) == {"model": "m", "messages": row["messages"], "temperature": 0}
    assert (arrival.tenant, arrival.at_s, arrival.tokens, arrival.answer_tokens) == ("acme", 1777636800.0, 10, 3)
    assert arrival.answer == "Because."


def test_a_recorded_reply_gives_its_text_and_its_usage() -> None:
    reply = {"choices": [{"message": {"content": "At nine."}}], "usage": {"total_tokens": 12, "completion_tokens": 4}}
    arrival = parse(lines({"question": "When?", "response": reply}), "log").arrivals[0]
    assert (arrival.answer, arrival.tokens, arrival.answer_tokens) == ("At nine.", 12, 4)


def test_equal_answers_are_one_answer_where_no_id_says_so() -> None:
    pack = parse(lines({"query": "a?", "answer": "At nine."}, {"query": "b?", "answer": " at  NINE. "}), "log")
    assert pack.arrivals[0].answer_id == pack.arrivals[1].answer_id


def test_a_log_with_times_is_replayed_in_their_order() -> None:
    log = lines({"query": "late", "at": 20}, {"query": "early", "at": 10_000}, {"query": "first", "at": 5})
    assert [each.text for each in parse(log, "log", log=True).arrivals] == ["first", "late", "early"]


def test_times_do_not_change_the_order_of_a_pack_with_known_answers() -> None:
    rows = ({"query": text, "answer_id": "1", "at": at} for text, at in (("late", 20), ("early", 10)))
    assert [(each.text, each.at_s) for each in parse(lines(*rows), "p").arrivals] == [("late", None), ("early", None)]


def test_milliseconds_are_seen_to_be_milliseconds() -> None:
    assert parse(lines({"query": "q", "at": 1_777_636_800_000}), "log", log=True).arrivals[0].at_s == 1_777_636_800.0


GOOD = {"query": "How?", "answer_id": "1"}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{not json", "not JSON"),
        ("[1, 2]", "a JSON list and no object"),
        ('{"query": ""}', "no question in it"),
        ('{"query": "x"}', '"answer_id" or "answer" is missing'),
        ('{"a": "x", "b": "y", "same": true}', "this is a pair, but the file began with questions"),
        ('{"messages": "hello", "answer_id": "1"}', '"messages" must be a list of turns'),
        ('{"query": "x", "answer_id": "1", "tokens": -3}', "expected a number of tokens"),
        ('{"query": "x", "answer": ["no"]}', '"answer" must be a text'),
    ],
)
def test_a_bad_line_is_named_with_what_was_expected_there(bad: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "pack.jsonl"
    file.write_text(f"{json.dumps(GOOD)}\n\n{bad}\n", encoding="utf-8")
    with pytest.raises(PackError) as told:
        read_pack(file)
    assert str(told.value).startswith(f"{file}, line 3: ")
    assert says in str(told.value)


def test_a_time_that_is_none_is_named() -> None:
    with pytest.raises(PackError, match="line 1: \"at\" is 'yesterday'; expected seconds since 1970"):
        parse(lines({"query": "x", "at": "yesterday"}), "log", log=True)


def test_a_pair_without_a_label_is_no_pair() -> None:
    with pytest.raises(PackError, match=r'line 2: "same" must be true or false'):
        parse(lines({"a": "x", "b": "y", "same": True}, {"a": "x", "b": "y"}), "p")
    with pytest.raises(PackError, match=r'line 1: "b" must be a text'):
        parse(lines({"a": "x", "same": True}), "p")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "holds no lines"), (b"\xff\xfe\x00", "is not UTF-8 text"), (None, "cannot be read: No such file")],
)
def test_a_file_that_cannot_be_read_is_named(content: bytes | None, says: str, tmp_path: Path) -> None:
    file = tmp_path / "pack.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PackError) as told:
        read_pack(file)
    assert str(file) in str(told.value)
    assert says in str(told.value)


def test_a_mark_at_the_beginning_of_a_file_is_no_bad_line(tmp_path: Path) -> None:
    file = tmp_path / "pack.jsonl"
    file.write_text(json.dumps(GOOD), encoding="utf-8-sig")
    assert len(read_pack(file)) == 1


def test_a_line_separator_inside_a_question_does_not_end_the_line() -> None:
    assert stream(("one\u2028two", "1")).arrivals[0].text == "one\u2028two"
    assert parse('{"query": "one\u2028two", "answer_id": "1"}', "p").arrivals[0].text == "one\u2028two"


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading_but_by_its_own_error(text: str) -> None:
    try:
        parse(text, "any")
    except PackError as told:
        assert str(told)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_no_value_in_a_known_field_breaks_the_reading(value: object) -> None:
    for name in ("query", "messages", "answer", "answer_id", "at", "tokens", "usage", "a", "same", "body", "tenant"):
        try:
            parse(lines({"query": "q", "answer_id": "1", "a": "x", "b": "y", name: value}), "any", log=True)
        except PackError as told:
            assert "line 1" in str(told)


def test_a_share_of_a_pack_is_its_beginning() -> None:
    pack = stream(*((f"q{number}", "1") for number in range(10)))
    assert len(first_of(pack, 0.5)) == 5
    assert len(first_of(pack, 1.0, 3)) == 3
    assert len(first_of(pack, 0.001)) == 1
    learned, rest = split(pack, 0.3)
    assert ([each.text for each in learned], rest.arrivals[0].text, len(rest)) == (["q0", "q1", "q2"], "q3", 7)


def test_one_question_cannot_be_cut_in_two() -> None:
    with pytest.raises(PackError, match="cut in two"):
        split(stream(("only", "1")), 0.5)
