"""Which reader and which calibration an opened cache weighs with: only those that were made for its embedder."""

import asyncio
import contextlib
import json
import logging
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from embedders import Placed

from cache.adapted import reader_name
from cache.assessor import Assessor
from cache.calibration import from_json, to_json
from cache.embedder.hashing import HashingEmbedder
from cache.opening import CacheSettings, open_cache
from cache.policy import Rules
from cache.reader import DEFAULT_FOLDER

SHIPPED = DEFAULT_FOLDER / "trust.json"
READER = DEFAULT_FOLDER / "model.onnx"
pytestmark = pytest.mark.skipif(not (SHIPPED.is_file() and READER.is_file()), reason="the shipped reader is not here")


class Named(HashingEmbedder):
    """Says that it is another model than it is."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    @property
    def name(self) -> str:
        return self._name


@contextlib.asynccontextmanager
async def assessor_of(embedder: Any, **settings: Any) -> AsyncIterator[Assessor]:
    async with open_cache(CacheSettings(Rules(), "f", **settings), embedder=embedder) as cache:
        yield cache._assessor


def shipped_for() -> str:
    return str(json.loads(SHIPPED.read_bytes())["embedder"])


def adapted_to(folder: Path, **changes: Any) -> Path:
    """What `rejoinder train` would leave, made from what ships."""
    folder.mkdir(parents=True)
    (folder / "trust.json").write_text(to_json(replace(from_json(SHIPPED.read_bytes()), name="adapted", **changes)))
    return folder


async def test_what_ships_is_used_with_the_embedder_that_ships() -> None:
    async with assessor_of(Named(shipped_for())) as assessor:
        assert assessor._reader is not None and assessor._calibration is not None
        assert assessor._calibration == from_json(SHIPPED.read_bytes())
        assert assessor._reader.name == assessor._calibration.reader


@pytest.mark.parametrize("embedder", [HashingEmbedder(), Placed()])
async def test_with_another_embedder_it_is_cautious_and_says_so(
    embedder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with assessor_of(embedder) as assessor:
        assert assessor._reader is None and assessor._calibration is None
    assert f"no reader was calibrated for the embedder {embedder.name}" in caplog.text


async def test_who_wants_no_reader_gets_none(tmp_path: Path) -> None:
    folder = adapted_to(tmp_path / "adapted")
    shutil.copy(READER, folder / "model.onnx")
    async with assessor_of(Named(shipped_for()), reader="none", adapted_dir=folder) as assessor:
        assert assessor._reader is None and assessor._calibration is None


async def test_what_was_learned_comes_before_what_ships(tmp_path: Path) -> None:
    for settings in ({"adapted_dir": adapted_to(tmp_path / "a")}, {"state_dir": tmp_path / "state"}):
        if "state_dir" in settings:
            adapted_to(tmp_path / "state" / "adapted")
        async with assessor_of(Named(shipped_for()), **settings) as assessor:
            assert assessor._calibration is not None and assessor._calibration.name == "adapted"


@pytest.mark.parametrize("changes", [{"embedder": "another"}, {"reader": "reader@another"}])
async def test_what_was_learned_for_another_model_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, str]
) -> None:
    caplog.set_level(logging.INFO)
    folder = adapted_to(tmp_path / "adapted", **changes)
    async with assessor_of(Named(shipped_for()), adapted_dir=folder) as assessor:
        assert assessor._calibration is not None and assessor._calibration.name != "adapted"
    assert f"the calibration in {folder} was made for" in caplog.text


async def test_a_broken_calibration_does_not_stop_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "trust.json").write_text("{")
    async with assessor_of(Named(shipped_for()), adapted_dir=tmp_path) as assessor:
        assert assessor._calibration is not None and assessor._calibration.name != "adapted"
    assert "trust.json is not a calibration" in caplog.text


async def test_each_tenant_may_have_a_budget_of_its_own() -> None:
    async with assessor_of(HashingEmbedder(), max_false_hit_rate=0.02, budgets={"bank": 0.001}) as assessor:
        assert (assessor._budget_of("shop"), assessor._budget_of("bank")) == (0.02, 0.001)


async def test_an_opened_cache_leaves_no_task_behind() -> None:
    async with assessor_of(Named(shipped_for())):
        pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


def taught(folder: Path, base: str = "") -> Path:
    """A reader of the operator's own beside its trust: the shipped one with a line more."""
    folder.mkdir(parents=True)
    raw = READER.read_bytes()
    model = raw + b"\x32\x06taught"  # ModelProto.doc_string, field 6: says nothing to who runs it
    (folder / "model.onnx").write_bytes(model)
    name = reader_name(folder / "model.onnx")
    made = replace(from_json(SHIPPED.read_bytes()), name="adapted", reader=name)
    (folder / "trust.json").write_text(to_json(made))
    (folder / "reader.json").write_text(json.dumps({"name": name, "base": base or reader_name(READER)}))
    return folder


async def test_a_reader_that_learned_reads_in_place_of_the_one_that_ships(tmp_path: Path) -> None:
    folder = taught(tmp_path / "adapted")
    async with assessor_of(Named(shipped_for()), adapted_dir=folder) as assessor:
        assert assessor._reader is not None and assessor._calibration is not None
        assert assessor._calibration.name == "adapted"
        assert assessor._reader.name == reader_name(folder / "model.onnx") != reader_name(READER)


async def test_a_damaged_or_outdated_reader_leaves_everything_to_what_ships(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, outdated = taught(tmp_path / "a"), taught(tmp_path / "b", base="reader@before")
    (damaged / "model.onnx").write_bytes(b"half of it")
    for folder, words in ((damaged, "is not the one"), (outdated, "was taught from reader@before")):
        async with assessor_of(Named(shipped_for()), adapted_dir=folder) as assessor:
            assert assessor._reader is not None and assessor._reader.name == reader_name(READER)
            assert assessor._calibration is not None and assessor._calibration.name != "adapted"
        assert words in caplog.text
