"""The pool follows its sources: a file, name servers, the operator. Nobody here is asked or probed."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.errors import BadRequest, Conflict, NotFound
from proxy.membership import MOST_BYTES, Membership
from proxy.routing.workers import State, WorkerPool

A, B, C = "http://a:1", "http://b:1", "http://c:1"


class Names:
    """A name server."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.trouble: OSError | None = None
        self.asked = 0
        self.forgets = ""  # this one, in every second answer

    async def __call__(self, host: str, port: int) -> list[tuple[int, str]]:
        assert (host, port) == ("vllm", 8000)
        self.asked += 1
        if self.trouble is not None:
            raise self.trouble
        return [(4, address) for address in self.addresses if address != self.forgets or self.asked % 2]


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def urls(pool: WorkerPool) -> list[str]:
    return [worker.url for worker in pool]


def states(pool: WorkerPool) -> dict[str, str]:
    return {worker.name: worker.state.value for worker in pool}


async def test_those_of_the_settings_are_there_at_once() -> None:
    pool = WorkerPool()
    async with Membership(pool, [A, B]) as membership:
        assert urls(pool) == [A, B]
        assert membership.sources(pool.at(A)) == ["settings"]


async def test_constructing_it_reads_nothing(tmp_path: Path) -> None:
    pool = WorkerPool()
    Membership(pool, [A], file=tmp_path / "none")
    assert len(pool) == 0


async def test_the_pool_follows_the_file(tmp_path: Path) -> None:
    file = tmp_path / "workers"
    file.write_text(f"{A}\n{B}\n")
    pool = WorkerPool()
    async with Membership(pool, file=file, refresh_s=0.02):
        assert urls(pool) == [A, B]
        file.write_text(f"{B}\n{C} third\n")
        await until(lambda: states(pool) == {"b:1": "unknown", "third": "unknown"})


async def test_who_leaves_the_file_while_it_answers_stays_until_it_has(tmp_path: Path) -> None:
    file = tmp_path / "workers"
    file.write_text(f"{A}\n{B}\n")
    pool = WorkerPool()
    async with Membership(pool, file=file, refresh_s=0.02):
        with pool.booked(pool.at(A)):
            file.write_text(f"{B}\n")
            await until(lambda: states(pool) == {"a:1": "draining", "b:1": "unknown"})
        assert urls(pool) == [B], "at the very moment in which its last answer ends"


@pytest.mark.parametrize("bad", ["", "# nobody\n", "ftp://a:1\n", "\udcff", "x" * (MOST_BYTES + 2), None])
async def test_a_file_that_cannot_be_read_keeps_the_last_good_list_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: str | None
) -> None:
    file = tmp_path / "workers"
    file.write_text(f"{A}\n")
    pool = WorkerPool()
    with caplog.at_level(logging.INFO, "proxy.membership"):
        async with Membership(pool, file=file, refresh_s=0.01) as membership:
            if bad is None:
                file.unlink()
            else:
                file.write_bytes(bad.encode("utf-8", "surrogateescape"))
            await until(lambda: membership.troubles)
            await asyncio.sleep(0.05)
            assert urls(pool) == [A]
            assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1
            file.write_text(f"{A}\n{B}\n")
            await until(lambda: urls(pool) == [A, B])
            assert not membership.troubles
    assert "is well again" in caplog.text


async def test_a_start_without_its_file_is_a_start_and_the_file_may_come(tmp_path: Path) -> None:
    pool = WorkerPool()
    async with Membership(pool, [A], file=tmp_path / "workers.toml", refresh_s=0.02) as membership:
        assert list(membership.troubles.values()) == ["No such file or directory"]
        (tmp_path / "workers.toml").write_text(f'workers = ["{B}"]')
        await until(lambda: urls(pool) == [A, B])


async def test_the_pool_follows_a_name() -> None:
    names, pool = Names("10.0.0.1", "10.0.0.2"), WorkerPool()
    async with Membership(pool, ["dns://vllm:8000"], refresh_s=0.02, resolve=names):
        assert urls(pool) == ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]
        names.addresses = ["10.0.0.2", "10.0.0.3"]
        await until(lambda: urls(pool) == ["http://10.0.0.2:8000", "http://10.0.0.3:8000"])


@pytest.mark.parametrize("trouble", [OSError("no such name"), None], ids=["fails", "empty"])
async def test_a_name_server_that_is_away_takes_nobody_away(trouble: OSError | None) -> None:
    names, pool = Names("10.0.0.1"), WorkerPool()
    async with Membership(pool, ["dns://vllm:8000"], refresh_s=0.02, resolve=names) as membership:
        names.trouble, names.addresses = trouble, []
        await until(lambda: membership.troubles)
        assert states(pool) == {"10.0.0.1:8000": "unknown"}
        names.trouble, names.addresses = None, ["10.0.0.1", "10.0.0.9"]
        await until(lambda: len(pool) == 2)


async def test_a_worker_that_one_answer_forgot_is_not_drained() -> None:
    names, pool, seen = Names("10.0.0.1", "10.0.0.2"), WorkerPool(), set()
    async with Membership(pool, ["dns://vllm:8000"], refresh_s=0.01, resolve=names):
        stop = pool.on_change(lambda: seen.add(len(pool)) or seen.update(states(pool).values()))

        names.forgets = "10.0.0.2"
        asked = names.asked
        await until(lambda: names.asked > asked + 8)
        stop()
    assert states(pool) == {"10.0.0.1:8000": "unknown", "10.0.0.2:8000": "unknown"} and seen <= {2, "unknown"}


async def test_look_ups_that_fail_are_no_answers_that_lack_somebody() -> None:
    names, pool = Names("10.0.0.1", "10.0.0.2"), WorkerPool()
    async with Membership(pool, ["dns://vllm:8000"], refresh_s=0.01, resolve=names) as membership:
        for _ in range(3):  # lacking, failed, whole again: never two answers in a row that lack it
            names.trouble, names.addresses = OSError("no such name"), ["10.0.0.1", "10.0.0.2"]
            asked = names.asked
            await until(lambda: names.asked > asked + 3)  # noqa: B023
            assert membership.troubles and len(pool) == 2
            names.trouble = None
            await until(lambda: not membership.troubles)
        assert states(pool) == {"10.0.0.1:8000": "unknown", "10.0.0.2:8000": "unknown"}


async def test_a_name_that_the_file_gives_later_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "workers"
    file.write_text(f"{A}\n{B}\n")
    pool = WorkerPool()
    async with Membership(pool, file=file, refresh_s=0.02) as membership:
        worker = pool.at(A)
        file.write_text(f"{A} left\n{B} right\n")
        await until(lambda: [each.name for each in pool] == ["left", "right"])
        assert pool.at(A) is worker and membership.find("left") is worker and not membership.troubles
        file.write_text(f"{A} right\n{B} left\n")
        await until(lambda: [each.name for each in pool] == ["right", "left"])


async def test_a_name_of_this_machine_is_resolved_by_the_system() -> None:
    pool = WorkerPool()
    async with Membership(pool, ["dns://localhost:8000"]):
        assert urls(pool) in (["http://127.0.0.1:8000"], ["http://[::1]:8000"])


async def test_an_operator_adds_drains_takes_back_and_removes() -> None:
    pool = WorkerPool()
    async with Membership(pool, [A], drain_s=60.0) as membership:
        pool.answered(pool.at(A), {"m": {"id": "m"}})
        worker = membership.add("b:1", "left")
        assert (worker.url, worker.name) == (B, "left") and membership.sources(worker) == ["admin"]
        assert membership.add("http://B:1/v1") is worker
        assert membership.drain("left").state is State.DRAINING
        assert worker.drain_over_s == 60.0
        assert membership.undrain(B).state is State.UNKNOWN
        assert membership.remove("left") is worker and urls(pool) == [A]


async def test_a_worker_that_an_operator_drained_waits_for_his_word() -> None:
    pool = WorkerPool()
    async with Membership(pool, [A, B], refresh_s=0.01) as membership:
        membership.drain("b:1")
        await asyncio.sleep(0.05)
        assert states(pool) == {"a:1": "unknown", "b:1": "draining"}


async def test_the_last_worker_of_a_model_is_removed_only_with_force() -> None:
    pool = WorkerPool()
    async with Membership(pool, [A, B]) as membership:
        pool.answered(pool.at(A), {"m": {"id": "m"}, "french": {"id": "french", "parent": "m"}})
        pool.answered(pool.at(B), {"m": {"id": "m"}})
        with pytest.raises(Conflict, match=r"`french`.*force=true"):
            membership.remove("a:1")
        assert len(pool) == 2
        membership.remove("b:1")
        membership.remove("a:1", force=True)
        assert len(pool) == 0


async def test_what_cannot_be_is_refused_in_words() -> None:
    pool = WorkerPool()
    async with Membership(pool, [A]) as membership:
        for url, name in (("ftp://x", None), (None, None), (B, "a b"), (7, None)):
            with pytest.raises(BadRequest):
                membership.add(url, name)
        membership.add(B, "left")
        with pytest.raises(BadRequest, match="identity"):
            membership.add(C, "left")
        with pytest.raises(Conflict, match="here already"):
            membership.add(B, "right")
        for order in (membership.drain, membership.undrain, membership.remove):
            with pytest.raises(NotFound, match="Known: a:1, left"):
                order("nobody")
        assert urls(pool) == [A, B]


async def test_with_several_processes_an_order_would_reach_one_of_them_and_is_refused() -> None:
    pool = WorkerPool()
    async with Membership(pool, [A], alone=False) as membership:
        for order in (membership.add, membership.drain, membership.undrain, membership.remove):
            with pytest.raises(Conflict, match="workers_file"):
                order("a:1")


async def test_leaving_ends_its_task(tmp_path: Path) -> None:
    names = Names("10.0.0.1")
    async with Membership(WorkerPool(), ["dns://vllm:8000"], refresh_s=0.01, resolve=names):
        await until(lambda: names.asked > 2)
    asked = names.asked
    await asyncio.sleep(0.05)
    assert names.asked == asked
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "membership"]
