"""A bounded shelf of entries in memory, found by key or by wording. No I/O, no clock of its own.

Both in-process tiers stand on it: a session is one shelf, the hot part of the recent tier another.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from cache.entry import Entry


class Shelf:
    """Entries in the order of their last use, bounded by count and by bytes. Least recently used leave first."""

    __slots__ = ("_by_id", "_by_key", "_by_wording", "_bytes", "_bytes_limit", "_entries_limit")

    def __init__(self, entries_limit: int, bytes_limit: int) -> None:
        self._entries_limit = entries_limit
        self._bytes_limit = bytes_limit
        self._bytes = 0
        self._by_key: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self._by_wording: dict[tuple[str, str], tuple[str, str]] = {}
        self._by_id: dict[int, tuple[str, str]] = {}

    def put(self, entry: Entry) -> None:
        """Keep an entry in place of the one with the same scope and key."""
        place = (entry.scope.key, entry.key)
        self._drop(place)
        if _size(entry) > self._bytes_limit:
            return
        self._by_key[place] = entry
        self._by_id[entry.id] = place
        self._bytes += _size(entry)
        if entry.wording is not None:
            self._by_wording[(entry.scope.key, entry.wording)] = place
        while len(self._by_key) > self._entries_limit or self._bytes > self._bytes_limit:
            self._drop(next(iter(self._by_key)))

    def exact(self, scope_key: str, key: str) -> Entry | None:
        """The entry with this exact key, now the most recently used."""
        place = (scope_key, key)
        entry = self._by_key.get(place)
        if entry is not None:
            self._by_key.move_to_end(place)
        return entry

    def worded(self, scope_key: str, wording: str) -> Entry | None:
        """The newest entry with this wording."""
        place = self._by_wording.get((scope_key, wording))
        return self._by_key.get(place) if place is not None else None

    def forget(self, entry_ids: Iterable[int]) -> int:
        """Drop these entries. Returns how many were here."""
        before = len(self)
        for entry_id in entry_ids:
            place = self._by_id.get(entry_id)
            if place is not None:
                self._drop(place)
        return before - len(self)

    @property
    def bytes(self) -> int:
        """Sum of the sizes of the answers kept, in bytes, with a flat allowance for each entry."""
        return self._bytes

    def __contains__(self, entry_id: int) -> bool:
        return entry_id in self._by_id

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def _drop(self, place: tuple[str, str]) -> None:
        entry = self._by_key.pop(place, None)
        if entry is None:
            return
        self._bytes -= _size(entry)
        self._by_id.pop(entry.id, None)
        if entry.wording is not None and self._by_wording.get((entry.scope.key, entry.wording)) == place:
            del self._by_wording[(entry.scope.key, entry.wording)]


def _size(entry: Entry) -> int:
    return len(entry.answer.body) + len(entry.text or "") + 600
