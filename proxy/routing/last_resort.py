"""Who is asked when nobody who serves the model is UP. Pure. The last workers are never ejected:

1. workers not probed yet, and workers that only probes call down: probes are sometimes wrong;
2. draining workers: better than an error, as Kubernetes does with terminating endpoints;
3. a worker that refused a connection, if it is the only one that serves the model: asking costs little.
"""

from collections.abc import Sequence
from typing import Final

from xxhash import xxh3_64_intdigest

from proxy.errors import ModelNotFound, NoWorker
from proxy.routing.choice import Choice, Kind
from proxy.routing.worker import DownBecause, State, Worker
from proxy.routing.workers import View, WorkerPool

RETRY_AFTER_S: Final = 2  # one probe interval: sooner, nothing new is known


def last_resort(pool: WorkerPool, view: View, model: str | None, session: str | None, avoid: frozenset[str]) -> Choice:
    """Raises ModelNotFound when workers are up and none serves the model, NoWorker when nobody may be asked."""
    if model is not None and not view.up and not any(model in w.models for w in view.serving):
        _refuse_unknown_model(pool, model)
    left = [w for w in view.serving if w.url not in avoid]
    doubtful = [w for w in left if w.state is State.UNKNOWN or w.down_because is DownBecause.PROBE]
    draining = [w for w in left if w.state is State.DRAINING]
    if doubtful:
        worker = _pick(doubtful, session)
        return Choice(worker, Kind.LAST_RESORT, f"nobody is up: {worker.name} is {_doubt(worker)}, tried all the same")
    if draining:
        worker = _pick(draining, session)
        return Choice(worker, Kind.LAST_RESORT, f"nobody is up: {worker.name} is draining, asked all the same")
    if len(left) == len(view.serving) == 1:
        return Choice(left[0], Kind.LAST_RESORT, f"only worker: {left[0].name} is down, tried all the same")
    about = f" that serves `{model}`" if model is not None else ""
    raise NoWorker(f"No worker{about} is up. Try again in {RETRY_AFTER_S} s.", retry_after_s=RETRY_AFTER_S)


def _pick(workers: Sequence[Worker], session: str | None) -> Worker:
    if session is None:
        return min(workers, key=lambda w: (w.in_flight, w.placed))
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
