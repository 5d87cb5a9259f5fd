"""A part of the cache is slow, hung, gone or broken: a counted miss, never a client's error. CASES.md, group H."""

import asyncio
import time
from collections.abc import Sequence

import numpy as np
import orjson
import pytest
from embedders import Placed, alike
from house import Clock, OpenHouse, request
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from cache.embedder import BatchingEmbedder, HashingEmbedder, ModelFacts
from cache.entry import Vector


class Hung:
    """A model that loads well and then never answers, until it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.asked = 0

    def load(self) -> ModelFacts:
        return ModelFacts("hung", 2, 0.8, frozenset({"en"}), 256)

    def tokenize(self, text: str) -> Sequence[int]:
        return [1] * len(text.split())

    def run(self, batch: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        self.asked += 1
        asyncio.run_coroutine_threadsafe(self.let_go.wait(), self.loop).result(30)
        return np.tile(np.array([1.0, 0.0], dtype=np.float32), (len(batch), 1))


async def test_a_hung_embedder_costs_its_deadline_then_nothing_and_comes_back(house: OpenHouse) -> None:
    """H1 (litellm PR#37742): an unreachable embedder held each chat for 685 s."""
    model, clock = Hung(), Clock(0.0)
    embedder = BatchingEmbedder(model, deadline_s=0.05, cooldown_s=5.0, tolerated_failures=3, clock=clock)
    async with house(embedder=embedder) as h:
        await h.ask("Is this the first question?")  # storing it needs a vector, too: the scope stays empty
        model.let_go.set()
        await h.ask("Is this the second question?", cache_control="no-cache")
        model.let_go.clear()
        durations = []
        for n in range(8):
            clock.pass_by(0.3)
            began_s = time.perf_counter()
            told = await h.post("/v1/chat/completions", body_of(f"Is this question number {n}?"))
            durations.append(time.perf_counter() - began_s)
            assert (told.status, told.hit) == (200, False)
            again = await h.ask(f"Is this question number {n}?")
            assert again.hit, "what repeats itself needs no vector"
        assert max(durations) < 0.05 + 0.25, "the deadline, and this machine's noise"
        assert "open breaker" in repr(embedder)
        assert await h.metric("rejoinder_misses_total", reason="embedder-unavailable") >= 8
        asked = model.asked
        assert not (await h.ask("Is this asked of a model that is known to hang?")).hit
        assert model.asked == asked, "an open breaker asks nobody"
        model.let_go.set()
        clock.pass_by(6.0)
        await h.ask("May it try again?")
        await h.ask("May it try again now?")
        assert "open breaker" not in repr(embedder)


def body_of(question: str) -> bytes:
    return orjson.dumps(request(question))


class Broken(Placed):
    """An embedder with a bug."""

    broken = False

    async def embed(self, text: str) -> Vector:
        if self.broken:
            raise ZeroDivisionError("a bug in the embedder")
        return await super().embed(text)


async def test_a_bug_in_the_cache_is_a_miss_for_the_client(house: OpenHouse, caplog: pytest.LogCaptureFixture) -> None:
    """H2, the kind: whatever breaks in there, a worker still knows the answer."""
    embedder = Broken()
    async with house(embedder=embedder) as h:
        await h.ask("Why is the sky blue?")
        embedder.broken = True
        told = await h.ask("Why is the sky so blue?")
        assert (told.status, told.hit) == (200, False)
        assert (await h.ask("Why is the sky blue?")).hit
        assert "a bug in the embedder" in caplog.text, "and the operator is told"
        assert await h.metric("rejoinder_misses_total", reason="broken") == 1


async def test_a_question_is_embedded_at_most_once(house: OpenHouse) -> None:
    """H5 (semantic-router#2290, gbrain#4839): twice per miss."""
    embedder = alike()
    async with house(embedder=embedder) as h:
        first = "Why is the sky blue?"
        await h.ask(first)
        assert embedder.asked == [first], "to store it"
        for repeated in (first, "Please, why is the sky blue?"):
            assert (await h.ask(repeated, stream=True)).hit
        assert embedder.asked == [first], "what is found by its bytes or words needs none"
        for question in ("Why is the sky so blue?", "How many moons has Mars?"):
            await h.ask(question)
        assert sorted(embedder.asked) == sorted([first, "Why is the sky so blue?", "How many moons has Mars?"])
        await h.ask("How many moons has Venus?", cache_control="no-store")
        await h.ask("How many moons has Jupiter?", response_format={"type": "json_object"})
        await h.ask("What is my account balance?", session="s")
        assert len(embedder.asked) == 3, "what is never compared by meaning needs none"


@pytest.mark.parametrize("dim", [8, 384, 768, 1024, 4096])
async def test_the_embedder_may_have_any_dimension(house: OpenHouse, dim: int) -> None:
    """H7 (litellm#4001 …): 1,536 was fixed."""
    async with house(embedder=HashingEmbedder(dim, threshold=0.7)) as h:
        await h.ask("How do I reset the password?")
        told = await h.explain("How can I reset the password?")
        assert told["candidates"][0]["similarity"] > 0.5


async def test_another_embedder_never_reads_the_vectors_of_the_one_before(house: OpenHouse) -> None:
    """H7: swapping it never mixes vectors, and never keeps the doors shut. Exact repetitions stay."""
    for dim, found in ((64, 0), (384, 0), (64, 1)):
        async with house(embedder=HashingEmbedder(dim, threshold=0.7)) as h:
            told = await h.explain("How can I reset the password?")
            assert len(told["candidates"]) == found, f"with {dim} dimensions"
            await h.ask("How do I reset the password?")
            assert h.calls == (1 if (dim, found) == (64, 0) else 0)


async def test_without_an_embedder_everything_but_meaning_works(house: OpenHouse) -> None:
    """H7: `embedder = none` is a way to run."""
    async with house(embedder="none") as h:
        await h.ask("Why is the sky blue?")
        assert (await h.ask("please, why is the sky blue", stream=True)).hit
        assert not (await h.ask("Why is the sky so blue?")).hit
        assert await h.metric("rejoinder_misses_total", reason="no-embedder") == 2


async def test_a_long_question_is_a_miss_and_not_an_error(house: OpenHouse) -> None:
    """H1, design: more text than the embedder sees is never compared by meaning, and still by its bytes."""
    async with house() as h:
        await h.ask("Why is the sky blue?")
        for repetitions, reason in ((60, "too-long"), (200, "not-recent")):  # for the embedder; for any comparison
            question = "Explain this sentence, please: " + "the quick brown fox jumps over the lazy dog " * repetitions
            before = await h.metric("rejoinder_misses_total", reason=reason)
            assert not (await h.ask(question)).hit
            assert (await h.ask(question)).hit
            assert not (await h.ask(question + "again")).hit
            assert await h.metric("rejoinder_misses_total", reason=reason) == before + 2


async def test_lookups_are_hits_and_misses_and_every_miss_has_a_reason(house: OpenHouse) -> None:
    """I5, metrics' own identity."""
    async with house(embedder=alike()) as h:
        for question in ("Why is the sky blue?", "Why is the sky blue?", "Tell me a joke", "How many moons has Mars?"):
            await h.ask(question)
        await h.ask(cache_control="no-store")
        text = (await h.send("GET", "/metrics")).body.decode()
        count = {family.name: sum(s.value for s in family.samples if s.name.endswith("_total"))
                 for family in text_string_to_metric_families(text)}  # fmt: skip
        assert count["rejoinder_lookups"] == 5
        assert count["rejoinder_hits"] + count["rejoinder_misses"] == 5
        assert count["rejoinder_hits"] >= 1
