"""A whole house for one test: simulated workers, the proxy on its production runner, and a client at the door.

    async with open_house(tmp_path, workers=2) as house:
        told = await house.ask("How do I reset my password?")
        assert told.status == 200 and not told.hit and house.calls == 1

Nothing here knows what is right; it only asks, and tells what was seen.
"""

import asyncio
import contextlib
import functools
import io
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cache import Selection, open_cache
from cache.embedder import DEFAULT_FOLDER
from proxy import sse
from proxy.app import Proxy, open_proxy
from proxy.demo import Call, SimulatedWorker
from proxy.settings import load

OpenHouse = Callable[..., contextlib.AbstractAsyncContextManager["House"]]  # what the fixture `house` is

# The shipped model stands beside the code only where it was built.
EMBEDDERS = ("hashing", pytest.param("default", marks=pytest.mark.skipif(
    not (DEFAULT_FOLDER / "model.onnx").is_file(), reason="the shipped embedder is not here")))  # fmt: skip

CHAT = "/v1/chat/completions"


class Clock:
    """A clock that stands still until a test moves it; seconds since the epoch."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass(frozen=True, slots=True)
class Told:
    """What one request was told, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    names: tuple[str, ...] = field(default=())  # header names as they came, duplicates included

    @property
    def cache_status(self) -> str:
        return self.headers.get("Cache-Status", "")

    @property
    def hit(self) -> bool:
        return "; hit" in self.cache_status

    @property
    def collapsed(self) -> bool:
        return "; collapsed" in self.cache_status

    @property
    def worker(self) -> str:
        """Who answered, for those who may know."""
        return self.headers.get("X-Rejoinder-Worker", "").partition(";")[0]

    @property
    def streamed(self) -> bool:
        return self.headers.get("Content-Type", "").startswith("text/event-stream")

    @property
    def events(self) -> list[bytes]:
        return list(sse.events(self.body))

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return [orjson.loads(event) for event in self.events if event != b"[DONE]"]

    @property
    def done(self) -> bool:
        return self.body.endswith(b"data: [DONE]\n\n")

    @property
    def json(self) -> Any:
        """The object; a stream is put together as a client library would do it."""
        return sse.assemble(self.body) if self.streamed else orjson.loads(self.body)

    @property
    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = self.json["choices"][0]["message"]
        return message

    @property
    def text(self) -> str:
        return str(self.message["content"])

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = orjson.loads(self.body)["error"]
        return error


def turns(*texts: str, system: str | None = None) -> list[dict[str, str]]:
    """A chat: user, assistant, user … and perhaps a system text before it."""
    roles = ("user", "assistant")
    chat = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    return [{"role": "system", "content": system}, *chat] if system is not None else chat


def request(question: str | Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
    """The body of a chat request. question: the user's words, or all messages."""
    messages = turns(question) if isinstance(question, str) else list(question)
    return {"model": "demo", "messages": messages, **fields}


@dataclass(slots=True)
class House:
    """workers: the simulated ones.  client: an aiohttp session whose base is the proxy."""

    proxy: Proxy
    workers: list[SimulatedWorker]
    client: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return self.proxy.url

    @property
    def asked(self) -> list[Call]:
        """Every request that any worker saw, probes and our own questions for token ids left out, in no order."""
        return [call for worker in self.workers for call in worker.calls if getattr(call, "path", "") != "/tokenize"]

    @property
    def calls(self) -> int:
        return len(self.asked)

    @property
    def bodies(self) -> list[Any]:
        return [call.json for call in self.asked]

    @property
    def in_flight(self) -> int:
        """Bookings that are out, over all workers."""
        return sum(worker.in_flight + worker.in_flight_before for worker in self.proxy.pool)

    @property
    def at_rest(self) -> bool:
        """Nothing flies and nothing is booked."""
        return len(self.proxy.flights) == 0 and self.in_flight == 0

    async def ask(
        self, question: str | Sequence[Mapping[str, Any]] = "Why is the sky blue?", *, session: str | None = None,
        key: str | None = None, cache_control: str | None = None, headers: Mapping[str, str] | None = None,
        path: str = CHAT, **fields: Any,
    ) -> Told:  # fmt: skip
        """One chat request, told to its end, and the answer stored. key: the API key."""
        told = await self.post(
            path, orjson.dumps(request(question, **fields)), _headers(session, key, cache_control, headers)
        )
        await self.settled()
        return told

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Told:
        return await self.send("POST", path, data=body, headers={"Content-Type": "application/json", **(headers or {})})

    async def send(self, method: str, path: str, **options: Any) -> Told:
        if isinstance(options.get("data"), bytes):
            options["data"] = io.BytesIO(options["data"])  # aiohttp warns of large bytes
        async with self.client.request(method, path, **options) as reply:
            names = tuple(name.decode().lower() for name, _ in reply.raw_headers)
            return Told(reply.status, reply.headers, await reply.read(), names)

    async def explain(
        self, question: str | Sequence[Mapping[str, Any]], *, session: str | None = None, key: str | None = None,
        **fields: Any,
    ) -> Any:  # fmt: skip
        """What the proxy says it would do."""
        body = orjson.dumps(request(question, **fields))
        return (await self.post("/admin/explain", body, _headers(session, key, None, None))).json

    async def settled(self) -> None:
        """Every answer that was kept is stored."""
        await self.proxy.gateway.settled()

    async def forget_all(self) -> int:
        return await self.proxy.cache.forget(Selection())

    async def stored(self) -> int:
        await self.settled()
        return await self.proxy.cache.count()

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over the label values that are not given; 0 where it has none yet."""
        text = (await self.send("GET", "/metrics")).body.decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    async def until(self, happened: Callable[[], Any], timeout_s: float = 5.0) -> None:
        await until(happened, timeout_s)


def _headers(
    session: str | None, key: str | None, cache_control: str | None, more: Mapping[str, str] | None
) -> dict[str, str]:
    named = {
        "X-Session-ID": session, "Cache-Control": cache_control, "Authorization": f"Bearer {key}" if key else None,
    }  # fmt: skip
    return {name: value for name, value in named.items() if value is not None} | dict(more or {})


async def until(happened: Callable[[], Any], timeout_s: float = 5.0) -> None:
    """Look at something observable, again and again, until it is so. Raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def open_house(
    state_dir: Path, workers: int | Sequence[Any] = 1, *, clock: Clock | None = None, embedder: Any = "hashing",
    ready: bool = True, **settings: Any,
) -> AsyncIterator[House]:  # fmt: skip
    """workers: how many simulated ones, or workers of the test's own (anything with `url`), already entered.
    embedder: the name of one, or one of the test's own.  ready: wait until every worker is up."""
    async with contextlib.AsyncExitStack() as stack:
        hired = [SimulatedWorker() for _ in range(workers)] if isinstance(workers, int) else list(workers)
        if isinstance(workers, int):
            for worker in hired:
                await stack.enter_async_context(worker)
        parts = {"clock": clock, "embedder": None if isinstance(embedder, str) else embedder}
        cache_of = functools.partial(open_cache, **{name: part for name, part in parts.items() if part is not None})
        wanted = {
            "port": 0, "workers": tuple(worker.url for worker in hired), "state_dir": state_dir, "probe_s": 0.5,
            "embedder": embedder if isinstance(embedder, str) else "none", "drain_s": 1.0,
            "shadow_share": 0.0, "warm_up": False, **settings,
        }  # fmt: skip
        proxy = await stack.enter_async_context(open_proxy(load(wanted)[0], cache_of=cache_of))
        if ready:
            assert await proxy.health.wait_ready(10, workers=len(hired)), "the workers did not come up"
        client = aiohttp.ClientSession(
            proxy.url, connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )  # fmt: skip
        yield House(proxy, hired, await stack.enter_async_context(client))
