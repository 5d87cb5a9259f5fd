"""Trains readers on a GPU, several side by side.

    python train.py DATA OUT NAME[:FAMILY,…][:half] … [--epochs N] [--seconds S] [--rate R] [--parts N] [--floats]

DATA: what stage.py wrote.  NAME: learns everything; families after the first colon are left out whole; `half` leaves
out one half of every evaluation pack.  Writes OUT/NAME.scores.npz (logits of the pairs that the evaluation needs, so
that trust can be fitted without a GPU) and OUT/NAME.part0 …, from which assemble.py makes the model.  --parts: how
many files, where what carries them has a limit.  --floats: also OUT/NAME.floats.npz, the weights before rounding, by
the names of cache.reader.network, in half precision.

Now and then a training does not start to learn (the loss stays where guessing is); it is begun again at half the rate.
Of several GPUs it uses the first that CUDA_VISIBLE_DEVICES shows.

Needs torch, onnx, numpy and tokenizers, nothing else of Rejoinder's dependencies."""

import argparse
import lzma
import multiprocessing
import multiprocessing.connection
import pickle
import sys
import time
import types
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
START = ROOT / "cache" / "embedder" / "weights" / "e5-small-zh"
# Passes over a family in one epoch: broad sources count whole, the biggest ones less, the small careful ones twice.
PASSES = {"banking77": 0.6, "clinc": 0.5, "hwu64": 0.7, "fow": 2.0, "own": 2.0, "covid": 2.0, "gptcache": 0.5,
          "pawsx": 1.0, "nlupp": 0.6, "advising": 0.7, "wikisql": 0.7}  # fmt: skip
BATCH = 512
RATE = 3.5e-4
WARM_UP = 0.08
STUCK = 0.6  # the loss of one that guesses is 0.65
DOUBTED = 0.15  # of the training: how long it may guess


@dataclass(frozen=True)
class Wanted:
    """A reader to train.  left_out: families.  half: whether it learns only one half of the evaluation packs."""

    name: str
    left_out: frozenset[str]
    half: bool

    @classmethod
    def of(cls, spec: str) -> "Wanted":
        name, *rest = spec.split(":")
        families = {family for part in rest if part != "half" for family in part.split(",") if family}
        return cls(name, frozenset(families), "half" in rest)


class Guessing(Exception):
    """It has not begun to learn."""


def only_the_readers_rooms() -> None:
    """A machine that trains has neither faiss nor a server, so the packages open without their fronts."""
    for name in ("cache", "cache.reader"):
        package = types.ModuleType(name)
        package.__path__ = [str(ROOT.joinpath(*name.split(".")))]
        sys.modules[name] = package


def lessons_of(data: dict[str, Any], tokens: list[list[int]], wanted: Wanted) -> list[Any]:
    from cache.reader.pairing import WINDOW
    from cache.reader.training import Lesson

    unknown = wanted.left_out - set(data["families"])
    if unknown:
        raise SystemExit(f"{wanted.name}: no such family: {', '.join(sorted(unknown))}")
    rng = np.random.default_rng(11)
    lessons = []
    for (a, b), (same, family, noise, held) in zip(data["pairs"], data["meta"], strict=True):
        source = data["families"][family]
        if source in wanted.left_out or (wanted.half and held) or len(tokens[a]) + len(tokens[b]) > WINDOW:
            continue
        passes = PASSES.get(source, 1.0)
        right = 1.0 - noise / 100 if same else noise / 100
        for _ in range(int(passes) + (rng.random() < passes % 1)):
            lessons.append(Lesson(tokens[a], tokens[b], right))
    return lessons


def train(given: argparse.Namespace, spec: str) -> None:
    only_the_readers_rooms()
    import torch
    from tokenizers import Tokenizer

    from cache.reader import network, training
    from cache.reader.pairing import PREFIX

    wanted, out = Wanted.of(spec), given.out
    began = reported = time.monotonic()
    losses: list[float] = []

    def say(words: str) -> None:
        print(f"{wanted.name}: {words}, {time.monotonic() - began:.0f} s", flush=True)

    def progress(done: float, loss: float) -> None:
        nonlocal reported
        losses.append(loss)
        if done > DOUBTED and len(losses) >= 10 and min(losses[-10:]) > STUCK:
            raise Guessing
        if time.monotonic() - reported > 15:
            reported = time.monotonic()
            say(f"{done:5.1%} loss {loss:.4f}")

    torch.backends.cuda.matmul.allow_tf32 = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with lzma.open(given.data) as file:
        data = pickle.load(file)
    tokenizer = Tokenizer.from_file(str(START / "tokenizer.json"))
    tokenizer.no_padding()
    tokens = [each.ids for each in tokenizer.encode_batch([PREFIX + text for text in data["texts"]])]
    lessons = lessons_of(data, tokens, wanted)
    say(f"{len(lessons)} lessons an epoch, on {device}")
    course = training.Course(
        batch=BATCH, epochs=given.epochs, seconds=given.seconds, rate=given.rate, warm_up=WARM_UP
    )  # fmt: skip
    started = time.monotonic()
    try:
        reader = training.trained(network.loaded(START / "model.onnx"), lessons, course, device, progress)
    except Guessing:
        left = given.seconds - (time.monotonic() - started)
        say(f"does not learn, begun again with {left:.0f} s left")
        losses.clear()
        course = replace(course, seconds=left, rate=given.rate / 2, seed=course.seed + 1)
        reader = training.trained(network.loaded(START / "model.onnx"), lessons, course, device, progress)
    say(f"trained, about {len(losses) * 20 * BATCH / len(lessons):.1f} epochs")  # progress comes every 20 steps
    write(network.exported(reader, "reader"), out / wanted.name, given.parts)
    if given.floats:
        state = {name: each.detach().cpu().half().numpy() for name, each in reader.state_dict().items()}
        np.savez(out / f"{wanted.name}.floats.npz", **state)
    say("written")
    scores = {}
    for name, pairs in data["sets"].items():
        cut = [(tokens[a][:64], tokens[b][:64]) for a, b in pairs]
        scores[name] = training.scored(reader, cut, device, 1024).astype(np.float16)
    np.savez_compressed(f"{out / wanted.name}.scores.npz", **scores)
    say("scored")


def write(model: Any, path: Path, parts: int) -> None:
    """Without the table of words: it is the embedder's own, and a third of the file."""
    next(each for each in model.graph.initializer if each.name == "word.w").raw_data = b""
    packed = lzma.compress(model.SerializeToString(deterministic=True), preset=1)
    size = -(-len(packed) // parts)
    for part in range(parts):
        path.with_name(f"{path.name}.part{part}").write_bytes(packed[part * size : (part + 1) * size])


def main(given: argparse.Namespace) -> int:
    """Trains them all; when one fails, the others end."""
    given.out.mkdir(parents=True, exist_ok=True)
    fresh = multiprocessing.get_context("spawn")
    workers = [fresh.Process(target=train, args=(given, spec)) for spec in given.specs]
    for worker in workers:
        worker.start()
    running = {worker.sentinel: worker for worker in workers}
    while running:
        for ended in multiprocessing.connection.wait(list(running)):
            worker = running.pop(ended)  # type: ignore[index]
            worker.join()
            if worker.exitcode:
                for other in running.values():
                    other.terminate()
    return int(any(worker.exitcode for worker in workers))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("specs", nargs="+", metavar="NAME[:FAMILY,…][:half]")
    parser.add_argument("--epochs", type=float, default=4.9)
    parser.add_argument(
        "--seconds", type=float, default=3600.0, help="of training; the schedule ends with whichever is first"
    )
    parser.add_argument("--rate", type=float, default=RATE, help="of learning, at its peak")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--floats", action="store_true")
    sys.exit(main(parser.parse_args()))
