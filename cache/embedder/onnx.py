"""The door to onnxruntime and tokenizers: a folder that holds `model.onnx` and `tokenizer.json`.

A `card.json` beside them says what the files cannot; every field may be left out:

    name       what to call the model; the folder's name otherwise
    prefix     put before every text ("query: " for the e5 family)
    window     longest input in tokens, special tokens included; 256 otherwise
    pooling    "mean" or "first", for a graph that returns one vector per token; "mean" otherwise
    threshold  cosine from which neighbours are worth reading; measured on the probes otherwise
    languages  ISO codes; measured on the probes otherwise
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from tokenizers import Tokenizer

from cache.embedder import probes
from cache.embedder.batching import BatchingEmbedder, ModelFacts, Tokens
from cache.errors import EmbedderUnavailable, TextTooLong

_FILES = ("model.onnx", "tokenizer.json", "card.json")


class Card(BaseModel):
    """What `card.json` says."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str | None = None
    prefix: str = ""
    window: int = 256
    pooling: Literal["mean", "first"] = "mean"
    threshold: float | None = None
    languages: frozenset[str] | None = None


class OnnxModel:
    """Runs on `threads` cores, in the thread that calls it."""

    def __init__(self, folder: Path, *, threads: int = 1, threshold: float | None = None) -> None:
        self._folder = folder
        self._threads = threads
        self._threshold = threshold
        self._card = Card()
        self._tokenizer: Any = None  # tokenizers ships no types for what we call
        self._session: Any = None
        self._inputs: frozenset[str] = frozenset()
        self._pad = 0
        self._unknown: int | None = None

    def load(self) -> ModelFacts:
        if missing := [name for name in _FILES[:2] if not (self._folder / name).is_file()]:
            raise EmbedderUnavailable(f"{self._folder} lacks {' and '.join(missing)}")
        self._card = self._read_card()
        self._open_tokenizer()
        self._open_session()
        seen = probes.measure(self.tokenize, self.run)
        card = self._card
        threshold = self._threshold if self._threshold is not None else card.threshold
        return ModelFacts(
            name=f"{card.name or self._folder.name}@{self._digest()}",
            dim=seen.dim,
            threshold=threshold if threshold is not None else seen.threshold,
            languages=card.languages if card.languages is not None else seen.languages,
            window=card.window,
        )

    def tokenize(self, text: str) -> Tokens:
        tokens: list[int] = self._tokenizer.encode(self._card.prefix + text).ids
        if self._unknown is not None and self._unknown in tokens:
            raise TextTooLong("the text has signs that the model cannot read")
        return tokens

    def run(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        longest = max(len(tokens) for tokens in batch)
        ids = np.full((len(batch), longest), self._pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        output = self._session.run(None, {name: feeds[name] for name in self._inputs})[0]
        return self._pooled(np.asarray(output, dtype=np.float32), mask)

    def _pooled(self, output: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        if output.ndim == 2:
            return output
        if self._card.pooling == "first":
            return output[:, 0]
        weights = mask[:, :, None].astype(np.float32)
        return np.asarray((output * weights).sum(axis=1) / weights.sum(axis=1), dtype=np.float32)

    def _read_card(self) -> Card:
        path = self._folder / "card.json"
        if not path.is_file():
            return Card()
        try:
            return Card.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise EmbedderUnavailable(f"{path} cannot be read: {error}") from None

    def _open_tokenizer(self) -> None:
        self._tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        padding = self._tokenizer.padding
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()  # a text that is cut must be refused, not compared
        known = (self._tokenizer.token_to_id(sign) for sign in ("<pad>", "[PAD]"))
        self._pad = padding["pad_id"] if padding else next((pad for pad in known if pad is not None), 0)
        model = json.loads((self._folder / "tokenizer.json").read_bytes())["model"]
        self._unknown = model.get("unk_id")
        if self._unknown is None and model.get("unk_token") is not None:
            self._unknown = self._tokenizer.token_to_id(model["unk_token"])

    def _open_session(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the cores belong to the proxy
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(self._folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = frozenset(node.name for node in self._session.get_inputs())
        if strange := self._inputs - {"input_ids", "attention_mask", "token_type_ids"}:
            raise EmbedderUnavailable(f"{self._folder / 'model.onnx'} wants {', '.join(sorted(strange))}")

    def _digest(self) -> str:
        """12 hex digits over everything that decides where a text lands, so that a swapped file never mixes vectors."""
        digest = hashlib.sha256(f"{self._card.prefix}\0{self._card.pooling}\0".encode())
        for name in _FILES[:2]:
            with (self._folder / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:12]


class OnnxEmbedder(BatchingEmbedder):
    """An ONNX model in a thread of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        threads: int = 1,
        threshold: float | None = None,
        deadline_s: float = 0.05,
        queue_limit: int = 256,
        max_batch: int = 32,
    ) -> None:
        model = OnnxModel(folder, threads=threads, threshold=threshold)
        super().__init__(model, deadline_s=deadline_s, queue_limit=queue_limit, max_batch=max_batch)
