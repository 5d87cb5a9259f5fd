"""Keeps what was measured over a restart: one small file of counts in the state directory, no word of a question."""

import asyncio
import logging
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from proxy.measured import Measured

log = logging.getLogger(__name__)

_EVERY_S: Final = 60.0


class Logbook:
    """Entering reads the file, leaving writes it, and it is written every minute between.

    path: None = nothing is kept. A file that cannot be read is a beginning from nothing, and the log says so."""

    def __init__(self, measured: Measured, path: Path | None, *, every_s: float = _EVERY_S) -> None:
        self._measured = measured
        self._path = path
        self._every_s = every_s
        self._written = b""
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._path is not None:
            try:
                self._measured.recall(await asyncio.to_thread(self._path.read_bytes))
            except FileNotFoundError:
                pass
            except (OSError, ValueError) as trouble:
                log.warning("what was measured before cannot be read, and is measured anew: %s", trouble)
            self._writer = asyncio.get_running_loop().create_task(self._keep_writing(), name="rejoinder-logbook")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
            await self._write()

    async def _keep_writing(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self._write()

    async def _write(self) -> None:
        kept = self._measured.kept()
        if kept == self._written or self._path is None:
            return
        try:
            await asyncio.to_thread(_replace, self._path, kept)
            self._written = kept
        except OSError as trouble:
            log.warning("what was measured cannot be kept: %s", trouble)


def _replace(path: Path, data: bytes) -> None:
    """A reader sees the old file or the new one, never half of it; nobody else may read it."""
    beside = path.with_suffix(".new")
    with open(beside, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
    os.replace(beside, path)
