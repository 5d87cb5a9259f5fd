"""The user's own labels: learned from, checked, kept beside what was there, and never taken on trust."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cache import schooling
from cache.adapted import ANCHORS, CALIBRATION, CARD, READER, Adapted, own_reader, reader_name
from cache.adapting import Labelled, Material, Tell
from cache.anchors import fit
from cache.calibration import FEATURES, Calibration, from_json, terms
from cache.coaching import WHAT
from cache.errors import StateError
from cache.reader import DEFAULT_FOLDER
from cache.schooling import keep, school


def learned(name: str) -> Adapted:
    weights = (0.0,) * len(terms((0.0,) * len(FEATURES)))
    return Adapted(Calibration(name, "model", "reader@1", 0.5, weights, 0.5, ((0.01, 0.9),)), None)


def named(folder: Path) -> str:
    return from_json((folder / CALIBRATION).read_bytes()).name


def test_what_is_taken_stands_where_the_cache_looks_and_the_old_one_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "state" / "adapted"
    keep(learned("first"), place, taken=True)
    keep(learned("second"), place, taken=True)
    assert named(place) == "second"
    assert named(tmp_path / "state" / "adapted.before") == "first"


def test_what_is_no_better_changes_nothing_and_can_still_be_looked_at(tmp_path: Path) -> None:
    place = tmp_path / "adapted"
    keep(learned("in use"), place, taken=True)
    keep(learned("worse"), place, taken=False)
    assert named(place) == "in use"
    assert named(tmp_path / "adapted.rejected") == "worse"


def test_nobody_but_the_owner_may_read_what_was_learned(tmp_path: Path) -> None:
    keep(learned("mine"), tmp_path / "adapted", taken=True)
    assert (tmp_path / "adapted" / CALIBRATION).stat().st_mode & 0o077 == 0
    assert not (tmp_path / "adapted" / ANCHORS).exists()


async def test_too_few_labels_are_refused_with_a_number(tmp_path: Path) -> None:
    few = [Labelled("How do I reset my password?", "reset"), Labelled("Where is the shop?", "shop")]
    with pytest.raises(StateError, match="2 different labelled questions are too few: 40"):
        await school(few, tmp_path / "adapted")
    assert not (tmp_path / "adapted").exists()


async def test_an_embedder_without_a_calibration_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="never calibrated for the embedder"):
        await school([], tmp_path / "adapted", embedder="hashing")
    with pytest.raises(StateError, match="set to none"):
        await school([], tmp_path / "adapted", reader="none")


HOURS = (
    "when do you open",
    "opening hours",
    "what are your opening times",
    "how late is the shop open",
    "are you open on sundays",
    "till when can I come by",
    "hours of the store",
    "at what time do you close",
    "open on holidays as well?",
    "when is closing time",
)
RETURNS = (
    "how do I send something back",
    "return policy",
    "can I return a lamp",
    "I want to give this back",
    "how long may I return it",
    "what do I need for a return",
    "returning shoes",
    "sending an item back, how",
    "is it possible to return a gift",
    "return label",
)
PAYING = (
    "which cards do you take",
    "can I pay with paypal",
    "payment methods",
    "do you accept cash",
    "is there an invoice option",
    "paying by card",
    "how can I pay",
    "may I pay on delivery",
    "pay in instalments",
    "do you take credit cards",
)
REACH = (
    "phone number",
    "how can I reach you",
    "talk to a human",
    "your e-mail address",
    "customer service contact",
    "I need to speak to someone",
    "is there a hotline",
    "where do I complain",
    "contact details",
    "call you",
)


async def test_learning_from_a_shops_questions_says_how_old_and_new_do_on_unseen_ones(tmp_path: Path) -> None:
    topics = {"hours": HOURS, "returns": RETURNS, "paying": PAYING, "reach": REACH}
    labelled = [Labelled(texts[turn], answer) for turn in range(10) for answer, texts in topics.items()]
    told: list[float] = []
    found = await school(
        labelled, tmp_path / "adapted", budget=0.05, always=True,
        tell=lambda what, share: told.append(share),
    )  # fmt: skip
    assert found.taken
    assert found.learned_from == len(labelled)
    assert found.lesson.old.asked == found.lesson.new.asked == len(labelled) // 4
    assert named(tmp_path / "adapted").startswith("adapted ")
    assert (tmp_path / "adapted" / ANCHORS).is_file()
    assert "--teach-reader" in found.reader and not found.reader_taken
    assert not (tmp_path / "adapted" / READER).exists()
    assert told == sorted(told), "one bar for all of it"
    assert all(0.0 <= share <= 1.0 for share in told)


def test_anchors_of_one_answer_teach_nothing() -> None:
    assert fit(np.eye(4, dtype=np.float32), ["same"] * 4) is None


def test_a_reader_that_learned_stands_beside_its_trust_and_the_old_one_stays(tmp_path: Path) -> None:
    place, raw = tmp_path / "adapted", tmp_path / "model.onnx"
    raw.write_bytes(b"first reader")
    first = learned("first")
    first = replace(first, calibration=replace(first.calibration, reader=reader_name(raw)))
    keep(first, place, taken=True, reader=raw, base="reader@base")
    assert own_reader(place, "reader@base")
    assert json.loads((place / CARD).read_bytes()) == {
        "name": reader_name(raw), "base": "reader@base", "made": "first",
    }  # fmt: skip
    assert (place / READER).stat().st_mode & 0o077 == 0
    keep(learned("second"), place, taken=True)
    assert not (place / READER).exists(), "the second learned beside the reader that ships"
    assert own_reader(tmp_path / "adapted.before", "reader@base")


def shop() -> list[Labelled]:
    topics = {"hours": HOURS, "returns": RETURNS, "paying": PAYING, "reach": REACH}
    return [Labelled(texts[turn], answer) for turn in range(10) for answer, texts in topics.items()]


async def test_without_torch_trust_and_anchors_learn_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schooling, "missing", lambda: "no torch here")
    found = await school(shop(), tmp_path / "adapted", budget=0.05, always=True, teach_reader=True)
    assert found.reader == "no torch here" and found.taken and not found.reader_taken


async def coached_copies(material: Material, start: Path, folder: Path, tell: Tell) -> list[Path]:
    """Readers that learned nothing."""
    tell(WHAT, 1.0)
    made = [folder / str(number) for number in range(3)]
    for place in made:
        place.mkdir()
        shutil.copy(start, place / READER)
    return made


async def test_a_reader_that_does_no_better_is_left_alone_and_both_counts_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schooling, "missing", lambda: None)
    monkeypatch.setattr(schooling, "coach", coached_copies)
    found = await school(shop(), tmp_path / "adapted", budget=0.05, always=True, teach_reader=True)
    assert not found.reader_taken and "it stays as it is" in found.reader
    assert "of the 10 unseen questions" in found.reader and "as it was" in found.reader
    assert not (tmp_path / "adapted" / READER).exists()


async def test_a_lesson_that_is_broken_off_leaves_the_old_one_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(material: Material, start: Path, folder: Path, tell: Tell) -> list[Path]:
        raise KeyboardInterrupt

    keep(learned("in use"), tmp_path / "adapted", taken=True)
    monkeypatch.setattr(schooling, "missing", lambda: None)
    monkeypatch.setattr(schooling, "coach", broken)
    with pytest.raises(KeyboardInterrupt):
        await school(shop(), tmp_path / "adapted", budget=0.05, always=True, teach_reader=True)
    assert named(tmp_path / "adapted") == "in use"
    assert os.listdir(tmp_path) == ["adapted"]


async def test_a_second_lesson_is_compared_with_the_reader_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "adapted"
    base = reader_name(DEFAULT_FOLDER / READER)
    first = await school(shop(), place, budget=0.05, always=True)
    shutil.copy(DEFAULT_FOLDER / READER, place / READER)
    (place / CARD).write_text(json.dumps({"base": base}))
    assert own_reader(place, base)
    again = await school(shop(), place, budget=0.05)
    assert again.lesson.old.served >= first.lesson.new.served, "it has seen them since"
