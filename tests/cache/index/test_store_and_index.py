"""The durable store and the index together, driven at random against a model that is too simple to be wrong."""

import asyncio
import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entries import DIM, EMBEDDER, entry, vector_of
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cache.entry import Entry
from cache.index.snapshot import open_index, save
from cache.protocols import Selection
from cache.question import Scope
from cache.store.sqlite import SqliteStore
from cache.worth import Capacity

SCOPES = [Scope("t1", "m1", "a"), Scope("t1", "m1", "b"), Scope("t1", "m2", "a"), Scope("t2", "m1", "a")]
scopes = st.sampled_from(SCOPES)
keys = st.sampled_from("abcdefgh")
CAPACITY = 9


class StoreAndIndex(RuleBasedStateMachine):
    """The rules are what the similar tier and its owner do; `model` lists what should be held, oldest put first."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(prefix="rejoinder-model-"))
        self.lives = itertools.count()
        self.now_s = 1000.0
        self.model: list[Entry] = []
        self.out: list[Entry] = []  # of service
        self.puts = 0

    @initialize()
    def begin(self) -> None:
        self.path = self.root / "0" / "entries.db"
        self.open()

    def open(self) -> None:
        async def opening() -> None:
            self.store = SqliteStore(self.path, Capacity(CAPACITY), lambda: self.now_s, fingerprint="f")
            await self.store.__aenter__()
            snapshot = self.path.with_name("index")
            self.index = await open_index(self.store, EMBEDDER, DIM, snapshot, large=4)

        self.runner.run(opening())
        assert self.index.ids() == self.runner.run(self.store.ids(EMBEDDER))

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    @property
    def alive(self) -> list[Entry]:
        return [each for each in self.model if each.expires_s > self.now_s]

    def ended(self, gone: tuple[int, ...], expected: list[Entry]) -> None:
        assert sorted(gone) == sorted(each.id for each in expected)
        self.index.remove(gone)
        self.model = [each for each in self.model if each.id not in gone]
        self.out = [each for each in self.out if each.id not in gone]

    @rule(scope=scopes, key=keys, age_s=st.integers(0, 50), ttl_s=st.integers(1, 200), searchable=st.booleans())
    def put(self, scope: Scope, key: str, age_s: int, ttl_s: int, searchable: bool) -> None:
        self.puts += 1
        new = entry(
            f"text {self.puts}", id=self.puts, scope=scope, key=key, wording=key, created_s=self.now_s - age_s,
            ttl_s=ttl_s + age_s, embedder=EMBEDDER if searchable else None,
        )  # fmt: skip
        same = [each for each in self.model if (each.scope, each.key) == (scope, key)]
        others = [each for each in self.model if each not in same]
        excess = len(others) + 1 - CAPACITY
        oldest = others[: max(0, excess)]  # the model is in the order of puts
        self.ended(self.run(self.store.put(new)), same + oldest)
        self.model.append(new)
        if new.vector is not None:
            self.index.add(scope, new.id, new.vector)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def put_again_under_its_id(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(self.model))
        self.puts += 1
        new = entry(f"text {self.puts}", id=old.id, scope=old.scope, key=old.key, wording=old.key, created_s=self.now_s)
        self.ended(self.run(self.store.put(new)), [])
        self.model = [each for each in self.model if each.id != old.id] + [new]
        assert new.vector is not None
        self.index.add(new.scope, new.id, new.vector)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def forget_some(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.model), unique_by=lambda each: each.id))
        ids = tuple(each.id for each in chosen)
        self.ended(self.run(self.store.forget(Selection(ids=ids))), chosen)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def quarantine(self, data: st.DataObject) -> None:
        wrong = data.draw(st.sampled_from(self.model))
        assert self.run(self.store.quarantine([wrong.id], "wrong", wrong.scope.tenant)) == (wrong.id,)
        self.index.remove([wrong.id])
        self.model.remove(wrong)
        self.out.append(wrong)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def put_what_is_out_of_service(self, data: st.DataObject) -> None:
        late = data.draw(st.sampled_from(self.out))
        assert self.run(self.store.put(late)) == (late.id,)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        right = data.draw(st.sampled_from(self.out))
        back = self.run(self.store.release(right.id))
        self.out.remove(right)
        if right.expires_s <= self.now_s:
            assert back is None
            return
        assert back is not None and back[0] == right
        same = [each for each in self.model if (each.scope, each.key) == (right.scope, right.key)]
        others = [each for each in self.model if each not in same]
        self.ended(back[1], same + others[: max(0, len(others) + 1 - CAPACITY)])
        self.model.append(right)
        if right.vector is not None:
            self.index.add(right.scope, right.id, right.vector)

    @rule(scope=scopes, wide=st.booleans())
    def forget_a_part(self, scope: Scope, wide: bool) -> None:
        selection = Selection(tenant=scope.tenant, scope_key=None if wide else scope.key)
        hit = [each for each in self.model + self.out if each.scope.tenant == scope.tenant]
        hit = hit if wide else [each for each in hit if each.scope.key == scope.key]
        self.ended(self.run(self.store.forget(selection)), hit)

    @rule(seconds=st.integers(1, 100))
    def time_passes(self, seconds: int) -> None:
        self.now_s += seconds

    @rule()
    def sweep(self) -> None:
        expired = [each for each in self.model + self.out if each.expires_s <= self.now_s]
        self.ended(self.run(self.store.sweep()), expired)

    @rule()
    def snapshot(self) -> None:
        save(self.index, self.path.with_name("index"), self.run(self.store.position()), EMBEDDER)

    @rule()
    def restart(self) -> None:
        self.run(self.store.__aexit__(None, None, None))
        self.open()

    @rule()
    def crash(self) -> None:
        """What kill -9 leaves: the files as they are, nothing closed."""
        left = self.root / f"life {next(self.lives)}"
        shutil.copytree(self.path.parent, left)
        self.run(self.store.__aexit__(None, None, None))
        self.path = left / "entries.db"
        self.open()

    @invariant()
    def the_index_holds_what_the_store_can_search(self) -> None:
        if not hasattr(self, "index"):
            return
        searchable = {each.id for each in self.alive if each.vector is not None}
        assert self.run(self.store.ids(EMBEDDER)) == searchable
        expired = {each.id for each in self.model if each.expires_s <= self.now_s}
        assert self.index.ids() - expired == searchable
        assert self.run(self.store.count()) == len(self.model)

    @invariant()
    def what_is_out_of_service_is_listed_and_found_nowhere(self) -> None:
        if not hasattr(self, "index"):
            return
        listed = {each.entry_id: each.entry for each in self.run(self.store.quarantined(100))}
        assert listed == {each.id: each for each in self.out if each.expires_s > self.now_s}
        assert self.run(self.store.get([each.id for each in self.out])) == []

    @invariant()
    def every_survivor_is_found_and_every_vector_has_its_own_answer(self) -> None:
        if not hasattr(self, "index"):
            return
        for each in self.model:
            found = self.run(self.store.find(each.scope, each.key, None, 0))
            assert found == ([each] if each in self.alive else [])
        for each in self.alive:
            if each.vector is not None:
                (entry_id, cosine), *_ = self.index.search(each.scope, each.vector, 3)
                assert (entry_id, cosine) == (each.id, pytest.approx(1.0, abs=1e-3))

    @invariant()
    def rows_pair_each_id_with_its_vector(self) -> None:
        if not hasattr(self, "index"):
            return

        async def rows() -> dict[int, Any]:
            return {row.entry_id: row async for batch in self.store.rows(EMBEDDER) for row in batch}

        found = self.run(rows())
        for each in self.alive:
            if each.vector is not None:
                assert found[each.id].scope == each.scope
                np.testing.assert_allclose(found[each.id].vector, vector_of(each.text or ""), atol=1e-3)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.__aexit__(None, None, None))
        self.runner.close()
        shutil.rmtree(self.root)


StoreAndIndex.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
test_store_and_index_agree_whatever_happens = StoreAndIndex.TestCase


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_store_and_index_agree_for_a_long_time() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    longer = settings(max_examples=300, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(StoreAndIndex, settings=longer)
