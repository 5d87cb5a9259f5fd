"""What every EntryStore promises, run against each of them."""

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
from entries import DIM, EMBEDDER, SCOPE, entry, vector_of

from cache.entry import Answer, Entry
from cache.protocols import EntryStore, Row, Selection
from cache.question import Kind, Reach, Scope
from cache.tags import names_of, of_source, of_tag
from cache.worth import gain_of, size_of

LONG_AGO = -math.inf


async def all_rows(store: EntryStore, after: int = 0, embedder: str = EMBEDDER) -> list[Row]:
    return [row async for batch in store.rows(embedder, after) for row in batch]


async def test_an_entry_comes_back_as_it_was_put(store: EntryStore) -> None:
    kept = replace(
        entry("Wie spät ist es? 現在幾點 \x00 🙂", body=b'{"a": "\\u0000\xf0\x9f\x99\x82"}', created_s=999.123456789),
        kind=Kind.COMPLETION,
        id=2**63 - 1,
    )
    assert await store.put(kept) == ()
    assert await store.get([kept.id]) == [kept]
    assert await store.find(kept.scope, kept.key, None, LONG_AGO) == [kept]
    (row,) = await all_rows(store)
    assert (row.entry_id, row.scope) == (kept.id, kept.scope)
    assert row.vector.dtype == np.float32
    np.testing.assert_allclose(row.vector, vector_of(kept.text or ""), atol=1e-3)


async def test_an_entry_with_nothing_optional_comes_back(store: EntryStore) -> None:
    kept = entry(wording=None, embedder=None, reach=Reach.RECENT)
    kept = replace(kept, text=None, answer=Answer(b"{}", None))
    await store.put(kept)
    assert await store.get([kept.id]) == [kept]
    assert await all_rows(store) == []


async def test_an_answer_of_a_megabyte_comes_back(store: EntryStore) -> None:
    kept = entry(body=b"x" * 2**20)
    await store.put(kept)
    assert await store.find(kept.scope, kept.key, kept.wording, LONG_AGO) == [kept]


async def test_the_same_question_in_the_same_scope_is_replaced(store: EntryStore) -> None:
    old, new = entry("q"), entry("q", body=b'{"new": 1}')
    await store.put(old)
    assert await store.put(new) == (old.id,)
    assert await store.find(SCOPE, new.key, new.wording, LONG_AGO) == [new]
    assert await store.get([old.id]) == []
    assert await store.ids(EMBEDDER) == {new.id}
    assert await store.count() == 1


async def test_an_entry_put_again_under_its_own_id_does_not_end(store: EntryStore) -> None:
    old = entry("q", key="a")
    new = replace(old, key="b", answer=Answer(b'{"new": 1}', 1))
    await store.put(old)
    before = await store.position()
    assert await store.put(new) == ()
    assert await store.find(SCOPE, "a", None, LONG_AGO) == []
    assert await store.find(SCOPE, "b", None, LONG_AGO) == [new]
    assert await store.count() == 1
    assert [row.entry_id for row in await all_rows(store, before)] == [new.id]


async def test_one_prompt_for_two_filter_values_gives_two_entries(store: EntryStore) -> None:
    """D10: the same prompt under another tenant, model or context must not overwrite."""
    scopes = [
        Scope("tenant", "model", "0" * 32), Scope("other", "model", "0" * 32),
        Scope("tenant", "other", "0" * 32), Scope("tenant", "model", "1" * 32),
    ]  # fmt: skip
    kept = [entry("same", scope=scope) for scope in scopes]
    for each in kept:
        assert await store.put(each) == ()
    for each in kept:
        assert await store.find(each.scope, each.key, each.wording, LONG_AGO) == [each]


async def test_find_gives_the_exact_one_then_the_newest_of_the_same_wording(store: EntryStore) -> None:
    exact = entry("exact", key="k", wording="w", created_s=900)
    older = entry("older", wording="w", created_s=950)
    newest = entry("newest", wording="w", created_s=980)
    for each in (newest, exact, older):
        await store.put(each)
    assert await store.find(SCOPE, "k", "w", LONG_AGO) == [exact, newest]
    assert await store.find(SCOPE, "k", None, LONG_AGO) == [exact]
    assert await store.find(SCOPE, "k", "w", 981) == [exact]
    assert await store.find(SCOPE, "other", "w", 980) == [newest]
    assert await store.find(SCOPE, "other", "other", LONG_AGO) == []
    await store.forget(Selection(ids=(newest.id,)))
    assert await store.find(SCOPE, "k", "w", LONG_AGO) == [exact, older]


async def test_the_newest_of_the_wording_is_not_given_twice(store: EntryStore) -> None:
    await store.put(entry("older", wording="w", created_s=900))
    exact = entry("exact", key="k", wording="w", created_s=950)
    await store.put(exact)
    assert await store.find(SCOPE, "k", "w", LONG_AGO) == [exact]


async def test_get_gives_what_exists_in_the_order_asked_for(store: EntryStore) -> None:
    kept = [entry(f"q{n}") for n in range(5)]
    for each in kept:
        await store.put(each)
    asked = [kept[3].id, 987654321, kept[0].id]
    assert await store.get(asked) == [kept[3], kept[0]]
    assert await store.get([]) == []


async def test_what_has_expired_is_never_returned_even_if_nothing_purged_it(store: EntryStore, clock) -> None:
    """G1: an entry past its time was returned when nothing purged it."""
    old, young = entry("old", wording="w", ttl_s=1), entry("young", wording="w", ttl_s=9, created_s=999)
    await store.put(old)
    await store.put(young)
    clock.now_s += 1
    assert await store.find(SCOPE, old.key, None, LONG_AGO) == []
    assert await store.find(SCOPE, old.key, "w", LONG_AGO) == [young]
    assert await store.get([old.id, young.id]) == [young]
    assert await store.ids(EMBEDDER) == {young.id}
    assert [row.entry_id for row in await all_rows(store)] == [young.id]


async def test_a_sweep_gives_back_what_expired(store: EntryStore, clock) -> None:
    """G3: expired entries occupied memory until the store was full."""
    old = [entry(f"q{n}", ttl_s=1) for n in range(700)]
    young = entry("young")
    for each in [*old, young]:
        await store.put(each)
    clock.now_s += 2
    assert await store.count() == 701
    assert sorted(await store.sweep()) == [each.id for each in old]
    assert await store.count() == 1
    assert await store.sweep() == ()
    assert await store.get([young.id]) == [young]


async def test_a_hit_does_not_renew_the_lifetime(store: EntryStore, clock) -> None:
    """G8: each hit renewed the lifetime, so the hottest answer never aged out."""
    kept = entry(ttl_s=10)
    await store.put(kept)
    for _ in range(9):
        clock.now_s += 1
        assert await store.find(SCOPE, kept.key, kept.wording, LONG_AGO) == [kept]
        assert await store.get([kept.id]) == [kept]
    clock.now_s += 1
    assert await store.find(SCOPE, kept.key, kept.wording, LONG_AGO) == []


async def test_an_entry_may_live_for_ever(store: EntryStore, clock) -> None:
    kept = entry("curated", ttl_s=math.inf)
    await store.put(kept)
    clock.now_s += 1e9
    assert await store.sweep() == ()
    assert await store.find(SCOPE, kept.key, kept.wording, LONG_AGO) == [kept]
    assert await store.ids(EMBEDDER) == {kept.id}


async def test_survivors_of_an_eviction_are_found(open_store) -> None:
    """G2: after the first eviction survivors could not be found; when full, everything missed."""
    store = await open_store(capacity=5)
    kept = [entry(f"q{n}", created_s=900 + n) for n in range(20)]
    gone = [ids for each in kept for ids in await store.put(each)]
    assert gone == [each.id for each in kept[:15]]
    assert await store.count() == 5
    for each in kept[15:]:
        assert await store.find(SCOPE, each.key, each.wording, LONG_AGO) == [each]
    assert await store.ids(EMBEDDER) == {each.id for each in kept[15:]}
    assert await store.get([each.id for each in kept]) == kept[15:]


async def test_the_first_put_goes_first_whatever_the_clock_says_and_never_the_one_just_put(open_store) -> None:
    """A clock that is set back must not make every new answer the oldest one."""
    store = await open_store(capacity=2)
    first, second, older = entry("a", created_s=990), entry("b", created_s=980), entry("c", created_s=970)
    await store.put(first)
    await store.put(second)
    assert await store.put(older) == (first.id,)
    assert await store.get([second.id, older.id]) == [second, older]


def used(kept: Entry, times: int = 1) -> tuple[int, float]:
    return kept.id, math.log2(times) + gain_of(kept)


async def test_what_is_asked_again_and_again_outlives_what_was_asked_once(open_store) -> None:
    store = await open_store(capacity=5)
    popular, *others = [entry(f"q{n}") for n in range(5)]
    for each in (popular, *others):
        await store.put(each)
    await store.use([used(popular, 3)], 3)
    gone = [ids for n in range(4) for ids in await store.put(entry(f"later {n}"))]
    assert gone == [each.id for each in others]
    assert await store.get([popular.id]) == [popular]


async def test_what_nobody_holds_can_be_used_without_harm(open_store) -> None:
    store = await open_store(capacity=5)
    await store.use([(4711, 0.0)], 1)
    await store.use([], 0)
    assert await store.count() == 0


async def test_an_answer_that_saves_much_outlives_one_that_saves_little(open_store) -> None:
    store = await open_store(capacity=3)
    long = replace(entry("long"), answer=Answer(b"x" * 400, 2000, 0))
    short = replace(entry("short"), answer=Answer(b"x" * 400, 2, 0))
    for each in (long, short, entry("other")):
        await store.put(each)
    assert await store.put(entry("one more")) == (short.id,)


async def test_a_question_that_comes_back_is_not_a_stranger(open_store) -> None:
    """Thrown out between two waves of questions, it would have to win its place anew every time."""
    store = await open_store(capacity=3)
    regular = entry("regular")
    await store.put(regular)
    await store.use([used(regular, 4)], 4)
    rivals = [entry(f"rival {n}") for n in range(3)]
    for each in rivals:
        await store.put(each)
        await store.use([used(each, 8)], 8)
    assert await store.get([regular.id]) == [], "it was worth less than its rivals"
    await store.forget(Selection(ids=(rivals[0].id, rivals[1].id)))
    again = entry("regular")
    await store.put(again)
    gone = [ids for n in range(3) for ids in await store.put(entry(f"once {n}"))]
    assert again.id not in gone and await store.get([again.id]) == [again]


async def test_a_store_is_bounded_in_bytes_as_well(open_store) -> None:
    big = [entry(f"q{n}", body=b"x" * 10_000) for n in range(6)]
    room = 3 * size_of(big[0]) + 100
    store = await open_store(most_bytes=room)
    gone = [ids for each in big for ids in await store.put(each)]
    assert gone == [each.id for each in big[:3]]
    await store.forget(Selection(ids=(big[3].id,)))
    assert await store.put(entry("q7", body=b"x" * 10_000)) == (), "what was forgotten made room"
    assert await store.put(entry("q8", body=b"x" * 10_000)) == (big[4].id,)


async def test_a_replacement_in_a_full_store_evicts_nobody(open_store) -> None:
    store = await open_store(capacity=2)
    first, second, again = entry("a"), entry("b"), entry("a", created_s=1001)
    await store.put(first)
    await store.put(second)
    assert await store.put(again) == (first.id,)
    assert await store.count() == 2


async def test_what_stands_on_a_document_can_be_counted_and_forgotten_and_nothing_else(store: EntryStore) -> None:
    """Publishing version 8 of the refund policy must end every answer that quoted an earlier one."""
    old = replace(entry("old"), tags=names_of(["faq"], [("refunds", "7"), ("prices", "1")]))
    new = replace(entry("new"), tags=names_of(["faq"], [("refunds", "8")]))
    other = replace(entry("other"), tags=names_of([], [("prices", "1")]))
    for each in (old, new, other):
        await store.put(each)
    earlier = Selection(tag=of_source("refunds"), unless=of_source("refunds", "8"))
    assert await store.matching(earlier) == 1
    assert await store.get([old.id]) == [old], "counting forgets nothing"
    assert await store.forget(earlier) == (old.id,)
    assert await store.matching(earlier) == 0
    assert await store.get([old.id, new.id, other.id]) == [new, other]
    assert await store.forget(Selection(tag=of_tag("faq"), tenant="another")) == ()
    assert await store.forget(Selection(tag=of_source("prices", "1"))) == (other.id,)
    assert await store.forget(Selection(tag=of_tag("faq"))) == (new.id,)


async def test_what_is_out_of_service_is_forgotten_by_its_tag_too(store: EntryStore) -> None:
    kept, bad = (replace(entry(name), tags=names_of([name])) for name in ("kept", "bad"))
    await store.put(kept)
    await store.put(bad)
    await store.quarantine([bad.id, kept.id], "wrong", SCOPE.tenant)
    assert await store.forget(Selection(tag=of_tag("bad"))) == (bad.id,)
    assert [out.entry_id for out in await store.quarantined(10)] == [kept.id]


async def test_an_entry_that_was_replaced_is_not_found_by_its_old_tag(store: EntryStore) -> None:
    await store.put(replace(entry("q"), tags=names_of(["before"])))
    now = replace(entry("q"), tags=names_of(["after"]))
    await store.put(now)
    assert await store.forget(Selection(tag=of_tag("before"))) == ()
    assert await store.get([now.id]) == [now]


async def test_old_answers_can_be_forgotten_by_their_age(store: EntryStore) -> None:
    old, new = entry("old", created_s=900), entry("new", created_s=990)
    await store.put(old)
    await store.put(new)
    assert await store.matching(Selection(before_s=950)) == 1
    assert await store.forget(Selection(before_s=950)) == (old.id,)


@pytest.mark.parametrize(
    ("selection", "gone"),
    [
        (Selection(), "abcdef"),
        (Selection(tenant="t1"), "abcd"),
        (Selection(model="m1"), "abef"),
        (Selection(scope_key="s1"), "ac"),
        (Selection(tenant="t1", model="m1"), "ab"),
        (Selection(tenant="t1", scope_key="s1"), "ac"),
        (Selection(tenant="t2", scope_key="s1"), ""),
        (Selection(expired_by_s=1500.0), "f"),
        (Selection(expired_by_s=math.inf), "abcdef"),
        (Selection(expired_by_s=1500.0, tenant="t1"), ""),
        (Selection(ids=()), ""),
        (Selection(ids=(1, 2, 2, 99)), "ab"),
        (Selection(ids=(1, 5), tenant="t1"), "a"),
        (Selection(tenant="nobody"), ""),
        (Selection(tenant="t"), ""),
    ],
)
async def test_forget_takes_exactly_what_matches(store: EntryStore, selection: Selection, gone: str) -> None:
    places = {
        "a": ("t1", "m1", "s1"), "b": ("t1", "m1", "s2"), "c": ("t1", "m2", "s1"),
        "d": ("t1", "m2", "s2"), "e": ("t2", "m1", "s2"), "f": ("t2", "m1", "s3"),
    }  # fmt: skip
    kept = {
        name: entry(name, id=n, scope=Scope(*place), ttl_s=100 if name == "f" else 1000)
        for n, (name, place) in enumerate(places.items(), start=1)
    }
    for each in kept.values():
        await store.put(each)
    left = [each for name, each in kept.items() if name not in gone]
    assert sorted(await store.forget(selection)) == [kept[name].id for name in gone]
    assert await store.get([each.id for each in kept.values()]) == left
    assert await store.ids(EMBEDDER) == {each.id for each in left}
    assert await store.count() == len(left)
    for name, each in kept.items():
        assert await store.find(each.scope, each.key, each.wording, LONG_AGO) == ([] if name in gone else [each])


async def test_a_flush_leaves_nothing_and_the_next_question_misses(store: EntryStore) -> None:
    """G6: clear returned an error or left the index full."""
    kept = [entry(f"q{n}") for n in range(1200)]
    await asyncio.gather(*(store.put(each) for each in kept))
    assert sorted(await store.forget(Selection())) == [each.id for each in kept]
    assert await store.count() == 0
    assert await store.ids(EMBEDDER) == set()
    assert await store.find(SCOPE, kept[0].key, kept[0].wording, LONG_AGO) == []
    assert await store.forget(Selection()) == ()


async def test_rows_come_in_the_order_of_their_positions(store: EntryStore) -> None:
    kept = [entry(f"q{n}", created_s=1000 - n % 7) for n in range(2500)]
    for each in kept[:2000]:
        await store.put(each)
    position = await store.position()
    for each in kept[2000:]:
        await store.put(each)
    assert [row.entry_id for row in await all_rows(store)] == [each.id for each in kept]
    assert [row.entry_id for row in await all_rows(store, position)] == [each.id for each in kept[2000:]]
    assert await all_rows(store, await store.position()) == []
    assert await store.ids(EMBEDDER) == {each.id for each in kept}


async def test_only_searchable_entries_of_the_embedder_asked_for_are_rows(store: EntryStore) -> None:
    mine, other = entry("mine"), entry("other", embedder="another@16")
    exact_only, near_only = entry("exact only", embedder=None), entry("near only", reach=Reach.RECENT)
    for each in (mine, other, exact_only, near_only):
        await store.put(each)
    assert [row.entry_id for row in await all_rows(store)] == [mine.id]
    assert await store.ids(EMBEDDER) == {mine.id}
    assert await store.ids("another@16") == {other.id}
    assert await store.ids("nobody") == set()
    assert await store.count() == 4


async def test_a_position_is_never_given_twice(store: EntryStore) -> None:
    seen = [await store.position()]
    for n in range(3):
        await store.put(entry(f"q{n}"))
        seen.append(await store.position())
        await store.forget(Selection())
        assert await store.position() == seen[-1]
    assert seen == sorted(set(seen))


async def test_many_puts_at_once_are_all_kept(store: EntryStore) -> None:
    kept = [entry(f"q{n}") for n in range(600)]
    assert await asyncio.gather(*(store.put(each) for each in kept)) == [()] * 600
    assert await store.get([each.id for each in kept]) == kept


async def test_the_same_question_put_by_many_at_once_is_kept_once(store: EntryStore) -> None:
    kept = [entry("q") for _ in range(50)]
    gone = [each for ids in await asyncio.gather(*(store.put(each) for each in kept)) for each in ids]
    assert await store.count() == 1
    (left,) = await store.find(SCOPE, kept[0].key, None, LONG_AGO)
    assert sorted([*gone, left.id]) == [each.id for each in kept]


async def test_every_vector_stands_with_its_own_text(store: EntryStore) -> None:
    kept = {(each := entry(f"q{n}")).id: each for n in range(300)}
    for each in kept.values():
        await store.put(each)
    await store.forget(Selection(ids=tuple(kept)[::3]))
    for row in await all_rows(store):
        assert float(row.vector @ vector_of(kept[row.entry_id].text or "", DIM)) > 0.999
