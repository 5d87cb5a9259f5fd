"""Who may be asked at all, before anybody weighs who is best. Pure.

    UP workers
    + those that only silence made DOWN, when they are more than half (panic): so many do not hang at once, it is the
      probes that starve, and what is left would be crushed (sglang#13894; Envoy calls it panic routing)
    − those that are busy: they answered 429 or 503, and said for how long (sglang#25811)
    − those on trial that have a few requests already: they came back and have not answered since (half open)

What is taken away is taken away only while somebody is left: the last worker is never ejected.
"""

from collections.abc import Sequence
from typing import Final

from proxy.routing.workers import State, View, Worker

TRIAL_REQUESTS: Final = 3  # at once, on a worker that came back, until one of them is answered
PANIC_SHARE: Final = 0.5  # of the workers that serve a model and are not draining


def panicking(view: View) -> bool:
    """Whether so many of the model's workers fell silent that the probes are not believed.

    A worker that refuses connections, or says itself that it is ill, is down for certain and never counts."""
    if not view.doubted:
        return False
    members = sum(worker.state is not State.DRAINING for worker in view.serving)
    return len(view.doubted) > members * PANIC_SHARE


def believed(view: View) -> Sequence[Worker]:
    """Those that are UP, and in a panic those that only fell silent. The same as long as the view lives."""
    return (*view.up, *view.doubted) if panicking(view) else view.up


def eligible(view: View, now_s: float, avoid: frozenset[str] = frozenset()) -> Sequence[Worker]:
    """The workers of one model that a request may go to; empty = nobody is up, see the router's last resort.

    now_s: on the pool's clock.  avoid: urls that already failed this request."""
    asked = believed(view)
    if avoid:
        asked = [worker for worker in asked if worker.url not in avoid]
    if len(asked) < 2:
        return asked
    spared = [
        worker for worker in asked
        if worker.busy_until_s > now_s
        or (worker.returned_s > worker.last_seen_s and worker.in_flight >= TRIAL_REQUESTS)
    ]  # fmt: skip
    if not spared:
        return asked
    free = [worker for worker in asked if worker not in spared]
    return free or _least_bad(spared, now_s)


def _least_bad(spared: Sequence[Worker], now_s: float) -> Sequence[Worker]:
    """All are busy or on trial: those that did not ask to be left alone, else all."""
    return [worker for worker in spared if worker.busy_until_s <= now_s] or spared
