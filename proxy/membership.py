"""Keeping the pool what settings, DNS, a file and the operator say it should be. It waits; `roster` decides.

    async with Membership(pool, settings.workers, file=…, refresh_s=5) as membership: …

The file is read again every `refresh_s`, whole and by its content: a ConfigMap changes behind a symbolic link, and a
time stamp may stand still. A change counts once two reads agree, so that a half-written file does not. What cannot be
read keeps the last good list and is told once.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from proxy.errors import BadRequest, Conflict, NotFound
from proxy.routing.roster import (
    Addresses,
    Deed,
    Listed,
    Roster,
    Source,
    listed,
    listed_in,
    orphaned,
    resolved,
    split_dns,
)  # fmt: skip
from proxy.routing.workers import Worker, WorkerPool

log = logging.getLogger(__name__)

RESOLVE_S: Final = 5.0  # how long a name server may take
AGREE_S: Final = 0.1  # between two reads of a file that changed
MOST_BYTES: Final = 1 << 20  # of the file

Resolve = Callable[[str, int], Awaitable[list[tuple[int, str]]]]


class Membership:
    """Async context manager; constructing it does no I/O. Entering reads every source once, and waits for name servers
    at most 5 s: a source that is away is tried again later.

    workers: URLs and `dns://host:port`.  file: None = none.  refresh_s: between two looks at DNS and file.
    drain_s: how long the sessions of a worker that an operator or the file takes away may take to leave it.
    alone: no other process shares the port; only then can the operator's orders reach all who choose.
    resolve: host, port → (IP version, address) pairs; raises OSError."""

    def __init__(
        self, pool: WorkerPool, workers: Sequence[str] = (), *, file: Path | None = None, refresh_s: float = 5.0,
        drain_s: float = 0.0, alone: bool = True, resolve: Resolve | None = None,
    ) -> None:  # fmt: skip
        plain, self._names = split_dns(workers)
        self._pool = pool
        self._file = file
        self._refresh_s = refresh_s
        self._drain_s = drain_s
        self._alone = alone
        self._resolve = resolve or _addresses
        self._roster = Roster()
        self._roster.say(Source.SETTINGS, [listed(url) for url in plain])
        self._by_name = {name: Addresses() for name in self._names}
        self._text: str | None = None  # of the file, as it was taken or refused last
        self._troubles: dict[str, str] = {}
        self._moving = False
        self._task: asyncio.Task[None] | None = None
        self._stop_listening: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        self._apply()
        await asyncio.gather(self._look_up(), self._read())
        self._apply()
        self._stop_listening = self._pool.on_change(self._apply)
        self._task = asyncio.create_task(self._follow(), name="membership")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # -- orders of the operator --------------------------------------------------------------------------------------

    def add(self, url: object, name: object = None) -> Worker:
        """A worker that is here already is returned, undrained if it was leaving. Raises BadRequest, Conflict."""
        self._must_be_alone()
        try:
            wanted = listed(url, name)
            known = self._pool.at(wanted.url)
            if known is not None and wanted.name not in (None, known.identity):
                raise Conflict(f"{known.url} is here already, as {known.name!r}. Remove it first to rename it.")
            worker = self._pool.add(Worker(wanted.url, wanted.name))
        except ValueError as wrong:
            raise BadRequest(str(wrong)) from None
        self._roster.add(wanted)
        self._apply()
        return worker

    def drain(self, name: str) -> Worker:
        """Nothing new goes there; it stays listed until it is undrained or removed. Raises NotFound, Conflict."""
        self._must_be_alone()
        worker = self.find(name)
        self._roster.hold(worker.url)
        self._pool.drain(worker, self._drain_s)
        return worker

    def undrain(self, name: str) -> Worker:
        """Back into service as soon as a probe succeeds. Raises NotFound, Conflict."""
        self._must_be_alone()
        worker = self.find(name)
        if not self._roster.sources(worker.url):
            self._roster.add(Listed(worker.url, None if worker.identity == worker.url else worker.identity))
        self._roster.hold(worker.url)
        self._pool.undrain(worker)
        return worker

    def remove(self, name: str, *, force: bool = False) -> Worker:
        """Forget it now; answers that run there end as ever. A list that names it does not bring it back before it
        has left that list once. Raises NotFound; Conflict when a model would be lost, unless `force`."""
        self._must_be_alone()
        worker = self.find(name)
        lost = orphaned(self._pool, worker)
        if lost and not force:
            models = ", ".join(f"`{model}`" for model in lost if model) or "anything"
            raise Conflict(
                f"{worker.name} is the last worker that is up and serves {models}. Add another one first, or say "
                "?force=true to have such requests fail."
            )
        self._roster.dismiss(worker.url)
        self._pool.remove(worker)
        return worker

    def find(self, name: str) -> Worker:
        """By name, or url in any spelling. Raises NotFound."""
        worker = self._pool.find(name)
        if worker is None:
            known = ", ".join(each.name for each in self._pool) or "none"
            raise NotFound(f"There is no worker {name[:100]!r} here. Known: {known}.")
        return worker

    def sources(self, worker: Worker) -> list[str]:
        """Who names it; empty = nobody, it is leaving."""
        return [source.value for source in self._roster.sources(worker.url)]

    def _must_be_alone(self) -> None:
        if not self._alone:
            raise Conflict(
                "Several processes share this port, and this order would reach one of them. Name the workers in "
                "workers_file: all processes read it again when it changes, and drain who is not in it any more."
            )

    # -- what the sources say ----------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_s)
            try:
                await asyncio.gather(self._look_up(), self._read())
                self._apply()
            except Exception:  # a fault of ours must not freeze the membership for good
                log.exception("refreshing the list of workers")

    def _apply(self) -> None:
        """Also after each change of the pool: a drained worker may be idle now."""
        if self._moving:
            return
        self._moving = True
        try:
            steps = self._roster.steps(self._pool)
            renamed = [step.listed for step in steps if step.deed is Deed.RENAME]
            for step in steps:
                if step.deed is not Deed.RENAME:
                    self._take(step.deed, step.listed, gently=step.gently)
                elif step.listed is renamed[0]:  # all at once, as they may swap
                    self._rename(renamed)
        finally:
            self._moving = False

    def _rename(self, wanted: Sequence[Listed]) -> None:
        names = {worker: each.name for each in wanted if (worker := self._pool.at(each.url)) is not None}
        before = {worker: worker.name for worker in names}
        try:
            self._pool.rename(names)
        except ValueError as wrong:
            self._trouble("the names of workers", str(wrong))
            return
        self._trouble("the names of workers", None)
        log.info("renamed: %s", ", ".join(f"{old} is {worker.name}" for worker, old in before.items()))

    def _take(self, deed: Deed, wanted: Listed, *, gently: bool) -> None:
        worker = self._pool.at(wanted.url)
        if deed is Deed.ADD:
            try:
                self._pool.add(Worker(wanted.url, wanted.name))
            except ValueError as wrong:  # its name is another one's
                self._trouble(f"worker {wanted.url}", str(wrong))
                return
            self._trouble(f"worker {wanted.url}", None)
        elif worker is None:
            return
        elif deed is Deed.UNDRAIN:
            self._pool.undrain(worker)
        elif deed is Deed.DRAIN:
            self._pool.drain(worker, self._drain_s if gently else 0.0)
        else:
            self._pool.remove(worker)
        log.info("%s: %s", deed.value, wanted.name or wanted.url)

    async def _look_up(self) -> None:
        if not self._names:
            return
        await asyncio.gather(*(self._look_up_one(host, port) for host, port in self._names))
        self._roster.say(Source.DNS, [each for found in self._by_name.values() for each in found.known])

    async def _look_up_one(self, host: str, port: int) -> None:
        what = f"the name {host}"
        try:
            async with asyncio.timeout(RESOLVE_S):
                found = resolved(await self._resolve(host, port), port)
        except TimeoutError:
            self._trouble(what, f"no name server answered within {RESOLVE_S:g} s")
        except (OSError, ValueError) as wrong:
            self._trouble(what, str(wrong))
        else:
            if not found:
                self._trouble(what, "it has no address")
                return
            self._by_name[host, port].answered(found)
            self._trouble(what, None)

    async def _read(self) -> None:
        if self._file is None:
            return
        what = f"the file {self._file}"
        try:
            text = await asyncio.to_thread(_text_of, self._file)
            if text == self._text:
                return
            if self._text is not None:
                await asyncio.sleep(AGREE_S)
                if await asyncio.to_thread(_text_of, self._file) != text:
                    return  # somebody is writing: the next look will tell
            self._text = text
            self._roster.say(Source.FILE, listed_in(text, self._file.name))
        except (OSError, ValueError) as wrong:  # bad UTF-8, JSON and TOML are ValueErrors, too
            self._trouble(what, getattr(wrong, "strerror", None) or str(wrong))
        else:
            self._trouble(what, None)

    def _trouble(self, what: str, words: str | None) -> None:
        """Told when it changes, not at every look."""
        before = self._troubles.pop(what, None)
        if words is not None:
            self._troubles[what] = words
            if words != before:
                log.warning("%s: %s; the workers that it named last stay", what, words)
        elif before is not None:
            log.info("%s is well again", what)

    @property
    def troubles(self) -> dict[str, str]:
        """Source → what is wrong with it now."""
        return dict(self._troubles)


async def _addresses(host: str, port: int) -> list[tuple[int, str]]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(6 if family == socket.AF_INET6 else 4, str(address[0])) for family, _, _, _, address in found]


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES} bytes")
    return data.decode("utf-8")
