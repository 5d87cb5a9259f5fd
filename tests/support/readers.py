"""Readers with which a test decides what one answer serves."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self


class ScriptedReader:
    """Two questions share an answer as far as they share words: logit from -8 (none) to 8 (all).

    logits: (asked, stored) → what to say instead; None = not read.  longest: words of both; more are not read.
    `asked` says what was read."""

    def __init__(self, logits: Mapping[tuple[str, str], float | None] | None = None, *, longest: int = 100) -> None:
        self.logits = dict(logits or {})
        self.longest = longest
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.name = "scripted"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def read(self, asked: str, stored: Sequence[str], *, deadline_s: float | None = None) -> list[float | None]:
        self.asked.append((asked, tuple(stored)))
        return [self._read(asked, text) for text in stored]

    def _read(self, asked: str, stored: str) -> float | None:
        if (asked, stored) in self.logits:
            return self.logits[asked, stored]
        here, there = asked.lower().split(), stored.lower().split()
        if len(here) + len(there) > self.longest:
            return None
        either = set(here) | set(there)
        return 16 * len(set(here) & set(there)) / len(either) - 8 if either else 0.0
