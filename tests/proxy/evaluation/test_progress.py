"""Somebody waits: a bar where it can be drawn, a line now and then where it cannot."""

import io

import pytest

from proxy.evaluation.progress import Meter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Seconds:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def run(stream: io.StringIO, rows: int = 100, seconds_a_row: float = 0.5) -> str:
    clock = Seconds()
    with Meter("shop", rows, stream, seconds=clock) as tell:
        for done in range(1, rows + 1):
            clock.now_s += seconds_a_row
            tell(done)
    return stream.getvalue()


def test_a_log_gets_a_line_every_few_seconds_with_the_rate_and_what_is_left() -> None:
    told = run(io.StringIO()).splitlines()
    assert told[0] == "shop: 10 of 100, 2/s, 45 s left"
    assert told[-1] == "shop: 100 of 100, 2/s"
    assert len(told) == 11
    assert not any("\r" in line or "\x1b" in line for line in told)


def test_a_short_run_is_one_line() -> None:
    assert run(io.StringIO(), 3, 0.1).splitlines() == ["shop: 3 of 3, 10/s"]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    told = run(Terminal())
    assert "shop" in told
    assert "50/100" in told
    assert "2/s" in told
    assert "of 100," not in told


def test_an_error_leaves_no_line_that_looks_like_an_end() -> None:
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError), Meter("shop", 10, stream, seconds=Seconds()):
        raise ZeroDivisionError
    assert stream.getvalue() == ""
