"""What the conformance suite knows: simulated workers, which it speaks to over HTTP, and the URL of a router.

Nothing here knows our own proxy but `OURS`, the command that starts it when no other router is named.
"""

import asyncio
import contextlib
import io
import itertools
import json
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
import orjson

ROOT = Path(__file__).parents[2]
CHAT = "/v1/chat/completions"
Record = Callable[[str, object], None]  # what the fixture `record_property` is
OURS = (
    f"{shlex.quote(sys.executable)} -m proxy serve --port {{port}} --state-dir {{state}} -s embedder=none "
    "-s reader=none -s shadow_share=0 -s probe_s=0.5 -s first_byte_s=8 -s idle_s=8 -s log_level=error "
    "-s 'workers={workers}'"
)
WORKERS = 8
# No answer may come from a cache: these rows are about workers.
PLAIN = {"Cache-Control": "no-store, no-cache"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def commanded(command: str, *, workers: Sequence[str], **values: str) -> list[str]:
    """The words of a router's command, {names} filled in. `{workers}` as a word of its own becomes a word for each;
    else a list with spaces."""
    words: list[str] = []
    for word in shlex.split(command):
        if word == "{workers}":
            words += workers
            continue
        words.append(word.format(workers=" ".join(workers), **values))
    return words


@dataclass(frozen=True, slots=True)
class Told:
    """What the router said. broken: how the connection ended, if not well.  nonce: which request it was."""

    nonce: str
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    broken: str | None
    began_s: float
    ended_s: float

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def done(self) -> bool:
        return b"data: [DONE]" in self.body


@dataclass(slots=True)
class Worker:
    """A simulated one, told what to do over HTTP."""

    url: str
    http: aiohttp.ClientSession

    async def fault(self, mode: str = "none", **settings: Any) -> None:
        async with self.http.post(f"{self.url}/_fault", json={"mode": mode, **settings}) as reply:
            assert reply.status == 200, await reply.text()

    async def calls(self) -> list[dict[str, Any]]:
        async with self.http.get(f"{self.url}/calls") as reply:
            return list(await reply.json())

    async def forget(self) -> None:
        async with self.http.delete(f"{self.url}/calls") as reply:
            assert reply.status == 200

    async def restart(self, down_s: float) -> None:
        async with self.http.post(f"{self.url}/_restart", json={"down_s": down_s}) as reply:
            assert reply.status == 200
        await until(self._is_gone, 5)

    async def _is_gone(self) -> bool:
        return not await self.listens()

    async def listens(self) -> bool:
        try:
            async with self.http.get(f"{self.url}/load") as reply:
                return reply.status == 200
        except aiohttp.ClientError:
            return False


@dataclass(slots=True)
class Site:
    """A router and the workers behind it."""

    url: str
    workers: list[Worker]
    http: aiohttp.ClientSession
    timeout_s: float  # after which the router was told to give up a silent worker; inf = it was not told
    _tokenized: set[str] = field(default_factory=set)  # nonces of our own questions to /tokenize
    _since: str = ""  # nonces are later ones; an earlier one is a straggler: of a test before, or of `heal`

    # -- asking ----------------------------------------------------------------------------------------------------

    async def ask(
        self, question: str | Sequence[Mapping[str, Any]] = "Tell me more.", *, session: str | None = None,
        path: str = CHAT, headers: Mapping[str, str] | None = None, url: str | None = None, plain: bool = True,
        limit_s: float = 60.0, nonce: str | None = None, **fields: Any,
    ) -> Told:  # fmt: skip
        """One request, marked with a nonce, to its end, bitter or not. The router need not be
        sound: a status of 0 means that no answer came."""
        nonce = nonce or new_nonce()
        if path == "/tokenize":
            self._tokenized.add(nonce)
        body = body_of(question, nonce, path, fields)
        named = {"Content-Type": "application/json", **(PLAIN if plain else {}), **(headers or {})}
        if session is not None:
            named["X-Session-ID"] = session
        return await self.send("POST", path, nonce=nonce, data=body, headers=named, url=url, limit_s=limit_s)

    async def send(
        self, method: str, path: str, *, nonce: str = "", url: str | None = None, limit_s: float = 60.0, **options: Any
    ) -> Told:
        if isinstance(options.get("data"), bytes):
            options["data"] = io.BytesIO(options["data"])  # aiohttp warns of large bytes
        began_s, status, heard, broken = time.monotonic(), 0, b"", None
        headers: Mapping[str, str] = {}
        try:
            async with (
                asyncio.timeout(limit_s),
                self.http.request(method, f"{url or self.url}{path}", allow_redirects=False, **options) as reply,
            ):
                status, headers = reply.status, reply.headers
                async for piece in reply.content.iter_any():
                    heard += piece
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            broken = f"{type(error).__name__}: {error}"
        return Told(nonce, status, headers, heard, broken, began_s, time.monotonic())

    @contextlib.asynccontextmanager
    async def held(self, asked: Iterable[Awaitable[Told]]) -> Any:
        """Requests in the air while the block lasts; they are left at its end."""
        tasks = [asyncio.ensure_future(one) for one in asked]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- looking -----------------------------------------------------------------------------------------------------

    async def calls(self) -> list[tuple[int, dict[str, Any]]]:
        """(worker, call) of every question that reached a worker, in no order."""
        told = await asyncio.gather(*(worker.calls() for worker in self.workers))
        return [(place, call) for place, calls in enumerate(told) for call in calls if self._is_question(call)]

    def _is_question(self, call: Mapping[str, Any]) -> bool:
        """Not what a router asks for itself: some have each prompt rendered or counted by a worker first. Nor what was
        asked before `forget`, and left when nobody waited for it any more: it may reach a worker much later."""
        path = str(call["path"]).partition("?")[0]
        if path.endswith("/render") or (nonce_of(call) or self._since) < self._since:
            return False
        return path != "/tokenize" or any(f"#{nonce}" in call["body"] for nonce in self._tokenized)

    async def where(self) -> dict[str, list[int]]:
        """nonce → the workers that saw it, in the order of the calls of each."""
        seen: dict[str, list[int]] = {}
        for place, call in await self.calls():
            if nonce := nonce_of(call):
                seen.setdefault(nonce, []).append(place)
        return seen

    async def counts(self) -> list[int]:
        counted = Counter(place for place, _ in await self.calls())
        return [counted[place] for place in range(len(self.workers))]

    async def reached(self, count: int, limit_s: float = 30.0) -> list[int]:
        """Wait until so many requests have reached workers; how many each got."""

        async def enough() -> bool:
            return sum(await self.counts()) >= count

        with contextlib.suppress(TimeoutError):
            await until(enough, limit_s, every_s=0.3)  # looking costs the workers time
        counts = await self.counts()
        assert sum(counts) >= count, f"{count} requests were sent and {sum(counts)} reached a worker"
        return counts

    # -- faults ------------------------------------------------------------------------------------------------------

    async def fault(self, mode: str = "none", **settings: Any) -> None:
        await asyncio.gather(*(worker.fault(mode, **settings) for worker in self.workers))

    async def forget(self) -> None:
        self._since = new_nonce()
        await asyncio.gather(*(worker.forget() for worker in self.workers))

    async def heal(self, limit_s: float = 90.0) -> None:
        """Every worker well, and the router aware of it: each of many requests in a row is answered."""
        for worker in self.workers:
            await until(worker.listens, 20)
        await self.fault()
        good, deadline_s = 0, time.monotonic() + limit_s
        while good < 2 * len(self.workers):
            told = await self.ask(session=new_nonce(), limit_s=10)
            good = good + 1 if told.status == 200 else 0
            if not good:
                assert time.monotonic() < deadline_s, f"the router does not come back: {told.status} {told.broken}"
                await asyncio.sleep(0.1)

        # The router has noticed that they are back. Some routers use one worker only, so this is not waited for for
        # long. Each question is waited for to its end: one that was left would reach a worker in the middle of a test.
        deadline_s = time.monotonic() + 3
        while min(await self.counts()) == 0 and time.monotonic() < deadline_s:
            await asyncio.gather(*(self.ask(session=new_nonce(), limit_s=10) for _ in range(8)))
        await self.forget()


_order = itertools.count()


def new_nonce() -> str:
    """60 bits, in the order in which they were made: microseconds, and a count."""
    return f"{(time.time_ns() // 1000 << 9) | (next(_order) & 511):016x}"


def nonce_of(call: Mapping[str, Any]) -> str | None:
    """Of a question that reached a worker; None = it bears none."""
    if marked := re.search(r'"seed": ?(\d+)', call["body"]):
        return f"{int(marked[1]):016x}"
    found = re.findall(r"#([0-9a-f]{16})", call["body"])
    return found[-1] if found else None


def body_of(question: str | Sequence[Mapping[str, Any]], nonce: str, path: str, fields: Mapping[str, Any]) -> bytes:
    """A chat is marked by its `seed`, so that its turns stay as they were; a single question in its text."""
    if not isinstance(question, str):
        return orjson.dumps({"model": "demo", "messages": question, "seed": int(nonce, 16), **fields})
    text = f"{question} #{nonce}"
    if path == CHAT:
        return orjson.dumps({"model": "demo", "messages": [{"role": "user", "content": text}], **fields})
    body = {"model": "demo", ("input" if path in ("/v1/embeddings", "/v1/responses") else "prompt"): text}
    return orjson.dumps({**body, **fields})


def chat(*texts: str, system: str | None = None) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    turns = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    return [{"role": "system", "content": system}, *turns] if system is not None else turns


async def until(happened: Callable[[], Awaitable[Any]], limit_s: float = 10.0, every_s: float = 0.02) -> None:
    """Look, again and again, until it is so. Raises TimeoutError."""
    async with asyncio.timeout(limit_s):
        while not await happened():  # noqa: ASYNC110
            await asyncio.sleep(every_s)


# -- processes ---------------------------------------------------------------------------------------------------------


class Process:
    """A child of ours, with its output in a file; `stop` ends it, whatever it says."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.words = list(words)
        self._log = tempfile.NamedTemporaryFile(dir=folder, suffix=".log", delete=False)  # noqa: SIM115
        self._child = subprocess.Popen(
            self.words, cwd=ROOT, stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )

    @property
    def said(self) -> str:
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def stop(self) -> None:
        if self.running:
            self._child.terminate()
            try:
                self._child.wait(3)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._log.close()


def wait_for(ready: Callable[[], Any], process: Process, limit_s: float) -> Any:
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        if found := ready():
            return found
        assert process.running, f"{process.words[0]} ended: {process.said[-2000:]}"
        time.sleep(0.05)
    raise AssertionError(f"not ready after {limit_s} s: {process.words}\n{process.said[-2000:]}")


class Premises:
    """The processes of one run of the suite: workers, and the router, which is started again when a test wore it out.

    url: of a router that stands already; then nothing is started.  command: with {workers}, {port}, {state},
    {metrics_port}."""

    def __init__(
        self, folder: Path, *, url: str | None, worker_urls: Sequence[str], command: str | None, timeout_s: float,
        metrics_url: str | None,
    ) -> None:  # fmt: skip
        self.folder, self.url, self.worker_urls = folder, url, list(worker_urls)
        self.ours = url is None and command is None
        self.command = None if url is not None else command or OURS
        self.timeout_s = 8.0 if self.ours else timeout_s
        self.metrics_url: str | None = None
        self._metrics_url = metrics_url  # may have {port} and {metrics_port} in it
        self._workers: Process | None = None
        self._router: Process | None = None

    def __enter__(self) -> Self:
        if not self.worker_urls:
            words = [sys.executable, "-m", "deploy.simulator", "--workers", str(WORKERS), "--plain"]
            self._workers = process = Process(words, self.folder)
            self.worker_urls = wait_for(lambda: _workers_in(process.said), process, 30)
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self._router, self._workers):
            if process is not None:
                process.stop()

    def router(self) -> str:
        """Its URL; it is started if it does not stand."""
        if self.url is None:
            self._router, self.url = self.started()
        elif self.command is None:
            self.metrics_url = self._metrics_url
        return self.url

    def worn_out(self) -> None:
        """The next test gets a new one, where we may start one. Ours must do without: it recovers, or a test fails."""
        if not self.ours:
            self.anew()

    def anew(self) -> None:
        """The next test gets a router without a past, where we may start one."""
        if self.command is not None and self._router is not None:
            self._router.stop()
            self._router = self.url = None

    def started(self) -> tuple[Process, str]:
        """One more router. Ready when it accepts connections and answers one question."""
        assert self.command is not None
        port = free_port()
        values = {"port": str(port), "metrics_port": str(free_port()), "state": tempfile.mkdtemp(dir=self.folder)}
        process = Process(commanded(self.command, workers=self.worker_urls, **values), self.folder)
        try:
            wait_for(lambda: _connects(port), process, 60)
        except BaseException:
            process.stop()
            raise
        self.metrics_url = self._metrics_url and self._metrics_url.format(**values)
        return process, f"http://127.0.0.1:{port}"


def _workers_in(said: str) -> list[str] | None:
    for line in said.splitlines():
        if line.startswith("{"):
            return list(json.loads(line)["workers"])
    return None


def _connects(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
