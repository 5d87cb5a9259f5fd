"""`rejoinder train`, without its words: open the models, learn from labels, keep it where the cache looks.

The new calibration stands beside the old one (`….before`), and takes its place only when it does better on labels that
neither has learned from."""

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cache.adapted import ANCHORS, CALIBRATION, Adapted, calibrated, read_adapted
from cache.adapting import FEWEST, Labelled, Lesson, Tell, adapted, gathered
from cache.calibration import to_json
from cache.embedder import open_embedder
from cache.errors import StateError
from cache.reader import open_reader, reader_folder

_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Schooled:
    """lesson: what was learned and how it compares.  taken: whether the new calibration is now the one in use.
    learned_from: labelled questions that could be compared."""

    lesson: Lesson
    taken: bool
    learned_from: int


async def school(
    labelled: Sequence[Labelled], folder: Path, *, embedder: str = "default", reader: str = "default",
    budget: float = 0.01, always: bool = False, tell: Tell = lambda what, share: None,
) -> Schooled:  # fmt: skip
    """Learn and keep. folder: made where it is missing.  always: take the new one even when it is no better.
    Raises StateError with a way out, EmbedderUnavailable."""
    shipped = reader_folder(reader)
    model = open_embedder(embedder)
    if shipped is None or model is None:
        raise StateError("Learning needs an embedder and a reader; one of the two is set to none.")
    async with contextlib.AsyncExitStack() as stack:
        model = await stack.enter_async_context(model)
        start = calibrated(shipped, model.name)
        if start is None:
            raise StateError(
                f"No calibration to begin with: the reader in {shipped} was never calibrated for the embedder "
                f"{model.name}. `rejoinder train` adapts the default pair; use embedder = default, reader = default."
            )
        opened = open_reader(reader, deadline_s=_PATIENCE_S)
        assert opened is not None
        opened = await stack.enter_async_context(opened)
        if opened.name != start.reader:
            raise StateError(
                f"The calibration in {shipped} was made for {start.reader}, but the reader is {opened.name}."
            )
        material = await gathered(labelled, model, opened, start.floor, tell)
        if len(material.labelled) < FEWEST:
            raise StateError(
                f"{len(material.labelled)} different labelled questions are too few: {FEWEST} at least, some hundred "
                "to be of use. Add wordings that users really typed."
            )
        name = f"adapted {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())}"
        current = read_adapted(folder, model.name, opened.name)
        lesson = await adapted(material, start, budget, name, tell, current)
        taken = always or lesson.better(budget)
        keep(lesson.adapted, folder, taken=taken)
        return Schooled(lesson, taken, len(material.labelled))


def keep(learned: Adapted, folder: Path, *, taken: bool) -> None:
    """Write what was learned: in place when it is taken (the old beside it as `….before`), else as `….rejected`.
    Raises StateError where something else than an earlier lesson stands there: nothing of it is touched."""
    target = folder if taken else folder.with_name(folder.name + ".rejected")
    before = target.with_name(target.name + ".before")
    for place in (target, before):
        if place.exists() and not _is_ours(place):
            raise StateError(f"{place} holds something else than a lesson of `rejoinder train`; choose another --out.")
    fresh = target.with_name(f".{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True, mode=0o700)
    _write(fresh / CALIBRATION, to_json(learned.calibration).encode())
    if learned.anchors is not None:
        _write(fresh / ANCHORS, learned.anchors.to_bytes())
    if target.exists():
        shutil.rmtree(before, ignore_errors=True)
        target.rename(before)
    fresh.rename(target)


def _is_ours(folder: Path) -> bool:
    """Empty, or nothing in it but what `keep` writes (a reader may have been put beside)."""
    return folder.is_dir() and {each.name for each in folder.iterdir()} <= {CALIBRATION, ANCHORS, "model.onnx"}


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
