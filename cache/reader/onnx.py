"""The reader at work: an ONNX graph that reads two questions and says how surely one answer serves both.

It runs on a thread of its own behind the same machinery as the embedder: newest first, a deadline, a breaker. A pair
that it cannot read, or not in time, has no reading; that is never taken for a yes."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray
from tokenizers import Tokenizer

from cache.embedder import CHINESE_FOLDER, BatchingEmbedder, ModelFacts
from cache.embedder.batching import Tokens, finite
from cache.errors import EmbedderUnavailable, TextTooLong
from cache.reader.pairing import END, PAD, PREFIX, START, WINDOW, batched

_BETWEEN = "\0"  # joins two texts on their way through the queue
_MARKS = frozenset((START, PAD, END))


class _PairModel:
    """What the thread drives: a `Model` whose texts are pairs and whose vectors are single logits."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._folder = folder
        self._threads = threads
        self._tokenizer: Any = None
        self._unknown: int | None = None
        self._session: Any = None

    def load(self) -> ModelFacts:
        path = self._folder / "model.onnx"
        if not path.is_file():
            raise EmbedderUnavailable(f"{self._folder} holds no reader (model.onnx)")
        self._tokenizer = tokenizer()
        self._unknown = self._tokenizer.token_to_id("<unk>")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the cores belong to the proxy
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        return ModelFacts(f"reader@{digest}", 1, 0.0, frozenset(("en", "zh")), WINDOW)

    def tokenize(self, text: str) -> Tokens:
        a, _, b = text.partition(_BETWEEN)
        first, second = (self._tokenizer.encode(PREFIX + part).ids for part in (a, b))
        for tokens in (first, second):
            # `</s>` can be typed: its token would end the text where the writer likes, and the rest pose as the other.
            if self._unknown in tokens or _MARKS & set(tokens[1:-1]):
                raise TextTooLong("the text has signs that the reader cannot read")
        return [*first, *second]

    def run(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        ids, kinds, mask = batched([_apart(tokens) for tokens in batch])
        feeds = {"input_ids": ids, "token_type_ids": kinds, "attention_mask": mask}
        return np.asarray(self._session.run(None, feeds)[0], dtype=np.float32)[:, None]


class Lower:
    """The lower layers of a reader alone, for who teaches the upper ones.  raw: a model of `graph.lower`."""

    def __init__(self, raw: bytes, threads: int = 0) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])

    def states(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> list[NDArray[np.float16]]:
        """One (length, hidden) a pair, in half precision."""
        ids, kinds, mask = batched(pairs)
        feeds = {"input_ids": ids, "token_type_ids": kinds, "attention_mask": mask}
        states = self._session.run(None, feeds)[0].astype(np.float16)
        return [state[:length] for state, length in zip(states, mask.sum(axis=1), strict=True)]


def _apart(tokens: Tokens) -> tuple[Tokens, Tokens]:
    end = list(tokens).index(END) + 1
    return tokens[:end], tokens[end:]


def tokenizer() -> Any:
    """The reader shares the vocabulary of the shipped Chinese embedder, which reads English as well."""
    made = Tokenizer.from_file(str(CHINESE_FOLDER / "tokenizer.json"))
    made.no_padding()
    made.no_truncation()
    return made


class OnnxReader:
    """An async context manager.  folder: holds model.onnx.  deadline_s: how long a user's question waits for it."""

    def __init__(self, folder: Path, *, threads: int = 1, deadline_s: float = 0.08) -> None:
        self._model = _PairModel(folder, threads)
        self._queue = BatchingEmbedder(
            self._model, deadline_s=deadline_s, queue_limit=64, max_batch=8, tokens_per_run=192, checked=finite
        )

    async def __aenter__(self) -> Self:
        await self._queue.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._queue.__aexit__(kind, error, trace)

    @property
    def name(self) -> str:
        """Which reader this is: `reader@` and the digest of its file."""
        return self._queue.name

    async def read(self, asked: str, stored: Sequence[str], *, deadline_s: float | None = None) -> list[float | None]:
        async def one(text: str) -> float | None:
            if _BETWEEN in asked or _BETWEEN in text:
                return None
            try:
                return float((await self._queue.embed(f"{asked}{_BETWEEN}{text}", deadline_s=deadline_s))[0])
            except (TextTooLong, EmbedderUnavailable):
                return None

        return list(await asyncio.gather(*map(one, stored)))
