"""Stored responses pass by, and are remembered."""

from collections.abc import AsyncIterator

import pytest
from multidict import CIMultiDict

from proxy.auth import Tenant
from proxy.call import Call
from proxy.errors import ResponseGone
from proxy.responses import Responses
from proxy.routing.choice import Choice, Kind, Prompt
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
