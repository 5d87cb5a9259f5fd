"""One vLLM worker as we know it, and the one spelling of its address. Facts that only `WorkerPool` writes. Pure."""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from xxhash import xxh3_64_intdigest

from proxy.routing.gauges import Gauges

Card = Mapping[str, Any]

NEVER: Final = -math.inf


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
    try:
        parts.hostname.encode("idna")
    except UnicodeError:
        raise ValueError(f"worker {raw!r}: {parts.hostname!r} is no host name") from None
    if parts.username or parts.password:
        raise ValueError(f"worker {raw!r}: credentials in the URL are not supported; set worker_api_key")
    if parts.path.rstrip("/") not in ("", "/v1") or parts.query or parts.fragment:
        raise ValueError(f"worker {raw!r}: give only scheme, host and port")
    scheme = parts.scheme.lower()
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{scheme}://{host}:{parts.port or (443 if scheme == 'https' else 80)}"


class Worker:
    """One vLLM server. Anybody may read; only `WorkerPool` writes (but `last_seen_s`: `proxy.upstream`, and `guest`:
    `proxy.spare`).

    identity: what session hashing sees; the url unless the operator names the worker (then it may change address).
    seed: xxh3-64 of the identity.
    models: ids that it serves; empty = not known (not probed yet, or its /v1/models may not be read by us).
    generation: which of its lives this is, see `proxy.routing.workers`.
    in_flight: requests booked in this generation.  in_flight_before: booked in earlier ones, not given back yet.
    placed: work placed there, exponentially decayed, in units that only compare inside one pool.
    suspect: `Health` is to probe it now.  guest: called when a request is booked; whoever uses idle time then leaves.
    silent: the last failed probe got no reply, which may be a busy worker; False where it refused or said no itself.
    was_away: it refused connections; when it answers again, it is a new generation, draining or not.
    gauges: what its /metrics said last; None = it has none, or was not asked yet.

    Times on the pool's clock (time.monotonic); -inf = never:
    last_seen_s: it sent us bytes of an answer.  returned_s: it came back after being down.
    busy_until_s: it asked to be left alone (429 or 503).  draining_since_s: it was told to drain; NEVER when it is not.
    drain_over_s: seconds in which its sessions move, from draining_since_s on; 0 = at once."""

    __slots__ = (
        "busy_until_s",
        "cards",
        "down_because",
        "drain_over_s",
        "draining_since_s",
        "failures",
        "gauges",
        "generation",
        "guest",
        "identity",
        "in_flight",
        "in_flight_before",
        "last_seen_s",
        "marked_s",
        "models",
        "name",
        "placed",
        "returned_s",
        "seed",
        "silent",
        "state",
        "suspect",
        "trouble",
        "url",
        "was_away",
    )

    def __init__(self, url: str, identity: str | None = None) -> None:
        self.url = canonical_url(url)
        self.call(identity or self.url)
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
        self.silent = False
        self.was_away = False
        self.gauges: Gauges | None = None
        self.last_seen_s = NEVER
        self.marked_s = 0.0  # when its bookings changed last
        self.returned_s = NEVER
        self.busy_until_s = NEVER
        self.draining_since_s = NEVER
        self.drain_over_s = 0.0

    def call(self, identity: str) -> None:
        """Name it; the url = it has no name."""
        self.identity = identity
        self.name = identity if identity != self.url else self.url.partition("://")[2]
        self.seed = xxh3_64_intdigest(identity.encode())

    @property
    def model_cards(self) -> Mapping[str, Card]:
        """Model id → the card object as /v1/models gave it."""
        return self.cards

    @property
    def idle(self) -> bool:
        """Nothing of ours is on it, so that a drained worker may be stopped."""
        return not (self.in_flight or self.in_flight_before)

    @property
    def on_trial(self) -> bool:
        """It came back and has not sent a byte of an answer since: half open, as breakers call it."""
        return self.returned_s > self.last_seen_s

    def serves(self, model: str | None) -> bool:
        """Whether a request for `model` may go there; unknown models give the benefit of the doubt."""
        return model is None or not self.models or model in self.models

    def __repr__(self) -> str:
        why = f" by {self.down_because}" if self.state is State.DOWN and self.down_because else ""
        return f"<Worker {self.name} {self.state}{why} | {self.in_flight} in flight, generation {self.generation}>"
