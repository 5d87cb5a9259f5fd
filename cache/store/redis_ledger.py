"""What people say of entries, in Redis: the Ledger of the store that replicas share.

Every change is one script; what is only listed is read in pages, so that the server's one thread stays free.
"""

import hashlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import orjson

from cache.entry import Entry
from cache.evidence import Label
from cache.protocols import (
    ASKED,
    ASKED_S,
    BARRED_S,
    HIDDEN,
    LABELS,
    QUARANTINE,
    RECEIPTS,
    Clock,
    Receipt,
    Selection,
)
from cache.review import Complaint, Quarantined
from cache.store import ledger_scripts as scripts
from cache.store.hashes import read
from cache.store.link import Reply, Word
from cache.store.record import complains, label_from_text, label_to_text, unpack

T = TypeVar("T")
PAGE: Final = 200
IDS_PAGE: Final = 5000
Commands = Sequence[Sequence[Word]]


class RedisLedger:
    """base: before every key.  change: runs a script that changes something.  ask: runs commands that do not, together;
    both raise StoreUnavailable."""

    def __init__(
        self, base: str, clock: Clock, change: Callable[..., Awaitable[Reply]],
        ask: Callable[[Commands], Awaitable[list[Reply]]],
    ) -> None:  # fmt: skip
        self._base = base
        self._clock = clock
        self._change = change
        self._ask = ask

    async def add_label(self, label: Label, session: str, comment: str) -> int:
        said = orjson.dumps([orjson.Fragment(label_to_text(label)), comment])
        (count,) = await self._change(
            scripts.LABEL, label.entry_id, label.principal, "1" if complains(label) else "", label.at_s, said, session,
            label.tenant, LABELS, HIDDEN,
        )  # fmt: skip
        return int(count)

    async def labels(self, since_s: float) -> list[Label]:
        found: list[Label] = []
        async for names in self._listed("labels"):
            said = await self._said(names)
            found += [label for label, _ in said if label.at_s >= since_s]
        return sorted(found, key=lambda label: label.at_s)

    async def hidden(self) -> list[tuple[str, int]]:
        pairs = [_hidden(member) async for members in self._listed("hidden") for member in members]
        return [(session, entry_id) for entry_id, session, _ in pairs]

    async def complaints(self, limit: int) -> list[Complaint]:
        (entries,) = await self._ask([("ZREVRANGE", f"{self._base}:review", 0, limit - 1)])
        found = []
        for page in _pages([int(each) for each in entries], PAGE):
            who = await self._ask([("SMEMBERS", f"{self._base}:bad:{each}") for each in page])
            for entry_id, principals in zip(page, who, strict=True):
                said = await self._said([f"{entry_id}:{principal.decode()}" for principal in principals])
                said.sort(key=lambda pair: pair[0].at_s, reverse=True)
                if said:
                    comments = tuple(comment for _, comment in said if comment)
                    found.append(Complaint(entry_id, len(said), said[0][0].at_s, comments))
        return found

    async def quarantine(self, entry_ids: Sequence[int], reason: str, tenant: str) -> tuple[int, ...]:
        gone: list[int] = []
        for page in _pages(list(dict.fromkeys(entry_ids)), PAGE):
            barred_ms = round(BARRED_S * 1000)
            words: list[Word] = [reason, tenant, self._clock(), barred_ms, QUARANTINE, *page]
            gone += map(int, await self._change(scripts.QUARANTINE, *words))
        return tuple(gone)

    async def quarantined(self, limit: int) -> list[Quarantined]:
        (ids,) = await self._ask([("ZREVRANGE", f"{self._base}:quarantine", 0, limit - 1)])
        now, listed = self._clock(), []
        for page in _pages([int(each) for each in ids], PAGE):
            found = await self._ask([("HMGET", f"{self._base}:q:{each}", "r", "t", "m", "b") for each in page])
            for entry_id, (reason, at_s, meta, body) in zip(page, found, strict=True):
                entry = None if meta is None else read(meta, body)
                if reason is not None and (entry is None or entry.expires_s > now):
                    listed.append(Quarantined(entry_id, reason.decode(), float(at_s), entry))
        return listed

    async def release(self, entry_id: int) -> Entry | None:
        """The entry, vector included, which is still out of service; None where there is nothing to put back."""
        found = await self._change(scripts.RELEASE, entry_id)
        if not found:
            return None
        meta, body, vector = found
        entry = read(meta, body)
        if entry.expires_s <= self._clock():
            return None
        return replace(entry, vector=unpack(vector)) if vector else entry

    async def asked_by(self, place: str, principal: str, tenant: str) -> int:
        now = self._clock()
        name = hashlib.blake2b(f"{tenant}\0{place}".encode(), digest_size=16).hexdigest()
        (count,) = await self._change(
            scripts.ASKED, name, principal, tenant, now, now - ASKED_S, round(ASKED_S * 1000), ASKED
        )
        return int(count)

    async def note_receipts(self, noted: Sequence[Receipt]) -> None:
        now = self._clock()
        for page in _pages(noted, PAGE):
            words: list[Word] = []
            for each in page:
                left_s = each.expires_s - now
                if left_s > 0:
                    words += [each.name, each.entry_id, "" if left_s == math.inf else max(1, round(left_s * 1000))]
            if words:
                await self._change(scripts.NOTE, RECEIPTS, *words)

    async def forget(self, want: dict[str, Any], selection: Selection, gone: Sequence[int]) -> tuple[int, ...]:
        """What is out of service and matches, and what was said of entries that are gone. Returns the former.

        want: of an entry beside its id.  gone: entries that matched."""
        ids = selection.ids
        dropped: list[int] = []
        out = [int(each) async for page in self._listed("quarantine") for each in page] if ids is None else ids
        for some_ids in _pages(out, PAGE):
            dropped += map(int, await self._change(scripts.ERASE, orjson.dumps(want), *some_ids))
        if "expired_by" in want:
            return tuple(dropped)
        ended = {*gone, *dropped, *(ids if ids is not None and not want else ())}
        wide = selection.whole
        names = [name.decode() async for page in self._listed("labels") for name in page]
        await self._lose({}, [name for name in names if int(name.partition(":")[0]) in ended])
        if wide:
            await self._lose(want, names)
        hidden = [member async for page in self._listed("hidden") for member in page]
        for page in _pages([each for each in hidden if _goes(each, want, ended, wide=wide)], PAGE):
            await self._ask([("ZREM", f"{self._base}:hidden", *page)])
        if wide and "model" not in want:
            places = [each.decode() async for page in self._listed("places") for each in page]
            for some in _pages([each for each in places if want.get("tenant", each[33:]) == each[33:]], PAGE):
                await self._ask([("DEL", *(f"{self._base}:p:{each[:32]}" for each in some)),
                                 ("ZREM", f"{self._base}:places", *some)])  # fmt: skip
        return tuple(dropped)

    async def _lose(self, want: dict[str, Any], names: Sequence[str]) -> None:
        for page in _pages(names, PAGE):
            await self._change(scripts.LOSE, orjson.dumps(want), *page)

    async def _said(self, names: Sequence[Word]) -> list[tuple[Label, str]]:
        if not names:
            return []
        (found,) = await self._ask([("HMGET", f"{self._base}:label", *names)])
        pairs = (orjson.loads(each) for each in found if each is not None)
        return [(label_from_text(orjson.dumps(label)), comment) for label, comment in pairs]

    async def _listed(self, name: str) -> AsyncIterator[Sequence[bytes]]:
        """The members of a list of ours, in pages, in the order in which they were written."""
        members: list[bytes] = []
        start = 0
        while True:
            (page,) = await self._ask([("ZRANGE", f"{self._base}:{name}", start, start + IDS_PAGE - 1)])
            members += page
            start += IDS_PAGE
            if len(page) < IDS_PAGE:
                break
        for some in _pages(members, PAGE * 5):
            yield some


def _hidden(member: bytes) -> tuple[int, str, str]:
    entry, session, tenant = member.decode().split(":", 2)
    return int(entry), session, tenant


def _goes(member: bytes, want: dict[str, Any], ended: set[int], *, wide: bool) -> bool:
    entry_id, _, tenant = _hidden(member)
    return entry_id in ended or (wide and "model" not in want and want.get("tenant", tenant) == tenant)


def _pages(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
