"""Shadow checks: the complaint is always that nobody could say how often a served answer was wrong, and the fear that
finding out would cost the users something. Through the real server."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from embedders import Placed
from house import House, OpenHouse, Told, open_house
from shop import Shop

from cache import Evidence, Hit, Label, Source
from proxy.shadow import ROOM

STORED = "How do I reset my password?"
ASKED = "How can I reset my password?"
RIGHT = "Open Settings, choose Security and tap Reset password."
WRONG = "You can return it within 30 days."
EVIDENCE = Evidence(0.93, (0.93, 0.1), 0.98, "test")


@pytest.fixture
def house(tmp_path: Path) -> OpenHouse:
    """Checks may take all the time of a worker, so that no test waits for an allowance."""
    return functools.partial(open_house, tmp_path, shadow_share=0.02, spare_time_share=1.0)


@contextlib.asynccontextmanager
async def served(house: OpenHouse, shop: Shop, *, beside: Shop | None = None, **settings: Any) -> AsyncIterator[House]:
    """One question is stored, and asked again in other words: a hit by meaning. beside: another worker."""
    async with shop, house(workers=[beside, shop] if beside else [shop], embedder=Placed(), **settings) as h:
        await h.ask(STORED)
        yield h


async def hit(h: House, question: str = ASKED, **fields: Any) -> Told:
    told = await h.ask(question, **fields)
    assert told.hit and "meaning" in told.cache_status, told.cache_status
    return told


async def outcomes(h: House, name: str = "agree", times: int = 1) -> None:
    """Wait until so many checks ended so."""
    async with asyncio.timeout(8):
        while await h.metric("rejoinder_shadow_checks_total", outcome=name) < times:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


# ── what they find ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_wrong_answer_that_was_served_is_found_out(house: OpenHouse) -> None:
    """Stored for the first question, and the worker would have said something else to the second."""
    async with served(house, Shop({STORED: "You have 30 days.", ASKED: "You have 14 days."})) as h:
        assert (await hit(h)).text == "You have 30 days."
        await outcomes(h, "disagree")
        assert await h.metric("rejoinder_shadow_tokens_total") > 0
        assert await h.metric("rejoinder_shadow_seconds_total") > 0


async def test_a_right_answer_is_confirmed_and_one_that_cannot_be_compared_is_unsure(house: OpenHouse) -> None:
    shop = Shop({STORED: RIGHT, ASKED: RIGHT})
    async with served(house, shop) as h:
        await hit(h)
        await outcomes(h, "agree")
        shop.finish = "length"  # cut off: nobody knows how it would have gone on
        await hit(h)
        await outcomes(h, "unsure")


async def test_the_reply_never_waits_for_its_check(house: OpenHouse) -> None:
    shop = Shop({STORED: RIGHT, ASKED: RIGHT})
    shop.gate.clear()
    async with served(house, shop) as h:
        assert (await hit(h)).text == RIGHT
        await h.until(lambda: shop.checks)
        assert (await hit(h)).text == RIGHT, "nor for that of somebody else"
        shop.gate.set()
        await outcomes(h, times=2)


async def test_only_hits_by_meaning_are_checked(house: OpenHouse) -> None:
    async with served(house, shop := Shop({STORED: RIGHT, ASKED: RIGHT})) as h:
        assert (await h.ask(STORED)).hit
        assert (await h.ask("Please, how do I reset my password")).hit
        await h.ask("What does a helmet cost?", cache={"no-store": True})
        await hit(h)
        await outcomes(h)
        assert {call.json["messages"][-1]["content"] for call in shop.checks} <= {ASKED, f"{ASKED} Thank you!"}


async def test_a_share_of_0_switches_them_off(house: OpenHouse) -> None:
    for off in ({"shadow_share": 0.0}, {"spare_time_share": 0.0}):
        async with served(house, shop := Shop({STORED: RIGHT, ASKED: RIGHT}), **off) as h:
            await hit(h)
            assert h.proxy.shadow.waiting == 0
            assert not shop.checks
            await h.forget_all()


async def test_nothing_of_a_check_is_stored(house: OpenHouse) -> None:
    async with served(house, Shop({STORED: "You have 30 days.", ASKED: "You have 14 days."})) as h:
        before = await h.stored()
        await hit(h)
        await outcomes(h, "disagree")
        assert await h.stored() == before
        assert (await hit(h)).text == "You have 30 days."


# ── what the worker sees ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_check_says_nothing_of_who_asked(house: OpenHouse) -> None:
    """A key is the client's to show, not ours to keep; a session would pull the chat's next turn to this worker."""
    async with served(house, shop := Shop({STORED: RIGHT, ASKED: RIGHT})) as h:
        key = {"Authorization": "Bearer sk-secret", "X-Session-ID": "chat-9", "Cookie": "a=b"}
        await h.ask(STORED, headers=key)
        await hit(h, headers=key, user="anna", stream=True, temperature=None)
        await outcomes(h)
        (check, *_) = shop.checks
        assert not {"authorization", "x-session-id", "cookie"} & {name.lower() for name, _ in check.headers}
        assert check.json == {"model": "demo", "messages": [{"role": "user", "content": ASKED}], "temperature": None}


async def test_our_own_key_is_shown_where_the_workers_want_one(house: OpenHouse) -> None:
    shop = Shop({STORED: RIGHT, ASKED: RIGHT})
    async with served(house, shop, worker_api_key="ours") as h:
        await hit(h)
        await outcomes(h)
        assert {check.header("Authorization") for check in shop.checks} == {"Bearer ours"}


async def test_a_worker_that_only_clients_have_a_key_for_is_not_checked_on(house: OpenHouse) -> None:
    """It does not tell us its models, so it would not answer us either."""
    closed, shop = Shop({STORED: RIGHT, ASKED: RIGHT}, models=()), Shop({STORED: RIGHT, ASKED: RIGHT})
    async with closed, served(house, shop, beside=closed) as h:
        for times in range(1, 4):
            await hit(h)
            await outcomes(h, times=times)
        assert shop.checks and not closed.checks


async def test_a_worker_that_refuses_is_not_asked_again_for_the_same(house: OpenHouse) -> None:
    shop = Shop({STORED: RIGHT, ASKED: RIGHT})
    shop.status_of_checks = 401
    async with served(house, shop) as h:
        await hit(h)
        await outcomes(h, "refused")
        shop.status_of_checks = 500
        await hit(h)
        await outcomes(h, "failed")
        assert len(shop.checks) == 2


# ── whom they must not disturb ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_check_makes_way_for_a_user_and_comes_back(house: OpenHouse) -> None:
    shop = Shop({STORED: RIGHT, ASKED: RIGHT})
    shop.gate.clear()
    async with served(house, shop) as h:
        await hit(h)
        await h.until(lambda: shop.checks)
        await h.ask("What does a helmet cost?")
        await h.until(lambda: shop.left == 1)  # vLLM would have aborted it
        await outcomes(h, "yielded")
        shop.gate.set()
        await outcomes(h)
        assert h.proxy.pool.find(shop.url).guest is None


async def test_a_worker_that_is_busy_for_others_is_left_alone(house: OpenHouse) -> None:
    """Another replica's users, or a batch that goes there directly: our books know nothing of them."""
    for running, waiting in ((1, 0), (0, 1), (None, 0)):
        shop = Shop({STORED: RIGHT, ASKED: RIGHT})
        shop.running, shop.waiting = running, waiting
        async with served(house, shop) as h:
            await hit(h)
            looks = shop.looks
            await h.until(lambda shop=shop, looks=looks: shop.looks >= looks + 2)  # one may be a probe's
            assert not shop.checks
            shop.running, shop.waiting = 0, 0
            await outcomes(h)
            await h.forget_all()


async def test_a_worker_that_a_user_waits_for_is_left_alone(house: OpenHouse) -> None:
    busy, shop = Shop({STORED: RIGHT, ASKED: RIGHT}), Shop({STORED: RIGHT, ASKED: RIGHT})
    async with busy, served(house, shop, beside=busy) as h:
        with h.proxy.pool.booked(h.proxy.pool.find(busy.url)):
            for times in range(1, 4):
                await hit(h)
                await outcomes(h, times=times)
        assert shop.checks and not busy.checks


async def test_where_the_worker_keeps_priorities_nobody_has_to_make_way(house: OpenHouse) -> None:
    shop = Shop({STORED: RIGHT, ASKED: RIGHT})
    shop.running = 5
    async with served(house, shop, worker_priority=True) as h:
        await hit(h)
        await outcomes(h)
        assert shop.checks[0].json["priority"] > 0
        assert not shop.left


async def test_a_check_that_takes_longer_than_its_allowance_is_stopped(house: OpenHouse) -> None:
    shop = Shop({STORED: RIGHT, ASKED: RIGHT})
    shop.gate.clear()
    async with served(house, shop, spare_time_share=0.2) as h:
        began_s = asyncio.get_running_loop().time()
        await hit(h)
        await outcomes(h, "over budget")
        lasted_s = asyncio.get_running_loop().time() - began_s
        spent_s = h.proxy.shadow.state()["workers"][shop.url.partition("//")[2]]["spent_s"]
        assert 0 < spent_s <= 0.2 * (lasted_s + 10)
        assert shop.left == 1


async def test_what_waits_is_bounded_and_the_rest_is_counted(house: OpenHouse) -> None:
    shop = Shop({STORED: RIGHT, ASKED: RIGHT})
    shop.running = 1
    async with served(house, shop) as h:
        for _ in range(ROOM + 3):
            await hit(h)
        assert h.proxy.shadow.waiting == ROOM
        assert await h.metric("rejoinder_shadow_checks_total", outcome="dropped") == 3


async def test_what_was_forgotten_is_not_asked_again(house: OpenHouse) -> None:
    """An erased question must not turn up at a worker a minute later."""
    shop = Shop({STORED: RIGHT, ASKED: RIGHT})
    shop.running = 1
    async with served(house, shop) as h:
        await hit(h)
        await h.forget_all()
        shop.running = 0
        await outcomes(h, "forgotten")
        assert not shop.checks


async def test_a_fault_of_ours_ends_one_check_and_not_all(house: OpenHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(house, Shop({STORED: RIGHT, ASKED: RIGHT})) as h:
        compare = h.proxy.shadow._comparator.compare
        broken = [True]

        async def sometimes(fresh: str, served: str) -> Any:
            if broken.pop() if broken else False:
                raise RuntimeError("a fault of ours")
            return await compare(fresh, served)

        monkeypatch.setattr(h.proxy.shadow._comparator, "compare", sometimes)
        await hit(h)
        await outcomes(h, "failed")
        await hit(h)
        await outcomes(h, "agree")


# ── what becomes of it ───────────────────────────────────────────────────────────────────────────────────────────────


def weighed(h: House, monkeypatch: pytest.MonkeyPatch) -> list[Label]:
    """Give every hit its evidence, and note what is learned."""
    learned: list[Label] = []
    lookup = h.proxy.cache.lookup

    async def with_evidence(*asked: Any) -> Any:
        found = await lookup(*asked)
        return found._replace(evidence=EVIDENCE) if isinstance(found, Hit) else found

    monkeypatch.setattr(h.proxy.cache, "lookup", with_evidence)
    monkeypatch.setattr(h.proxy.shadow, "_learn", learned.append)
    return learned


async def test_a_verdict_is_a_label_and_unsure_is_none(house: OpenHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop({STORED: "You have 30 days.", ASKED: "You have 14 days."})
    async with served(house, shop) as h:
        learned = weighed(h, monkeypatch)
        await hit(h)
        await outcomes(h, "disagree")
        shop.says = {ASKED: "You have 30 days."}
        await hit(h)
        await outcomes(h, "agree")
        shop.says = {ASKED: ""}
        await hit(h)
        await outcomes(h, "unsure")
        assert [label.right for label in learned] == [False, True]
        assert {(label.source, label.weight, label.model, label.evidence) for label in learned} == {
            (Source.SHADOW, 1.0, "demo", EVIDENCE)
        }


async def test_when_an_entry_is_wrong_what_it_answered_is_looked_at_again(
    house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop({STORED: "You have 30 days.", ASKED: "You have 14 days."})
    async with served(house, shop) as h:
        learned = weighed(h, monkeypatch)
        monkeypatch.setattr(h.proxy.shadow, "_dice", lambda: 1.0)  # by chance it would not be checked
        told = await hit(h)
        assert h.proxy.shadow.waiting == 0
        entry = int(told.headers["X-Rejoinder-Entry"], 16)
        await h.proxy.cache.reviews.quarantine([entry], "a user said so", "keyless")
        await outcomes(h, "disagree")
        assert [label.right for label in learned] == [False]
        assert h.proxy.measured.all() == [], "it was not drawn by lot, so it says nothing about the others"


async def test_the_rate_is_absent_until_it_is_known_and_then_has_bounds(
    house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty hits, a quarter of them wrong, and the comparator's own error measured beside it."""
    red, red_again = "How long may I keep the red shoes?", "How long can I keep the red shoes?"
    says = {STORED: "You have 30 days.", red: "You have 5 days.", red_again: "You have 5 days."}
    shop = Shop(lambda question: says[question.removesuffix(" Thank you!")])
    async with served(house, shop) as h:
        monkeypatch.setattr(h.proxy.shadow, "_dice", lambda: 0.0)  # every control that may be made is made
        await h.ask(red)
        says[ASKED] = "You have 30 days."
        await hit(h, red_again)
        await outcomes(h, "agree")
        text = (await h.send("GET", "/metrics")).body.decode()
        assert "rejoinder_false_hit_rate{" not in text and "rejoinder_false_hit_rate_raw{" not in text
        assert 'rejoinder_false_hit_evidence{model="demo",tenant="keyless"}' in text
        for number in range(39):
            says[ASKED] = "You have 14 days." if number % 4 == 0 else "You have 30 days."
            await hit(h)
            await outcomes(h, "disagree", number // 4 + 1)
            await outcomes(h, "agree", number - number // 4 + 1)
        assert await h.metric("rejoinder_false_hit_evidence", model="demo") == pytest.approx(40, abs=0.1)
        for name in ("rejoinder_false_hit_rate_raw", "rejoinder_false_hit_rate"):
            low, rate, high = [await h.metric(name, bound=bound) for bound in ("low", "estimate", "high")]
            assert 0 < low < rate < high < 1 and rate == pytest.approx(0.25, abs=0.01)
        assert await h.metric("rejoinder_shadow_controls_total", control="null", outcome="agree") == 40
        assert await h.metric("rejoinder_shadow_controls_total", control="known-bad", outcome="disagree") == 39


# ── the door ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_door_says_what_the_number_stands_on(house: OpenHouse) -> None:
    async with served(house, Shop({STORED: RIGHT, ASKED: RIGHT}), max_false_hit_rate=0.02) as h:
        await hit(h)
        await outcomes(h)
        told = (await h.send("GET", "/admin/trust")).json
        assert told["budget"] == 0.02
        (row,) = told["measured"]
        assert row["model"] == "demo" and row["raw"] is None and row["corrected"] is None
        assert row["checks"] == pytest.approx(1, abs=0.01) and "30 are needed" in row["why"]
        assert set(row["comparator"]) == {"specificity", "null_controls", "sensitivity", "known_bad_controls"}
        assert told["shadow"]["share"] == 0.02 and len(told["shadow"]["workers"]) == 1
        assert told["judge"] == {"on": False, "why": "the setting judge is off"}


async def test_the_door_is_for_the_operator(house: OpenHouse) -> None:
    async with house(api_keys={"sk-a": "a"}) as h:
        refused = await h.send("GET", "/admin/trust", headers={"Authorization": "Bearer sk-a"})
        assert refused.status == 403
        assert (await h.send("GET", "/admin/trust")).status == 401
    async with house(api_keys={"sk-a": "a"}, trusted_tenants=("a",)) as h:
        key = {"Authorization": "Bearer sk-a"}
        assert (await h.send("GET", "/admin/trust", headers=key)).status == 200
        assert (await h.send("GET", "/admin/trust", headers={**key, "Origin": "https://x.example"})).status == 403
