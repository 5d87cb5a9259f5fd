"""Before anybody dares to switch it on: live traffic, nothing served, and what would have been is told."""

import asyncio
import itertools
from typing import Any

from embedders import Placed
from house import House, OpenHouse
from shop import Shop

STORED = "How do I reset my password?"
REWORDED = "How can I reset my password?"
NOISY = "  how do i reset my password "
ANSWER = "Open Settings, choose Security and tap Reset password."


async def once_compared(h: House, answers: int) -> Any:
    """The report, as soon as so many fresh answers stand beside stored ones."""
    async with asyncio.timeout(10):
        while True:
            told = (await h.send("GET", "/admin/observed")).json
            beside = told["answers_equal"]
            if beside is not None and beside["of"] >= answers and _measured(told) >= told["served_by"]["meaning"]:
                return told
            await asyncio.sleep(0.01)


async def test_every_request_goes_to_a_worker_and_is_told_its_own_answer(house: OpenHouse) -> None:
    numbers = itertools.count(1)
    async with Shop(lambda _: f"Answer {next(numbers)}.") as shop:
        async with house(workers=[shop], embedder=Placed(), mode="observe") as h:
            told = [await h.ask(text, session=f"s{n}") for n, text in enumerate((STORED, STORED, NOISY, REWORDED))]
            told.append(await h.ask(STORED, session="s0"))
            told.append(await h.ask(STORED, session="s0", stream=True))
        assert [one.text for one in told] == [f"Answer {number}." for number in range(1, 7)]
        assert not any(one.hit or one.collapsed for one in told)
        assert all("fwd=miss" in one.cache_status and "Age" not in one.headers for one in told)
        assert not any("X-Rejoinder-Entry" in one.headers for one in told)


async def test_the_header_says_honestly_what_would_have_been(house: OpenHouse) -> None:
    async with Shop() as shop, house(workers=[shop], embedder=Placed(), mode="observe") as h:
        first = await h.ask(STORED, session="a")
        assert "observed" not in first.cache_status
        exact, meaning = await h.ask(STORED, session="b"), await h.ask(REWORDED, session="b")
        assert 'fwd=miss; detail="observed: recent exact would have been served"' in exact.cache_status
        assert 'fwd=miss; detail="observed: similar meaning 1.000 would have been served"' in meaning.cache_status


async def test_an_untrusted_caller_is_told_nothing_of_it(house: OpenHouse) -> None:
    keys = {"key-ann": "acme"}
    async with Shop() as shop, house(workers=[shop], embedder=Placed(), mode="observe", api_keys=keys) as h:
        told = [await h.ask(STORED, key="key-ann") for _ in range(2)]
        assert [one.cache_status for one in told] == ["rejoinder; fwd=miss"] * 2
        assert (await h.send("GET", "/admin/observed", headers={"Authorization": "Bearer key-ann"})).status == 403


async def test_equal_questions_at_once_are_as_many_generations(house: OpenHouse) -> None:
    """Sharing a generation is being told an answer that was made for another."""
    async with house(mode="observe") as h:
        told = await asyncio.gather(*(h.ask(STORED, session=f"s{n}") for n in range(5)))
        assert h.calls == 5 and not any(one.collapsed for one in told)
        assert await h.metric("rejoinder_collapsed_total") == 0


async def test_the_cache_holds_what_it_would_hold_if_it_served(house: OpenHouse) -> None:
    """A hit stores nothing. Were the fresh answers kept, every rewording would bring its own hits."""
    async with Shop() as shop, house(workers=[shop], embedder=Placed(), mode="observe") as h:
        for text in (STORED, REWORDED, NOISY, STORED, "What is the weather on Mars?"):
            await h.ask(text)
        assert await h.stored() == 2


async def test_what_would_have_been_served_is_counted_and_no_hit_is(house: OpenHouse) -> None:
    async with Shop() as shop, house(workers=[shop], embedder=Placed(), mode="observe") as h:
        for session, text in (("a", STORED), ("a", STORED), ("b", STORED), ("c", REWORDED)):
            await h.ask(text, session=session)
        for tier in ("session", "recent", "similar"):
            assert await h.metric("rejoinder_observed_total", tier=tier) == 1
        assert await h.metric("rejoinder_lookups_total") == await h.metric("rejoinder_misses_total") == 4
        assert await h.metric("rejoinder_misses_total", reason="observed") == 3
        assert await h.metric("rejoinder_hits_total") == await h.metric("rejoinder_served_tokens_total") == 0


async def test_the_report_is_that_of_a_replayed_log_with_a_measured_share(house: OpenHouse) -> None:
    shop = Shop({STORED: ANSWER, REWORDED: ANSWER})
    async with shop, house(workers=[shop], embedder=Placed(), mode="observe") as h:
        for text in (STORED, REWORDED, REWORDED, STORED, "What is 7 times 6?"):
            await h.ask(text)
        told = await once_compared(h, 3)
        assert (told["mode"], told["questions"], told["served"]) == ("observe", 5, 3)
        assert told["served_by"] == {"exact": 1, "wording": 0, "meaning": 2}
        assert sum(told["refused"].values()) == 2
        assert told["measured_wrong"]["compared"] == 2 == told["measured_wrong"]["agree"]
        assert told["answers_equal"]["equal"] == told["answers_equal"]["of"] == 3
        assert told["tokens_saved"]["total"] > 0
        (pair,) = told["riskiest"]
        assert (pair["asked"], pair["stored"], pair["times"]) == (REWORDED, STORED, 2)
        assert set(told["estimated_wrong"]) == {
            "expected", "plus_minus", "interval", "interval_kind", "hits_without_estimate",
        }  # fmt: skip
        assert told["latency_ms"]["p50"] >= 0 and told["settings"]["max_false_hit_rate"] == 0.01
        assert told["comparisons"] == {"waiting": 0, "dropped": 0}


async def test_a_wrong_answer_is_found_before_it_was_served_to_anybody(house: OpenHouse) -> None:
    says = {STORED: "Yes, you can do that in Settings.", REWORDED: "No, you cannot do that in Settings."}
    async with Shop(says) as shop, house(workers=[shop], embedder=Placed(), mode="observe") as h:
        await h.ask(STORED)
        assert (await h.ask(REWORDED)).text == says[REWORDED]
        told = await once_compared(h, 1)
        assert told["measured_wrong"]["disagree"] == 1
        assert told["measured_wrong"]["share_called_wrong"] == 1.0
        assert told["answers_equal"]["equal"] == 0


async def test_what_was_forgotten_is_not_shown_any_more(house: OpenHouse) -> None:
    async with Shop() as shop, house(workers=[shop], embedder=Placed(), mode="observe") as h:
        await h.ask(STORED)
        await h.ask(REWORDED)
        assert (await h.send("GET", "/admin/observed")).json["riskiest"]
        await h.forget_all()
        told = (await h.send("GET", "/admin/observed")).json
        assert told["riskiest"] == [] and told["served"] == 1


async def test_only_if_cached_gets_nothing_as_nothing_is_served(house: OpenHouse) -> None:
    async with house(mode="observe") as h:
        await h.ask(STORED)
        assert (await h.ask(STORED, cache_control="only-if-cached")).status == 504
        assert h.calls == 1


async def test_a_stream_that_breaks_off_costs_the_observer_nothing(house: OpenHouse) -> None:
    async with Shop() as shop, house(workers=[shop], embedder=Placed(), mode="observe") as h:
        await h.ask(STORED)
        shop.says = {STORED: ""}
        await h.ask(STORED)
        told = (await h.send("GET", "/admin/observed")).json
        assert told["served"] == 1
        assert h.at_rest


async def test_where_answers_are_served_the_door_says_so(house: OpenHouse) -> None:
    async with house() as h:
        told = await h.send("GET", "/admin/observed")
        assert told.status == 404 and 'mode = "observe"' in told.error["message"]


def _measured(told: Any) -> int:
    return 0 if told["measured_wrong"] is None else int(told["measured_wrong"]["compared"])
