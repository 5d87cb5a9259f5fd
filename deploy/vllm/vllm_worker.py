"""One vLLM worker as an object: started through worker.sh, watched, stopped. For run.py and live tests."""

from __future__ import annotations

import fcntl
import http.client
import os
import re
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from process_group import ProcessGroup, stop_all

SCRIPT = Path(__file__).with_name("worker.sh")
HOST = "127.0.0.1"


def home() -> Path:
    """Where the install, the models and the logs are; the shell scripts compute the same."""
    return Path(os.environ.get("REJOINDER_VLLM_HOME") or "~/.cache/rejoinder/vllm").expanduser()


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections of an earlier server that are still fading away don't make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class PortClaim:
    """A port that no other run.py or test on this machine will choose.

    vLLM needs seconds to open its port, and then opens it even when another vLLM has it (SO_REUSEPORT); the
    two would share the requests. The claim is a file lock: the kernel drops it when this process ends.
    """

    def __init__(self, port: int, lock: int) -> None:
        self.port = port
        self._lock = lock

    @classmethod
    def of(cls, port: int) -> PortClaim | None:
        folder = home() / "ports"
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        claim = cls(port, lock)
        if is_free(port):
            return claim
        claim.release()
        return None

    @classmethod
    def first_free(cls, start: int) -> PortClaim:
        for port in range(start, min(start + 200, 65536)):
            if claim := cls.of(port):
                return claim
        raise RuntimeError(f"no free port from {start} on")

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class Worker:
    """A worker on a port of its own. Not started yet; `start` may be called again after `stop` or `kill`."""

    def __init__(
        self,
        claim: PortClaim,
        model: str = "smollm2",
        *,
        options: Sequence[str] = (),
        script: Path = SCRIPT,
    ) -> None:
        self.claim = claim
        self.model = model
        self.port = claim.port
        self.url = f"http://{HOST}:{claim.port}"
        self.log = home() / "logs" / f"worker-{claim.port}.log"
        self._command = [str(script), "--port", str(claim.port), "--model", model, *options]
        self.group: ProcessGroup | None = None

    def __repr__(self) -> str:
        state = "not started" if self.group is None else f"pid {self.group.pid}"
        return f"<Worker {self.model} on {self.url}, {state}>"

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.group = ProcessGroup(self._command, log=self.log)

    def exit_code(self) -> int | None:
        """None while it lives."""
        return self.group.exit_code() if self.group else None

    def is_ready(self) -> bool:
        """Whether this worker, not another server that has its port, says that it is healthy."""
        if self.group is None or self.exit_code() is not None:
            return False
        return self._is_healthy() and self._listens()

    def stop(self) -> None:
        if self.group:
            stop_all([self.group])

    def kill(self) -> None:
        """As an out-of-memory killer would end it, but all of it."""
        if self.group:
            self.group.send(signal.SIGKILL)
            stop_all([self.group], grace=0)

    def log_tail(self, lines: int) -> list[str]:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 64 * 1024))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]

    def last_words(self) -> str:
        """The last log line without vLLM's prefix of process, level, date and source line."""
        line = "".join(self.log_tail(1))
        return re.sub(r"^(\([^)]*\) )?(\w+ \d\d-\d\d [\d:]+ )?(\[[^]]*\] )?([A-Z]\d{4} [^]]*\] )?", "", line).strip()

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=2)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _listens(self) -> bool:
        """Whether a process of our group holds the listening socket of our port (Linux's /proc tells)."""
        assert self.group is not None
        listening = set()
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            try:
                rows = Path(table).read_text().splitlines()[1:]
            except FileNotFoundError:  # no IPv6
                continue
            for row in rows:
                _, local, _, state, *rest = row.split()
                if state == "0A" and int(local.rpartition(":")[2], 16) == self.port:
                    listening.add(f"socket:[{rest[5]}]")
        return any(listening & _open_files(pid) for pid in _members(self.group.pid))


def _members(group: int) -> list[int]:
    members = []
    for entry in Path("/proc").iterdir():
        with suppress(ProcessLookupError):  # ended while we looked
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == group:
                members.append(int(entry.name))
    return members


def _open_files(pid: int) -> set[str]:
    files = set()
    with suppress(OSError):  # the process ended while we looked
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # or only the file was closed
                files.add(str(entry.readlink()))
    return files
