"""What a key leaves out: the same question on another day is the same question, unless the day may matter."""

from typing import Any

import pytest

from cache.asking import Caller, ask
from cache.entry import Answer
from cache.lineage import in_full, kept_as
from cache.policy import Controls, Rules, flight_key, judge
from cache.question import Kind, Question
from cache.templates import read_pattern, read_split

SECRET = b"s" * 32
PATTERNS = tuple(map(read_pattern, ("Today is {date}.", "The user is {name}.", "Request id: {id}", "今天是{date}")))
RULES = Rules(ignore=PATTERNS, account_questions="shared")
OLD = "Be brief. Today is 2026-12-01. The user is Anna Miller. Request id: 8f3a"
NEW = "Be brief. Today is 2026-12-02. The user is Ben Smith. Request id: 77bc"


def asked(text: str, system: str = OLD, rules: Rules = RULES, *earlier: str, **fields: Any) -> Question:
    talk = [{"role": ("user", "assistant")[at % 2], "content": each} for at, each in enumerate((*earlier, text))]
    body = {"model": "m", "messages": [{"role": "system", "content": system}, *talk], **fields}
    return ask(Kind.CHAT, body, Caller("t"), Controls(), SECRET, rules=rules)


def answer(text: str) -> Answer:
    return Answer(b'{"choices":[{"message":{"content":"%b"}}]}' % text.encode(), 3)


def identity(question: Question) -> tuple[str, str, str]:
    return question.scope.key, question.key, question.proof


@pytest.mark.parametrize("text", ["How do I reset my password?", "Is overtime paid?", "怎么重置密码？"])
def test_another_day_and_another_user_ask_the_same(text: str) -> None:
    one, other = asked(text), asked(text, NEW)
    assert identity(one) == identity(other) and one.counted is None
    assert asked(text, NEW.replace("brief", "long")).scope != one.scope, "what no pattern names still counts"
    assert identity(asked(text, rules=Rules())) != identity(asked(text, NEW, rules=Rules()))
    assert one.leeway is not None and [kind for kind, _ in one.leeway.taken] == ["date", "name", "id"]
    assert identity(asked(text, "Be brief. Today is \x00date. The user is \x00name. Request id: \x00id")) != identity(
        one
    )


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("What day is it today?", "moment"), ("Is it a leap year?", "date or the time"), ("今天几号？", "moment"),
        ("How many days are left in the year?", "moment"), ("How old is somebody born in 1990?", "date"),
        ("When is Easter?", "date or the time"), ("离春节还有几天？", "moment"), ("What is my name?", "own affair"),
        ("Which season are we in?", "date or the time"), ("Who am I?", "own affair"), ("我是谁？", "own affair"),
        ("Write a birthday card and sign it.", "date"), ("What is a request id?", "speaks of"),
        ("What's the user called?", "name"), ("Is the shop open on Sunday?", "date or the time"),
        ("How do I mail anna@example.org?", "own affair"),
    ],
)  # fmt: skip
def test_where_the_value_may_matter_it_counts(text: str, because: str) -> None:
    one, other = asked(text), asked(text, NEW)
    assert identity(one) != identity(other)
    assert one.leeway is None and one.counted is not None and because in one.counted
    assert identity(one)[1:] == identity(asked(text, rules=Rules()))[1:], "then it is known by what it says"


def test_a_follow_up_of_a_question_about_today_counts_the_day_too() -> None:
    earlier = ("What date is it?", "The first of December.")
    assert asked("And in Roman numerals?", OLD, RULES, *earlier).counted is not None
    assert asked("And for companies?", OLD, RULES, "How do I open an account?", "Online.").counted is None


@pytest.mark.parametrize("fields", [{"tools": [{"type": "function", "function": {"name": "f"}}]}, {"logprobs": True}])
def test_what_cannot_be_read_counts_everything(fields: dict[str, Any]) -> None:
    assert asked("Why is the sky blue?", OLD, RULES, **fields).leeway is None


@pytest.mark.parametrize(
    "text",
    ["Hello Anna, under Settings.", "See ticket 8f3a.", "It is 2026.", "We are open tomorrow.", "Until Monday.",
     "30 days left.", "Dear Ms Miller", "At 10:30."],
)  # fmt: skip
def test_an_answer_that_shows_what_was_left_out_is_kept_for_exactly_this_prompt(text: str) -> None:
    question = asked("How do I reset my password?")
    kept = kept_as(question, answer(text))
    assert kept.leeway is not None and identity(kept) == kept.leeway.exact != identity(question)
    found = in_full(question)
    assert found is not None and identity(found) == identity(kept) and in_full(found) is None
    assert in_full(asked("How do I reset my password?", NEW)) != found


def test_an_answer_that_shows_nothing_of_it_is_everybodys() -> None:
    question = asked("How do I reset my password?")
    assert kept_as(question, answer("Under Settings, Security.")) is question


def test_an_answer_of_several_choices_is_not_looked_into_and_kept_exactly() -> None:
    question = asked("How do I reset my password?")
    kept = kept_as(question, Answer(b'{"choices":[]}', 3))
    assert question.leeway is not None and identity(kept) == question.leeway.exact


def test_two_users_never_share_one_generation_while_its_answer_is_unknown() -> None:
    one, other = (asked("How do I reset my password?", system) for system in (OLD, NEW))
    verdict = judge(one, Controls(), RULES)
    assert flight_key(one, verdict) != flight_key(other, verdict)


def test_a_chat_told_on_another_day_is_the_same_chat() -> None:
    earlier = ("How do I open an account?", "Online.")
    one, other = (asked("And for companies?", system, RULES, *earlier) for system in (OLD, NEW))
    assert one.past is not None and other.past is not None
    assert one.past.receipts == other.past.receipts and one.past.exact == other.past.exact


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────────────────

DOCUMENTS = ("Refunds take five days.", "Returns are free for members.", "Cards are replaced at once.")
SOURCES = (("refunds", "7"), ("returns", "2"), ("cards", "1"))


def about(
    documents: Any, question: str = "How long does a refund take?", *, sources: Any = SOURCES, parts: bool = False,
    rules: Rules = RULES,
) -> Question:  # fmt: skip
    lead = "Answer from these documents."
    content: Any = "\n\n".join([lead, *documents, f"Question: {question}"])
    if parts:
        content = [{"type": "text", "text": text} for text in (lead, *documents, f"Question: {question}")]
    body = {"model": "m", "messages": [{"role": "user", "content": content}]}
    return ask(Kind.CHAT, body, Caller("t"), Controls(question=question, sources=sources), SECRET, rules=rules)


@pytest.mark.parametrize("parts", [False, True])
def test_the_same_documents_in_another_order_are_the_same_question(parts: bool) -> None:
    one, other = about(DOCUMENTS, parts=parts), about(DOCUMENTS[::-1], sources=SOURCES[::-1], parts=parts)
    assert identity(one) == identity(other) and one.text == "How long does a refund take?"


def test_a_changed_document_is_another_question_by_its_version_and_by_its_content() -> None:
    one = about(DOCUMENTS)
    assert about(DOCUMENTS, sources=(("refunds", "8"), *SOURCES[1:])).scope != one.scope
    assert about(("Refunds take six days.", *DOCUMENTS[1:])).scope != one.scope
    assert about(DOCUMENTS[:2], sources=SOURCES[:2]).scope != one.scope
    assert about(DOCUMENTS, sources=()).scope != one.scope


def test_without_named_sources_the_order_counts() -> None:
    assert about(DOCUMENTS, sources=()).scope != about(DOCUMENTS[::-1], sources=()).scope


@pytest.mark.parametrize(
    "question",
    ["What does the first document say?", "Summarise the last one.", "Is document 2 right?", "第二篇讲什么？"],
)
def test_a_question_about_the_order_of_the_documents_knows_them_in_one_order(question: str) -> None:
    one, other = about(DOCUMENTS, question), about(DOCUMENTS[::-1], question)
    assert one.scope != other.scope and one.counted is not None


@pytest.mark.parametrize("text", ["Five days [1].", "As the first document says, five days.", "See source 2."])
def test_an_answer_that_cites_by_place_is_kept_for_this_order(text: str) -> None:
    one = about(DOCUMENTS)
    kept = kept_as(one, answer(text))
    assert identity(kept) != identity(one) and identity(kept) != identity(kept_as(about(DOCUMENTS[::-1]), answer(text)))
    assert kept_as(one, answer("Five days.")) is one


def test_labels_that_moved_from_one_document_to_another_are_another_content() -> None:
    one = about([f"[{at}] {text}" for at, text in enumerate(DOCUMENTS, 1)])
    assert one.scope != about([f"[{at}] {text}" for at, text in enumerate(DOCUMENTS[::-1], 1)]).scope


def test_a_tenants_pattern_marks_the_question_where_the_caller_did_not() -> None:
    rules = Rules(splits=(("t", read_split("{documents}Question: {question}")),))
    lead = "Answer from these documents.\n\nRefunds take five days.\n\nQuestion: "
    body = {"model": "m", "messages": [{"role": "user", "content": lead + "How long does a refund take?"}]}
    one = ask(Kind.CHAT, body, Caller("t"), Controls(), SECRET, rules=rules)
    assert one.text == "How long does a refund take?"
    assert ask(Kind.CHAT, body, Caller("other"), Controls(), SECRET, rules=rules).text != one.text
    marked = ask(Kind.CHAT, body, Caller("t"), Controls(question=one.text), SECRET, rules=rules)
    assert identity(marked) == identity(one)
