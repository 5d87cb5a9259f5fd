"""Who should answer: one pure function that returns a worker and its reason.

A request with a session goes home: to the worker that answered it before, else to the one of those that serve the
model whose hash with the session is highest (rendezvous hashing, Thaler and Ravishankar 1998), the same after a restart
and in every process; a new session may go to the second highest, when that is emptier. When a worker dies only its own
sessions move, and they spread over *all* that are left (vllm-router sends them to one).
A request without a session goes where least is in hand; ties, which are the rule when traffic is paced (Infera#103 saw
448 to 0), go where least was placed of late.

Who is asked when nobody is UP — the last workers are never ejected:
    1. workers not probed yet, and workers that only probes call down: probes are sometimes wrong;
    2. draining workers: better than an error, as Kubernetes does with terminating endpoints;
    3. a worker that refused a connection, if it is the only one that serves the model: asking costs little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from xxhash import xxh3_64_intdigest

from proxy.errors import ModelNotFound, NoWorker
from proxy.routing.workers import DownBecause, State, View, Worker, WorkerPool

_CLEAR_LEAD: Final = 0.5  # placements; half of one, decayed, is noise
RETRY_AFTER_S: Final = 2  # one probe interval: sooner, nothing new is known


@dataclass(frozen=True, slots=True)
class Choice:
    """worker: whom to ask.  reason: why, for people: log, metrics detail, `explain`."""

    worker: Worker
    reason: str


def choose(
    pool: WorkerPool,
    *,
    model: str | None,
    session: str | None,
    avoid: frozenset[str] = frozenset(),
    home: str | None = None,
    settled: Mapping[str, int] | None = None,
) -> Choice:
    """The worker for one request; book it (`pool.booked`) before the next `await`.

    model: None = the request names none, any worker will do.  session: the digest from `identity`; None = no session.
    avoid: urls that already failed this request.  home: url of the worker that answered the session before.
    settled: sessions that live on each url, to place a new session on the emptier of its two homes; None = always on
    the first, which is the same in every process that cannot see the others' tables.
    Raises ModelNotFound when workers are up and none serves the model, NoWorker when nobody may be asked."""
    view = pool.view(model)
    up = view.up
    if avoid:
        up = tuple(w for w in up if w.url not in avoid)
    if not up:
        return _last_resort(pool, view, model, session, avoid)
    if len(view.serving) == 1:
        return Choice(up[0], "only worker")
    if session is not None:
        if home is not None:
            for worker in up:
                if worker.url == home:
                    return Choice(worker, "session: at home")
        return _home(pool, view, up, session, avoid, settled)
    return _least_loaded(up)


def _home(
    pool: WorkerPool,
    view: View,
    up: Sequence[Worker],
    session: str,
    avoid: frozenset[str],
    settled: Mapping[str, int] | None,
) -> Choice:
    key = session.encode()
    weights = [xxh3_64_intdigest(key, seed) for seed in view.seeds]
    first = weights.index(max(weights))
    home = view.serving[first]
    if home.state is State.UP and home.url not in avoid:
        second = None if settled is None else _second(view, weights, first, avoid)
        if settled is not None and second is not None and _emptier(pool, second, home, settled):
            return Choice(second, f"session: new; its second home is emptier than {home.name}")
        return Choice(home, "session: rendezvous home")
    worker = max(up, key=lambda w: xxh3_64_intdigest(key, w.seed))
    return Choice(worker, f"session: home {home.name} is {_absence(home)}, moved")


def _second(view: View, weights: list[int], first: int, avoid: frozenset[str]) -> Worker | None:
    """The session's second home, if it may be asked."""
    place = max((n for n in range(len(weights)) if n != first), key=weights.__getitem__)
    worker = view.serving[place]
    return worker if worker.state is State.UP and worker.url not in avoid else None


def _emptier(pool: WorkerPool, second: Worker, first: Worker, settled: Mapping[str, int]) -> bool:
    """Whether a new session does better on its second home: less was placed there of late, or, when that is the same,
    fewer sessions live there. Two choices instead of one keep the fullest worker within a few of the mean
    (Mitzenmacher 2001)."""
    lead = (first.placed - second.placed) / pool.placement_weight()
    if abs(lead) >= _CLEAR_LEAD:
        return lead > 0
    return settled.get(second.url, 0) < settled.get(first.url, 0)


def _absence(home: Worker) -> str:
    return "failing this request" if home.state is State.UP else str(home.state)


def _least_loaded(up: Sequence[Worker]) -> Choice:
    best = up[0]
    least, placed = best.in_flight, best.placed
    for worker in up:
        if worker.in_flight < least or (worker.in_flight == least and worker.placed < placed):
            best, least, placed = worker, worker.in_flight, worker.placed
    if len(up) == 1:
        return Choice(best, "only worker up")
    return Choice(best, f"least loaded ({least} of {sum([w.in_flight for w in up])} in flight)")


def _last_resort(pool: WorkerPool, view: View, model: str | None, session: str | None, avoid: frozenset[str]) -> Choice:
    """Nobody who serves the model is UP: see the module's docstring for who is asked all the same."""
    if model is not None and not view.up and not any(model in w.models for w in view.serving):
        _refuse_unknown_model(pool, model)
    left = [w for w in view.serving if w.url not in avoid]
    doubtful = [w for w in left if w.state is State.UNKNOWN or w.down_because is DownBecause.PROBE]
    draining = [w for w in left if w.state is State.DRAINING]
    if doubtful:
        worker = _pick(doubtful, session)
        return Choice(worker, f"nobody is up: {worker.name} is {_doubt(worker)}, tried all the same")
    if draining:
        worker = _pick(draining, session)
        return Choice(worker, f"nobody is up: {worker.name} is draining, asked all the same")
    if len(left) == len(view.serving) == 1:
        return Choice(left[0], f"only worker: {left[0].name} is down, tried all the same")
    about = f" that serves `{model}`" if model is not None else ""
    raise NoWorker(f"No worker{about} is up. Try again in {RETRY_AFTER_S} s.", retry_after_s=RETRY_AFTER_S)


def _pick(workers: Sequence[Worker], session: str | None) -> Worker:
    if session is None:
        return _least_loaded(workers).worker
    key = session.encode()
    return max(workers, key=lambda w: xxh3_64_intdigest(key, w.seed))


def _doubt(worker: Worker) -> str:
    return "not probed yet" if worker.state is State.UNKNOWN else "down by probe"


def _refuse_unknown_model(pool: WorkerPool, model: str) -> None:
    """Raises ModelNotFound if we can know: somebody is up, and nobody is still to be probed for the first time."""
    workers = list(pool)
    if not any(w.state is State.UP for w in workers) or any(w.state is State.UNKNOWN for w in workers):
        return
    served = sorted({name for w in workers for name in w.models})
    silent = sum(not w.models for w in workers)
    note = f" {silent} worker(s) have not said yet what they serve." if silent else ""
    raise ModelNotFound(
        f"The model `{model}` does not exist or you do not have access to it. "
        f"Served here: {', '.join(f'`{name}`' for name in served) or 'nothing yet'}.{note}",
        param="model",
    )
