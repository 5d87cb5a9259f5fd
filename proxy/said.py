"""What a worker said so far: cut where it may be told on, and kept until it is whole. Pure."""

from collections.abc import Iterator
from typing import Final

from proxy import sse
from proxy.flights import Block

_ERROR: Final = b'data: {"error"'  # unescaped quotes: no text of an answer can look like it


class Said:
    """kept: every piece as it came, None once they are more than `most_bytes`.  done: its `[DONE]` was told."""

    def __init__(self, most_bytes: int, *, streamed: bool) -> None:
        self.kept: list[bytes] | None = []
        self.streamed = streamed
        self.done = False
        self._most_bytes = most_bytes
        self._bytes = 0
        self._told = 0
        self._stopped = False
        self._splitter = sse.Splitter()

    def next(self, data: bytes, *, stop_at_error: bool = False) -> Iterator[Block]:
        """What may be told now. stop_at_error: nothing of an error event, nor of what follows."""
        if self._stopped:
            return
        self._bytes += len(data)
        if self.kept is not None:
            self.kept.append(data)
            self.kept = self.kept if self._bytes <= self._most_bytes else None
        if not self.streamed:
            yield Block(data)
            return
        whole = self._splitter.feed(data)
        if stop_at_error and whole:
            if (at := whole.find(_ERROR)) >= 0:
                whole, self._stopped = whole[:at], True
            self.done = self.done or whole.rstrip().endswith(b"data: [DONE]")
        if whole:
            self._told += len(whole)
            before, usage, after = sse.split_usage(whole)
            yield from (Block(each, usage=each is usage) for each in (before, usage, after) if each)

    def rest(self) -> Iterator[Block]:
        """What never became a whole event."""
        if self.streamed and (rest := self._splitter.rest()):
            yield Block(rest)

    @property
    def told(self) -> list[bytes] | None:
        """The whole events that were told; None where they were too many to keep."""
        return None if self.kept is None else [b"".join(self.kept)[: self._told]]
