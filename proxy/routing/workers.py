"""The vLLM workers as we know them: who is up, what they serve, how much each has in hand.

Lives here: state, and the only functions that change it. Pure: time comes from an injected clock, nothing waits.
Must not live here: probing (`proxy.health`), asking (`proxy.upstream`), choosing (`router`).

    UNKNOWN ──probe ok──▶ UP ◀──undrain── DRAINING      A connect error goes to DOWN at once; 4xx never counts.
       │                  │ ▲
       └──2 failures──▶  DOWN

`generation` counts a worker's lives: it grows when a worker answers again that refused connections, and when its
/metrics name a later start. Whatever it held before (KV blocks, stored responses, requests) counts as lost then. A
worker that was only silent, or said that it is ill, is the same one: it still has them.

A worker that comes back is on trial (half open) until it has sent a byte of an answer: `eligible` lets only a few
requests go there. One that answers 429 or 503 is busy, not dead.

Bookings are counted per generation: a request that was booked before the worker went down and is given back after
it came back cannot lower the new count, so no count is ever negative (production-stack#634, litellm#30192).
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Final

from xxhash import xxh3_64_intdigest

from proxy.routing.gauges import Gauges
from proxy.routing.worker import NEVER, Card, DownBecause, State, Worker, canonical_url

__all__ = ["Booking", "Card", "DownBecause", "State", "View", "Worker", "WorkerPool", "canonical_url"]

MOST_BUSY_S: Final = 30.0  # however long a worker asks to be left alone
PLACEMENT_HALF_LIFE_S: Final = 60.0
_MOST_VIEWS: Final = 1024
_MOST_GONE: Final = 1024  # removed workers whose generation is remembered
_SHARES: Final = 1 << 16
_RESCALE_AFTER_HALF_LIVES: Final = 64.0  # 2^64 is far below the largest float (2^1024): sums of placements fit


class Booking:
    """One request's place on a worker, and the work that goes there with it: taken at `__enter__`, given back exactly
    once at `__exit__`."""

    __slots__ = ("_generation", "_pool", "_work", "worker")

    def __init__(self, pool: "WorkerPool", worker: Worker, work: float = 1.0) -> None:
        self._pool = pool
        self._work = work
        self.worker = worker
        self._generation = -1

    def __enter__(self) -> "Booking":
        if self._generation >= 0:
            raise RuntimeError("a booking is entered once")
        worker = self.worker
        if worker.guest is not None:
            worker.guest()
        self._generation = worker.generation
        self._pool.work(worker)
        worker.in_flight += 1
        worker.placed += self._pool.placement_weight() * self._work
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        worker = self.worker
        self._pool.work(worker)
        if worker.generation == self._generation:
            worker.in_flight -= 1
        else:
            worker.in_flight_before -= 1
            if worker.in_flight_before == 0 and worker.state is State.DRAINING:
                self._pool.changed()
        if worker.in_flight == 0 and worker.state is State.DRAINING:
            self._pool.changed()


class View:
    """The workers that serve one model. up: those that are UP.  seeds: their hash seeds, in the order of `serving`.
    doubted: those that are down only because a probe heard nothing, which a busy worker may do."""

    __slots__ = ("doubted", "seeds", "serving", "up")

    def __init__(self, serving: tuple[Worker, ...]) -> None:
        self.serving = serving
        self.up = tuple(w for w in serving if w.state is State.UP)
        self.seeds = tuple(w.seed for w in serving)
        self.doubted = tuple(
            w for w in serving if w.state is State.DOWN and w.down_because is DownBecause.PROBE and w.silent
        )


class WorkerPool:
    """All workers, in the order they were given. Iterable; `choose` reads it, `Health` and the admin API change it."""

    def __init__(self, urls: Iterable[str | Worker] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.version = 0  # grows with each change of membership, state or models
        self._workers: dict[str, Worker] = {}
        self._listeners: list[Callable[[], None]] = []
        self._views: dict[str | None, View] = {}
        self.worked_s = 0.0  # time in which a worker had a request in hand, all workers together
        self.revisions = 0  # grows when weights behind some name change
        self._revisions: dict[str | None, str] = {}
        self._roots: dict[tuple[str, str], object] = {}
        self._landmark_s = clock()
        self._gone: OrderedDict[str, int] = OrderedDict()  # url → generation of one that was removed
        for url in urls:
            self.add(url)

    def work(self, worker: Worker) -> None:
        """Its bookings are about to change: if there are any, it was at work since the last time."""
        now_s = self.clock()
        if not worker.idle:
            self.worked_s += now_s - worker.marked_s
        worker.marked_s = now_s

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

    def at(self, url: str) -> Worker | None:
        """By its canonical url."""
        return self._workers.get(url)

    def add(self, worker: str | Worker) -> Worker:
        """A worker that is here already is returned. Raises ValueError for an unusable url or a taken identity."""
        worker = worker if isinstance(worker, Worker) else Worker(worker)
        if known := self._workers.get(worker.url):
            return known
        if any(other.identity == worker.identity for other in self._workers.values()):
            raise ValueError(f"two workers with the identity {worker.identity!r}")
        if (before := self._gone.pop(worker.url, None)) is not None:
            worker.generation = before + 1  # what was noted of its earlier life must not be taken for this one's
        self._workers[worker.url] = worker
        worker.placed = self._least_placed(worker)
        self.changed()
        return worker

    def rename(self, names: Mapping[Worker, str | None]) -> None:
        """Other identities for workers that are here, all at once, as they may swap them; None = the url. Sessions stay
        where they are at home. Raises ValueError when two would have one identity; then nothing has changed."""
        after = {worker: names.get(worker, worker.identity) or worker.url for worker in self._workers.values()}
        if len(set(after.values())) < len(after):
            raise ValueError("two workers would have one identity")
        for worker in names:
            worker.call(after[worker])
        self.changed()

    def remove(self, worker: Worker) -> None:
        """Forget it; bookings that are out stay valid and are given back to the old object."""
        if self._workers.get(worker.url) is worker:
            del self._workers[worker.url]
            self._gone[worker.url] = worker.generation
            if len(self._gone) > _MOST_GONE:
                self._gone.popitem(last=False)
            self.changed()

    def drain(self, worker: Worker, over_s: float = 0.0) -> None:
        """Nothing new goes there; its sessions leave one by one within `over_s` seconds, see `keeps`."""
        if worker.state is not State.DRAINING:
            worker.draining_since_s = self.clock()
        worker.state, worker.drain_over_s = State.DRAINING, over_s
        self.changed()

    def undrain(self, worker: Worker) -> None:
        """Back to UNKNOWN: the next probe, which is asked for at once, says whether it is up."""
        if worker.state is State.DRAINING:
            worker.state, worker.failures, worker.suspect = State.UNKNOWN, 0, True
            worker.draining_since_s = NEVER
            self.changed()

    def keeps(self, worker: Worker, session: str) -> bool:
        """Whether a session that lives on this draining worker is still answered there. Sessions leave in the order
        of a hash, evenly over `drain_over_s`, so that their cold prefills do not fall on the others at once."""
        if worker.state is not State.DRAINING or worker.down_because is not None or worker.was_away:
            return False
        gone_s = self.clock() - worker.draining_since_s
        if gone_s >= worker.drain_over_s:
            return False
        return xxh3_64_intdigest(session.encode(), worker.seed) % _SHARES >= _SHARES * gone_s / worker.drain_over_s

    def drained(self, worker: Worker) -> bool:
        """Whether it may be stopped: every session has left, and nothing of ours runs there."""
        over = self.clock() - worker.draining_since_s >= worker.drain_over_s
        return worker.state is State.DRAINING and worker.idle and over

    # -- what we learn about them ----------------------------------------------------------------------------------

    def answered(self, worker: Worker, cards: Mapping[str, Card] | None = None) -> None:
        """A probe succeeded. cards: model id → card; None = it would not say, keep what we knew."""
        worker.failures = 0
        worker.trouble = None
        worker.silent = False
        changed = False
        if cards is not None and cards != worker.cards:
            worker.cards, worker.models, changed = dict(cards), frozenset(cards), True
        if worker.was_away:
            self._live_again(worker)
            changed = True
        elif worker.state is State.DOWN:
            worker.returned_s = self.clock()
            worker.placed = max(worker.placed, self._least_placed(worker))
        if worker.state in (State.UNKNOWN, State.DOWN):
            worker.state, worker.down_because, changed = State.UP, None, True
        if changed:
            self.changed()

    def probe_failed(
        self, worker: Worker, trouble: str, *, down_after: int = 2, grace_s: float = 0.0, refused: bool = False
    ) -> None:
        """A probe failed; `down_after` in a row make DOWN.  refused: there is nobody at the address.

        grace_s: not if answers flowed in the last so many seconds. For probes that got no reply: a long prefill or a
        compile starves /health while the worker is well (rllm#926, sglang#22511). 0 where the worker itself said no, or
        refused the connection: that is no silence."""
        worker.trouble = trouble
        if worker.silent != (grace_s > 0.0):
            worker.silent = not worker.silent
            if worker.state is State.DOWN:
                self.changed()
        if self.clock() - worker.last_seen_s < grace_s:
            self._alive(worker)
            return
        worker.failures += 1
        if worker.failures < down_after:
            return
        worker.was_away = worker.was_away or refused
        if worker.state in (State.UP, State.UNKNOWN):
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
        if not connected:
            worker.was_away, worker.silent = True, False
            if worker.state is not State.DRAINING:
                worker.state, worker.down_because = State.DOWN, DownBecause.CONNECT
        self.changed()

    def busy(self, worker: Worker, for_s: float) -> None:
        """It answered 429 or 503: it is alive, and asks to be left alone for so long (Retry-After; at most 30 s)."""
        worker.busy_until_s = max(worker.busy_until_s, self.clock() + min(max(for_s, 0.0), MOST_BUSY_S))

    def measured(self, worker: Worker, gauges: Gauges | None) -> None:
        """What its /metrics said; None = it has none. A later start of its process than before is a restart that no
        probe noticed: a new generation. Only a later one: behind one address several processes may take turns."""
        before, worker.gauges = worker.gauges, gauges
        if before is None or gauges is None or before.started_s is None or gauges.started_s is None:
            return
        if gauges.started_s > before.started_s:
            self._live_again(worker)
            worker.gauges = gauges
            self.changed()
        elif gauges.started_s < before.started_s:
            worker.gauges = gauges.started(before.started_s)

    def _live_again(self, worker: Worker) -> None:
        worker.generation += 1
        worker.was_away = False
        worker.gauges = None
        worker.returned_s, worker.busy_until_s = self.clock(), NEVER
        worker.in_flight_before += worker.in_flight
        worker.in_flight = 0
        worker.placed = self._least_placed(worker)

    def _least_placed(self, worker: Worker) -> float:
        """Of the others: what a worker that joins starts with. At zero, every paced request would go to it."""
        others = (w.placed for w in self._workers.values() if w is not worker and w.state is State.UP)
        return min(others, default=0.0)

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

    def booked(self, worker: Worker, work: float = 1.0) -> Booking:
        """`with pool.booked(choice.worker): …`; no await between `choose` and this, or two requests see one load.
        work: tokens to be computed.

        Booked at selection, not at the first byte, so that a burst of long prefills spreads (sglang#15473)."""
        return Booking(self, worker, work)

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
