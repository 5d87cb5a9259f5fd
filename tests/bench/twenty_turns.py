"""A chat of twenty turns on real vLLM: all of it, and the first token of the last turn, in one run.

    python tests/bench/twenty_turns.py [--model smollm2] [--rounds 3] [--turns 20] [--asked 100] [--written 32]
    python tests/bench/twenty_turns.py --plain http://127.0.0.1:8101 --worker http://127.0.0.1:8102 --model phi3 …

Four ways, in random order within a round, each with a chat of the same lengths in words that nobody has said before:
plain (vLLM without prefix reuse, no proxy), reuse (vLLM with it, no proxy), first (through the proxy, everything on, a
user who is the first to ask), and second (through the proxy, another user in another session who says what the first
one said, and was told the same). Ratios are per round, then the median. Without URLs two CPU workers are started, of
which only one reuses prefixes (`deploy/vllm/install.sh` and `models.sh`).
"""

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "live")]

from proxy.app import open_proxy  # noqa: E402
from proxy.settings import load  # noqa: E402

WORDS = ("river", "stone", "policy", "refund", "window", "garden", "battery", "invoice", "method", "harbour", "wheel")
END = {"2": 100}  # <|im_end|> of the SmolLM2 tokenizer, as soon as min_tokens allows it


@dataclass(frozen=True)
class Load:
    """turns: of one chat.  asked, written: words of a question, tokens of an answer."""

    model: str
    turns: int
    asked: int
    written: int


@dataclass(frozen=True)
class Chat:
    """Seconds of all turns together, milliseconds to the first byte of the last one, turns from the cache, and prompt
    tokens that were computed."""

    total_s: float
    last_ms: float
    hits: int
    computed: int


async def talk(client: aiohttp.ClientSession, load: Load, texts: list[str], session: str) -> Chat:
    messages: list[dict[str, str]] = []
    began_s, last_ms, hits, computed = time.perf_counter(), 0.0, 0, 0
    for text in texts:
        messages.append({"role": "user", "content": text})
        body = {
            "model": load.model, "messages": messages, "stream": True, "stream_options": {"include_usage": True},
            "temperature": 0, "min_tokens": load.written, "max_tokens": load.written + 20, "logit_bias": END,
        }  # fmt: skip
        asked_s = time.perf_counter()
        async with client.post("/v1/chat/completions", json=body, headers={"X-Session-ID": session}) as reply:
            assert reply.status == 200, await reply.text()
            told = await reply.content.readany()
            last_ms = (time.perf_counter() - asked_s) * 1000
            told += await reply.read()
        chunks = [orjson.loads(line[6:]) for line in told.split(b"\n\n") if line.startswith(b"data: {")]
        answer = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
        if "; hit;" in reply.headers.get("Cache-Status", ""):
            hits += 1
        else:
            usage = next(c["usage"] for c in reversed(chunks) if c.get("usage"))
            computed += usage["prompt_tokens"] - ((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        messages.append({"role": "assistant", "content": answer})
    return Chat(time.perf_counter() - began_s, last_ms, hits, computed)


def texts_of(load: Load, name: str) -> list[str]:
    chance = random.Random(name)
    return [f"{name}, question {n}: " + " ".join(chance.choices(WORDS, k=load.asked)) for n in range(load.turns)]


@contextlib.asynccontextmanager
async def fronts(plain: str, worker: str, folder: Path) -> AsyncIterator[dict[str, aiohttp.ClientSession]]:
    settings, _ = load({"workers": (worker,), "port": 0, "state_dir": folder, "drain_s": 1.0})
    async with contextlib.AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(open_proxy(settings))
        assert await proxy.health.wait_ready(60)
        timeout = aiohttp.ClientTimeout(total=600)
        urls = {"plain": plain, "reuse": worker, "proxy": proxy.url}
        yield {
            name: await stack.enter_async_context(aiohttp.ClientSession(url, timeout=timeout))
            for name, url in urls.items()
        }


async def measure(given: Load, plain: str, worker: str, rounds: int, seed: int) -> list[dict[str, Chat]]:
    chance = random.Random(seed)
    rows: list[dict[str, Chat]] = []
    with tempfile.TemporaryDirectory(prefix="rejoinder-turns-") as folder:
        async with fronts(plain, worker, Path(folder)) as clients:
            for client in clients.values():  # the first request of a worker is slow
                await talk(client, given, texts_of(given, "warm")[:2], "warm")
            for number in range(rounds):
                row: dict[str, Chat] = {}
                order = ["plain", "reuse", "first"]
                chance.shuffle(order)
                for way in (*order, "second"):
                    name = f"{'first' if way == 'second' else way} {number} of {seed}"
                    client = clients[way if way in clients else "proxy"]
                    row[way] = await talk(client, given, texts_of(given, name), f"{way} {number}")
                rows.append(row)
                print(f"round {number + 1}: " + "; ".join(
                    f"{way} {chat.total_s:.2f} s, last turn {chat.last_ms:.0f} ms, {chat.hits} hits, "
                    f"{chat.computed} computed" for way, chat in row.items()
                ), flush=True)  # fmt: skip
    return rows


def report(given: Load, rows: list[dict[str, Chat]]) -> str:
    lines = [f"{given.model}: {len(rows)} rounds of {given.turns} turns, {given.asked} words asked, "
             f"{given.written} tokens written; medians"]  # fmt: skip
    for way in ("plain", "reuse", "first", "second"):
        chats = [row[way] for row in rows]
        total = statistics.median(row["plain"].total_s / row[way].total_s for row in rows)
        last = statistics.median(row[way].last_ms / row["plain"].last_ms for row in rows)
        lines.append(
            f"{way:7} all turns {statistics.median(c.total_s for c in chats):7.2f} s (plain takes {total:.2f} times)   "
            f"first token of the last turn {statistics.median(c.last_ms for c in chats):7.1f} ms ({last:.2f} of plain)"
            f"   {chats[-1].hits} hits   {round(statistics.median(c.computed for c in chats)):6} prompt tokens computed"
        )
    return "\n".join(lines)


def main() -> None:
    words: Any = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--model", default="smollm2", help="tiny or smollm2, or what the workers serve")
    words.add_argument("--plain", metavar="URL", help="vLLM with --no-enable-prefix-caching")
    words.add_argument("--worker", metavar="URL", help="vLLM with prefix caching and --enable-prompt-tokens-details")
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--turns", type=int, default=20)
    words.add_argument("--asked", type=int, default=60)
    words.add_argument("--written", type=int, default=32)
    words.add_argument("--seed", type=int, default=1)
    given = words.parse_args()
    what = Load(given.model, given.turns, given.asked, given.written)
    if bool(given.plain) != bool(given.worker):
        words.error("name both --plain and --worker, or neither")
    if given.plain:
        print(report(what, asyncio.run(measure(what, given.plain, given.worker, given.rounds, given.seed))))
        return
    from vllm_workers import VllmWorker

    pair = (VllmWorker(given.model, options=("--", "--no-enable-prefix-caching")), VllmWorker(given.model))
    try:
        for each in pair:
            each.start()
        for each in pair:
            each.wait_ready(600.0)
        print(report(what, asyncio.run(measure(what, pair[0].url, pair[1].url, given.rounds, given.seed))))
    finally:
        for each in pair:
            each.close()


if __name__ == "__main__":
    main()
