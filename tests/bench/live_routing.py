"""Routing in front of two real vLLM workers: computed prompt tokens and time to first token, side by side in one run.

    python tests/bench/live_routing.py [--model tiny] [--rounds 5] [--vllm-router PATH] [--json]
    python tests/bench/live_routing.py --workers http://127.0.0.1:8101,http://127.0.0.1:8102 --model phi3 …

Policies: rejoinder (this proxy, its cache not asked); sent_home (this client sends every chat to one worker, the best
that anybody can do, no proxy between) and round_robin (this client alternates); with --vllm-router the router of that
name (`pip install vllm-router`), its consistent_hash and cache_aware. A round gives each policy, in random order, chats
of the same lengths in other words. Differences are paired by round, with a 95 % t interval. Without --workers, two CPU
workers are started (`deploy/vllm/install.sh` and `models.sh`).
"""

import argparse
import asyncio
import contextlib
import json
import random
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "live")]

WORDS = (
    "river",
    "stone",
    "policy",
    "refund",
    "account",
    "delivery",
    "window",
    "garden",
    "battery",
    "invoice",
    "method",
)
T_975 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
Urls = list[str]


def words(count: int, seed: str) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=count))


@dataclass(frozen=True)
class Load:
    """system, user: words.  groups: of chats that share a system prompt.  written: tokens of an answer."""

    model: str
    chats: int
    turns: int
    at_once: int
    groups: int
    system: int
    user: int
    written: int


@dataclass
class Seen:
    """computed, prompt: tokens.  ttft_ms: of every turn but the first of its chat."""

    computed: int = 0
    prompt: int = 0
    ttft_ms: list[float] = field(default_factory=list)


async def turn(
    client: aiohttp.ClientSession, url: str, load: Load, messages: list[dict[str, str]], chat: str
) -> tuple[str, float, dict[str, Any]]:
    """The answer, milliseconds to its first content, and its usage."""
    body = {
        "model": load.model, "messages": messages, "max_tokens": load.written, "temperature": 0, "ignore_eos": True,
        "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    headers = {"X-Session-ID": chat, "Cache-Control": "no-cache, no-store"}
    began_s, first_s, text, usage = time.perf_counter(), 0.0, [], {}
    async with client.post(f"{url}/v1/chat/completions", json=body, headers=headers) as reply:
        assert reply.status == 200, await reply.text()
        async for line in reply.content:
            if not line.startswith(b"data: {"):
                continue
            chunk = orjson.loads(line[6:])
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                if choice["delta"].get("content"):
                    first_s = first_s or time.perf_counter()
                    text.append(choice["delta"]["content"])
    return "".join(text), (first_s - began_s) * 1000, usage


async def chats(client: aiohttp.ClientSession, urls: Urls, load: Load, seed: str, *, alternate: bool) -> Seen:
    """All chats against one front. alternate: each turn goes to the next url; else each chat stays on one."""
    seen, gate = Seen(), asyncio.Semaphore(load.at_once)

    async def one(number: int) -> None:
        messages = [{"role": "system", "content": words(load.system, f"{seed} group {number % load.groups}")}]
        for at in range(load.turns):
            messages.append({"role": "user", "content": words(load.user, f"{seed} {number} {at}")})
            async with gate:
                url = urls[(number + at * alternate) % len(urls)]
                text, ms, usage = await turn(client, url, load, messages, f"{seed}-{number}")
            messages.append({"role": "assistant", "content": text})
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            seen.computed += usage["prompt_tokens"] - cached
            seen.prompt += usage["prompt_tokens"]
            if at:
                seen.ttft_ms.append(ms)

    await asyncio.gather(*(one(number) for number in range(load.chats)))
    return seen


@contextlib.asynccontextmanager
async def front(policy: str, urls: Urls, router: str | None) -> AsyncIterator[Urls]:
    if policy in ("round_robin", "sent_home"):
        yield urls
    else:
        with socket.socket() as free, socket.socket() as free_too:
            free.bind(("127.0.0.1", 0))
            free_too.bind(("127.0.0.1", 0))
            port, metrics = free.getsockname()[1], free_too.getsockname()[1]
        if policy == "rejoinder":
            command = [sys.executable, "-m", "proxy", "serve", "--port", str(port)]
            command += [word for url in urls for word in ("--worker", url)]
            command += [word for each in ("store=memory", "embedder=none", "reader=none") for word in ("--set", each)]
        else:
            assert router is not None
            command = [router, "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
            command += ["--policy", policy, "--worker-urls", *urls]
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=quiet, stderr=quiet)
        try:
            async with aiohttp.ClientSession() as client, asyncio.timeout(60):
                while True:
                    with contextlib.suppress(aiohttp.ClientError):
                        async with client.get(f"http://127.0.0.1:{port}/v1/models") as reply:
                            if reply.status == 200 and (await reply.json())["data"]:
                                break
                    await asyncio.sleep(0.2)
            yield [f"http://127.0.0.1:{port}"]
        finally:
            process.terminate()
            await process.wait()


async def compare(urls: Urls, load: Load, rounds: int, router: str | None) -> dict[str, list[Seen]]:
    policies = ["rejoinder", "sent_home", "round_robin", *(["consistent_hash", "cache_aware"] if router else [])]
    found: dict[str, list[Seen]] = {policy: [] for policy in policies}
    timeout = aiohttp.ClientTimeout(total=300)
    for number in range(rounds):
        for policy in random.Random(number).sample(policies, len(policies)):
            async with front(policy, urls, router) as fronts, aiohttp.ClientSession(timeout=timeout) as client:
                seed = f"round {number} {policy} {time.time_ns()}"
                found[policy].append(await chats(client, fronts, load, seed, alternate=policy == "round_robin"))
            last = found[policy][-1]
            ms = statistics.mean(last.ttft_ms)
            print(f"round {number + 1} {policy}: {last.computed} computed, {ms:.0f} ms", file=sys.stderr, flush=True)
    return found


def paired(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """Mean difference, ours minus theirs, with the half width of its 95 % interval."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    spread = statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else float("inf")
    return {"difference": statistics.mean(differences), "half_width": T_975.get(len(differences), 2.2) * spread}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", metavar="URL,URL", help="vLLM servers that run already")
    options.add_argument("--model", default="tiny")
    options.add_argument("--rounds", type=int, default=5)
    for name, value in {"chats": 10, "turns": 5, "at-once": 2, "groups": 2, "system": 400, "user": 80}.items():
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--written", type=int, default=24, help="tokens of each answer")
    options.add_argument("--vllm-router", metavar="PATH", help="the executable; without it, that router is left out")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    load = Load(
        given.model, given.chats, given.turns, given.at_once, given.groups, given.system, given.user, given.written
    )
    with contextlib.ExitStack() as stack:
        if given.workers:
            urls = given.workers.split(",")
        else:
            from vllm_workers import running_workers

            urls = [worker.url for worker in stack.enter_context(running_workers(2, given.model))]
        found = asyncio.run(compare(urls, load, given.rounds, given.vllm_router))
    ours = found["rejoinder"]
    table = {}
    for policy, seen in found.items():
        means = [statistics.mean(each.ttft_ms) for each in seen]
        row: dict[str, Any] = {
            "prompt_tokens": sum(each.prompt for each in seen), "computed_tokens": sum(each.computed for each in seen),
            "ttft_mean_ms": statistics.mean(means),
            "ttft_p99_ms": statistics.quantiles([ms for each in seen for ms in each.ttft_ms], n=100)[-1],
        }  # fmt: skip
        if policy != "rejoinder":
            row["ttft_ours_minus_theirs_ms"] = paired([statistics.mean(each.ttft_ms) for each in ours], means)
        table[policy] = row
    if given.json:
        print(json.dumps(table))
        return
    for policy, row in table.items():
        versus = row.get("ttft_ours_minus_theirs_ms")
        print(
            f"{policy:16} computed {row['computed_tokens']:7} of {row['prompt_tokens']} prompt tokens "
            f"({row['computed_tokens'] / row['prompt_tokens']:.1%})  TTFT after the first turn: mean "
            f"{row['ttft_mean_ms']:.0f} ms, p99 {row['ttft_p99_ms']:.0f} ms"
            + (f"  ours minus this {versus['difference']:+.0f} ± {versus['half_width']:.0f} ms" if versus else "")
        )


if __name__ == "__main__":
    main()
