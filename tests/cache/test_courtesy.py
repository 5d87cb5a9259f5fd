"""What is only polite is taken off, and nothing else."""

import pytest

from cache.courtesy import without_courtesy


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Hi! Where do I vote?", "Where do I vote?"),
        ("Hey team, quick question: where do I vote?", "where do I vote?"),
        ("Good morning, could you please tell me where I vote", "where I vote"),
        ("um where do I vote", "where do I vote"),
        ("I'd like to know where I vote", "where I vote"),
        ("I was wondering if I can vote", "if I can vote"),
        ("Do you happen to know who can vote?", "who can vote?"),
        ("Please cancel it", "cancel it"),
        ("Could you please cancel it, thanks a lot!", "cancel it"),
        ("Where do I vote? Many thanks", "Where do I vote"),
        ("Where do I vote?\nKind regards", "Where do I vote?"),
        ("Where do I vote please", "Where do I vote"),
    ],
)
def test_greetings_and_thanks_go(text: str, rest: str) -> None:
    assert without_courtesy(text, "en").rstrip("?") == rest.rstrip("?")


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("你好，怎么投票？", "怎么投票？"),
        ("您好！请问一下怎么投票，谢谢您", "怎么投票"),
        ("麻烦告诉我怎么投票", "怎么投票"),
        ("请介绍一下黑洞", "介绍黑洞"),
        ("我想知道怎么投票", "怎么投票"),
    ],
)
def test_the_same_in_chinese(text: str, rest: str) -> None:
    assert without_courtesy(text, "zh") == rest


@pytest.mark.parametrize("text", ["hello", "Hi there!", "Thanks!", "thank you so much", "good evening"])
def test_courtesy_alone_leaves_nothing(text: str) -> None:
    assert without_courtesy(text, "en") == ""


@pytest.mark.parametrize("text", ["你好", "谢谢！", "在吗？"])
def test_courtesy_alone_leaves_nothing_in_chinese(text: str) -> None:
    assert without_courtesy(text, "zh") == ""


@pytest.mark.parametrize(
    "text",
    [
        "How do you say thank you in Thai?",
        "What does hello mean",
        "Hello World program",
        "hey jude chords",
        "well water testing",
        "Can you swim?",
        "Could you swim across the lake",
        "Do you know Ann?",
        "I want to know more",
        "Who sang Thank You",
        "Write a letter of thanks",
        "so long",
    ],
)
def test_a_text_about_such_words_is_left_alone(text: str) -> None:
    assert without_courtesy(text, "en") == text


@pytest.mark.parametrize(
    "text", ["你好吗", "谢谢用英语怎么说", "请假流程", "请客吃什么", "一下子就好了", "请勿吸烟", "你好厉害"]
)
def test_a_chinese_text_about_such_words_is_left_alone(text: str) -> None:
    assert without_courtesy(text, "zh") == text


def test_another_language_is_left_alone() -> None:
    assert without_courtesy("Hi, wie geht das? Thanks!", "other") == "Hi, wie geht das? Thanks!"
