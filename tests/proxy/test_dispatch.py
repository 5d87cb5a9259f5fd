"""The failure contract: what is asked of another worker, what is told, and what is never repeated."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import orjson
import pytest

from proxy.demo import SimulatedWorker
from proxy.dispatch import Dispatch, Errand, told_chunks
from proxy.errors import ModelNotFound, NoWorker, ProxyError, UpstreamFailed, UpstreamTimedOut
from proxy.routing.choice import Prompt
from proxy.routing.router import Router
from proxy.routing.workers import DownBecause, State, WorkerPool
from proxy.upstream import Upstream


@dataclass
class House:
    """Simulated workers, all known to be up, and a dispatch in front of them."""

    workers: list[SimulatedWorker]
    pool: WorkerPool
    router: Router
    dispatch: Dispatch

    @property
    def home(self) -> SimulatedWorker:
        """Who is asked first for session "s"."""
        url = self.router.choose(Prompt("demo", "s")).worker.url
        return next(worker for worker in self.workers if worker.url == url)

    @property
    def others(self) -> list[SimulatedWorker]:
        return [worker for worker in self.workers if worker is not self.home]

    def known(self, worker: SimulatedWorker) -> State:
        found = self.pool.find(worker.url)
        assert found is not None
        return found.state

    @property
    def calls(self) -> list[int]:
        return [len(worker.calls) for worker in self.workers]


@contextlib.asynccontextmanager
async def house(
    count: int = 2,
    *,
    first_byte_s: float | None = 5.0,
    idle_s: float | None = 5.0,
    retries: int = 2,
) -> AsyncIterator[House]:
    async with asyncio.timeout(20), contextlib.AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(SimulatedWorker()) for _ in range(count)]
        upstream = await stack.enter_async_context(Upstream())
        pool = WorkerPool([worker.url for worker in workers])
        for worker in pool:
            pool.answered(worker, {"demo": {"id": "demo"}})
        router = Router(pool)
        dispatch = Dispatch(pool, upstream, router, first_byte_s=first_byte_s, idle_s=idle_s, retries=retries)
        yield House(workers, pool, router, dispatch)
        assert all(worker.idle for worker in pool), "every booking was given back"


def errand(
    question: str = "Why?", *, model: str | None = "demo", session: str | None = "s", stream: bool = False
) -> Errand:
    body = orjson.dumps({"model": model, "messages": [{"role": "user", "content": question}], "stream": stream})
    return Errand(
        "POST",
        "/v1/chat/completions",
        [("Content-Type", "application/json")],
        body,
        Prompt(model, session, stream=stream),
    )


async def asked(here: House, what: Errand | None = None) -> tuple[int, bytes, str]:
    async with here.dispatch.ask(what or errand()) as (ride, reply):
        return reply.status, await reply.read(), ride.choice.worker.url


async def test_the_home_of_the_session_answers() -> None:
    async with house(3) as here:
        status, body, url = await asked(here)
        assert (status, url) == (200, here.home.url)
        assert b"simulated answer" in body
        assert sum(here.calls) == 1


async def test_a_worker_is_booked_while_it_answers() -> None:
    async with house() as here, here.dispatch.ask(errand()) as (ride, reply):
        assert ride.choice.worker.in_flight == 1
        await reply.read()
        assert ride.choice.worker.in_flight == 1


async def test_a_refused_connection_is_asked_elsewhere_unseen() -> None:
    async with house() as here:
        home, (other,) = here.home, here.others
        await home.kill()
        status, _, url = await asked(here)
        assert (status, url) == (200, other.url)
        assert here.known(home) is State.DOWN
        assert next(w for w in here.pool if w.url == home.url).down_because is DownBecause.CONNECT


async def test_a_death_before_the_first_byte_is_asked_elsewhere_but_makes_nobody_down() -> None:
    async with house() as here:
        home, (other,) = here.home, here.others
        home.fault("reset")
        status, _, url = await asked(here)
        assert (status, url) == (200, other.url)
        assert here.known(home) is State.UP
        assert next(w for w in here.pool if w.url == home.url).suspect


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_busy_worker_is_asked_elsewhere(status: int) -> None:
    async with house() as here:
        home, (other,) = here.home, here.others
        home.fault("status", status=status)
        assert (await asked(here))[::2] == (200, other.url)
        assert here.known(home) is State.UP


@pytest.mark.parametrize("status", [400, 404, 413, 500])
async def test_any_other_status_is_the_workers_answer(status: int) -> None:
    async with house() as here:
        home = here.home
        home.fault("status", status=status)
        assert (await asked(here))[::2] == (status, home.url)
        assert sum(here.calls) == 1


async def test_when_all_are_busy_the_last_ones_own_words_are_passed_on() -> None:
    async with house() as here:
        for worker in here.workers:
            worker.fault("status", status=503, retry_after_s=7)
        async with here.dispatch.ask(errand()) as (_, reply):
            assert reply.status == 503
            assert ("Retry-After", "7") in reply.headers
            assert b"simulated 503" in await reply.read()
        assert here.calls == [1, 1]


async def test_a_busy_worker_without_another_is_not_asked_again() -> None:
    async with house(1) as here:
        here.home.fault("status", status=503)
        assert (await asked(here))[0] == 503
        assert here.calls == [1]


async def test_a_busy_worker_is_not_left_for_one_that_serves_another_model() -> None:
    async with house() as here:
        home, (other,) = here.home, here.others
        worker = here.pool.find(other.url)
        assert worker is not None
        here.pool.answered(worker, {"else": {"id": "else"}})
        home.fault("status", status=503)
        assert (await asked(here))[::2] == (503, home.url)
        assert len(other.calls) == 0


async def test_at_most_two_others_are_asked() -> None:
    async with house(5) as here:
        for worker in here.workers:
            worker.fault("reset")
        with pytest.raises(NoWorker, match="could be reached") as told:
            await asked(here)
        assert told.value.retry_after_s == 2
        assert sum(1 for worker in here.workers if worker.calls) == 3


async def test_where_there_is_no_other_the_trouble_is_told() -> None:
    async with house() as here:
        for worker in here.workers:
            await worker.kill()
        with pytest.raises(NoWorker, match="No worker is up") as told:
            await asked(here)
        assert "127.0.0.1" not in told.value.message, "where workers live is not for every client"
        assert told.value.status == 503


async def test_a_worker_that_says_nothing_is_a_timeout_and_not_repeated() -> None:
    async with house(first_byte_s=0.05) as here:
        home = here.home
        home.fault("hang")
        with pytest.raises(UpstreamTimedOut, match=r"nothing within 0\.05 s"):
            await asked(here)
        assert sum(here.calls) == 1
        await home.until(lambda: home.calls[0].disconnected_at_s)


async def test_a_stream_that_stalls_is_a_timeout_after_what_was_said() -> None:
    async with house(idle_s=0.05) as here:
        here.home.fault("stall", after=2)
        told = b""
        with pytest.raises(UpstreamTimedOut, match="took too long"):
            async with here.dispatch.ask(errand(stream=True)) as (_, reply):
                async for piece in reply.chunks():
                    told += piece
        assert told.count(b"data: ") == 2
        assert sum(here.calls) == 1


async def test_after_the_first_byte_nothing_is_repeated() -> None:
    async with house() as here:
        here.home.fault("die", after=2)
        told = b""
        with pytest.raises(UpstreamFailed, match="not complete"):
            async with here.dispatch.ask(errand(stream=True)) as (_, reply):
                async for piece in reply.chunks():
                    told += piece
        assert told.startswith(b"data: ")
        assert sum(here.calls) == 1


async def test_who_leaves_early_stops_the_worker() -> None:
    async with house() as here:
        home = here.home
        home.pace.token_s = 0.01
        async with here.dispatch.ask(errand(stream=True)) as (_, reply):
            await anext(reply.chunks())
        await home.until(lambda: home.calls[0].disconnected_at_s)


async def test_an_error_of_whoever_listens_is_not_the_workers() -> None:
    async with house() as here:
        with pytest.raises(KeyError):
            async with here.dispatch.ask(errand()):
                raise KeyError("mine")
        assert sum(here.calls) == 1
        assert here.known(here.home) is State.UP


async def test_nobody_to_ask_is_said_before_anybody_is_asked() -> None:
    async with house() as here:
        for worker in here.pool:
            here.pool.unreachable(worker)
        with pytest.raises(NoWorker, match="No worker that serves `demo` is up") as told:
            await asked(here)
        assert told.value.retry_after_s == 2
        with pytest.raises(ProxyError):
            await asked(here, errand(model=None))
        assert here.calls == [0, 0]


async def test_an_unknown_model_is_not_sent_to_anybody() -> None:
    async with house() as here:
        with pytest.raises(ModelNotFound, match="`nonsense`"):
            await asked(here, errand(model="nonsense"))
        assert here.calls == [0, 0]


async def test_a_session_lives_where_it_was_answered_also_after_its_first_home_is_back() -> None:
    async with house() as here:
        home, (other,) = here.home, here.others
        home.fault("reset", times=1)
        assert (await asked(here))[2] == other.url
        assert (lives := here.router.homes.of("s")) is not None and lives.url == other.url
        assert (await asked(here))[2] == other.url
        assert here.router.choose(Prompt("demo", "s")).reason == "session: at home"


async def test_an_error_of_a_worker_makes_it_nobodys_home() -> None:
    async with house() as here:
        here.home.fault("status", status=500, times=1)
        assert (await asked(here))[0] == 500
        assert here.router.homes.of("s") is None


@pytest.mark.parametrize("status", [400, 429])
async def test_a_worker_that_refuses_a_turn_does_not_become_the_sessions_home(status: int) -> None:
    async with house() as here:
        home = (await asked(here))[2]
        for worker in here.workers:
            worker.fault("status", status=status, times=2)
        here.pool.unreachable(next(worker for worker in here.pool if worker.url == home))
        assert (await asked(here))[0] == status
        assert (lives := here.router.homes.of("s")) is not None and lives.url == home


@pytest.mark.parametrize(("mode", "error"), [("die", UpstreamFailed), ("stall", UpstreamTimedOut)])
async def test_whoever_only_passes_bytes_on_hears_of_a_failure_in_the_clients_words(
    mode: str, error: type[ProxyError]
) -> None:
    async with house(idle_s=0.05) as here:
        here.home.fault(mode, after=2)
        async with here.dispatch.ask(errand(stream=True)) as (_, reply):
            with pytest.raises(error):
                _ = [piece async for piece in told_chunks(reply)]


async def test_a_reply_that_breaks_off_after_its_headers_is_not_asked_elsewhere() -> None:
    async with house() as here:
        here.home.fault("die", after=0)
        with pytest.raises(UpstreamFailed):
            async with here.dispatch.ask(errand(stream=True)) as (_, reply):
                assert reply.status == 200
                await reply.read()
        assert sum(here.calls) == 1


async def test_without_retries_a_busy_workers_own_words_are_passed_on() -> None:
    async with house(retries=0) as here:
        here.home.fault("status", status=503)
        assert (await asked(here))[0] == 503


async def test_without_retries_the_first_failure_is_told() -> None:
    async with house(retries=0) as here:
        here.home.fault("reset")
        with pytest.raises(NoWorker):
            await asked(here)
        assert sum(1 for worker in here.workers if worker.calls) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_a_worker_that_asks_for_time_is_left_alone_and_stays_up(status: int) -> None:  # sglang#25811
    async with house() as here:
        home, (other,) = here.home, here.others
        home.fault("status", status=status, times=1, retry_after_s=30)
        assert (await asked(here))[0] == 200
        assert here.known(home) is State.UP
        assert (await asked(here))[2] == other.url and here.home is other
