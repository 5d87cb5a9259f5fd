"""Two questions, read side by side by a small model of our own: does one answer serve both?

pairing     two questions as one row of tokens                               (pure)
onnx        the reader at work: door to onnxruntime and tokenizers, with the embedder's queue
graph       a BERT encoder as an ONNX graph in integers: door to onnx        (extra: train)
network     the same as a torch network, out of such a graph and back        (extra: train)
training    how it learns: cross entropy, averaged weights                   (extra: train)
contrasts   from questions with known answers to pairs that teach           (pure)
refining    its upper layers taught further, on a CPU in minutes             (extra: train)
weights/    the shipped reader (deploy/reader/ says how it was made, NOTICE from whose texts)

Importing this room loads neither torch nor onnx.
"""

from pathlib import Path

from cache.protocols import Reader
from cache.reader.onnx import OnnxReader

__all__ = ["DEFAULT_FOLDER", "OnnxReader", "open_reader", "reader_folder"]

DEFAULT_FOLDER = Path(__file__).parent / "weights"


def open_reader(spec: str = "default", *, threads: int = 1, deadline_s: float = 0.08) -> Reader | None:
    """The reader that a setting means; it is opened by entering it.

    spec: `default` (shipped, English and Chinese), `none`, or a folder that holds model.onnx.  deadline_s: how long a
    user's question waits for it."""
    folder = reader_folder(spec)
    return None if folder is None else OnnxReader(folder, threads=threads, deadline_s=deadline_s)


def reader_folder(spec: str) -> Path | None:
    """Where the reader and its calibration stand, for the same `spec`."""
    if spec == "none":
        return None
    return DEFAULT_FOLDER if spec == "default" else Path(spec)
