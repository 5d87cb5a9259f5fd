"""The door to sentence-transformers: any model it can load, by name or by folder.

torch and sentence_transformers are imported when the embedder is entered, in its thread: the import alone takes
seconds, and most installations do without them."""

import hashlib
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cache.embedder import probes
from cache.embedder.batching import BatchingEmbedder, ModelFacts, Tokens
from cache.errors import EmbedderUnavailable, TextTooLong


class SentenceTransformersModel:
    """prompt: put before every text; None = the prompt that the model itself calls "query", or "query: " for e5."""

    def __init__(
        self,
        model: str,
        *,
        prompt: str | None = None,
        threshold: float | None = None,
        languages: frozenset[str] | None = None,
        threads: int = 1,
        device: str | None = None,
    ) -> None:
        self._model_name = model
        self._prompt = prompt
        self._threshold = threshold
        self._languages = languages
        self._threads = threads
        self._device = device
        self._torch: Any = None
        self._model: Any = None
        self._unknown: int | None = None
        self._texts: dict[tuple[int, ...], str] = {}

    def load(self) -> ModelFacts:
        try:
            self._torch = importlib.import_module("torch")
            library: Any = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise EmbedderUnavailable(
                f"{error.name} is not installed, and {self._model_name!r} needs it: "
                "pip install 'rejoinder[sentence-transformers]', or take the embedder that is shipped: default"
            ) from None
        self._torch.set_num_threads(self._threads)
        try:
            self._model = library.SentenceTransformer(self._model_name, device=self._device)
        except Exception as error:
            raise EmbedderUnavailable(f"sentence-transformers cannot load {self._model_name!r}: {error}") from None
        self._model.eval()
        self._unknown = getattr(self._model.tokenizer, "unk_token_id", None)
        self._prompt = self._choose_prompt()
        seen = probes.measure(self.tokenize, self.run)
        return ModelFacts(
            name=f"{Path(self._model_name).name}@{self._digest()}",
            dim=seen.dim,
            threshold=self._threshold if self._threshold is not None else seen.threshold,
            languages=self._languages if self._languages is not None else seen.languages,
            window=int(self._model.max_seq_length or 512),
        )

    def tokenize(self, text: str) -> Tokens:
        tokens: list[int] = self._model.tokenizer(f"{self._prompt}{text}", truncation=False, verbose=False)["input_ids"]
        if self._unknown is not None and self._unknown in tokens:
            raise TextTooLong("the text has signs that the model cannot read")
        return tokens

    def run(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        features = self._model.tokenizer.pad({"input_ids": [list(tokens) for tokens in batch]}, return_tensors="pt")
        device = self._model.device
        with self._torch.inference_mode():
            output = self._model({name: value.to(device) for name, value in features.items()})
        return np.asarray(output["sentence_embedding"].float().cpu().numpy(), dtype=np.float32)

    def _choose_prompt(self) -> str:
        if self._prompt is not None:
            return self._prompt
        own = (self._model.prompts or {}).get("query", "")
        return own or ("query: " if "e5" in Path(self._model_name).name.lower().split("-") else "")

    def _digest(self) -> str:
        """12 hex digits over prompt and weights: the same name on a hub may mean other weights tomorrow."""
        digest = hashlib.sha256(f"{self._prompt}\0".encode())
        for name, tensor in sorted(self._model.state_dict().items()):
            digest.update(name.encode())
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(self._torch.uint8).numpy().data)
        return digest.hexdigest()[:12]


class SentenceTransformersEmbedder(BatchingEmbedder):
    """A sentence-transformers model in a thread of its own.

    threshold: None = measured on the probes, which is cautious and knows nothing of your questions."""

    def __init__(
        self,
        model: str,
        *,
        prompt: str | None = None,
        threshold: float | None = None,
        languages: frozenset[str] | None = None,
        threads: int = 1,
        device: str | None = None,
        deadline_s: float = 0.05,
        queue_limit: int = 256,
        max_batch: int = 32,
        load_timeout_s: float = 600.0,
    ) -> None:
        loader = SentenceTransformersModel(
            model, prompt=prompt, threshold=threshold, languages=languages, threads=threads, device=device
        )
        super().__init__(
            loader,
            deadline_s=deadline_s,
            queue_limit=queue_limit,
            max_batch=max_batch,
            load_timeout_s=load_timeout_s,
        )
