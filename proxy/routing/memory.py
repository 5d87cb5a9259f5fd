"""What one worker still remembers, as far as its answers tell. Pure, bounded.

Every prompt that a worker read leaves its marks (`proxy.routing.trail`), least recently used first out, as many as the
worker has KV blocks for. vLLM frees a sequence's blocks from its end, so a prefix outlives what hangs on it; the marks
of one prompt are therefore touched from the last to the first, and "which of these are known" is a binary search.

The loop is closed by `cached_tokens` of the answers: who remembers much less than we believe, again and again, has a
smaller cache than we think, or lost it (a restart that nobody saw: Fastllm-proxy#22).
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

TOKENS_A_MARK: Final = 64  # of English; only the bound depends on it
UNKNOWN_TOKENS: Final = 262_144  # KV room of a worker that does not say
_SMALLEST: Final = 64  # marks
_LARGEST: Final = 262_144  # marks, about 100 B each: of 17 million tokens, whatever a worker says of itself
_MODEST: Final = 4  # times a prompt's marks, at most the room
_MISS: Final = 0.5  # of what was predicted, and less, is a miss
_WORTH: Final = 128  # predicted tokens, before a miss says anything
_MISSES: Final = 3  # in a row, all of them total: it was emptied


class Memory:
    """marks: each with when it was last read (seconds on the pool's clock); others only look.

    predicted, cached: tokens, over all requests that were compared.  wasted: predicted and not there.  drift: share of
    the prediction that was missing, averaged over about 20 requests; 0 = always right."""

    __slots__ = ("_misses", "_room", "_share", "cached", "drift", "emptied", "marks", "predicted", "wasted")

    def __init__(self, tokens: int | None = None) -> None:
        self.marks: dict[int, float] = {}
        self._share = 1.0  # of the room, learnt
        self._misses = 0
        self.predicted = 0
        self.cached = 0
        self.wasted = 0
        self.emptied = 0
        self.drift = 0.0
        self.room(tokens)

    def room(self, tokens: int | None) -> None:
        """How many tokens its KV cache holds; None = not known."""
        marks = (UNKNOWN_TOKENS if tokens is None else tokens) // TOKENS_A_MARK
        self._room = min(max(_SMALLEST, marks), _LARGEST)

    def __len__(self) -> int:
        return len(self.marks)

    @property
    def most(self) -> int:
        """How many marks there is room for, as far as its answers have taught."""
        return max(_SMALLEST, int(self._room * self._share))

    def modest(self, marks: Sequence[int]) -> bool:
        """Whether so long a prompt leaves most of what is remembered in place."""
        return len(marks) * _MODEST <= self.most

    def known(self, marks: Sequence[int], fresh_after_s: float = 0.0) -> int:
        """How many of a prompt's first marks are here; fresh_after_s: and were read after that."""
        held = self.marks
        low, high = 0, len(marks)
        while low < high:
            middle = (low + high) // 2
            read_s = held.get(marks[middle])
            if read_s is None or read_s < fresh_after_s:
                high = middle
            else:
                low = middle + 1
        return low

    def read(self, marks: Sequence[int], now_s: float) -> None:
        """The worker reads, or will have read, this prompt."""
        held = self.marks
        for mark in reversed(marks):
            held.pop(mark, None)
            held[mark] = now_s
        room = self.most
        # In batches: finding the oldest entry of a dictionary means stepping over all that were taken out before it.
        if len(held) > room + room // 8:
            for mark in list(islice(held, len(held) - room)):
                del held[mark]

    def told(self, predicted: int, cached: int) -> None:
        """What an answer says of the prediction that sent it here. Both in tokens."""
        self.predicted += predicted
        self.cached += cached
        if predicted < _WORTH:
            return
        missing = max(predicted - cached, 0)
        self.wasted += missing
        self.drift += 0.05 * (missing / predicted - self.drift)
        if cached >= predicted * _MISS:
            self._misses = 0
            self._share = min(1.0, self._share * 1.02)
            return
        self._misses = self._misses + 1 if cached == 0 else 0
        self._share = max(0.05, self._share * 0.85)
        if self._misses >= _MISSES:
            self.forget()
            self.emptied += 1

    def forget(self) -> None:
        """Its cache was emptied: a restart, a reset."""
        self.marks.clear()
        self._misses = 0
        self._share = 1.0
