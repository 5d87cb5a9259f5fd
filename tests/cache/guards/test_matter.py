"""Language, numbers, units and names, one guard at a time."""

from typing import cast

import pytest

from cache.guards import matter
from cache.guards.difference import difference
from cache.guards.reading import read
from cache.guards.verdict import PLAIN_GUARDS, Guard, PlainGuard


def says(guard: Guard | PlainGuard, one: str, other: str) -> str | None:
    a, b = read(one), read(other)
    if guard in [plain for _, plain in PLAIN_GUARDS]:
        return guard(a, b)
    return cast(Guard, guard)(a, b, difference(a, b))


def test_two_languages_never_share_an_answer() -> None:
    assert says(matter.language, "Where can I park?", "哪里可以停车") == "en against zh"
    assert says(matter.language, "Wo kann ich parken?", "Wo kann ich parken?") is not None
    assert says(matter.language, "Where is 南京?", "Where is it?") == "one side is partly Chinese"
    assert says(matter.language, "Where can I park?", "parking") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5k", "5,000"),
        ("five", "5"),
        ("½", "0.5"),
        ("2 weeks", "14 days"),
        ("7pm", "19:00"),
        ("one egg", "an egg"),
        ("50%", "fifty percent"),
    ],
)
def test_values_count_and_not_spellings(one: str, other: str) -> None:
    assert says(matter.numbers, f"Is {one} enough?", f"Is {other} enough?") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5", "6"),
        ("5", "-5"),
        ("3.5", "35"),
        ("5", "5%"),
        ("$5", "€5"),
        ("5 km", "5 miles"),
        ("two", "three"),
        ("7am", "7pm"),
        ("1st", "2nd"),
        ("5", ""),
    ],
)
def test_other_values_are_another_question(one: str, other: str) -> None:
    assert says(matter.numbers, f"Is {one} enough?", f"Is {other} enough?") is not None


def test_the_order_of_numbers_counts() -> None:
    assert "another order" in str(says(matter.numbers, "Divide 9 by 3", "Divide 3 by 9"))


def test_units_count_without_numbers_too() -> None:
    assert says(matter.units, "What is the price per kilogram?", "What is the price per ounce?") is not None
    assert says(matter.units, "What is the monthly fee?", "What is the yearly fee?") is not None
    assert says(matter.units, "What is the monthly fee?", "What is the fee?") is None


def test_a_name_on_one_side_only_is_another_question() -> None:
    assert says(matter.names, "Do you ship to Oslo?", "Do you ship?") == "only one side names 'oslo'"
    assert says(matter.names, "Do you ship to Norway?", "Do you ship Norwegian cheese?") is None
    assert says(matter.names, "Do you know Mr Quilliam?", "Do you know mr quillaim?") is None


def test_two_of_a_kind_are_two() -> None:
    assert (
        says(matter.kinds, "Is it safe for my cat?", "Is it safe for my rabbit?")
        == "cat against rabbit: another animal"
    )
    assert says(matter.kinds, "Is it safe for my cat?", "Is it safe for my kitten?") is None
