"""Which workers there should be, by what several sources say: settings, DNS, a file, the admin API. Pure.

A worker stays as long as one source names it, so DNS or a file never takes away what an operator gave. One that nobody
names any more is drained first and removed when nothing of ours runs there. A source that cannot be read, or that
names nobody, is not believed: its last list stands (an empty file is a mistake more often than a wish).

    roster.say(Source.FILE, listed_in(text, "workers.toml"))
    for step in roster.steps(pool): …       # what to do to the pool, in this order
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from proxy.routing.workers import State, Worker, WorkerPool, canonical_url

MOST_WORKERS: Final = 4096  # in one list; more is not a list of workers
DNS: Final = "dns://"
_DNS_NAME: Final = re.compile(r"dns://([A-Za-z0-9._-]+):(\d{1,5})/?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class Source(StrEnum):
    SETTINGS = "settings"
    ADMIN = "admin"
    FILE = "file"
    DNS = "dns"


@dataclass(frozen=True, slots=True)
class Listed:
    """One worker that a source names. url: canonical.  name: its identity for session hashing, which then survives a
    change of address; None = the url."""

    url: str
    name: str | None = None


class Deed(StrEnum):
    ADD = "add"
    RENAME = "rename"
    UNDRAIN = "undrain"
    DRAIN = "drain"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do to one worker. gently: its sessions may leave one by one; False: its address is about to vanish."""

    deed: Deed
    listed: Listed
    gently: bool = False


class Roster:
    """What every source says now, and which workers are leaving because none names them."""

    def __init__(self) -> None:
        self._lists: dict[Source, dict[str, Listed]] = {source: {} for source in Source}
        self._leaving: set[str] = set()  # drained by us: who comes back into a list is undrained
        self._dismissed: set[str] = set()  # removed by an operator: stays away until its source forgot it once
        self._last: dict[str, Source] = {}  # who named a worker last

    def say(self, source: Source, listed: Iterable[Listed]) -> None:
        """The whole list of one source. Raises ValueError when two workers would share a url or a name."""
        fresh: dict[str, Listed] = {}
        names: set[str] = set()
        for each in listed:
            if each.name is not None and each.name in names and fresh.get(each.url) != each:
                raise ValueError(f"two workers with the name {each.name!r}")
            if each.name is not None:
                names.add(each.name)
            fresh.setdefault(each.url, each)
        self._lists[source] = fresh
        self._last |= dict.fromkeys(fresh, source)
        self._dismissed &= self._named()

    def add(self, listed: Listed) -> None:
        """An operator wants this one; without a name, by the one that he gave it before."""
        if listed.name is None:
            listed = self._lists[Source.ADMIN].get(listed.url, listed)
        self._lists[Source.ADMIN][listed.url] = listed
        self._last[listed.url] = Source.ADMIN
        self._dismissed.discard(listed.url)

    def dismiss(self, url: str) -> None:
        """An operator removed this one: a list that still names it does not bring it back."""
        self._lists[Source.ADMIN].pop(url, None)
        self._leaving.discard(url)
        self._last.pop(url, None)
        if url in self._named():
            self._dismissed.add(url)

    def hold(self, url: str) -> None:
        """An operator drained, or undrained, this one himself: from now on that is his business and not ours."""
        self._leaving.discard(url)

    def sources(self, url: str) -> tuple[Source, ...]:
        """Who names it; empty = nobody, it is leaving."""
        return tuple(source for source in Source if url in self._lists[source])

    def leaving(self, url: str) -> bool:
        return url in self._leaving

    def steps(self, pool: WorkerPool) -> list[Step]:
        """What makes the pool what the sources say, joiners first, so that nobody drains while nobody else is there.
        All `RENAME` are one deed (`WorkerPool.rename`), as workers may swap names. Take them all, then ask again:
        removals come when drained workers are idle."""
        wanted = self._wanted()
        names = {each.name or url for url, each in wanted.items()}
        renaming: list[Step] = []
        joining: list[Step] = []
        going: list[Step] = []
        for url, each in wanted.items():
            worker = pool.at(url)
            if worker is None:
                joining.append(Step(Deed.ADD, each))
                continue
            if worker.identity != (each.name or url):
                renaming.append(Step(Deed.RENAME, each))
            if url in self._leaving:
                joining.append(Step(Deed.UNDRAIN, each))
        # Who has a name that now belongs to another address goes at once, before that one takes it.
        moved = [self._removal(each.url) for each in pool if each.url not in wanted and each.identity in names]
        gone = {step.listed.url for step in moved}
        self._leaving -= wanted.keys()
        for worker in pool:
            if worker.url in wanted or worker.url in gone or worker.url not in self._last:
                continue
            if worker.url not in self._leaving:
                self._leaving.add(worker.url)
                if worker.state is not State.DRAINING:
                    gently = self._last[worker.url] is not Source.DNS
                    going.append(Step(Deed.DRAIN, Listed(worker.url), gently))
                    continue
            if pool.drained(worker):
                going.append(self._removal(worker.url))
        return moved + renaming + joining + going

    def _removal(self, url: str) -> Step:
        self._leaving.discard(url)
        self._last.pop(url, None)
        return Step(Deed.REMOVE, Listed(url))

    def _named(self) -> set[str]:
        return {url for lists in self._lists.values() for url in lists}

    def _wanted(self) -> dict[str, Listed]:
        """Of several spellings of one worker that with a name, as it says more."""
        wanted: dict[str, Listed] = {}
        for lists in self._lists.values():
            for url, listed in lists.items():
                if url not in self._dismissed and (url not in wanted or wanted[url].name is None):
                    wanted[url] = listed
        return wanted


def orphaned(pool: WorkerPool, worker: Worker) -> tuple[str, ...]:
    """The models that nobody else who is up serves: what would be lost with this worker. ("",) when it is the last one
    and nobody knows its models."""
    others = [each for each in pool if each is not worker and each.state is State.UP]
    lost = tuple(sorted(model for model in worker.models if not any(each.serves(model) for each in others)))
    return lost if worker.models or others else ("",)


# -- reading lists ---------------------------------------------------------------------------------------------------


def listed(url: object, name: object = None) -> Listed:
    """Raises ValueError in words for people."""
    if not isinstance(url, str) or not url.strip():
        raise ValueError("a worker is a URL such as http://10.0.0.5:8000")
    if name is not None and (not isinstance(name, str) or not _NAME.fullmatch(name)):
        raise ValueError(f"the name {name!r}: 1 to 64 letters, digits, dots, colons, dashes or underscores")
    return Listed(canonical_url(url), name)


def listed_in(text: str, file_name: str) -> tuple[Listed, ...]:
    """Workers from a file: JSON or TOML by its suffix, else one URL a line, `#` begins a comment.

    JSON: `["http://a:8000", {"url": "http://b:8000", "name": "b"}]`, or that under the key `workers`. TOML: the same
    under `workers`. Lines: `http://a:8000 a-name`, the name may be left out. Raises ValueError, also for none."""
    if file_name.endswith(".toml"):
        found: Any = tomllib.loads(text)
    elif file_name.endswith(".json") or text.lstrip()[:1] in ("[", "{"):
        found = orjson.loads(text)
    else:
        lines = [line.partition("#")[0].split() for line in text.splitlines()]
        if any(len(words) > 2 for words in lines):
            raise ValueError("a line is a URL, and perhaps a name")
        found = [dict(zip(("url", "name"), words, strict=False)) for words in lines if words]
    if isinstance(found, Mapping):
        found = found.get("workers")
    if not isinstance(found, list):
        raise ValueError("there is no list of workers")
    if not found or len(found) > MOST_WORKERS:
        raise ValueError("it names no worker" if not found else f"it names more than {MOST_WORKERS} workers")
    return tuple(_entry(each) for each in found)


def _entry(each: object) -> Listed:
    if isinstance(each, Mapping):
        if unknown := set(each) - {"url", "name"}:
            raise ValueError(f"a worker has a url and perhaps a name, not {', '.join(sorted(map(str, unknown)))}")
        return listed(each.get("url"), each.get("name"))
    return listed(each)


class Addresses:
    """What one DNS name stands for. Who comes is here at once; who is missing from one answer stays until the next one
    lacks it, too: servers give a part of a long list, or an old one, and a worker that is dead is found out anyhow."""

    def __init__(self) -> None:
        self.known: tuple[Listed, ...] = ()
        self._missing: frozenset[str] = frozenset()

    def answered(self, found: Sequence[Listed]) -> None:
        """One answer that names somebody. A look-up that failed says nothing of anybody, and is not told here."""
        lacking = {each.url for each in self.known} - {each.url for each in found}
        staying = lacking - self._missing
        self.known = (*found, *(each for each in self.known if each.url in staying))
        self._missing = frozenset(staying)


def split_dns(workers: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """The setting `workers`: plain URLs, and (host, port) of every `dns://host:port`. Raises ValueError."""
    plain = tuple(url for url in workers if not url.startswith(DNS))
    return plain, tuple(dns_name(url) for url in workers if url.startswith(DNS))


def dns_name(url: str) -> tuple[str, int]:
    """(host, port) of `dns://host:port`. Raises ValueError."""
    found = _DNS_NAME.fullmatch(url)
    if found is None or not 0 < int(found[2]) < 65536:
        raise ValueError(f"{url!r}: write dns://HOST:PORT; every address of HOST is then a worker on that port")
    return found[1].lower(), int(found[2])


def resolved(addresses: Iterable[tuple[int, str]], port: int) -> tuple[Listed, ...]:
    """Workers at the addresses of one DNS name. addresses: (IP version, text).

    Of a name with both versions only IPv4 counts: a machine with two addresses is one worker."""
    pairs = sorted(set(addresses))
    version = pairs[0][0] if pairs else 4
    hosts = [f"[{text}]" if kind == 6 else text for kind, text in pairs if kind == version]
    return tuple(Listed(canonical_url(f"http://{host}:{port}")) for host in hosts)
