"""Equal questions in the air: who joins, who leaves, who waits for whom, and what everybody hears."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.errors import UpstreamFailed
from proxy.flights import Block, Flight, Flights, Head, Listener

HEAD = Head(200, [("Content-Type", "text/plain")], "worker", "least loaded")


class Pilot:
    """Says what it is given, when it is given; knows whether it was cancelled."""

    def __init__(self) -> None:
        self.orders: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.started = 0
        self.cancelled = asyncio.Event()

    def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.orders.put_nowait(piece)

    def end(self) -> None:
        self.orders.put_nowait(None)

    def fail(self, error: Exception) -> None:
        self.orders.put_nowait(error)

    async def __call__(self, flight: Flight[str]) -> None:
        self.started += 1
        try:
            flight.begin(HEAD)
            while (order := await self.orders.get()) is not None:
                if isinstance(order, Exception):
                    raise order
                await flight.say(Block(order))
            flight.end("the log")
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.fixture
async def flights() -> AsyncIterator[Flights[str]]:
    async with asyncio.timeout(10), Flights[str](keep_bytes=1000) as opened:
        yield opened


async def heard(flight: Flight[str], listener: Listener) -> bytes:
    return b"".join([block.data async for block in flight.blocks(listener)])


async def test_one_listener_hears_everything_in_order(flights: Flights[str]) -> None:
    pilot = Pilot()
    async with flights.join("k", "json", pilot) as (flight, listener, joined):
        assert not joined
        assert await flight.begun(listener) == HEAD
        pilot.say(b"a", b"b", b"c")
        pilot.end()
        assert await heard(flight, listener) == b"abc"
        assert flight.result == "the log"


async def test_who_asks_the_same_meanwhile_joins_and_hears_the_beginning_too(flights: Flights[str]) -> None:
    pilot = Pilot()
    async with flights.join("k", "json", pilot) as (flight, first, _):
        pilot.say(b"a", b"b")
        taken = flight.blocks(first)
        assert [(await anext(taken)).data, (await anext(taken)).data] == [b"a", b"b"]
        async with flights.join("k", "sse", Pilot()) as (same, late, joined):
            assert joined
            assert same is flight
            assert (flight.shape, flight.listeners) == ("json", 2)
            pilot.say(b"c")
            pilot.end()
            assert await heard(flight, late) == b"abc"
        assert b"".join([block.data async for block in taken]) == b"c"
    assert pilot.started == 1


async def test_another_key_or_none_is_another_flight(flights: Flights[str]) -> None:
    pilots = [Pilot() for _ in range(4)]
    async with contextlib.AsyncExitStack() as stack:
        for key, pilot in zip(["a", "b", None, None], pilots, strict=True):
            flight, listener, joined = await stack.enter_async_context(flights.join(key, "json", pilot))
            await flight.begun(listener)
            assert not joined
        assert len(flights) == 4
    assert [pilot.started for pilot in pilots] == [1, 1, 1, 1]


async def test_who_comes_after_the_end_starts_anew(flights: Flights[str]) -> None:
    pilot = Pilot()
    async with flights.join("k", "json", pilot) as (flight, listener, _):
        pilot.end()
        assert await flight.ended(listener) == "the log"
        async with flights.join("k", "json", Pilot()) as (other, _, joined):
            assert not joined
            assert other is not flight


async def test_when_the_last_listener_leaves_the_generation_is_cancelled(flights: Flights[str]) -> None:
    pilot = Pilot()
    async with flights.join("k", "json", pilot) as (flight, listener, _):
        await flight.begun(listener)
    await pilot.cancelled.wait()
    assert await no_flight_is_left(flights)


async def test_the_first_may_leave_while_somebody_listens(flights: Flights[str]) -> None:
    pilot = Pilot()
    leading = flights.join("k", "json", pilot)
    flight, leader, _ = await leading.__aenter__()
    pilot.say(b"a")
    await anext(flight.blocks(leader))
    async with flights.join("k", "json", pilot) as (same, listener, joined):
        await leading.__aexit__(None, None, None)
        assert joined
        assert flight.listeners == 1
        pilot.say(b"b")
        pilot.end()
        assert await heard(same, listener) == b"ab"
    assert not pilot.cancelled.is_set()


async def test_a_listener_that_is_cancelled_has_left(flights: Flights[str]) -> None:
    pilot, listening = Pilot(), asyncio.Event()

    async def listen() -> None:
        async with flights.join("k", "json", pilot) as (flight, listener, _):
            await flight.begun(listener)
            listening.set()
            await heard(flight, listener)

    task = asyncio.get_running_loop().create_task(listen())
    await listening.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await pilot.cancelled.wait()


async def test_a_key_is_free_as_soon_as_everybody_has_left(flights: Flights[str]) -> None:
    pilot, next_pilot = Pilot(), Pilot()
    async with flights.join("k", "json", pilot) as (flight, listener, _):
        await flight.begun(listener)
    async with flights.join("k", "json", next_pilot) as (other, listener, joined):  # the old task is not done yet
        assert not joined
        next_pilot.say(b"new")
        next_pilot.end()
        assert await heard(other, listener) == b"new"


async def test_everybody_hears_the_same_error_after_what_was_said(flights: Flights[str]) -> None:
    pilot, error = Pilot(), UpstreamFailed("it broke")
    async with (
        flights.join("k", "json", pilot) as (flight, one, _),
        flights.join("k", "json", pilot) as (_, two, joined),
    ):
        assert joined
        pilot.say(b"a")
        pilot.fail(error)
        for listener in (one, two):
            taken = flight.blocks(listener)
            assert (await anext(taken)).data == b"a"
            with pytest.raises(UpstreamFailed) as told:
                await anext(taken)
            assert told.value is error
        assert not flight.joinable
        assert flight.result is None


@pytest.mark.parametrize("error", [UpstreamFailed("no"), ValueError("a bug of ours")])
async def test_a_failure_before_the_first_byte_is_told_at_the_beginning(
    flights: Flights[str], error: Exception
) -> None:
    async def pilot(flight: Flight[str]) -> None:
        raise error

    async with flights.join("k", "json", pilot) as (flight, listener, _):
        with pytest.raises(type(error)) as told:
            await flight.begun(listener)
        assert told.value is error
    async with flights.join("k", "json", Pilot()) as (_, _, joined):
        assert not joined


@pytest.mark.parametrize("begins", [True, False])
async def test_a_pilot_that_forgets_to_land_leaves_nobody_waiting(flights: Flights[str], begins: bool) -> None:
    async def forgetful(flight: Flight[str]) -> None:
        if begins:
            flight.begin(HEAD)

    async with flights.join("k", "json", forgetful) as (flight, listener, _):
        with pytest.raises(RuntimeError, match="before the end"):
            await flight.begun(listener)
            await flight.ended(listener)


async def test_a_slow_reader_slows_the_worker_and_fills_no_memory(flights: Flights[str]) -> None:
    held: list[int] = []

    async def eager(flight: Flight[str]) -> None:
        flight.begin(HEAD)
        for number in range(500):
            await flight.say(Block(b"%04d" % number * 25))
            held.append(flight._bytes)
        flight.end("the log")

    async with flights.join("k", "json", eager) as (flight, listener, _):
        said = []
        async for block in flight.blocks(listener):
            held.append(flight._bytes)
            said.append(int(block.data[:4]))
        assert said == list(range(500))
    assert max(held) <= 1000 + 100
    assert len(held) == 1000


async def test_the_slowest_of_several_readers_sets_the_pace(flights: Flights[str]) -> None:
    pilot = Pilot()
    async with flights.join("k", "json", pilot) as (flight, fast, _), flights.join("k", "json", pilot) as (_, slow, _):
        pieces = [b"x" * 300] * 5
        pilot.say(*pieces)
        taken = flight.blocks(fast)
        for _ in range(4):
            await anext(taken)
        assert slow.position == 0
        assert pilot.orders.qsize() == 1  # 1200 bytes are held: the fifth piece must wait
        assert not flight.joinable
        async for _ in flight.blocks(slow):
            if slow.position == 4:
                break
        assert (await anext(taken)).data == pieces[4]
        assert flight._bytes <= 1000


class Watched(asyncio.Event):
    """Tells when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.waited_for.set()
        return await super().wait()


async def test_when_the_slow_reader_leaves_the_others_go_on(flights: Flights[str]) -> None:
    pilot = Pilot()
    async with flights.join("k", "json", pilot) as (flight, fast, _):
        async with flights.join("k", "json", pilot) as (_, slow, joined):
            assert joined
            pilot.say(*[b"x" * 300] * 8)
            pilot.end()
            taken = flight.blocks(fast)
            flight._room = room = Watched()
            for _ in range(4):
                await anext(taken)
            room.waited_for.clear()
            rest = asyncio.get_running_loop().create_task(heard_of(taken))
            room.set()  # the pilot looks again, and finds that the slow reader has still taken nothing
            await room.waited_for.wait()
            assert slow.position == 0
        assert len(await rest) == 4 * 300


async def heard_of(blocks: AsyncIterator[Block]) -> bytes:
    return b"".join([block.data async for block in blocks])


async def test_who_comes_too_late_to_hear_everything_starts_anew(flights: Flights[str]) -> None:
    pilot, other = Pilot(), Pilot()
    async with flights.join("k", "json", pilot) as (flight, listener, _):
        pilot.say(*[b"x" * 300] * 5)
        taken = flight.blocks(listener)
        for _ in range(5):
            await anext(taken)
        async with flights.join("k", "json", other) as (second, late, joined):
            assert not joined
            assert second is not flight
            async with flights.join("k", "json", Pilot()) as (third, _, joined_again):
                assert joined_again
                assert third is second
            other.end()
            await second.ended(late)
        pilot.say(b"end")
        pilot.end()
        assert b"".join([block.data async for block in taken]) == b"end"


async def test_one_block_larger_than_all_that_may_be_held_gets_through(flights: Flights[str]) -> None:
    pilot = Pilot()
    async with flights.join("k", "json", pilot) as (flight, listener, _):
        pilot.say(b"x" * 5000, b"y" * 5000)
        pilot.end()
        assert await heard(flight, listener) == b"x" * 5000 + b"y" * 5000


async def test_closing_cancels_what_still_flies_and_tells_the_listeners() -> None:
    pilot = Pilot()
    async with asyncio.timeout(10):
        async with Flights[str]() as flights:
            joining = flights.join("k", "json", pilot)
            flight, listener, _ = await joining.__aenter__()
            await flight.begun(listener)
        assert pilot.cancelled.is_set()
        assert len(flights) == 0
        with pytest.raises(UpstreamFailed, match="cancelled"):
            await flight.ended(listener)
        await joining.__aexit__(None, None, None)


async def no_flight_is_left(flights: Flights[str]) -> bool:
    await asyncio.gather(*flights._tasks, return_exceptions=True)
    return not flights._by_key and len(flights) == 0


async def test_nothing_is_left_behind_by_flights_that_ended(flights: Flights[str]) -> None:
    for number in range(20):
        pilot = Pilot()
        async with flights.join(f"k{number}", "json", pilot) as (flight, listener, _):
            pilot.fail(UpstreamFailed("x")) if number % 3 == 0 else pilot.end()
            with contextlib.suppress(UpstreamFailed):
                await flight.ended(listener)
    assert await no_flight_is_left(flights)


ORDERS = st.lists(
    st.tuples(st.sampled_from(["say", "join", "leave", "read"]), st.integers(0, 9), st.integers(1, 60)), max_size=40
)


@given(ORDERS)
@settings(max_examples=60, deadline=None)
def test_whoever_stays_hears_all_of_it_whatever_the_others_do(orders: list[tuple[str, int, int]]) -> None:
    asyncio.run(_whoever_stays(orders))


async def _whoever_stays(orders: list[tuple[str, int, int]]) -> None:
    pilot, said = Pilot(), b""
    async with asyncio.timeout(10), Flights[str](keep_bytes=100) as flights:
        first = flights.join("k", "json", pilot)
        flight, listener, _ = await first.__aenter__()
        await flight.begun(listener)
        here = [(first, listener, flight.blocks(listener), [b""])]
        for order, which, size in orders:
            if order == "say":
                piece = bytes([65 + which]) * size
                pilot.say(piece)
                said += piece
            elif order == "join" and flight.joinable:
                joining = flights.join("k", "json", pilot)
                same, listener, joined = await joining.__aenter__()
                assert joined
                assert same is flight
                here.append((joining, listener, flight.blocks(listener), [b""]))
            elif order == "leave" and len(here) > 1:
                joining, _, blocks, _ = here.pop(which % len(here))
                await blocks.aclose()  # type: ignore[attr-defined]
                await joining.__aexit__(None, None, None)
            elif order == "read":
                _, listener, blocks, mine = here[which % len(here)]
                if listener.position < flight._dropped + len(flight._blocks):
                    mine.append((await anext(blocks)).data)
        pilot.end()

        async def rest(blocks: AsyncIterator[Block], mine: list[bytes]) -> bytes:
            return b"".join(mine) + b"".join([block.data async for block in blocks])

        told = await asyncio.gather(*(rest(blocks, mine) for _, _, blocks, mine in here))
        assert told == [said] * len(here)
        for joining, *_ in here:
            await joining.__aexit__(None, None, None)
        assert await no_flight_is_left(flights)


async def test_one_who_does_not_read_does_not_hold_the_others_for_ever() -> None:
    """Found in review: behind the limit, everybody stood still until the slow one left."""
    pilot = Pilot()
    async with (
        asyncio.timeout(10), Flights[str](keep_bytes=1000, patience_s=0.05) as flights,
        flights.join("k", "sse", pilot) as (flight, slow, _), flights.join("k", "sse", pilot) as (_, quick, joined),
    ):  # fmt: skip
        assert joined
        pilot.say(*[b"x" * 400] * 10)
        pilot.end()
        assert await heard(flight, quick) == b"x" * 4000
        with pytest.raises(UpstreamFailed, match="too slowly"):
            await heard(flight, slow)


async def test_a_reply_that_nobody_reads_frees_its_worker() -> None:
    pilot = Pilot()
    async with (
        asyncio.timeout(10), Flights[str](keep_bytes=1000, patience_s=0.05) as flights,
        flights.join("k", "sse", pilot) as (flight, listener, _),
    ):  # fmt: skip
        pilot.say(*[b"x" * 400] * 10)
        assert flight._task is not None
        await flight._task
        with pytest.raises(UpstreamFailed):
            await heard(flight, listener)
