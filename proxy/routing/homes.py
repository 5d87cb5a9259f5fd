"""Where each session lives: the worker that answered its last turn. Pure, bounded state of one process.

Rendezvous hashing alone would do, but two chats on two workers would share one half of the time. So a new session goes
where it costs least, and from then on it stays where it was answered, also after the worker that hashing prefers came
back: that one has lost its prefix. A restart forgets this table; chats fall back to their hash.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MOST_SESSIONS: Final = 100_000  # about 300 B each; the longest silent one leaves first


@dataclass(slots=True)
class Home:
    """url: of the worker.  generation: of the worker, when it answered; another one has lost the prefix.
    tokens: of the last turn's prompt and answer; 0 = not known yet.  steps, mark: how many marks that prompt left, and
    the last of them: a prompt that has this mark there goes on from it."""

    url: str
    generation: int
    tokens: int = 0
    steps: int = 0
    mark: int = 0


class Homes:
    """session digest → `Home`, and how many sessions each worker is home to."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._homes: OrderedDict[str, Home] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def of(self, session: str) -> Home | None:
        """None = a new session."""
        return self._homes.get(session)

    @property
    def counts(self) -> Mapping[str, int]:
        """Worker url → sessions that live there."""
        return self._counts

    def settle(self, session: str, url: str, generation: int = 0) -> Home:
        """This worker answers the session's turn: it has the prefix now."""
        home = self._homes.get(session)
        if home is None:
            home = self._homes[session] = Home(url, generation)
            self._counts[url] += 1
        elif home.url != url or home.generation != generation:
            self._left(home.url)
            self._counts[url] += 1
            home.url, home.generation, home.tokens = url, generation, 0
            home.steps = home.mark = 0
        self._homes.move_to_end(session)
        if len(self._homes) > self._most:
            _, gone = self._homes.popitem(last=False)
            self._left(gone.url)
        return home

    def _left(self, url: str) -> None:
        self._counts[url] -= 1
        if not self._counts[url]:
            del self._counts[url]  # workers come and go under new addresses

    def __len__(self) -> int:
        return len(self._homes)
