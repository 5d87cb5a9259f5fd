"""How fast a worker prefills, learnt from the streams it answers. Pure.

    time to first token ≈ base + (tokens queued before + tokens of this prompt that were not cached) / rate

Only clean observations count: enough tokens to see the slope, and not much queued before. The rate is averaged in
logarithms, because times err by factors. Nothing is configured: a worker on a CPU and one on an H200 differ by 100.
"""

import math
from typing import Final

FIRST_GUESS: Final = 8.0  # tokens per millisecond: a mid-size model on a data-centre GPU
FIRST_BASE_MS: Final = 15.0
SLOWEST: Final = 0.02  # tokens per millisecond, either way; beyond that a clock or a count is wrong
FASTEST: Final = 2000.0
_ENOUGH_TOKENS: Final = 256  # uncached, before the slope shows
_FEW_TOKENS: Final = 64  # uncached, so that what is left is the base
_LEARN: Final = 0.15


class Pace:
    """rate: tokens per millisecond.  base_ms: what even a cached prompt takes.  seen: observations so far."""

    __slots__ = ("base_ms", "rate", "seen")

    def __init__(self, like: "Pace | None" = None) -> None:
        """like: begin with what another worker of the pool has taught."""
        self.rate: float = like.rate if like is not None else FIRST_GUESS
        self.base_ms: float = like.base_ms if like is not None else FIRST_BASE_MS
        self.seen = 0

    def observe(self, *, uncached: int, queued: int, ttft_ms: float) -> None:
        """A stream began after ttft_ms. uncached: tokens of its prompt that were computed.  queued: uncached tokens
        that were booked on the worker before it and had not been computed."""
        if ttft_ms <= 0 or queued > uncached:
            return
        if uncached < _FEW_TOKENS and queued == 0:
            self.base_ms += _LEARN * (min(ttft_ms, 1000.0) - self.base_ms)
        elif uncached >= _ENOUGH_TOKENS:
            net_ms = max(ttft_ms - self.base_ms, ttft_ms * 0.1)
            sample = min(max((uncached + queued) / net_ms, SLOWEST), FASTEST)
            learn = 0.5 if self.seen < 4 else _LEARN
            self.rate = math.exp(math.log(self.rate) + learn * (math.log(sample) - math.log(self.rate)))
            self.seen += 1
