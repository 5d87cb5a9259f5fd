"""Who has how much: rows 4, 5, 6, 8, 10, 11, 25, 29, 40."""

import asyncio
import secrets

import pytest
from conformance import CHAT, Premises, Record, Site


@pytest.fixture(scope="module", autouse=True)
def no_past(premises: Premises) -> None:
    """Who was given much more than the others a minute ago is spared for a while, which is no fault: rows about even
    shares begin with a router that remembers nothing of the rows before."""
    premises.anew()


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings", "/v1/responses", "/never/heard/of/it"])
async def test_row_04_load_is_counted_on_every_path(bruised: Site, path: str, record_property: Record) -> None:
    site = bruised
    probe = await site.ask(path=path)
    if probe.nonce not in await site.where():
        pytest.skip(f"the router does not pass {path} on")
    await site.forget()
    await site.fault("hang")
    async with site.held(site.ask(secrets.token_hex(40), path=path) for _ in range(64)):
        counts = await site.reached(64)
    record_property("requests per worker", counts)
    assert max(counts) <= 2 * sum(counts) / len(counts) and min(counts) >= 1, counts


async def test_row_05_a_burst_of_long_prompts_spreads_before_anybody_answers(
    bruised: Site, record_property: Record
) -> None:
    site = bruised
    await site.fault("hang")
    async with site.held(site.ask(secrets.token_hex(16_000), max_tokens=1) for _ in range(64)):
        counts = await site.reached(64)
    record_property("requests per worker", counts)
    assert max(counts) <= 2 * sum(counts) / len(counts) and min(counts) >= 1, counts


async def test_row_06_new_questions_avoid_a_worker_that_has_much_in_hand(
    bruised: Site, record_property: Record
) -> None:
    site = bruised
    await site.workers[0].fault("hang")
    async with site.held(site.ask(secrets.token_hex(200)) for _ in range(80)):
        counts = await site.reached(80)
    record_property("of 80 new questions, the slow worker got", counts[0])
    assert counts[0] <= 20, counts


async def test_row_08_sessions_that_come_one_at_a_time_are_spread(site: Site, record_property: Record) -> None:
    for _ in range(64):
        assert (await site.ask(f"Hello from {secrets.token_hex(4)}", session=secrets.token_hex(8))).status == 200
    counts = await site.counts()
    record_property("requests per worker", counts)
    assert min(counts) >= 1 and max(counts) <= 2.5 * 64 / len(counts), counts


async def test_row_10_several_routers_do_not_all_choose_the_same(
    bruised: Site, premises: Premises, record_property: Record
) -> None:
    site = bruised
    if premises.command is None:
        pytest.skip("needs --router-command, to start more routers")
    more = [premises.started() for _ in range(2)]
    try:
        urls = [site.url, *(url for _, url in more)]
        for url in urls:
            assert (await site.ask(url=url)).status == 200
        await site.forget()
        await site.fault("hang")
        async with site.held(site.ask(secrets.token_hex(40), url=urls[n % 3]) for n in range(600)):
            counts = await site.reached(600, 60)
    finally:
        for process, _ in more:
            process.stop()
    record_property("max / mean", round(max(counts) * len(counts) / sum(counts), 2))
    assert max(counts) <= 1.3 * sum(counts) / len(counts), counts


async def test_row_11_unique_prompts_reach_every_worker_alike(site: Site, record_property: Record) -> None:
    for _ in range(25):
        told = await asyncio.gather(*(site.ask(f"Explain {secrets.token_hex(8)}") for _ in range(16)))
        assert {one.status for one in told} == {200}
    counts = await site.counts()
    mean = sum(counts) / len(counts)
    record_property("requests per worker", counts)
    assert min(counts) >= mean / 2 and max(counts) <= 1.6 * mean, counts


async def test_row_25_many_at_once_do_not_make_healthy_workers_look_dead(
    bruised: Site, record_property: Record
) -> None:
    site = bruised
    await site.fault("slow", wait_s=0.5)
    told = await asyncio.gather(*(site.ask(f"Explain {n}") for n in range(512)))
    refused = [one for one in told if one.status != 200]
    record_property("of 512 at once, not answered", len(refused))
    assert not refused, refused[0]
    await site.fault()
    assert (await site.ask()).status == 200


async def test_row_29_no_hidden_limit_of_connections(bruised: Site) -> None:
    site = bruised
    await site.fault("hang")
    async with site.held(site.ask(f"Explain {n}") for n in range(512)):
        assert sum(await site.reached(512, 60)) >= 512


async def test_row_40_a_stream_counts_as_load_until_its_end(bruised: Site, record_property: Record) -> None:
    """Not only until its headers."""
    site = bruised
    await site.workers[0].fault("stall", after=2)
    async with site.held(site.ask(secrets.token_hex(200), stream=True) for _ in range(16)):
        await site.reached(16)
        opened = (await site.counts())[0]
        async with site.held(site.ask(secrets.token_hex(200), stream=True) for _ in range(64)):
            counts = await site.reached(80)
    record_property("of 64 new streams, the worker with open ones got", counts[0] - opened)
    assert opened >= 1, "the worker got no stream at all, so nothing was tried"
    assert counts[0] - opened <= 16, counts
