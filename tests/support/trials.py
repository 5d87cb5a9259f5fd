"""Packs and outcomes for tests of `rejoinder eval`, and a cache whose verdicts a test writes down beforehand."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cache import Answer, Candidate, Entry, Evidence, Explanation, Hit, Label, Likeness, Miss, Question, Reach, Verdict
from proxy.evaluation.packs import Arrival, Pack, parse
from proxy.evaluation.run import Trial


def lines(*rows: Mapping[str, Any]) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def stream(*rows: tuple[str, str], name: str = "shop") -> Pack:
    """A stream of (question, answer id)."""
    return parse(lines(*({"query": query, "answer_id": answer} for query, answer in rows)), name)


def served(
    *, right: bool | None = True, p_right: float | None = 0.99, likeness: Likeness = Likeness.MEANING,
    asked: str = "asked", stored: str = "stored", **other: Any,
) -> Trial:  # fmt: skip
    meaning = likeness is Likeness.MEANING
    return Trial(
        asked=Arrival({"messages": [{"role": "user", "content": asked}]}, asked, **other), lookup_s=0.002,
        likeness=likeness, stored=Arrival({}, stored, answer=other.get("answer")), right=right,
        similarity=0.9 if meaning else None, p_right=p_right if meaning else None,
    )  # fmt: skip


def refused(reason: str = "numbers", **other: Any) -> Trial:
    return Trial(Arrival({}, "asked"), 0.001, reason=reason, **other)


class Scripted:
    """Serves by meaning what the test says: asked text → (stored text, p_right). Remembers everything else."""

    def __init__(self, serves: Mapping[str, tuple[str, float]], *, busy: int = 0) -> None:
        self.serves = serves
        self.busy = busy  # how often the embedder is late
        self.entries: dict[str, Entry] = {}
        self.learned: list[Label] = []
        self.owed = 0

    async def lookup(self, question: Question, verdict: Verdict) -> Hit | Miss:
        if self.busy:
            self.busy -= 1
            return Miss("embedder-unavailable")
        text = question.text or ""
        if text in self.entries:
            return Hit(self.entries[text], "recent", Likeness.EXACT, 0.0)
        stored, p_right = self.serves.get(text, ("", 0.0))
        if stored not in self.entries:
            return Miss("nothing-near")
        evidence = Evidence(0.9, (), p_right, "test")
        return Hit(self.entries[stored], "similar", Likeness.MEANING, 0.0, 0.9, evidence=evidence)

    async def explain(self, question: Question, verdict: Verdict) -> Explanation:
        outcome = await self.lookup(question, verdict)
        near = tuple(Candidate(text, 0.9, 0.0, ()) for text in self.entries)
        return Explanation(question, verdict, outcome, 0.8, near)

    def keep(self, question: Question, verdict: Verdict, answer: Answer, **_: object) -> Entry:
        entry = Entry(
            len(self.entries), question.kind, question.scope, question.text, question.key, question.proof,
            question.wording, Reach.SIMILAR, answer, 0.0, 1.0,
        )  # fmt: skip
        self.entries[question.text or ""] = entry
        return entry

    async def store(self, entry: Entry, vector: object = None) -> bool:
        return True

    def learn(self, label: Label) -> None:
        self.learned.append(label)


def counting(seen: list[int]) -> Callable[[int], None]:
    return seen.append


def silent(done: int) -> None:
    """Tells nobody how far we are."""


def texts(trials: Sequence[Trial]) -> list[str]:
    return [trial.asked.text for trial in trials]
