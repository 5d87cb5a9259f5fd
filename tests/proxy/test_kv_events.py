"""A publisher as vLLM has it (PUB, and ROUTER for replays) on loopback ports of this process, beside a worker that only
answers /kv_event_sources. What each message means is tested in `routing/test_kv_follower.py`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import msgspec
import orjson
import pytest
import zmq
import zmq.asyncio
from aiohttp import web

from proxy import kv_stream
from proxy.kv_events import KvListener
from proxy.routing.blocks import Blocks, own_hashes
from proxy.routing.kv_sources import CONNECTS
from proxy.routing.workers import Worker, WorkerPool
from proxy.upstream import Upstream


class Publisher:
    """One life of an engine's publisher, on the ports of an earlier one if it is given."""

    def __init__(
        self, before: "Publisher | None" = None, *, life: int = 0, topic: bytes = b"kv", with_topic: bool = True
    ) -> None:
        self.life, self.topic, self.with_topic = life, topic, with_topic
        self.deaf = False
        self.requests: list[int] = []
        self.sent: list[bytes] = []
        self._context = zmq.asyncio.Context()
        self._pub, self._router = self._context.socket(zmq.XPUB), self._context.socket(zmq.ROUTER)
        self.port, self.replay_port = [
            self._bound(socket, 0 if before is None else port)
            for socket, port in ((self._pub, before and before.port), (self._router, before and before.replay_port))
        ]
        self._serving: asyncio.Task[None] | None = None

    @staticmethod
    def _bound(socket: zmq.asyncio.Socket, port: int | None) -> int:
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(f"tcp://127.0.0.1:{port or 0}")
        return int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    async def __aenter__(self) -> Self:
        self._serving = asyncio.create_task(self._serve())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._serving is not None
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)
        self._context.destroy(linger=0)

    async def _serve(self) -> None:
        while True:
            client, empty, start = await self._router.recv_multipart()
            self.requests.append(int.from_bytes(start, "big"))
            assert empty == b""
            if self.deaf:
                continue
            topic = [self.topic] if self.with_topic else []
            for seq in range(self.requests[-1], len(self.sent)):
                await self._router.send_multipart([client, b"", *topic, seq.to_bytes(8, "big"), self.sent[seq]])
            end = [*(b"" for _ in topic), (-1).to_bytes(8, "big", signed=True), b""]
            await self._router.send_multipart([client, b"", *end])

    async def subscribed(self) -> None:
        """Until a subscriber is there."""
        assert (await self._pub.recv())[:1] == b"\x01"

    async def publish(self, *events: object, lost: bool = False) -> None:
        seq = len(self.sent)
        told = events or ({"type": "BlockStored", "block_hashes": [1000 * self.life + seq], "parent_block_hash": None,
                           "token_ids": [self.life, seq], "block_size": 2, "session_id": f"s{seq}"},)  # fmt: skip
        self.sent.append(msgspec.msgpack.encode([1.5 + self.life, told, 0]))
        if not lost:
            await self.send(seq)

    async def send(self, seq: int) -> None:
        await self._pub.send_multipart([self.topic, seq.to_bytes(8, "big"), self.sent[seq]])

    @property
    def owns(self) -> set[int]:
        return {own_hashes([self.life, seq], 2)[0] for seq in range(len(self.sent))}


def config(publisher: Publisher, **fields: object) -> dict[str, object]:
    told = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{publisher.port}",
            "replay_endpoint": f"tcp://*:{publisher.replay_port}", "topic": publisher.topic.decode()}  # fmt: skip
    return {**told, **fields}


class Front:
    """The worker's HTTP side: `answer` to /kv_event_sources."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked = 0
        self.url = ""

    async def sources(self, request: web.Request) -> web.Response:
        self.asked += 1
        if isinstance(self.answer, int):
            return web.Response(status=self.answer)
        return web.Response(body=orjson.dumps(self.answer))


@asynccontextmanager
async def fronted(answer: object) -> AsyncIterator[Front]:
    front, app = Front(answer), web.Application()
    app.add_routes([web.get("/kv_event_sources", front.sources)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        front.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield front
    finally:
        await runner.cleanup()


class Listening:
    def __init__(self, listener: KvListener, pool: WorkerPool, worker: Worker) -> None:
        self.listener, self.pool, self.worker = listener, pool, worker

    @property
    def blocks(self) -> Blocks:
        blocks = self.listener.blocks_of(self.worker)
        assert blocks is not None, self.words
        return blocks

    @property
    def known(self) -> set[int] | None:
        blocks = self.listener.blocks_of(self.worker)
        return None if blocks is None else set(blocks._parents)

    @property
    def words(self) -> str:
        return self.listener.source_of(self.worker)

    @property
    def counts(self) -> dict[str, object]:
        counts = self.listener.counts_of(self.worker)
        return {name: getattr(counts, name) for name in counts.__slots__ if getattr(counts, name)}


@asynccontextmanager
async def listening(front: Front, **wishes: object) -> AsyncIterator[Listening]:
    pool = WorkerPool([front.url])
    [worker] = pool
    settings: dict[str, object] = {"connect_s": 5.0, "replay_s": 5.0, "every_s": 0.0, "lost_retry_s": 0.01, **wishes}
    async with Upstream(connect_s=2.0) as upstream, KvListener(pool, upstream, **settings) as listener:  # type: ignore[arg-type]
        pool.answered(worker)
        yield Listening(listener, pool, worker)


async def until(happened: Callable[[], object], timeout_s: float = 20.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not happened():  # noqa: ASYNC110 - the socket tells nobody
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("with_topic", [True, False])
async def test_a_proxy_that_starts_later_learns_what_was_before_it_and_then_what_comes(with_topic: bool) -> None:
    async with Publisher(with_topic=with_topic) as publisher, fronted({"0": config(publisher)}) as front:
        for _ in range(300):
            await publisher.publish()
        async with listening(front) as seen:
            await until(lambda: seen.known == publisher.owns)
            assert seen.words == "KV events, exact" and seen.blocks.complete
            await publisher.publish()
            await until(lambda: seen.known == publisher.owns)
            assert seen.blocks.tip("s300") in publisher.owns
            assert seen.counts["batches"] == 301 and seen.counts["lag_s"]


async def test_what_was_lost_on_the_way_is_replayed_once() -> None:
    async with Publisher() as publisher, fronted({"0": config(publisher)}) as front, listening(front) as seen:
        await publisher.subscribed()
        await until(lambda: seen.known is not None)
        await publisher.publish()
        for _ in range(3):
            await publisher.publish(lost=True)
        await publisher.publish()
        await publisher.send(4)
        await publisher.publish()
        await until(lambda: seen.known == publisher.owns)
        assert seen.blocks.references == 6 and publisher.requests[-1] == 0 and seen.words == "KV events, exact"
        await until(
            lambda: seen.counts.get("duplicates") == 2
        )  # the fourth again, and the last, came after their replay
        assert seen.blocks.references == 6 and (seen.counts["gaps"], seen.counts["batches"]) == (1, 6)


async def test_what_was_sent_while_we_subscribed_is_found_though_nothing_follows() -> None:
    async with (
        Publisher() as publisher,
        fronted({"0": config(publisher)}) as front,
        listening(front, confirm_s=0.1) as seen,
    ):
        await publisher.subscribed()
        await until(lambda: seen.known is not None)
        await publisher.publish(lost=True)
        await until(lambda: seen.known == publisher.owns)
        assert "gaps" not in seen.counts and seen.counts["replays"] == 2


async def test_a_restarted_engine_has_none_of_its_blocks_any_more() -> None:
    async with fronted({}) as front, Publisher() as old:
        front.answer = {"0": config(old)}
        async with listening(front) as seen:
            await until(lambda: seen.known is not None)
            for _ in range(4):
                await old.publish()
            await until(lambda: seen.known == old.owns)
            await old.__aexit__(None, None, None)
            await until(lambda: seen.known is None)  # nobody knows now
            async with Publisher(old, life=1) as new:
                await until(lambda: seen.known == set())  # though it has not published anything yet
                assert seen.blocks.complete and seen.counts["restarts"] == seen.counts["purges"] == 1
                await new.publish()
                await until(lambda: seen.known == new.owns)
                assert seen.words == "KV events, exact"


async def test_the_workers_own_reset_clears_all() -> None:
    async with Publisher() as publisher, fronted({"0": config(publisher)}) as front, listening(front) as seen:
        await until(lambda: seen.known is not None)
        await publisher.publish()
        await until(lambda: seen.known == publisher.owns)
        await publisher.publish({"type": "AllBlocksCleared"})
        await until(lambda: seen.known == set())
        assert seen.blocks.complete


async def test_a_publisher_too_slow_with_its_replay_costs_what_was_before_and_it_says_so() -> None:
    async with Publisher() as publisher, fronted({"0": config(publisher)}) as front:
        await publisher.publish()
        publisher.deaf = True
        async with listening(front, replay_s=0.2, retry_s=0.3) as seen:
            await until(lambda: "unknown" in seen.words)
            assert "not over after 0.2 s" in seen.words and not seen.blocks.complete and seen.known == set()
            publisher.deaf = False
            await until(lambda: seen.words == "KV events, exact")  # it tries again by itself
            assert seen.known == publisher.owns and seen.counts["failed_replays"] >= 1


async def test_without_a_replay_address_we_know_only_what_came_since() -> None:
    async with Publisher() as publisher, fronted({"0": config(publisher, replay_endpoint=None)}) as front:
        await publisher.publish(lost=True)
        async with listening(front) as seen:
            await publisher.subscribed()
            await until(lambda: seen.known is not None)
            await publisher.publish()
            await until(lambda: seen.known)
            assert len(seen.blocks) == 1 and not seen.blocks.complete and "replay_endpoint" in seen.words


@pytest.mark.parametrize(("answer", "words"), [(404, "older than 0.32"), (403, "403"), ({}, "--kv-events-config")])
async def test_a_worker_without_events_says_so_and_is_asked_again_as_a_new_generation(
    answer: object, words: str
) -> None:
    async with Publisher() as publisher, fronted(answer) as front, listening(front) as seen:
        await until(lambda: words in seen.words)
        assert seen.known is None and front.asked == 1
        front.answer = {"0": config(publisher)}
        seen.pool.unreachable(seen.worker)
        assert seen.known is None
        seen.pool.answered(seen.worker)
        await until(lambda: seen.known is not None)
        assert front.asked == 2


async def test_a_new_generation_of_the_worker_starts_from_nothing() -> None:
    async with Publisher() as publisher, fronted({"0": config(publisher)}) as front, listening(front) as seen:
        await until(lambda: seen.known is not None)
        await publisher.publish()
        await until(lambda: seen.known == publisher.owns)
        before = seen.blocks
        seen.pool.unreachable(seen.worker)
        assert seen.known is None and "no KV events" in seen.words
        seen.pool.answered(seen.worker)
        await until(lambda: seen.known == publisher.owns)  # replayed: the engine lived on
        assert seen.blocks is not before and seen.counts["batches"] == 2


async def test_an_address_where_vllm_does_not_listen_is_explained() -> None:
    async with Publisher() as publisher, fronted({}) as front:
        front.answer = {"0": config(publisher, endpoint=f"tcp://127.0.0.1:{publisher.port}")}
        await publisher.__aexit__(None, None, None)
        async with listening(front, connect_s=0.2) as seen:
            await until(lambda: CONNECTS in seen.words)
            assert seen.known is None
            await until(lambda: front.asked > 1)  # it does not give up


async def test_two_ranks_are_one_worker() -> None:
    async with (
        Publisher() as first,
        Publisher(life=1) as second,
        fronted({"0": config(first), "1": config(second)}) as front,
        listening(front) as seen,
    ):
        await until(lambda: seen.known is not None)
        await first.publish()
        await second.publish()
        await until(lambda: seen.known == first.owns | second.owns)
        await second.publish({"type": "AllBlocksCleared"})
        await until(lambda: seen.known == first.owns)


async def test_a_worker_that_is_removed_is_not_listened_to() -> None:
    async with Publisher() as publisher, fronted({"0": config(publisher)}) as front, listening(front) as seen:
        await publisher.subscribed()
        await until(lambda: seen.known is not None)
        seen.pool.remove(seen.worker)
        assert seen.known is None and seen.counts == {}
        assert (await asyncio.wait_for(publisher._pub.recv(), 5))[:1] == b"\x00"  # it has left


async def test_a_flood_of_events_leaves_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[float] = []
    receive = kv_stream.KvStream._receive

    async def timed(self: kv_stream.KvStream, live: object) -> None:
        before = self.follower.counts.batches
        await receive(self, live)  # type: ignore[arg-type]
        turns.append(self.follower.counts.batches - before)

    monkeypatch.setattr(kv_stream.KvStream, "_receive", timed)
    monkeypatch.setattr(kv_stream, "TURN_S", 0.0005)
    async with Publisher() as publisher, fronted({"0": config(publisher)}) as front, listening(front) as seen:
        await publisher.subscribed()
        await until(lambda: seen.known is not None)
        for _ in range(2_000):
            await publisher.publish()
        await until(lambda: seen.known == publisher.owns)
        assert len(turns) > 5 and max(turns) < 1_000, "all in one turn"


async def test_tips_are_told_as_they_move() -> None:
    told: list[tuple[str, list[int]]] = []

    def on_tip(worker: Worker, blocks: Blocks, session: str) -> None:
        tip = blocks.tip(session)
        assert tip is not None
        told.append((session, blocks.chain(tip)))

    async with Publisher() as publisher, fronted({"0": config(publisher)}) as front:
        await publisher.publish()
        async with listening(front, on_tip=on_tip) as seen:
            await until(lambda: seen.known == publisher.owns)
            assert told == [("s0", list(publisher.owns))]
