"""The comparator with an embedder beside it: what `comparison` cannot tell at a glance, the cosine of both answers may.

It waits for the embedder patiently, one passage at a time, so that a user's question is never far from the front."""

import asyncio

import numpy as np

from cache.comparison import Comparison, at_a_glance, by_cosine, passages
from cache.entry import Vector
from cache.errors import EmbedderUnavailable, TextTooLong
from cache.protocols import Embedder

_PATIENCE_S = 5.0  # for one passage; nobody waits for the verdict


class Comparator:
    """embedder: None where there is none; then only what can be read is told."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder

    async def compare(self, fresh: str, served: str) -> Comparison:
        """Whether two answers say the same. Never raises: without a vector it is unsure."""
        found = await asyncio.to_thread(at_a_glance, fresh, served)  # milliseconds for long answers
        if found is not None:
            return found
        one, other = await self._vector(fresh), await self._vector(served)
        cosine = None if one is None or other is None else float(np.dot(one, other))
        return by_cosine(fresh, served, cosine)

    async def _vector(self, text: str) -> Vector | None:
        """The mean direction of a text's passages, float32, shape (dim,), unit length; None: not in time."""
        if self._embedder is None:
            return None
        try:
            parts = [await self._embedder.embed(part, deadline_s=_PATIENCE_S) for part in passages(text)]
        except (EmbedderUnavailable, TextTooLong):
            return None
        total = np.sum(parts, axis=0) if parts else None
        length = 0.0 if total is None else float(np.linalg.norm(total))
        return None if total is None or length == 0.0 else np.asarray(total / length, dtype=np.float32)
