"""Where a worker's KV events can be had, from what it says itself at `GET /kv_event_sources`. Pure.

The worker names the addresses that it was *given*: `tcp://*:5557` binds every interface of its host, so we go to the
host that we know it by. vLLM binds addresses with `*` or `::`, `ipc://` and `inproc://`; to any other it *connects*,
and would have to find a subscriber bound there — except the one that it made of `tcp://*:0`, which looks the same. So
every address of that kind is tried, if it is the worker's own host: no worker may have us connect to another machine.
`CONNECTS` is what to say when nobody is there. Replay addresses always bind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

CONNECTS: Final = (
    "vLLM connects to an address like this and does not listen there; "
    'start it with "endpoint": "tcp://*:PORT" or "ipc:///path" in --kv-events-config'
)
_WILDCARDS: Final = {"*", "0.0.0.0", "::"}


@dataclass(frozen=True, slots=True)
class Source:
    """One publisher: one data-parallel rank of one worker.

    endpoint, replay: addresses that we can connect to; replay None = it keeps nothing to be replayed, or not for us.
    topic: a prefix to subscribe to.  listens: vLLM surely binds `endpoint`."""

    rank: int
    endpoint: str
    replay: str | None
    topic: str
    listens: bool


@dataclass(frozen=True, slots=True)
class Sources:
    """found: by rank.  trouble: in words, why there is none, or what is wrong with those that there are."""

    found: tuple[Source, ...] = ()
    trouble: str | None = None


def sources_of(status: int, body: bytes, worker_url: str) -> Sources:
    """From the answer to `GET /kv_event_sources`. One rank that cannot be reached spoils them all: a worker whose
    blocks are known in part would look emptier than it is."""
    if status in (404, 405):
        return Sources(trouble="this worker's vLLM does not tell where its KV events are (it is older than 0.32?)")
    if status in (401, 403):
        return Sources(trouble=f"this worker does not tell us where its KV events are (/kv_event_sources: {status})")
    if status != 200:
        return Sources(trouble=f"/kv_event_sources answered {status}")
    try:
        listed: Any = orjson.loads(body)
        configs = {int(rank): config for rank, config in listed.items() if _publishes(config)}
        if not configs:
            return Sources(trouble="this worker publishes no KV events (--kv-events-config)")
        return Sources(tuple(_source(rank, configs[rank], worker_url) for rank in sorted(configs)))
    except _Unreachable as error:
        return Sources(trouble=str(error))
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        return Sources(trouble="/kv_event_sources answered something else than KV event sources")


class _Unreachable(Exception):
    pass


def _publishes(config: Mapping[str, Any]) -> bool:
    return bool(config["enable_kv_cache_events"]) and config["publisher"] == "zmq"


def _source(rank: int, config: Mapping[str, Any], worker_url: str) -> Source:
    raw = str(config["endpoint"])
    replay = config.get("replay_endpoint")
    try:
        replay = None if replay is None else _reachable(str(replay), worker_url)
    except _Unreachable:
        replay = None
    listens = "*" in raw or "::" in raw or raw.startswith("ipc://")
    return Source(rank, _reachable(raw, worker_url), replay, str(config.get("topic") or ""), listens)


def _reachable(endpoint: str, worker_url: str) -> str:
    """The address from here. Raises _Unreachable, in words."""
    here = _is_this_machine(urlsplit(worker_url).hostname or "")
    if endpoint.startswith("ipc://"):
        if not here:
            raise _Unreachable(f"its KV events are at {endpoint}, which is a file on its own machine; use tcp://*:PORT")
        return endpoint
    scheme, _, rest = endpoint.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _Unreachable(f"its KV events are at {endpoint}, which cannot be reached from another process")
    host, own = host.lower().strip("[]"), urlsplit(worker_url).hostname or ""
    if host in _WILDCARDS:
        host = own
    elif not here and _is_this_machine(host):
        raise _Unreachable(
            f"its KV events are at {endpoint}, which is a loopback address of its own machine. {CONNECTS}"
        )
    elif host != own and not (here and _is_this_machine(host)):
        raise _Unreachable(
            f"its KV events are at {endpoint}, which is another machine than {own}; nobody sends us there. {CONNECTS}"
        )
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
