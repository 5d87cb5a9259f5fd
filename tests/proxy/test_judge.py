"""The judge of the grey band: a caller waits for it, so it is quick, or it is not asked. Simulated workers play it."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from house import open_house
from prometheus_client.parser import text_string_to_metric_families

from cache import Judge
from proxy.demo import Pace, SimulatedWorker
from proxy.dispatch import Dispatch
from proxy.judge import VllmJudge
from proxy.metrics import Metrics
from proxy.routing.router import Router
from proxy.routing.workers import WorkerPool
from proxy.upstream import Upstream
from proxy.yes_or_no import TRIALS, prompt

CASE = ("Do you ship abroad?", "Do you ship to other countries?", "Yes, to all of Europe.")
KNOWN = {prompt(case): 0.95 if case.right else 0.05 for case in TRIALS}


def knowing(other: float = 0.9) -> Callable[[str], float]:
    """A judge that passes the self-test, and says this of everything else."""
    return lambda asked: KNOWN.get(asked, other)


class Court:
    """A worker that judges, and the judge that asks it."""

    def __init__(self, worker: SimulatedWorker, judge: VllmJudge, metrics: Metrics, pool: WorkerPool) -> None:
        self.worker, self.judge, self.metrics, self.pool = worker, judge, metrics, pool

    async def decided(self, why: str, on: bool) -> None:
        async with asyncio.timeout(10):
            while why not in self.judge.why or self.judge.on is not on:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def metric(self, name: str, **labels: str) -> float:
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.metrics.exposition().decode())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


@contextlib.asynccontextmanager
async def court(
    verdict: Callable[[str], float] | None, *, pace: Pace | None = None, up: bool = True, root: str = "weights-1",
    deadline_s: float = 1.0, **options: Any,
) -> AsyncIterator[Court]:  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        worker = await stack.enter_async_context(SimulatedWorker(pace=pace))
        worker.verdict = verdict
        upstream = await stack.enter_async_context(Upstream())
        pool = WorkerPool([worker.url])
        if up:
            for each in pool:
                pool.answered(each, {"demo": {"id": "demo", "root": root}})
        metrics = Metrics()
        dispatch = Dispatch(pool, upstream, Router(pool), first_byte_s=5.0, idle_s=5.0)
        judge = VllmJudge(dispatch, pool, metrics, model=None, deadline_s=deadline_s, **options)
        await stack.enter_async_context(judge)
        yield Court(worker, judge, metrics, pool)


async def test_a_judge_that_knows_our_own_cases_is_asked() -> None:
    async with court(knowing(0.93)) as c:
        await c.decided("10 of 10", on=True)
        judge: Judge = c.judge
        assert await judge.judge(*CASE) == pytest.approx(0.93, abs=1e-6)
        c.worker.verdict = knowing(0.2)
        assert await judge.judge(*CASE) == pytest.approx(0.2, abs=1e-6)
        body = c.worker.calls[-1].json
        assert body["model"] == "demo" and body["max_tokens"] == 1 and "Do you ship abroad?" in body["prompt"]
        assert c.metric("rejoinder_judge_on") == 1
        assert c.metric("rejoinder_judge_verdicts_total", outcome="yes") == 1
        assert c.metric("rejoinder_judge_verdicts_total", outcome="no") == 1
        assert c.metric("rejoinder_judge_seconds_count") == 2


async def test_the_worker_finds_the_instruction_in_its_prefix_cache() -> None:
    async with court(knowing()) as c:
        await c.decided("10 of 10", on=True)
        await c.judge.judge(*CASE)
        assert c.worker.calls[-1].cached_tokens > 100


@pytest.mark.parametrize("verdict", [lambda _: 0.9, lambda _: 0.1, None])
async def test_a_judge_that_fails_the_self_test_is_never_asked(verdict: Callable[[str], float] | None) -> None:
    """One that always says yes, one that always says no, and a model that only talks."""
    async with court(verdict) as c:
        await c.decided("own cases right", on=False)
        asked = len(c.worker.calls)
        assert await c.judge.judge(*CASE) is None
        assert len(c.worker.calls) == asked
        assert c.metric("rejoinder_judge_on") == 0
        assert c.metric("rejoinder_judge_verdicts_total", outcome="off") == 1
        assert c.judge.state()["on"] is False and "80% are needed" in c.judge.state()["why"]


async def test_a_judge_that_is_right_but_late_stays_off_and_is_tried_again() -> None:
    async with court(knowing(), pace=Pace(first_token_s=0.2), deadline_s=0.03, again_s=0.05) as c:
        await c.decided("too late", on=False)
        c.worker.pace = Pace()
        await c.decided("10 of 10", on=True)


async def test_other_weights_behind_the_same_name_are_tested_anew() -> None:
    async with court(lambda _: 0.9) as c:
        await c.decided("own cases right", on=False)
        c.worker.verdict = knowing()
        (worker,) = c.pool
        c.pool.answered(worker, {"demo": {"id": "demo", "root": "weights-2"}})
        await c.decided("10 of 10", on=True)


async def test_the_self_test_waits_for_a_worker() -> None:
    async with court(knowing(), up=False) as c:
        assert not c.judge.on and "no worker is up" in c.judge.why
        (worker,) = c.pool
        c.pool.answered(worker, {"demo": {"id": "demo", "root": "weights"}})
        await c.decided("10 of 10", on=True)


async def test_a_worker_that_does_not_answer_the_self_test_is_asked_again_later() -> None:
    async with court(knowing(), again_s=0.05) as c:
        c.worker.fault("status", status=500)
        await c.decided("no worker answered", on=False)
        c.worker.fault()
        await c.decided("10 of 10", on=True)


async def test_a_late_verdict_is_none_and_costs_no_more_than_the_deadline() -> None:
    async with court(knowing(), deadline_s=0.3) as c:
        await c.decided("10 of 10", on=True)
        c.worker.fault("hang")
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert await c.judge.judge(*CASE) is None
        assert loop.time() - began_s < 2
        assert c.metric("rejoinder_judge_verdicts_total", outcome="late") == 1
        await c.worker.until(lambda: c.worker.calls[-1].disconnected_at_s)  # vLLM aborts what nobody waits for


async def test_after_several_failures_nobody_waits_any_more_until_it_is_well() -> None:
    now_s = [0.0]
    async with court(knowing(), ticks=lambda: now_s[0]) as c:
        await c.decided("10 of 10", on=True)
        c.worker.fault("status", status=400)
        for _ in range(5):
            assert await c.judge.judge(*CASE) is None
        asked = len(c.worker.calls)
        assert await c.judge.judge(*CASE) is None
        assert len(c.worker.calls) == asked
        assert c.metric("rejoinder_judge_verdicts_total", outcome="failed") == 5
        assert c.metric("rejoinder_judge_verdicts_total", outcome="resting") == 1
        c.worker.fault()
        now_s[0] += 11
        assert await c.judge.judge(*CASE) is not None


async def test_who_leaves_while_the_judge_thinks_is_no_failure_of_the_judge() -> None:
    async with court(knowing(), deadline_s=5.0) as c:
        await c.decided("10 of 10", on=True)
        c.worker.fault("hang")
        before = len(c.worker.calls)
        waiting = asyncio.ensure_future(c.judge.judge(*CASE))
        await c.worker.until(lambda: len(c.worker.calls) > before)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        c.worker.fault()
        assert await c.judge.judge(*CASE) is not None


async def test_the_setting_switches_it_on_and_our_key_opens_the_worker(tmp_path: Path) -> None:
    async with SimulatedWorker(api_key="ours") as worker:
        worker.verdict = knowing()
        async with open_house(
            tmp_path, workers=[worker], judge="on", worker_api_key="ours", judge_deadline_s=1.0
        ) as h:  # fmt: skip
            judge = h.proxy.judge
            assert judge is not None
            await h.until(lambda: judge.on)
            assert (await h.send("GET", "/admin/trust")).json["judge"]["on"] is True
            assert await judge.judge(*CASE) == pytest.approx(0.9, abs=1e-6)
    async with open_house(tmp_path) as h:
        assert h.proxy.judge is None


async def test_a_worker_that_refuses_the_judge_is_logged_without_a_word_of_the_question(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "proxy")
    async with court(knowing()) as c:
        await c.decided("10 of 10", on=True)
        error = {"error": {"message": "my PIN is 4711", "type": "BadRequestError", "param": None, "code": 400}}
        c.worker.fault("raw", pieces=[base64.b64encode(_reply(400, orjson.dumps(error))).decode()])
        assert await c.judge.judge(*CASE) is None
    assert "400 BadRequestError" in caplog.text and "4711" not in caplog.text


def _reply(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )
