"""What was served is told to the store, so that it stays."""

from dataclasses import replace

from entries import entry

from cache.errors import StoreUnavailable
from cache.question import Reach
from cache.store.memory import MemoryStore
from cache.uses import Uses
from cache.worth import Capacity


class Away(MemoryStore):
    async def use(self, uses: object, number: int) -> None:
        raise StoreUnavailable("gone")


async def test_what_was_served_stays_when_the_cache_is_full() -> None:
    store = MemoryStore(Capacity(2), lambda: 1000.0)
    asked, other = entry("asked"), entry("other")
    await store.put(asked)
    await store.put(other)
    uses = Uses(store)
    uses.note(asked)
    uses.note(asked)
    await uses.flush()
    assert await store.put(entry("new")) == (other.id,)


async def test_what_belongs_to_one_session_is_none_of_the_stores_business() -> None:
    store = MemoryStore(Capacity(2), lambda: 1000.0)
    uses = Uses(store)
    uses.note(replace(entry(), reach=Reach.SESSION))
    await uses.flush()
    first = entry("first")
    await store.put(first)
    await store.put(entry("second"))
    assert await store.put(entry("third")) == (first.id,)


async def test_a_store_that_is_away_costs_the_count_and_nothing_else() -> None:
    uses = Uses(Away(Capacity(2), lambda: 1000.0))
    uses.note(entry())
    await uses.flush()
    await uses.flush()
