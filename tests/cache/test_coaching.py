"""Nobody's bar rests on what a reader says of questions that it was taught; and without torch nothing breaks."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from readers import ScriptedReader

from cache import coaching
from cache.adapting import Labelled, Material
from cache.coaching import missing, parts_of
from cache.errors import StateError
from cache.reader import DEFAULT_FOLDER


def material(count: int = 40) -> Material:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(count, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    labelled = [Labelled(f"question number {number}", f"answer {number % 4}") for number in range(count)]
    return Material(labelled, vectors, ScriptedReader(), 0.4)


def test_what_decides_is_in_a_part_of_its_own_and_the_halves_are_alike() -> None:
    parts = parts_of(material(40))
    assert parts[30:] == [2] * 10
    assert parts[:30].count(0) == parts[:30].count(1) == 15


async def test_questions_meet_only_those_of_their_part_read_by_the_parts_reader() -> None:
    readers = [ScriptedReader() for _ in range(3)]
    taught = material().read_by(readers, parts_of(material()))
    for number, part in enumerate(taught.parts):
        await taught.logits(number, [(number + 1) % 40])
        assert readers[part].asked[-1][0] == f"question number {number}"


def test_without_torch_the_way_out_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else object())
    said = missing()
    assert said is not None and "pip install 'rejoinder[train]'" in said and "\n" not in said
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert missing() is None


async def test_three_readers_come_out_each_with_its_lessons_and_the_start_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(extra: train)"""
    pytest.importorskip("torch", reason="needs the extra: pip install 'rejoinder[train]'")
    pytest.importorskip("onnx", reason="needs the extra: pip install 'rejoinder[train]'")
    from cache.reader import refining

    taught: list[set[int]] = []
    lessons: list[object] = []

    def prepare(self: refining.Refiner, given: list[object], tell: refining.Tell) -> None:
        lessons.extend(given)
        tell(1.0)

    def teach(self: refining.Refiner, chosen: list[int], tell: refining.Tell) -> bytes:
        taught.append(set(chosen))
        tell(0.5)
        return f"reader {len(taught)}".encode()

    monkeypatch.setattr(refining.Refiner, "prepare", prepare)
    monkeypatch.setattr(refining.Refiner, "taught", teach)
    told: list[float] = []
    made = await coaching.coach(
        material(), DEFAULT_FOLDER / "model.onnx", tmp_path, lambda what, share: told.append(share)
    )
    assert [(place / "model.onnx").read_bytes() for place in made] == [b"reader 1", b"reader 2", b"reader 3"]
    general = taught[0] & taught[1]
    assert general and general <= taught[2], "each is reminded of what it knew"
    assert not (taught[0] - general) & (taught[1] - general), "the halves share no pair of the operator's"
    assert max(taught[2]) < len(lessons)
    assert told == sorted(told) and told[-1] <= 1.0


async def test_who_breaks_a_lesson_off_ends_its_thread_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio
    import threading

    inside, ended = threading.Event(), threading.Event()

    def forever(of: Material, start: Path, folder: Path, said: coaching.Callable[[float], None]) -> list[Path]:
        try:
            while True:
                inside.set()
                said(0.5)
        except StateError:
            ended.set()
            raise

    monkeypatch.setattr(coaching, "_coached", forever)
    lesson = asyncio.create_task(coaching.coach(material(), tmp_path, tmp_path, lambda what, share: None))
    await asyncio.to_thread(inside.wait, 10)
    lesson.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lesson
    assert await asyncio.to_thread(ended.wait, 10)
    assert not os.listdir(tmp_path)
