"""Workers, as an operator lists, adds, drains and removes them."""

from collections.abc import Callable
from typing import Final

from proxy.admin.routes import Order, Route, Told
from proxy.auth import Role
from proxy.membership import Membership
from proxy.routing.workers import State, Worker, WorkerPool

_WANTED: Final = {
    "type": "object", "additionalProperties": False, "required": ["url"],
    "properties": {
        "url": {"type": "string", "maxLength": 2048, "description": "Base URL, such as http://10.0.0.7:8000."},
        "name": {"type": ["string", "null"], "maxLength": 256},
    },
}  # fmt: skip


class Workers:
    """routing_state: what routing knows of one worker besides what the pool does; it stands beside it in the list."""

    def __init__(
        self, pool: WorkerPool, membership: Membership, *, routing_state: Callable[[Worker], Told] = lambda _: {}
    ) -> None:
        self._pool = pool
        self._membership = membership
        self._routing_state = routing_state

    def routes(self) -> list[Route]:
        """Its part of the table."""
        return [  # {name+}: a URL is a name too, and has slashes
            Route("GET", "/admin/workers", Role.READ, "Every worker: state, since when, by whose word", self._list),
            Route("POST", "/admin/workers", Role.OPERATE, "Add a worker", self._add, body=_WANTED),
            Route("POST", "/admin/workers/{name+}/drain", Role.OPERATE, "Give a worker nothing new", self._drain),
            Route("POST", "/admin/workers/{name+}/undrain", Role.OPERATE, "Take a drained worker back", self._undrain),
            Route("DELETE", "/admin/workers/{name+}", Role.OPERATE, "Forget a worker; what runs there ends as ever",
                  self._remove, query={"force": {"type": "boolean", "default": False,
                                   "description": "Even if it is the last one that serves a model."}}),
        ]  # fmt: skip

    def at_a_glance(self) -> list[Told]:
        """What an operator wants to see of each every second."""
        return [_glance(self._shown(worker)) for worker in self._pool]

    async def _list(self, _: Order) -> Told:
        """And the sources of workers that cannot be read now."""
        return {"workers": [self._shown(worker) for worker in self._pool], "troubles": self._membership.troubles}

    async def _add(self, asked: Order) -> Told:
        """It is probed at once, and asked as soon as it answers."""
        worker = self._membership.add(asked.body["url"], asked.body.get("name"))
        asked.note = worker.url
        return self._shown(worker)

    async def _drain(self, asked: Order) -> Told:
        return self._shown(self._membership.drain(asked.args["name"]))

    async def _undrain(self, asked: Order) -> Told:
        return self._shown(self._membership.undrain(asked.args["name"]))

    async def _remove(self, asked: Order) -> Told:
        worker = self._membership.remove(asked.args["name"], force=asked.query["force"])
        return {"removed": worker.name, "still_running": worker.in_flight + worker.in_flight_before}

    def _shown(self, worker: Worker) -> Told:
        return {
            **shown(worker, self._pool), "from": self._membership.sources(worker),
            "routing": self._routing_state(worker),
        }  # fmt: skip


def shown(worker: Worker, pool: WorkerPool) -> Told:
    """One worker for people and programs. Durations in seconds, as of now; `placed`: placements, faded over some ten
    seconds.  drained: it may be stopped."""
    now_s = pool.clock()
    gauges = worker.gauges
    told: Told = {
        "name": worker.name, "url": worker.url, "state": worker.state.value,
        "why": worker.down_because.value if worker.state is State.DOWN and worker.down_because else None,
        "trouble": worker.trouble, "generation": worker.generation, "on_trial": worker.on_trial,
        "models": [{"id": model, "parent": card.get("parent")} for model, card in sorted(worker.cards.items())],
        "in_flight": worker.in_flight + worker.in_flight_before,
        "placed": round(worker.placed / pool.placement_weight(), 2), "failures": worker.failures,
        "busy_s": round(max(0.0, worker.busy_until_s - now_s), 1),
        "draining_s": round(now_s - worker.draining_since_s, 1) if worker.state is State.DRAINING else None,
        "drained": pool.drained(worker),
        "gauges": None,
    }  # fmt: skip
    if gauges is not None:
        told["gauges"] = {
            "age_s": round(now_s - gauges.read_at_s, 1), "running": gauges.running, "waiting": gauges.waiting,
            "kv_usage": gauges.kv_usage, "kv_tokens": gauges.kv_tokens, "prefix_queries": gauges.prefix_queries,
            "prefix_hits": gauges.prefix_hits,
        }  # fmt: skip
    return told


def _glance(told: Told) -> Told:
    """prefix_hit_share: of the prompt tokens that vLLM looked up in its prefix cache since it started."""
    gauges = told["gauges"] or {}
    queries = gauges.get("prefix_queries")
    return {
        "name": told["name"], "state": told["state"], "trouble": told["trouble"], "in_flight": told["in_flight"],
        "running": gauges.get("running"), "waiting": gauges.get("waiting"), "kv_usage": gauges.get("kv_usage"),
        "prefix_hit_share": round(gauges["prefix_hits"] / queries, 4) if queries else None,
        "sessions": told["routing"].get("sessions"), "models": [each["id"] for each in told["models"]],
    }  # fmt: skip
