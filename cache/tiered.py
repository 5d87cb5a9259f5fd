"""The cache as its users see it: look up, keep, store, forget, explain.

TieredCache visits the tiers in order, nearest first, and serves the first sure hit. It owns the background work of the
cache: the sweep, the feed from other replicas, the snapshots. A tier that fails is a miss that says so.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from cache.entry import Answer, Entry, Hit, Likeness, Miss, Vector
from cache.errors import EmbedderUnavailable, StoreUnavailable, TextTooLong
from cache.policy import Verdict, unacceptable
from cache.protocols import Change, Clock, EntryStore, Row, Selection
from cache.question import Question, Reach
from cache.tiers.recent import RecentTier
from cache.tiers.session import SessionTier
from cache.tiers.similar import SimilarTier
from cache.traits import language
from cache.trust import Candidate, Explanation, examine, likeness_of, weigh

log = logging.getLogger(__name__)

_REPAY_S = 0.5  # how often late vectors are tried again
_PATIENCE_S = 5.0  # how long one of them may take
_MOST_OWED = 10_000  # entries; beyond it an answer stays without a vector


class TieredCache:
    """session → recent → similar. An async context manager that owns the background work; it closes no part that it was
    given.

    similar: None where there is no embedder.  sweep_s, snapshot_s: how often, in seconds."""

    def __init__(
        self, store: EntryStore, session: SessionTier, recent: RecentTier, similar: SimilarTier | None, clock: Clock, *,
        sweep_s: float = 60.0, snapshot_s: float = 600.0,
    ) -> None:  # fmt: skip
        self._store = store
        self._session = session
        self._recent = recent
        self._similar = similar
        self._clock = clock
        self._sweep_s = sweep_s
        self._snapshot_s = snapshot_s
        self._storing: dict[int, Entry | None] = {}  # kept, not stored yet; None: forgotten meanwhile
        self._drops = 0  # grows whenever something is dropped
        self._forgets = 0
        self._forgotten_of_late: deque[Selection] = deque(maxlen=256)
        self._owed: dict[int, Entry] = {}  # stored without a vector, because the embedder was late
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._own(self._every(self._sweep_s, self.sweep), "sweep")
        self._own(self._follow(), "feed")
        self._own(self._every(_REPAY_S, self.repay), "vectors")
        if self._similar is not None:
            self._own(self._every(self._snapshot_s, self._similar.snapshot), "snapshot")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ── read path ────────────────────────────────────────────────────────────────────────────────────────────────

    async def lookup(self, question: Question, verdict: Verdict) -> Hit | Miss:
        """The nearest sure hit, or a miss with its reason. Never raises: a broken tier is a miss."""
        if verdict.read is Reach.NOWHERE:
            return Miss(verdict.why.value, verdict.reason)
        hit = self.at_hand(question, verdict)
        if hit is not None:
            return hit
        if verdict.read < Reach.RECENT:
            return Miss("not-in-session", verdict.reason)
        try:
            outcome = await self._farther(question, verdict)
        except Exception:  # a bug of ours must not cost the caller his answer: a worker has one
            log.exception("the cache failed at a lookup; the question counts as missed")
            outcome = Miss("broken", "the cache failed, see the log")
        if isinstance(outcome, Miss):
            # While we waited, the generation of an equal question may have landed: its flight is gone, and without a
            # second look at what is in memory a worker would be asked the same again.
            return self.at_hand(question, verdict) or outcome
        return outcome

    def at_hand(self, question: Question, verdict: Verdict) -> Hit | None:
        """A sure hit that is in memory; never waits. The way of most hits, so it is short."""
        if verdict.read is Reach.NOWHERE:
            return None
        if question.session is not None:
            hit = self._sure(question, verdict, self._session.find(question), self._session.name)
            if hit is not None:
                return hit
        if verdict.read < Reach.RECENT:
            return None
        return self._sure(question, verdict, self._recent.hot(question), self._recent.name)

    async def _farther(self, question: Question, verdict: Verdict) -> Hit | Miss:
        """What the store and the index know."""
        drops = self._drops
        try:
            found = await self._recent.find(question)
        except StoreUnavailable as trouble:
            return Miss("store-unavailable", str(trouble))
        hit = self._sure(question, verdict, found, self._recent.name)
        if hit is not None:
            if drops == self._drops and not self._recent.replaced(hit.entry):  # since it was read
                self._recent.keep_hot(hit.entry)
            return hit
        if verdict.read < Reach.SIMILAR or question.text is None:
            return Miss("not-recent", verdict.reason)
        return await self._by_meaning(question, question.text, verdict)

    def _sure(self, question: Question, verdict: Verdict, found: Iterable[Entry], tier: str) -> Hit | None:
        """The first entry that equals the question in bytes or in words, and may be served."""
        for entry in found:
            now_s = self._clock()
            likeness = likeness_of(entry, question)
            threshold = verdict.controls.threshold
            if likeness is None or (likeness is not Likeness.EXACT and threshold is not None and threshold >= 1.0):
                continue
            if unacceptable(entry, question, verdict, now_s) is None:
                return Hit(entry, tier, likeness, max(0.0, now_s - entry.created_s))
        return None

    async def _by_meaning(self, question: Question, text: str, verdict: Verdict) -> Hit | Miss:
        similar = self._similar
        if similar is None:
            return Miss("no-embedder", "the similar tier is off")
        if verdict.controls.threshold is not None and verdict.controls.threshold >= 1.0:
            return Miss("not-recent", "the caller accepts exact answers only")
        spoken = language(text)
        if spoken not in similar.embedder.languages:
            return Miss("language", f"the embedder and the guards do not read this language ({spoken})")
        if not await similar.holds(question.scope):
            return Miss("empty-scope", "nothing in this scope can be compared by meaning yet")
        try:
            vector = await similar.embed(text)
        except TextTooLong as long:
            return Miss("too-long", str(long))
        except EmbedderUnavailable as trouble:
            return Miss("embedder-unavailable", str(trouble))
        try:
            candidates = await similar.find(question, vector)
        except StoreUnavailable as trouble:
            return Miss("store-unavailable", str(trouble), vector=vector)
        now_s = self._clock()
        weighed = weigh(question, candidates, similar.threshold, verdict, now_s)
        if weighed.chosen is not None:
            age_s = max(0.0, now_s - weighed.chosen.created_s)
            return Hit(
                weighed.chosen, similar.name, Likeness.MEANING, age_s, weighed.similarity, weighed.refused, vector
            )
        if weighed.refused:
            first = weighed.refused[0]
            reason = "nothing-near" if first.by == "threshold" else "refused"
            return Miss(reason, f"{first.by}: {first.reason}", weighed.refused, vector)
        return Miss("nothing-near", "no neighbour in this scope", vector=vector)

    # ── write path ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def forgets(self) -> int:
        """How often something was forgotten on purpose; read it before a worker is asked, and give it to `keep`."""
        return self._forgets

    def keep(self, question: Question, verdict: Verdict, answer: Answer, since: int | None = None) -> Entry | None:
        """Make an entry and hold it in memory at once, so that the very next repetition finds it. None: its reach is
        NOWHERE, or it was asked for before somebody had its like forgotten. What reaches beyond the session must then
        be given to `store`.  since: `forgets` when the answer was asked for."""
        if verdict.write is Reach.NOWHERE or (since is not None and self._forgotten(question, since)):
            return None
        now_s = self._clock()
        entry = Entry(
            id=secrets.randbits(63), kind=question.kind, scope=question.scope, text=question.text, key=question.key,
            proof=question.proof, wording=question.wording, reach=verdict.write, answer=answer, created_s=now_s,
            expires_s=now_s + verdict.ttl_s,
        )  # fmt: skip
        self._session.put(question, entry)
        if entry.reach >= Reach.RECENT:
            self._recent.keep_hot(entry)
            self._storing[entry.id] = entry
        return entry

    def _forgotten(self, question: Question, since: int) -> bool:
        missed = self._forgets - since
        if missed > len(self._forgotten_of_late):
            return True  # more than we remember
        scope = question.scope
        return any(
            selection.tenant in (None, scope.tenant)
            and selection.model in (None, scope.model)
            and selection.scope_key in (None, scope.key)
            for selection in list(self._forgotten_of_late)[-missed:]
            if missed and selection.ids is None and selection.expired_by_s is None
        )

    def note(self, question: Question, entry: Entry) -> None:
        """A session that shared somebody's generation was told the same answer; unless it was forgotten meanwhile."""
        if entry.id in self._session or entry.id in self._recent:
            self._session.put(question, entry)

    async def store(self, entry: Entry, vector: Vector | None = None) -> bool:
        """Make a kept entry durable and findable by meaning. Returns whether the store acknowledged it.

        vector: the question's, when the lookup already made it."""
        if entry.reach < Reach.RECENT:
            return False
        try:
            return await self._put(entry, vector if entry.reach >= Reach.SIMILAR else None)
        except StoreUnavailable as trouble:
            log.warning("an answer was not stored: %s", trouble)
            return False
        finally:
            self._storing.pop(entry.id, None)

    async def _put(self, entry: Entry, vector: Vector | None) -> bool:
        """Raises StoreUnavailable."""
        comparable = self._comparable(entry)
        if vector is None and comparable:
            vector = await self._vector(entry)
        if vector is not None and self._similar is not None:
            entry = replace(entry, vector=vector, embedder=self._similar.embedder.name)
        owed = vector is None and comparable
        if self._storing.get(entry.id, entry) is None or self._recent.replaced(entry):
            return False
        dropped = await self._store.put(entry)
        if self._storing.get(entry.id, entry) is None:  # forgotten while it was being written
            await self._store.forget(Selection(ids=(entry.id,)))
            vector = None
        await self._drop([entry_id for entry_id in dropped if entry_id != entry.id])
        if vector is not None and self._similar is not None:
            await self._similar.add([Row(entry.id, entry.scope, vector)])
        elif owed and len(self._owed) < _MOST_OWED:
            self._owed[entry.id] = entry
        return self._storing.get(entry.id, entry) is not None

    async def _vector(self, entry: Entry) -> Vector | None:
        """None: it has none, or not in time; it is found by its bytes and its words all the same."""
        if self._similar is None or entry.text is None:
            return None
        with contextlib.suppress(TextTooLong, EmbedderUnavailable):
            return await self._similar.embed(entry.text)
        return None

    def _comparable(self, entry: Entry) -> bool:
        """Whether a vector would be of use."""
        if self._similar is None or entry.text is None or entry.reach < Reach.SIMILAR:
            return False
        return language(entry.text) in self._similar.embedder.languages

    async def repay(self) -> None:
        """Make the vectors that came too late when their answers were stored. Patiently: no user waits for them."""
        while self._owed and self._similar is not None:
            entry_id, entry = next(iter(self._owed.items()))
            try:
                vector = await self._similar.embed(entry.text or "", deadline_s=_PATIENCE_S)
            except TextTooLong:
                self._owed.pop(entry_id, None)
                continue
            except EmbedderUnavailable:
                if self._owed.pop(entry_id, None) is not None:
                    self._owed[entry_id] = entry  # to the end, so that one bad text does not hold up the others
                return
            self._storing[entry_id] = entry  # from here on `forget` tells us
            try:
                if await self._store.get([entry_id]):
                    await self._put(entry, vector)
            except StoreUnavailable:
                return
            finally:
                self._storing.pop(entry_id, None)
            self._owed.pop(entry_id, None)

    @property
    def owed(self) -> int:
        """Answers that are stored and still wait for their vector."""
        return len(self._owed)

    async def forget(self, selection: Selection) -> int:
        """Delete from every tier. Returns how many entries. Raises StoreUnavailable: the caller must know."""
        self._forgets += 1
        self._forgotten_of_late.append(selection)
        pending = [entry for entry in self._storing.values() if entry is not None and _matches(selection, entry)]
        here = {entry.id for entry in pending}
        for tier in (self._session, self._recent):
            held = tier.matching(selection.tenant, selection.model)
            here |= {entry.id for entry in held if _matches(selection, entry)}
        # First what is in memory: it is served without asking the store, also while that is away.
        await self._drop(here)
        gone = {*await self._store.forget(selection), *here}
        await self._drop(gone)
        return len(gone)

    async def sweep(self) -> None:
        """Drop what has expired, from every tier."""
        self._session.sweep()
        try:
            await self._drop(await self._store.sweep())
        except StoreUnavailable as trouble:
            log.warning("the sweep was put off: %s", trouble)

    # ── what people ask ──────────────────────────────────────────────────────────────────────────────────────────

    async def explain(self, question: Question, verdict: Verdict) -> Explanation:
        """What `lookup` would say, with every neighbour and every objection. Changes nothing but what was used last."""
        outcome = await self.lookup(question, verdict)
        candidates: tuple[Candidate, ...] = ()
        similar = self._similar
        if similar is not None and question.text is not None and verdict.read is Reach.SIMILAR:
            with contextlib.suppress(StoreUnavailable, EmbedderUnavailable, TextTooLong):
                vector = outcome.vector if outcome.vector is not None else await similar.embed(question.text)
                near = await similar.find(question, vector)
                candidates = tuple(
                    examine(question, verdict, entry, cosine, similar.threshold, self._clock())
                    for entry, cosine in near
                )
        return Explanation(question, verdict, outcome, similar.threshold if similar else None, candidates)

    async def count(self) -> int:
        """Entries in the store. Raises StoreUnavailable."""
        return await self._store.count()

    # ── background ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _drop(self, entry_ids: Iterable[int]) -> None:
        """Every tier forgets these; the store already has."""
        gone = list(entry_ids)
        if not gone:
            return
        for entry_id in gone:
            self._owed.pop(entry_id, None)
            if entry_id in self._storing:  # it is being written, or given its vector, at this moment
                self._storing[entry_id] = None
        self._drops += 1
        self._session.forget(gone)
        self._recent.forget(gone)
        if self._similar is not None:
            await self._similar.forget(gone)

    async def _follow(self) -> None:
        """Apply what other replicas did, for as long as the store tells."""
        behind = False
        while True:
            try:
                if behind:  # what happened while the feed was broken is unknown
                    await self._apply(Change(reset=True))
                    behind = False
                async for change in self._store.changes():
                    await self._apply(change)
                return  # a store of our own has no feed
            except StoreUnavailable as trouble:
                log.info("the feed broke off: %s", trouble)
                behind = True
                await asyncio.sleep(0.5)

    async def _apply(self, change: Change) -> None:
        if change.reset:
            self._drops += 1
            self._recent.forget_all()
            self._session.forget_shared()
            if self._similar is not None and not await self._similar.reload():
                raise StoreUnavailable("the store went away while its index was read again")
            return
        await self._drop(change.removed)
        if change.added and self._similar is not None:
            await self._similar.add(change.added)

    async def _every(self, period_s: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(period_s)
            try:
                await work()
            except Exception:
                log.exception("background work failed; it is tried again in %g s", period_s)

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work, name=f"rejoinder-{name}"))


def _matches(selection: Selection, entry: Entry) -> bool:
    return (
        (selection.ids is None or entry.id in selection.ids)
        and selection.tenant in (None, entry.scope.tenant)
        and selection.model in (None, entry.scope.model)
        and selection.scope_key in (None, entry.scope.key)
        and (selection.expired_by_s is None or entry.expires_s <= selection.expired_by_s)
    )
