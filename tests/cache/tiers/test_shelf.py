"""The shelf: bounded by count and by bytes, least recently used first out, and its three ways in always agree."""

from collections import OrderedDict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cache.entry import Answer, Entry
from cache.question import Kind, Reach, Scope
from cache.tiers.shelf import Shelf, _size


def entry(id: int = 1, key: str = "k", wording: str | None = "w", *, scope: str = "s", size: int = 10) -> Entry:
    return Entry(
        id=id, kind=Kind.CHAT, scope=Scope("t", "m", scope), text="q", key=key, proof="p", wording=wording,
        reach=Reach.SIMILAR,
        answer=Answer(b"x" * size, 1), created_s=0.0, expires_s=60.0,
    )  # fmt: skip


def shelf(entries: int = 3, size: int = 1 << 20) -> Shelf:
    return Shelf(entries, size)


def test_an_entry_is_found_by_key_and_by_wording_inside_its_scope() -> None:
    held, one = shelf(), entry()
    held.put(one)
    assert held.exact("s", "k") is held.worded("s", "w") is one
    assert held.exact("other", "k") is held.worded("other", "w") is None
    assert held.exact("s", "other") is held.worded("s", "other") is None
    assert 1 in held
    assert 2 not in held


def test_a_new_entry_takes_the_place_of_the_one_with_its_key() -> None:
    held = shelf()
    held.put(entry(1))
    held.put(entry(2))
    assert [each.id for each in held] == [2]
    assert held.forget([1]) == 0
    assert held.bytes == _size(entry(2))


def test_the_least_recently_used_leaves_first() -> None:
    held = shelf(2)
    held.put(entry(1, "a", "wa"))
    held.put(entry(2, "b", "wb"))
    held.exact("s", "a")
    held.put(entry(3, "c", "wc"))
    assert [each.id for each in held] == [1, 3]
    assert held.worded("s", "wb") is None


def test_it_is_bounded_in_bytes_too() -> None:
    held = shelf(100, 3 * _size(entry(size=100)))
    for number in range(10):
        held.put(entry(number, f"k{number}", None, size=100))
    assert [each.id for each in held] == [7, 8, 9]


def test_what_is_larger_than_the_shelf_is_not_kept_and_throws_nobody_else_out() -> None:
    held = shelf(3, 2000)
    held.put(entry(1, "a"))
    held.put(entry(2, "b", size=5000))
    assert [each.id for each in held] == [1]


def test_an_older_answer_does_not_stay_because_the_newer_one_is_too_large() -> None:
    held = shelf(3, 2000)
    held.put(entry(1))
    held.put(entry(2, size=5000))
    assert list(held) == []


def test_the_newest_of_one_wording_is_found() -> None:
    held = shelf()
    held.put(entry(1, "a"))
    held.put(entry(2, "b"))
    found = held.worded("s", "w")
    assert found is not None
    assert found.id == 2
    held.forget([1])
    assert held.worded("s", "w") is found


def test_the_same_entry_twice_is_one_entry() -> None:
    held, one = shelf(), entry()
    held.put(one)
    held.put(one)
    assert len(held) == 1
    assert held.bytes == _size(one)


def test_forgetting_says_how_many_were_here() -> None:
    held = shelf()
    held.put(entry(1, "a"))
    held.put(entry(2, "b"))
    assert held.forget([1, 1, 7]) == 1
    assert held.forget([2]) == 1
    assert (len(held), held.bytes) == (0, 0)


def test_it_may_be_emptied_while_it_is_gone_through() -> None:
    held = shelf()
    for number in range(3):
        held.put(entry(number, f"k{number}"))
    for each in held:
        held.forget([each.id])
    assert len(held) == 0


class Shelves(RuleBasedStateMachine):
    """Against a plain model: a list in the order of last use."""

    def __init__(self) -> None:
        super().__init__()
        self.limit, self.bytes_limit = 4, 3000
        self.held = Shelf(self.limit, self.bytes_limit)
        self.model: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self.next = 0

    @rule(
        key=st.sampled_from("abcdef"), scope=st.sampled_from("st"), wording=st.none() | st.sampled_from("vw"),
        size=st.sampled_from([0, 10, 500, 2000, 4000]),
    )  # fmt: skip
    def put(self, key: str, scope: str, wording: str | None, size: int) -> None:
        self.next += 1
        new = entry(self.next, key, wording, scope=scope, size=size)
        self.held.put(new)
        self.model.pop((scope, key), None)
        if _size(new) <= self.bytes_limit:
            self.model[scope, key] = new
            while len(self.model) > self.limit or sum(map(_size, self.model.values())) > self.bytes_limit:
                self.model.popitem(last=False)

    @rule(key=st.sampled_from("abcdef"), scope=st.sampled_from("st"))
    def look(self, key: str, scope: str) -> None:
        assert self.held.exact(scope, key) == self.model.get((scope, key))
        if (scope, key) in self.model:
            self.model.move_to_end((scope, key))

    @rule(scope=st.sampled_from("st"), wording=st.sampled_from("vw"))
    def look_by_wording(self, scope: str, wording: str) -> None:
        found = self.held.worded(scope, wording)
        if found is not None:
            assert (found.scope.key, found.wording) == (scope, wording)
            assert found in self.model.values()
            assert found.id == max(
                each.id for each in self.model.values() if (each.scope.key, each.wording) == (scope, wording)
            )

    @rule(back=st.integers(0, 8), twice=st.booleans())
    def forget(self, back: int, twice: bool) -> None:
        wanted = self.next - back
        known = [place for place, each in self.model.items() if each.id == wanted]
        assert self.held.forget([wanted, wanted] if twice else [wanted]) == len(known)
        for place in known:
            del self.model[place]

    @invariant()
    def it_equals_the_model(self) -> None:
        assert list(self.held) == list(self.model.values())
        assert self.held.bytes == sum(map(_size, self.model.values()))
        assert len(self.held) == len(self.model) <= self.limit
        assert self.held.bytes <= self.bytes_limit

    @invariant()
    def its_indexes_agree(self) -> None:
        held = self.held
        assert {each.id: (each.scope.key, each.key) for each in held} == held._by_id
        assert set(held._by_wording.values()) <= set(held._by_key)
        for (scope, wording), place in held._by_wording.items():
            assert (held._by_key[place].scope.key, held._by_key[place].wording) == (scope, wording)


TestShelves = pytest.mark.timeout(60)(Shelves.TestCase)
TestShelves.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
