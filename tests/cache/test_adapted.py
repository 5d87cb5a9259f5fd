"""What was learned is used with the models that it was learned with, or not at all; and the log says which."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cache.adapted import (
    ANCHORS,
    CALIBRATION,
    CARD,
    READER,
    Adapted,
    calibrated,
    own_reader,
    read_adapted,
    reader_name,
)
from cache.anchors import Anchors
from cache.calibration import FEATURES, Calibration, to_json

MADE = Calibration("mine", "minilm@1", "reader@1", 0.5, (0.0,) * (len(FEATURES) + 2), 0.5, ((0.01, 0.9),))
LEARNED = Anchors(np.ones((3, 2), np.float32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / CALIBRATION).write_text(to_json(MADE))
    (tmp_path / ANCHORS).write_bytes(LEARNED.to_bytes())
    return tmp_path


def test_what_was_made_for_these_two_models_is_used(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = read_adapted(folder, "minilm@1", "reader@1")
    assert found is not None and found.calibration == MADE and found.anchors is not None
    assert np.array_equal(found.anchors.weights, LEARNED.weights)
    assert calibrated(folder, "minilm@1") == MADE
    assert not caplog.records


def test_a_calibration_alone_is_what_ships(folder: Path) -> None:
    (folder / ANCHORS).unlink()
    assert read_adapted(folder, "minilm@1", "reader@1") == Adapted(MADE, None)


@pytest.mark.parametrize(("embedder", "reader"), [("minilm@2", "reader@1"), ("minilm@1", "reader@2"), ("", "")])
def test_what_was_made_for_another_model_is_not_used(
    folder: Path, caplog: pytest.LogCaptureFixture, embedder: str, reader: str
) -> None:
    assert read_adapted(folder, embedder, reader) is None
    assert f"made for minilm@1 and reader@1, not for {embedder} and {reader}: it is not used" in caplog.text
    assert str(folder) in caplog.text


def test_an_other_embedder_is_told_before_any_reader_is_opened(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert calibrated(folder, "minilm@2") is None
    assert "was made for the embedder minilm@1, not for minilm@2" in caplog.text


def test_where_nothing_was_learned_nothing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_adapted(tmp_path, "minilm@1", "reader@1") is None
    assert read_adapted(tmp_path / "nowhere", "minilm@1", "reader@1") is None
    assert calibrated(tmp_path, "minilm@1") is None
    assert not caplog.records


@pytest.mark.parametrize("broken", [CALIBRATION, ANCHORS])
@pytest.mark.parametrize("content", [b"", b"{", b"PK\x03\x04 broken", b"\x93NUMPY"])
def test_a_broken_file_is_not_used_and_does_not_stop_the_start(
    folder: Path, caplog: pytest.LogCaptureFixture, broken: str, content: bytes
) -> None:
    (folder / broken).write_bytes(content)
    assert read_adapted(folder, "minilm@1", "reader@1") is None
    assert "is not used" in caplog.text
    if broken == CALIBRATION:
        assert calibrated(folder, "minilm@1") is None


def test_a_calibration_of_another_version_is_not_used(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / CALIBRATION).write_text(to_json(replace(MADE, weights=(1.0, 2.0))))
    assert read_adapted(folder, "minilm@1", "reader@1") is None
    assert "2 weights; this version has" in caplog.text


@pytest.fixture
def own(folder: Path) -> Path:
    """A reader of its own stands there, as its calibration knows it."""
    (folder / READER).write_bytes(b"weights")
    (folder / CALIBRATION).write_text(to_json(replace(MADE, reader=reader_name(folder / READER))))
    (folder / CARD).write_text('{"base": "reader@base"}')
    return folder


def test_a_reader_that_learned_is_used_beside_the_one_it_began_as(own: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert own_reader(own, "reader@base")
    assert own_reader(own, None), "nobody knows another"
    (own / CARD).unlink()
    assert own_reader(own, "reader@base"), "one that was put there by hand says not what it was made from"
    assert not caplog.records


def test_without_a_reader_of_its_own_nothing_is_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not own_reader(folder, "reader@base")
    assert not caplog.records


def test_a_reader_taught_from_another_is_not_used_and_the_way_out_is_told(
    own: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not own_reader(own, "reader@new")
    assert "taught from reader@base, and reader@new is in use now" in caplog.text
    assert "`rejoinder train` teaches anew" in caplog.text


@pytest.mark.parametrize("content", [b"", b"weight", b"weights of another"])
def test_a_damaged_reader_is_never_opened(own: Path, caplog: pytest.LogCaptureFixture, content: bytes) -> None:
    (own / READER).write_bytes(content)
    assert not own_reader(own, "reader@base")
    assert "is not the one that its calibration was made for" in caplog.text


@pytest.mark.parametrize("card", ["", "{", "[]", "{}"])
def test_a_damaged_card_costs_the_reader_not_the_start(own: Path, caplog: pytest.LogCaptureFixture, card: str) -> None:
    (own / CARD).write_text(card)
    assert not own_reader(own, "reader@base")
    assert "is not used" in caplog.text
