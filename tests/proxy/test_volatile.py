"""A system prompt that changes with every request is said, once in the log, and nothing else is taken for one."""

import logging

import pytest

from proxy.volatile import IN_A_ROW, PromptWatch

RULES = "You are the assistant of Acme. Answer briefly and kindly.\n"


def clock(second: int) -> str:
    return f"Current time: 2026-12-01 10:{second // 60:02}:{second % 60:02}\n{RULES}"


def test_the_changing_part_and_the_pattern_against_it_are_named(caplog: pytest.LogCaptureFixture) -> None:
    watch = PromptWatch()
    with caplog.at_level(logging.WARNING):
        told = [watch.seen("shop", "m", clock(each)) for each in range(IN_A_ROW + 3)]
    assert told[: IN_A_ROW - 1] == [None] * (IN_A_ROW - 1)
    assert all(each is not None and 'context_ignore = ["Current time: {datetime}"]' in each for each in told[-4:])
    assert len(caplog.records) == 1 and "shop" in caplog.text and "Acme" not in caplog.text, "no prompt in the log"


def test_it_is_over_when_a_prompt_comes_again() -> None:
    watch = PromptWatch()
    told = [watch.seen("shop", "m", clock(each)) for each in range(IN_A_ROW)]
    assert told[-1] is not None
    assert watch.seen("shop", "m", clock(3)) is None
    assert watch.seen("shop", "m", clock(99)) is None


def test_two_assistants_that_take_turns_are_told_apart() -> None:
    watch = PromptWatch()
    other = "Du bist ein Koch und sprichst nur von Suppen und von Brot. Es ist {} Uhr."
    told = [watch.seen("shop", "m", text) for each in range(12) for text in (clock(each), other.format(each))]
    assert told[-1] is not None and told[-2] is not None


def test_prompts_that_stay_or_have_nothing_in_common_are_no_change() -> None:
    watch = PromptWatch()
    assert {watch.seen("shop", "m", RULES) for _ in range(50)} == {None}
    assert {watch.seen("shop", "m", "") for _ in range(50)} == {None}
    words = ["law", "bread", "rain", "music", "trade", "chess", "glass", "steel", "paper", "cloud", "river", "stone"]
    different = [f"{one} {other} only, {other} and {one}!" for one in words for other in words if one != other]
    assert {watch.seen("shop", "m", each) for each in different[::7]} == {None}


def test_what_answers_depend_on_gets_no_pattern() -> None:
    watch = PromptWatch()
    told = [watch.seen("shop", "m", f"{RULES}Stock of the day: {word}.") for word in "abcdefghijkl"]
    assert told[-1] is not None and "context_ignore" not in told[-1] and "user's message" in told[-1]


def test_how_many_tenants_there_are_costs_no_memory() -> None:
    watch = PromptWatch()
    for each in range(2_000):
        watch.seen(f"tenant {each}", "m", RULES)
    assert len(watch._places) <= 256
