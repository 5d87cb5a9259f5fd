"""Patterns are judged before the doors open, and every way to write them down is understood."""

from pathlib import Path

import pytest

from proxy.settings import SettingsError, load

TWO = ("Today is {date}.", "Request id: {id}")


def test_patterns_come_from_a_file_the_environment_and_a_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rejoinder.toml"
    file.write_text('context_ignore = ["Today is {date}.", "Request id: {id}"]\n')
    assert load({}, file)[0].context_ignore == TWO
    assert load({"context_ignore": "Today is {date}."})[0].context_ignore == TWO[:1]
    assert load({"context_ignore": '["Today is {date}.", "Request id: {id}"]'})[0].context_ignore == TWO
    monkeypatch.setenv("REJOINDER_CONTEXT_IGNORE", '["Today is {date}.", "Request id: {id}"]')
    assert load({})[0].context_ignore == TWO
    monkeypatch.setenv("REJOINDER_CONTEXT_IGNORE", "Today is {date}.")
    assert load({})[0].context_ignore == TWO[:1]


@pytest.mark.parametrize(
    ("value", "way_out"),
    [("Today is {dat}", "there are {date}"), ("{date}", "must begin with the words"), ('["Today', "in JSON"),
     (["Day {number}"] * 33, "32 at most")],
)  # fmt: skip
def test_a_pattern_that_cannot_work_stops_the_start(value: object, way_out: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({"context_ignore": value})
    assert way_out in str(refused.value) and "context_ignore (from the flag)" in str(refused.value)


def test_a_question_pattern_must_say_where_the_question_begins() -> None:
    assert load({"question_patterns": {"*": "Question: {question}"}})[0].question_patterns
    with pytest.raises(SettingsError, match="question_patterns"):
        load({"question_patterns": {"shop": "{question}"}})
