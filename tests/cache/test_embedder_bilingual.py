"""Two models behind one seam: who is asked for which question, and what the pair says of itself."""

from types import TracebackType
from typing import Self

import pytest

from cache.embedder.bilingual import BilingualEmbedder
from cache.embedder.hashing import HashingEmbedder
from cache.entry import Vector
from cache.errors import EmbedderUnavailable


class Listening(HashingEmbedder):
    """Remembers what it was asked, and whether it is open."""

    def __init__(self, dim: int = 64, *, threshold: float = 0.8) -> None:
        super().__init__(dim, threshold=threshold)
        self.heard: list[str] = []
        self.open = False

    async def __aenter__(self) -> Self:
        self.open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open = False

    async def embed(self, text: str, *, deadline_s: float | None = None) -> Vector:
        self.heard.append(text)
        return await super().embed(text)


async def test_each_question_is_read_by_the_model_of_its_language_and_by_no_other() -> None:
    english, chinese = Listening(), Listening()
    async with BilingualEmbedder(english, chinese) as both:
        for text in ("How do I close my account?", "怎么注销账户？", "42"):
            await both.embed(text)
    assert english.heard == ["How do I close my account?", "42"]
    assert chinese.heard == ["怎么注销账户？"]


async def test_the_pair_is_as_cautious_as_its_more_cautious_half() -> None:
    async with BilingualEmbedder(Listening(threshold=0.8), Listening(threshold=0.9)) as both:
        assert both.threshold == 0.9


async def test_both_are_closed_also_when_they_do_not_fit_together() -> None:
    english, chinese = Listening(64), Listening(128)
    with pytest.raises(EmbedderUnavailable, match="dimensions"):
        async with BilingualEmbedder(english, chinese):
            pass
    assert not english.open
    assert not chinese.open
