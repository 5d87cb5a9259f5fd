"""One thread that owns a model, and the event loop's side of it.

The loop never waits for the thread: it hands texts over through a `SimpleQueue` (put never blocks) and gets vectors
back through futures. Whatever the thread does -- load for a minute, hang, die -- costs the caller its deadline at
most, and after a few of those nothing, because the breaker is open. Nothing here knows any model.

Newest first: everybody has the same short deadline, so under overload the oldest question is the one that would be
answered too late. Short runs: a run computes at most `tokens_per_run` padded tokens, so that a long text cannot make
thirty short ones late."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from cache.embedder.breaker import Breaker, Monotonic
from cache.entry import Vector
from cache.errors import EmbedderUnavailable, TextTooLong

log = logging.getLogger(__name__)

Tokens = Sequence[int]
Checked = Callable[[NDArray[np.float32], tuple[int, int]], NDArray[np.float32]]  # (rows, expected shape); see `unit`

# A text of more characters than this per token of the window is not even tokenised: eight megabytes would keep the
# thread busy for seconds. Ordinary English has 4 to 5 characters a token, Chinese fewer than 2.
CHARACTERS_PER_TOKEN = 16


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model once it is loaded; the fields of the seam, and `window`, its longest input in tokens."""

    name: str
    dim: int
    threshold: float
    languages: frozenset[str]
    window: int


class Model(Protocol):
    """What the thread drives. Only that thread calls it, so it may block and need not be thread-safe."""

    def load(self) -> ModelFacts:
        """Read files, open the session. Raises EmbedderUnavailable with a way out."""
        ...

    def tokenize(self, text: str) -> Tokens:
        """All tokens, whatever the window. Raises TextTooLong for a text with signs that the model cannot read."""
        ...

    def run(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """One row per text, any length."""
        ...


@dataclass(eq=False, slots=True)
class _Asked:
    """A text on its way. `answer` is done as soon as nobody waits any more; the thread then drops it."""

    text: str
    answer: asyncio.Future[Vector]
    tokens: Tokens = field(default=())


class BatchingEmbedder:
    """An `Embedder` around any `Model`."""

    def __init__(
        self,
        model: Model,
        *,
        deadline_s: float = 0.05,
        queue_limit: int = 256,
        max_batch: int = 32,
        tokens_per_run: int = 128,
        load_timeout_s: float = 120.0,
        shutdown_s: float = 1.0,
        tolerated_failures: int = 3,
        cooldown_s: float = 5.0,
        clock: Monotonic = time.monotonic,
        checked: Checked | None = None,
    ) -> None:
        self._model = model
        self._checked = checked or unit
        self._deadline_s = deadline_s
        self._queue_limit = queue_limit
        self._max_batch = max_batch
        self._tokens_per_run = tokens_per_run
        self._load_timeout_s = load_timeout_s
        self._shutdown_s = shutdown_s
        self._clock = clock
        self._breaker = Breaker(
            tolerated=tolerated_failures, stall_s=5 * deadline_s, cooldown_s=cooldown_s, clock=clock
        )
        self._inbox: SimpleQueue[_Asked | None] = SimpleQueue()
        self._waiting: set[_Asked] = set()
        self._progress = 0  # runs that came back; a question that sees it move was late, not stuck
        self._facts: ModelFacts | None = None
        self._stopped: asyncio.Event | None = None

    def __repr__(self) -> str:
        name = self._facts.name if self._facts else "not open"
        state = "open breaker" if self._breaker.is_open else f"{len(self._waiting)} waiting"
        return f"<{type(self).__name__} {name} [{state}]>"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[ModelFacts] = loop.create_future()
        self._stopped = asyncio.Event()
        self._inbox = SimpleQueue()  # what an earlier, hung thread left is not ours
        worker = _Worker(self, loop, loaded, self._stopped)
        threading.Thread(target=worker.work, name="rejoinder-embedder", daemon=True).start()
        try:
            async with asyncio.timeout(self._load_timeout_s):
                self._facts = await loaded
        except TimeoutError:
            self._inbox.put(None)
            raise EmbedderUnavailable(f"the embedding model did not load within {self._load_timeout_s:g} s") from None
        except BaseException:
            self._inbox.put(None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stopped is not None
        stopped, self._facts = self._stopped, None
        for asked in self._waiting:
            _settle(asked, EmbedderUnavailable("the embedder is closing"))
        self._inbox.put(None)
        try:
            async with asyncio.timeout(self._shutdown_s):
                await stopped.wait()
        except TimeoutError:
            log.warning("the embedding model is stuck; its thread is left behind")

    @property
    def name(self) -> str:
        return self._open().name

    @property
    def dim(self) -> int:
        return self._open().dim

    @property
    def threshold(self) -> float:
        return self._open().threshold

    @property
    def languages(self) -> frozenset[str]:
        return self._open().languages

    async def embed(self, text: str, *, deadline_s: float | None = None) -> Vector:
        facts = self._open()
        if len(text) > CHARACTERS_PER_TOKEN * facts.window:
            raise TextTooLong(f"{len(text)} characters; the model reads {facts.window} tokens")
        if len(self._waiting) >= self._queue_limit or self._inbox.qsize() >= self._queue_limit:
            raise EmbedderUnavailable(f"{self._queue_limit} texts are waiting already")
        if not self._breaker.admits():
            raise EmbedderUnavailable("the model failed several times in a row; it is left alone for a while")
        return await self._ask(text, self._deadline_s if deadline_s is None else deadline_s)

    async def _ask(self, text: str, deadline_s: float) -> Vector:
        asked = _Asked(text, asyncio.get_running_loop().create_future())
        began_s, progress = self._clock(), self._progress
        self._waiting.add(asked)
        self._inbox.put(asked)
        try:
            async with asyncio.timeout(deadline_s):
                vector = await asked.answer
        except TimeoutError:
            if self._progress == progress:
                self._breaker.failed(began_s)
            else:
                self._breaker.gave_up()
            raise EmbedderUnavailable(f"no vector within {deadline_s * 1000:g} ms") from None
        except TextTooLong:
            self._breaker.succeeded()
            raise
        except EmbedderUnavailable:
            self._breaker.failed(began_s)
            raise
        except asyncio.CancelledError:
            self._breaker.gave_up()
            raise
        finally:
            self._waiting.discard(asked)
            asked.text, asked.tokens = "", ()  # what stays in the queue of a hung thread weighs nothing
        self._breaker.succeeded()
        return vector

    def _open(self) -> ModelFacts:
        if self._facts is None:
            raise RuntimeError(f"{type(self).__name__} is an async context manager; enter it first")
        return self._facts

    def _deliver(self, outcomes: Sequence[tuple[_Asked, Vector | Exception]]) -> None:
        """On the loop: the thread came back."""
        self._progress += 1
        if any(not isinstance(outcome, EmbedderUnavailable) for _, outcome in outcomes):
            self._breaker.succeeded()
        for asked, outcome in outcomes:
            _settle(asked, outcome)


class _Worker:
    """The thread's side."""

    def __init__(
        self,
        owner: BatchingEmbedder,
        loop: asyncio.AbstractEventLoop,
        loaded: asyncio.Future[ModelFacts],
        stopped: asyncio.Event,
    ) -> None:
        self._owner = owner
        self._model = owner._model
        self._inbox = owner._inbox
        self._loop = loop
        self._loaded = loaded
        self._stopped = stopped
        self._stack: list[_Asked] = []  # newest last

    def work(self) -> None:
        with contextlib.suppress(RuntimeError):  # only a closed loop raises it here: nobody waits for us any more
            facts = self._load()
            while facts is not None and self._collect():
                self._tokenize(facts)
                if batch := self._next_batch():
                    self._run(batch, facts)
            self._tell(self._stopped.set)

    def _tell(self, callback: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(callback, *arguments)

    def _load(self) -> ModelFacts | None:
        try:
            facts = self._model.load()
        except Exception as error:
            if not isinstance(error, EmbedderUnavailable):
                error = EmbedderUnavailable(f"the embedding model cannot be loaded: {error}")
            self._tell(_settle_load, self._loaded, error)
            return None
        self._tell(_settle_load, self._loaded, facts)
        return facts

    def _collect(self) -> bool:
        """Wait for work, take all there is, drop what nobody waits for. False = time to stop."""
        block = not self._stack
        while True:
            try:
                asked = self._inbox.get(block=block)
            except Empty:
                break
            if asked is None:
                return False
            self._stack.append(asked)
            block = False
        self._stack = [asked for asked in self._stack if not asked.answer.done()]
        return True

    def _tokenize(self, facts: ModelFacts) -> None:
        ready: list[_Asked] = []
        refused: list[tuple[_Asked, Vector | Exception]] = []
        for asked in self._stack:
            try:
                tokens = asked.tokens or self._model.tokenize(asked.text)
                if len(tokens) > facts.window:
                    raise TextTooLong(f"{len(tokens)} tokens; the model reads {facts.window}")
            except TextTooLong as error:
                refused.append((asked, error))
            except Exception as error:
                refused.append((asked, EmbedderUnavailable(f"the tokenizer failed: {error}")))
            else:
                asked.tokens = tokens
                ready.append(asked)
        self._stack = ready
        if refused:
            self._tell(self._owner._deliver, refused)

    def _next_batch(self) -> list[tuple[_Asked, Tokens]]:
        """From the newest back, as many as fit one run when all are padded to the longest; one always fits."""
        batch: list[tuple[_Asked, Tokens]] = []
        longest = 0
        while self._stack and len(batch) < self._owner._max_batch:
            asked = self._stack[-1]
            tokens = asked.tokens
            longest = max(longest, len(tokens))
            if batch and longest * (len(batch) + 1) > self._owner._tokens_per_run:
                break
            self._stack.pop()
            if tokens and not asked.answer.done():  # its asker may have left, and emptied it, just now
                batch.append((asked, tokens))
        return batch

    def _run(self, batch: Sequence[tuple[_Asked, Tokens]], facts: ModelFacts) -> None:
        outcomes: list[tuple[_Asked, Vector | Exception]]
        try:
            rows = self._owner._checked(self._model.run([tokens for _, tokens in batch]), (len(batch), facts.dim))
        except Exception as error:
            outcomes = [(asked, EmbedderUnavailable(f"the model failed: {error}")) for asked, _ in batch]
        else:
            outcomes = [(asked, row) for (asked, _), row in zip(batch, rows, strict=True)]
        self._tell(self._owner._deliver, outcomes)


def finite(rows: NDArray[np.float32], shape: tuple[int, int]) -> NDArray[np.float32]:
    """Rows as they came, float32. Raises ValueError for another shape and for not-a-number."""
    if rows.shape != shape:
        raise ValueError(f"rows of shape {rows.shape}, expected {shape}")
    if not np.isfinite(rows).all():
        raise ValueError("a row that is not a number")
    return np.asarray(rows, dtype=np.float32)


def unit(rows: NDArray[np.float32], shape: tuple[int, int]) -> NDArray[np.float32]:
    """Rows of unit length, float32. Raises ValueError for another shape, for not-a-number and for a zero vector."""
    if rows.shape != shape:
        raise ValueError(f"vectors of shape {rows.shape}, expected {shape}")
    rows = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise ValueError("a vector without direction")
    return np.asarray(rows / lengths, dtype=np.float32)


def _settle(asked: _Asked, outcome: Vector | Exception) -> None:
    if asked.answer.done():
        return
    if isinstance(outcome, Exception):
        asked.answer.set_exception(outcome)
    else:
        asked.answer.set_result(outcome)


def _settle_load(loaded: asyncio.Future[ModelFacts], outcome: ModelFacts | Exception) -> None:
    if loaded.done():
        return
    if isinstance(outcome, Exception):
        loaded.set_exception(outcome)
    else:
        loaded.set_result(outcome)
