"""Follow-ups that ask the same of what went before, and pairs that only look as if they did."""

import pytest

from cache.followups import in_passing, of_the_matter, other_sense, sense

SAME = [
    ("How long does that take?", "and how long will it take", "how much time will it need?", "And the duration?"),
    ("那要多久？", "需要多长时间", "大概什么时候能好"),
    ("Is there a fee for that?", "do I pay for this?", "ok, does it cost anything?"),
    ("要收费吗？", "这个要钱吗", "需要付手续费吗"),
    ("What if it doesn't work?", "and if that fails?"),
    ("如果不行怎么办？", "要是失败了呢"),
    ("Can you explain that more simply?", "in easier words please"),
    ("Why?", "but why"),
]  # fmt: skip
DIFFERENT = [
    ("is it free?", "does it cost anything?"),  # a bare "yes" answers the one and not the other
    ("how much does it cost?", "does it cost anything?"),
    ("how long does it last?", "how long does it take?"),
    ("Can I do it on my phone?", "does that work in the mobile app?"),
    ("explain again but shorter", "can you explain that more simply?"),
    ("需要多长时间", "是免费的吗"),
    ("用手机可以弄吗", "时间要多长呢"),
    ("How long does that take?", "那要多久？"),
]  # fmt: skip
NONE = [
    "How long does delivery take?", "does it cost anything on Sundays?", "is it free for students?",
    "why is the sky blue?",
    "can I do it on my tablet?", "退货需要多长时间", "学生要收费吗", "", "how long does it take in Germany", "not why",
]  # fmt: skip


@pytest.mark.parametrize("group", SAME)
def test_one_sense_in_other_words(group: tuple[str, ...]) -> None:
    assert len({sense(text) for text in group}) == 1 and sense(group[0]) is not None


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_near_senses_stay_apart(one: str, other: str) -> None:
    assert sense(one) != sense(other)
    assert other_sense(one, other) is not None and other_sense(other, one) is not None


@pytest.mark.parametrize("text", NONE)
def test_one_word_more_and_there_is_none(text: str) -> None:
    assert sense(text) is None


def test_two_texts_without_a_sense_are_left_to_the_others() -> None:
    assert other_sense("How do I reset my password?", "How can I reset my password?") is None


@pytest.mark.parametrize("text", ["How long does that take?", "is it free?", "用手机可以弄吗", "and if that fails?"])
def test_these_ask_of_the_matter(text: str) -> None:
    assert of_the_matter(text)


@pytest.mark.parametrize(
    "text", ["Why?", "Can you explain that more simply?", "tell me more", "举个例子", "How do I pay?"]
)
def test_these_ask_of_the_last_answer_or_of_something_of_their_own(text: str) -> None:
    assert not of_the_matter(text)


TALK = ["How do I renew my passport?", "At the town hall, in person."]


@pytest.mark.parametrize(
    ("text", "answer"),
    [("Is it free?", "Yes, it is free."), ("How long does that take?", "About 3 weeks."), ("要多久？", "大概需要5天。"),
     ("explain again but shorter", "In person, at the town hall.")],
)  # fmt: skip
def test_after_these_the_talk_is_of_the_same_matter(text: str, answer: str) -> None:
    assert in_passing(text, answer, TALK)


@pytest.mark.parametrize(
    ("text", "answer"),
    [("Is it free?", "Only the express service costs something."), ("How long does that take?", "Ask the embassy."),
     ("Why?", "Yes."), ("What if it doesn't work?", "No."), ("Can I do it on my phone?", "Yes."),
     ("And for children?", "Yes."), ("要多久？", "加急服务要两天。")],
)  # fmt: skip
def test_what_brings_something_new_into_the_talk_is_no_aside(text: str, answer: str) -> None:
    assert not in_passing(text, answer, TALK)
