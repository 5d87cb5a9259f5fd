"""From questions with known answers to pairs that teach: what shares an answer, and what is near and does not. Pure.

What a reader will be asked about is near by the embedder, so the wrong pairs are each question's nearest neighbours
with another answer. Of the right ones half are the nearest, half are drawn: two questions of one answer may share no
word at all."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Some of our own pairs, so that what the reader knew is not forgotten.
GENERAL = Path(__file__).parent / "general.jsonl"
SEED = 7


@dataclass(frozen=True, slots=True)
class Contrast:
    """a, b: places in the list of questions.  same: whether one answer serves both."""

    a: int
    b: int
    same: bool


def contrasts(
    vectors: NDArray[np.float32], answers: Sequence[str], among: Sequence[int], each: int = 4
) -> list[Contrast]:
    """No pair twice.  vectors: (n, dim), unit length.  among: places that may be used.  each: right pairs for a
    question, and as many wrong ones, at most."""
    rng = random.Random(SEED)
    rows = np.asarray(among, dtype=np.int64)
    names = np.asarray([answers[place] for place in among], dtype=object)
    found: dict[tuple[int, int], bool] = {}
    for at, place in enumerate(among):
        order = np.argsort(-(vectors[rows] @ vectors[place]), kind="stable")
        order = order[order != at]
        equal = names[order] == names[at]
        right, wrong = order[equal].tolist(), order[~equal][:each].tolist()
        rest = right[each // 2 :]
        right = right[: each // 2] + rng.sample(rest, min(len(rest), each - each // 2))
        for other, same in [(other, True) for other in right] + [(other, False) for other in wrong]:
            found[min(place, among[other]), max(place, among[other])] = same
    return [Contrast(a, b, same) if rng.random() < 0.5 else Contrast(b, a, same) for (a, b), same in found.items()]


def general(path: Path = GENERAL) -> list[tuple[str, str, bool]]:
    """(a, b, whether one answer serves both), in an order such that the first of them have both languages."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    random.Random(SEED).shuffle(lines)
    return [(line["a"], line["b"], line["same"]) for line in lines]
