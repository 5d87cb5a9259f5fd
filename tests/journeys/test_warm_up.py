"""The turn after a hit: it was slow, because its worker had read neither that question nor what the cache answered."""

import pytest
from house import OpenHouse
from second_turn import computed, ended, two_turns, warm_ups

from proxy.faults import Pace

ANOTHER = "What does a helmet cost?"


async def test_after_a_hit_the_worker_has_read_that_turn_when_the_next_one_comes(house: OpenHouse) -> None:
    async with two_turns(house) as (h, chat):
        await ended(h)
        (warm_up,) = warm_ups(h)
        assert warm_up.json["messages"][:-1] == chat[:-1]
        third = await h.ask(chat, session="ben")
        assert not third.hit
        assert computed(third) < 40, "all but the new question was there"
        assert await h.metric("rejoinder_warmup_tokens_total", use="saved") > 1000
        assert await h.metric("rejoinder_warmup_tokens_total", use="wasted") < 16, "a part of one block"
        assert await h.metric("rejoinder_warmup_seconds_total") > 0


async def test_without_it_the_turn_after_a_hit_is_computed_whole(house: OpenHouse) -> None:
    async with two_turns(house, warm_up=False) as (h, chat):
        third = await h.ask(chat, session="ben")
        assert not third.hit and not warm_ups(h)
        assert computed(third) > 1000


async def test_a_user_never_waits_for_a_warm_up_and_it_comes_back(house: OpenHouse) -> None:
    async with two_turns(house, pace=Pace(prefill_token_s=0.02)) as (h, chat):  # 30 seconds for what is lacking
        await h.until(lambda: warm_ups(h))
        (warm_up,) = warm_ups(h)
        told = await h.ask(ANOTHER)
        assert told.status == 200
        await h.until(lambda: warm_up.disconnected_at_s is not None)  # vLLM would have aborted it
        await ended(h, "yielded")
        h.workers[1].pace = Pace()
        await ended(h)
        assert computed(await h.ask(chat, session="ben")) < 40


async def test_a_user_who_is_quicker_than_his_warm_up_is_served_without_it(house: OpenHouse) -> None:
    async with two_turns(house, busy=True) as (h, chat):
        await h.until(lambda: h.proxy.warming.waiting)
        assert not (await h.ask(chat, session="ben")).hit
        await ended(h, "overtaken")
        assert h.proxy.warming.waiting == 0 and not warm_ups(h)


async def test_the_last_worker_is_warmed_too_and_no_request_fails_of_it(house: OpenHouse) -> None:
    async with two_turns(house, pace=Pace(prefill_token_s=0.02)) as (h, chat):
        h.proxy.pool.remove(h.proxy.pool.find(h.workers[0].url))
        await h.until(lambda: warm_ups(h))
        for number in range(3):
            assert (await h.ask(f"{ANOTHER} Number {number}.")).status == 200
        h.workers[1].pace = Pace()
        third = await h.ask(chat, session="ben")
        assert third.status == 200 and not third.hit
    assert h.at_rest


@pytest.mark.parametrize("off", [{"warm_up": False}, {"spare_time_share": 0.0}, {"mode": "observe"}])
async def test_it_can_be_switched_off(house: OpenHouse, off: dict[str, object]) -> None:
    async with two_turns(house, **off) as (h, _):
        assert h.proxy.warming.waiting == 0
        await h.ask(ANOTHER)
        assert not warm_ups(h)


async def test_a_house_that_closes_waits_for_no_warm_up(house: OpenHouse) -> None:
    async with two_turns(house, pace=Pace(prefill_token_s=0.02)) as (h, _):
        await h.until(lambda: warm_ups(h))
        (warm_up,) = warm_ups(h)
    assert warm_up.disconnected_at_s is not None, "30 seconds were not waited for"
