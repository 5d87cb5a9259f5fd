"""A Chinese text, cut by the longest known word."""

import pytest

from cache.guards.chinese_reader import tokens
from cache.guards.token import Kind


def concepts(text: str) -> list[str]:
    return [token.concept.strip() for token in tokens(text) if token.kind >= Kind.CONTENT]


def test_words_come_to_their_group_and_fillers_go() -> None:
    assert concepts("请问可以修改密码吗") == concepts("更改密码") == ["修改", "密码"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("五百元", "500 yuan"), ("500元", "500 yuan"), ("5万元", "50000 yuan"), ("两周", "20160 minutes"), ("14天",
        "20160 minutes"),
        ("二十四期", "24"), ("第三季", "3 #"), ("5月", "5 #month"), ("两个月", "2 months"), ("半小时", "30 minutes"),
        ("5GB", "5 gigabyte"),
    ],
)  # fmt: skip
def test_numbers_have_a_value_and_a_unit(text: str, number: str) -> None:
    assert [token.concept.strip() for token in tokens(text) if token.kind is Kind.NUMBER] == [number]


@pytest.mark.parametrize("text", ["二手车", "二维码", "统一", "千万别去", "星期三", "三星手机", "四川"])
def test_a_numeral_inside_a_word_is_no_number(text: str) -> None:
    assert [token for token in tokens(text) if token.kind is Kind.NUMBER] == []


def test_latin_words_and_quotations_are_names() -> None:
    assert [token.low for token in tokens("用 Foobar 打开《春江》") if token.kind is Kind.NAME] == ["foobar", "春江"]


def test_a_latin_word_ends_where_chinese_begins() -> None:
    assert [token.low for token in tokens("Foobar多少钱") if token.kind is Kind.NAME] == ["foobar"]


def test_where_from_and_where_to() -> None:
    roles = {token.low: token.role for token in tokens("从北京到上海")}
    assert (roles["北京"], roles["上海"]) == ("from", "to")
