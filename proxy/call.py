"""One request on its way through the house, and the reply that comes back. Facts only."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from multidict import MultiMapping

from proxy.auth import Tenant


@dataclass(slots=True)  # not frozen: that would double the cost of making one
class Call:
    """What came in at the door. headers: case-insensitive.  raw_headers: as they came, for the worker.
    path: decoded, without the query.  target: path and query byte for byte.
    came_s: when its last byte was here, on `time.perf_counter`."""

    method: str
    path: str
    target: str
    headers: MultiMapping[str]
    raw_headers: tuple[tuple[bytes, bytes], ...]
    cookies: Mapping[str, str]
    body: bytes
    tenant: Tenant
    request_id: str
    came_s: float = field(default_factory=time.perf_counter)


@dataclass(slots=True)
class Reply:
    """What goes out. Exactly one of body and stream is set. headers: without Content-Length."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes | None = None
    stream: AsyncIterator[bytes] | None = None
    source: str = field(default="worker")  # for metrics: session, recent, similar, collapsed, worker, relay


Journey = Callable[
    [Call], AbstractAsyncContextManager[Reply]
]  # leaving it early is leaving the reply; raises ProxyError
