"""What an operator may write to take the changing part out of a system prompt, and what is refused with a way out."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.templates import HOLES, read_pattern, read_split, take_out


def emptied(pattern: str, text: str) -> str:
    return take_out(text, (read_pattern(pattern),))[0].replace("\x00", "$")


@pytest.mark.parametrize(
    ("pattern", "text", "left"),
    [
        ("Today is {date}.", "Today is Tuesday, 1 December 2026. Be kind.", "Today is $date. Be kind."),
        ("Today is {date}", "today  is\n2026-12-01 and so on", "today  is\n$date and so on"),
        ("Now: {datetime}", "Now: 2026-12-01T10:00:03.123Z\n", "Now: $datetime\n"),
        ("Now: {datetime}", "Now: Dec 1, 2026 at 10:00 PM.", "Now: $datetime."),
        ("The time is {time} now", "The time is 10:32 now", "The time is $time now"),
        ("trace={time}", "trace=1733050000123 x", "trace=$time x"),
        ("The user is {name}", "The user is Anna Miller and premium.", "The user is $name and premium."),
        ("User {name} is logged", "User Anna van der Miller is logged in", "User $name is logged in"),
        ("用户：{name}", "用户：王小明，你好", "用户：$name，你好"),
        ("今天是{date}", "你好，今天是2026年12月1日星期二。", "你好，今天是$date。"),
        ("Request id: {id}", "Request id: req_abc-123.", "Request id: $id."),
        ("session {line}", "session a b c\nnext", "session $line\nnext"),
        ("in {{braces}} {id}", "in {braces} a1", "in {braces} $id"),
    ],
)
def test_what_stands_in_a_hole_is_taken_out_and_nothing_else(pattern: str, text: str, left: str) -> None:
    assert emptied(pattern, text) == left


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("Today is {date}", "Today is a good day."),
        ("The user is {name}", "The user is premium."),  # whoever is premium gets other answers
        ("day is {date}", "Today is 2026-12-01"),
        ("用户：{name}", "用户：王小明是会员"),
        ("Version {number}", "Version x"),
    ],
)
def test_a_text_that_is_not_meant_stays_as_it_is(pattern: str, text: str) -> None:
    assert take_out(text, (read_pattern(pattern),)) == (text, ())


def test_what_was_taken_is_told_with_its_kind() -> None:
    pattern = read_pattern("User {name}, id {id}")
    assert [(each.kind, each.value) for each in take_out("User Anna, id 5d1f", (pattern,))[1]] == [
        ("name", "Anna"), ("id", "5d1f"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "way_out"),
    [
        ("", "such as"), ("Today", "takes nothing out"), ("Today is {dat}", "{date}"), ("{date}", "must begin with"),
        ("12 {date}", "must begin with"), ("Date {date}{time}", "words must stand between"), ("user {", "write {{"),
        ("user } {id}", "write }}"), ("all {line} of", "nothing may follow"), ("user {id}and more", "own example"),
        ("user " + "x" * 400 + "{id}", "1 to 300"), 
        ("us a {id} b {id} c {id} d {id}", "several patterns"),
    ],
)  # fmt: skip
def test_a_pattern_that_cannot_work_is_refused_with_what_would_be_right(source: str, way_out: str) -> None:
    with pytest.raises(ValueError, match=re.escape(way_out)):
        read_pattern(source)


@given(st.sampled_from(sorted(HOLES)), st.text(max_size=200))
def test_no_text_is_changed_outside_of_the_holes(kind: str, text: str) -> None:
    left, taken = take_out(text, (read_pattern(f"value is {{{kind}}}"),))
    for each in taken:
        assert each.value in text
        left = left.replace(f"\x00{kind}", each.value, 1)
    assert left == text


@pytest.mark.parametrize("unit", ["aa ", "aa Aa ", "aa 2026-12-", "aa 1", "今天", "aa aa.aa-", "aa Aa van der "])
@pytest.mark.parametrize("kind", sorted(HOLES))
def test_no_text_can_make_a_pattern_hang(kind: str, unit: str) -> None:
    """Linear: a text of ten times the length takes no more than some ten times as long, and never seconds."""
    ends = "" if kind == "line" else " at last, {name}: x"
    pattern = (read_pattern(f"aa {{{kind}}}{ends}"), read_pattern(f"今天{{{kind}}}"))
    began = time.process_time()
    take_out(unit * 1_000_000, pattern)
    assert time.process_time() - began < 1.0


def test_the_question_is_found_in_a_longer_message() -> None:
    split = read_split("Context:\n{documents}\n\nQuestion: {question}\nHelpful Answer:")
    text = "Context:\nA\n\nB\n\nQuestion:  How long? \nHelpful Answer:"
    assert split.question_in(text) == "How long?"
    assert split.question_in(text.replace("A\n", "A\n\nQuestion: x\nHelpful Answer:\n")) is None, "which one is it?"
    assert split.question_in("How long?") is None
    assert read_split("{documents}Question: {question}").question_in("A\nQuestion: How long?") == "How long?"


@pytest.mark.parametrize(
    "source",
    ["{question}", "Question: {questions}", "a {question} b {question}", "Q: {documents}{question}", "x" * 301],
)
def test_a_split_without_a_place_for_the_question_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="Question: "):
        read_split(source)
