"""The thread behind an embedder: batches, deadlines, hangs, cancellation, shutdown."""

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scripted_model import ScriptedModel

from cache.embedder import BatchingEmbedder
from cache.errors import EmbedderUnavailable, TextTooLong

DEADLINE_S = 0.2
PATIENT_S = 20.0


class Clock:
    """A monotonic clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    made = ScriptedModel()
    yield made
    made.gate.set()
    made.load_gate.set()


async def busy(model: ScriptedModel, embedder: BatchingEmbedder) -> asyncio.Task[NDArray[np.float32]]:
    """A question that the model works on until the gate opens."""
    model.gate.clear()
    model.entered.clear()
    asked = asyncio.ensure_future(embedder.embed("first"))
    await asyncio.to_thread(model.entered.wait, PATIENT_S)
    return asked


async def handed_over() -> None:
    """Let the questions that were just asked reach the queue."""
    await asyncio.sleep(0)


async def test_what_waits_meanwhile_is_computed_in_one_run(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=PATIENT_S) as embedder:
        first = await busy(model, embedder)
        others = asyncio.gather(*(embedder.embed(f"question {number}") for number in range(20)))
        await handed_over()
        model.gate.set()
        await asyncio.gather(first, others)
    assert [len(run) for run in model.runs] == [1, 20]


async def test_a_run_is_never_larger_than_allowed(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=PATIENT_S, max_batch=8) as embedder:
        first = await busy(model, embedder)
        others = asyncio.gather(*(embedder.embed(f"question {number}") for number in range(20)))
        await handed_over()
        model.gate.set()
        await asyncio.gather(first, others)
    assert [len(run) for run in model.runs] == [1, 8, 8, 4]


async def test_a_long_text_does_not_make_short_ones_wait_in_its_run(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=PATIENT_S, tokens_per_run=64) as embedder:
        first = await busy(model, embedder)
        others = asyncio.gather(*map(embedder.embed, ["word " * 60, "one", "two", "three"]))
        await handed_over()
        model.gate.set()
        await asyncio.gather(first, others)
    assert [len(run) for run in model.runs] == [1, 3, 1]


async def test_every_asker_gets_the_vector_of_its_own_text(model: ScriptedModel) -> None:
    texts = [f"question {number}" for number in range(50)]
    async with BatchingEmbedder(model, deadline_s=PATIENT_S) as embedder:
        alone = [await embedder.embed(text) for text in texts]
        together = await asyncio.gather(*map(embedder.embed, texts))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


async def test_under_overload_the_newest_is_served_first(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=PATIENT_S, max_batch=1) as embedder:
        first = await busy(model, embedder)
        others = asyncio.gather(*map(embedder.embed, ["older", "newer"]))
        await handed_over()
        model.gate.set()
        await asyncio.gather(first, others)
    assert model.runs == [["first"], ["newer"], ["older"]]


async def test_a_model_that_never_answers_costs_the_deadline_and_then_nothing(model: ScriptedModel) -> None:
    """CASES H1."""
    clock = Clock()
    loop = asyncio.get_running_loop()
    async with BatchingEmbedder(model, deadline_s=DEADLINE_S, clock=clock, shutdown_s=0.05) as embedder:
        model.gate.clear()
        began_s = loop.time()
        with pytest.raises(EmbedderUnavailable, match="200 ms"):
            await embedder.embed("how long do I wait?")
        assert DEADLINE_S <= loop.time() - began_s < 5 * DEADLINE_S

        asked = [asyncio.ensure_future(embedder.embed(f"question {number}")) for number in range(5)]
        await handed_over()
        clock.now_s += 10.0  # the hang goes on
        await asyncio.gather(*asked, return_exceptions=True)
        assert "open breaker" in repr(embedder)

        began_s = loop.time()
        with pytest.raises(EmbedderUnavailable, match="left alone"):
            await embedder.embed("and now?")
        assert loop.time() - began_s < DEADLINE_S
        assert model.runs == [["how long do I wait?"]]


async def test_a_model_that_comes_back_is_used_again(model: ScriptedModel) -> None:
    clock = Clock()
    async with BatchingEmbedder(model, deadline_s=DEADLINE_S, clock=clock, cooldown_s=5.0) as embedder:
        model.gate.clear()
        asked = [asyncio.ensure_future(embedder.embed(f"question {number}")) for number in range(5)]
        await handed_over()
        clock.now_s += 2.0
        await asyncio.gather(*asked, return_exceptions=True)
        assert "open breaker" in repr(embedder)
        model.gate.set()
        clock.now_s += 5.0
        assert (await embedder.embed("are you back?")).shape == (8,)
        assert "open breaker" not in repr(embedder)


async def test_a_failing_model_is_left_alone_and_tried_again(model: ScriptedModel) -> None:
    clock = Clock()
    model.failure = ValueError("out of memory")
    async with BatchingEmbedder(model, deadline_s=PATIENT_S, clock=clock, cooldown_s=500.0) as embedder:
        for _ in range(3):
            with pytest.raises(EmbedderUnavailable, match="out of memory"):
                await embedder.embed("hello")
            clock.now_s += 100.0
        with pytest.raises(EmbedderUnavailable, match="left alone"):
            await embedder.embed("hello")
        clock.now_s += 500.0
        model.failure = None
        assert (await embedder.embed("hello")).shape == (8,)


async def test_a_crowd_that_comes_too_late_does_not_look_like_a_hang(model: ScriptedModel) -> None:
    """Questions that time out while runs come back are overload: the breaker stays closed."""
    clock = Clock()
    async with BatchingEmbedder(model, deadline_s=DEADLINE_S, clock=clock, max_batch=1) as embedder:
        first = await busy(model, embedder)
        asked = [asyncio.ensure_future(embedder.embed(f"question {number}")) for number in range(10)]
        await handed_over()
        model.entered.clear()
        model.gate.set()
        await asyncio.gather(first)
        model.gate.clear()
        clock.now_s += 10.0
        await asyncio.gather(*asked, return_exceptions=True)
        assert "open breaker" not in repr(embedder)
        model.gate.set()


async def test_a_full_queue_refuses_at_once(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=PATIENT_S, queue_limit=3) as embedder:
        first = await busy(model, embedder)
        others = [asyncio.ensure_future(embedder.embed(f"question {number}")) for number in range(2)]
        await handed_over()
        with pytest.raises(EmbedderUnavailable, match="waiting already"):
            await embedder.embed("one too many")
        model.gate.set()
        await asyncio.gather(first, *others)


async def test_what_a_hung_model_leaves_in_the_queue_is_bounded(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=0.01, queue_limit=5, shutdown_s=0.05) as embedder:
        model.gate.clear()
        outcomes = [
            outcome
            for _ in range(4)
            for outcome in await asyncio.gather(*(embedder.embed("hello") for _ in range(5)), return_exceptions=True)
        ]
        assert {type(outcome) for outcome in outcomes} == {EmbedderUnavailable}
        assert embedder._inbox.qsize() <= 6


async def test_a_caller_that_left_is_not_computed(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=PATIENT_S) as embedder:
        first = await busy(model, embedder)
        leaving = asyncio.ensure_future(embedder.embed("leaving"))
        staying = asyncio.ensure_future(embedder.embed("staying"))
        await handed_over()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        model.gate.set()
        await asyncio.gather(first, staying)
    assert model.runs == [["first"], ["staying"]]


async def test_a_caller_that_gave_up_is_not_computed(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=DEADLINE_S) as embedder:
        first = await busy(model, embedder)
        late = asyncio.ensure_future(embedder.embed("late"))
        await asyncio.gather(first, late, return_exceptions=True)
        model.gate.set()
        await embedder.embed("in time")
    assert model.runs == [["first"], ["in time"]]


async def test_a_trial_whose_caller_left_does_not_lock_the_breaker(model: ScriptedModel) -> None:
    clock = Clock()
    async with BatchingEmbedder(model, deadline_s=DEADLINE_S, clock=clock, cooldown_s=5.0) as embedder:
        model.gate.clear()
        asked = [asyncio.ensure_future(embedder.embed(f"question {number}")) for number in range(5)]
        await handed_over()
        clock.now_s += 2.0
        await asyncio.gather(*asked, return_exceptions=True)
        clock.now_s += 5.0
        trial = asyncio.ensure_future(embedder.embed("trial"))
        await handed_over()
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)
        model.gate.set()
        assert (await embedder.embed("next")).shape == (8,)


async def test_one_text_that_is_too_long_does_not_spoil_the_others(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=PATIENT_S) as embedder:
        outcomes = await asyncio.gather(
            embedder.embed("a b c"), embedder.embed("w " * 100), embedder.embed("d"), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [np.ndarray, TextTooLong, np.ndarray]


@pytest.mark.parametrize("value", [np.nan, 0.0, np.inf])
async def test_a_vector_without_direction_is_no_vector(model: ScriptedModel, value: float) -> None:
    model.run = lambda batch: np.full((len(batch), 8), value, np.float32)  # type: ignore[method-assign]
    async with BatchingEmbedder(model, deadline_s=PATIENT_S) as embedder:
        with pytest.raises(EmbedderUnavailable, match="direction"):
            await embedder.embed("hello")


async def test_a_hung_model_does_not_hold_the_shutdown(model: ScriptedModel, caplog: pytest.LogCaptureFixture) -> None:
    embedder = BatchingEmbedder(model, deadline_s=PATIENT_S, shutdown_s=0.05)
    async with embedder:
        first = await busy(model, embedder)
    assert "left behind" in caplog.text
    with pytest.raises(EmbedderUnavailable, match="closing"):
        await first


async def test_shutdown_ends_the_thread(model: ScriptedModel) -> None:
    async with BatchingEmbedder(model, deadline_s=PATIENT_S) as embedder:
        await embedder.embed("hello")
        mine = [thread for thread in threading.enumerate() if thread.name == "rejoinder-embedder"]
    for thread in mine:
        await asyncio.to_thread(thread.join, PATIENT_S)
    assert not any(thread.is_alive() for thread in mine)


async def test_a_model_that_cannot_load_says_why(model: ScriptedModel) -> None:
    model.load_failure = OSError("no such file")
    with pytest.raises(EmbedderUnavailable, match="no such file"):
        async with BatchingEmbedder(model):
            pass


async def test_a_model_that_loads_for_ever_does_not_hold_the_start(model: ScriptedModel) -> None:
    model.load_gate.clear()
    with pytest.raises(EmbedderUnavailable, match="did not load"):
        async with BatchingEmbedder(model, load_timeout_s=0.05):
            pass


async def test_the_loop_goes_on_while_a_model_loads(model: ScriptedModel) -> None:
    model.load_gate.clear()
    embedder = BatchingEmbedder(model)
    entering = asyncio.ensure_future(embedder.__aenter__())
    await handed_over()
    assert not entering.done()
    model.load_gate.set()
    await entering
    await embedder.__aexit__(None, None, None)


async def test_nothing_is_known_before_it_is_entered(model: ScriptedModel) -> None:
    embedder = BatchingEmbedder(model)
    with pytest.raises(RuntimeError, match="enter it first"):
        _ = embedder.name
    with pytest.raises(RuntimeError, match="enter it first"):
        await embedder.embed("hello")
