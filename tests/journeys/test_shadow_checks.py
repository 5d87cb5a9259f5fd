"""From a hit to the measured rate, on the loop and the runner of production: nothing of it blocks anybody."""

import asyncio

from embedders import Placed
from house import OpenHouse
from shop import Shop

STORED = "How do I reset my password?"
REWORDED = "How can I reset my password?"
LONG = "Open Settings, choose Security and tap Reset password; then read your mail. " * 40


async def test_users_are_served_while_workers_say_how_right_that_was(house: OpenHouse) -> None:
    """Twenty users at once, long answers, and every one of their hits is checked afterwards."""
    shop = Shop(lambda question: LONG if "password" in question else "No idea.")
    async with shop, house(workers=[shop], embedder=Placed(), shadow_share=0.02, spare_time_share=1.0) as h:
        await h.ask(STORED)
        told = await asyncio.gather(*(h.ask(REWORDED, session=f"user-{n}") for n in range(20)))
        assert all(one.hit and one.text == LONG for one in told)
        async with asyncio.timeout(20):
            while await h.metric("rejoinder_shadow_checks_total", outcome="agree") < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        (row,) = (await h.send("GET", "/admin/trust")).json["measured"]
        assert 19.9 < row["checks"] <= 20 and row["corrected"] is None and row["why"]
        assert await h.stored() == 1
        assert h.at_rest


async def test_a_house_that_closes_waits_for_no_check(house: OpenHouse) -> None:
    shop = Shop({STORED: "Yes.", REWORDED: "Yes."})
    shop.gate.clear()
    async with shop:
        async with house(workers=[shop], embedder=Placed(), shadow_share=0.02, spare_time_share=1.0) as h:
            await h.ask(STORED)
            await h.ask(REWORDED)
            await h.until(lambda: shop.checks)
        async with asyncio.timeout(5):
            while not shop.left:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
