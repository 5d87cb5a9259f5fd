"""Warm-ups through the real server: what they may cost, whom they must not disturb, and what becomes of them."""

import contextlib
import functools
from pathlib import Path
from typing import Any

import pytest
from house import House, OpenHouse, open_house, turns
from second_turn import FIRST, SECOND, THIRD, computed, ended, two_turns, warm_ups

from proxy import warming
from proxy.faults import Pace


@pytest.fixture
def house(tmp_path: Path) -> OpenHouse:
    return functools.partial(open_house, tmp_path)


async def tokens(h: House, use: str) -> float:
    return await h.metric("rejoinder_warmup_tokens_total", use=use)


# ── what the worker sees ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_worker_is_asked_for_one_token_in_the_session_of_the_chat(house: OpenHouse) -> None:
    async with two_turns(house) as (h, _):
        await ended(h)
        (warm_up,) = warm_ups(h)
        told = {name: value for name, value in warm_up.json.items() if name != "messages"}
        assert told == {"model": "demo", "max_tokens": 1, "stream": False}
        digests = {call.headers["X-Session-ID"] for call in h.workers[1].calls}
        assert len(h.workers[1].calls) == 2 and len(digests) == 1 and "ben" not in digests
        assert "Authorization" not in warm_up.headers


async def test_our_own_key_is_shown_and_never_a_clients(house: OpenHouse) -> None:
    async with two_turns(house, worker_api_key="ours") as (h, _):
        await ended(h)
        assert warm_ups(h)[0].headers["Authorization"] == "Bearer ours"


async def test_where_the_worker_keeps_priorities_nobody_has_to_make_way(house: OpenHouse) -> None:
    async with two_turns(house, busy=True, worker_priority=True) as (h, _):
        await ended(h)
        assert warm_ups(h)[0].json["priority"] > 0


async def test_a_warm_up_is_nobodys_request_and_nothing_of_it_is_stored(house: OpenHouse) -> None:
    async with two_turns(house) as (h, _):
        before = {name: await h.metric(f"rejoinder_{name}_total") for name in ("lookups", "flights", "upstream_tokens")}
        stored = await h.stored()
        await ended(h)
        after = {name: await h.metric(f"rejoinder_{name}_total") for name in before}
        assert after == before and await h.stored() == stored
        assert h.at_rest


# ── when there is none ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_short_turns_are_computed_in_no_time_and_are_not_warmed(house: OpenHouse) -> None:
    async with house(workers=1, embedder="none", warm_up=True, spare_time_share=1.0) as h:
        chat = ["Hello!", (await h.ask("Hello!", session="ben")).text, "How are you?"]
        await h.ask(turns(*chat), session="anna")
        assert (await h.ask(turns(*chat), session="ben")).hit
        await h.until(lambda: h.proxy.warming.waiting == 0)
        await h.ask("Something else.")
        assert not warm_ups(h)


async def test_a_session_without_a_home_is_not_given_one(house: OpenHouse) -> None:
    async with house(workers=1, embedder="none", warm_up=True, spare_time_share=1.0) as h:
        chat = [FIRST, (await h.ask(FIRST, session="anna")).text, SECOND]
        await h.ask(turns(*chat), session="anna")
        assert (await h.ask(turns(*chat), session="ben")).hit
        await h.until(lambda: h.proxy.warming.waiting == 0)
        assert not warm_ups(h) and await tokens(h, "wasted") == 0


async def test_what_was_forgotten_is_not_sent_to_a_worker_a_minute_later(house: OpenHouse) -> None:
    async with two_turns(house, busy=True) as (h, _):
        await h.until(lambda: h.proxy.warming.waiting)
        await h.forget_all()
        await ended(h, "forgotten")
        assert h.proxy.warming.waiting == 0 and not warm_ups(h)


async def test_a_worker_that_was_restarted_has_lost_what_came_before(house: OpenHouse) -> None:
    busy = contextlib.ExitStack()

    def until_it_is_back(h: House) -> None:
        busy.enter_context(h.proxy.pool.booked(h.proxy.pool.find(h.workers[1].url)))

    async with two_turns(house, before=until_it_is_back) as (h, _):
        await h.until(lambda: h.proxy.warming.waiting)
        worker = h.proxy.pool.find(h.workers[1].url)
        generation = worker.generation
        await h.workers[1].kill()
        await h.until(lambda: worker.state == "down")
        await h.workers[1].start()
        await h.until(lambda: worker.generation > generation and worker.state == "up")
        busy.close()
        await ended(h, "dropped")
        assert not warm_ups(h)


async def test_a_chat_that_is_silent_for_long_is_given_up(house: OpenHouse) -> None:
    def hurry(h: House) -> None:
        h.proxy.warming._debts._patience_s = 0.0

    async with two_turns(house, busy=True, before=hurry) as (h, _):
        await ended(h, "expired")
        assert h.proxy.warming.waiting == 0 and not warm_ups(h)


async def test_what_is_heard_is_bounded(house: OpenHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "_HEARD_BYTES", 1000)
    async with two_turns(house) as (h, _):
        assert await h.metric("rejoinder_warmups_total", outcome="dropped") >= 1
        assert h.proxy.warming.waiting == 0


# ── what becomes of it ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_warm_up_for_a_chat_that_goes_elsewhere_is_counted_as_wasted(house: OpenHouse) -> None:
    async with two_turns(house) as (h, chat):
        await ended(h)
        annas, bens = (h.proxy.pool.find(worker.url) for worker in h.workers)
        h.proxy.pool.undrain(annas)
        h.proxy.pool.drain(bens)
        assert not (await h.ask(chat, session="ben", cache_control="no-cache")).hit
        assert await tokens(h, "wasted") > 1000 and await tokens(h, "saved") == 0


async def test_the_router_knows_what_the_worker_has_read(house: OpenHouse) -> None:
    async with two_turns(house) as (h, chat):
        await ended(h)
        annas = h.proxy.pool.find(h.workers[0].url)
        h.proxy.pool.undrain(annas)
        (bens,) = [each for each in (await h.explain(chat, session="ben"))["workers"]
                   if each["name"] == h.proxy.pool.find(h.workers[1].url).name]  # fmt: skip
        assert bens["resident_tokens"] > 1000
        third = await h.ask(chat, session="ben")
        assert computed(third) < 40


async def test_a_worker_that_refuses_is_not_asked_again_for_the_same(house: OpenHouse) -> None:
    async with two_turns(house, before=lambda h: h.workers[1].fault("status", status=400, times=1)) as (h, chat):
        await ended(h, "refused")
        assert h.proxy.warming.waiting == 0
        assert (await h.ask(chat, session="ben")).status == 200


async def test_a_worker_that_fails_a_warm_up_goes_on_serving(house: OpenHouse) -> None:
    async with two_turns(house, before=lambda h: h.workers[1].fault("status", status=500, times=1)) as (h, chat):
        await ended(h, "failed")
        assert (await h.ask(chat, session="ben")).status == 200


async def test_a_warm_up_that_takes_longer_than_its_allowance_is_stopped(house: OpenHouse) -> None:
    async with two_turns(house, spare_time_share=0.2, pace=Pace(prefill_token_s=0.02)) as (h, _):
        await ended(h, "over budget")
        (warm_up, *_) = warm_ups(h)
        assert warm_up.disconnected_at_s is not None
        assert 0 < await h.metric("rejoinder_warmup_seconds_total") < 3


async def test_a_fault_of_ours_ends_one_warm_up_and_not_all(house: OpenHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [True]
    whole = warming.warm_up

    def sometimes(*given: Any, **more: Any) -> Any:
        if broken.pop() if broken else False:
            raise RuntimeError("a fault of ours")
        return whole(*given, **more)

    monkeypatch.setattr(warming, "warm_up", sometimes)
    async with two_turns(house) as (h, chat):
        await ended(h, "failed")
        assert (await h.ask(chat[:3], session="ben")).hit
        await ended(h)
        assert chat[-1]["content"] == THIRD
