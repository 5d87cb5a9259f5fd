"""The state directory: who may use it, and what happens to a file that must not be used.

The lock is `flock` on a file of its own: the kernel releases it when the process dies, however it dies.
"""

import fcntl
import logging
import os
from pathlib import Path

from cache.errors import StateError

log = logging.getLogger(__name__)

SIDE_FILES = ("", "-wal", "-shm", "-journal")  # what SQLite may keep beside a database


class DirectoryLock:
    """Exclusive use of one directory, from `acquire` to `release` or to the death of this process."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._file: int | None = None

    def acquire(self) -> bool:
        """Returns whether the last owner left in good order. Raises StateError when somebody else is the owner."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise StateError(
                f"the state directory {self._path.parent} is in use by process {owner}. "
                "Stop that process, or give this one a directory of its own; "
                "several processes share answers through Redis only"
            ) from error
        self._file = handle
        clean = os.fstat(handle).st_size == 0  # the owner's number is wiped by `release`, not by a crash
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        return clean

    def release(self, *, clean: bool = True) -> None:
        """clean: False leaves the mark of a crash, so that the next owner checks what it finds."""
        if self._file is not None:
            if clean:
                os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def make_private(path: Path) -> None:
    """Create the file, or narrow its permissions, so that only its owner reads it. SQLite gives its side files the
    mode of the database."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)


def move_aside(path: Path, moment_s: float, reason: str) -> None:
    """Put a database out of the way, whole, so that a person can look at it; the store then starts cold."""
    label = f".aside-{int(moment_s)}"
    number = 0
    while path.with_name(f"{path.name}{label}").exists():
        number += 1
        label = f".aside-{int(moment_s)}-{number}"
    for side in SIDE_FILES:
        part = path.with_name(path.name + side)
        if part.exists():
            part.rename(path.with_name(path.name + label + side))
    log.warning("%s: %s. Moved aside to %s%s; starting cold", path, reason, path.name, label)
