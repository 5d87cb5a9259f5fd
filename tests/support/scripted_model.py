"""A model for the embedder's thread that does what a test tells it to, and remembers what it was asked."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cache.embedder import ModelFacts


class ScriptedModel:
    """One token a word. `gate` closed: a run blocks, as a hung model does. `failure`: what a run raises.

    entered: set when a run has begun.  runs: the texts of each run, as they were asked."""

    def __init__(self, *, dim: int = 8, window: int = 64) -> None:
        self.facts = ModelFacts(f"scripted-{dim}", dim, 0.9, frozenset({"en", "zh"}), window)
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.failure: Exception | None = None
        self.load_failure: Exception | None = None
        self.load_gate = threading.Event()
        self.load_gate.set()
        self.runs: list[list[str]] = []
        self._words: dict[str, int] = {"": 0}

    def load(self) -> ModelFacts:
        self.load_gate.wait(20)
        if self.load_failure:
            raise self.load_failure
        return self.facts

    def tokenize(self, text: str) -> list[int]:
        return [self._words.setdefault(word, len(self._words)) for word in text.split() or [""]]

    def run(self, batch: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        names = {number: word for word, number in self._words.items()}
        self.runs.append([" ".join(names[token] for token in tokens) for tokens in batch])
        self.entered.set()
        self.gate.wait(20)
        if self.failure:
            raise self.failure
        rows = [np.random.default_rng(list(tokens)).normal(size=self.facts.dim) for tokens in batch]
        return np.array(rows, dtype=np.float32)
