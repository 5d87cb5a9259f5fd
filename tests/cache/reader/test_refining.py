"""A reader taught further from its own file, on a reader of two layers. (extra: train)"""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra: pip install 'rejoinder[train]'")
pytest.importorskip("onnx", reason="needs the extra: pip install 'rejoinder[train]'")

import onnx
import torch
from onnx import numpy_helper

from cache.reader.graph import BLOCK, FourBits
from cache.reader.network import HEADS, Network, exported, loaded
from cache.reader.pairing import END, START
from cache.reader.refining import Refinement, Refiner
from cache.reader.training import Lesson, scored

HIDDEN = 4 * HEADS * 2
COURSE = Refinement(top=1, epochs=30, seconds=60, batch=16, rate=3e-3, average=0.9)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    words = FourBits(
        rng.integers(0, 16, (40, HIDDEN), dtype=np.uint8), np.full((40, HIDDEN // BLOCK), 0.05, np.float16)
    )
    torch.manual_seed(3)
    reader = Network(words, rng.normal(scale=0.05, size=(16, HIDDEN)).astype(np.float32), 2, 2 * HIDDEN)
    torch.nn.init.normal_(reader.kinds, std=0.5)
    made = tmp_path_factory.mktemp("reader") / "model.onnx"
    made.write_bytes(exported(reader, "reader").SerializeToString(deterministic=True))
    return made


def lessons(count: int = 96) -> list[Lesson]:
    """Equal texts share an answer, others do not."""
    rng = np.random.default_rng(5)
    texts = [[START, *map(int, rng.integers(4, 40, 4)), END] for _ in range(count + 1)]
    return [Lesson(texts[n], texts[n + n % 2], float(n % 2 == 0)) for n in range(count)]


def taught(path: Path, course: Refinement = COURSE, chosen: range = range(96)) -> bytes:
    refiner = Refiner(path, course)
    refiner.prepare(lessons(), lambda share: None)
    return refiner.taught(chosen, lambda share: None)


def test_the_file_that_comes_out_knows_what_was_taught(path: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(taught(path))
    right = np.array([each.right for each in lessons()])
    pairs = [(each.a, each.b) for each in lessons()]
    before, after = (scored(loaded(each), pairs) > 0 for each in (path, tmp_path / "model.onnx"))
    assert (before == right).mean() < 0.8
    assert (after == right).mean() > 0.9


def test_the_words_and_the_lower_layers_stay_as_they_are(path: Path) -> None:
    def constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
        return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}

    before, after = constants(onnx.load(str(path))), constants(onnx.load_from_string(taught(path)))
    moved = {name for name, value in before.items() if not np.array_equal(value, after[name])}
    assert moved and all(name.startswith(("1.", "head", "out")) for name in moved), moved


def test_the_same_lessons_teach_the_same(path: Path) -> None:
    course = Refinement(top=1, epochs=2, seconds=1e9, batch=16, rate=3e-3)
    assert taught(path, course) == taught(path, course)


def test_only_the_chosen_lessons_are_learned_from(path: Path) -> None:
    course = Refinement(top=1, epochs=2, seconds=1e9, batch=16, rate=3e-3)
    refiner = Refiner(path, course)
    spoilt = [Lesson(each.a, each.b, 1 - each.right) if n >= 48 else each for n, each in enumerate(lessons())]
    refiner.prepare(spoilt, lambda share: None)
    assert refiner.taught(range(48), lambda share: None) == taught(path, course, range(48))


def test_who_is_told_may_break_it_off(path: Path) -> None:
    refiner = Refiner(path, COURSE)
    refiner.prepare(lessons(), lambda share: None)

    def enough(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refiner.taught(range(96), enough)


def test_time_ends_a_lesson_and_the_share_done_only_rises(path: Path) -> None:
    told: list[float] = []
    refiner = Refiner(path, Refinement(top=1, epochs=1e6, seconds=1.0, batch=16))
    refiner.prepare(lessons(), lambda share: None)
    refiner.taught(range(96), told.append)
    assert told == sorted(told) and told[0] >= 0.0 and told[-1] < 1.0
