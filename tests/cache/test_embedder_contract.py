"""What every embedder promises, whoever makes the vectors."""

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
from blockbuster import blockbuster_ctx
from scripted_model import ScriptedModel

from cache.embedder import (
    CHINESE_FOLDER,
    BatchingEmbedder,
    HashingEmbedder,
    OnnxEmbedder,
    SentenceTransformersEmbedder,
    open_embedder,
)
from cache.errors import TextTooLong
from cache.protocols import Embedder

PATIENT_S = 20.0  # these tests are about what comes, not about when


def tiny_sentence_transformer(folder: Path) -> Path:
    """An untrained BERT of a few thousand weights, spelled in letters, which sentence-transformers pools by itself."""
    transformers = importlib.import_module("transformers")
    letters = [chr(code) for code in range(33, 127)]
    signs = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(signs), encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"))
    config = transformers.BertConfig(
        vocab_size=len(signs),
        hidden_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
    )
    importlib.import_module("torch").manual_seed(1)
    transformers.BertModel(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    return folder / "bert"


def scripted(_: Path) -> Embedder:
    return BatchingEmbedder(ScriptedModel(), deadline_s=PATIENT_S)


def hashing(_: Path) -> Embedder:
    return HashingEmbedder()


def onnx(_: Path) -> Embedder:
    return OnnxEmbedder(CHINESE_FOLDER, deadline_s=PATIENT_S)


def shipped(_: Path) -> Embedder:
    embedder = open_embedder("default", deadline_s=PATIENT_S)
    assert embedder is not None
    return embedder


def sentence_transformers(folder: Path) -> Embedder:
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed: pip install 'rejoinder[sentence-transformers]'")
    return SentenceTransformersEmbedder(str(tiny_sentence_transformer(folder)), deadline_s=PATIENT_S)


Make = Callable[[Path], Embedder]


@pytest.fixture(params=[scripted, hashing, onnx, shipped, sentence_transformers])
def make(request: pytest.FixtureRequest) -> Make:
    chosen: Make = request.param
    return chosen


@pytest.fixture
def closed(make: Make, tmp_path: Path) -> Embedder:
    return make(tmp_path)


@pytest.fixture
def again(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """Another one of the same kind."""
    return make(tmp_path_factory.mktemp("again"))


@pytest.fixture
async def embedder(closed: Embedder) -> AsyncIterator[Embedder]:
    with watched():
        async with closed as opened:
            yield opened


def watched() -> contextlib.AbstractContextManager[object]:
    """Whatever blocks the event loop fails the test."""
    return blockbuster_ctx()


async def test_a_vector_has_unit_length_and_the_promised_shape(embedder: Embedder) -> None:
    vector = await embedder.embed("How do I reset my password?")
    assert vector.dtype == np.float32
    assert vector.shape == (embedder.dim,)
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


async def test_the_same_text_stands_in_the_same_place_alone_and_among_others(embedder: Embedder) -> None:
    alone = await embedder.embed("How do I reset my password?")
    company = ["How do I reset my password?", "Hi", "Why is the sky blue at noon and red in the evening? " * 2]
    together = await asyncio.gather(*map(embedder.embed, company))
    assert float(alone @ together[0]) > 0.9999


async def test_another_text_stands_elsewhere(embedder: Embedder) -> None:
    one, other = await asyncio.gather(embedder.embed("Open an account"), embedder.embed("Why is the sky blue?"))
    assert float(one @ other) < 0.999


async def test_a_text_without_words_has_a_place_too(embedder: Embedder) -> None:
    assert np.linalg.norm(await embedder.embed("")) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("words", [3_000, 2_000_000])
async def test_a_text_that_is_longer_than_the_model_reads_is_refused_not_cut(embedder: Embedder, words: int) -> None:
    with pytest.raises(TextTooLong):
        await embedder.embed("word " * words)
    await embedder.embed("and the next one is served")


async def test_a_name_identifies_the_vector_space_and_stays(embedder: Embedder, again: Embedder) -> None:
    async with again as second:
        assert second.name == embedder.name
        assert second.dim == embedder.dim


async def test_an_embedder_knows_its_own_caution_and_languages(embedder: Embedder) -> None:
    assert 0.0 < embedder.threshold <= 1.0
    assert embedder.languages <= {"en", "zh"}


async def test_a_crowd_is_served(embedder: Embedder) -> None:
    vectors = await asyncio.gather(*(embedder.embed(f"question number {number}") for number in range(100)))
    assert {vector.shape for vector in vectors} == {(embedder.dim,)}
