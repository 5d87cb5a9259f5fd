"""How the reader learns, on a reader of one layer. (extra: train)"""

import random

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra: pip install 'rejoinder[train]'")
pytest.importorskip("onnx", reason="needs the extra: pip install 'rejoinder[train]'")

import torch

from cache.reader.graph import BLOCK, FourBits
from cache.reader.network import HEADS, Network
from cache.reader.pairing import END, START
from cache.reader.training import Course, Lesson, scored, trained

HIDDEN = 4 * HEADS * 2  # heads of eight, blocks of 32


def tiny() -> Network:
    rng = np.random.default_rng(3)
    words = FourBits(
        rng.integers(0, 16, (40, HIDDEN), dtype=np.uint8), np.full((40, HIDDEN // BLOCK), 0.05, np.float16)
    )
    torch.manual_seed(3)
    return Network(words, rng.normal(scale=0.05, size=(16, HIDDEN)).astype(np.float32), 1, 2 * HIDDEN, dropout=0.0)


def text(rng: random.Random) -> list[int]:
    return [START, *(rng.randrange(4, 40) for _ in range(4)), END]


def lessons(count: int = 300) -> list[Lesson]:
    """Equal texts share an answer, others do not."""
    rng = random.Random(3)
    made = []
    for number in range(count):
        a = text(rng)
        made.append(Lesson(a, a, 1.0) if number % 2 else Lesson(a, text(rng), 0.0))
    return made


COURSE = Course(batch=32, epochs=6, seconds=60, rate=2e-3, average=0.9)


def test_it_learns_what_it_is_taught() -> None:
    taught = lessons()
    logits = scored(trained(tiny(), taught, COURSE), [(each.a, each.b) for each in taught])
    right = np.array([each.right for each in taught])
    assert ((logits > 0) == (right > 0.5)).mean() > 0.95


def test_the_same_seed_teaches_the_same() -> None:
    pairs = [(each.a, each.b) for each in lessons(20)]
    course = Course(batch=32, epochs=1, seconds=1e9, rate=2e-3)
    one, other = (scored(trained(tiny(), lessons(), course), pairs) for _ in range(2))
    assert one == pytest.approx(other, abs=1e-3)


def test_a_frozen_layer_and_the_words_stay_as_they_are() -> None:
    before, reader = tiny(), tiny()
    trained(reader, lessons(64), Course(batch=32, epochs=1, seconds=60, rate=2e-3, frozen=1))
    for name, value in before.state_dict().items():
        moved = not torch.equal(value, reader.state_dict()[name])
        assert moved == name.startswith(("kinds", "head", "out")), name
    assert np.array_equal(before.words.nibbles, reader.words.nibbles)


def test_a_lesson_without_weight_teaches_nothing() -> None:
    pairs = [(each.a, each.b) for each in lessons(20)]
    course = Course(batch=600, epochs=1, seconds=1e9, rate=2e-3)
    wrong = [Lesson(each.a, each.b, 1 - each.right, weight=0.0) for each in lessons()]
    taught = scored(trained(tiny(), lessons(), course), pairs)
    beside = scored(trained(tiny(), [*lessons(), *wrong], course), pairs)
    assert beside == pytest.approx(taught, abs=0.02)


def test_time_ends_a_course_before_its_epochs() -> None:
    told: list[float] = []
    trained(
        tiny(),
        lessons(),
        Course(batch=2, epochs=1e6, seconds=1.5, rate=1e-4),
        progress=lambda done, _: told.append(done),
    )
    assert told and told == sorted(told)
    assert told[-1] < 1.0


def test_scores_stand_in_the_order_of_the_pairs() -> None:
    reader = tiny()
    pairs = [(each.a, [*each.b[: 3 + n % 3], END]) for n, each in enumerate(lessons(30))]
    alone = np.concatenate([scored(reader, [pair]) for pair in pairs])
    assert scored(reader, pairs, batch=7) == pytest.approx(alone, abs=1e-4)
