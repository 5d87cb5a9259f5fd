"""`rejoinder train`, without its words: open the models, learn from labels, keep it where the cache looks.

Trust learns beside the reader as it is; where it is wished (and torch is there), then beside one that learned from the
labels too, which is taken only where it serves more unseen questions and is not wrong more often. What came out
stands beside the old one (`….before`), and takes its place only when it does better on labels that neither has seen."""

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cache.adapted import ANCHORS, CALIBRATION, CARD, READER, Adapted, calibrated, own_reader, read_adapted
from cache.adapting import FEWEST, Labelled, Lesson, Material, Tell, adapted, gathered
from cache.calibration import Calibration, to_json
from cache.coaching import WHAT, coach, missing, parts_of
from cache.embedder import open_embedder
from cache.errors import StateError
from cache.reader import open_reader, reader_folder

_PATIENCE_S = 30.0
LEFT_ALONE = "the reader itself stays as it is (--teach-reader teaches it, too)"


@dataclass(frozen=True, slots=True)
class Schooled:
    """lesson: what was learned and how it compares.  taken: whether the new calibration is now the one in use.
    learned_from: labelled questions that could be compared.  reader: what became of the reader itself, a sentence.
    reader_taken: whether the lesson has a reader of its own."""

    lesson: Lesson
    taken: bool
    learned_from: int
    reader: str = ""
    reader_taken: bool = False


async def school(
    labelled: Sequence[Labelled], folder: Path, *, embedder: str = "default", reader: str = "default",
    budget: float = 0.01, always: bool = False, teach_reader: bool = False, tell: Tell = lambda what, share: None,
) -> Schooled:  # fmt: skip
    """Learn and keep. folder: made where it is missing.  always: take the new one even when it is no better.
    teach_reader: the reader's upper layers learn, too (extra: train).
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
        why = missing() if teach_reader else LEFT_ALONE
        tell = _in_turn(tell, alone=why is not None)
        material = await gathered(labelled, model, opened, start.floor, tell)
        if len(material.labelled) < FEWEST:
            raise StateError(
                f"{len(material.labelled)} different labelled questions are too few: {FEWEST} at least, some hundred "
                "to be of use. Add wordings that users really typed."
            )
        name = f"adapted {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())}"
        current, reads = await _in_use(folder, model.name, opened.name, material, stack)
        lesson = await adapted(material, start, budget, name, tell, current, reads)
        taught = None
        if why is None:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rejoinder-reader-")))
            further = await _further(material, start, shipped, place, budget, name, tell, current, reads, stack)
            rises = further.new.beats(lesson.new, budget)
            why = (
                f"the reader itself, taught further, served {further.new.served} of the {further.new.asked} unseen "
                f"questions, {further.new.wrong} wrong; as it was {lesson.new.served}, {lesson.new.wrong} wrong: "
                + ("it is part of what was learned" if rises else "it stays as it is")
            )
            if rises:
                lesson, taught = further, place / "2" / READER
        taken = always or lesson.better(budget)
        keep(lesson.adapted, folder, taken=taken, reader=taught, base=opened.name)
        return Schooled(lesson, taken, len(material.labelled), why, taught is not None)


async def _in_use(
    folder: Path, embedder: str, base: str, material: Material, stack: contextlib.AsyncExitStack
) -> tuple[Adapted | None, Material | None]:
    """What an earlier lesson left, and the material as the reader of that lesson reads it; None = as it ships."""
    if not own_reader(folder, base):
        return read_adapted(folder, embedder, base), None
    reader = open_reader(str(folder), deadline_s=_PATIENCE_S)
    assert reader is not None
    reader = await stack.enter_async_context(reader)
    return read_adapted(folder, embedder, reader.name), material.read_by([reader], None)


async def _further(
    material: Material, start: Calibration, shipped: Path, place: Path, budget: float, name: str, tell: Tell,
    current: Adapted | None, reads: Material | None, stack: contextlib.AsyncExitStack,
) -> Lesson:  # fmt: skip
    """The same lesson, with a reader that learns too."""
    readers = []
    for taught in await coach(material, shipped / READER, place, tell):
        reader = open_reader(str(taught), deadline_s=_PATIENCE_S)
        assert reader is not None
        readers.append(await stack.enter_async_context(reader))
    unseen = material.read_by(readers, parts_of(material))
    begin = replace(start, reader=readers[-1].name)
    # What it is compared with reads as it did: its calibration knows no other reader.
    return await adapted(unseen, begin, budget, name, tell, current or Adapted(start, None), reads or material)


def _in_turn(tell: Tell, *, alone: bool) -> Tell:
    """One share done for all of it, from those of its stages, which come in turn.  alone: no reader is taught."""
    stages = ("reading the labelled questions", "replaying", WHAT, "replaying")
    ends = (0.0, 0.1, 1.0, 1.0, 1.0) if alone else (0.0, 0.03, 0.2, 0.85, 1.0)
    at, furthest = 0, 0.0

    def told(what: str, share: float) -> None:
        nonlocal at, furthest
        while stages[at] != what and at < len(stages) - 1:
            at += 1
        furthest = max(furthest, ends[at] + share * (ends[at + 1] - ends[at]))  # a stage replays more than once
        tell(what, furthest)

    return told


def keep(learned: Adapted, folder: Path, *, taken: bool, reader: Path | None = None, base: str = "") -> None:
    """Write what was learned: in place when it is taken (the old beside it as `….before`), else as `….rejected`.
    reader: the model.onnx that learned too, made from `base`; None = the one that was in use.
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
    if reader is not None:
        _write(fresh / READER, reader.read_bytes())
        card = {"name": learned.calibration.reader, "base": base, "made": learned.calibration.name}
        _write(fresh / CARD, json.dumps(card, indent=1).encode())
    if target.exists():
        shutil.rmtree(before, ignore_errors=True)
        target.rename(before)
    fresh.rename(target)


def _is_ours(folder: Path) -> bool:
    """Empty, or nothing in it but what `keep` writes."""
    return folder.is_dir() and {each.name for each in folder.iterdir()} <= {CALIBRATION, ANCHORS, READER, CARD}


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
