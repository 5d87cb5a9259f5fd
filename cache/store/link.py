"""One connection to a Redis server, shared by all callers. The only door to redis-py.

Commands are written as they come, and replies arrive in the same order, so a hundred concurrent lookups cost a hundred
small writes and a few reads, and there is no pool to run dry. A caller whose deadline passes leaves; its reply is
thrown away when it comes. Addresses, TLS and logins are redis-py's (`redis://`, `rediss://`, `unix://`).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio.connection import Connection, parse_url
from redis.exceptions import MovedError, NoScriptError, ReadOnlyError, RedisError, ResponseError

from cache.errors import StoreUnavailable

Word = bytes | str | int | float
Reply = Any  # bytes, int, None, a list of replies, or the error that came instead

PENDING: Final = 10_000  # replies that may be outstanding; more callers are turned away at once


class LinkLost(StoreUnavailable):
    """The connection is gone, or leads to the wrong server."""


class Late(StoreUnavailable):
    """The deadline passed; the connection may be well."""


class UnknownScript(StoreUnavailable):
    """The server has not seen the script with this digest."""


class Link:
    """connect_s: most seconds that connecting and logging in may take."""

    def __init__(self, url: str, connect_s: float) -> None:
        options: dict[str, Any] = dict(parse_url(url))
        self._make = options.pop("connection_class", Connection)
        for not_ours in ("max_connections", "timeout", "retry_on_timeout"):
            options.pop(not_ours, None)
        # No time-outs of redis-py's own: they would count per read, and every call here has its deadline.
        self._options = options | {"socket_timeout": None, "socket_connect_timeout": None, "protocol": 2}
        self._elsewhere: tuple[str, int] | None = None  # the cluster node that owns our keys
        self._connect_s = connect_s
        self._connection: Connection | None = None
        self._dropped: Connection | None = None  # of no use, but still to be closed
        self._reader: asyncio.Task[None] | None = None
        self._replies: deque[asyncio.Future[Reply]] = deque()
        self.lost = asyncio.Event()
        self.lost.set()

    async def connect(self) -> None:
        """Raises LinkLost. In a cluster, the node that a `MOVED` named is tried first, then the address given."""
        await self.close()
        options = dict(self._options)
        if self._elsewhere is not None:
            host, options["port"] = self._elsewhere
            options["host"] = host or options.get("host", "localhost")  # no host: the one that said so
            self._elsewhere = None
        connection = self._make(**options)
        try:
            async with asyncio.timeout(self._connect_s):
                await connection.connect()
        except (RedisError, OSError, TimeoutError) as error:
            await _disconnect(connection)
            raise LinkLost(str(error) or f"no connection within {self._connect_s:g} s") from error
        except BaseException:
            await _disconnect(connection)
            raise
        self._connection = connection
        self.lost.clear()
        self._reader = asyncio.create_task(self._read(connection), name="redis-link")

    @property
    def moved(self) -> bool:
        """Did the server say that our keys live elsewhere? Then connecting again leads there."""
        return self._elsewhere is not None

    async def close(self) -> None:
        """Callers that still wait get LinkLost. The link may be connected again."""
        self.drop("the connection was closed")
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])  # unlike `await reader`, it does not hide that we are cancelled
            self._reader = None
        if self._dropped is not None:
            await _disconnect(self._dropped)
            self._dropped = None

    async def call(self, deadline_s: float, *words: Word) -> Reply:
        """One command. Raises StoreUnavailable; the subclass says what can be done about it."""
        return (await self.calls(deadline_s, [words]))[0]

    async def calls(self, deadline_s: float, commands: Sequence[Sequence[Word]]) -> list[Reply]:
        """Several commands in one write; all their replies. Fails as a whole."""
        connection = self._connection
        if connection is None:
            raise LinkLost("not connected")
        if len(self._replies) >= PENDING:
            raise StoreUnavailable(f"{len(self._replies)} replies are outstanding")
        packed = connection.pack_commands(commands)
        loop = asyncio.get_running_loop()
        replies: list[asyncio.Future[Reply]] = [loop.create_future() for _ in commands]
        self._replies.extend(replies)
        try:
            async with asyncio.timeout(deadline_s):
                # Up to the socket this runs without a pause, so the order of writes is the order of `_replies`.
                await connection.send_packed_command(packed, check_health=False)
                results = [await reply for reply in replies]
        except TimeoutError:
            raise Late(f"no answer within {deadline_s * 1000:g} ms") from None
        except (RedisError, OSError) as error:
            self.drop(str(error))
            raise LinkLost(str(error)) from error
        finally:
            for reply in replies:
                reply.cancel()  # nobody listens any more; `_read` passes over it
        for result in results:
            if isinstance(result, LinkLost):
                raise result
            self._elsewhere = self._elsewhere or _moved(result)
            if self._elsewhere is not None or isinstance(result, ReadOnlyError):
                self.drop(str(result))
                raise LinkLost(str(result))
            if isinstance(result, NoScriptError):
                raise UnknownScript(str(result))
            if isinstance(result, ResponseError):
                raise StoreUnavailable(str(result)) from result
        return results

    async def _read(self, connection: Connection) -> None:
        try:
            while True:
                try:
                    reply = await connection.read_response()
                except ResponseError as error:
                    reply = error
                waiting = self._replies.popleft()
                if not waiting.done():
                    waiting.set_result(reply)
        except Exception as error:  # whatever it is, nobody reads any more: to go on would leave callers waiting
            if self._connection is connection:
                self.drop(str(error) or "the server closed the connection")

    def drop(self, reason: str) -> None:
        """The connection is of no use any more; whoever watches `lost` closes it and connects again."""
        error = LinkLost(reason)
        if self._connection is not None:
            self._dropped, self._connection = self._connection, None
        self.lost.set()
        while self._replies:
            waiting = self._replies.popleft()
            if not waiting.done():
                waiting.set_result(error)  # as an exception it would be complained about where nobody listens


def _moved(result: Reply) -> tuple[str, int] | None:
    """Where a node of a cluster says that our keys live. redis-py knows this error since version 6."""
    if isinstance(result, MovedError):
        return result.host, int(result.port)
    if isinstance(result, ResponseError) and str(result).startswith("MOVED "):
        host, _, port = str(result).split()[2].rpartition(":")
        return host, int(port)
    return None


async def _disconnect(connection: Connection) -> None:
    with contextlib.suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)
