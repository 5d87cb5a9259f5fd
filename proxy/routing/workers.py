"""The vLLM workers as we know them: who is up, what they serve, how much each has in hand.

Lives here: state, and the only functions that change it. Pure: time comes from an injected clock, nothing waits.
Must not live here: probing (`proxy.health`), asking (`proxy.upstream`), choosing (`router`).

    UNKNOWN ──probe ok──▶ UP ◀──undrain── DRAINING      generation grows at each DOWN ──▶ UP: whatever the worker
       │                  │ ▲                           held before (KV blocks, requests) counts as lost.
       └──2 failures──▶  DOWN                           A connect error goes to DOWN at once; 4xx never counts.

Bookings are counted per generation: a request that was booked before the worker went down and is given back after
it came back cannot lower the new count, so no count is ever negative (production-stack#634, litellm#30192).
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit

from xxhash import xxh3_64_intdigest

Card = Mapping[str, Any]

PLACEMENT_HALF_LIFE_S: Final = 10.0
_MOST_VIEWS: Final = 1024
_RESCALE_AFTER_HALF_LIVES: Final = 64.0  # 2^64 is far below the largest float (2^1024): sums of placements fit


class State(StrEnum):
    UNKNOWN = "unknown"  # not probed yet
    UP = "up"
    DOWN = "down"
    DRAINING = "draining"  # by an operator: finishes what it has, gets nothing new


class DownBecause(StrEnum):
    """Why a worker is DOWN. Probes can be wrong (a long prefill starves /health); a refused connection is not."""

    PROBE = "probe"
    CONNECT = "connect"


def canonical_url(raw: str) -> str:
    """`scheme://host:port`, lower case, no path: one worker has one spelling (llm-d#1008 split an index in two).

    A trailing `/` or `/v1` is forgiven, because people paste their base_url. Raises ValueError, in words for people."""
    parts = urlsplit(raw.strip() if "://" in raw else f"http://{raw.strip()}")
    if parts.scheme.lower() not in ("http", "https"):
        raise ValueError(f"worker {raw!r}: the scheme must be http or https")
    if not parts.hostname:
        raise ValueError(f"worker {raw!r}: there is no host name")
    if parts.username or parts.password:
        raise ValueError(f"worker {raw!r}: credentials in the URL are not supported; set worker_api_key")
    if parts.path.rstrip("/") not in ("", "/v1") or parts.query or parts.fragment:
        raise ValueError(f"worker {raw!r}: give only scheme, host and port")
    scheme = parts.scheme.lower()
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{scheme}://{host}:{parts.port or (443 if scheme == 'https' else 80)}"


class Worker:
    """One vLLM server. Anybody may read; only `WorkerPool` writes (but `last_seen_s`: `proxy.upstream`, and `guest`:
    `proxy.shadow`).

    identity: what session hashing sees; the url unless the operator names the worker (then it may change address).
    seed: xxh3-64 of the identity.
    models: ids that it serves; empty = not known (not probed yet, or its /v1/models may not be read by us).
    in_flight: requests booked in this generation.  in_flight_before: booked in earlier ones, not given back yet.
    placed: placements, exponentially decayed, in units that only compare inside one pool.
    suspect: `Health` is to probe it now.  guest: called when a request is booked; whoever uses idle time then leaves.
    last_seen_s: when it last sent us bytes of an answer, on the pool's clock
    (time.monotonic); -inf = never."""

    __slots__ = (
        "cards",
        "down_because",
        "failures",
        "generation",
        "guest",
        "identity",
        "in_flight",
        "in_flight_before",
        "last_seen_s",
        "models",
        "name",
        "placed",
        "seed",
        "state",
        "suspect",
        "trouble",
        "url",
    )

    def __init__(self, url: str, identity: str | None = None) -> None:
        self.url = canonical_url(url)
        self.identity = identity or self.url
        self.name = identity or self.url.partition("://")[2]
        self.seed = xxh3_64_intdigest(self.identity.encode())
        self.generation = 0
        self.state = State.UNKNOWN
        self.down_because: DownBecause | None = None
        self.trouble: str | None = None  # the last failure in words, for people
        self.models: frozenset[str] = frozenset()
        self.cards: Mapping[str, Card] = {}
        self.in_flight = 0
        self.in_flight_before = 0
        self.placed = 0.0
        self.failures = 0
        self.suspect = False
        self.guest: Callable[[], None] | None = None
        self.last_seen_s = -math.inf

    @property
    def model_cards(self) -> Mapping[str, Card]:
        """Model id → the card object as /v1/models gave it."""
        return self.cards

    @property
    def idle(self) -> bool:
        """Nothing of ours is on it, so that a drained worker may be stopped."""
        return not (self.in_flight or self.in_flight_before)

    def serves(self, model: str | None) -> bool:
        """Whether a request for `model` may go there; unknown models give the benefit of the doubt."""
        return model is None or not self.models or model in self.models

    def __repr__(self) -> str:
        why = f" by {self.down_because}" if self.state is State.DOWN and self.down_because else ""
        return f"<Worker {self.name} {self.state}{why} | {self.in_flight} in flight, generation {self.generation}>"


class Booking:
    """One request's place on a worker: taken at `__enter__`, given back exactly once at `__exit__`."""

    __slots__ = ("_generation", "_pool", "worker")

    def __init__(self, pool: "WorkerPool", worker: Worker) -> None:
        self._pool = pool
        self.worker = worker
        self._generation = -1

    def __enter__(self) -> "Booking":
        if self._generation >= 0:
            raise RuntimeError("a booking is entered once")
        worker = self.worker
        if worker.guest is not None:
            worker.guest()
        self._generation = worker.generation
        worker.in_flight += 1
        worker.placed += self._pool.placement_weight()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        worker = self.worker
        if worker.generation == self._generation:
            worker.in_flight -= 1
        else:
            worker.in_flight_before -= 1
            if worker.in_flight_before == 0 and worker.state is State.DRAINING:
                self._pool.changed()
        if worker.in_flight == 0 and worker.state is State.DRAINING:
            self._pool.changed()


class View:
    """The workers that serve one model. up: those that are UP.  seeds: their hash seeds, in the order of `serving`."""

    __slots__ = ("seeds", "serving", "up")

    def __init__(self, serving: tuple[Worker, ...]) -> None:
        self.serving = serving
        self.up = tuple(w for w in serving if w.state is State.UP)
        self.seeds = tuple(w.seed for w in serving)


class WorkerPool:
    """All workers, in the order they were given. Iterable; `choose` reads it, `Health` and the admin API change it."""

    def __init__(self, urls: Iterable[str | Worker] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.version = 0  # grows with each change of membership, state or models
        self._workers: dict[str, Worker] = {}
        self._listeners: list[Callable[[], None]] = []
        self._views: dict[str | None, View] = {}
        self.revisions = 0  # grows when weights behind some name change
        self._revisions: dict[str | None, str] = {}
        self._roots: dict[tuple[str, str], object] = {}
        self._landmark_s = clock()
        for url in urls:
            self.add(url)

    # -- who is here ---------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Worker]:
        return iter(tuple(self._workers.values()))

    def __len__(self) -> int:
        return len(self._workers)

    def __contains__(self, worker: object) -> bool:
        return isinstance(worker, Worker) and self._workers.get(worker.url) is worker

    def find(self, url: str) -> Worker | None:
        """By url in any spelling, or by identity."""
        for worker in self._workers.values():
            if url in (worker.identity, worker.name):
                return worker
        try:
            return self._workers.get(canonical_url(url))
        except ValueError:
            return None

    def add(self, worker: str | Worker) -> Worker:
        """A worker that is here already is returned. Raises ValueError for an unusable url or a taken identity."""
        worker = worker if isinstance(worker, Worker) else Worker(worker)
        if known := self._workers.get(worker.url):
            return known
        if any(other.identity == worker.identity for other in self._workers.values()):
            raise ValueError(f"two workers with the identity {worker.identity!r}")
        self._workers[worker.url] = worker
        self._level(worker)
        self.changed()
        return worker

    def remove(self, worker: Worker) -> None:
        """Forget it; bookings that are out stay valid and are given back to the old object."""
        if self._workers.get(worker.url) is worker:
            del self._workers[worker.url]
            self.changed()

    def drain(self, worker: Worker) -> None:
        worker.state = State.DRAINING
        self.changed()

    def undrain(self, worker: Worker) -> None:
        """Back to UNKNOWN: the next probe, which is asked for at once, says whether it is up."""
        if worker.state is State.DRAINING:
            worker.state, worker.failures, worker.suspect = State.UNKNOWN, 0, True
            self.changed()

    # -- what we learn about them ----------------------------------------------------------------------------------

    def answered(self, worker: Worker, cards: Mapping[str, Card] | None = None) -> None:
        """A probe succeeded. cards: model id → card; None = it would not say, keep what we knew."""
        worker.failures = 0
        worker.trouble = None
        changed = False
        if cards is not None and cards != worker.cards:
            worker.cards, worker.models, changed = dict(cards), frozenset(cards), True
        if worker.state in (State.UNKNOWN, State.DOWN):
            if worker.state is State.DOWN:
                self._come_back(worker)
            worker.state, worker.down_because, changed = State.UP, None, True
        if changed:
            self.changed()

    def probe_failed(self, worker: Worker, trouble: str, *, down_after: int = 2, grace_s: float = 0.0) -> None:
        """A probe failed; `down_after` in a row make DOWN.

        grace_s: not if answers flowed in the last so many seconds. For probes that got no reply: a long prefill or a
        compile starves /health while the worker is well (rllm#926, sglang#22511). 0 where the worker itself said no."""
        worker.trouble = trouble
        if self.clock() - worker.last_seen_s < grace_s:
            self._alive(worker)
            return
        worker.failures += 1
        if worker.failures >= down_after and worker.state in (State.UP, State.UNKNOWN):
            worker.state, worker.down_because = State.DOWN, DownBecause.PROBE
            self.changed()

    def saw_bytes(self, worker: Worker) -> None:
        """Bytes of an answer arrived: it is alive, whatever a probe says. (`proxy.upstream` only sets `last_seen_s`.)

        A worker that is DOWN by connect error is left alone: the bytes may come from a connection made before."""
        worker.last_seen_s = self.clock()
        self._alive(worker)

    def _alive(self, worker: Worker) -> None:
        worker.failures = 0
        if worker.state is State.DOWN and worker.down_because is DownBecause.PROBE:
            self.answered(worker)

    def unreachable(self, worker: Worker, trouble: str = "connection failed", *, connected: bool = False) -> None:
        """A request could not be delivered. Not connected → DOWN now; connected and then dropped → only probed at once,
        because one poisonous request may close its own connection on a worker that is well."""
        worker.trouble = trouble
        worker.suspect = True
        if not connected and worker.state in (State.UP, State.UNKNOWN, State.DOWN):
            worker.state, worker.down_because = State.DOWN, DownBecause.CONNECT
        self.changed()

    def _come_back(self, worker: Worker) -> None:
        worker.generation += 1
        worker.in_flight_before += worker.in_flight
        worker.in_flight = 0
        self._level(worker)

    def _level(self, worker: Worker) -> None:
        """A worker that joins starts as the least used of the others: at zero, every paced request would go to it."""
        others = (w.placed for w in self._workers.values() if w is not worker and w.state is State.UP)
        worker.placed = min(others, default=0.0)

    # -- what the router reads -------------------------------------------------------------------------------------

    def view(self, model: str | None) -> "View":
        """Who serves the model, and who of them is UP. Kept until the pool changes: `choose` runs per request."""
        view = self._views.get(model)
        if view is None:
            if len(self._views) >= _MOST_VIEWS:  # model names come from clients
                self._views.clear()
            view = self._views[model] = View(tuple(w for w in self._workers.values() if w.serves(model)))
        return view

    def models(self) -> list[Card]:
        """Every card that some worker serves now, first worker's card first; the last known ones when none is up."""
        alive = [w for w in self._workers.values() if w.state in (State.UP, State.DRAINING)]
        merged: dict[str, Card] = {}
        for worker in alive or self._workers.values():
            for model, card in worker.cards.items():
                merged.setdefault(model, card)
        return list(merged.values())

    def revision(self, model: str | None) -> str:
        """What stands behind a served name: the card's `root` (vLLM: the path or hub name of the weights), "" while no
        worker has said. Of several the smallest, so that it does not change with whoever happens to be up."""
        found = self._revisions.get(model)
        if found is None:
            roots = {
                f"{name}={card.get('root')}" if model is None else str(card.get("root"))
                for worker in self._workers.values()
                for name, card in worker.cards.items()
                if model in (None, name)
            }
            if len(self._revisions) >= _MOST_VIEWS:
                self._revisions.clear()
            found = self._revisions[model] = ",".join(sorted(roots)) if model is None else min(roots, default="")
        return found

    def booked(self, worker: Worker) -> Booking:
        """`with pool.booked(choice.worker): …`; no await between `choose` and this, or two requests see one load.

        Booked at selection, not at the first byte, so that a burst of long prefills spreads (sglang#15473)."""
        return Booking(self, worker)

    def placement_weight(self) -> float:
        """What one placement counts now. Weights grow with time instead of old counts shrinking (forward decay),
        so comparing two workers needs no arithmetic; all are rescaled together long before floats run out."""
        now_s = self.clock()
        half_lives = (now_s - self._landmark_s) / PLACEMENT_HALF_LIFE_S
        if half_lives > _RESCALE_AFTER_HALF_LIVES:
            for worker in self._workers.values():
                worker.placed *= math.exp2(-half_lives)
            self._landmark_s, half_lives = now_s, 0.0
        return math.exp2(half_lives)

    # -- who wants to know -----------------------------------------------------------------------------------------

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` (which must not wait) after each change; returns what stops it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def changed(self) -> None:
        self.version += 1
        self._views.clear()
        roots = {
            (worker.url, name): card.get("root")
            for worker in self._workers.values()
            for name, card in worker.cards.items()
        }
        if roots != self._roots:  # a card's other fields change at every probe
            self._roots = roots
            self._revisions.clear()
            self.revisions += 1
        for listener in tuple(self._listeners):
            listener()

    def __repr__(self) -> str:
        count = {state: 0 for state in State}
        flying = 0
        for worker in self._workers.values():
            count[worker.state] += 1
            flying += worker.in_flight + worker.in_flight_before
        parts = [f"{count[State.UP]} ready", f"{count[State.DRAINING]} draining", f"{count[State.DOWN]} down"]
        if count[State.UNKNOWN]:
            parts.append(f"{count[State.UNKNOWN]} unknown")
        return f"<WorkerPool [{', '.join(parts)} | {flying} in flight]>"
