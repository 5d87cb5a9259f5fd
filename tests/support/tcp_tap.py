"""A loopback TCP relay that can turn into a black hole: it goes on accepting and reading, and answers nothing."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class TcpTap:
    """Relays to (host, port). `hole()` swallows everything from now on, `flow()` relays again; the connections that
    stood before are cut at that moment, as a firewall that forgot them would."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._hole = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._cut()
        await self._server.wait_closed()

    def hole(self) -> None:
        self._hole = True

    def flow(self) -> None:
        self._hole = False
        self._cut()

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            there, back = await asyncio.open_connection(*self._target)
            self._writers.add(back)
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if not self._hole:
                    target.write(data)
                    await target.drain()
        target.close()
