"""Which worker keeps a stored response: vLLM's Responses API holds them in the memory of one process. Pure, bounded.

A request that names a response (`previous_response_id`, or GET, DELETE and cancel of /v1/responses/{id}) is answered by
the worker that made it or by nobody. Another worker's "not found" would send the caller looking for his own mistake.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import orjson

from proxy.errors import ResponseGone
from proxy.routing.workers import Worker, WorkerPool

RESPONSES: Final = "/v1/responses"
MOST_PINS: Final = 65_536  # about 400 B each; the oldest leave first
LOOK_BYTES: Final = 65_536  # of a reply, for its id: it stands at the very beginning
ANOTHER_LIFE: Final = -1  # a generation that no worker has
_ID: Final = re.compile(rb'"id"\s*:\s*"([^"\\\x00-\x1f]{1,256})"')


@dataclass(frozen=True, slots=True)
class Pin:
    """url, generation: who made the response, in which of its lives.  session: whose turn it was (`Identity.id`)."""

    url: str
    generation: int
    session: str | None = None


class Pins:
    """(tenant, response id) → pin, of the newest `most` responses that this process saw made, or was told of."""

    def __init__(self, most: int = MOST_PINS) -> None:
        self._pins: OrderedDict[tuple[str, str], Pin] = OrderedDict()
        self._most = most

    def note(self, tenant: str, response_id: str, worker: Worker, generation: int, session: str | None) -> None:
        """This worker made the response. generation: what the worker's was when it was asked."""
        self.adopt(tenant, response_id, Pin(worker.url, generation, session))

    def adopt(self, tenant: str, response_id: str, pin: Pin) -> None:
        """As `note`, of what another process saw made."""
        self._pins[tenant, response_id] = pin
        self._pins.move_to_end((tenant, response_id))
        if len(self._pins) > self._most:
            self._pins.popitem(last=False)

    def find(self, tenant: str, response_id: str) -> str | None:
        """The session that the response belongs to; None = not known. What `identify` asks of its `threads`."""
        pin = self._pins.get((tenant, response_id))
        return None if pin is None else pin.session

    def of(self, tenant: str, response_id: str) -> Pin | None:
        return self._pins.get((tenant, response_id))

    def worker(self, pool: WorkerPool, tenant: str, response_id: str | None) -> Worker | None:
        """Who must be asked; None = the request names no response, or one that is not known here: then anybody may
        be, and his word counts. Raises ResponseGone when its worker left or was restarted.

        A worker that is draining, or down by a probe, still has it and is still asked."""
        pin = self._pins.get((tenant, response_id)) if response_id is not None else None
        if pin is None or response_id is None:
            return None
        worker = pool.at(pin.url)
        if worker is None or worker.generation != pin.generation:
            why = "is not here any more" if worker is None else "was restarted"
            raise ResponseGone(
                f"The response `{response_id[:64]}` is gone: the worker that kept it {why}, and responses live in a "
                "worker's memory only. Send the whole conversation in `input` instead.",
                param="previous_response_id",
            )
        return worker

    def __iter__(self) -> Iterator[Pin]:
        return iter(tuple(self._pins.values()))

    def __len__(self) -> int:
        return len(self._pins)


def written(worker: Worker, session: str | None) -> bytes:
    """A pin for other processes. They count a worker's lives in their own way, so its start says which life it was."""
    return orjson.dumps([worker.url, worker.gauges.started_s if worker.gauges is not None else None, session])


def read(pool: WorkerPool, data: bytes) -> Pin | None:
    """What `written` wrote, in this process's counting; None = it is none. A worker whose start is not known is asked,
    and his word counts."""
    try:
        url, started_s, session = orjson.loads(data)
    except (ValueError, TypeError):
        return None
    worker = pool.at(url)
    if worker is None:
        return Pin(url, ANOTHER_LIFE, session)
    since_s = worker.gauges.started_s if worker.gauges is not None else None
    same = started_s is None or since_s is None or started_s == since_s
    return Pin(url, worker.generation if same else ANOTHER_LIFE, session)


def named_response(method: str, path: str, body: Mapping[str, Any]) -> str | None:
    """The id of the response that a request is about; None = it is about none.

    path: decoded or not, without the query.  POST /v1/responses: `previous_response_id`; GET, DELETE
    /v1/responses/{id}, GET …/input_items and POST …/cancel: the id in the path."""
    if path == RESPONSES:
        named = body.get("previous_response_id") if method == "POST" else None
        return named if isinstance(named, str) and named else None
    if not path.startswith(RESPONSES + "/"):
        return None
    return unquote(path[len(RESPONSES) + 1 :].partition("/")[0]) or None


def makes_response(method: str, path: str, status: int) -> bool:
    """Whether the reply's id is a new response to be pinned."""
    return method == "POST" and path == RESPONSES and status == 200


class IdFinder:
    """Looks for the response's id while the reply passes by, JSON or events alike: the first `id` in it."""

    __slots__ = ("_seen", "id")

    def __init__(self) -> None:
        self.id: str | None = None
        self._seen: bytes | None = b""

    def feed(self, chunk: bytes) -> str | None:
        """The id, once: at the chunk that completes it."""
        if self._seen is None:
            return None
        self._seen += chunk
        found = _ID.search(self._seen)
        if found is not None:
            self.id = found[1].decode("utf-8", "replace")
        if found is not None or len(self._seen) >= LOOK_BYTES:
            self._seen = None
        return self.id
