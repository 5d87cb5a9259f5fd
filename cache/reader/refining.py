"""Teaching a reader further, from its own file, on a CPU and in minutes. (extra: train)

Only the upper layers and the head learn. What the lower ones make of a pair does not change, so it is computed once,
in the very integers that will run, and kept in half precision: a step then costs a fifth of one through all layers. The
weights that are kept are an average over the last steps, and are rounded as those of the shipped reader are."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch.nn import functional

from cache.reader.graph import lower
from cache.reader.network import Network, exported, loaded
from cache.reader.onnx import Lower
from cache.reader.training import Lesson

Tell = Callable[[float], None]  # share done in [0, 1]; may raise, which ends the lesson
AT_ONCE = 32  # pairs through the lower layers


@dataclass(frozen=True, slots=True)
class Refinement:
    """top: how many upper layers learn.  epochs: most passes.  seconds: most processor time for one reader (a busy
    machine takes longer and learns the same).  rate: of learning, at its peak.  average: of the weights that are
    kept."""

    top: int = 3
    epochs: float = 3.0
    seconds: float = 300.0
    batch: int = 32
    rate: float = 2e-4
    decay: float = 0.01
    average: float = 0.98
    seed: int = 7


class Refiner:
    """path: a reader's model.onnx.  Readers taught from one start share what its lower layers say of the lessons."""

    def __init__(self, path: Path, course: Refinement) -> None:
        self._path = path
        self._course = course
        self._lessons: list[Lesson] = []
        self._states: list[NDArray[np.float16]] = []

    def prepare(self, lessons: Sequence[Lesson], tell: Tell) -> None:
        """Read all lessons once."""
        model = onnx.load(str(self._path))
        layers = sum(each.op_type == "SkipLayerNormalization" for each in model.graph.node) // 2
        below = Lower(lower(model, layers - self._course.top).SerializeToString())
        self._lessons = list(lessons)
        self._states = [np.zeros((0, 0), np.float16)] * len(self._lessons)
        order = sorted(range(len(lessons)), key=lambda at: len(lessons[at].a) + len(lessons[at].b))
        for start in range(0, len(order), AT_ONCE):
            chosen = order[start : start + AT_ONCE]
            said = below.states([(lessons[at].a, lessons[at].b) for at in chosen])
            for at, state in zip(chosen, said, strict=True):
                self._states[at] = state
            tell((start + len(chosen)) / len(order))

    def taught(self, chosen: Sequence[int], tell: Tell) -> bytes:
        """A model.onnx that learned from the lessons at these places. The same places and seed give the same, unless
        the time ended the lesson."""
        course = self._course
        torch.manual_seed(course.seed)
        reader = loaded(self._path).train()
        first = len(reader.layers) - course.top
        learns = [each for part in (*reader.layers[first:], reader.head, reader.out) for each in part.parameters()]
        optimiser = torch.optim.AdamW(
            [{"params": [each for each in learns if each.ndim > 1], "weight_decay": course.decay},
             {"params": [each for each in learns if each.ndim < 2], "weight_decay": 0.0}],
            lr=course.rate, betas=(0.9, 0.98), eps=1e-6,
        )  # fmt: skip
        means = [each.detach().clone() for each in learns]
        steps = max(1, int(course.epochs * len(chosen) / course.batch))
        began, step, rng = time.process_time(), 0, random.Random(course.seed)
        batches: list[list[int]] = []
        while (done := max(step / steps, (time.process_time() - began) / course.seconds)) < 1.0:
            batches = batches or self._batches(chosen, rng)
            for group in optimiser.param_groups:
                group["lr"] = course.rate * min(1.0, (done + 1e-3) / 0.06, (1.0 - done) / 0.94)
            loss = self._loss(reader, batches.pop(), first)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learns, 1.0)
            optimiser.step()
            step += 1
            with torch.no_grad():
                torch._foreach_lerp_(means, learns, 1.0 - min(course.average, step / (step + 20)))
            tell(done)
        with torch.no_grad():
            for each, mean in zip(learns, means, strict=True):
                each.copy_(mean)
        return bytes(exported(reader.eval(), "reader").SerializeToString(deterministic=True))

    def _batches(self, chosen: Sequence[int], rng: random.Random) -> list[list[int]]:
        """One pass, shuffled, but alike in length within a batch."""
        order, size = list(chosen), self._course.batch
        rng.shuffle(order)
        made = []
        for start in range(0, len(order), size * 20):
            pool = sorted(order[start : start + size * 20], key=lambda at: len(self._states[at]))
            made += [pool[at : at + size] for at in range(0, len(pool), size)]
        rng.shuffle(made)
        return made

    def _loss(self, reader: Network, batch: Sequence[int], first: int) -> torch.Tensor:
        states = [self._states[at] for at in batch]
        longest, hidden = max(map(len, states)), states[0].shape[1]
        state = np.zeros((len(states), longest, hidden), np.float32)
        mask = np.zeros((len(states), longest), np.int64)
        for row, each in enumerate(states):
            state[row, : len(each)] = each
            mask[row, : len(each)] = 1
        right = torch.tensor([self._lessons[at].right for at in batch], dtype=torch.float32)
        weight = torch.tensor([self._lessons[at].weight for at in batch], dtype=torch.float32)
        logits = reader.above(torch.from_numpy(state), torch.from_numpy(mask), first)
        losses = functional.binary_cross_entropy_with_logits(logits, right, reduction="none")
        return (losses * weight).sum() / weight.sum()
