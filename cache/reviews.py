"""What people say of answers, and what follows: labels, quarantine, release, and what a session no longer wants.

Reviews does what it is told; who may have it done is known elsewhere. Everything is durable in the store, and what has
to be known at every lookup (which session does not want which entry) stands in memory as well.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from cache.assessor import Assessor
from cache.entry import Entry
from cache.errors import StoreUnavailable
from cache.evidence import Label
from cache.policy import Verdict, held_back
from cache.protocols import Clock, EntryStore, Selection
from cache.question import Question, Reach
from cache.review import Listing
from cache.served import ServedLog
from cache.trust import Candidate, likeness_of

log = logging.getLogger(__name__)

_SESSIONS = 20_000  # that called something wrong; the first of them are forgotten
_COUNTING_S = 0.1  # how long it may take to count who asked; a user waits for it
_BARRED = 4096  # ids quarantined of late: an answer on its way must not be kept under one of them


class Reviews:
    """assessor: is taught by what the store remembers.  drop: makes every tier forget these ids.  restored: tells every
    tier of an entry that is back, and of the ids that stopped existing because of it."""

    def __init__(
        self, store: EntryStore, clock: Clock, assessor: Assessor, *, drop: Callable[[Iterable[int]], Awaitable[None]],
        restored: Callable[[Entry, Sequence[int]], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._store = store
        self._clock = clock
        self._assessor = assessor
        self._drop = drop
        self._restored = restored
        self._unwanted: OrderedDict[str, frozenset[int]] = OrderedDict()  # session → entries
        self._barred: OrderedDict[int, None] = OrderedDict()
        self.served = ServedLog()

    async def load(self) -> None:
        """Read what the store knows of sessions, and all labels. A store that is away is read when it is back."""
        try:
            self.heard(await self._store.hidden(), ())
            self._assessor.begin(await self._store.labels(0.0))
        except StoreUnavailable as trouble:
            log.warning("what people said of answers is not known until the store is back: %s", trouble)

    def heard(self, hidden: Iterable[tuple[str, int]], quarantined: Sequence[int]) -> None:
        """Another replica did this. hidden: (session, entry id)."""
        for session, entry_id in hidden:
            self._hide(session, entry_id)
        self._suspect(quarantined)

    def mindful(self, question: Question, verdict: Verdict) -> Verdict:
        """The verdict, with what this session does not want; the same one for nearly everybody."""
        unwanted = self._unwanted.get(question.session or "")
        return verdict if unwanted is None else replace(verdict, hidden=unwanted)

    def barred(self, entry_id: int) -> bool:
        """Whether this id was quarantined of late, perhaps before its answer had ended."""
        return entry_id in self._barred

    async def promoted(self, question: Question, verdict: Verdict, principal: str, askers: int) -> Verdict:
        """How far an answer may travel that is shared only once `askers` distinct principals asked for it; this one is
        counted. A store that is late or away leaves it with the one who asks."""
        if askers <= 1 or verdict.write <= Reach.SESSION:
            return verdict
        place = f"{question.scope.key}:{question.wording or question.key}"
        try:
            async with asyncio.timeout(_COUNTING_S):
                asked = await self._store.asked_by(place, principal, question.scope.tenant)
        except (StoreUnavailable, TimeoutError):
            asked = 0
        return held_back(question, verdict, asked, askers)

    # ── what people do ───────────────────────────────────────────────────────────────────────────────────────────

    async def add(self, label: Label, session: str = "", comment: str = "") -> int:
        """Keep a judgement; with a session, that session is not served this entry any more. Returns how many distinct
        principals now call the entry wrong. Raises StoreUnavailable."""
        if session:
            self._hide(session, label.entry_id)
        return await self._store.add_label(label, session, comment)

    async def keep(self, label: Label) -> None:
        """The same for a judgement of our own, which nobody waits for."""
        try:
            await self._store.add_label(label)
        except StoreUnavailable as trouble:
            log.warning("a label was not kept: %s", trouble)

    async def quarantine(self, entry_ids: Sequence[int], reason: str, tenant: str) -> tuple[int, ...]:
        """Serve these to nobody any more, in any tier of any replica, whether they are stored already or not.

        tenant: whose they are.  Returns those that were stored. Raises StoreUnavailable: the caller must know."""
        for entry_id in entry_ids:
            self._barred[entry_id] = None
        while len(self._barred) > _BARRED:
            self._barred.popitem(last=False)
        # First what is in memory: it is served without asking the store, also while that is away.
        await self._drop(entry_ids)
        held = await self._store.quarantine(entry_ids, reason, tenant)
        await self._drop(entry_ids)  # what was read from the store before it knew
        suspects = self._suspect(entry_ids)
        for entry_id in entry_ids:
            log.info("entry %016x is quarantined: %s; %d questions wait for a second look", entry_id, reason, suspects)
        return held

    async def entry(self, entry_id: int) -> Entry | None:
        """The entry, while it is served. Raises StoreUnavailable."""
        found = await self._store.get([entry_id])
        return found[0] if found else None

    async def release(self, entry_id: int) -> bool:
        """Serve it again: a person found it right. Returns whether it was quarantined. Raises StoreUnavailable."""
        back = await self._store.release(entry_id)
        if back is None:
            return False
        self._barred.pop(entry_id, None)
        await self._restored(*back)
        log.info("entry %016x is released", entry_id)
        return True

    async def listing(self, limit: int) -> Listing:
        """The review queue, latest first, at most `limit` of each kind. Raises StoreUnavailable."""
        quarantined = await self._store.quarantined(limit)
        complaints = await self._store.complaints(limit)
        entries = {entry.id: entry for entry in await self._store.get([each.entry_id for each in complaints])}
        known = tuple((each, entries[each.entry_id]) for each in complaints if each.entry_id in entries)
        return Listing(tuple(quarantined), known)

    async def withheld(self, question: Question) -> tuple[Candidate, ...]:
        """Answers to this very question, by its bytes or its words, that are out of service. For explanations."""
        try:
            listed = await self._store.quarantined(1000)
        except StoreUnavailable:
            return ()
        now_s = self._clock()
        return tuple(
            Candidate(out.entry.text or "", 1.0, max(0.0, now_s - out.entry.created_s), (("quarantine", out.reason),))
            for out in listed
            if out.entry is not None and out.entry.scope == question.scope and likeness_of(out.entry, question)
        )

    def forget(self, selection: Selection) -> None:
        """Erase from memory what the store erases by itself."""
        if selection.ids is not None:
            self.served.forget_entries(selection.ids)
        elif selection.whole:
            self.served.forget(selection.tenant, selection.model)
            self._assessor.forget(selection.tenant, selection.model)

    def _hide(self, session: str, entry_id: int) -> None:
        self._unwanted[session] = self._unwanted.get(session, frozenset()) | {entry_id}
        while len(self._unwanted) > _SESSIONS:
            self._unwanted.popitem(last=False)

    def _suspect(self, entry_ids: Sequence[int]) -> int:
        return sum(map(self.served.suspect, entry_ids))
