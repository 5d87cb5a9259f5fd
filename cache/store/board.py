"""A small board that replicas share in Redis: bounded, and what is pinned there falls off by itself.

For what is worth having everywhere and no loss when it is gone. Deadlines and the breaker are the store's (`lifeline`);
a server that is away at start is no different. All keys carry one hash tag, so a cluster keeps them on one node.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from cache.store.lifeline import Lifeline
from cache.store.link import Link
from cache.store.scripts import Script

# KEYS[1]: base.  ARGV: key, value, now and life in milliseconds, most.  The oldest make room; the index of keys lives
# as long as the youngest of them.
_PIN: Final = Script("""
local base, key, now, life = KEYS[1], ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('SET', base .. ':' .. key, ARGV[2], 'PX', life)
redis.call('ZADD', base, now, key)
redis.call('PEXPIRE', base, life)
redis.call('ZREMRANGEBYSCORE', base, '-inf', now - life)
local over = redis.call('ZCARD', base) - tonumber(ARGV[5])
if over > 0 then
    for _, old in ipairs(redis.call('ZRANGE', base, 0, over - 1)) do redis.call('DEL', base .. ':' .. old) end
    redis.call('ZREMRANGEBYRANK', base, 0, over - 1)
end
return 1
""")


class SharedBoard:
    """name: of the board, beside others under the same prefix.  most: values at a time.  life_s: of a value.
    clock: seconds since the epoch.  deadline_s, write_deadline_s: of `get` and `put`; connecting may take connect_s.
    failures: deadlines missed in a row after which it counts as down.  retry_s: between attempts to come back."""

    def __init__(
        self, url: str, prefix: str, name: str, clock: Callable[[], float], *, most: int, life_s: float,
        deadline_s: float = 0.02, write_deadline_s: float = 0.05, connect_s: float = 0.5, failures: int = 3,
        retry_s: float = 0.5,
    ) -> None:  # fmt: skip
        self._base = f"{{{prefix}:{name}}}"
        self._clock = clock
        self._most = most
        self._life_ms = round(life_s * 1000)
        self._deadline_s = deadline_s
        self._write_deadline_s = write_deadline_s
        self._connect_s = connect_s
        self._link = Link(url, connect_s)
        self._lifeline = Lifeline(self._link, self._here, failures, retry_s, what=name)

    async def __aenter__(self) -> Self:
        await self._lifeline.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lifeline.close()

    async def get(self, key: str) -> bytes | None:
        """Raises StoreUnavailable, also when it is late."""
        (found,) = await self._lifeline.calls(self._deadline_s, [("GET", f"{self._base}:{key}")])
        return None if found is None else bytes(found)

    async def put(self, key: str, value: bytes) -> None:
        """Raises StoreUnavailable, also when it is late; it may have been pinned all the same."""
        now_ms = round(self._clock() * 1000)
        await self._lifeline.run(
            self._write_deadline_s, _PIN, self._base, key, value, now_ms, self._life_ms, self._most
        )

    async def _here(self) -> None:
        await self._link.call(self._connect_s, "ZCARD", self._base)
