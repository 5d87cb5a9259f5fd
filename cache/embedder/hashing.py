"""A model-free embedder for tests and demos: near in letters, not in meaning. It must not serve real questions."""

from types import TracebackType
from typing import Self

import numpy as np
import xxhash

from cache.entry import Vector
from cache.errors import TextTooLong

_LONGEST = 2000  # characters


class HashingEmbedder:
    """Hashed character 3-grams and words; the same text gives the same vector on every machine."""

    def __init__(self, dim: int = 64, *, threshold: float = 0.8) -> None:
        self._dim = dim
        self._threshold = threshold

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @property
    def name(self) -> str:
        return f"hashing-{self._dim}"

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def threshold(self) -> float:
        return self._threshold

    @property
    def languages(self) -> frozenset[str]:
        return frozenset({"en", "zh"})

    async def embed(self, text: str, *, deadline_s: float | None = None) -> Vector:
        if len(text) > _LONGEST:
            raise TextTooLong(f"{len(text)} characters; this embedder reads {_LONGEST}")
        vector = np.zeros(self._dim, dtype=np.float32)
        for gram in _grams(text):
            digest = xxhash.xxh3_64_intdigest(gram.encode())
            vector[(digest >> 1) % self._dim] += 1.0 if digest & 1 else -1.0
        length = float(np.linalg.norm(vector))
        if length == 0.0:  # every gram met its opposite, or there were none
            vector[0] = length = 1.0
        return np.asarray(vector / length, dtype=np.float32)


def _grams(text: str) -> list[str]:
    words = text.casefold().split()
    padded = f" {' '.join(words)} "
    return words + [padded[start : start + 3] for start in range(len(padded) - 2)]
