"""What sessions' homes lack because the cache answered, and what became of the warm-ups that made it good. Pure,
bounded state of one process.

A cached answer costs its session's home worker nothing, and teaches it nothing: the next turn that it must answer holds
a turn that it has never read. That is a debt. It is paid by a warm-up in the worker's idle time, or by the session's
next generation, whichever comes first. A warm-up is *used* when that generation comes to the same worker in time.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from proxy.routing.choice import Prompt

MOST: Final = 1024  # debts
MOST_BYTES: Final = 32 << 20  # of all of them
PATIENCE_S: Final = 120.0  # a chat that is silent for longer has probably ended
_A_MARK: Final = 40  # bytes of memory


@dataclass(frozen=True, slots=True)
class Debt:
    """One session's home lacks its last turns.

    url, generation: of the home when the answer was served.  body: the request that pays.  prompt: of that body.
    steps: marks of the served request alone, which the next turn shares whatever the client makes of the answer.
    lacking: tokens, as believed.  since_s: when the answer was served.  tries: how often paying it was broken off."""

    session: str
    url: str
    generation: int
    body: bytes
    prompt: Prompt
    steps: int
    lacking: int
    since_s: float
    tries: int = 0

    @property
    def bytes(self) -> int:
        """Of memory, about."""
        return len(self.body) + _A_MARK * (len(self.prompt.trail.marks) if self.prompt.trail is not None else 0)


class Debts:
    """session → its debt; a newer one holds all that the older did. patience_s: how long one is worth paying."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES, patience_s: float = PATIENCE_S) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._patience_s = patience_s
        self._debts: OrderedDict[str, Debt] = OrderedDict()
        self._homes: Counter[str] = Counter()
        self.bytes = 0

    def owe(self, debt: Debt) -> int:
        """The session's debt from now on. Returns how many were dropped for want of room, the oldest first."""
        self.settle(debt.session)
        self._debts[debt.session] = debt
        self._homes[debt.url] += 1
        self.bytes += debt.bytes
        dropped = 0
        while len(self._debts) > self._most or self.bytes > self._most_bytes:
            self.settle(next(iter(self._debts)))
            dropped += 1
        return dropped

    def put_back(self, debt: Debt) -> None:
        """It was taken and is not paid. It comes first again, unless there is a newer one or no room."""
        if debt.session in self._debts or len(self._debts) >= self._most or self.bytes + debt.bytes > self._most_bytes:
            return
        self._debts[debt.session] = replace(debt, tries=debt.tries + 1)
        self._debts.move_to_end(debt.session, last=False)
        self._homes[debt.url] += 1
        self.bytes += debt.bytes

    def settle(self, session: str) -> Debt | None:
        """The session owes nothing any more. Returns what it owed."""
        debt = self._debts.pop(session, None)
        if debt is not None:
            self.bytes -= debt.bytes
            self._homes[debt.url] -= 1
            if not self._homes[debt.url]:
                del self._homes[debt.url]
        return debt

    def at(self, url: str) -> int:
        """How many sessions of this home owe something."""
        return self._homes[url]

    def take(self, url: str) -> Debt | None:
        """The oldest debt of this home, taken out."""
        session = next((session for session, debt in self._debts.items() if debt.url == url), None)
        return self.settle(session) if session is not None else None

    def expire(self, now_s: float) -> int:
        """Drop those that nobody will be glad of any more. Returns how many."""
        late = [session for session, debt in self._debts.items() if now_s - debt.since_s > self._patience_s]
        for session in late:
            self.settle(session)
        return len(late)

    def clear(self) -> int:
        """Returns how many there were."""
        count = len(self._debts)
        self._debts.clear()
        self._homes.clear()
        self.bytes = 0
        return count

    def __len__(self) -> int:
        return len(self._debts)


@dataclass(frozen=True, slots=True)
class Paid:
    """A warm-up that was done. computed: tokens that it made the worker compute.  cached: those that it found there;
    None = the worker does not say.  at_s: when it ended."""

    url: str
    generation: int
    computed: int
    cached: int | None
    at_s: float


@dataclass(frozen=True, slots=True)
class Use:
    """What became of the computed tokens of warm-ups. unknown: used, and the worker does not say how many of them."""

    saved: int = 0
    wasted: int = 0
    unknown: int = 0


class Payments:
    """session → its last warm-up, until the session's next generation, or until it is too late for one."""

    def __init__(self, most: int = MOST, patience_s: float = PATIENCE_S) -> None:
        self._most = most
        self._patience_s = patience_s
        self._paid: OrderedDict[str, Paid] = OrderedDict()

    def paid(self, session: str, paid: Paid) -> Use:
        """A warm-up ended. Two in a row are one: the second stands on what the first computed."""
        wasted = 0
        before = self._paid.pop(session, None)
        if before is not None and (before.url, before.generation) == (paid.url, paid.generation):
            paid = replace(paid, computed=before.computed + paid.computed, cached=before.cached)
        elif before is not None:
            wasted += before.computed
        self._paid[session] = paid
        if len(self._paid) > self._most:
            wasted += self._paid.popitem(last=False)[1].computed
        return Use(wasted=wasted)

    def generated(self, session: str, url: str, generation: int, cached: int | None) -> Use:
        """The session's next generation ended there, and found so many tokens in the cache."""
        paid = self._paid.pop(session, None)
        if paid is None:
            return Use()
        if (url, generation) != (paid.url, paid.generation):
            return Use(wasted=paid.computed)
        if cached is None or paid.cached is None:
            return Use(unknown=paid.computed)
        saved = min(max(cached - paid.cached, 0), paid.computed)
        return Use(saved, paid.computed - saved)

    def expire(self, now_s: float) -> Use:
        """Nobody came for these."""
        late = [session for session, paid in self._paid.items() if now_s - paid.at_s > self._patience_s]
        return Use(wasted=sum(self._paid.pop(session).computed for session in late))

    def __len__(self) -> int:
        return len(self._paid)
