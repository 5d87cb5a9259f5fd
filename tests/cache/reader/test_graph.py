"""Four bits, steps, and the shipped graph. (extra: train)"""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra: pip install 'rejoinder[train]'")

import onnx

from cache.reader import DEFAULT_FOLDER
from cache.reader.graph import BLOCK, FourBits, in_steps, unpacked


def table(rows: int = 3, columns: int = 2 * BLOCK) -> FourBits:
    rng = np.random.default_rng(5)
    nibbles = rng.integers(0, 16, (rows, columns), dtype=np.uint8)
    return FourBits(nibbles, rng.random((rows, columns // BLOCK)).astype(np.float16))


def test_what_is_packed_can_be_unpacked() -> None:
    given = table()
    found = unpacked(given.packed(), given.scales[..., None])
    assert np.array_equal(found.nibbles, given.nibbles)
    assert np.array_equal(found.values(), given.values())


def test_eight_is_nothing() -> None:
    assert not FourBits(np.full((1, BLOCK), 8, np.uint8), np.ones((1, 1), np.float16)).values().any()


def test_steps_are_whole_and_lose_half_a_step_at_most() -> None:
    values = np.random.default_rng(5).normal(size=(4, 16)).astype(np.float32)
    steps, scales = in_steps(values, 63)
    assert np.abs(steps).max() == 63
    assert (np.abs(steps * scales[:, None] - values) <= scales[:, None] / 2 + 1e-6).all()


def test_a_row_of_zeros_stays_one() -> None:
    assert not in_steps(np.zeros((1, 4), np.float32), 63)[0].any()


def test_the_shipped_reader_is_a_graph_of_three_inputs_and_one_logit() -> None:
    model = onnx.load(str(DEFAULT_FOLDER / "model.onnx"))
    onnx.checker.check_model(model)
    assert [each.name for each in model.graph.input] == ["input_ids", "token_type_ids", "attention_mask"]
    assert [each.name for each in model.graph.output] == ["logit"]
