"""Which part of a system prompt changed, and the pattern that would leave it out of the key."""

import pytest

from cache.changing import alike, changed
from cache.templates import read_pattern, take_out

RULES = "You are the assistant of Acme. Answer briefly and kindly.\n"


@pytest.mark.parametrize(
    ("before", "after", "patterns"),
    [
        ("Current time: 2026-12-01 10:00:01", "Current time: 2026-12-01 10:00:09", ["Current time: {datetime}"]),
        ("The time is 10:00.", "The time is 10:07.", ["The time is {time}"]),
        ("Today is Tuesday, December 1, 2026.", "Today is Wednesday, December 2, 2026.", ["Today is {date}"]),
        ("今天是2026年12月1日。", "今天是2026年12月2日。", ["今天是{date}"]),
        ("You are talking to Anna Miller.", "You are talking to Ben Smith.", ["You are talking to {name}"]),
        ("The time is 10:00.\nRequest id: 8f3a", "The time is 10:07.\nRequest id: 77bc",
         ["The time is {time}", "Request id: {id}"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["before", "behind"])
def test_what_is_made_anew_each_time_gets_a_pattern_that_cures_it(
    before: str, after: str, patterns: list[str], place: str
) -> None:
    one, other = (RULES + text + "\n" if place == "behind" else f"{text}\n{RULES}" for text in (before, after))
    found = changed(one, other)
    assert found is not None and list(found.patterns) == patterns
    read = tuple(map(read_pattern, found.patterns))
    assert take_out(one, read)[0] == take_out(other, read)[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [("The user's plan: Premium.", "The user's plan: Basic."), ("Weather: sunny.", "Weather: rain and cold."),
     ("Answer in French.", "Answer in German."), ("Stock: 5 left.", "Stock: 7 left.")],
)  # fmt: skip
def test_nothing_is_proposed_for_what_answers_depend_on(before: str, after: str) -> None:
    found = changed(RULES + before, RULES + after)
    assert found is not None and found.before in before and found.after in after
    assert not any("{name}" in each for each in found.patterns)
    if "Stock" not in before:
        assert found.patterns == ()


def test_two_assistants_are_no_change() -> None:
    one, other = "You are a lawyer. Talk of law only, please.", "You help cooks with food and drink all day long."
    assert not alike(one, other) and changed(one, other) is None and changed(one, one) is None
