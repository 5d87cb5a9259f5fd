"""Child processes as groups: a vLLM worker is several processes, and all of them have to end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

POLL_SECONDS = 0.1


class ProcessGroup:
    """A command in a process group of its own, where a terminal's Ctrl-C does not reach it: we decide."""

    def __init__(
        self, command: Sequence[str | Path], *, log: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        # Should we be killed outright, the kernel sends the child SIGTERM, and it can end its own children.
        # setpriv is part of util-linux; where it is missing, a SIGKILL to us does leave the child behind.
        with_us = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        output = log.open("wb") if log else None
        try:
            self.process = subprocess.Popen(
                [*with_us, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                env=env,
                process_group=0,
            )
        finally:
            if output:
                output.close()

    @property
    def pid(self) -> int:
        """The first process, and the name of the group."""
        return self.process.pid

    def exit_code(self) -> int | None:
        """Of the first process; None while it lives."""
        return self.process.poll()

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def is_gone(self) -> bool:
        """Whether no process of the group is left, not only the first."""
        self.process.poll()  # reaps the first one, which would count as a member otherwise
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        return False


def stop_all(groups: Iterable[ProcessGroup], *, grace: float = 10.0, hurry: Callable[[], bool] = lambda: False) -> None:
    """End every group: ask all, wait together for `grace` seconds (less when in a hurry), then insist."""
    left = list(groups)
    for group in left:
        group.send(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while (left := [group for group in left if not group.is_gone()]) and not hurry():
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    for group in left:
        group.send(signal.SIGKILL)
    for group in left:
        group.process.wait()
        while not group.is_gone():  # orphans are reaped by init, moments later
            time.sleep(POLL_SECONDS)
