"""From a text to a vector, off the event loop.

breaker                 when to stop asking                                       (pure)
batching                the thread that owns a model, and the loop's side of it
probes                  what a model can do, found out when it is loaded          (pure)
onnx                    door to onnxruntime and tokenizers
sentence_transformer    door to sentence-transformers (an extra)
bilingual               two models as one: English to one, Chinese to the other
hashing                 a model-free stand-in for tests and demos
weights/                the two models of the default (NOTICE says whose they are)
"""

from pathlib import Path

from cache.embedder.batching import BatchingEmbedder, Model, ModelFacts
from cache.embedder.bilingual import BilingualEmbedder
from cache.embedder.hashing import HashingEmbedder
from cache.embedder.onnx import OnnxEmbedder
from cache.embedder.sentence_transformer import SentenceTransformersEmbedder
from cache.protocols import Embedder

__all__ = [
    "CHINESE_FOLDER",
    "DEFAULT_FOLDER",
    "BatchingEmbedder",
    "BilingualEmbedder",
    "HashingEmbedder",
    "Model",
    "ModelFacts",
    "OnnxEmbedder",
    "SentenceTransformersEmbedder",
    "open_embedder",
]

DEFAULT_FOLDER = Path(__file__).parent / "weights" / "minilm-en"
CHINESE_FOLDER = Path(__file__).parent / "weights" / "e5-small-zh"


def open_embedder(
    spec: str = "default", *, threshold: float | None = None, threads: int = 1, deadline_s: float = 0.05
) -> Embedder | None:
    """The embedder that a setting means; it is opened by entering it.

    spec: `default` (shipped, English and Chinese), `none`, `hashing` (tests only), a folder that holds model.onnx and
    tokenizer.json, or whatever sentence-transformers can load.  threshold: None = the model's own."""
    if spec == "none":
        return None
    if spec == "hashing":
        return HashingEmbedder() if threshold is None else HashingEmbedder(threshold=threshold)
    if spec == "default":
        return BilingualEmbedder(
            OnnxEmbedder(DEFAULT_FOLDER, threshold=threshold, threads=threads, deadline_s=deadline_s),
            OnnxEmbedder(CHINESE_FOLDER, threshold=threshold, threads=threads, deadline_s=deadline_s),
        )
    if (Path(spec) / "model.onnx").is_file():
        return OnnxEmbedder(Path(spec), threshold=threshold, threads=threads, deadline_s=deadline_s)
    return SentenceTransformersEmbedder(spec, threshold=threshold, threads=threads, deadline_s=deadline_s)
