"""The same reader in torch and in integers. (extra: train)"""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("torch", reason="needs the extra: pip install 'rejoinder[train]'")
pytest.importorskip("onnx", reason="needs the extra: pip install 'rejoinder[train]'")

import torch
from tokenizers import Tokenizer

from cache.embedder import CHINESE_FOLDER
from cache.reader import DEFAULT_FOLDER, network
from cache.reader.onnx import tokenizer
from cache.reader.pairing import PREFIX, batched

QUESTIONS = (
    ("How do I freeze my debit card?", "How can I freeze my debit card please?"),
    ("How do I freeze my debit card?", "How do I freeze my credit card?"),
    ("怎么取消订阅？", "我不想继续订阅了，要怎么退订？"),
)


def rows() -> tuple[np.ndarray, ...]:
    pieces: Tokenizer = tokenizer()
    return batched([tuple(pieces.encode(PREFIX + text).ids for text in pair) for pair in QUESTIONS])


def in_torch(reader: network.Network) -> np.ndarray:
    with torch.no_grad():
        return reader.eval()(*map(torch.from_numpy, rows())).numpy()


def in_integers(raw: bytes) -> np.ndarray:
    session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    names = ("input_ids", "token_type_ids", "attention_mask")
    return session.run(None, dict(zip(names, rows(), strict=True)))[0]


def test_the_shipped_file_says_the_same_in_torch_and_in_integers() -> None:
    path = DEFAULT_FOLDER / "model.onnx"
    assert in_torch(network.loaded(path)) == pytest.approx(in_integers(path.read_bytes()), abs=0.6)


def test_a_reader_survives_the_way_out_and_back(tmp_path: Path) -> None:
    first = network.loaded(DEFAULT_FOLDER / "model.onnx")
    path = tmp_path / "model.onnx"
    path.write_bytes(network.exported(first, "reader").SerializeToString(deterministic=True))
    assert path.read_bytes() == (DEFAULT_FOLDER / "model.onnx").read_bytes(), "steps of steps are the same steps"
    assert in_torch(network.loaded(path)) == pytest.approx(in_torch(first), abs=1e-4)


def test_an_embedder_is_a_start_with_a_head_that_knows_nothing() -> None:
    torch.manual_seed(1)
    logits = in_torch(network.loaded(CHINESE_FOLDER / "model.onnx"))
    assert np.isfinite(logits).all()
    assert np.abs(logits).max() < 3
