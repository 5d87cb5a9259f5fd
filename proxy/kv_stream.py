"""Receiving one publisher's KV events over ZeroMQ: the only door to pyzmq. What a message means, `Follower` decides.

Messages are taken off the socket without a future for each, for as long as a turn allows; then everybody else has his
turn. While a replay runs, live messages wait in the socket.
"""

import asyncio
import time
from types import TracebackType
from typing import Final, Self

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from proxy.routing.kv_follower import Follower
from proxy.routing.kv_sources import CONNECTS, Source

TURN_S: Final = 0.002
_HIGH_WATER: Final = 100_000  # messages, as vLLM's own default; beyond, some are lost and replayed
_MOST_BYTES: Final = 256 << 20
_RECONNECT_MS: Final = (100, 2_000)
_HEARTBEAT_MS: Final = (5_000, 15_000)  # between two, and without an answer: a host that vanished says no goodbye
_MOST_RESTARTS: Final = 3  # of the engine, while we try to catch up with it
_NO_REPLAY: Final = "the worker has no replay_endpoint in its --kv-events-config"


class StreamLost(Exception):
    """Nobody is there; says why, in words."""


class Sockets:
    """ZeroMQ's I/O thread, and how many replays may run at once. One per process; enter it before use."""

    def __init__(self, *, replays: int = 2) -> None:
        self._replays = replays
        self._context: zmq.asyncio.Context | None = None
        self.replaying = asyncio.Semaphore(replays)

    async def __aenter__(self) -> Self:
        self._context = zmq.asyncio.Context()
        self.replaying = asyncio.Semaphore(self._replays)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None

    def open(self, kind: int) -> zmq.asyncio.Socket:
        if self._context is None:
            raise RuntimeError("use `async with Sockets() as sockets`")
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVHWM, _HIGH_WATER)
        socket.setsockopt(zmq.MAXMSGSIZE, _MOST_BYTES)
        socket.setsockopt(zmq.IPV6, 1)
        socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS[0])
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MS[1])
        socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS[0])
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_MS[1])
        return socket


class KvStream:
    """confirm_s: after a connection, until one more replay: what was sent while our subscription was on its way is
    lost, and an idle worker sends nothing that would show it.  connect_s: how long nobody may be there.
    replay_s: how long one replay may take.  every_s: from one replay to the next, at least.
    retry_s: from a failed one to the next attempt to know all."""

    def __init__(
        self,
        sockets: Sockets,
        source: Source,
        follower: Follower,
        *,
        confirm_s: float = 1.0,
        connect_s: float = 5.0,
        replay_s: float = 10.0,
        every_s: float = 1.0,
        retry_s: float = 60.0,
    ) -> None:
        self.source = source
        self.follower = follower
        self.in_step = False  # connected, and no replay outstanding
        self._connected = False
        self._sockets = sockets
        self._confirm_s = confirm_s
        self._connect_s = connect_s
        self._replay_s = replay_s
        self._every_s = every_s
        self._retry_s = retry_s
        self._replayed_s = -every_s
        self._retry_at_s: float | None = None
        self._confirm_at_s: float | None = None

    async def follow(self) -> None:
        """Until it is cancelled. Raises StreamLost."""
        sub = self._sockets.open(zmq.SUB)
        monitor = sub.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        try:
            sub.setsockopt(zmq.SUBSCRIBE, self.source.topic.encode())
            sub.connect(self.source.endpoint)
            await self._serve(sub, monitor)
        except zmq.ZMQError as error:
            raise StreamLost(f"its KV events at {self.source.endpoint}: {error}") from error
        finally:
            self.in_step = self._connected = False
            sub.disable_monitor()
            monitor.close(0)
            sub.close(0)

    async def _serve(self, sub: zmq.asyncio.Socket, monitor: zmq.asyncio.Socket) -> None:
        poller = zmq.asyncio.Poller()
        poller.register(monitor, zmq.POLLIN)
        poller.register(sub, zmq.POLLIN)
        live: zmq.Socket[bytes] = zmq.Socket.shadow(sub)
        news: zmq.Socket[bytes] = zmq.Socket.shadow(monitor)
        away_since_s: float | None = time.monotonic()
        while True:
            ready = dict(await poller.poll(round(1000 * self._pause_s(away_since_s))))
            now_s = time.monotonic()
            if monitor in ready:
                happened = _drained(news)
                if happened and happened[-1] == zmq.EVENT_DISCONNECTED:
                    self.in_step = self._connected = False
                    away_since_s = now_s
                elif happened:
                    self._connected, away_since_s = True, None
                    await self._catch_up()
                    if self.source.replay is not None:
                        self._confirm_at_s = time.monotonic() + self._confirm_s
            if sub in ready:
                await self._receive(live)
            if away_since_s is not None and now_s - away_since_s >= self._connect_s:
                raise StreamLost(self._nobody_there())
            if away_since_s is None and _is_due(self._retry_at_s, now_s):
                self.follower.start_over()
                await self._catch_up()
            elif away_since_s is None and _is_due(self._confirm_at_s, now_s):
                self._confirm_at_s = None
                await self._catch_up(in_step=True)

    async def _receive(self, live: "zmq.Socket[bytes]") -> None:
        """Messages, for one turn."""
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < TURN_S:
            try:
                frames = live.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if self.follower.live(frames):
                await self._catch_up()
        await asyncio.sleep(0)

    async def _catch_up(self, *, in_step: bool = False) -> None:
        """Ask for what was missed; after it the stream is in step again, knowing all or not.

        in_step: nothing is known to be missing."""
        self._retry_at_s = None
        if self.source.replay is None:
            self.follower.gave_up(_NO_REPLAY)
        else:
            self.in_step = in_step
            await asyncio.sleep(self._replayed_s + self._every_s - time.monotonic())
            async with self._sockets.replaying:
                try:
                    for _ in range(_MOST_RESTARTS):
                        async with asyncio.timeout(self._replay_s):
                            await self._replay(self.source.replay)
                        if not self.follower.caught_up():
                            break
                    else:
                        self.follower.gave_up("the engine was restarted again and again")
                except (TimeoutError, zmq.ZMQError) as error:
                    why = f"not over after {self._replay_s:g} s" if isinstance(error, TimeoutError) else str(error)
                    if not in_step:  # else nothing was missing, as far as we know
                        self.follower.gave_up(f"the replay of its KV events at {self.source.replay}: {why}")
                        self._retry_at_s = time.monotonic() + self._retry_s
            self._replayed_s = time.monotonic()
        self.in_step = self._connected

    async def _replay(self, endpoint: str) -> None:
        """A socket of its own, so that no late answer to an earlier request can be taken for one to this."""
        dealer = self._sockets.open(zmq.DEALER)
        try:
            dealer.connect(endpoint)
            await dealer.send_multipart([b"", self.follower.wants().to_bytes(8, "big")])
            answers: zmq.Socket[bytes] = zmq.Socket.shadow(dealer)
            while True:
                await dealer.poll()
                began_s = time.perf_counter()
                while time.perf_counter() - began_s < TURN_S:
                    try:
                        frames = answers.recv_multipart(zmq.NOBLOCK)
                    except zmq.Again:
                        break
                    if self.follower.replayed(frames):
                        return
                await asyncio.sleep(0)
        finally:
            dealer.close(0)

    def _pause_s(self, away_since_s: float | None) -> float:
        """Until something is due though no message comes."""
        if away_since_s is not None:
            return max(0.01, away_since_s + self._connect_s - time.monotonic())
        due = [at_s for at_s in (self._retry_at_s, self._confirm_at_s) if at_s is not None]
        return max(0.01, min(due) - time.monotonic()) if due else 60.0

    def _nobody_there(self) -> str:
        said = f"nobody sends KV events at {self.source.endpoint}"
        return said if self.source.listens else f"{said}: {CONNECTS}"


def _is_due(at_s: float | None, now_s: float) -> bool:
    return at_s is not None and now_s >= at_s


def _drained(news: "zmq.Socket[bytes]") -> list[int]:
    happened: list[int] = []
    while True:
        try:
            happened.append(int(parse_monitor_message(news.recv_multipart(zmq.NOBLOCK))["event"]))
        except zmq.Again:
            return happened
