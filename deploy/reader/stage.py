"""Puts everything into one file that a machine with a GPU needs: what to learn, and what to score.

    python stage.py PACKS TRAIN OUT.xz [--vectors FILE]

PACKS, TRAIN: folders of evaluation and of training packs, see pairs.py.  --vectors: keeps the embedder's vectors
between runs; without it they are made anew (minutes).

Two questions that the embedder finds near are what the reader will be asked about, so the streams and the bots that we
wrote give every question with its neighbours. To score: the twenty nearest earlier questions of every question of a
stream, and all pair packs. Packs that are share-alike are scored, never learned."""

import argparse
import lzma
import pickle
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pairs import PAIRS, STREAMS, Pair, bots, collected, rows

from cache.embedder import CHINESE_FOLDER, DEFAULT_FOLDER
from cache.embedder.onnx import OnnxModel
from cache.errors import TextTooLong
from cache.language import language

WRITTEN = Path(__file__).parent / "written"
SCORED_STREAMS = (
    "banking77", "clinc-static", "clinc150", "hwu64-slots", "own-faq", "math",
    "hint3-curekart", "hint3-powerplay11", "hint3-sofmattress",
)  # fmt: skip
SCORED_ELSEWHERE = ("sgd", "mtop")  # of the training packs
WINDOW = 128
NEIGHBOURS = 20
BATCH = 64

Floats = NDArray[np.float32]
Candidates = dict[str, list[list[int]]]  # stream → for each row, the rows before it that are nearest


class Vectors:
    """Texts as the shipped embedder sees them: one model for Chinese, one for the rest.  path: kept there, if given."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, NDArray[np.float16]] = {}
        if path is not None and path.exists():
            self._known = pickle.loads(path.read_bytes())
        self._models: dict[bool, OnnxModel] = {}

    def of(self, texts: list[str]) -> Floats:
        """(texts, dim), unit length."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for chinese in (False, True):
            mine = sorted((text for text in new if is_chinese(text) == chinese), key=len)
            for start in range(0, len(mine), BATCH):
                self._embed(self._model(chinese), mine[start : start + BATCH])
        return np.stack([self._known[text] for text in texts]).astype(np.float32)

    def keep(self) -> None:
        if self._path is not None:
            self._path.write_bytes(pickle.dumps(self._known))

    def _model(self, chinese: bool) -> OnnxModel:
        if chinese not in self._models:
            self._models[chinese] = OnnxModel(CHINESE_FOLDER if chinese else DEFAULT_FOLDER, threads=2)
            self._models[chinese].load()
        return self._models[chinese]

    def _embed(self, model: OnnxModel, texts: list[str]) -> None:
        tokens = []
        for text in texts:
            try:
                tokens.append(model.tokenize(text)[:WINDOW])
            except TextTooLong:  # signs that it cannot read: stands anywhere
                tokens.append(model.tokenize("x"))
        for text, vector in zip(texts, model.run(tokens), strict=True):
            self._known[text] = vector.astype(np.float16)


def is_chinese(text: str) -> bool:
    return language(text) == "zh"


def neighbours(packs: Path, vectors: Vectors) -> tuple[dict[str, list[str]], Candidates]:
    """(question → its nearest ones of the same stream or bot; candidates of the streams)."""
    near: dict[str, list[str]] = {}
    candidates: Candidates = {}
    for stream in SCORED_STREAMS:
        texts = queries(packs, stream)
        cosines = cosines_of(texts, vectors)
        candidates[stream] = []
        for row, text in enumerate(texts):
            order = np.argsort(-cosines[row])
            candidates[stream].append(earlier(order, row))
            others = [texts[other] for other in order[: 2 * NEIGHBOURS] if texts[other] != text]
            near.setdefault(text, others[:NEIGHBOURS])
    for _, answers in bots(WRITTEN):
        texts = list(answers)
        cosines = vectors.of(texts)
        cosines = cosines @ cosines.T
        for row, text in enumerate(texts):
            near[text] = [texts[other] for other in np.argsort(-cosines[row])[:NEIGHBOURS] if other != row]
    return near, candidates


def cosines_of(texts: list[str], vectors: Vectors) -> Floats:
    """(texts, texts); -1 between the languages, whose vectors are not of one space."""
    found = vectors.of(texts)
    cosines: Floats = found @ found.T
    chinese = np.array([is_chinese(text) for text in texts])
    cosines[chinese[:, None] != chinese[None, :]] = -1
    return cosines


def earlier(order: NDArray[np.int64], row: int) -> list[int]:
    """The nearest rows before `row`.  order: all rows, nearest first. The scores are written in this order."""
    return [int(other) for other in order if other < row][:NEIGHBOURS]


def queries(packs: Path, stream: str) -> list[str]:
    return [row["query"] for row in rows(packs / f"stream-{stream}.jsonl")]


def late(packs: Path) -> set[str]:
    """Questions that come first in the second half of their stream."""
    found: set[str] = set()
    for name in STREAMS:
        asked = queries(packs, name.removeprefix("stream-"))
        half = len(asked) // 2
        found |= set(asked[half:]) - set(asked[:half])
    return found


def held(pair: Pair, unseen: set[str]) -> bool:
    """Whether the pair belongs to the half that `half` in train.py leaves out."""
    if pair.family in STREAMS.values() and (pair.a in unseen or pair.b in unseen):
        return True
    return pair.family in PAIRS.values() and bool(zlib.crc32(pair.group.encode()) & 1)


def sets_to_score(packs: Path, train: Path, candidates: Candidates) -> dict[str, list[tuple[str, str]]]:
    found = {}
    for stream, near in candidates.items():
        if stream == "clinc150":  # its answers are coarser than its labels
            continue
        texts = queries(packs, stream)
        found[f"stream-{stream}"] = [
            (texts[row], texts[other]) for row, others in enumerate(near) for other in others
            if texts[row] != texts[other]
        ]  # fmt: skip
    for path in sorted(packs.glob("*.jsonl")):
        if path.stem.startswith(("pairs-", "contrast-", "paraphrase-")):
            found[path.stem] = [(row["a"], row["b"]) for row in rows(path)]
    for name in SCORED_ELSEWHERE:
        found[f"train-{name}"] = [(row["a"], row["b"]) for row in rows(train / f"train-{name}.jsonl")]
    return found


def main(packs: Path, train: Path, out: Path, vectors_path: Path | None) -> None:
    vectors = Vectors(vectors_path)
    near, candidates = neighbours(packs, vectors)
    vectors.keep()
    pairs = collected(packs, train, near)
    families = sorted({pair.family for pair in pairs})
    numbers: dict[str, int] = {}

    def numbered(found: Iterable[tuple[str, str]]) -> NDArray[np.int32]:
        return np.array([[numbers.setdefault(text, len(numbers)) for text in pair] for pair in found], np.int32)

    unseen = late(packs)
    told = [
        (pair.same, families.index(pair.family), round(pair.noise * 100), held(pair, unseen)) for pair in pairs
    ]  # fmt: skip
    data = {
        "pairs": numbered((pair.a, pair.b) for pair in pairs),
        "meta": np.array(told, np.uint8),  # same, family, noise in %, held
        "families": families,
        "sets": {name: numbered(found) for name, found in sets_to_score(packs, train, candidates).items()},
        "texts": list(numbers),
    }
    with lzma.open(out, "wb", preset=6) as file:
        pickle.dump(data, file)
    counts = Counter((pair.family, pair.same) for pair in pairs)
    for family in families:
        print(f"{family:12s} same {counts[family, True]:7d}  different {counts[family, False]:7d}")
    print(f"{len(numbers)} texts, {len(pairs)} pairs, {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", type=Path)
    parser.add_argument("train", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vectors", type=Path)
    given = parser.parse_args()
    main(given.packs, given.train, given.out, given.vectors)
