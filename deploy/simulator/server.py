"""Simulated vLLM workers in one process: the engine in real time behind OpenAI's endpoints, with faults at will.

Beside what `proxy.demo` offers on each port: `GET /kv_event_sources`, and `POST /_restart {"down_s": 1.0}`, which
resets every connection, listens to nobody for so long, and comes back on the same port with an empty prefix cache.
"""

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import orjson
from aiohttp import web

from deploy.simulator.facts import Shape
from deploy.simulator.kv_events import Publisher
from deploy.simulator.paced import EngineClock
from proxy.demo import SimulatedWorker
from proxy.simulated_doors import json_answer, read_object

MOST_WORKERS = 50
_BEFORE_IT_GOES_S = 0.02  # for the answer to /_restart to go out


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to simulate. ports: one per worker; 0 = any free one.  shape: None = no queue and no clock: answers at once.
    kv_events: "ipc" (sockets in `folder`), "tcp" (free ports of the loopback address) or "off"."""

    ports: Sequence[int] = (0,)
    models: Sequence[str] = ("demo",)
    shape: Shape | None = dataclasses.field(default_factory=Shape)
    kv_events: str = "ipc"
    folder: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.ports) <= MOST_WORKERS:
            raise ValueError(f"1 to {MOST_WORKERS} workers, not {len(self.ports)}")
        if self.kv_events == "ipc" and self.shape is not None and self.folder is None:
            raise ValueError("ipc needs a folder")


class Fleet:
    """workers: as they were planned.  Enter it with `opened`."""

    def __init__(self, plan: Plan) -> None:
        self.publishers: list[Publisher | None] = []
        self.workers: list[SimulatedWorker] = []
        self._errands: set[asyncio.Task[None]] = set()
        for place, port in enumerate(plan.ports):
            self.workers.append(self._worker(plan, place, port))

    @property
    def urls(self) -> list[str]:
        return [worker.url for worker in self.workers]

    def _worker(self, plan: Plan, place: int, port: int) -> SimulatedWorker:
        publisher = _publisher(plan, place)
        self.publishers.append(publisher)
        clock = None if plan.shape is None else EngineClock(plan.shape, publisher)

        async def sources(_: web.Request) -> web.Response:
            if publisher is None:
                return json_answer({"detail": "Not Found"}, status=404)
            return json_answer({"0": publisher.as_json()})

        async def restart(request: web.Request) -> web.Response:
            body = await request.read()
            down_s = float(read_object(body).get("down_s", 0.0)) if body else 0.0
            errand = asyncio.get_running_loop().create_task(_restart(worker, down_s))
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)
            return json_answer({"down_s": down_s})

        doors = (web.get("/kv_event_sources", sources), web.post("/_restart", restart))
        worker = SimulatedWorker(models=plan.models, port=port, clockwork=clock, doors=doors)
        return worker

    async def leave(self) -> None:
        errands = list(self._errands)
        for errand in errands:
            errand.cancel()
        await asyncio.gather(*errands, return_exceptions=True)
        for worker in self.workers:
            await worker.kill()


async def _restart(worker: SimulatedWorker, down_s: float) -> None:
    await asyncio.sleep(_BEFORE_IT_GOES_S)
    await worker.kill()
    await asyncio.sleep(down_s)
    await worker.start()


def _publisher(plan: Plan, place: int) -> Publisher | None:
    if plan.shape is None or plan.kv_events == "off":
        return None
    if plan.kv_events == "ipc" and plan.folder is not None:
        path = plan.folder / f"worker-{place}"
        endpoints = (f"ipc://{path}.events", f"ipc://{path}.replay")
    else:
        endpoints = (f"tcp://*:{_free_port()}", f"tcp://*:{_free_port()}")
    return Publisher(*endpoints, topic=f"kv@simulated-{place}", block_tokens=plan.shape.block_tokens)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def opened(plan: Plan) -> AsyncIterator[Fleet]:
    fleet = Fleet(plan)
    try:
        for worker in fleet.workers:
            await worker.start()
        yield fleet
    finally:
        await fleet.leave()


def ready_line(fleet: Fleet) -> str:
    """What `python -m deploy.simulator` prints when everybody listens."""
    return orjson.dumps({"workers": fleet.urls}).decode()
