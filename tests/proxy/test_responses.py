"""Stored responses pass by, and are remembered."""

from collections.abc import AsyncIterator

import pytest
from multidict import CIMultiDict

from cache import StoreUnavailable
from proxy.auth import Tenant
from proxy.call import Call
from proxy.errors import ResponseGone
from proxy.responses import Responses
from proxy.routing.choice import Choice, Kind, Prompt
from proxy.routing.gauges import Gauges
from proxy.routing.rides import Ride
from proxy.routing.router import Router
from proxy.routing.workers import WorkerPool
from proxy.usage import Usage

REPLY = [b'{"id":"re', b'sp_1","object":"response"', b',"output":[{"id":"msg_1"}]}']


def call(method: str = "POST", path: str = "/v1/responses", tenant: str = "t") -> Call:
    return Call(method, path, path, CIMultiDict(), (), {}, b"", Tenant(tenant, False), "r")


@pytest.fixture
def pool() -> WorkerPool:
    return WorkerPool(["http://a:1", "http://b:1"])


def ride(pool: WorkerPool, session: str | None = None) -> Ride:
    """To the first worker."""
    return Router(pool).ride(Choice(next(iter(pool)), Kind.NEW, ""), Prompt("m", session))


def nothing(_: Ride, __: Usage) -> None:
    pass


class Chunks:
    def __init__(self) -> None:
        self.closed = False

    async def __call__(self) -> AsyncIterator[bytes]:
        try:
            for piece in REPLY:
                yield piece
        finally:
            self.closed = True


async def test_a_new_response_is_kept_by_its_worker_before_the_client_knows_its_id(pool: WorkerPool) -> None:
    responses, worker = Responses(pool), next(iter(pool))
    passed = b""
    async for chunk in responses.noted(call(), ride(pool, "session"), 200, Chunks()(), nothing):
        passed += chunk
        known = responses.keeper(call(), {"previous_response_id": "resp_1"})
        assert known is (worker if b"resp_1" in passed else None)
    assert passed == b"".join(REPLY)
    assert responses.keeper(call("GET", "/v1/responses/resp_1"), {}) is worker
    assert responses.keeper(call("POST", "/v1/responses/resp_1/cancel"), {}) is worker
    assert responses.keeper(call(tenant="u"), {"previous_response_id": "resp_1"}) is None
    assert responses.pins.find("t", "resp_1") == "session"


async def test_a_response_of_a_worker_that_left_is_gone(pool: WorkerPool) -> None:
    responses, worker = Responses(pool), next(iter(pool))
    async for _ in responses.noted(call(), ride(pool), 200, Chunks()(), nothing):
        pass
    pool.remove(worker)
    with pytest.raises(ResponseGone):
        responses.keeper(call(), {"previous_response_id": "resp_1"})


@pytest.mark.parametrize(("made", "status"), [(call("POST", "/v1/chat/completions"), 200), (call(), 400),
                                              (call("GET", "/v1/responses/resp_1"), 200)])  # fmt: skip
async def test_what_makes_no_response_passes_untouched(pool: WorkerPool, made: Call, status: int) -> None:
    responses, chunks = Responses(pool), Chunks()()
    assert responses.noted(made, ride(pool), status, chunks, nothing) is chunks
    assert [chunk async for chunk in chunks] == REPLY and len(responses.pins) == 0


async def test_a_client_that_leaves_closes_what_stands_behind(pool: WorkerPool) -> None:
    responses, chunks = Responses(pool), Chunks()
    stream = responses.noted(call(), ride(pool), 200, chunks(), nothing)
    assert await anext(stream) == REPLY[0]
    await stream.aclose()  # type: ignore[attr-defined]
    assert chunks.closed


async def test_what_a_whole_response_took_is_told_once_and_of_one_that_broke_off_nothing(pool: WorkerPool) -> None:
    took: list[Usage] = []
    told = b',"usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}'

    async def chunks() -> AsyncIterator[bytes]:
        for piece in (*REPLY[:2], told):
            yield piece

    stream = Responses(pool).noted(call(), ride(pool), 200, chunks(), lambda _, usage: took.append(usage))
    assert b"".join([chunk async for chunk in stream]) == b"".join((*REPLY[:2], told))
    assert took == [Usage(9, 4, 2)]
    stream = Responses(pool).noted(call(), ride(pool), 200, chunks(), lambda _, usage: took.append(usage))
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert len(took) == 1


# -- several processes -------------------------------------------------------------------------------------------------


class Board:
    """What two processes share."""

    def __init__(self) -> None:
        self.pinned: dict[str, bytes] = {}
        self.away = False
        self.asked = 0

    async def get(self, key: str) -> bytes | None:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("gone")
        return self.pinned.get(key)

    async def put(self, key: str, value: bytes) -> None:
        if self.away:
            raise StoreUnavailable("gone")
        self.pinned[key] = value


NEXT = {"previous_response_id": "resp_1"}


async def made(board: Board, pool: WorkerPool) -> Responses:
    """A process that saw the response made, by the first worker."""
    responses = Responses(pool, board, b"secret")
    async for _ in responses.noted(call(), ride(pool, "session"), 200, Chunks()(), nothing):
        pass
    return responses


async def test_another_process_finds_the_worker_that_keeps_a_response(pool: WorkerPool) -> None:
    board, other = Board(), WorkerPool(["http://b:1", "http://a:1"])
    await made(board, pool)
    assert "resp_1" not in str(board.pinned) and '"t"' not in str(board.pinned)
    there = Responses(other, board, b"secret")
    for _ in range(2):
        await there.recall(call(), NEXT)
    assert there.keeper(call(), NEXT) is other.at("http://a:1") and there.pins.find("t", "resp_1") == "session"
    assert board.asked == 1, "once known, it is not asked for again"
    await there.recall(call(tenant="u"), NEXT)
    assert there.keeper(call(tenant="u"), NEXT) is None


def started(pool: WorkerPool, at_s: float | None) -> None:
    pool.measured(pool.at("http://a:1"), Gauges(0.0, 0, 0, 0.0, None, None, None, None, started_s=at_s))


@pytest.mark.parametrize(("was", "now", "gone"), [
    (100.0, 100.0, False), (100.0, 200.0, True), (None, 200.0, False), (100.0, None, False),
])  # fmt: skip
async def test_a_worker_that_was_restarted_since_is_known_by_its_start(
    pool: WorkerPool, was: float | None, now: float | None, gone: bool
) -> None:
    board, other = Board(), WorkerPool(["http://a:1"])
    started(pool, was)
    await made(board, pool)
    started(other, now)
    there = Responses(other, board, b"secret")
    await there.recall(call(), NEXT)
    if gone:
        with pytest.raises(ResponseGone, match="was restarted"):
            there.keeper(call(), NEXT)
    else:
        assert there.keeper(call(), NEXT) is other.at("http://a:1")


async def test_a_response_of_a_worker_that_is_not_here_is_gone_for_the_others_too(pool: WorkerPool) -> None:
    board = Board()
    await made(board, pool)
    there = Responses(WorkerPool(["http://b:1"]), board, b"secret")
    await there.recall(call(), NEXT)
    with pytest.raises(ResponseGone, match="not here any more"):
        there.keeper(call(), NEXT)


async def test_a_board_that_is_away_costs_nobody_an_answer(pool: WorkerPool) -> None:
    board = Board()
    board.away = True
    here = await made(board, pool)
    assert here.keeper(call(), NEXT) is pool.at("http://a:1"), "its own memory is enough"
    there = Responses(pool, board, b"secret")
    await there.recall(call(), NEXT)
    assert there.keeper(call(), NEXT) is None
    board.away, board.pinned = False, dict.fromkeys(board.pinned, b"[1]")
    await there.recall(call(), {})
    assert board.asked == 1, "who names no response asks for none"


async def test_nobody_is_told_a_workers_word_for_the_whole_fleets(pool: WorkerPool) -> None:
    there = Responses(pool)
    told = there.unknown(call(), NEXT, 404)
    assert told is not None and "redis_url" in told.message and "`input`" in told.message
    assert there.unknown(call(), NEXT, 200) is there.unknown(call(), {}, 404) is None
    assert Responses(WorkerPool(["http://a:1"])).unknown(call(), NEXT, 404) is None, "there is nobody else to ask"
    shared = Responses(pool, Board()).unknown(call(), NEXT, 404)
    assert shared is not None and "Redis" in shared.message and "redis_url" not in shared.message
    assert (await made(Board(), pool)).unknown(call(), NEXT, 404) is None, "he made it, and knows"
