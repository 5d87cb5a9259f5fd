"""Which entries are served most, in bounded memory. Pure.

Space-Saving (Metwally, Agrawal and El Abbadi 2005): of `most` counters, a newcomer takes over a lowest one with its
count, by which its own may then be too high. Ids only: texts are read from the store when somebody looks, so what was
deleted is not shown.
"""

from dataclasses import dataclass
from typing import Final

MOST: Final = 2_000


@dataclass(frozen=True, slots=True)
class Often:
    """times: how often it was served, at most.  over: by how much that may be too high."""

    entry_id: int
    times: int
    over: int


class Popular:
    """Counts of one process since it began."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._times: dict[int, int] = {}
        self._over: dict[int, int] = {}
        self._floor = 0  # what a counter that was taken over had at most

    def note(self, entry_id: int) -> None:
        """It was served once more."""
        times = self._times
        if entry_id in times:
            times[entry_id] += 1
            return
        if len(times) >= self._most:
            self._make_room()
        times[entry_id] = self._floor + 1
        if self._floor:
            self._over[entry_id] = self._floor

    def _make_room(self) -> None:
        """A tenth at once, lowest first: looking for the lowest one for each newcomer would cost more than counting."""
        lowest = sorted(self._times, key=self._times.__getitem__)[: max(1, self._most // 10)]
        self._floor = self._times[lowest[-1]]
        for entry_id in lowest:
            del self._times[entry_id]
            self._over.pop(entry_id, None)

    def top(self, limit: int) -> list[Often]:
        """Most often first; ties by id."""
        first = sorted(self._times.items(), key=lambda each: (-each[1], each[0]))[:limit]
        return [Often(entry_id, times, self._over.get(entry_id, 0)) for entry_id, times in first]
