"""The cache as its users see it: look up, keep, store, forget, explain.

TieredCache visits the tiers in order and serves the first sure hit. It owns the background work of the cache: the
sweep, the feed from other replicas, the snapshots. A tier that fails is a miss that says so.
"""

import contextlib
import logging
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from cache.assessor import Assessed, Assessor
from cache.chores import Chores, every, follow
from cache.cuts import Cuts
from cache.entry import Answer, Entry, Hit, Miss, Vector
from cache.errors import EmbedderUnavailable, StoreUnavailable, TextTooLong
from cache.evidence import Label
from cache.forgetting import Forgettings
from cache.lab import Lab
from cache.lineage import in_full, kept_as
from cache.owed import OwedVectors
from cache.policy import Verdict, entry_of, unacceptable
from cache.protocols import Change, Clock, Embedder, EntryStore, Row, Selection
from cache.question import Question, Reach
from cache.receipts import Receipts
from cache.reviews import Reviews
from cache.store.record import matches
from cache.tiers.recent import RecentTier
from cache.tiers.session import SessionTier
from cache.tiers.similar import SimilarTier
from cache.traits import language
from cache.trust import Candidate, Explanation, outcome_of, sure
from cache.uses import Uses

log = logging.getLogger(__name__)

_REPAY_S = 0.5  # how often late vectors are tried again, and receipts and uses written
_PATIENCE_S = 5.0  # how long one of them may take


class TieredCache:
    """session → recent → similar. An async context manager that owns the background work, not the parts it was given.

    similar: None where there is no embedder.  sweep_s, snapshot_s: how often, in seconds.  assessor: weighs what is
    near; one without a reader where none is given.  receipts: of the answers that were told.  reviews: what people say
    of answers.  lab: what would be decided for a pair."""

    def __init__(
        self, store: EntryStore, session: SessionTier, recent: RecentTier, similar: SimilarTier | None, clock: Clock, *,
        sweep_s: float = 60.0, snapshot_s: float = 600.0, assessor: Assessor | None = None,
        receipts: Receipts | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._session, self._recent, self._similar = session, recent, similar
        self._clock = clock
        self._assessor = assessor or Assessor(clock)
        self._sweep_s, self._snapshot_s = sweep_s, snapshot_s
        self._storing: dict[int, Entry | None] = {}  # kept, not stored yet; None: forgotten meanwhile
        self._drops = 0  # grows whenever something is dropped
        self._forgettings = Forgettings()
        self._owed = OwedVectors(self._embed_late, self._put_late)
        self._chores = Chores()
        self._uses = Uses(store)
        self.receipts = receipts or Receipts(store, clock)
        self.reviews = Reviews(store, clock, self._assessor, drop=self._drop, restored=self._restored)
        self.cuts = Cuts(clock, self._forgettings)
        self.lab = Lab(similar, self._assessor, clock)

    async def __aenter__(self) -> Self:
        await self.reviews.load()
        self._chores.begin(every(self._sweep_s, self.sweep), "sweep")
        self._chores.begin(follow(self._store, self._apply), "feed")
        self._chores.begin(every(_REPAY_S, self.repay), "vectors")
        self._chores.begin(every(_REPAY_S, self.receipts.flush), "receipts")
        self._chores.begin(every(_REPAY_S, self._uses.flush), "uses")
        if self._similar is not None:
            self._chores.begin(every(self._snapshot_s, self._similar.snapshot), "snapshot")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._chores.end()
        await self.receipts.flush()
        await self._uses.flush()

    # ── read path ────────────────────────────────────────────────────────────────────────────────────────────────

    async def lookup(self, question: Question, verdict: Verdict) -> Hit | Miss:
        """The nearest sure hit, or a miss with its reason. Never raises: a broken tier is a miss."""
        outcome = await self._look(question, verdict)
        if isinstance(outcome, Hit):
            self.receipts.note(question, outcome.entry)
            self._uses.note(outcome.entry)
            self.reviews.served.note(question, outcome, self._clock())
        return outcome

    async def _look(self, question: Question, verdict: Verdict) -> Hit | Miss:
        verdict = self.reviews.mindful(question, verdict)
        if verdict.read is Reach.NOWHERE:
            return Miss(verdict.why.value, verdict.reason)
        if (hit := self._at_hand(question, verdict)) is not None:
            return hit
        try:
            outcome = await self._farther(question, verdict)
        except Exception:  # a bug of ours must not cost the caller his answer: a worker has one
            log.exception("the cache failed at a lookup; the question counts as missed")
            outcome = Miss("broken", "the cache failed, see the log")
        if isinstance(outcome, Miss):
            # While we waited, the generation of an equal question may have landed, and its flight is gone: look again.
            return self._at_hand(question, verdict) or outcome
        return outcome

    def at_hand(self, question: Question, verdict: Verdict) -> Hit | None:
        """A sure hit that is in memory; never waits. The way of most hits, so it is short."""
        if (hit := self._at_hand(question, verdict)) is not None:
            self.receipts.note(question, hit.entry)
            self._uses.note(hit.entry)
        return hit

    def _at_hand(self, question: Question, verdict: Verdict) -> Hit | None:
        if verdict.read is Reach.NOWHERE:
            return None
        if question.session is not None:
            verdict = self.reviews.mindful(question, verdict)
            hit = self._sure(question, verdict, self._session.find(question), self._session.name)
            if hit is not None:
                return hit
        if verdict.read < Reach.RECENT:
            return None
        hit = self._sure(question, verdict, self._recent.hot(question), self._recent.name)
        whole = in_full(question) if hit is None else None
        return hit if whole is None else self._at_hand(whole, verdict)

    async def _farther(self, question: Question, verdict: Verdict) -> Hit | Miss:
        """What the store and the index know."""
        drops, kept = self._drops, verdict.read < Reach.RECENT
        try:
            found = await (self._recent.find_private(question) if kept else self._recent.find(question))
        except StoreUnavailable as trouble:
            return Miss("store-unavailable", str(trouble))
        if kept:
            hit = self._sure(question, verdict, found, self._session.name)
            if hit is not None and drops == self._drops:
                self._session.put(question, hit.entry)
            return hit or Miss("not-in-session", verdict.reason)
        hit = self._sure(question, verdict, found, self._recent.name)
        if hit is not None:
            if drops == self._drops and not self._recent.replaced(hit.entry):  # since it was read
                self._recent.keep_hot(hit.entry)
            return hit
        if verdict.read < Reach.SIMILAR or question.text is None:
            return Miss("not-recent", verdict.reason)
        return await self._by_meaning(question, question.text, verdict)

    def _sure(self, question: Question, verdict: Verdict, found: Iterable[Entry], tier: str) -> Hit | None:
        return sure(found, question, verdict, tier, self._clock)

    async def _by_meaning(self, question: Question, text: str, verdict: Verdict) -> Hit | Miss:
        similar = self._similar
        if similar is None:
            return Miss("no-embedder", "the similar tier is off")
        if (verdict.controls.threshold or 0.0) >= 1.0:
            return Miss("not-recent", "the caller accepts exact answers only")
        if (spoken := language(text)) not in similar.embedder.languages:
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
            weighed = (await self._assessed(similar, question, vector, verdict))[1].weighed
        except StoreUnavailable as trouble:
            return Miss("store-unavailable", str(trouble), vector=vector)
        return outcome_of(weighed, vector, similar.name, self._clock())

    async def _assessed(
        self, similar: SimilarTier, question: Question, vector: Vector, verdict: Verdict
    ) -> tuple[list[tuple[Entry, float]], Assessed]:
        """What is near, and may one of these be served? Whatever was forgotten while the reader read is out again.
        Raises StoreUnavailable."""
        near = await similar.find(question, vector)
        vectors = await similar.vectors([entry.id for entry, _ in near]) if self._assessor.wants_vectors else {}
        assessed = await self._assessor.assess(
            question, near, vector, verdict, cautious=similar.threshold, asked_floor=similar.asked_threshold,
            vectors=vectors,
        )  # fmt: skip
        chosen = assessed.weighed.chosen
        if chosen is not None and not await self._still(question, verdict, chosen):
            assessed = replace(assessed, weighed=replace(assessed.weighed, chosen=None, similarity=None, evidence=None))
        return near, assessed

    async def _still(self, question: Question, verdict: Verdict, chosen: Entry) -> bool:
        """Meanwhile it may have been forgotten, quarantined, called wrong in this session, or have expired."""
        there = await self._store.get([chosen.id])
        verdict = self.reviews.mindful(question, verdict)
        return bool(there) and unacceptable(there[0], question, verdict, self._clock()) is None

    # ── write path ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def forgets(self) -> int:
        """How often something was forgotten on purpose; read it before a worker is asked, and give it to `keep`."""
        return self._forgettings.count

    @staticmethod
    def new_id() -> int:
        """For an entry that will be: 63 random bits, never 0."""
        return secrets.randbits(63) or 1

    def keep(
        self, question: Question, verdict: Verdict, answer: Answer, since: int | None = None,
        entry_id: int | None = None, asker: str = "", nearly: int | None = None,
    ) -> Entry | None:  # fmt: skip
        """Make an entry and hold it in memory at once, so that the very next repetition finds it. None: its reach is
        NOWHERE, or it was asked for before somebody had its like forgotten, or it was called wrong before it ended.
        What reaches beyond the session must then be given to `store`.

        since: `forgets` when the answer was asked for.  entry_id: from `new_id`, where it was told already.
        asker: the principal who caused it.  nearly: `Miss.nearly`."""
        if verdict.write is Reach.NOWHERE or (since is not None and self._forgettings.cover(question, since)):
            return None
        if self.reviews.barred(entry_id := entry_id or self.new_id()):
            return None
        entry = entry_of(kept_as(question, answer), verdict, answer, entry_id, self._clock(), asker)
        self._session.put(question, entry)
        if entry.reach >= Reach.RECENT or verdict.read <= Reach.SESSION:  # what waits for more askers is not stored
            self._storing[entry.id] = entry
        if entry.reach >= Reach.RECENT:
            self._recent.keep_hot(entry)
            self.receipts.note(question, entry, nearly)
        return entry

    def note(self, question: Question, entry: Entry) -> None:
        """A session that shared somebody's generation was told the same answer; unless it was forgotten meanwhile."""
        if entry.id in self._session or entry.id in self._recent:
            self._session.put(question, entry)
            self.receipts.note(question, entry)

    async def store(self, entry: Entry, vector: Vector | None = None) -> bool:
        """Make a kept entry durable and findable by meaning. Returns whether the store acknowledged it.

        vector: the question's, when the lookup already made it."""
        try:
            if entry.reach < Reach.RECENT:
                private = self._session.private(entry) if entry.id in self._storing else None
                return private is not None and await self._put(private, None)
            return await self._put(entry, vector if entry.reach >= Reach.SIMILAR else None)
        except StoreUnavailable as trouble:
            log.warning("an answer was not stored: %s", trouble)
            return False
        finally:
            self._storing.pop(entry.id, None)

    async def _put(self, entry: Entry, vector: Vector | None) -> bool:
        """Raises StoreUnavailable."""
        comparable = self._similar is not None and self._similar.compares(entry)
        if vector is None and comparable and self._similar is not None:
            vector = await self._similar.vector_of(entry)
        if vector is not None and self._similar is not None:
            entry = replace(entry, vector=vector, embedder=self._similar.embedder.name)
        owed = vector is None and comparable
        if self._storing.get(entry.id, entry) is None or self._recent.replaced(entry):
            return False
        dropped = await self._store.put(entry)
        if self._storing.get(entry.id, entry) is None:  # forgotten while it was being written
            await self._store.forget(Selection(ids=(entry.id,)))
            vector = None
        await self._drop(dropped)
        if entry.id in dropped:  # it is out of service: somebody called it wrong before it was here
            return False
        if vector is not None and self._similar is not None:
            await self._similar.add([Row(entry.id, entry.scope, vector)])
        elif owed:
            self._owed.add(entry)
        return self._storing.get(entry.id, entry) is not None

    async def repay(self) -> None:
        """Make the vectors that came too late when their answers were stored."""
        await self._owed.repay()

    async def _embed_late(self, text: str) -> Vector:
        assert self._similar is not None  # who has no embedder owes no vectors
        return await self._similar.embed(text, deadline_s=_PATIENCE_S)

    async def _put_late(self, entry: Entry, vector: Vector) -> None:
        self._storing[entry.id] = entry  # from here on `forget` tells us
        try:
            if await self._store.get([entry.id]):
                await self._put(entry, vector)
        finally:
            self._storing.pop(entry.id, None)

    @property
    def owed(self) -> int:
        """Answers that are stored and still wait for their vector."""
        return len(self._owed)

    async def forget(self, selection: Selection) -> int:
        """Delete from every tier. Returns how many entries. Raises StoreUnavailable: the caller must know."""
        self._forgettings.note(selection)
        held = [entry for entry in self._storing.values() if entry is not None]
        for tier in (self._session, self._recent, self.cuts):
            held += tier.matching(selection.tenant, selection.model)
        here = {entry.id for entry in held if matches(selection, entry)}
        self.reviews.forget(selection)
        await self._drop(here)  # first what is served without asking the store, also while that is away
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

    def learn(self, label: Label, *, kept: bool = False) -> None:
        """Learn from a judgement, and keep it unless it was `kept`. Never waits; a store away costs the label."""
        self._assessor.learn(label)
        if not kept:
            self._chores.begin(self.reviews.keep(label), "label")

    # ── what people ask ──────────────────────────────────────────────────────────────────────────────────────────

    async def explain(self, question: Question, verdict: Verdict) -> Explanation:
        """What `lookup` would say, with every neighbour and every objection. Changes nothing but what was used last."""
        verdict = self.reviews.mindful(question, verdict)
        outcome = await self._look(question, verdict)
        candidates: tuple[Candidate, ...] = ()
        if (similar := self._similar) is not None and question.text is not None and verdict.read is Reach.SIMILAR:
            with contextlib.suppress(StoreUnavailable, EmbedderUnavailable, TextTooLong):
                vector = outcome.vector if outcome.vector is not None else await similar.embed(question.text)
                near, assessed = await self._assessed(similar, question, vector, verdict)
                candidates = self._assessor.explained(question, near, verdict, assessed)
        candidates += await self.reviews.withheld(question)
        return Explanation(question, verdict, outcome, similar.threshold if similar else None, candidates)

    @property
    def clock(self) -> Clock:
        """The time by which entries live."""
        return self._clock

    @property
    def embedder(self) -> Embedder | None:
        """What makes its vectors; None where nothing is compared by meaning."""
        return self._similar.embedder if self._similar is not None else None

    async def count(self, selection: Selection | None = None) -> int:
        """Entries in the store, or those that `forget` would delete. Raises StoreUnavailable."""
        return await (self._store.count() if selection is None else self._store.matching(selection))

    # ── background ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _drop(self, entry_ids: Iterable[int]) -> None:
        """Every tier forgets these; the store already has."""
        if not (gone := list(entry_ids)):
            return
        for entry_id in gone:
            self._owed.drop(entry_id)
            if entry_id in self._storing:  # it is being written, or given its vector, at this moment
                self._storing[entry_id] = None
        self._drops += 1
        self._session.forget(gone)
        self._recent.forget(gone)
        self.cuts.forget(gone)
        self.receipts.forget(gone)
        if self._similar is not None:
            await self._similar.forget(gone)

    async def _restored(self, entry: Entry, ended: Sequence[int]) -> None:
        """An entry is back in the store; what it ended there ends here."""
        await self._drop(ended)
        if self._similar is not None and entry.vector is not None and entry.embedder == self._similar.embedder.name:
            await self._similar.add([Row(entry.id, entry.scope, entry.vector)])

    async def _apply(self, change: Change) -> None:
        if change.reset:
            self._drops += 1
            self._recent.forget_all()
            self._session.forget_shared()
            self.receipts.forget_all()
            await self.reviews.load()
            if self._similar is not None and not await self._similar.reload():
                raise StoreUnavailable("the store went away while its index was read again")
            return
        self.reviews.heard(change.hidden, change.quarantined)
        await self._drop(change.removed)
        if change.added and self._similar is not None:
            await self._similar.add(change.added)
