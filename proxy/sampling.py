"""Which hits are checked, in which order, and how much of a worker's time that may take. Pure: shadow checks decide
here and wait in `proxy.shadow`.

How many labels there are decides how often one is taken. With n labels and a wanted share s, a hit is chosen with

    p(n) = max(s, min(1, (50/n)²))

so the first 50 are all looked at, and p falls smoothly (with s = 2 % it arrives there at n = 354). Each label weighs
1/p, which makes the weighted share that of all hits (Horvitz and Thompson 1952). A fall in one step would be cheaper,
and worthless: one label of weight 50 would drown the 50 before it; here N labels are worth 0.56 N equal ones.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

EVERY_ONE: Final = 50  # labels until which every hit is checked
_LONGEST_CREDIT_S: Final = 3600.0  # of elapsed time: an idle night does not pay for a busy morning
_FIRST_S: Final = 0.05  # what a check is thought to take while none has been timed
_MARGIN: Final = 1.5
_LEARN: Final = 0.2

Item = TypeVar("Item")


def chance(labels: float, share: float) -> float:
    """The probability with which a hit is checked, in [0, 1]. labels: how many there are already.

    share: what remains when there are plenty; 0 = none is ever checked."""
    if share <= 0:
        return 0.0
    thin = 1.0 if labels <= EVERY_ONE else (EVERY_ONE / labels) ** 2
    return min(1.0, max(share, thin))


def control_chance(controls: float) -> float:
    """The probability with which a check also asks the same question twice, which costs a second generation: every
    second check until there are 50, then ever fewer, every tenth at last."""
    return max(0.1, 0.5 if controls <= EVERY_ONE else 0.5 * EVERY_ONE / controls)


class Allowance:
    """How long one worker may be used for checks: a share of the time that passes, saved up for at most an hour.

    Nothing is lent: at every moment, spent ≤ share × time since the beginning."""

    def __init__(self, share: float, now_s: float) -> None:
        self._share = share
        self._saved_s = 0.0
        self._at_s = now_s
        self._usual_s = _FIRST_S
        self.spent_s = 0.0

    def saved(self, now_s: float) -> float:
        """Seconds that may be spent now."""
        self._saved_s = min(self._saved_s + self._share * max(0.0, now_s - self._at_s), self._share * _LONGEST_CREDIT_S)
        self._at_s = max(self._at_s, now_s)
        return self._saved_s

    def ready_in(self, now_s: float) -> float:
        """Seconds until a usual check can be paid for; 0 = now, inf = never."""
        lacking_s = min(self._usual_s * _MARGIN, self._share * _LONGEST_CREDIT_S) - self.saved(now_s)
        if self._share <= 0:
            return math.inf
        return max(0.0, lacking_s / self._share)

    def spend(self, seconds: float, now_s: float, *, whole: bool) -> None:
        """A check took so long. whole: it came to its end; one that was stopped says only that it takes longer."""
        self._saved_s = max(0.0, self.saved(now_s) - seconds)
        self.spent_s += seconds
        if whole:
            self._usual_s += _LEARN * (seconds - self._usual_s)
        else:
            self._usual_s = max(self._usual_s, 2 * seconds)


class Waiting(Generic[Item]):
    """What waits to be checked: first in, first out, at most `room`, each for at most `patience_s`."""

    def __init__(self, room: int, patience_s: float) -> None:
        self._room = room
        self._patience_s = patience_s
        self._items: deque[tuple[float, Item]] = deque()

    def put(self, item: Item, now_s: float) -> int:
        """Returns how many older ones had to leave for it."""
        self._items.append((now_s, item))
        dropped = len(self._items) - self._room
        for _ in range(dropped):
            self._items.popleft()
        return max(0, dropped)

    def put_back(self, item: Item, since_s: float) -> None:
        """Before all others: its turn had come. since_s: when it was first put."""
        if len(self._items) < self._room:
            self._items.appendleft((since_s, item))

    def expire(self, now_s: float) -> int:
        """Drop those that have waited too long. Returns how many."""
        kept = [(at_s, item) for at_s, item in self._items if now_s - at_s <= self._patience_s]
        expired = len(self._items) - len(kept)
        if expired:
            self._items = deque(kept)
        return expired

    def take(self, wanted: Callable[[Item], bool]) -> tuple[float, Item] | None:
        """The first that is wanted, taken out, with the time at which it was put."""
        for place, (at_s, item) in enumerate(self._items):
            if wanted(item):
                del self._items[place]
                return at_s, item
        return None

    def clear(self) -> int:
        """Returns how many there were."""
        count = len(self._items)
        self._items.clear()
        return count

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return (item for _, item in self._items)


def at_rest(exposition: str) -> bool | None:
    """Whether a vLLM worker has nothing running and nothing waiting, from the text of its /metrics.

    None: it does not say. Source: the gauges vllm:num_requests_running and vllm:num_requests_waiting."""
    seen: dict[str, float] = {}
    for line in exposition.splitlines():
        for gauge in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
            if line.startswith((gauge + "{", gauge + " ")):
                try:
                    seen[gauge] = seen.get(gauge, 0.0) + float(line.rpartition(" ")[2])
                except ValueError:
                    return None
    return None if len(seen) < 2 else sum(seen.values()) == 0
