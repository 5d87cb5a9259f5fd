import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from scripted import Asked, ScriptedWorker

from proxy.demo import SimulatedWorker
from proxy.health import SOONEST_S, Health, cards_of
from proxy.routing.workers import DownBecause, State, Worker, WorkerPool
from proxy.upstream import Upstream
from proxy.upstream_errors import WorkerUnreachable


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream(connect_s=2.0) as opened:
        yield opened


def quick(pool: WorkerPool, upstream: Upstream, **settings: object) -> Health:
    return Health(pool, upstream, **{"interval_s": 0.1, "timeout_s": 0.3, **settings})


async def until(pool: WorkerPool, happened: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Wait for something that a change of the pool makes true."""
    changed = asyncio.Event()
    stop = pool.on_change(changed.set)
    try:
        async with asyncio.timeout(timeout_s):
            while not happened():
                changed.clear()
                await changed.wait()
    finally:
        stop()


async def test_workers_are_up_with_their_models_as_soon_as_they_answer(upstream: Upstream) -> None:
    async with SimulatedWorker(models=["m"]) as a, SimulatedWorker(models=["m", "lora"]) as b:
        pool = WorkerPool([a.url, b.url])
        async with quick(pool, upstream) as health:
            assert await health.wait_ready(10, workers=2)
        assert pool.find(b.url).models == {"m", "lora"}
        assert [card["id"] for card in pool.models()] == ["m", "lora"]
        assert pool.models()[0]["owned_by"] == "rejoinder-simulated" and pool.models()[0]["max_model_len"] == 8192
        assert {w.generation for w in pool} == {0}


async def test_a_worker_that_hangs_does_not_delay_the_news_of_the_others(upstream: Upstream) -> None:
    async with SimulatedWorker() as hung, SimulatedWorker() as well:
        hung.fault("deaf")
        pool = WorkerPool([hung.url, well.url])
        async with quick(pool, upstream, timeout_s=60.0) as health:
            assert await health.wait_ready(10)
            assert pool.find(well.url).state is State.UP and pool.find(hung.url).state is State.UNKNOWN
            assert not await health.wait_ready(0.05, workers=2)


@pytest.mark.parametrize("mode", ["unhealthy", "deaf"])
async def test_a_sick_worker_goes_down_and_is_the_same_one_when_it_is_well(upstream: Upstream, mode: str) -> None:
    async with SimulatedWorker() as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        async with quick(pool, upstream) as health:
            assert await health.wait_ready(10)
            server.fault(mode)
            await until(pool, lambda: worker.state is State.DOWN)
            assert worker.down_because is DownBecause.PROBE and worker.trouble
            server.fault()
            await until(pool, lambda: worker.state is State.UP)
            assert worker.generation == 0 and worker.on_trial


async def test_a_killed_worker_goes_down_and_its_restart_is_noticed(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        async with quick(pool, upstream) as health:
            assert await health.wait_ready(10)
            await server.kill()
            await until(pool, lambda: worker.state is State.DOWN)
            await server.start()
            await until(pool, lambda: worker.state is State.UP)


async def test_a_request_that_cannot_connect_ejects_at_once_and_brings_a_probe_at_once(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        async with quick(pool, upstream, interval_s=3600) as health:
            assert await health.wait_ready(10)
            await server.kill()
            with pytest.raises(WorkerUnreachable) as failed:
                async with upstream.ask(worker, "GET", "/v1/models"):
                    pass
            await server.start()
            pool.unreachable(worker, failed.value.trouble, connected=failed.value.connected)
            assert worker.state is State.DOWN
            began_s = time.monotonic()
            await until(pool, lambda: worker.state is State.UP)  # and not after an hour
            assert time.monotonic() - began_s < 5


async def test_a_storm_of_failures_is_not_a_storm_of_probes(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        async with quick(pool, upstream, interval_s=3600) as health:
            assert await health.wait_ready(10)
            began_s, before = time.monotonic(), server.health_checks
            while time.monotonic() - began_s < 0.5:
                pool.unreachable(worker, "dropped", connected=True)
                await asyncio.sleep(0.001)
            assert 1 <= server.health_checks - before <= 0.5 / SOONEST_S + 2


async def test_probes_that_time_out_do_not_eject_a_worker_that_answers(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        changes: list[State] = []
        async with quick(pool, upstream, interval_s=0.5, timeout_s=0.05) as health:
            assert await health.wait_ready(10)
            pool.on_change(lambda: changes.append(worker.state))
            server.fault("deaf")
            checked = server.health_checks
            while server.health_checks < checked + 4:
                pool.saw_bytes(worker)
                await asyncio.sleep(0.01)
            assert State.DOWN not in changes
            await until(pool, lambda: worker.state is State.DOWN)  # and now it is silent altogether


async def test_a_worker_whose_models_we_may_not_read_is_up_and_may_serve_any(upstream: Upstream) -> None:
    async with SimulatedWorker(api_key="k") as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        async with quick(pool, upstream) as health:
            assert await health.wait_ready(10)
            assert worker.models == frozenset() and worker.serves("anything")
        async with quick(pool, upstream, headers=[("Authorization", "Bearer k")]):
            await until(pool, lambda: worker.models == {"demo"})


async def test_workers_that_are_added_are_probed_and_removed_ones_are_left_alone(upstream: Upstream) -> None:
    async with SimulatedWorker() as a, SimulatedWorker() as b:
        pool = WorkerPool([a.url])
        async with quick(pool, upstream) as health:
            assert await health.wait_ready(10)
            added = pool.add(b.url)
            assert await health.wait_ready(10, workers=2)
            pool.remove(added)
            await a.until(lambda seen=a.health_checks: a.health_checks > seen + 1)
            checked = b.health_checks
            await a.until(lambda seen=a.health_checks: a.health_checks > seen + 3)
            assert b.health_checks == checked


async def test_a_drained_worker_stays_drained_until_it_is_undrained(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        async with quick(pool, upstream) as health:
            assert await health.wait_ready(10)
            pool.drain(worker)
            await server.until(lambda seen=server.health_checks: server.health_checks > seen + 2)
            assert worker.state is State.DRAINING
            pool.undrain(worker)
            await until(pool, lambda: worker.state is State.UP)


async def test_new_models_of_a_running_worker_are_noticed(upstream: Upstream) -> None:
    async with SimulatedWorker(models=["m"]) as server:
        pool = WorkerPool([server.url])
        async with quick(pool, upstream) as health:
            assert await health.wait_ready(10)
            server.models = ("m", "lora")
            await until(pool, lambda: pool.find(server.url).models == {"m", "lora"})


async def test_leaving_ends_every_probe() -> None:
    before = asyncio.all_tasks()
    async with SimulatedWorker() as server, Upstream() as upstream:
        server.fault("deaf")
        pool = WorkerPool([server.url])
        async with quick(pool, upstream, timeout_s=60.0):
            await server.until(lambda: server.health_checks)
        pool.add(Worker("http://127.0.0.1:9"))
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'{"data": 7}', b'{"data": [7]}', b'{"data": [{}]}'])
def test_what_is_no_list_of_models_tells_nothing(body: bytes) -> None:
    assert cards_of(body) is None


def test_a_list_of_models_is_read() -> None:
    assert cards_of(b'{"data": [{"id": "m", "x": 1}]}') == {"m": {"id": "m", "x": 1}}


async def test_what_a_worker_says_of_itself_is_read_now_and_then(upstream: Upstream) -> None:
    async with SimulatedWorker() as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        async with quick(pool, upstream, interval_s=0.02) as health:
            assert await health.wait_ready(10)
            checks = server.health_checks
            await server.until(lambda: server.health_checks > checks + 1)
            first = worker.gauges
            assert first is not None and (first.running, first.waiting) == (0, 0)
            assert first.block_size and first.num_gpu_blocks and first.started_s
            await server.until(lambda: worker.gauges is not first)
            assert worker.gauges.read_at_s > first.read_at_s and worker.gauges.started_s == first.started_s
            assert worker.generation == 0


async def test_a_restart_between_two_probes_is_a_new_generation(upstream: Upstream) -> None:
    """14: the port answers again before anybody noticed that it had not."""
    async with SimulatedWorker() as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        async with quick(pool, upstream, interval_s=0.3, chance=lambda: 0.5) as health:
            assert await health.wait_ready(10)
            checks = server.health_checks
            await server.until(lambda: server.health_checks > checks)
            await server.kill()
            await server.start()
            await until(pool, lambda: worker.generation == 1)
            assert worker.state is State.UP


async def test_a_worker_without_metrics_is_up_all_the_same(upstream: Upstream) -> None:
    async def teapot(request: web.Request, _: Asked) -> web.StreamResponse:
        return web.Response(status=404)

    async with ScriptedWorker(teapot) as server:
        pool = WorkerPool([server.url])
        async with quick(pool, upstream) as health:
            assert await health.wait_ready(10)
            worker = pool.find(server.url)
            assert worker.state is State.UP and worker.gauges is None and worker.failures == 0


async def test_a_worker_that_comes_back_is_half_open_until_it_has_answered(upstream: Upstream) -> None:
    """28: explicit, not a side effect of a good probe."""
    async with SimulatedWorker() as server:
        pool = WorkerPool([server.url])
        worker = pool.find(server.url)
        async with quick(pool, upstream) as health:
            assert await health.wait_ready(10)
            pool.unreachable(worker)
            await until(pool, lambda: worker.state is State.UP)
            assert worker.on_trial, "a probe is no answer"
            headers = [("Content-Type", "application/json")]
            body = b'{"model": "demo", "prompt": "hi", "max_tokens": 1}'
            async with upstream.ask(worker, "POST", "/v1/completions", headers, body) as reply:
                assert reply.status == 200 and await reply.read()
            assert not worker.on_trial
