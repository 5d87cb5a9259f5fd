"""What people say of entries: what every EntryStore promises of it, run against each of them."""

import asyncio
import contextlib
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entries import EMBEDDER, SCOPE, entry, vector_of

from cache.entry import Entry
from cache.evidence import Evidence, Label, Source
from cache.protocols import EntryStore, Receipt, Selection
from cache.question import Reach, Scope
from cache.store.sqlite import SqliteStore
from cache.tags import names_of, of_tag
from cache.worth import Capacity

SEEN = Evidence(0.9371264, (0.1, -2.5, 3.0e-7, 1.0), 0.973, "calibration-1")
LONG_AGO = -math.inf
STORES = ("notes", "ledger", "redis_ledger")


def label(
    entry_id: int = 1, principal: str = "anna", *, right: bool = False, source: Source = Source.FEEDBACK,
    at_s: float = 1000.0, tenant: str = SCOPE.tenant, model: str = SCOPE.model,
) -> Label:  # fmt: skip
    return Label(right, source, at_s, 1.0, tenant, model, entry_id, SEEN, principal)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stores that keep five of everything."""
    for module in STORES:
        for name in ("LABELS", "HIDDEN", "QUARANTINE", "ASKED", "RECEIPTS"):
            monkeypatch.setattr(f"cache.store.{module}.{name}", 5)
    yield


async def served(store: EntryStore, kept: Entry) -> bool:
    """Whether anything at all leads to this entry."""
    found = await store.find(kept.scope, kept.key, kept.wording, LONG_AGO)
    rows = [row.entry_id async for batch in store.rows(EMBEDDER) for row in batch]
    ways = [kept in found, bool(await store.get([kept.id])), kept.id in rows, kept.id in await store.ids(EMBEDDER)]
    assert len(set(ways)) == 1, "found by one way and not by another"
    return ways[0]


# ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_label_comes_back_as_it_was_given(store: EntryStore) -> None:
    given = [
        label(2**63 - 1, at_s=999.123456789), replace(label(2, "", right=True, source=Source.SHADOW), weight=50.0),
        label(3, "bo", source=Source.CURATOR, at_s=1001, tenant="a:b", model="模型"),
    ]  # fmt: skip
    for each in given:
        await store.add_label(each)
    assert await store.labels(LONG_AGO) == given
    assert await store.labels(1001) == given[2:]


async def test_distinct_principals_are_counted_and_never_what_one_of_them_repeats(store: EntryStore) -> None:
    assert await store.add_label(label(1, "anna")) == 1
    assert await store.add_label(label(1, "anna")) == 1
    assert await store.add_label(label(2, "bo")) == 1
    assert await store.add_label(label(1, "bo")) == 2
    assert await store.add_label(label(1, "anna", right=True)) == 1  # she changed her mind
    assert [(each.principal, each.right) for each in await store.labels(LONG_AGO) if each.entry_id == 1] == [
        ("bo", False), ("anna", True),
    ]  # fmt: skip


async def test_our_own_labels_are_all_kept_and_are_nobodys_vote(store: EntryStore) -> None:
    for _ in range(3):
        assert await store.add_label(label(1, "", source=Source.SHADOW)) == 0
    assert await store.add_label(label(1, "anna", source=Source.CURATOR)) == 0
    assert len(await store.labels(LONG_AGO)) == 4
    assert await store.complaints(10) == []


@pytest.mark.usefixtures("small")
async def test_the_newest_labels_are_kept_and_the_votes_with_them(store: EntryStore) -> None:
    for number in range(8):
        await store.add_label(label(number, at_s=1000.0 + number), session=f"s{number}")
    assert [each.entry_id for each in await store.labels(LONG_AGO)] == [3, 4, 5, 6, 7]
    assert await store.hidden() == [(f"s{number}", number) for number in range(3, 8)]
    assert [each.entry_id for each in await store.complaints(10)] == [7, 6, 5, 4, 3]
    assert await store.add_label(label(0, "bo", at_s=1009.0)) == 1


async def test_what_a_session_does_not_want_is_remembered_once(store: EntryStore) -> None:
    await store.add_label(label(1, "anna"), session="s1")
    await store.add_label(label(1, "anna"), session="s2")  # one principal may have many sessions
    await store.add_label(label(2, "anna"), session="s1")
    await store.add_label(label(2, "anna", right=True))
    assert sorted(await store.hidden()) == [("s1", 1), ("s1", 2), ("s2", 1)]


async def test_complaints_come_latest_first_with_what_was_said(store: EntryStore) -> None:
    await store.add_label(label(1, "anna", at_s=1001), comment="the price is old")
    await store.add_label(label(2, "anna", at_s=1002))
    await store.add_label(label(1, "bo", at_s=1003), comment="价格不对")
    await store.add_label(label(3, "bo", at_s=1004, right=True), comment="thanks")
    first, second = await store.complaints(10)
    assert (first.entry_id, first.principals, first.at_s) == (1, 2, 1003)
    assert first.comments == ("价格不对", "the price is old")
    assert (second.entry_id, second.principals, second.comments) == (2, 1, ())
    assert await store.complaints(1) == [first]


# ── quarantine ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_quarantined_is_found_by_no_way_and_can_be_looked_at(store: EntryStore, clock: Any) -> None:
    kept, other = entry("wrong", body=b'{"a": "\xc3\xa4"}'), entry("right")
    for each in (kept, other):
        await store.put(each)
    clock.now_s += 5
    assert await store.quarantine([kept.id], "said so", SCOPE.tenant) == (kept.id,)
    assert not await served(store, kept)
    assert await served(store, other)
    assert await store.count() == 1
    (out,) = await store.quarantined(10)
    assert (out.entry_id, out.reason, out.at_s, out.entry) == (kept.id, "said so", 1005.0, kept)
    assert await store.quarantine([kept.id, kept.id], "again", SCOPE.tenant) == ()
    assert [each.reason for each in await store.quarantined(10)] == ["said so"]


async def test_a_quarantined_entry_cannot_be_put_again_but_its_question_can_be_answered(store: EntryStore) -> None:
    """A vector that comes late puts its entry a second time; another replica may be slow."""
    kept = entry("q")
    await store.put(kept)
    await store.quarantine([kept.id], "wrong", SCOPE.tenant)
    assert await store.put(kept) == (kept.id,)
    assert not await served(store, kept)
    fresh = entry("q", body=b'{"answer":"better"}')
    assert await store.put(fresh) == ()
    assert await served(store, fresh)


async def test_an_id_is_barred_before_its_answer_is_here(store: EntryStore, clock: Any) -> None:
    """A stream is called wrong while it still runs."""
    late = entry("late")
    assert await store.quarantine([late.id], "wrong", SCOPE.tenant) == ()
    assert await store.put(late) == (late.id,)
    assert not await served(store, late)
    (out,) = await store.quarantined(10)
    assert (out.entry_id, out.entry) == (late.id, None)
    assert await store.release(late.id) is None
    assert await store.put(late) == ()


async def test_what_is_released_is_found_again_with_its_vector(store: EntryStore) -> None:
    kept = entry("q", created_s=990)
    await store.put(kept)
    await store.add_label(label(kept.id, "anna"))
    await store.quarantine([kept.id], "wrong", SCOPE.tenant)
    back, ended = await store.release(kept.id) or (None, ())
    assert (back, ended) == (kept, ())
    assert back is not None and back.vector is not None
    np.testing.assert_allclose(back.vector, vector_of("q"), atol=1e-3)
    assert await served(store, kept)
    (row,) = [row async for batch in store.rows(EMBEDDER) for row in batch]
    np.testing.assert_allclose(row.vector, vector_of("q"), atol=1e-3)
    assert await store.quarantined(10) == []
    assert await store.release(kept.id) is None
    assert await store.complaints(10) == []  # a person found them wrong
    assert await store.add_label(label(kept.id, "bo")) == 1


async def test_what_is_released_takes_the_place_of_what_was_answered_meanwhile(store: EntryStore) -> None:
    kept, fresh = entry("q"), entry("q", body=b"{}")
    await store.put(kept)
    await store.quarantine([kept.id], "wrong", SCOPE.tenant)
    await store.put(fresh)
    assert await store.release(kept.id) == (kept, (fresh.id,))
    assert not await served(store, fresh)
    assert await served(store, kept)


async def test_complaints_about_what_is_out_of_service_are_settled(store: EntryStore) -> None:
    kept = entry()
    await store.put(kept)
    await store.add_label(label(kept.id))
    await store.quarantine([kept.id], "wrong", SCOPE.tenant)
    assert await store.complaints(10) == []
    await store.add_label(label(kept.id, "bo"))
    assert await store.complaints(10) == []


async def test_a_quarantined_entry_ends_when_it_would_have_expired(store: EntryStore, clock: Any) -> None:
    kept = entry(ttl_s=10)
    await store.put(kept)
    await store.quarantine([kept.id], "wrong", SCOPE.tenant)
    clock.now_s += 11
    assert await store.quarantined(10) == []
    assert await store.release(kept.id) is None
    assert not await served(store, kept)


async def test_a_sweep_empties_the_quarantine_of_what_has_expired(store: EntryStore, clock: Any) -> None:
    old, young, curated = entry("old", ttl_s=10), entry("young"), entry("curated", ttl_s=math.inf)
    for each in (old, young, curated):
        await store.put(each)
    await store.quarantine([old.id, young.id, curated.id], "wrong", SCOPE.tenant)
    await store.add_label(label(old.id))
    clock.now_s += 11
    assert await store.sweep() == (old.id,)
    assert [each.entry_id for each in await store.quarantined(10)] == [curated.id, young.id]
    assert len(await store.labels(LONG_AGO)) == 1  # what was learned outlives the entry


@pytest.mark.usefixtures("small")
async def test_the_newest_are_kept_in_quarantine(store: EntryStore) -> None:
    kept = [entry(f"q{number}") for number in range(8)]
    for each in kept:
        await store.put(each)
        await store.quarantine([each.id], "wrong", SCOPE.tenant)
    assert [each.entry for each in await store.quarantined(10)] == kept[:2:-1]
    assert [each.entry for each in await store.quarantined(2)] == kept[:5:-1]


async def test_what_nobody_may_compare_goes_in_and_out_as_it_is(store: EntryStore) -> None:
    kept = replace(entry(wording=None, embedder=None, reach=Reach.RECENT), text=None)
    await store.put(kept)
    assert await store.quarantine([kept.id], "wrong", SCOPE.tenant) == (kept.id,)
    assert await store.release(kept.id) == (kept, ())


async def test_quarantine_by_many_at_once_happens_once(store: EntryStore) -> None:
    kept = entry()
    await store.put(kept)
    took = await asyncio.gather(*(store.quarantine([kept.id], "wrong", SCOPE.tenant) for _ in range(20)))
    assert sorted(took) == [()] * 19 + [(kept.id,)]


# ── erasing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("selection", "gone"),
    [
        (Selection(), "abc"), (Selection(tenant="t1"), "ab"), (Selection(model="m1"), "ac"),
        (Selection(tenant="t1", model="m1"), "a"), (Selection(scope_key="s2"), "b"), (Selection(ids=(1, 3)), "ac"),
        (Selection(ids=(1, 3), tenant="t2"), "c"), (Selection(tenant="t"), ""), (Selection(ids=()), ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("out", [True, False], ids=["quarantined", "complained about"])
async def test_forgetting_takes_the_quarantined_and_what_was_said_of_them(
    store: EntryStore, selection: Selection, gone: str, out: bool
) -> None:
    places = {"a": Scope("t1", "m1", "s1"), "b": Scope("t1", "m2", "s2"), "c": Scope("t2", "m1", "s1")}
    kept = {name: entry(name, id=number, scope=scope) for number, (name, scope) in enumerate(places.items(), 1)}
    for name, each in kept.items():
        await store.put(each)
        said = label(each.id, tenant=each.scope.tenant, model=each.scope.model)
        await store.add_label(said, session=f"session of {name}", comment=name)
    if out:
        await store.quarantine([each.id for each in kept.values()], "wrong", "nobody's")
    left = [each.id for name, each in kept.items() if name not in gone]
    assert sorted(await store.forget(selection)) == [kept[name].id for name in gone]
    assert sorted(each.entry_id for each in await store.quarantined(10)) == (left if out else [])
    assert sorted(each.entry_id for each in await store.complaints(10)) == ([] if out else left)
    assert sorted(each.entry_id for each in await store.labels(LONG_AGO)) == left
    assert sorted(entry_id for _, entry_id in await store.hidden()) == left


async def test_a_barred_id_is_forgotten_with_its_tenant(store: EntryStore, clock: Any) -> None:
    await store.quarantine([1], "wrong", "t1")
    await store.quarantine([2], "wrong", "t2")
    assert await store.forget(Selection(tenant="t1")) == ()
    assert [each.entry_id for each in await store.quarantined(10)] == [2]
    await store.forget(Selection())
    assert await store.quarantined(10) == []


# ── who asked ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_distinct_principals_of_one_tenant_are_counted_for_a_day(store: EntryStore, clock: Any) -> None:
    assert await store.asked_by("q", "anna", "t1") == 1
    assert await store.asked_by("q", "anna", "t1") == 1
    assert await store.asked_by("q", "bo", "t2") == 1
    assert await store.asked_by("other", "bo", "t1") == 1
    assert await store.asked_by("q", "bo", "t1") == 2
    clock.now_s += 86_000
    assert await store.asked_by("q", "bo", "t1") == 2
    clock.now_s += 1_000
    assert await store.asked_by("q", "carl", "t1") == 2  # anna's time is over, bo came again
    await store.forget(Selection(tenant="t1"))
    assert await store.asked_by("q", "dora", "t1") == 1


# ── what survives ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_restart_changes_nothing(tmp_path: Path, clock: Any) -> None:
    wrong, right = entry("wrong"), entry("right")
    async with SqliteStore(tmp_path / "entries.db", Capacity(100), clock) as store:
        await store.put(wrong)
        await store.put(right)
        await store.add_label(label(right.id), session="s", comment="hm")
        await store.quarantine([wrong.id], "wrong", SCOPE.tenant)
        before = (await store.quarantined(10), await store.labels(LONG_AGO), await store.complaints(10))
    async with SqliteStore(tmp_path / "entries.db", Capacity(100), clock) as store:
        assert (await store.quarantined(10), await store.labels(LONG_AGO), await store.complaints(10)) == before
        assert await store.hidden() == [("s", right.id)]
        assert await store.put(wrong) == (wrong.id,)
        assert await store.count() == 1


async def test_a_file_from_before_there_was_feedback_is_used_as_it_is(tmp_path: Path, clock: Any) -> None:
    kept = entry()
    path = tmp_path / "entries.db"
    async with SqliteStore(path, Capacity(100), clock) as store:
        await store.put(kept)
    with contextlib.closing(sqlite3.connect(path)) as old:
        for table in ("quarantine", "label", "hidden", "asked"):
            old.execute(f"DROP TABLE {table}")
    async with SqliteStore(path, Capacity(100), clock) as store:
        assert await store.get([kept.id]) == [kept]
        assert await store.quarantine([kept.id], "wrong", SCOPE.tenant) == (kept.id,)


async def test_an_erased_comment_is_in_no_file(tmp_path: Path, clock: Any) -> None:
    async with SqliteStore(tmp_path / "entries.db", Capacity(100), clock) as store:
        await store.put(entry("q", id=1))
        await store.add_label(label(1), session="s", comment="my number is 0170-SECRET")
        await store.quarantine([1], "wrong", SCOPE.tenant)
        assert await store.forget(Selection(tenant=SCOPE.tenant)) == (1,)
        files = await asyncio.to_thread(lambda: {path: path.read_bytes() for path in tmp_path.iterdir()})
        assert files and not [path for path, data in files.items() if b"SECRET" in data]


# ── receipts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def receipt(name: str, entry_id: int, expires_s: float = 2000.0) -> Receipt:
    return Receipt(name * 32, entry_id, expires_s)


async def known(store: EntryStore, *names: str) -> dict[str, int]:
    return {each.name[0]: each.entry_id for each in await store.receipts([name * 32 for name in names])}


async def test_a_receipt_leads_to_the_entry_it_names_and_an_unknown_one_nowhere(store: EntryStore) -> None:
    kept, other = entry("q"), entry("r")
    await store.put(kept)
    await store.put(other)
    await store.note_receipts([receipt("a", kept.id), receipt("b", other.id), receipt("c", kept.id)])
    assert await known(store, "a", "b", "c", "d") == {"a": kept.id, "b": other.id, "c": kept.id}
    (found,) = await store.receipts(["a" * 32])
    assert found == Receipt("a" * 32, kept.id, kept.expires_s)
    await store.note_receipts([receipt("a", other.id)])
    assert await known(store, "a") == {"a": other.id}
    assert await store.receipts([]) == []


async def test_a_receipt_may_be_noted_before_its_entry_is_stored(store: EntryStore) -> None:
    kept = entry("q")
    await store.note_receipts([receipt("a", kept.id)])
    assert await known(store, "a") == {}
    await store.put(kept)
    assert await known(store, "a") == {"a": kept.id}


async def test_a_receipt_is_worth_nothing_once_its_entry_is_forgotten_quarantined_replaced_or_expired(
    store: EntryStore, clock: Any
) -> None:
    entries = [entry(name) for name in "abcd"]
    for each in entries:
        await store.put(each)
    await store.note_receipts([receipt(name, each.id) for name, each in zip("abcd", entries, strict=True)])
    await store.forget(Selection(ids=(entries[0].id,)))
    await store.quarantine([entries[1].id], "wrong", SCOPE.tenant)
    await store.put(entry("c", body=b'{"new": 1}'))
    assert set(await known(store, *"abcd")) == {"d"}
    await store.release(entries[1].id)
    assert set(await known(store, *"abcd")) == {"b", "d"}
    clock.now_s = entries[3].expires_s + 1
    assert await known(store, *"abcd") == {}
    await store.sweep()
    assert await known(store, *"abcd") == {}


@pytest.mark.usefixtures("small")
async def test_the_newest_receipts_are_kept(store: EntryStore) -> None:
    kept = entry("q")
    await store.put(kept)
    for name in "abcdefg":
        await store.note_receipts([receipt(name, kept.id)])
    assert set(await known(store, *"abcdefg")) == set("cdefg")


async def test_labels_of_others_survive_a_purge_by_tag(store: EntryStore) -> None:
    tagged, other = replace(entry("tagged"), tags=names_of(["t"])), entry("other")
    for each in (tagged, other):
        await store.put(each)
        await store.add_label(label(each.id))
    await store.forget(Selection(tag=of_tag("t")))
    assert [each.entry_id for each in await store.labels(0)] == [other.id]
