"""How far we are, on stderr: a bar on a terminal, else one line every few seconds, so that a log stays readable."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_EVERY_S = 5.0
_FRAME_S = 0.1  # between two drawings of the bar


class Meter:
    """Tells how many of `of` rows are done. A context manager; leaving ends the line.

    stream: usually stderr.  seconds: a monotonic clock."""

    def __init__(
        self, title: str, of: int, stream: TextIO, *, seconds: Callable[[], float] = time.monotonic, done: int = 0
    ) -> None:
        self._title = title
        self._of = of
        self._done = done
        self._stream = stream
        self._seconds = seconds
        self._began_s = self._told_s = seconds()
        self._bar: Progress | None = None
        if stream.isatty():
            # Drawn by us: a thread of its own would take from the core that is being measured.
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(), console=Console(file=stream), auto_refresh=False, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task(title, total=of, rate="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif error is None:
            self._line()

    def __call__(self, done: int) -> None:
        self._done = done
        now_s = self._seconds()
        if now_s - self._told_s < (_EVERY_S if self._bar is None else _FRAME_S):
            return
        self._told_s = now_s
        if self._bar is None:
            self._line()
        else:
            self._bar.update(self._task, completed=done, rate=f"{self._rate():.0f}/s")
            self._bar.refresh()

    def _rate(self) -> float:
        return self._done / max(1e-9, self._seconds() - self._began_s)

    def _line(self) -> None:
        rate = self._rate()
        left = f", {(self._of - self._done) / rate:.0f} s left" if 0 < self._done < self._of else ""
        self._stream.write(f"{self._title}: {self._done} of {self._of}, {rate:.0f}/s{left}\n")
        self._stream.flush()
