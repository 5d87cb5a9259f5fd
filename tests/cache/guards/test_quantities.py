"""Numbers are values, however they are spelled."""

from fractions import Fraction

import pytest

from cache.guards.quantities import bare_unit, durations, find_digits, han_value, spelled


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("5k", 5000, ""), ("5,000", 5000, ""), ("1,234.5", Fraction(2469, 2), ""), (".5", Fraction(1, 2), ""),
        ("½", Fraction(1, 2), ""), ("3½", Fraction(7, 2), ""), ("3/4", Fraction(3, 4), ""), ("$20", 20, "dollar"),
        ("€ 20", 20, "euro"), ("¥5万", 50_000, "yuan"), ("-7", -7, ""), ("3rd", 3, "#"), ("7pm", 19 * 60, "clock"),
        ("12 am", 0, "clock"), ("19:00", 19 * 60, "clock"), ("1980s", 1980, "decade"), ("百分之二十", 20, "percent"),
        ("2 bn", 2 * 10**9, ""), ("3/0", 3, ""),
    ],
)  # fmt: skip
def test_a_number_in_digits(text: str, value: int | Fraction, unit: str) -> None:
    (quantity,) = find_digits(text)
    assert (quantity.value, quantity.unit) == (value, unit)


def test_a_dash_between_numbers_is_no_sign() -> None:
    assert [quantity.value for quantity in find_digits("pages 5-10")] == [5, 10]


@pytest.mark.parametrize(
    ("text", "value", "words"),
    [
        ("seven", 7, 1), ("twenty four", 24, 2), ("twenty-four", 24, 1), ("five hundred and thirty", 530, 4),
        ("two million", 2_000_000, 2), ("three hundred thousand", 300_000, 3), ("a dozen", None, 0), ("twice", 2, 1),
        ("half", Fraction(1, 2), 1), ("one and only", 1, 1),
    ],
)  # fmt: skip
def test_a_number_in_words(text: str, value: int | Fraction | None, words: int) -> None:
    assert spelled(text.split(), 0) == (None if value is None else (value, words))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("十二", 12),
        ("二十四", 24),
        ("五百", 500),
        ("一千零一", 1001),
        ("三万五千", 35_000),
        ("一九四五", 1945),
        ("两亿", 200_000_000),
    ],
)
def test_a_number_in_chinese(text: str, value: int) -> None:
    assert han_value(text) == value


def test_equal_spans_of_time_are_equal() -> None:
    assert durations(Fraction(2), "week") == durations(Fraction(14), "day") == durations(Fraction(336), "hour")
    assert durations(Fraction(1), "year") == durations(Fraction(12), "month")
    assert durations(Fraction(3), "kilometre") == (3, "kilometre")


def test_short_units_need_a_number_before_them() -> None:
    assert bare_unit("kilometres") == "kilometre"
    assert bare_unit("m") is None
    assert bare_unit("in") is None
