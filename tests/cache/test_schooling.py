"""The user's own labels: learned from, checked, kept beside what was there, and never taken on trust."""

from pathlib import Path

import numpy as np
import pytest

from cache.adapted import ANCHORS, CALIBRATION, Adapted
from cache.adapting import Labelled
from cache.anchors import fit
from cache.calibration import FEATURES, Calibration, from_json, terms
from cache.errors import StateError
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
        labelled, tmp_path / "adapted", budget=0.05, always=True, tell=lambda what, share: told.append(share)
    )
    assert found.taken
    assert found.learned_from == len(labelled)
    assert found.lesson.old.asked == found.lesson.new.asked == len(labelled) // 4
    assert named(tmp_path / "adapted").startswith("adapted ")
    assert (tmp_path / "adapted" / ANCHORS).is_file()
    assert told
    assert all(0.0 <= share <= 1.0 for share in told)


def test_anchors_of_one_answer_teach_nothing() -> None:
    assert fit(np.eye(4, dtype=np.float32), ["same"] * 4) is None
