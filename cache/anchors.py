"""What the operator's own labelled questions teach about meaning: which known answer a question asks for. Pure.

A linear classifier over the embedder's vectors, one class an answer with at least LEAST labelled questions, the rest
together in one class of their own ("something else"). Two questions agree as far as both are likely to ask for the
same known answer: log Σ_c P(c | a) P(c | b), over the known answers only. It costs a matrix product, and
says in the user's domain what a cosine cannot: which differences there decide an answer."""

import io
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
LEAST = 2  # labelled questions
FLOOR = 1e-3  # of the chance, so that its logarithm stays finite: -6.9 means "no known answer in common"
STRENGTH = 20.0  # inverse of the ridge penalty; chosen on our development streams
STEPS = 300


@dataclass(frozen=True, slots=True, eq=False)
class Anchors:
    """weights: (dim + 1, classes), the last row a constant; class 0 is "something else"."""

    weights: Floats

    def chances(self, vectors: Floats) -> Floats:
        """(n, classes - 1): the probability of each known answer.  vectors: (n, dim), unit length."""
        return _softmax(vectors @ self.weights[:-1] + self.weights[-1])[:, 1:]

    def to_bytes(self) -> bytes:
        out = io.BytesIO()
        np.savez_compressed(out, weights=self.weights)
        return out.getvalue()


def from_bytes(raw: bytes) -> Anchors:
    """Raises ValueError for what is none."""
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as found:
            weights = np.asarray(found["weights"], dtype=np.float32)
    except (KeyError, TypeError, AttributeError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"these are no anchors: {error}") from error
    if weights.ndim != 2 or not np.isfinite(weights).all():
        raise ValueError(f"these are no anchors: a finite matrix is needed, not {weights.shape}")
    return Anchors(weights)


def agreement(one: Floats, others: Floats) -> Floats:
    """Logarithms, (n,).  one: (classes,).  others: (n, classes)."""
    return np.asarray(np.log(others @ one + FLOOR), dtype=np.float32)


def fit(vectors: Floats, answers: Sequence[str]) -> Anchors | None:
    """Full-batch accelerated gradient descent (Y. Nesterov, 1983) on the penalised cross entropy; None where fewer than
    two answers have enough questions.  vectors: (n, dim), unit length."""
    counted = Counter(answers)
    known = sorted(answer for answer, count in counted.items() if count >= LEAST)
    if len(known) < 2:
        return None
    place = {answer: number for number, answer in enumerate(known, start=1)}
    target = np.zeros((len(answers), len(known) + 1), np.float32)
    target[np.arange(len(answers)), [place.get(answer, 0) for answer in answers]] = 1.0
    x = np.hstack([vectors, np.ones((len(vectors), 1), np.float32)]).astype(np.float32)
    ridge = np.full((x.shape[1], 1), 1.0 / STRENGTH, np.float32)
    ridge[-1] = 1e-3
    # The loss curves no more than half of the largest eigenvalue of x'x (D. Böhning, 1992), plus the penalty.
    rate = 1.0 / (0.5 * float(np.linalg.norm(x.T @ x, 2)) + 1.0 / STRENGTH)
    weights = np.zeros((x.shape[1], target.shape[1]), np.float32)
    ahead = weights.copy()
    for step in range(1, STEPS + 1):
        slope = x.T @ (_softmax(x @ ahead) - target) + ridge * ahead
        after = ahead - rate * slope
        ahead = after + (step - 1) / (step + 2) * (after - weights)
        weights = after
    return Anchors(weights)


def _softmax(z: Floats) -> Floats:
    raised = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float32)
