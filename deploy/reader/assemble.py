"""Puts the table of words back into a reader that train.py wrote: python assemble.py FOLDER NAME OUT

FOLDER/NAME.part0, .part1 … → OUT/model.onnx. The table is that of the shipped Chinese embedder; training leaves it as
it is, so it need not travel."""

import hashlib
import lzma
import sys
from pathlib import Path

import onnx

WORDS = Path(__file__).resolve().parents[2] / "cache" / "embedder" / "weights" / "e5-small-zh" / "model.onnx"


def table(model: onnx.ModelProto) -> onnx.TensorProto:
    return next(each for each in model.graph.initializer if each.name == "word.w")


def main(folder: str, name: str, out: str) -> None:
    parts = sorted(Path(folder).glob(f"{name}.part*"), key=lambda path: int(path.suffix.removeprefix(".part")))
    if not parts:
        raise SystemExit(f"{folder} holds no {name}.part0")
    model = onnx.ModelProto()
    model.ParseFromString(lzma.decompress(b"".join(part.read_bytes() for part in parts)))
    words, empty = table(onnx.load(WORDS)), table(model)
    if list(words.dims) != list(empty.dims):
        raise SystemExit(f"{name} was trained on another vocabulary than {WORDS} has")
    empty.raw_data = words.raw_data
    path = Path(out) / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
    print(path, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
