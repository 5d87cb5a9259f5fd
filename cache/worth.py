"""What an answer is worth keeping, as one number, and how many answers there may be. Pure.

Worth is LRFU (Lee, Choi, Kim et al., IEEE Trans. Computers 50(12), 2001): the sum over an entry's uses of
2^(-age / half-life), with age counted in uses of the whole store. It is kept as a logarithm and by forward decay
(Cormode et al., ICDE 2009): log2 of the sum of 2^(moment of use / half-life). So waiting never changes the order of two
entries: nothing has to be aged, one number and an ordered index of it say who leaves, in SQL and in Redis as well as in
memory, and replicas that share a store share its opinion.

A use counts what it saved: tokens of a worker per byte kept. What leaves is remembered for a while by its worth alone,
so that a question that comes back is not a stranger; without that, where taste drifts, this does hardly better than
LRU. The newest entries cannot leave yet, whatever the others are worth: each gets its chance to be asked again.

HALF_LIFE and REMEMBERED were chosen on Zipf streams (`tests/bench/eviction.py`): longer is better where taste stands
still and worse where it drifts.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from cache.entry import Entry

HALF_LIFE: Final = 20  # capacities full of uses
REMEMBERED: Final = 2  # capacities full of entries that left
WINDOW: Final = 100  # one in so many entries, the newest, cannot leave
ROW_BYTES: Final = 600  # what an entry takes beside its texts and its vector
_TYPICAL: Final = 200 / 2500  # tokens saved by one use of a byte kept, of an ordinary answer
_PREFILL: Final = 0.1  # a prompt token costs so much of a generated one
_MOST: Final = 2.0  # an answer that saves much counts at most four times as much as an ordinary one


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bounds of a store. entries: at least 1.  bytes: of all entries together by `size_of`, None = no bound."""

    entries: int
    bytes: int | None = None

    def __post_init__(self) -> None:
        if self.entries < 1:
            raise ValueError("capacity must be at least 1")
        if self.bytes is not None and self.bytes < 1:
            raise ValueError("capacity in bytes must be at least 1")

    @property
    def half_life(self) -> float:
        """In uses."""
        return float(HALF_LIFE * self.entries)

    @property
    def remembered(self) -> int:
        """How many entries that left are remembered."""
        return REMEMBERED * self.entries

    def exceeded(self, entries: int, held_bytes: int) -> bool:
        return entries > self.entries or (self.bytes is not None and held_bytes > self.bytes)


def window(held: int) -> int:
    """How many of the newest entries cannot leave, of so many."""
    return max(1, held // WINDOW)


def size_of(entry: Entry) -> int:
    """About how many bytes an entry takes in a store."""
    vector = 0 if entry.vector is None else 2 * entry.vector.size  # float16, see `cache.store.record`
    return len(entry.answer.body) + 2 * len(entry.text or "") + vector + ROW_BYTES


def gain_of(entry: Entry) -> float:
    """log2 of what one use counts, 0 for an ordinary answer: generated tokens saved per byte kept."""
    answer = entry.answer
    if answer.tokens is None:
        return 0.0
    saved = answer.tokens + _PREFILL * (answer.prompt_tokens or 0)
    return min(_MOST, max(-_MOST, math.log2(max(saved, 1.0) / size_of(entry) / _TYPICAL)))


def later(worth: float | None, use: float) -> float:
    """What an entry is worth after one more use. worth: before; None = it had none.  use: moment / half-life + gain."""
    if worth is None:
        return use
    high, low = max(worth, use), min(worth, use)
    return high + math.log2(1.0 + 2.0 ** (low - high)) if high - low < 60.0 else high


class Departed:
    """What entries were worth that had to leave, by a name for their question. The latest `limit` are remembered."""

    __slots__ = ("_limit", "_worths")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._worths: OrderedDict[int, float] = OrderedDict()

    def left(self, name: int, worth: float) -> None:
        self._worths[name] = worth
        self._worths.move_to_end(name)
        if len(self._worths) > self._limit:
            self._worths.popitem(last=False)

    def back(self, name: int) -> float | None:
        """It is here again: what it was worth, None where nobody remembers. It is no longer departed."""
        return self._worths.pop(name, None)

    def forget(self) -> None:
        self._worths.clear()

    def __len__(self) -> int:
        return len(self._worths)
