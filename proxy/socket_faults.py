"""What a simulated worker does to its connections when it fails: reset, half-close, trickle, bytes of a test's own.

Each takes the request and returns a response for aiohttp to forget: what matters has happened on the socket by then.
"""

import asyncio
import socket
import struct
from collections.abc import Iterable
from typing import Final

from aiohttp import web

HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Filler: " + b"x" * 4096
FLOOD: Final = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 65_480 + b'"}}]}\n\n'


def reset(transport: asyncio.Transport | None) -> None:
    """Close with RST: what a client sees of a process that was killed."""
    if transport is None or transport.is_closing():
        return
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def drop(request: web.Request, response: web.StreamResponse | None = None, *, rst: bool = True) -> web.StreamResponse:
    """End the connection now; with FIN instead, what was written before goes out first."""
    if rst:
        reset(request.transport)
    elif request.transport is not None:
        request.transport.close()
    return response or web.Response()


async def half_close(request: web.Request) -> web.StreamResponse:
    """FIN, and then nothing: until the client hangs up, the connection is open in the other direction."""
    if request.transport is not None and request.transport.can_write_eof():
        request.transport.write_eof()
    return await for_ever()


async def trickle(request: web.Request, wait_s: float) -> web.StreamResponse:
    """A head that is always about to end (slow loris, from the other side)."""
    for place in range(len(HEAD)):
        if request.transport is None:
            break
        request.transport.write(HEAD[place : place + 1])
        await asyncio.sleep(wait_s)
    return drop(request)


async def say(request: web.Request, pieces: Iterable[bytes], wait_s: float) -> web.StreamResponse:
    """Each piece in a write, and a packet, of its own; then FIN."""
    for piece in pieces:
        if request.transport is None:
            break
        request.transport.write(piece)
        await asyncio.sleep(wait_s)
    return drop(request, rst=False)


async def for_ever() -> web.StreamResponse:
    """Until the client leaves, which cancels the handler."""
    await asyncio.Event().wait()
    raise AssertionError
