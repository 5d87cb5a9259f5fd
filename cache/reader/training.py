"""How the reader learns: the loop, for a GPU that starts from nothing and for a CPU that adapts. (extra: train)

Both minimise the cross entropy of "one answer serves both"; a label that is believed to be wrong with probability p is
taught as 1 - p. The weights that are kept are an average over the last steps, which forgives single bad labels."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from cache.reader.network import Network
from cache.reader.pairing import Tokens, batched


@dataclass(frozen=True, slots=True)
class Lesson:
    """a, b: tokens of two questions.  right: the probability to teach, in [0, 1].  weight: how much it counts."""

    a: Tokens
    b: Tokens
    right: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Course:
    """batch: pairs a step.  epochs: most passes.  seconds: most time; the rate of learning falls to zero with
    whichever ends first.  frozen: how many of the lower layers stay as they are (with the table of words)."""

    batch: int = 256
    epochs: float = 4.0
    seconds: float = 600.0
    rate: float = 2e-4
    decay: float = 0.01
    warm_up: float = 0.05
    average: float = 0.998
    frozen: int = 0
    seed: int = 7


def trained(
    reader: Network, lessons: Sequence[Lesson], course: Course, device: str = "cpu",
    progress: Callable[[float, float], None] | None = None,
) -> Network:  # fmt: skip
    """Teach, in place, and return the reader with its averaged weights.  progress: (share done, loss)."""
    torch.manual_seed(course.seed)
    rng = random.Random(course.seed)
    reader.to(device).train()
    if course.frozen:
        for part in (reader.norm, *list(reader.layers)[: course.frozen]):
            part.requires_grad_(False)
        reader.places.requires_grad_(False)
    free = [(name, each) for name, each in reader.named_parameters() if each.requires_grad]
    plain = [each for name, each in free if each.ndim < 2 or name in ("places", "kinds")]
    matrices = [each for name, each in free if not (each.ndim < 2 or name in ("places", "kinds"))]
    optimiser = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": course.decay}, {"params": plain, "weight_decay": 0.0}],
        lr=course.rate, betas=(0.9, 0.98), eps=1e-6,
    )  # fmt: skip
    taught: list[torch.Tensor] = [each for _, each in free]
    means = [each.detach().clone() for each in taught]
    steps = max(1, int(course.epochs * len(lessons) / course.batch))
    began = time.monotonic()
    for step, batch in enumerate(_loaded(lessons, course, rng, steps)):
        done = max(step / steps, (time.monotonic() - began) / course.seconds)
        if done >= 1.0:
            break
        for group in optimiser.param_groups:
            group["lr"] = course.rate * min(1.0, (done + 1e-3) / course.warm_up, (1.0 - done) / (1.0 - course.warm_up))
        loss = _loss(reader, batch, device)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(taught, 1.0)
        optimiser.step()
        kept = min(course.average, (step + 1) / (step + 21))
        with torch.no_grad():
            torch._foreach_lerp_(means, taught, 1.0 - kept)
        if progress is not None and (step + 1) % 20 == 0:
            progress(done, float(loss.detach()))
    with torch.no_grad():
        for each, mean in zip(taught, means, strict=True):
            each.copy_(mean)
    return reader.eval()


def _batches(lessons: Sequence[Lesson], size: int, rng: random.Random) -> list[list[int]]:
    """Shuffled, but alike in length within a batch: less padding, and no batch of one kind for long."""
    order = list(range(len(lessons)))
    rng.shuffle(order)
    made = []
    for start in range(0, len(order), size * 50):
        pool = sorted(order[start : start + size * 50], key=lambda n: len(lessons[n].a) + len(lessons[n].b))
        made += [pool[at : at + size] for at in range(0, len(pool), size)]
    rng.shuffle(made)
    return made


@dataclass(frozen=True, slots=True)
class _Batch:
    """ids, kinds, mask: int64 (pairs, longest).  right, weight: float32 (pairs,)."""

    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    right: torch.Tensor
    weight: torch.Tensor


def _loaded(lessons: Sequence[Lesson], course: Course, rng: random.Random, steps: int) -> Iterator[_Batch]:
    left = steps
    while left > 0:
        for chosen in _batches(lessons, course.batch, rng)[:left]:
            left -= 1
            yield _prepared([lessons[number] for number in chosen], rng)


def _prepared(lessons: Sequence[Lesson], rng: random.Random) -> _Batch:
    pairs = [(each.a, each.b) if rng.random() < 0.5 else (each.b, each.a) for each in lessons]  # either may be stored
    ids, kinds, mask = map(torch.from_numpy, batched(pairs))
    return _Batch(
        (ids, kinds, mask),
        torch.tensor([each.right for each in lessons], dtype=torch.float32),
        torch.tensor([each.weight for each in lessons], dtype=torch.float32),
    )


def _loss(reader: Network, batch: _Batch, device: str) -> torch.Tensor:
    ids, kinds, mask = (part.to(device, non_blocking=True) for part in batch.inputs)
    right, weight = batch.right.to(device), batch.weight.to(device)
    with torch.autocast(device, torch.bfloat16):
        logits = reader(ids, kinds, mask).float()
    losses = functional.binary_cross_entropy_with_logits(logits, right, reduction="none")
    return (losses * weight).sum() / weight.sum()


@torch.no_grad()
def scored(
    reader: Network, pairs: Sequence[tuple[Tokens, Tokens]], device: str = "cpu", batch: int = 256
) -> NDArray[np.float32]:
    """Logits, in the order of the pairs."""
    reader.to(device).eval()
    order = sorted(range(len(pairs)), key=lambda n: len(pairs[n][0]) + len(pairs[n][1]))
    out = np.zeros(len(pairs), np.float32)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            inputs = (torch.from_numpy(part).to(device) for part in batched([pairs[n] for n in chosen]))
            out[chosen] = reader(*inputs).float().cpu().numpy()
    return out
