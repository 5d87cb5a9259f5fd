"""A journal that replicas keep together in Redis: lines in the order in which they came, bounded by number and age.

A stream of its own (XADD). Deadlines and the breaker are the store's (`lifeline`); a server that is away at start is no
different.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from cache.store.lifeline import Lifeline
from cache.store.link import Link

_FIELD: Final = "line"


class SharedJournal:
    """name: of the journal, beside others under the same prefix.  most: lines, about.  life_s: of a line.
    clock: seconds since the epoch.  deadline_s: of a call, which no user waits for; connecting may take connect_s."""

    def __init__(
        self, url: str, prefix: str, name: str, clock: Callable[[], float], *, most: int, life_s: float,
        deadline_s: float = 1.0, connect_s: float = 0.5, failures: int = 3, retry_s: float = 0.5,
    ) -> None:  # fmt: skip
        self._key = f"{{{prefix}:{name}}}"
        self._clock = clock
        self._most = most
        self._life_s = life_s
        self._deadline_s = deadline_s
        self._connect_s = connect_s
        self._link = Link(url, connect_s)
        self._lifeline = Lifeline(self._link, self._here, failures, retry_s, what=f"lines of the {name}")

    async def __aenter__(self) -> Self:
        await self._lifeline.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lifeline.close()

    async def append(self, line: bytes) -> None:
        """Raises StoreUnavailable, also when it is late; it may be there all the same."""
        add = ("XADD", self._key, "MAXLEN", "~", self._most, "*", _FIELD, line)
        await self._lifeline.calls(self._deadline_s, [add, ("XTRIM", self._key, "MINID", self._oldest())])

    async def latest(self, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        """The newest first, and the cursor of what is older; None = nothing is. cursor: None = from the newest.
        Raises StoreUnavailable; ValueError for a cursor that is none."""
        if cursor is not None and not cursor.replace("-", "", 1).isdecimal():
            raise ValueError(f"{cursor!r} is no cursor")
        newest = "+" if cursor is None else f"({cursor}"
        read = ("XREVRANGE", self._key, newest, self._oldest(), "COUNT", limit + 1)
        (found,) = await self._lifeline.calls(self._deadline_s, [read])
        lines = [bytes(fields[1]) for _, fields in found[:limit]]
        return lines, bytes(found[limit - 1][0]).decode() if len(found) > limit else None

    def _oldest(self) -> str:
        return str(max(0, round((self._clock() - self._life_s) * 1000)))

    async def _here(self) -> None:
        await self._link.call(self._connect_s, "XLEN", self._key)
