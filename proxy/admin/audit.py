"""Who changed what, and when: a file of JSON lines in the state directory, or a journal that replicas share.

A line holds names and numbers, never a text that a user asked or was told; so erasing a user's texts need not touch it.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import orjson

from cache import SharedJournal, StoreUnavailable

log = logging.getLogger(__name__)

KEPT: Final = 10_000  # lines, the newest
_SLACK: Final = 1_000  # lines beyond it before the file is written anew


@dataclass(frozen=True, slots=True)
class Deed:
    """One change. at_s: seconds since the epoch.  who, role: of the caller.  did: the route's summary.
    path: what it was done to.  outcome: `done`, or the status and reason of a refusal.  note: how much, in words."""

    at_s: float
    who: str
    role: str
    did: str
    method: str
    path: str
    outcome: str
    note: str
    request_id: str


class Audit:
    """Entering reads the file. path: None = there is none.  shared: the journal of all replicas, instead of a file;
    with neither, only this process's memory and the log know.  retention_s: older lines are dropped.
    clock: seconds since the epoch."""

    def __init__(
        self, path: Path | None, *, retention_s: float, clock: Callable[[], float], shared: SharedJournal | None = None
    ) -> None:
        self._path = path
        self._shared = shared
        self._retention_s = retention_s
        self.clock = clock
        self._deeds: deque[Deed] = deque(maxlen=KEPT)
        self._noted = 0  # since entering, those of the file included
        self._lines = 0  # in the file
        self._oldest_s = clock()  # of the lines in the file
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        if self._path is not None:
            try:
                data = await asyncio.to_thread(self._path.read_bytes)
            except FileNotFoundError:
                data = b""
            except OSError as trouble:
                log.warning("the audit cannot be read: %s", trouble)
                return self
            lines = data.splitlines()
            self._lines = len(lines)
            self._deeds.extend(deed for line in lines if (deed := _read(line)) is not None)
            self._noted = len(self._deeds)
            self._oldest_s = self._deeds[0].at_s if self._deeds else self.clock()
            if data and not data.endswith(b"\n"):  # killed in the middle of a line; the next one begins anew
                await asyncio.to_thread(_append, self._path, b"\n")
            await self._prune()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._turn:
            pass

    async def note(self, deed: Deed) -> None:
        """Keep one. It is written when this returns; where that fails, the log has it."""
        log.info("audit: %s (%s) %s %s: %s %s", deed.who, deed.role, deed.method, deed.path, deed.outcome, deed.note)
        self._deeds.append(deed)
        self._noted += 1
        if self._shared is not None:
            try:
                await self._shared.append(orjson.dumps(asdict(deed)))
            except StoreUnavailable as trouble:
                log.error("the audit could not be written: %s. It was: %s", trouble, deed)
            return
        if self._path is None:
            return
        async with self._turn:
            try:
                await asyncio.to_thread(_append, self._path, orjson.dumps(asdict(deed)) + b"\n")
                self._lines += 1
            except OSError as trouble:
                log.error("the audit could not be written: %s. It was: %s", trouble, deed)
        await self._prune()

    async def latest(self, limit: int, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """The newest first, and the cursor of what is older; None = nothing is. cursor: None = from the newest.
        Raises StoreUnavailable; ValueError for a cursor that is none."""
        if self._shared is not None:
            lines, older = await self._shared.latest(limit, cursor)
            return [asdict(deed) for line in lines if (deed := _read(line)) is not None], older
        return self._remembered(limit, None if cursor is None else int(cursor))

    def _remembered(self, limit: int, cursor: int | None) -> tuple[list[dict[str, Any]], str | None]:
        self._forget_old()
        gone = self._noted - len(self._deeds)
        end = len(self._deeds) if cursor is None else max(0, min(cursor - gone, len(self._deeds)))
        first = max(0, end - limit)
        told = [asdict(self._deeds[number]) for number in range(end - 1, first - 1, -1)]
        return told, str(first + gone) if first else None

    def _forget_old(self) -> None:
        while self._deeds and self._deeds[0].at_s < self.clock() - self._retention_s:
            self._deeds.popleft()

    async def _prune(self) -> None:
        """Write the file anew where it holds what need not be kept, or too much."""
        late = self._oldest_s < self.clock() - self._retention_s
        if self._path is None or not (late or self._lines > KEPT + _SLACK):
            return
        self._forget_old()
        async with self._turn:
            kept = list(self._deeds)
            data = b"".join(orjson.dumps(asdict(deed)) + b"\n" for deed in kept)
            try:
                await asyncio.to_thread(_write, self._path, data)
                self._lines = len(kept)
                self._oldest_s = kept[0].at_s if kept else self.clock()
            except OSError as trouble:
                log.warning("old lines of the audit could not be dropped: %s", trouble)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _append(path: Path, line: bytes) -> None:
    with open(path, "ab", opener=_private) as file:
        file.write(line)


def _write(path: Path, data: bytes) -> None:
    beside = path.with_suffix(".new")
    with open(beside, "wb", opener=_private) as file:
        file.write(data)
    os.replace(beside, path)


def _read(line: bytes) -> Deed | None:
    """None for what is no line of ours, such as half of one."""
    try:
        told = orjson.loads(line)
        return Deed(**told) if isinstance(told["at_s"], float | int) else None
    except (ValueError, TypeError, KeyError):
        return None
