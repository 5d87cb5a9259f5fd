"""Where each session lives: the worker that answered its last turn. Pure, bounded state of one process.

Rendezvous hashing alone would do, but two chats on two workers would share one half of the time. So a new session goes
to the emptier of its two rendezvous homes, and from then on it stays where it was answered, also after the worker that
hashing prefers came back: that one has lost its prefix. A restart forgets this table; chats fall back to their hash.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Final

MOST_SESSIONS: Final = 100_000  # about 200 B each; the longest silent one leaves first


class Homes:
    """session digest → worker url, and how many sessions each worker is home to."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._homes: OrderedDict[str, str] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def of(self, session: str) -> str | None:
        """The url of this session's worker; None = a new session."""
        return self._homes.get(session)

    @property
    def counts(self) -> Mapping[str, int]:
        """Worker url → sessions that live there."""
        return self._counts

    def settle(self, session: str, url: str) -> None:
        """This worker answers the session's turn: it has the prefix now."""
        before = self._homes.get(session)
        if before == url:
            self._homes.move_to_end(session)
            return
        if before is not None:
            self._counts[before] -= 1
        self._homes[session] = url
        self._homes.move_to_end(session)
        self._counts[url] += 1
        if len(self._homes) > self._most:
            _, gone = self._homes.popitem(last=False)
            self._counts[gone] -= 1

    def __len__(self) -> int:
        return len(self._homes)
