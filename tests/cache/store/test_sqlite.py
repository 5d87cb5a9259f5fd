"""The durable store: who may open it, what is refused, what is moved aside, and what a full disk does."""

import asyncio
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from entries import EMBEDDER, SCOPE, entry

from cache.errors import StateError, StoreUnavailable
from cache.protocols import Selection
from cache.store.sqlite import SqliteStore
from cache.worth import Capacity

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "entries.db"


def opened(path: Path, clock, capacity: int = 1000, **options: Any) -> SqliteStore:
    return SqliteStore(path, Capacity(capacity), clock, **{"fingerprint": "f", **options})


def in_child(code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Runs code in a process of its own, with the tests' support modules at hand."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


async def test_what_was_put_is_there_after_a_restart(path: Path, clock) -> None:
    kept = [entry(f"q{n}") for n in range(20)]
    async with opened(path, clock) as store:
        for each in kept:
            await store.put(each)
        position = await store.position()
    async with opened(path, clock) as store:
        assert await store.get([each.id for each in kept]) == kept
        assert await store.position() == position
        assert await store.count() == 20


async def test_an_open_store_tells_nothing_of_other_processes(path: Path, clock) -> None:
    async with opened(path, clock) as store:
        assert [change async for change in store.changes()] == []


async def test_a_second_process_is_refused_with_the_reason_and_the_way_out(path: Path, clock) -> None:
    async with opened(path, clock):
        with pytest.raises(StateError, match=rf"in use by process {os.getpid()}\b.*Redis"):
            await opened(path, clock).__aenter__()
        with pytest.raises(StateError, match="in use"):  # the directory is the unit, not the file
            await opened(path.with_name("other.db"), clock).__aenter__()
    async with opened(path, clock):
        pass


async def test_the_lock_of_a_killed_process_is_free(path: Path, clock) -> None:
    code = """
        import asyncio, os, pathlib, signal, sys
        from entries import entry
        from cache.store.sqlite import SqliteStore
        from cache.worth import Capacity
        async def main():
            async with SqliteStore(pathlib.Path(sys.argv[1]), Capacity(10), lambda: 1000.0, fingerprint="f") as store:
                await store.put(entry("kept"))
                os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
    """
    done = await asyncio.to_thread(in_child, code, path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    async with opened(path, clock) as store:
        (found,) = await store.find(SCOPE, entry("kept").key, None, 0)
        assert found.text == "kept"


async def test_only_the_owner_can_read_the_files(path: Path, clock) -> None:
    _readable_by_all(path)
    async with opened(path, clock) as store:
        await store.put(entry())
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes and set(modes.values()) == {0o600}
    assert "entries.db-wal" in modes


@pytest.mark.parametrize(("name", "value"), [("schema", "99"), ("keys", "99")])
async def test_state_of_a_newer_version_is_refused(path: Path, clock, name: str, value: str) -> None:
    async with opened(path, clock) as store:
        await store.put(entry())
    with sqlite3.connect(path) as database:
        database.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))
    database.close()
    with pytest.raises(StateError, match=r"newer version.*Install that version again"):
        await opened(path, clock).__aenter__()
    with sqlite3.connect(path) as database:  # untouched
        assert database.execute("SELECT count(*) FROM entry").fetchone() == (1,)
    database.close()


async def test_state_of_an_older_version_is_moved_aside(path: Path, clock, caplog) -> None:
    async with opened(path, clock) as store:
        await store.put(entry())
    async with opened(path, clock, key_version=2) as store:
        assert await store.count() == 0
        await store.put(entry("new"))
    assert "older version" in caplog.text
    assert path.with_name("entries.db.aside-1000").exists()
    async with opened(path, clock, key_version=2) as store:
        assert await store.count() == 1


@pytest.mark.parametrize("half", [False, True], ids=["without tags", "with the tables of tags"])
async def test_state_of_schema_2_is_read_on_and_its_answers_can_be_tagged(path: Path, clock, half: bool) -> None:
    """An upgrade must not cost the answers that are stored, nor what is out of service."""
    old, out = entry("old"), entry("out")
    async with opened(path, clock) as store:
        await store.put(old)
        await store.put(out)
        await store.quarantine([out.id], "wrong", "tenant")
    with sqlite3.connect(path) as database:
        if not half:
            database.executescript("""
                DROP TABLE tagged; ALTER TABLE entry DROP COLUMN tags; ALTER TABLE quarantine DROP COLUMN tags;
            """)
        database.execute("UPDATE meta SET value = '2' WHERE name = 'schema'")
    database.close()
    for _ in range(2):
        async with opened(path, clock) as store:
            assert await store.get([old.id]) == [old]
            assert [each.entry_id for each in await store.quarantined(10)] == [out.id]
    async with opened(path, clock) as store:
        await store.put(replace(old, tags=("refund",)))
        released = await store.release(out.id)
        assert released is not None and released[0] == out
        assert await store.forget(Selection(tag="refund")) == (old.id,)
        assert await store.get([old.id, out.id]) == [out]


async def test_state_made_with_another_secret_is_refused(path: Path, clock) -> None:
    async with opened(path, clock) as store:
        await store.put(entry())
    with pytest.raises(StateError, match=r"another secret.*state_dir"):
        await opened(path, clock, fingerprint="g").__aenter__()
    async with opened(path, clock) as store:
        assert await store.count() == 1


async def test_state_made_with_a_previous_secret_is_taken_over(path: Path, clock) -> None:
    async with opened(path, clock) as store:
        await store.put(entry())
    async with opened(path, clock, fingerprint="g", previous_fingerprints=["f"]) as store:
        assert await store.count() == 1
    async with opened(path, clock, fingerprint="g") as store:
        assert await store.count() == 1


def _not_a_database(path: Path) -> None:
    path.write_bytes(b"this is not a database, it only looks like one to the file system" * 100)


def _cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _head_wiped(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(100))


def _every_page_scribbled_on(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 16] = b"\xff" * 16
    path.write_bytes(data)


def _second_half_scribbled_on(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b"\xff" * (len(data) // 2))


def _readable_by_all(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch(mode=0o666)


def _another_programs_database(path: Path) -> None:
    path.unlink()
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE songs (title TEXT)")
    database.commit()
    database.close()


def _no_versions(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("DELETE FROM meta")
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "harm",
    [_not_a_database, _cut_short, _head_wiped, _every_page_scribbled_on, _another_programs_database, _no_versions],
)
async def test_a_damaged_file_is_moved_aside_and_the_start_is_cold(path: Path, clock, caplog, harm) -> None:
    async with opened(path, clock) as store:
        await asyncio.gather(*(store.put(entry(f"q{n}", body=b"x" * 500)) for n in range(200)))
    harm(path)
    (path.parent / "lock").write_text("1\n")  # as a crash leaves it
    async with opened(path, clock) as store:
        assert await store.count() == 0
        kept = entry("after")
        await store.put(kept)
        assert await store.get([kept.id]) == [kept]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "starting cold" in caplog.text
    assert path.with_name("entries.db.aside-1000").exists()


async def test_damage_found_while_running_is_a_miss_and_is_looked_into_at_the_next_start(
    path: Path, clock, caplog
) -> None:
    async with opened(path, clock) as store:
        await asyncio.gather(*(store.put(entry(f"q{n}", body=b"x" * 500)) for n in range(200)))
        everything = tuple(await store.ids(EMBEDDER))
    _second_half_scribbled_on(path)
    async with opened(path, clock) as store:  # a clean shutdown came before, so not all of it is checked
        with pytest.raises(StoreUnavailable, match="malformed"):
            await store.get(everything)
    async with opened(path, clock) as store:
        assert await store.count() == 0
    assert "starting cold" in caplog.text


async def test_two_damaged_files_in_one_second_are_both_kept(path: Path, clock) -> None:
    for _ in range(2):
        path.parent.mkdir(exist_ok=True)
        _not_a_database(path)
        async with opened(path, clock):
            pass
    assert len(list(path.parent.glob("entries.db.aside-*"))) == 2


async def test_a_directory_that_cannot_be_used_says_so(path: Path, clock) -> None:
    path.parent.write_text("a file where the directory should be")
    with pytest.raises(StateError, match="cannot be used"):
        await opened(path, clock).__aenter__()


async def test_a_closed_store_is_unavailable(path: Path, clock) -> None:
    store = opened(path, clock)
    with pytest.raises(StoreUnavailable):
        await store.find(SCOPE, "k", None, 0)
    async with store:
        pass
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.put(entry())


async def test_what_was_accepted_is_written_before_the_store_closes(path: Path, clock) -> None:
    kept = [entry(f"q{n}") for n in range(500)]
    store = await opened(path, clock).__aenter__()
    puts = [asyncio.create_task(store.put(each)) for each in kept]
    await asyncio.sleep(0)  # each has handed its entry over
    await store.__aexit__(None, None, None)
    await asyncio.gather(*puts)
    async with opened(path, clock) as store:
        assert await store.count() == 500


async def test_too_many_waiting_puts_are_turned_away(path: Path, clock) -> None:
    async with opened(path, clock, queue_limit=10) as store:
        outcomes = await asyncio.gather(*(store.put(entry(f"q{n}")) for n in range(50)), return_exceptions=True)
        refused = [each for each in outcomes if isinstance(each, StoreUnavailable)]
        assert len(refused) == 40
        assert await store.count() == 10


async def test_one_entry_that_cannot_be_written_does_not_take_the_others_with_it(path: Path, clock) -> None:
    kept = [entry(f"q{n}") for n in range(30)]
    bad = entry("a lone surrogate \ud800 has no bytes", key="bad", wording="bad")
    async with opened(path, clock) as store:
        outcomes = await asyncio.gather(
            *(store.put(each) for each in [*kept[:15], bad, *kept[15:]]), return_exceptions=True
        )
        assert isinstance(outcomes.pop(15), StoreUnavailable)
        assert outcomes == [()] * 30
        assert await store.get([each.id for each in kept]) == kept
        assert await store.count() == 30


async def test_a_full_disk_refuses_and_loses_nothing_that_was_acknowledged(path: Path, clock) -> None:
    code = """
        import asyncio, pathlib, resource, signal, sys
        from entries import entry
        from cache.errors import StoreUnavailable
        from cache.store.sqlite import SqliteStore
        from cache.worth import Capacity

        async def main():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))  # no file may grow beyond
            room = Capacity(10_000)
            async with SqliteStore(pathlib.Path(sys.argv[1]), room, lambda: 1000.0, fingerprint="f") as store:
                refused = 0
                for n in range(1000):
                    kept = entry(f"q{n}", body=b"x" * 2000)
                    try:
                        await store.put(kept)
                        print(n, flush=True)
                    except StoreUnavailable:
                        refused += 1
                    if refused > 5:
                        break
                assert refused > 5
                assert (await store.find(kept.scope, entry("q0").key, None, 0))[0].text == "q0"
        asyncio.run(main())
    """
    done = await asyncio.to_thread(in_child, code, path)
    assert done.returncode == 0, done.stderr
    acknowledged = [int(line) for line in done.stdout.split()]
    assert len(acknowledged) > 5
    async with opened(path, clock) as store:
        for n in acknowledged:
            (found,) = await store.find(SCOPE, entry(f"q{n}").key, None, 0)
            assert found.answer.body == b"x" * 2000


async def test_a_forgotten_text_is_in_no_file(path: Path, clock) -> None:
    """The right to be forgotten reaches the free pages and the write-ahead log."""
    async with opened(path, clock) as store:
        for n in range(100):
            await store.put(entry(f"the secret word is flibbertigibbet-{n}", body=b"flibbertigibbet" * 300))
        await store.put(entry("other"))
        files = [each for each in path.parent.iterdir() if each.is_file()]
        assert any(b"flibbertigibbet" in each.read_bytes() for each in files)
        other = await store.ids(EMBEDDER)
        last = entry("other").key
        keep = (await store.find(SCOPE, last, None, 0))[0].id
        await store.forget(Selection(ids=tuple(other - {keep})))
        for each in path.parent.iterdir():
            assert b"flibbertigibbet" not in each.read_bytes(), each.name
        assert await store.count() == 1


async def test_the_file_shrinks_after_a_mass_deletion(path: Path, clock) -> None:
    async with opened(path, clock, capacity=5000) as store:
        await asyncio.gather(*(store.put(entry(f"q{n}", body=b"x" * 8000)) for n in range(3000)))
        await store.forget(Selection(ids=()))
        before = sum(each.stat().st_size for each in path.parent.iterdir())
        await store.forget(Selection())
        after = sum(each.stat().st_size for each in path.parent.iterdir())
    assert before > 20e6
    assert after < before / 2


async def test_a_cancelled_caller_harms_nobody(path: Path, clock) -> None:
    async with opened(path, clock) as store:
        tasks = [asyncio.create_task(store.put(entry(f"q{n}"))) for n in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert outcomes[1::2] == [()] * 25
        assert 25 <= await store.count() <= 50
        assert repr(store).endswith("[open, 0 puts waiting]>")
