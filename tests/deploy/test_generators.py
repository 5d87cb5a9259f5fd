"""What the rules make of a question before the reader learns from it: the same asked otherwise, or another question.

A rule that calls two questions the same that are not teaches the reader to serve a wrong answer."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

READER = Path(__file__).resolve().parents[2] / "deploy" / "reader"
MODULES = ("frames", "forms_en", "forms_zh", "generators", "pairs")
SEEDS = range(60)


@pytest.fixture(scope="module")
def reader_modules() -> Iterator[dict[str, ModuleType]]:
    """The scripts of deploy/reader import one another by bare names."""
    sys.path.insert(0, str(READER))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(READER))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.fixture
def generators(reader_modules: dict[str, ModuleType]) -> ModuleType:
    return reader_modules["generators"]


def all_said(way: object, text: str) -> set[str]:
    """What a rule makes of a text, over many seeds, without case and final marks."""
    assert callable(way)
    found = {way(text, random.Random(seed)) for seed in SEEDS}
    return {said.lower().strip("?？. ") for said in found if said}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What time does the museum open?", "when does the museum open"),
        ("When does the museum open?", "what time does the museum open"),
        ("How old do I have to be to vote?", "what is the minimum age to vote"),
        ("What is the minimum age to vote?", "how old do i have to be to vote"),
        ("How do I cancel my order?", "what is the process for cancelling my order"),
        ("Can I bring my dog?", "is it possible to bring my dog"),
        ("Who wrote Emma?", "who is the author of emma"),
        ("What should I do if my card is lost?", "if my card is lost, what should i do"),
        ("能改地址吗", "可以改地址吗"),
        ("怎么取消订单", "订单怎么取消"),
        ("订单怎么取消", "怎么取消订单"),
        ("有没有学生优惠", "有学生优惠吗"),
        ("酒店有游泳池吗？", "酒店有没有游泳池"),
        ("电话是谁发明的？", "谁发明了电话"),
        ("几岁可以开车", "开车的最低年龄是多少"),
    ],
)
def test_a_question_is_asked_in_its_other_forms(generators: ModuleType, text: str, expected: str) -> None:
    assert expected in all_said(generators.reworded, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What time does the museum open?", "what time does the museum close"),
        ("What is the minimum age to vote?", "what is the maximum age to vote"),
        ("How do I cancel my order?", "why can't i cancel my order"),
        ("Who wrote Emma?", "when was emma written"),
        ("能改地址吗", "什么时候能改地址"),
        ("有没有学生优惠", "为什么没有学生优惠"),
        ("电话是谁发明的？", "电话是什么时候发明的"),
    ],
)
def test_what_sounds_alike_and_asks_something_else_is_made_too(
    generators: ModuleType, text: str, expected: str
) -> None:
    assert expected in all_said(generators.misasked, text)


@pytest.mark.parametrize(
    "text",
    [
        "What time does the museum open?", "How do I cancel my order?", "Can I bring my dog?", "Why is the sky blue?",
        "How much does a stamp cost?", "Where can I buy tickets?", "能改地址吗", "怎么取消订单", "酒店有游泳池吗",
        "在哪里买票", "门票多少钱", "为什么天是蓝的", "谁发明了电话", "儿童票什么时候开始卖", "什么是区块链",
    ],
)  # fmt: skip
def test_no_form_is_called_the_same_and_another_at_once(generators: ModuleType, text: str) -> None:
    assert not all_said(generators.reworded, text) & all_said(generators.misasked, text)


@pytest.mark.parametrize("text", ["可以用信用卡付款吗", "坐飞机可以带多大的充电宝", "手机丢了怎么办", "他怎么还没到"])
def test_a_word_is_not_cut_in_two(generators: ModuleType, text: str) -> None:
    for said in all_said(generators.reworded, text):
        assert "可以可以" not in said
        assert "信 用" not in said and "信能" not in said
        assert not said.startswith("怎么办手机")
        assert "还没到的" not in said


@pytest.mark.parametrize(
    "text", ["How do I freeze my debit card?", "怎么冻结我的借记卡", "从北京到上海怎么走", "What is 12 plus 30?"]
)
def test_what_a_rewording_is_about_stays(generators: ModuleType, text: str) -> None:
    telling = [word for word in ("freeze", "debit", "冻结", "借记卡", "北京", "上海", "12", "30") if word in text]
    for way in generators.REWORDS:
        for said in all_said(way, text):
            assert all(word in said or word[:-1] + "ing" in said for word in telling), said


@pytest.mark.parametrize(
    "text", ["Can I cancel my order?", "Why was my order cancelled?", "能取消订单吗", "为什么订单被取消了"]
)
def test_only_a_how_question_shrinks_to_its_keywords(generators: ModuleType, text: str) -> None:
    assert not all_said(generators.keywords, text)


def test_a_story_keeps_the_question_word_for_word(generators: ModuleType) -> None:
    for text in ("how do i reset my router?", "路由器怎么重置？"):
        assert all(text.strip("?？") in said for said in all_said(generators.story, text))


def test_a_form_alone_says_neither_yes_nor_no(reader_modules: dict[str, ModuleType]) -> None:
    """Both the rewordings and the changes of a question come in other forms."""
    questions = [(f"How do I {verb} my {thing}?", "own") for verb in ("freeze", "sell", "repair", "insure") for thing in
                 ("car", "house", "phone", "bike", "watch")]  # fmt: skip
    made = list(reader_modules["pairs"].generated(questions, random.Random(1)))
    otherwise = [pair for pair in made if not pair.b.lower().startswith("how do i")]
    assert {pair.same for pair in otherwise} == {True, False}
    assert min(sum(pair.same is same for pair in otherwise) for same in (True, False)) >= 5


def test_the_same_seed_makes_the_same_pairs(reader_modules: dict[str, ModuleType]) -> None:
    questions = [("How do I cancel my order?", "own"), ("怎么取消订单？", "own"), ("What does a stamp cost?", "own")]
    generated = reader_modules["pairs"].generated
    assert list(generated(questions, random.Random(5))) == list(generated(questions, random.Random(5)))


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [("cancel my order", "cancelling my order"), ("make cheese", "making cheese"), ("get a visa", "getting a visa"),
     ("see a doctor", "seeing a doctor"), ("die", "dying"), ("not pay", None), ("permanently leave", None)],
)  # fmt: skip
def test_a_verb_becomes_a_gerund(reader_modules: dict[str, ModuleType], phrase: str, expected: str | None) -> None:
    assert reader_modules["frames"].gerund(phrase) == expected
