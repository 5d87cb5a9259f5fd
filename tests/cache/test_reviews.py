"""Quarantine, release and wishes of sessions over the whole cache: what is called wrong comes back by no way.

That it holds whatever else happens is in test_tiered.py; that stores keep their promises in store/test_ledger.py."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from house import until

from cache.asking import Caller, ask
from cache.embedder.hashing import HashingEmbedder
from cache.entry import Answer, Entry, Hit, Miss
from cache.errors import StoreUnavailable
from cache.evidence import Evidence, Label, Source
from cache.index.partitions import PartitionIndex
from cache.policy import Controls, Rules, Verdict, judge
from cache.protocols import Change
from cache.question import Kind, Question, Reach
from cache.store.memory import MemoryStore
from cache.tiered import TieredCache
from cache.tiers.recent import RecentTier
from cache.tiers.session import SessionTier
from cache.tiers.similar import SimilarTier
from cache.worth import Capacity

RESET, HOW_CAN = "How do I reset my password?", "How can I reset my password?"
ANSWER = Answer(b"{}", 1)


class Store(MemoryStore):
    """Can be held up in the middle of a put, and taken away."""

    def __init__(self) -> None:
        super().__init__(Capacity(100), lambda: 1000.0)
        self.putting, self.may_put = asyncio.Event(), asyncio.Event()
        self.may_put.set()
        self.away = False

    async def put(self, entry: Entry) -> tuple[int, ...]:
        self.putting.set()
        await self.may_put.wait()
        return await super().put(entry)

    async def quarantine(self, entry_ids: Sequence[int], reason: str, tenant: str) -> tuple[int, ...]:
        if self.away:
            raise StoreUnavailable("away")
        return await super().quarantine(entry_ids, reason, tenant)

    async def asked_by(self, place: str, principal: str, tenant: str) -> int:
        if self.away:
            raise StoreUnavailable("away")
        return await super().asked_by(place, principal, tenant)


class House:
    def __init__(self, cache: TieredCache, store: Store) -> None:
        self.cache, self.store = cache, store

    def ask(self, text: str = RESET, session: str | None = None) -> tuple[Question, Verdict]:
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        question = ask(Kind.CHAT, body, Caller("shop", session), Controls(), b"s" * 32)
        return question, judge(question, Controls(), Rules())

    async def look(self, text: str = RESET, session: str | None = None) -> Hit | Miss:
        return await self.cache.lookup(*self.ask(text, session))

    async def answer(self, text: str = RESET, session: str | None = None) -> Entry:
        entry = self.cache.keep(*self.ask(text, session), ANSWER)
        assert entry is not None
        await self.cache.store(entry)
        return entry

    async def complain(self, entry_id: int, session: str = "") -> int:
        seen = Evidence(1.0, (), 1.0, "")
        label = Label(False, Source.FEEDBACK, 1000.0, 1.0, "shop", "m", entry_id, seen, "ann")
        return await self.cache.reviews.add(label, session)


@asynccontextmanager
async def house() -> AsyncIterator[House]:
    store, embedder = Store(), HashingEmbedder()

    async def index() -> PartitionIndex:
        index = PartitionIndex(embedder.dim)
        async for rows in store.rows(embedder.name):
            for row in rows:
                index.add(row.scope, row.entry_id, row.vector)
        return index

    def clock() -> float:
        return 1000.0

    similar = SimilarTier(
        store, embedder, open_index=index, empty_index=lambda: PartitionIndex(embedder.dim), deadline_s=5.0
    )
    async with similar:
        recent = RecentTier(store, clock, window_s=500.0, deadline_s=5.0)
        async with TieredCache(store, SessionTier(clock), recent, similar, clock) as cache:
            yield House(cache, store)


async def test_what_is_quarantined_is_served_by_no_tier() -> None:
    async with house() as here:
        entry = await here.answer(session="ann")
        assert isinstance(await here.look(session="ann"), Hit)
        assert await here.cache.reviews.quarantine([entry.id], "wrong", "shop") == (entry.id,)
        for text, session in ((RESET, "ann"), (RESET, None), (f"please, {RESET}", None), (HOW_CAN, None)):
            assert isinstance(await here.look(text, session), Miss)
        here.cache.note(here.ask(RESET, "bob")[0], entry)  # one who still listens to the generation
        assert isinstance(await here.look(session="bob"), Miss)


async def test_what_is_quarantined_while_it_is_stored_does_not_come_after() -> None:
    async with house() as here:
        entry = here.cache.keep(*here.ask(), ANSWER)
        assert entry is not None
        here.store.may_put.clear()
        storing = asyncio.get_running_loop().create_task(here.cache.store(entry))
        await here.store.putting.wait()
        await here.cache.reviews.quarantine([entry.id], "wrong", "shop")
        here.store.may_put.set()
        assert await storing is False
        assert isinstance(await here.look(), Miss)
        assert await here.cache.count() == 0


async def test_what_is_quarantined_before_it_ended_is_not_kept() -> None:
    async with house() as here:
        entry_id = here.cache.new_id()
        await here.cache.reviews.quarantine([entry_id], "wrong", "shop")
        assert here.cache.keep(*here.ask(), ANSWER, entry_id=entry_id) is None
        assert here.cache.keep(*here.ask(), ANSWER) is not None


async def test_a_quarantine_that_the_store_did_not_take_is_an_error_and_still_holds_here() -> None:
    async with house() as here:
        entry = await here.answer()
        here.store.away = True
        with pytest.raises(StoreUnavailable):
            await here.cache.reviews.quarantine([entry.id], "wrong", "shop")
        assert here.cache.at_hand(*here.ask()) is None


async def test_what_is_released_is_found_again_by_every_way() -> None:
    async with house() as here:
        entry = await here.answer()
        await here.cache.reviews.quarantine([entry.id], "wrong", "shop")
        assert await here.cache.reviews.release(entry.id)
        assert not await here.cache.reviews.release(entry.id)
        for text in (RESET, f"please, {RESET}", HOW_CAN):
            found = await here.look(text)
            assert isinstance(found, Hit) and found.entry.id == entry.id


async def test_what_another_replica_heard_holds_here() -> None:
    async with house() as here:
        entry = await here.answer(session="ann")
        question, _ = here.ask(session="ann")
        assert question.session is not None
        assert isinstance(await here.look(HOW_CAN), Hit)
        await here.cache._apply(Change(hidden=((question.session, entry.id),)))
        assert isinstance(await here.look(session="ann"), Miss)
        assert isinstance(await here.look(session="bob"), Hit)
        await here.store.quarantine([entry.id], "wrong", "shop")
        await here.cache._apply(Change(removed=(entry.id,), quarantined=(entry.id,)))
        assert isinstance(await here.look(session="bob"), Miss)
        suspect = here.cache.reviews.served.next_suspect()
        assert suspect is not None and suspect.text == HOW_CAN


async def test_what_a_session_does_not_want_is_refused_with_that_reason() -> None:
    async with house() as here:
        entry = await here.answer()
        question, verdict = here.ask(HOW_CAN, "ann")
        assert question.session is not None
        assert await here.complain(entry.id, question.session) == 1
        found = await here.look(HOW_CAN, "ann")
        assert isinstance(found, Miss) and "this session called it wrong" in found.detail
        explained = await here.cache.explain(question, verdict)
        assert explained.candidates[0].against == (("policy", "this session called it wrong"),)


async def test_an_explanation_names_what_is_out_of_service_and_is_no_delivery() -> None:
    async with house() as here:
        entry = await here.answer()
        await here.cache.explain(*here.ask(HOW_CAN))
        assert here.cache.reviews.served.siblings(entry.id) == ()
        await here.cache.reviews.quarantine([entry.id], "two callers said so", "shop")
        explained = await here.cache.explain(*here.ask())
        assert [each.against for each in explained.candidates] == [(("quarantine", "two callers said so"),)]


async def test_the_listing_leaves_out_what_is_gone() -> None:
    async with house() as here:
        one, two = await here.answer(), await here.answer("How do I pay?")
        for each in (one, two):
            await here.complain(each.id)
        await here.complain(4711)
        await here.cache.reviews.quarantine([two.id], "wrong", "shop")
        listing = await here.cache.reviews.listing(10)
        assert [entry.id for _, entry in listing.complaints] == [one.id]
        assert [each.entry_id for each in listing.quarantined] == [two.id]


async def test_a_label_of_our_own_is_kept_without_waiting() -> None:
    async with house() as here:
        seen = Evidence(0.9, (1.0,), 0.99, "c")
        label = Label(True, Source.SHADOW, 1000.0, 50.0, "shop", "m", 7, seen)
        here.cache.learn(label)
        here.cache.learn(label, kept=True)
        await until(lambda: not any(task.get_name() == "rejoinder-label" for task in asyncio.all_tasks()))
        assert await here.store.labels(0) == [label]


@pytest.mark.parametrize(
    ("session", "principals", "askers", "reach"),
    [
        (None, "a", 1, Reach.SIMILAR), (None, "a", 2, Reach.NOWHERE), ("s", "a", 2, Reach.SESSION),
        ("s", "aaa", 2, Reach.SESSION), ("s", "ab", 2, Reach.SIMILAR), ("s", "aba", 3, Reach.SESSION),
        ("s", "abc", 3, Reach.SIMILAR),
    ],
)  # fmt: skip
async def test_an_answer_travels_once_enough_principals_asked(
    session: str | None, principals: str, askers: int, reach: Reach
) -> None:
    async with house() as here:
        question, verdict = here.ask(session=session)
        told: Any = None
        for principal in principals:
            told = await here.cache.reviews.promoted(question, verdict, principal, askers)
        assert told.write is reach and told.read is verdict.read


async def test_while_nobody_can_count_an_answer_stays_where_it_was_asked() -> None:
    async with house() as here:
        here.store.away = True
        question, verdict = here.ask(session="s")
        assert (await here.cache.reviews.promoted(question, verdict, "a", 2)).write is Reach.SESSION
