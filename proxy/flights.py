"""Equal questions in the air share one generation.

A Flight is one generation and everybody who listens to it: late joiners first get what was said, the last listener
who leaves cancels it. The Flights own the tasks. Nothing here knows HTTP or the cache; the pilot (a coroutine function
given by the gateway) flies, this module lets people on and off.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Self, TypeVar

from proxy.errors import ProxyError, UpstreamFailed

Key = Hashable
Log = TypeVar("Log")


@dataclass(frozen=True, slots=True)
class Head:
    """How a worker's reply begins. worker: its name.  reason: why it was chosen.
    entry_id: under which the answer is kept, if it is kept; 0 = it is not.
    continued: how many of its tokens were stored, where the worker only adds the rest."""

    status: int
    headers: list[tuple[str, str]]
    worker: str
    reason: str
    entry_id: int = 0
    continued: int = 0


@dataclass(slots=True)
class Block:
    """A piece of a reply that may be cut off here: whole SSE events, or a whole body.
    usage: the event that only a caller who asked for `include_usage` may see."""

    data: bytes
    usage: bool = False


@dataclass(slots=True, eq=False)
class Listener:
    """One who listens. position: how many blocks of the whole flight were taken."""

    position: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Flight(Generic[Log]):
    """One generation. `result` is what the pilot learned at the end, None until then or when it failed."""

    def __init__(self, shape: str, keep_bytes: int, patience_s: float) -> None:
        self.shape = shape
        self.head: Head | None = None
        self.result: Log | None = None
        self._keep_bytes = keep_bytes
        self._patience_s = patience_s
        self._blocks: deque[Block] = deque()
        self._dropped = 0  # blocks that every listener had taken, gone from memory
        self._bytes = 0
        self._ended = False
        self._error: BaseException | None = None
        self._listeners: set[Listener] = set()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ── the pilot's side ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def joinable(self) -> bool:
        """Whether somebody who comes now can still hear everything."""
        return not self._ended and self._error is None and self._dropped == 0 and self._bytes <= self._keep_bytes

    def begin(self, head: Head) -> None:
        """The worker's reply has begun."""
        self.head = head
        self._wake()

    async def say(self, block: Block) -> None:
        """Pass a block on. Waits only when more than `keep_bytes` is held and somebody is slow, so that a slow reader
        slows the worker down instead of filling our memory."""
        self._blocks.append(block)
        self._bytes += len(block.data)
        self._wake()
        while self._bytes > self._keep_bytes:
            self._trim()
            if self._bytes <= self._keep_bytes:
                return
            self._room.clear()
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._room.wait()
            except TimeoutError:
                self._leave_behind()

    def end(self, result: Log | None) -> None:
        """Everything was said."""
        self.result = result
        self._ended = True
        self._wake()

    def fail(self, error: BaseException) -> None:
        """It broke; every listener hears the same error after what was said."""
        self._error = error
        self._wake()

    # ── the listeners' side ──────────────────────────────────────────────────────────────────────────────────────

    async def begun(self, listener: Listener) -> Head:
        """How the reply begins. Raises what the pilot failed with before that."""
        while self.head is None:
            if self._error is not None:
                raise self._error
            listener.news.clear()
            await listener.news.wait()
        return self.head

    async def blocks(self, listener: Listener) -> AsyncIterator[Block]:
        """Every block, from where this listener is."""
        while True:
            at = listener.position - self._dropped
            if at < 0:
                raise UpstreamFailed("This reply was read too slowly; the rest of it is gone. Try again.")
            if at < len(self._blocks):
                block = self._blocks[at]
                listener.position += 1
                if not self.joinable:
                    self._room.set()
                yield block
            elif self._error is not None:
                raise self._error
            elif self._ended:
                return
            else:
                listener.news.clear()
                await listener.news.wait()

    async def ended(self, listener: Listener) -> Log | None:
        """Wait for the end without taking blocks. Raises what the pilot failed with."""
        async for _ in self.blocks(listener):
            pass
        return self.result

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._listeners)

    def _wake(self) -> None:
        for listener in self._listeners:
            listener.news.set()

    def _leave_behind(self) -> None:
        """One who does not read must not hold the others, nor the worker: the slowest leave."""
        slowest = min((listener.position for listener in self._listeners), default=0)
        self._listeners = {listener for listener in self._listeners if listener.position > slowest}
        if not self._listeners:
            raise UpstreamFailed("Nobody read this reply for too long; it was given up.")

    def _trim(self) -> None:
        slowest = min((listener.position for listener in self._listeners), default=self._dropped + len(self._blocks))
        while self._dropped < slowest and self._blocks:
            self._bytes -= len(self._blocks.popleft().data)
            self._dropped += 1


Pilot = Callable[[Flight[Log]], Awaitable[None]]


class Flights(Generic[Log]):
    """Everything in the air. An async context manager: leaving cancels what still flies.

    keep_bytes: how much of one generation is held for late joiners and slow readers, in bytes.
    patience_s: how long a reader who is that far behind may stand still before the others go on without it.
    abandoned: how many begun flights that may be shared go on without listeners; 0 = the last who leaves ends his.
    abandoned_s: how long such a one may take to its end, in seconds."""

    def __init__(
        self, *, keep_bytes: int = 4 << 20, patience_s: float = 30.0, abandoned: int = 0, abandoned_s: float = 120.0
    ) -> None:
        self._abandoned = abandoned
        self._abandoned_s = abandoned_s
        self._alone: dict[Flight[Log], asyncio.TimerHandle] = {}
        self._keep_bytes = keep_bytes
        self._patience_s = patience_s
        self._by_key: dict[Key, Flight[Log]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def join(
        self, key: Key | None, shape: str, pilot: Pilot[Log]
    ) -> AsyncIterator[tuple[Flight[Log], Listener, bool]]:
        """Listen to the flight under this key, or start one. Gives (flight, listener, joined).

        key: None is never shared.  joined: somebody else's flight. Leaving the context is leaving the flight; the last
        one who leaves before its end cancels it."""
        flight = self._by_key.get(key) if key is not None else None
        joined = flight is not None and flight.joinable
        if flight is None or not joined:
            flight = Flight[Log](shape, self._keep_bytes, self._patience_s)
            if key is not None:
                self._by_key[key] = flight
        elif (timer := self._alone.pop(flight, None)) is not None:
            timer.cancel()
        listener = Listener()
        flight._listeners.add(listener)
        if not joined:
            self._start(key, flight, pilot)
        try:
            yield flight, listener, joined
        finally:
            flight._listeners.discard(listener)
            flight._room.set()
            task = flight._task
            if not flight._listeners and task is not None and not task.done() and not self._goes_on(key, flight, task):
                self._land(key, flight)
                task.cancel()

    def _goes_on(self, key: Key | None, flight: Flight[Log], task: asyncio.Task[None]) -> bool:
        """Whether a flight that everybody left flies to its end: somebody may ask the same."""
        if key is None or flight.head is None or len(self._alone) >= self._abandoned:
            return False
        loop = asyncio.get_running_loop()
        self._alone[flight] = loop.call_later(self._abandoned_s, task.cancel)
        return True

    def _start(self, key: Key | None, flight: Flight[Log], pilot: Pilot[Log]) -> None:
        async def fly() -> None:
            try:
                await pilot(flight)
                if flight.head is None or not flight._ended:
                    raise RuntimeError("the pilot left before the end")
            except ProxyError as error:
                flight.fail(error)
            except asyncio.CancelledError:
                flight.fail(UpstreamFailed("The generation was cancelled."))
                raise
            except Exception as error:  # a bug of ours must not leave listeners waiting for ever
                flight.fail(error)
            finally:
                if (timer := self._alone.pop(flight, None)) is not None:
                    timer.cancel()
                self._land(key, flight)

        task = asyncio.get_running_loop().create_task(fly(), name="rejoinder-flight")
        flight._task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _land(self, key: Key | None, flight: Flight[Log]) -> None:
        if key is not None and self._by_key.get(key) is flight:
            del self._by_key[key]
