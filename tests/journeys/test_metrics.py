"""/metrics after a random journey: the identities that docs/metrics.md promises hold, whatever happened on the way."""

import asyncio
import contextlib
import random
from collections import Counter

import orjson
import pytest
from house import CHAT, House, OpenHouse, request
from prometheus_client.parser import text_string_to_metric_families
from tables import documented_metrics

from proxy.demo import Pace

QUESTIONS = (
    "Why is the sky blue?", "please, why is the sky blue", "Why is the sky so blue?", "How many moons has Mars?",
    "How many moons has Venus?", "Where is my order 48213?", "Tell me a joke",
)  # fmt: skip
TIERS = ("session", "recent", "similar")


async def wander(h: House, dice: random.Random, steps: int) -> None:
    """What callers do: repeat, reword, forbid, stream, leave half-way; and workers fail."""
    for _ in range(steps):
        fault = dice.choice(["none", "none", "none", "status", "die", "length", "reset", "empty"])
        for worker in h.workers:
            worker.fault(fault, times=1, **({"status": 500} if fault == "status" else {}))
        together = [asyncio.create_task(one(h, dice)) for _ in range(dice.randint(1, 4))]
        await asyncio.gather(*together)
    await h.settled()
    await h.until(lambda: h.at_rest)


async def one(h: House, dice: random.Random) -> None:
    headers = {
        "Content-Type": "application/json",
        "Cache-Control": dice.choice(["", "", "", "no-store", "no-cache", "only-if-cached"]),
    }
    if dice.random() < 0.5:
        headers["X-Session-ID"] = f"s{dice.randint(0, 2)}"
    body = orjson.dumps(request(dice.choice(QUESTIONS), stream=dice.random() < 0.5))
    if dice.random() < 0.1:
        body = body[:-5]  # not JSON any more
    with contextlib.suppress(Exception):  # aiohttp's own words for a broken stream
        await h.post(CHAT, body, headers)


async def samples(h: House) -> Counter[tuple[str, ...]]:
    text = (await h.send("GET", "/metrics")).body.decode()
    return Counter({
        (sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text) for sample in family.samples
    })  # fmt: skip


def total(found: Counter[tuple[str, ...]], name: str, *labels: str) -> float:
    return sum(value for (known, *has), value in found.items() if known == name and set(labels) <= set(has))


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_identities_hold_after_a_random_journey(house: OpenHouse, seed: int) -> None:
    async with house(workers=2) as h:
        for worker in h.workers:
            worker.pace = Pace(0.002, 0.0)
        await wander(h, random.Random(seed), 25)
        found = await samples(h)
        lookups = total(found, "rejoinder_lookups_total")
        hits, misses = total(found, "rejoinder_hits_total"), total(found, "rejoinder_misses_total")
        by_kind = [
            total(found, "rejoinder_misses_total", f"kind={kind}") for kind in ("refusal", "miss", "error", "bypass")
        ]
        assert lookups > 20 and hits > 3 and misses > 3  # or the journey shows nothing
        assert lookups == hits + misses == hits + sum(by_kind)
        for tier in TIERS:
            served = total(found, "rejoinder_replies_total", f"source={tier}")
            assert served == total(found, "rejoinder_hits_total", f"tier={tier}")
            assert served == total(found, "rejoinder_reply_seconds_count", f"source={tier}")
        flights, collapsed = total(found, "rejoinder_flights_total"), total(found, "rejoinder_collapsed_total")
        answered = total(found, "rejoinder_replies_total", "source=worker")
        assert answered <= flights and flights + collapsed <= misses
        assert total(found, "rejoinder_miss_overhead_seconds_count") <= misses
        embedded = total(found, "rejoinder_lookup_stage_seconds_count", "stage=embed")
        searched = total(found, "rejoinder_lookup_stage_seconds_count", "stage=index")
        assert embedded >= searched == total(found, "rejoinder_lookup_stage_seconds_count", "stage=guards") > 0
        streams = total(found, "rejoinder_time_to_first_token_seconds_count")
        assert 0 < streams < total(found, "rejoinder_reply_seconds_count")
        assert total(found, "rejoinder_requests_in_flight") == 0


async def test_every_sample_is_documented_with_all_its_labels(house: OpenHouse) -> None:
    """So that a dashboard can be written from the page alone."""
    async with house() as h:
        await wander(h, random.Random(4), 8)
        await h.send("GET", "/v1/embeddings")
        documented = documented_metrics()
        found = await samples(h)
        for name, *labels in found:
            family = next((known for known in documented if name in of(known, documented[known].kind)), None)
            assert family is not None, name
            assert {label.partition("=")[0] for label in labels} - {"le"} == documented[family].labels, name
        assert "rejoinder_worker_prefix_queries_tokens_total" in {name for name, *_ in found}  # vLLM's own, beside ours


def of(name: str, kind: str) -> set[str]:
    """The samples of a family."""
    if kind == "histogram":
        return {f"{name}_{end}" for end in ("bucket", "sum", "count", "created")}
    return {name, name.removesuffix("_total") + "_created"}
