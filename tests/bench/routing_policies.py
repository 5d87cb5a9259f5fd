"""The routing policies that `routing.py` compares, behind one seam. Pure; each is told what happens and never waits.

The rivals are written here anew from their published rules, with what favours them: they are told of a dead worker at
the same moment as Rejoinder, and their retries leave out who failed.

* `round_robin`: the next worker that is up.
* `least_loaded`: the fewest requests in flight, the first of equals.
* `consistent_hash`: vllm-router's (src/policies/consistent_hash.rs, hash_key.rs): a ring of 160 points per worker,
  keyed by X-Session-ID, else by the whole body; when the ring's worker is not healthy, the first healthy one. Our hash.
* `cache_aware`: vllm-router's (src/policies/cache_aware.rs; thresholds of its command line: 0.3, 64, 1.5): a session
  id it knows goes where it went, else the longest prefix of the text that somebody was sent, if it is more than 30 % of
  the prompt, to the least loaded of those that share it; else, and whenever loads differ by more than 64 and by half,
  the least loaded. Its tree is kept in steps of 16 tokens and never evicts: a trace is smaller than its budget.
* `rejoinder`: `proxy.routing.router.Router` itself, with what every vLLM tells.  `rejoinder_events`: with KV events.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol

from xxhash import xxh3_64_intdigest

from deploy.simulator.blocks import BLOCK_TOKENS
from deploy.simulator.engine import Engine
from deploy.simulator.facts import Batch, Removed, Stored
from deploy.simulator.traces import Ask
from proxy.errors import NoWorker
from proxy.routing import kv_wire
from proxy.routing.blocks import Blocks
from proxy.routing.choice import Prompt
from proxy.routing.gauges import Gauges
from proxy.routing.identity import identify
from proxy.routing.keys import KeyWatch
from proxy.routing.rides import Ride
from proxy.routing.router import Router
from proxy.routing.trail import trail_of
from proxy.routing.worker import Worker
from proxy.routing.workers import WorkerPool

Clock = Callable[[], float]


class Policy(Protocol):
    """Workers are numbers, in the order in which they joined."""

    def join(self, worker: int) -> None:
        """A worker is there, and up."""

    def leave(self, worker: int) -> None:
        """An operator drains it: what it has is finished, nothing new comes."""

    def down(self, worker: int) -> None:
        """It refused a connection, or a probe."""

    def up(self, worker: int) -> None:
        """It was down and answers probes again."""

    def probe(self, worker: int, engine: Engine) -> None:
        """Every two seconds: what its /metrics would say."""

    def session_of(self, ask: Ask) -> str | None:
        """X-Session-ID for the worker, which comes back in its KV events."""

    def choose(self, ask: Ask, avoid: frozenset[int]) -> int:
        """Who is asked; the choice counts as made. avoid: who failed this request. Raises LookupError: nobody."""

    def first_token(self, ask: Ask, worker: int) -> None: ...

    def end(self, ask: Ask, worker: int, cached_tokens: int) -> None: ...

    def fail(self, ask: Ask, worker: int) -> None:
        """The worker refused, or died with the request."""


class Counting:
    """What every plain policy needs: who is up, and how much each has in flight."""

    def __init__(self) -> None:
        self.workers: list[int] = []  # not drained, healthy or not
        self.healthy: set[int] = set()
        self.load: Counter[int] = Counter()

    def join(self, worker: int) -> None:
        self.workers.append(worker)
        self.healthy.add(worker)

    def leave(self, worker: int) -> None:
        self.workers.remove(worker)
        self.healthy.discard(worker)

    def down(self, worker: int) -> None:
        self.healthy.discard(worker)

    def up(self, worker: int) -> None:
        if worker in self.workers:
            self.healthy.add(worker)

    def probe(self, worker: int, engine: Engine) -> None:
        pass

    def session_of(self, ask: Ask) -> str | None:
        return ask.session

    def choose(self, ask: Ask, avoid: frozenset[int]) -> int:
        up = [worker for worker in self.workers if worker in self.healthy and worker not in avoid]
        if not up:
            raise LookupError
        worker = self.pick(ask, up)
        self.load[worker] += 1
        return worker

    def pick(self, ask: Ask, up: list[int]) -> int:
        raise NotImplementedError

    def least_loaded(self, among: list[int]) -> int:
        return min(among, key=lambda worker: self.load[worker])

    def first_token(self, ask: Ask, worker: int) -> None:
        pass

    def end(self, ask: Ask, worker: int, cached_tokens: int) -> None:
        self.load[worker] -= 1

    def fail(self, ask: Ask, worker: int) -> None:
        self.load[worker] -= 1


class RoundRobin(Counting):
    _next = -1

    def pick(self, ask: Ask, up: list[int]) -> int:
        self._next += 1
        return up[self._next % len(up)]


class LeastLoaded(Counting):
    def pick(self, ask: Ask, up: list[int]) -> int:
        return self.least_loaded(up)


class ConsistentHash(Counting):
    POINTS: Final = 160

    def __init__(self) -> None:
        super().__init__()
        self._ring: list[tuple[int, int]] = []

    def join(self, worker: int) -> None:
        super().join(worker)
        self._turn()

    def leave(self, worker: int) -> None:
        super().leave(worker)
        self._turn()

    def _turn(self) -> None:
        self._ring = sorted(
            (xxh3_64_intdigest(f"http://worker-{worker}:8000:{point}".encode()), worker)
            for worker in self.workers
            for point in range(self.POINTS)
        )

    def pick(self, ask: Ask, up: list[int]) -> int:
        key = ask.session or f"request {ask.hashes[-1]}"  # the hash of a body, the same for the same body
        place = bisect.bisect_left(self._ring, (xxh3_64_intdigest(key.encode()), 0)) % len(self._ring)
        worker = self._ring[place][1]
        return worker if worker in up else up[0]


class CacheAware(Counting):
    MATCH: Final = 0.3
    MORE: Final = 64
    TIMES: Final = 1.5

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[str, int] = {}
        self._tree: dict[int, set[int]] = {}  # hash of a prefix → who was sent it

    def leave(self, worker: int) -> None:
        super().leave(worker)
        self._forget(worker)

    def _forget(self, worker: int) -> None:
        self._sessions = {session: home for session, home in self._sessions.items() if home != worker}
        for tenants in self._tree.values():
            tenants.discard(worker)

    def pick(self, ask: Ask, up: list[int]) -> int:
        prompt = ask.hashes[: ask.prompt_tokens // BLOCK_TOKENS]
        worker = self._pick(ask, prompt, up)
        if ask.session is not None:
            self._sessions[ask.session] = worker
        for each in prompt:
            self._tree.setdefault(each, set()).add(worker)
        return worker

    def _pick(self, ask: Ask, prompt: tuple[int, ...], up: list[int]) -> int:
        loads = [self.load[worker] for worker in self.workers]
        if max(loads) - min(loads) > self.MORE and max(loads) > self.TIMES * min(loads):
            return self.least_loaded(up)
        if ask.session is not None and self._sessions.get(ask.session) in up:
            return self._sessions[ask.session]
        depth, tenants = 0, set[int]()
        for each in prompt:
            if not (there := self._tree.get(each)):
                break
            depth, tenants = depth + 1, there
        if depth * BLOCK_TOKENS <= self.MATCH * ask.prompt_tokens:
            return self.least_loaded(up)
        among = [worker for worker in up if worker in tenants]
        if among:
            return self.least_loaded(among)
        for tenant in tuple(tenants):
            if tenant not in self.healthy:
                self._forget(tenant)
        return up[0]


class Rejoinder:
    """The product's router behind the seam. It reads first bytes, `cached_tokens` of answers and /metrics."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pool = WorkerPool(clock=clock)
        self._blocks: dict[Worker, Any] = {}  # Blocks
        self.router = Router(self._pool, exact=self._blocks.get)
        self._watch = KeyWatch()
        self._workers: list[Worker] = []
        self._numbers: dict[Worker, int] = {}
        self._prompts: dict[int, Prompt] = {}
        self._rides: dict[int, Ride] = {}
        self.reasons: Counter[str] = Counter()

    def join(self, worker: int) -> None:
        added = self._pool.add(Worker(f"http://worker-{worker}:8000"))
        self._workers.append(added)
        self._numbers[added] = worker
        self._pool.answered(added)

    def leave(self, worker: int) -> None:
        self._pool.drain(self._workers[worker])

    def down(self, worker: int) -> None:
        self._pool.unreachable(self._workers[worker])

    def up(self, worker: int) -> None:
        self._pool.answered(self._workers[worker])

    def probe(self, worker: int, engine: Engine) -> None:
        told, shape = engine.metrics(), engine.shape
        gauges = Gauges(
            self._clock(), told.num_requests_running, told.num_requests_waiting,
            kv_usage=told.kv_cache_usage_perc, prefix_queries=told.prefix_cache_queries,
            prefix_hits=told.prefix_cache_hits, block_size=shape.block_tokens, num_gpu_blocks=shape.blocks,
        )  # fmt: skip
        self._pool.measured(self._workers[worker], gauges)

    def session_of(self, ask: Ask) -> str | None:
        return self._prompts[ask.index].session

    def choose(self, ask: Ask, avoid: frozenset[int]) -> int:
        prompt = self._prompts.get(ask.index)
        if prompt is None:
            prompt = self._prompts[ask.index] = self._read(ask)
        urls = frozenset(self._workers[each].url for each in avoid)
        try:
            choice = self.router.choose(prompt, urls)
        except NoWorker as none:
            raise LookupError from none
        self.reasons[choice.why.partition(" (")[0]] += 1
        ride = self.router.ride(choice, prompt)
        ride.__enter__()
        self._rides[ask.index] = ride
        return self._numbers[choice.worker]

    def _read(self, ask: Ask) -> Prompt:
        body = ask.body()
        headers = {"X-Session-ID": ask.session} if ask.session else {}
        identity = identify(headers, body, {}, "", b"bench", watch=self._watch)
        trail = trail_of(body)
        return Prompt(body["model"], identity.id if identity else None, trail, trail.size if trail else 0, stream=True)

    def first_token(self, ask: Ask, worker: int) -> None:
        ride = self._rides[ask.index]
        self._pool.saw_bytes(self._workers[worker])
        ride.answered()
        ride.opened()

    def end(self, ask: Ask, worker: int, cached_tokens: int) -> None:
        ride = self._rides.pop(ask.index)
        del self._prompts[ask.index]
        ride.told(ask.prompt_tokens, cached_tokens, ask.output_tokens)
        ride.__exit__(None, None, None)

    def fail(self, ask: Ask, worker: int) -> None:
        self._rides.pop(ask.index).__exit__(None, None, None)


class RejoinderWithEvents(Rejoinder):
    """And it follows the workers' KV events, which come at once; on the wire they take a step of the engine."""

    def join(self, worker: int) -> None:
        super().join(worker)
        self.up(worker)

    def up(self, worker: int) -> None:
        self._blocks[self._workers[worker]] = Blocks()  # `proxy.routing.kv_follower` sees a new stream
        super().up(worker)

    def kv_events(self, worker: int, batch: Batch) -> None:
        blocks = self._blocks[self._workers[worker]]
        for event in batch.events:
            if isinstance(event, Stored):
                blocks.stored(
                    kv_wire.Stored(
                        list(event.hashes), event.parent, list(event.tokens), BLOCK_TOKENS, session_id=event.session
                    )
                )
            elif isinstance(event, Removed):
                blocks.removed(kv_wire.Removed(list(event.hashes)))
            else:
                blocks.cleared()


POLICIES: Final[dict[str, Callable[[Clock], Policy]]] = {
    "round_robin": lambda clock: RoundRobin(),
    "least_loaded": lambda clock: LeastLoaded(),
    "consistent_hash": lambda clock: ConsistentHash(),
    "cache_aware": lambda clock: CacheAware(),
    "rejoinder": Rejoinder,
    "rejoinder_events": RejoinderWithEvents,
}
