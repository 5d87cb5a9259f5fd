"""One simulated vLLM worker: its queue, its prefills, its decoding batch and its prefix cache. Pure.

It keeps no time of its own: whoever calls it says what time it is, so the same engine runs behind an HTTP server and,
thousands of times faster, in a bench. Nothing in it is random: the same calls give the same outcomes.

    submit ──▶ waiting ──blocks and a place in the batch──▶ prefill ──▶ decoding ──▶ finished
                 FIFO                                    one at a time   all side by side

What differs from a real worker, on purpose: prefills run one after the other and not several in one step; the blocks of
the whole answer are taken when the prefill starts, so nothing is ever preempted; blocks that an answer fills are cached
when it ends. Within one step of the batch time is continuous: a batch of n gives each of its sequences one token
per `Timing.step_s(n)`.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from deploy.simulator.blocks import BlockPool
from deploy.simulator.facts import (
    Batch,
    Cleared,
    Finished,
    FirstToken,
    Metrics,
    Outcome,
    Removed,
    Request,
    Shape,
    Stored,
)

NEVER: Final = math.inf


class WorkerDead(Exception):
    """Nobody listens on this worker."""


class _Run:
    """A request that has its blocks."""

    __slots__ = ("blocks", "cached_tokens", "ends_at", "generated", "request", "starts_at")

    def __init__(self, request: Request, blocks: list[int], cached_tokens: int) -> None:
        self.request = request
        self.blocks = blocks
        self.cached_tokens = cached_tokens
        self.generated = 0  # tokens that are out; while it decodes, `Engine.progress` knows
        self.starts_at = self.ends_at = 0.0  # on the batch's token clock


class Engine:
    """Call `advance(now)` at `next_event_time()` (in real time: soon after), and before anything else with a time.

    on_batch: told of each KV event batch at once; None = no events are made."""

    def __init__(self, shape: Shape | None = None, *, on_batch: Callable[[Batch], None] | None = None) -> None:
        self.shape = shape or Shape()
        self.on_batch = on_batch
        self.alive = True
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        self._pool = BlockPool(self.shape.blocks)
        self._waiting: deque[Request] = deque()
        self._prefill: _Run | None = None
        self._decoding: list[tuple[float, int, _Run]] = []  # heap by the token clock's reading at the last token
        self._runs: dict[str, _Run] = {}
        self._events: list[Stored | Removed | Cleared] = []
        self._seq = 0
        self._order = 0
        self._metrics = Metrics()
        # The state at `_since_s`; between two changes both rates are constant.
        self._since_s = self._now_s = now
        self._clock = 0.0  # tokens that a sequence would have got that decoded from the beginning
        self._work_s = 0.0  # what is left of the prefill
        self._rates = (0.0, 0.0)
        self._due_s = NEVER
        self._prefill_is_next = False

    # -- what callers do -----------------------------------------------------------------------------------------------

    def submit(self, now: float, request: Request) -> None:
        """Raises WorkerDead, or ValueError for what could never run here."""
        if not self.alive:
            raise WorkerDead
        if request.prompt_tokens < 1 or request.output_tokens < 1:
            raise ValueError("a request has at least one token to read and one to write")
        if self._blocks_of(request) > self.shape.blocks:
            raise ValueError(f"{request.prompt_tokens + request.output_tokens} tokens do not fit into this worker")
        if request.id in self._runs or any(each.id == request.id for each in self._waiting):
            raise ValueError(f"request {request.id} is here already")
        self._now_s = max(now, self._now_s)
        self._waiting.append(request)
        if self._prefill is None:
            self._settle(now)
            self._admit()
            self._plan()
            self._flush(now)

    def advance(self, now: float) -> list[Outcome]:
        """Everything that happened up to `now`, in its order."""
        outcomes: list[Outcome] = []
        while self._due_s <= now:
            at_s = self._due_s
            ended = self._prefill if self._prefill_is_next else None
            self._settle(at_s)
            if ended is not None:
                self._work_s = 0.0
                self._end_prefill(ended, at_s, outcomes)
            else:
                self._clock, _, run = heapq.heappop(self._decoding)
                self._finish(run, at_s, outcomes)
            self._admit()
            self._plan()
            self._flush(at_s)
        self._now_s = max(now, self._now_s)
        return outcomes

    def next_event_time(self) -> float:
        """When `advance` has something to do; infinity = not before something is submitted."""
        return self._due_s

    def progress(self, request_id: str) -> int:
        """Tokens of the answer that are out at the time of the latest `advance`; 0 when it is not here."""
        run = self._runs.get(request_id)
        if run is None or not run.generated:
            return 0
        clock = self._clock + self._rates[0] * (self._now_s - self._since_s)
        return min(1 + int(clock - run.starts_at + 1e-9), run.request.output_tokens)

    def abort(self, now: float, request_id: str) -> bool:
        """The client went away: what is computed stays cached. False = it is not here."""
        self._now_s = max(now, self._now_s)
        waiting = next((each for each in self._waiting if each.id == request_id), None)
        if waiting is not None:
            self._waiting.remove(waiting)
            self._settle(now)
        elif request_id in self._runs:
            generated = self.progress(request_id)
            run = self._runs.pop(request_id)
            self._settle(now)
            if run is self._prefill:
                self._prefill, self._work_s = None, 0.0
            else:
                self._decoding = [each for each in self._decoding if each[2] is not run]
                heapq.heapify(self._decoding)
                self._store(run, run.request.prompt_tokens // self.shape.block_tokens, generated)
                self._metrics.generation_tokens += generated
            self._pool.release(run.blocks)
        else:
            return False
        self._admit()
        self._plan()
        self._flush(now)
        return True

    def reset_prefix_cache(self, now: float) -> bool:
        """False, and nothing is forgotten, while requests run."""
        if not self._pool.clear():
            return False
        self._events.append(Cleared())
        self._flush(now)
        return True

    def kill(self, now: float) -> list[Request]:
        """The process dies: requests, blocks and counters are lost. Returns the requests that were here."""
        lost = [run.request for run in self._runs.values()] + list(self._waiting)
        self._begin(now)
        self.alive = False
        return lost

    def restart(self, now: float) -> list[Request]:
        """A new process at the same address, with an empty cache and events from seq 0. Returns what it lost."""
        lost = self.kill(now)
        self.alive = True
        return lost

    @property
    def resident(self) -> frozenset[int]:
        """Hashes that a new request could reuse now."""
        return frozenset(self._pool.resident)

    def cached_tokens_of(self, hashes: Sequence[int], prompt_tokens: int) -> int:
        """What a prompt would find here now. The last token of a prompt is always computed."""
        size = self.shape.block_tokens
        return len(self._pool.match(hashes, (prompt_tokens - 1) // size)) * size

    def metrics(self) -> Metrics:
        """Gauges and counters as they are; the object is the engine's own and changes with it."""
        found = self._metrics
        found.num_requests_running = len(self._runs)
        found.num_requests_waiting = len(self._waiting)
        found.kv_cache_usage_perc = self._pool.held / self._pool.capacity
        return found

    def __repr__(self) -> str:
        state = f"{len(self._runs)} running, {len(self._waiting)} waiting" if self.alive else "dead"
        return f"<Engine {state} | {self._pool.held} of {self._pool.capacity} blocks held>"

    # -- what happens inside -------------------------------------------------------------------------------------------

    def _blocks_of(self, request: Request) -> int:
        """The last token of an answer is sampled and never read again, so it needs no place."""
        return -(-(request.prompt_tokens + request.output_tokens - 1) // self.shape.block_tokens)

    def _settle(self, now: float) -> None:
        """Bring the state from `_since_s` to `now`, at the rates that held in between."""
        now = max(now, self._since_s)
        passed_s = now - self._since_s
        decoded, prefilled = self._rates
        self._clock += decoded * passed_s
        self._work_s = max(0.0, self._work_s - prefilled * passed_s)
        self._metrics.prefill_s += prefilled * passed_s
        if self._runs:
            self._metrics.busy_s += passed_s
        self._since_s = now

    def _plan(self) -> None:
        """What comes next, and when. A prefill that ends with a sequence goes first."""
        decoded, prefilled = self._rates = self.shape.timing.rates(len(self._decoding), self._prefill is not None)
        prefill_s = self._since_s + self._work_s / prefilled if prefilled else NEVER
        finish_s = NEVER
        if self._decoding and decoded:
            finish_s = self._since_s + max(0.0, self._decoding[0][0] - self._clock) / decoded
        self._prefill_is_next = prefill_s <= finish_s
        self._due_s = min(prefill_s, finish_s)

    def _admit(self) -> None:
        """Start the next prefill if there is room for it; the first in the queue is never overtaken."""
        if self._prefill is not None or not self._waiting or len(self._runs) >= self.shape.max_num_seqs:
            return
        request = self._waiting[0]
        size = self.shape.block_tokens
        found = self._pool.match(request.hashes, (request.prompt_tokens - 1) // size)
        missing = self._blocks_of(request) - len(found)
        if missing > self._pool.free - self._pool.idle_among(found):
            return
        self._waiting.popleft()
        self._pool.hold(found)
        taken, lost = self._pool.take(missing)
        if lost and self.on_batch is not None:
            self._events.append(Removed(tuple(lost)))
        cached = len(found) * size
        self._prefill = self._runs[request.id] = _Run(request, found + taken, cached)
        self._work_s = self.shape.timing.prefill_s(request.prompt_tokens - cached)
        self._metrics.prefix_cache_queries += request.prompt_tokens
        self._metrics.prefix_cache_hits += cached

    def _end_prefill(self, run: _Run, at_s: float, outcomes: list[Outcome]) -> None:
        self._prefill = None
        request = run.request
        self._store(run, run.cached_tokens // self.shape.block_tokens, 1)
        self._metrics.prompt_tokens += request.prompt_tokens
        self._metrics.prompt_tokens_cached += run.cached_tokens
        outcomes.append(FirstToken(at_s, request, run.cached_tokens))
        run.generated = 1
        if request.output_tokens == 1:
            self._finish(run, at_s, outcomes)
            return
        self._order += 1
        run.starts_at = self._clock
        run.ends_at = self._clock + request.output_tokens - 1
        heapq.heappush(self._decoding, (run.ends_at, self._order, run))

    def _finish(self, run: _Run, at_s: float, outcomes: list[Outcome]) -> None:
        request = run.request
        self._store(run, request.prompt_tokens // self.shape.block_tokens, request.output_tokens)
        del self._runs[request.id]
        self._pool.release(run.blocks)
        self._metrics.generation_tokens += request.output_tokens
        self._metrics.request_success += 1
        outcomes.append(Finished(at_s, request, run.cached_tokens))

    def _store(self, run: _Run, first: int, generated: int) -> None:
        """Blocks from `first` on that are full when `generated` tokens of the answer are out."""
        size = self.shape.block_tokens
        request = run.request
        last = min((request.prompt_tokens + generated - 1) // size, len(request.hashes))
        if last <= first:
            return
        hashes = tuple(request.hashes[first:last])
        self._pool.store(run.blocks[first:last], hashes)
        if self.on_batch is not None:
            parent = request.hashes[first - 1] if first else None
            self._events.append(
                Stored(hashes, parent, tuple(request.tokens[first * size : last * size]), request.session)
            )

    def _flush(self, at_s: float) -> None:
        if self._events:
            batch = Batch(self._seq, at_s, tuple(self._events))
            self._seq += 1
            self._events.clear()
            if self.on_batch is not None:
                self.on_batch(batch)
