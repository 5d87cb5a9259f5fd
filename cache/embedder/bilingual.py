"""Two models as one embedder: English questions go to one, Chinese ones to the other.

No small model is good at both. The two never meet: a question of one language is not answered with the answer to one
of the other (a guard objects), and between the two spaces cosines are near zero. So they can share one index."""

import contextlib
from types import TracebackType
from typing import Self

from cache.entry import Vector
from cache.errors import EmbedderUnavailable
from cache.language import language
from cache.protocols import Embedder


class BilingualEmbedder:
    """english also reads what has no language of its own, such as a bare number."""

    def __init__(self, english: Embedder, chinese: Embedder) -> None:
        self._english = english
        self._chinese = chinese
        self._opened: contextlib.AsyncExitStack | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._english!r} {self._chinese!r}>"

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as opening:
            await opening.enter_async_context(self._english)
            await opening.enter_async_context(self._chinese)
            if self._english.dim != self._chinese.dim:
                raise EmbedderUnavailable(
                    f"{self._english.name} has {self._english.dim} dimensions, "
                    f"{self._chinese.name} {self._chinese.dim}; one index holds one length"
                )
            self._opened = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(kind, error, trace)

    @property
    def name(self) -> str:
        return f"{self._english.name}+{self._chinese.name}"

    @property
    def dim(self) -> int:
        return self._english.dim

    @property
    def threshold(self) -> float:
        return max(self._english.threshold, self._chinese.threshold)

    @property
    def languages(self) -> frozenset[str]:
        return (self._english.languages - {"zh"}) | (self._chinese.languages & {"zh"})

    async def embed(self, text: str, *, deadline_s: float | None = None) -> Vector:
        reader = self._chinese if language(text) == "zh" else self._english
        return await reader.embed(text, deadline_s=deadline_s)
