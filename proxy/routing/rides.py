"""One request on one worker, from the choice to its last byte, and what it teaches. Pure: the caller says what happens.

with router.ride(choice, prompt) as ride:      books: what it will compute counts from here
    ride.answered()                            status and headers came: the session lives there now
    ride.opened()                              the first byte of the body: its prompt has been computed
    ride.told(prompt_tokens, cached, written)  what it really took: the loop is closed
"""

import heapq
import itertools
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Final

from proxy.routing.choice import Choice, Prompt
from proxy.routing.homes import Home, Homes
from proxy.routing.memory import Memory
from proxy.routing.pace import Pace
from proxy.routing.prefixes import Prefixes, Resident
from proxy.routing.worker import Worker
from proxy.routing.workers import WorkerPool

FIRST_BYTES_A_TOKEN: Final = 4.0  # of English JSON; learnt per model
_MOST_MODELS: Final = 1024
_LEARN: Final = 0.1
# When work is spread, in units of a computed prompt token:
WRITTEN_COSTS: Final = 3.0  # a written token, at a batch of some ten
READING: Final = 0.05  # a cached token: attention still goes over it


class Desk:
    """What routing keeps of one worker, besides what the pool knows.

    backlog: uncached prompt tokens that were sent there and are not computed yet, by our books; queue: of how many
    prompts.
    generation: of the worker, when its memory began."""

    __slots__ = ("backlog", "generation", "memory", "pace", "queue", "saved", "worker")

    def __init__(self, worker: Worker, pace: Pace) -> None:
        self.worker = worker
        self.generation = worker.generation
        self.backlog = 0
        self.queue = 0
        self.saved = 0  # prompt tokens that it did not have to compute, as its answers say
        self.pace = pace
        self.memory = Memory()

    def renew(self) -> None:
        """It came back from the dead: nothing is in its KV cache, and nothing of ours is in its queue."""
        self.generation = self.worker.generation
        self.backlog = self.queue = 0
        self.memory.forget()


class Books:
    """What all rides of one process write into.

    due: rides whose prompt should have been computed at that time.  pace: of all workers together.
    exact: a worker's blocks by its own events; None = it does not tell."""

    __slots__ = ("_numbers", "_sizes", "due", "exact", "homes", "pace", "pool", "prefixes")

    def __init__(
        self, pool: WorkerPool, homes: Homes, prefixes: Prefixes, pace: Pace,
        exact: Callable[[Worker], Resident | None],
    ) -> None:  # fmt: skip
        self.pool = pool
        self.homes = homes
        self.prefixes = prefixes
        self.pace = pace
        self.exact = exact
        # Weak: a ride that is over must not keep its prompt's marks until then.
        self.due: list[tuple[float, int, weakref.ref[Ride]]] = []
        self._numbers = itertools.count()
        self._sizes: dict[str | None, float] = {}  # model → bytes per token

    def bytes_a_token(self, model: str | None) -> float:
        return self._sizes.get(model, FIRST_BYTES_A_TOKEN)

    def measured(self, model: str | None, size: int, tokens: int) -> None:
        """A prompt of so many bytes had so many tokens."""
        if len(self._sizes) >= _MOST_MODELS:  # names come from clients
            self._sizes.clear()
        before = self.bytes_a_token(model)
        learn = _LEARN if model in self._sizes else 1.0
        self._sizes[model] = before + learn * (min(max(size / tokens, 0.5), 64.0) - before)

    def expect(self, ride: "Ride", at_s: float) -> None:
        """Nothing will show when this prompt has been computed: believe that it was at this time."""
        heapq.heappush(self.due, (at_s, next(self._numbers), weakref.ref(ride)))


class Ride:
    """choice: who was chosen, and what was believed of it.  generation: of the worker, when it was booked."""

    __slots__ = (
        "__weakref__", "_begun_s", "_booking", "_books", "_generation", "_home", "_queued", "_uncached",
        "_unread", "choice", "desk", "generation", "prompt", "ttft_ms", "usage",
    )  # fmt: skip

    def __init__(self, books: Books, desk: Desk, choice: Choice, prompt: Prompt) -> None:
        self.choice = choice
        self.prompt = prompt
        self.desk = desk
        self.generation = desk.worker.generation
        self.ttft_ms: float | None = None
        self.usage: tuple[int, int | None, int] | None = None  # prompt, cached of it, written; as the answer says
        self._books = books
        self._uncached = max(choice.tokens - choice.resident, 1)
        work = self._uncached + READING * choice.resident
        self._booking = books.pool.booked(desk.worker, work)
        self._home: Home | None = None
        self._generation = -1  # not begun, or its prefill is over
        self._queued = 0
        self._begun_s = 0.0
        self._unread = prompt.trail.marks if prompt.trail is not None else ()  # not in the worker's memory yet

    def __enter__(self) -> "Ride":
        self._booking.__enter__()
        desk = self.desk
        self._begun_s = self._books.pool.clock()
        self._generation = desk.generation
        self._queued = desk.backlog
        desk.backlog += self._uncached
        desk.queue += 1
        # At once, so that a burst of its like comes here. One that pushes much else out of memory has to be answered
        # first: the worker may refuse it.
        if desk.memory.modest(self._unread):
            self._read()
        if not self.prompt.stream:  # a whole answer comes long after its prompt was computed
            pace = desk.pace
            needed_ms = pace.base_ms + (self._queued + self._uncached) / pace.rate
            self._books.expect(self, self._begun_s + needed_ms / 1000)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.computed()
        self._booking.__exit__(kind, error, trace)

    def _read(self) -> None:
        marks, self._unread = self._unread, ()
        if marks:
            self.desk.memory.read(marks, self._begun_s)

    def computed(self) -> None:
        """Its prompt is in the KV cache (or nobody wants it any more)."""
        if self._generation == self.desk.generation:
            self.desk.backlog -= self._uncached
            self.desk.queue -= 1
        self._generation = -1

    def answered(self) -> None:
        """The worker took the request: whatever comes, the session's prefix is there. Unless it died since."""
        prompt, worker = self.prompt, self.desk.worker
        if worker.generation != self.generation:
            return
        self._read()
        if prompt.session is not None:
            self._home = self._books.homes.settle(prompt.session, worker.url, worker.generation)

    def opened(self) -> None:
        """The first byte of the body. Of a stream, that is the first token."""
        if self._generation >= 0 and self.prompt.stream:
            self.ttft_ms = (self._books.pool.clock() - self._begun_s) * 1000
            self.computed()

    def told(self, tokens: int, cached: int | None, written: int) -> None:
        """The answer's `usage`. cached: None = the worker does not say (--enable-prompt-tokens-details)."""
        books, desk, prompt = self._books, self.desk, self.prompt
        self.usage = tokens, cached, written
        if tokens <= 0 or desk.worker.generation != self.generation:
            return
        if desk.worker.gauges is not None:
            desk.memory.room(desk.worker.gauges.kv_tokens)
        desk.worker.placed += books.pool.placement_weight() * written * WRITTEN_COSTS
        trail = prompt.trail
        media = trail is not None and trail.media  # its tokens do not go by its bytes, nor their time by their number
        if trail is not None and not media:
            books.measured(prompt.model, trail.size, tokens)
        if cached is not None:
            desk.saved += cached
            desk.memory.told(self.choice.resident, cached)
        if self.ttft_ms is not None and not media:
            uncached = tokens - cached if cached is not None else self._uncached
            for pace in (desk.pace, books.pace):
                pace.observe(uncached=uncached, queued=self._queued, ttft_ms=self.ttft_ms)
        home = self._home
        if home is not None and home.url == desk.worker.url:
            marks = trail.marks if trail is not None else ()
            home.tokens, home.steps, home.mark = tokens + written, len(marks), marks[-1] if marks else 0
        exact = books.exact(desk.worker)
        if exact is not None and trail is not None and not media and prompt.session is not None:
            books.prefixes.ended(prompt.session, trail, tokens, written, exact)
