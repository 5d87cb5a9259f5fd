"""What an operator may see and do, behind /admin. `proxy.api` reads the request and writes the reply.

    GET    /admin/workers                       who is here, in which state, since when and by whose word
    POST   /admin/workers {"url", "name"?}      add one          POST /admin/workers/{name}/drain, …/undrain
    DELETE /admin/workers/{name}[?force=true]   remove one; what runs there ends as ever

Without roles, only a trusted caller comes in, and no page of a browser and nobody behind another proxy.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import orjson

from cache import StoreUnavailable
from proxy import openai
from proxy.call import Call
from proxy.errors import BadRequest, Forbidden, NotFound, StoreAway
from proxy.explain import as_json
from proxy.feedback import Feedback
from proxy.gateway import Gateway
from proxy.membership import Membership
from proxy.routing.workers import State, Worker, WorkerPool

Told = dict[str, Any]
Look = Callable[[], Coroutine[Any, Any, Told]]  # what is told of the inside
Deed = Callable[[Call], Coroutine[Any, Any, Told]]
EntryDeed = Callable[[Call, int], Coroutine[Any, Any, Told]]

PREFIX: Final = "/admin"
EXPLAIN: Final = "/admin/explain"
_ENTRY: Final = "/admin/entries/"
_WORKERS: Final = "/admin/workers"
_HEX_DIGITS: Final = frozenset("0123456789abcdef")
_FORWARDED: Final = ("Forwarded", "X-Forwarded-For")


class Admin:
    """trust: what is measured of the answers that were served.  observed: what would be; None = they are served.
    routing_state: what routing knows of one worker besides what the pool does; it stands beside it in the list."""

    def __init__(
        self, gateway: Gateway, feedback: Feedback, pool: WorkerPool, membership: Membership, *, trust: Look,
        observed: Look | None = None, routing_state: Callable[[Worker], Told] = lambda _: {},
    ) -> None:  # fmt: skip
        self._gateway = gateway
        self._pool = pool
        self._membership = membership
        self._trust = trust
        self._observed = observed or _not_observing
        self._routing_state = routing_state
        self._review = feedback.review
        self._deeds: dict[tuple[str, str], Deed] = {
            ("POST", "/admin/explain"): self.explain,
            ("GET", "/admin/review"): self.review,
            ("GET", "/admin/trust"): self.trust,
            ("GET", "/admin/observed"): self.observed,
            ("GET", "/admin/workers"): self.workers,
            ("POST", "/admin/workers"): self.add,
        }
        self._entry_deeds: dict[tuple[str, str], EntryDeed] = {
            ("DELETE", ""): self.forget,
            ("POST", "quarantine"): feedback.quarantine,
            ("POST", "release"): feedback.release,
        }
        self._worker_deeds: dict[tuple[str, str], Callable[[Call, str], Told]] = {
            ("DELETE", ""): self.remove,
            ("POST", "drain"): self.drain,
            ("POST", "undrain"): self.undrain,
        }

    def deed(self, method: str, path: str) -> Deed:
        """What is done at this door. Raises NotFound: our own name space is never passed on to a worker."""
        deed = self._deeds.get((method, path))
        if deed is not None:
            return deed
        if path.startswith(_ENTRY):
            name, _, last = path.removeprefix(_ENTRY).partition("/")
            on_entry = self._entry_deeds.get((method, last))
            if on_entry is not None:
                return _on_entry(on_entry, name)
        if path.startswith(_WORKERS + "/"):
            name, _, last = path.removeprefix(_WORKERS + "/").rpartition("/")
            if method == "DELETE" or (method, last) not in self._worker_deeds:
                name, last = path.removeprefix(_WORKERS + "/"), ""  # a url, whose slashes are its own
            on_worker = self._worker_deeds.get((method, last))
            if on_worker is not None and name:
                return _on_worker(on_worker, name)
        raise NotFound(f"There is no {path} here.")

    # -- answers -----------------------------------------------------------------------------------------------------

    async def explain(self, call: Call) -> Told:
        """A chat or completion request in, what would happen to it and why out."""
        if call.path not in openai.CACHED_PATHS:
            raise BadRequest(f"`path` must be one of {', '.join(openai.CACHED_PATHS)}.")
        return as_json(*await self._gateway.explain(call))

    async def review(self, _: Call) -> Told:
        """Answers that are out of service, and those that somebody complained about."""
        return await self._review()

    async def trust(self, _: Call) -> Told:
        """How often answers found by meaning were wrong, as measured, and what that stands on."""
        return await self._trust()

    async def observed(self, _: Call) -> Told:
        """What the cache would have served since this process began, and how right that was."""
        return await self._observed()

    async def forget(self, _: Call, entry_id: int) -> Told:
        """This answer was wrong; it is gone from every tier and replica."""
        try:
            return {"deleted": await self._gateway.forget(entry_id)}
        except StoreUnavailable as trouble:
            raise StoreAway(f"The entry could not be deleted everywhere: {trouble}. Try again.") from None

    # -- workers -----------------------------------------------------------------------------------------------------

    async def workers(self, _: Call) -> Told:
        """Every worker, and the sources of workers that cannot be read now."""
        return {"workers": [self._shown(worker) for worker in self._pool], "troubles": self._membership.troubles}

    async def add(self, call: Call) -> Told:
        """It is probed at once, and asked as soon as it answers."""
        try:
            wanted = orjson.loads(call.body)
        except orjson.JSONDecodeError:
            wanted = None
        if not isinstance(wanted, dict) or not set(wanted) <= {"url", "name"}:
            raise BadRequest('The body must be {"url": "http://HOST:PORT"}, and perhaps a "name".')
        return self._shown(self._membership.add(wanted.get("url"), wanted.get("name")))

    def drain(self, _: Call, name: str) -> Told:
        return self._shown(self._membership.drain(name))

    def undrain(self, _: Call, name: str) -> Told:
        return self._shown(self._membership.undrain(name))

    def remove(self, call: Call, name: str) -> Told:
        force = parse_qs(urlsplit(call.target).query).get("force", [""])[-1].lower() in ("true", "1", "yes")
        worker = self._membership.remove(name, force=force)
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


def admit(call: Call, *, tokenless: bool) -> None:
    """Whether this caller may look inside. tokenless: callers prove nothing but that they are on this machine; then the
    Host must be, too, or a page that had its own name point here could read it. Raises Forbidden."""
    headers = call.headers
    if not call.tenant.trusted:
        raise Forbidden("Only a trusted tenant may look inside: see the setting trusted_tenants.")
    if "Origin" in headers or any(name in headers for name in _FORWARDED):
        raise Forbidden("This door is for direct callers only, not for a browser page or another proxy.")
    if tokenless and not loopback_host(headers):
        raise Forbidden("Without api_keys this door is for this machine only: ask it as 127.0.0.1 or localhost.")


def loopback_host(headers: Mapping[str, str]) -> bool:
    """Whether the Host header, if there is one, names this machine."""
    host = headers.get("Host")
    if not host:
        return True
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in ("localhost", "::1") or (name.startswith("127.") and name.replace(".", "").isdecimal())


def _on_entry(deed: EntryDeed, name: str) -> Deed:
    async def done(call: Call) -> Told:
        if len(name) != 16 or not set(name) <= _HEX_DIGITS or name[0] > "7":  # 63 bits
            raise BadRequest("An entry is named by 16 hexadecimal digits, as X-Rejoinder-Entry and explain say it.")
        return await deed(call, int(name, 16))

    return done


def _on_worker(deed: Callable[[Call, str], Told], name: str) -> Deed:
    async def done(call: Call) -> Told:
        return deed(call, name)

    return done


async def _not_observing() -> Told:
    raise NotFound('Answers are served here, not observed: that takes the setting mode = "observe".')
