"""The comparator's vectors: patient with a slow embedder, unsure without one, and never an error."""

import numpy as np
import pytest
from embedders import Placed

from cache.comparator import Comparator
from cache.comparison import Agreement
from cache.embedder import HashingEmbedder
from cache.entry import Vector
from cache.errors import EmbedderUnavailable, TextTooLong

ONE = "Tap Reset, which you find in Settings."
OTHER = "Open Settings and tap Reset."


class Broken(HashingEmbedder):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def embed(self, text: str, *, deadline_s: float | None = None) -> Vector:
        raise self.error


@pytest.mark.parametrize(("degrees", "agreement"), [
    (10.0, Agreement.AGREE), (45.0, Agreement.UNSURE), (80.0, Agreement.DISAGREE),
])  # fmt: skip
async def test_the_angle_between_two_answers_decides(degrees: float, agreement: Agreement) -> None:
    found = await Comparator(Placed({ONE: degrees})).compare(ONE, OTHER)
    assert found.agreement is agreement
    assert found.cosine == pytest.approx(np.cos(np.radians(degrees)), abs=1e-5)


@pytest.mark.parametrize("error", [EmbedderUnavailable("late"), TextTooLong("long")])
async def test_an_embedder_that_fails_leaves_it_unsure(error: Exception) -> None:
    assert (await Comparator(Broken(error)).compare(ONE, OTHER)).agreement is Agreement.UNSURE
    assert (await Comparator(None).compare(ONE, OTHER)).agreement is Agreement.UNSURE


async def test_what_can_be_read_needs_no_embedder() -> None:
    embedder = Placed()
    assert (await Comparator(embedder).compare("Yes, 30 days.", "No.")).agreement is Agreement.DISAGREE
    assert (await Comparator(embedder).compare("Yes.", "yes!")).agreement is Agreement.AGREE
    assert embedder.asked == []


async def test_a_long_answer_is_read_in_passages() -> None:
    embedder = Placed()
    await Comparator(embedder).compare("You can return it. " * 100, OTHER)
    assert len(embedder.asked) > 2
    assert all(len(text) <= 600 for text in embedder.asked)
