"""A restart forgets no evidence, and a broken file stops nobody from starting."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from embedders import Placed
from house import Clock, open_house
from shop import Shop

from cache import Agreement
from proxy.logbook import Logbook
from proxy.measured import Measured


def some() -> Measured:
    measured = Measured(Clock())
    for number in range(60):
        measured.checked("shop", "m", Agreement.DISAGREE if number % 10 == 0 else Agreement.AGREE, 1.0 + number % 3)
        measured.null_control("shop", "m", Agreement.AGREE)
        measured.known_bad("shop", "m", Agreement.DISAGREE)
    return measured


async def test_what_was_measured_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    before, after = some(), Measured(Clock())
    async with Logbook(before, path):
        pass
    async with Logbook(after, path):
        assert after.all() == before.all() != []
    assert path.stat().st_mode & 0o777 == 0o600
    assert not path.with_suffix(".new").exists()


async def test_it_is_written_while_we_run_so_that_a_kill_costs_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    async with Logbook(some(), path, every_s=0.01), asyncio.timeout(5):
        while not path.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("broken", [
    b"", b"{", b"[]", b'{"version": 99, "rows": []}', b'{"version": 1}', b'{"version": 1, "rows": [[1, 2]]}',
    b'{"version": 1, "rows": [["t", "m", {"at_s": -1}]]}',
])  # fmt: skip
async def test_a_broken_file_is_a_beginning_from_nothing(
    tmp_path: Path, broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "measured.json"
    path.write_bytes(broken)
    measured = Measured(Clock())
    with caplog.at_level(logging.WARNING):
        async with Logbook(measured, path):
            assert measured.all() == []
    assert "measured anew" in caplog.text


async def test_a_folder_that_cannot_be_written_is_said_and_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with Logbook(some(), tmp_path / "gone" / "measured.json"):
            pass
    assert "cannot be kept" in caplog.text


async def test_without_a_state_directory_nothing_is_kept() -> None:
    async with Logbook(some(), None):
        pass


async def test_the_house_keeps_no_word_of_a_question_in_it(tmp_path: Path) -> None:
    stored, asked = "How do I reset my password?", "How can I reset my password?"
    shop = Shop({stored: "Tap Reset.", asked: "Tap Reset."})
    settings: dict[str, Any] = {"shadow_share": 0.02, "spare_time_share": 1.0, "embedder": Placed()}
    async with shop:
        async with open_house(tmp_path, workers=[shop], **settings) as h:
            await h.ask(stored)
            assert (await h.ask(asked)).hit
            await h.until(h.proxy.measured.all)
        async with open_house(tmp_path, workers=[shop], **settings) as h:
            (row,) = h.proxy.measured.all()
            assert row.checks == pytest.approx(1, abs=0.01)
    kept = (tmp_path / "measured.json").read_text(encoding="utf-8")
    assert "password" not in kept and "Reset" not in kept
