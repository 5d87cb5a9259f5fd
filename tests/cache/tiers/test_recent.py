"""The recent tier: the hot shelf and the store behind it, the window, and a store that is away."""

import asyncio
from collections.abc import Sequence

import pytest

from cache.entry import Answer, Entry
from cache.errors import StoreUnavailable
from cache.question import Kind, Question, Reach, Scope
from cache.store.memory import MemoryStore
from cache.tiers.recent import RecentTier
from cache.worth import Capacity

SCOPE = Scope("shop", "m", "s")


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def question(key: str = "k", wording: str | None = "w", scope: Scope = SCOPE) -> Question:
    return Question(
        kind=Kind.CHAT,
        scope=scope,
        text="q",
        key=key,
        proof="p",
        wording=wording,
        traits=frozenset(),
        limit=None,
        session=None,
    )


def entry(
    id: int = 1, key: str = "k", wording: str | None = "w", *, created_s: float = 1000.0, scope: Scope = SCOPE
) -> Entry:
    return Entry(
        id=id, kind=Kind.CHAT, scope=scope, text="q", key=key, proof="p", wording=wording, reach=Reach.SIMILAR,
        answer=Answer(b"{}", 1), created_s=created_s, expires_s=created_s + 10_000,
    )  # fmt: skip


def tier_of(
    clock: Clock, window_s: float = 100.0, store: MemoryStore | None = None, deadline_s: float = 5.0
) -> RecentTier:
    return RecentTier(store or MemoryStore(Capacity(100), clock), clock, window_s=window_s, deadline_s=deadline_s)


def ids(found: Sequence[Entry] | object) -> list[int]:
    return [each.id for each in found]  # type: ignore[attr-defined]


def test_what_is_hot_is_found_without_waiting(clock: Clock) -> None:
    tier = tier_of(clock)
    tier.keep_hot(entry())
    assert set(ids(tier.hot(question()))) == {1}
    assert ids(tier.hot(question(key="other"))) == [1]
    assert ids(tier.hot(question(key="other", wording=None))) == []
    assert ids(tier.hot(question(scope=Scope("bank", "m", "t")))) == []


def test_the_surest_comes_first(clock: Clock) -> None:
    tier = tier_of(clock)
    tier.keep_hot(entry(1, "a"))
    tier.keep_hot(entry(2, "b"))
    assert ids(tier.hot(question("a"))) == [1, 2]


def test_words_count_inside_the_window_only_and_bytes_as_long_as_the_entry_lives(clock: Clock) -> None:
    tier = tier_of(clock, window_s=100)
    tier.keep_hot(entry(created_s=1000))
    clock.now_s = 1100
    assert ids(tier.hot(question(key="other"))) == [1]
    clock.now_s = 1100.1
    assert ids(tier.hot(question(key="other"))) == []
    assert ids(tier.hot(question())) == [1]


async def test_the_store_is_asked_with_the_same_window(clock: Clock) -> None:
    store = MemoryStore(Capacity(100), clock)
    tier = tier_of(clock, 100, store)
    await store.put(entry(created_s=1000))
    clock.now_s = 1100
    assert ids(await tier.find(question(key="other"))) == [1]
    clock.now_s = 1100.1
    assert ids(await tier.find(question(key="other"))) == []
    assert ids(await tier.find(question())) == [1]


class Hanging(MemoryStore):
    async def find(self, scope: Scope, key: str, wording: str | None, since_s: float) -> list[Entry]:
        await asyncio.Event().wait()
        raise AssertionError


class Away(MemoryStore):
    async def find(self, scope: Scope, key: str, wording: str | None, since_s: float) -> list[Entry]:
        raise StoreUnavailable("gone")


async def test_a_store_that_takes_too_long_is_unavailable(clock: Clock) -> None:
    with pytest.raises(StoreUnavailable, match="no answer from the store within 10 ms"):
        await tier_of(clock, store=Hanging(Capacity(1), clock), deadline_s=0.01).find(question())


async def test_a_store_that_is_gone_says_so_itself(clock: Clock) -> None:
    with pytest.raises(StoreUnavailable, match="gone"):
        await tier_of(clock, store=Away(Capacity(1), clock)).find(question())


def test_forgetting_reaches_what_is_hot(clock: Clock) -> None:
    tier = tier_of(clock)
    tier.keep_hot(entry(1, "a", "va"))
    tier.keep_hot(entry(2, "b", "vb"))
    assert tier.forget([1, 9]) == 1
    assert [1 in tier, 2 in tier] == [False, True]
    assert ids(tier.hot(question("a", "va"))) == []
    tier.forget_all()
    assert ids(tier.matching(None, None)) == []


def test_a_purge_finds_what_it_must_reach(clock: Clock) -> None:
    tier = tier_of(clock)
    tier.keep_hot(entry(1))
    tier.keep_hot(entry(2, scope=Scope("bank", "n", "s2")))
    assert ids(tier.matching("shop", None)) == [1]
    assert ids(tier.matching(None, "n")) == [2]
    assert ids(tier.matching("bank", "m")) == []
