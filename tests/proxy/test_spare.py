"""The idle time of workers: nobody who waits is disturbed by it, and no worker gives more than was agreed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.routing.workers import Worker, WorkerPool
from proxy.spare import Refused, SpareTime
from proxy.upstream_errors import WorkerFailed

URL = "http://127.0.0.1:9"
RESTS = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"


class Asked:
    """An upstream that answers every request alike. during: called while /metrics is being read."""

    def __init__(self, text: str = RESTS, status: int = 200) -> None:
        self.text, self.status, self.asked = text, status, 0
        self.during: Any = lambda: None

    @contextlib.asynccontextmanager
    async def ask(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.asked += 1

        async def read() -> bytes:
            self.during()
            return self.text.encode()

        yield SimpleNamespace(status=self.status, read=read)


class Ticks:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def house(
    *, share: float = 1.0, kinds: tuple[str, ...] = ("a",), priority: bool = False
) -> tuple[SpareTime, Worker, WorkerPool, Asked, Ticks]:
    pool, upstream, ticks = WorkerPool((URL,)), Asked(), Ticks()
    (worker,) = pool
    pool.answered(worker, {"m": {"id": "m"}})
    spare = SpareTime(pool, upstream, share=share, kinds=kinds, priority=priority, ticks=ticks)  # type: ignore[arg-type]
    ticks.now_s += 1000
    return spare, worker, pool, upstream, ticks


def anybody(_: Worker) -> bool:
    return True


async def nothing() -> None:
    return None


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_an_idle_worker_is_found_and_one_in_use_is_not() -> None:
    spare, worker, pool, upstream, _ = house()
    assert await spare.find("a", anybody) == (worker, 0.0)
    with pool.booked(worker):
        found, pause_s = await spare.find("a", anybody)
        assert found is None and 0 < pause_s < 1
    assert upstream.asked == 1, "where our own books say no, nobody else is asked"
    assert await spare.find("a", lambda _: False) == (None, float("inf"))


async def test_a_worker_that_others_use_is_left_alone_for_a_while() -> None:
    spare, worker, _, upstream, ticks = house()
    upstream.text = RESTS.replace("running 0", "running 1")
    assert (await spare.find("a", anybody))[0] is None
    upstream.text = RESTS
    assert (await spare.find("a", anybody))[0] is None and upstream.asked == 1
    ticks.now_s += 1.1
    assert (await spare.find("a", anybody))[0] is worker


async def test_a_user_who_comes_while_metrics_are_read_is_seen() -> None:
    spare, worker, pool, upstream, _ = house()
    upstream.during = pool.booked(worker).__enter__
    assert (await spare.find("a", anybody))[0] is None


async def test_a_worker_that_leaves_while_metrics_are_read_is_not_used() -> None:
    spare, worker, pool, upstream, _ = house(kinds=("a", "b"))

    def left() -> None:
        pool.remove(worker)
        spare._allow(0.0)

    upstream.during = left
    assert (await spare.find("a", anybody))[0] is None


async def test_a_user_ends_it_at_once() -> None:
    spare, worker, pool, _, _ = house()
    using = asyncio.create_task(spare.use("a", worker, for_ever))
    await asyncio.sleep(0)
    assert worker.guest is not None
    with pool.booked(worker):
        assert (await asyncio.wait_for(using, 1)).why == "yielded"
    assert worker.guest is None


async def test_two_never_use_one_worker_together() -> None:
    """There is one `guest`: the second would have to stay when a user comes."""
    for priority in (False, True):
        spare, worker, _, _, _ = house(kinds=("a", "b"), priority=priority)
        using = asyncio.create_task(spare.use("a", worker, for_ever))
        await asyncio.sleep(0)
        assert (await spare.find("b", anybody))[0] is None
        using.cancel()
        await asyncio.gather(using, return_exceptions=True)
        assert worker.guest is None
        assert (await spare.find("b", anybody))[0] is worker


async def test_where_the_worker_keeps_priorities_a_busy_one_will_do() -> None:
    spare, worker, pool, upstream, _ = house(priority=True)
    with pool.booked(worker):
        assert (await spare.find("a", anybody))[0] is worker
        assert (await spare.use("a", worker, nothing)).why is None
    assert upstream.asked == 0


async def test_kinds_share_the_time_evenly_and_one_cannot_take_what_another_saves() -> None:
    spare, worker, _, _, ticks = house(share=0.1, kinds=("a", "b"))

    async def hour() -> None:
        ticks.now_s += 40.0

    await spare.use("a", worker, hour)
    assert (await spare.find("a", anybody))[0] is None, "it has spent 40 of its 50 seconds, and may need 40 again"
    assert spare.state("a")[worker.name]["spent_s"] == 40
    assert spare.state("b")[worker.name] == {"spent_s": 0.0, "saved_s": 52.0}
    assert (await spare.find("b", anybody))[0] is worker


async def test_what_takes_longer_than_was_saved_is_stopped() -> None:
    spare, worker, _, _, ticks = house(share=0.5)
    ticks.now_s -= 999.9
    ended = await asyncio.wait_for(spare.use("a", worker, for_ever), 2)
    assert ended.why == "over budget"


async def test_how_it_ended_is_told_and_a_bug_is_not_hidden() -> None:
    spare, worker, _, upstream, _ = house()

    async def post() -> None:
        await spare.post(worker, "/v1/x", b"{}", "id")

    upstream.text, upstream.status = "{}", 200
    assert (await spare.use("a", worker, post)).why is None
    upstream.status = 401
    assert (await spare.use("a", worker, post)).why == "refused"
    upstream.status = 503
    assert (await spare.use("a", worker, post)).why == "failed"

    async def bug() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await spare.use("a", worker, bug)
    assert worker.guest is None and (await spare.find("a", lambda _: False))[0] is None
    with pytest.raises(Refused):
        upstream.status = 400
        await post()
    with pytest.raises(WorkerFailed):
        upstream.status = 500
        await post()


def test_it_is_off_without_time_or_without_that_kind() -> None:
    assert house()[0].on("a")
    assert not house()[0].on("b")
    assert not house(share=0.0)[0].on("a")


async def test_a_refusal_that_quotes_the_prompt_is_logged_without_it(caplog: pytest.LogCaptureFixture) -> None:
    spare, worker, _, upstream, _ = house()
    upstream.status = 400
    upstream.text = '{"error": {"message": "Cannot parse: my PIN is 4711", "type": "BadRequestError", "code": 400}}'

    async def post() -> None:
        await spare.post(worker, "/v1/x", b"{}", "id")

    assert (await spare.use("a", worker, post)).why == "refused"
    assert "refused a a: 400 BadRequestError" in caplog.text and "4711" not in caplog.text
