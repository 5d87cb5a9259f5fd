"""The observer by itself: it waits for nobody, is bounded, and learns nothing from what was forgotten on purpose."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from entries import entry

from cache import Agreement, Answer, Comparison, Evidence, Hit, Label, Likeness, Miss, Outcome, Reach, Verdict
from proxy.measured import Measured
from proxy.metrics import Metrics
from proxy.observer import REASON, ROOM, Observer
from proxy.openai import Told

EVIDENCE = Evidence(0.9, (), 0.98, "test")
STORED = b'{"choices":[{"message":{"content":"At nine."},"finish_reason":"stop"}]}'


@dataclass
class Comparing:
    """A comparator that says what the test says, once the gate is open."""

    says: Agreement = Agreement.AGREE
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[tuple[str, str]] = field(default_factory=list)
    broken: int = 0

    async def compare(self, fresh: str, served: str) -> Comparison:
        self.seen.append((fresh, served))
        await self.gate.wait()
        if self.broken:
            self.broken -= 1
            raise RuntimeError("a bug")
        return Comparison(self.says, "")


@dataclass
class Watched:
    observer: Observer
    comparing: Comparing
    measured: Measured
    labels: list[Label]
    forgets: list[int]

    async def until(self, happened: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not happened():  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    comparing, labels, forgets, measured = Comparing(), [], [0], Measured(lambda: 1000.0)
    observer = Observer(
        comparing, measured, Metrics(), budget=0.01, settings={"embedder": "test"},  # type: ignore[arg-type]
        forgets=lambda: forgets[0], learn=labels.append, clock=lambda: 1000.0,
    )  # fmt: skip
    async with observer:
        yield Watched(observer, comparing, measured, labels, forgets)


def asked(text: str = "When do you open?") -> Any:
    question = SimpleNamespace(text=text, traits=frozenset())
    return SimpleNamespace(question=question, verdict=Verdict(Reach.SIMILAR, Reach.SIMILAR, 60.0, ""))


def hit(likeness: Likeness = Likeness.MEANING, evidence: Evidence | None = EVIDENCE) -> Hit:
    found = entry("What are your hours?", body=STORED)
    return Hit(found, "similar", likeness, 1.0, 0.9 if likeness is Likeness.MEANING else None, evidence=evidence)


def told(text: str = "At nine.", finish: str = "stop", tokens: int | None = 3, prompt: int | None = 9) -> Told:
    return Told(Outcome(200, (finish,), (text,)), Answer(b"{}", tokens, prompt))


async def test_a_hit_becomes_a_miss_that_says_what_would_have_been() -> None:
    async with watched() as w:
        missed = w.observer.looked_up(asked(), hit(), 0.001)
        assert missed.reason == REASON and missed.detail == "similar meaning 0.900 would have been served"
        plain = Miss("nothing-near", "no neighbour")
        assert w.observer.looked_up(asked(), plain, 0.001) is plain
        report = await w.observer.report()
        assert (report["questions"], report["served"], report["refused"]) == (2, 1, {"nothing-near": 1})
        assert report["estimated_wrong"]["expected"] == 0.02 and report["measured_wrong"] is None


async def test_every_sure_comparison_is_a_label_and_counts_for_itself() -> None:
    async with watched() as w:
        w.comparing.gate.set()
        for w.comparing.says, labels in ((Agreement.AGREE, 1), (Agreement.DISAGREE, 2), (Agreement.UNSURE, 2)):
            checked = w.measured.labels("tenant", "model")
            w.observer.answered(hit(), told())
            await w.until(lambda before=checked: w.measured.labels("tenant", "model") > before)
            assert len(w.labels) == labels
        assert [(label.right, label.weight) for label in w.labels] == [(True, 1.0), (False, 1.0)]
        report = await w.observer.report()
        assert (report["measured_wrong"]["compared"], report["measured_wrong"]["disagree"]) == (3, 1)
        assert (report["tokens_saved"]["counted"], report["tokens_saved"]["how"]) == (36, "counted by the workers")


async def test_only_hits_by_meaning_are_compared_and_half_answers_never() -> None:
    async with watched() as w:
        w.comparing.gate.set()
        w.observer.answered(hit(), told(finish="length"))
        w.observer.answered(hit(), None)
        w.observer.answered(hit(Likeness.EXACT), told("at NINE."))
        w.observer.answered(hit(evidence=None), told("At ten.", tokens=None))
        await w.until(lambda: w.comparing.seen)
        assert w.comparing.seen == [("At ten.", "At nine.")]
        report = await w.observer.report()
        assert (report["answers_equal"]["equal"], report["answers_equal"]["of"]) == (1, 2)
        assert report["tokens_saved"]["hits_estimated"] == 1 and w.labels == []


async def test_what_waits_is_bounded_and_what_is_dropped_is_told() -> None:
    async with watched() as w:
        w.observer.answered(hit(), told())
        await w.until(lambda: w.comparing.seen)  # it is being compared, and the gate is closed
        for _ in range(ROOM + 3):
            w.observer.answered(hit(), told())
        assert (await w.observer.report())["comparisons"] == {"waiting": ROOM, "dropped": 3}


async def test_what_was_forgotten_meanwhile_teaches_nothing() -> None:
    async with watched() as w:
        w.observer.looked_up(asked(), hit(), 0.001)
        w.observer.answered(hit(), told())
        await w.until(lambda: w.comparing.seen)
        w.observer.answered(hit(), told())
        w.forgets[0] += 1
        report = await w.observer.report()
        assert report["riskiest"] == [] and report["comparisons"]["waiting"] == 0
        w.comparing.gate.set()
        w.observer.answered(hit(), told("another"))
        await w.until(lambda: w.labels)
        assert [fresh for fresh, _ in w.comparing.seen] == ["At nine.", "another"] and len(w.labels) == 1


async def test_a_broken_comparison_does_not_end_the_others() -> None:
    async with watched() as w:
        w.comparing.broken = 1
        w.comparing.gate.set()
        w.observer.answered(hit(), told())
        w.observer.answered(hit(), told())
        await w.until(lambda: w.labels)
