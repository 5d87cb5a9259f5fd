"""The doors to real models, and the model that is shipped."""

import importlib.util
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from cache.embedder import (
    CHINESE_FOLDER,
    DEFAULT_FOLDER,
    BilingualEmbedder,
    HashingEmbedder,
    OnnxEmbedder,
    SentenceTransformersEmbedder,
    open_embedder,
)
from cache.errors import EmbedderUnavailable, TextTooLong
from cache.protocols import Embedder

PATIENT_S = 20.0
LARGEST_FILE_BYTES = 45_000_000

ENGLISH = (
    ("How can I change my delivery address?", "What do I do to have my parcel sent to a different address?"),
    ("How many calories are in an avocado?", "What is the calorie count of one avocado?"),
    ("Why do leaves change colour in autumn?", "What makes leaves turn red in the fall?"),
    ("How do I cancel my subscription?", "I want to end my subscription, what are the steps?"),
)
CHINESE = (
    ("怎么修改收货地址？", "我想把包裹寄到另一个地址，该怎么改？"),
    ("一个牛油果有多少卡路里？", "牛油果的热量是多少？"),
    ("秋天树叶为什么会变色？", "叶子在秋季变红的原因是什么？"),
    ("怎么取消订阅？", "我不想继续订阅了，要怎么退订？"),
)


@pytest.fixture(params=[DEFAULT_FOLDER, CHINESE_FOLDER], ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


@pytest.fixture
async def english() -> AsyncIterator[OnnxEmbedder]:
    async with OnnxEmbedder(DEFAULT_FOLDER, deadline_s=PATIENT_S) as opened:
        yield opened


@pytest.fixture
async def shipped() -> AsyncIterator[Embedder]:
    embedder = open_embedder("default", deadline_s=PATIENT_S)
    assert embedder is not None
    async with embedder as opened:
        yield opened


def a_copy(folder: Path, into: Path, card: dict[str, object] | None) -> Path:
    for name in ("model.onnx", "tokenizer.json"):
        (into / name).symlink_to(folder / name)
    if card is not None:
        (into / "card.json").write_text(json.dumps(card), encoding="utf-8")
    return into


def test_the_shipped_files_fit_a_package_registry(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} >= {"model.onnx", "tokenizer.json", "card.json"}
    assert all(path.stat().st_size <= LARGEST_FILE_BYTES for path in folder.iterdir())


@pytest.mark.parametrize("pairs", [ENGLISH, CHINESE], ids=["en", "zh"])
async def test_a_rewording_is_nearer_than_every_other_question(
    shipped: Embedder, pairs: tuple[tuple[str, str], ...]
) -> None:
    first = np.array([await shipped.embed(one) for one, _ in pairs])
    second = np.array([await shipped.embed(other) for _, other in pairs])
    cosines = first @ second.T
    assert (cosines.argmax(axis=1) == np.arange(len(pairs))).all()
    assert cosines.diagonal().min() > cosines[~np.eye(len(pairs), dtype=bool)].max()


async def test_chinese_questions_are_told_apart(shipped: Embedder) -> None:
    """A model that is blind gives all of them nearly the same vector."""
    vectors = [await shipped.embed(text) for text in itertools.chain(*CHINESE)]
    cosines = np.array(vectors) @ np.array(vectors).T
    assert np.median(cosines) < shipped.threshold - 0.05


async def test_the_shipped_model_keeps_far_questions_under_its_threshold(shipped: Embedder) -> None:
    asked = await shipped.embed("How do I cancel my subscription?")
    for other in ("Why is the sky blue?", "How many calories are in an avocado?", "Hello", "怎么取消订阅？"):
        assert float(asked @ await shipped.embed(other)) < shipped.threshold


async def test_the_two_languages_of_the_shipped_model_lie_apart(shipped: Embedder) -> None:
    english = np.array([await shipped.embed(text) for text in itertools.chain(*ENGLISH)])
    chinese = np.array([await shipped.embed(text) for text in itertools.chain(*CHINESE)])
    assert float((english @ chinese.T).max()) < 0.5


async def test_embedders_of_two_lengths_cannot_share_an_index() -> None:
    with pytest.raises(EmbedderUnavailable, match="one index holds one length"):
        async with BilingualEmbedder(HashingEmbedder(64), HashingEmbedder(32)):
            pass


async def test_signs_that_the_models_cannot_read_are_refused(shipped: Embedder) -> None:
    """What a model does not see makes no difference to it: 😀 and 😂 would be the same question."""
    for text in (
        "光合成とは何ですか",
        "как сбросить пароль",
        "비밀번호를 재설정하나요",
        "What does 你好 mean?",
        "Why 😀?",
    ):
        with pytest.raises(TextTooLong, match="cannot read"):
            await shipped.embed(text)


async def test_ordinary_signs_are_read(shipped: Embedder) -> None:
    for text in (
        "谢谢🙏 ❤️",
        "价格￥100～200，“包邮”吗？",
        "α + β = π ≈ 3",
        "a\u200bb\x07c",
        "naïve – “ok”",
        "48213",
    ):
        assert (await shipped.embed(text)).shape == (384,)


async def test_a_longer_text_than_the_window_is_refused(shipped: Embedder) -> None:
    for word in ("why ", "哪 "):
        await shipped.embed(word * 60)
        with pytest.raises(TextTooLong, match="128"):
            await shipped.embed(word * 130)


async def test_a_folder_without_a_card_is_measured(tmp_path: Path) -> None:
    async with OnnxEmbedder(a_copy(DEFAULT_FOLDER, tmp_path, None), deadline_s=PATIENT_S) as found:
        assert found.languages == {"en"}, "an English model is blind in Chinese, and it shows"
        assert 0.8 < found.threshold < 0.95
        assert found.name.startswith(tmp_path.name + "@")


async def test_another_prefix_is_another_vector_space(tmp_path: Path, english: OnnxEmbedder) -> None:
    card = json.loads((DEFAULT_FOLDER / "card.json").read_bytes())
    async with OnnxEmbedder(a_copy(DEFAULT_FOLDER, tmp_path, card | {"prefix": "query: "})) as other:
        assert other.name != english.name


async def test_another_file_is_another_vector_space(tmp_path: Path, english: OnnxEmbedder) -> None:
    a_copy(DEFAULT_FOLDER, tmp_path, json.loads((DEFAULT_FOLDER / "card.json").read_bytes()))
    async with OnnxEmbedder(tmp_path) as same:
        assert same.name == english.name
    (tmp_path / "tokenizer.json").unlink()
    changed = (DEFAULT_FOLDER / "tokenizer.json").read_text(encoding="utf-8") + "\n"
    (tmp_path / "tokenizer.json").write_text(changed, encoding="utf-8")
    async with OnnxEmbedder(tmp_path) as other:
        assert other.name != english.name


async def test_what_the_owner_sets_wins_over_the_card() -> None:
    embedder = open_embedder("default", threshold=0.5)
    assert embedder is not None
    async with embedder:
        assert embedder.threshold == 0.5


async def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"lacks model\.onnx and tokenizer\.json"):
        async with OnnxEmbedder(tmp_path):
            pass


async def test_an_unreadable_card_says_so(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"card\.json"):
        async with OnnxEmbedder(a_copy(DEFAULT_FOLDER, tmp_path, {"window": "wide"})):
            pass


async def test_a_damaged_model_says_so(tmp_path: Path) -> None:
    a_copy(DEFAULT_FOLDER, tmp_path, None)
    (tmp_path / "model.onnx").unlink()
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded"):
        async with OnnxEmbedder(tmp_path):
            pass


def test_a_setting_chooses_the_embedder(folder: Path) -> None:
    assert open_embedder("none") is None
    assert isinstance(open_embedder("hashing"), HashingEmbedder)
    assert isinstance(open_embedder("default"), BilingualEmbedder)
    assert isinstance(open_embedder(str(folder)), OnnxEmbedder)
    assert isinstance(open_embedder("BAAI/bge-small-en-v1.5"), SentenceTransformersEmbedder)


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is not None, reason="sentence-transformers is installed"
)
async def test_without_sentence_transformers_the_message_has_a_way_out() -> None:
    with pytest.raises(EmbedderUnavailable, match=r"rejoinder\[sentence-transformers\]"):
        async with SentenceTransformersEmbedder("BAAI/bge-small-en-v1.5"):
            pass
