"""What every reader promises, whoever reads."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable

import pytest
from blockbuster import blockbuster_ctx
from readers import ScriptedReader

from cache.protocols import Reader
from cache.reader import DEFAULT_FOLDER, OnnxReader

PATIENT_S = 20.0  # these tests are about what comes, not about when

ASKED = "How do I freeze my debit card?"
SAME = "How do I freeze my debit card please?"
OTHER = "When does the library open on Sunday?"


def scripted() -> Reader:
    return ScriptedReader()


def onnx() -> Reader:
    return OnnxReader(DEFAULT_FOLDER, deadline_s=PATIENT_S)


@pytest.fixture(params=[scripted, onnx])
def make(request: pytest.FixtureRequest) -> Callable[[], Reader]:
    chosen: Callable[[], Reader] = request.param
    return chosen


@pytest.fixture
async def reader(make: Callable[[], Reader]) -> AsyncIterator[Reader]:
    with blockbuster_ctx():  # whatever blocks the event loop fails the test
        async with make() as opened:
            yield opened


async def test_there_is_one_logit_for_each_stored_question_in_their_order(reader: Reader) -> None:
    same, other, again = await reader.read(ASKED, [SAME, OTHER, SAME])
    assert same is not None and other is not None
    assert math.isfinite(same) and math.isfinite(other)
    assert same > 0 > other
    assert again == pytest.approx(same, abs=0.2)


async def test_nothing_stored_is_nothing_read(reader: Reader) -> None:
    assert await reader.read(ASKED, []) == []


async def test_a_pair_is_read_alike_alone_and_among_others(reader: Reader) -> None:
    alone = await reader.read(ASKED, [SAME])
    together = await reader.read(ASKED, [OTHER, OTHER * 2, SAME])
    assert together[2] == pytest.approx(alone[0], abs=0.2)


async def test_what_is_too_long_has_no_reading_and_its_neighbour_has_one(reader: Reader) -> None:
    assert await reader.read(ASKED, ["word " * 3_000]) == [None]
    assert await reader.read("word " * 2_000_000, [SAME]) == [None]
    long, short = await reader.read(ASKED, ["word " * 3_000, SAME])
    assert long is None and short is not None


async def test_a_text_without_words_is_read_or_left_unread_but_never_fails(reader: Reader) -> None:
    for asked, stored in (("", ""), ("", SAME), (ASKED, "")):
        (logit,) = await reader.read(asked, [stored])
        assert logit is None or math.isfinite(logit)


async def test_a_name_identifies_the_weights_and_stays(reader: Reader, make: Callable[[], Reader]) -> None:
    async with make() as second:
        assert second.name == reader.name


async def test_a_crowd_is_served(reader: Reader) -> None:
    found = await asyncio.gather(*(reader.read(f"question number {n}", [f"question number {n}"]) for n in range(30)))
    assert all(logits[0] is not None for logits in found)
