"""Workers that hang, die, refuse or come back: rows 17 to 21, 24, 25, 27, 28, 32, 34."""

import asyncio
import time

import pytest
from conformance import CHAT, PLAIN, Record, Site, body_of, new_nonce, until

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])


async def left(site: Site, stream: bool) -> float:
    """Ask, leave in the middle, and wait until the worker knows; after how many seconds it did."""
    nonce = new_nonce()
    asked = asyncio.ensure_future(site.ask(nonce=nonce, stream=stream))

    async def begun() -> bool:
        return any(nonce in call["body"] and (call["chunks"] or not stream) for _, call in await site.calls())

    await until(begun)
    left_s = time.monotonic()
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    known_s: list[float] = []

    async def known() -> bool:
        known_s[:] = [
            call["disconnected_at_s"] for _, call in await site.calls()
            if nonce in call["body"] and call["disconnected_at_s"]
        ]  # fmt: skip
        return bool(known_s)

    await until(known, 5)
    return known_s[0] - left_s


async def test_row_17_a_client_that_leaves_ends_the_generation(bruised: Site, record_property: Record) -> None:
    await bruised.fault("hang")
    took_s = min([await left(bruised, stream=False) for _ in range(3)])
    record_property("seconds until the worker knew", round(took_s, 4))
    assert took_s < 0.1


async def test_row_18_a_client_that_leaves_a_stream_ends_it_and_its_connection(
    bruised: Site, record_property: Record
) -> None:
    site = bruised
    await site.fault("stall", after=2)
    took_s = min([await left(site, stream=True) for _ in range(3)])
    record_property("seconds until the worker knew", round(took_s, 4))
    assert took_s < 0.1
    ports = {call["client_port"] for _, call in await site.calls()}
    await site.fault()
    told = [await site.ask() for _ in range(2 * len(site.workers))]
    assert {one.status for one in told} == {200}
    later = {call["client_port"] for _, call in await site.calls() if not call["disconnected_at_s"]}
    assert not ports & later, "a connection was used again whose stream had not ended"


@BOTH
async def test_row_19_one_hung_worker_costs_its_own_callers_and_nobody_else(bruised: Site, stream: bool) -> None:
    site = bruised
    await site.workers[0].fault("hang")
    began_s = time.monotonic()
    async with site.held(site.ask(f"Explain {n}", session=f"s{n}", stream=stream) for n in range(64)) as tasks:
        await site.reached(64)
        stuck = (await site.counts())[0]

        async def answered() -> bool:
            return sum(task.done() for task in tasks) >= 64 - stuck

        await until(answered, 10)
        early = [task.result() for task in tasks if task.done()]
        assert [one.status for one in early].count(200) >= 64 - stuck
        if site.timeout_s < 60 and stuck:
            await asyncio.wait(tasks, timeout=site.timeout_s + 4)
            assert all(task.done() for task in tasks), f"still waiting 4 s after the limit of {site.timeout_s} s"
            told = [task.result() for task in tasks]
            assert all(one.status in (200, 408, 504, 502, 503) for one in told), {one.status for one in told}
            assert time.monotonic() - began_s < site.timeout_s + 8


@BOTH
async def test_row_20_dead_before_the_first_byte_is_not_noticed(bruised: Site, stream: bool) -> None:
    """Connections that are reset while the worker stands."""
    site = bruised
    for worker in site.workers[:2]:
        await worker.fault("reset")
    told = [await site.ask(f"Explain {n}", session=f"s{n}", stream=stream) for n in range(32)]
    failed = [one for one in told if one.status != 200 or one.broken or (stream and not one.done)]
    assert not failed, f"{len(failed)} of 32, such as {failed[0]}"


@BOTH
async def test_row_20_a_worker_that_is_gone_is_not_noticed(bruised: Site, stream: bool) -> None:
    """Connections that are refused."""
    site = bruised
    await site.workers[1].restart(down_s=4)
    told = await asyncio.gather(*(site.ask(f"Explain {n}", session=f"s{n}", stream=stream) for n in range(40)))
    failed = [one for one in told if one.status != 200 or one.broken]
    assert not failed, f"{len(failed)} of 40, such as {failed[0]}"


async def test_row_20_a_connection_that_is_closed_unanswered_is_not_noticed(bruised: Site) -> None:
    site = bruised
    await site.workers[0].fault("half_close", after=0)
    told = [await site.ask(f"Explain {n}", session=f"s{n}") for n in range(32)]
    assert [one.status for one in told] == [200] * 32


async def test_row_21_an_idle_connection_that_the_worker_closed_costs_nobody_an_answer(site: Site) -> None:
    for _ in range(3 * len(site.workers)):
        await site.ask()  # so that connections lie ready
    await site.fault("stale")
    told = [await site.ask(f"Explain {n}", session=f"s{n}") for n in range(48)]
    failed = [one for one in told if one.status != 200]
    assert not failed, f"{len(failed)} of 48, such as {failed[0]}"


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_row_24_a_refused_question_is_not_a_sick_worker(bruised: Site, status: int) -> None:
    site = bruised
    await site.fault("status", status=status)
    told = [await site.ask(f"Explain {n}") for n in range(15 * len(site.workers))]
    assert {one.status for one in told} == {status}
    await site.fault()
    assert [(await site.ask()).status for _ in range(3 * len(site.workers))] == [200] * 3 * len(site.workers)


@pytest.mark.parametrize("status", [429, 503])
async def test_row_24_busy_is_not_dead(bruised: Site, status: int) -> None:
    site = bruised
    await site.fault("status", status=status, retry_after_s=3)
    told = await asyncio.gather(*(site.ask(f"Explain {n}", limit_s=30) for n in range(5 * len(site.workers))))
    assert {one.status for one in told} <= {429, 503}
    assert told[0].headers.get("Retry-After") == "3", "the worker's own words"
    await site.fault()
    assert [(await site.ask()).status for _ in range(3 * len(site.workers))] == [200] * 3 * len(site.workers)


async def test_row_25_a_spell_of_errors_does_not_close_the_whole_fleet(bruised: Site) -> None:
    site = bruised
    await site.fault("status", status=500)
    await asyncio.gather(*(site.ask(f"Explain {n}", limit_s=30) for n in range(15 * len(site.workers))))
    await site.fault()
    assert [(await site.ask()).status for _ in range(3 * len(site.workers))] == [200] * 3 * len(site.workers)


async def test_row_27_a_worker_that_answers_is_alive_whatever_its_health_door_says(bruised: Site) -> None:
    """All at once, for eight seconds of traffic: probes of at most about two seconds must be switched on."""
    site = bruised
    await site.fault("deaf")
    until_s, number, failed = time.monotonic() + 8, 0, []
    while time.monotonic() < until_s:
        told = await asyncio.gather(*(site.ask(session=f"s{number + n}") for n in range(len(site.workers))))
        failed += [one for one in told if one.status != 200]
        number += len(told)
        await asyncio.sleep(0.1)
    assert not failed, f"{len(failed)} of {number}, such as {failed[0]}"


async def test_row_28_after_a_breakdown_all_is_well_within_seconds(bruised: Site, record_property: Record) -> None:
    site = bruised
    await site.fault("reset")
    await asyncio.gather(*(site.ask(f"Explain {n}", limit_s=20) for n in range(60)))
    await site.fault()
    began_s, good = time.monotonic(), 0
    while good < 10 and time.monotonic() - began_s < 15:
        good = good + 1 if (await site.ask(limit_s=10)).status == 200 else 0
        await asyncio.sleep(0 if good else 0.1)
    record_property("seconds until ten answers in a row", round(time.monotonic() - began_s, 2))
    assert good == 10, "not within 15 s"
    await site.workers[0].restart(down_s=0.5)
    await asyncio.gather(*(site.ask(f"Explain {n}", session=f"a{n}", limit_s=20) for n in range(40)))
    await until(site.workers[0].listens)

    async def used_again() -> bool:
        await site.ask(session=new_nonce())
        return bool(await site.workers[0].calls())

    await site.workers[0].forget()
    await until(used_again, 15)


async def dying(site: Site, stream: bool) -> tuple[bytes, str | None, int]:
    """Ask workers that die in mid-answer: what was heard, how it ended, how often workers were asked."""
    await site.fault("die", after=3)
    told = await site.ask(stream=stream)
    calls = [call for _, call in await site.calls() if told.nonce in call["body"]]
    if not stream and told.status >= 500:
        return told.body, f"status {told.status}", len(calls)
    return told.body, told.broken, len(calls)


@BOTH
async def test_row_32_half_an_answer_does_not_look_whole(bruised: Site, stream: bool) -> None:
    heard, ended, _ = await dying(bruised, stream)
    assert ended is not None and b"[DONE]" not in heard, heard[-300:]


async def test_row_32_the_end_of_a_broken_stream_says_what_happened(bruised: Site) -> None:
    heard, _, _ = await dying(bruised, stream=True)
    assert b'"error"' in heard, heard[-300:]
    assert b"[DONE]" not in heard


@BOTH
async def test_row_34_what_had_begun_is_not_generated_twice(bruised: Site, stream: bool) -> None:
    _, _, asked = await dying(bruised, stream)
    assert asked == 1


async def test_row_34_a_client_that_leaves_is_not_asked_for_again(bruised: Site) -> None:
    site = bruised
    await site.fault("hang")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), site.http.post(
            f"{site.url}{CHAT}", data=body_of("Hello?", "f" * 16, CHAT, {}),
            headers={"Content-Type": "application/json", **PLAIN},
        ) as reply:  # fmt: skip
            await reply.read()
    await asyncio.sleep(1.0)
    assert len([call for _, call in await site.calls() if "f" * 16 in call["body"]]) == 1
