"""Embedders with which a test decides what is near."""

import math
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import numpy as np

from cache.entry import Vector


class Placed:
    """Two dimensions: each text stands at an angle, and the cosine of two texts is that of the angle between them.

    angles: text → degrees; texts that are not named stand at `otherwise`.  `asked` says what was embedded."""

    def __init__(
        self, angles: Mapping[str, float] | None = None, *, otherwise: float = 0.0, threshold: float = 0.8
    ) -> None:
        self.angles = dict(angles or {})
        self.otherwise = otherwise
        self.asked: list[str] = []
        self.name = "placed"
        self.dim = 2
        self.threshold = threshold
        self.languages = frozenset({"en", "zh"})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def embed(self, text: str, *, deadline_s: float | None = None) -> Vector:
        self.asked.append(text)
        angle = math.radians(self.angles.get(text, self.otherwise))
        return np.array([math.cos(angle), math.sin(angle)], dtype=np.float32)


def alike() -> Placed:
    """The worst embedder there can be: it finds that all texts in the world are the same. Only the scope and the guards
    stand between two questions."""
    return Placed()
