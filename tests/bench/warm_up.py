"""How long does the turn after a cached answer wait for its first token, with and without warm-up? On real vLLM.

    python tests/bench/warm_up.py [--model tiny] [--pairs 8] [--seconds 300]
    python tests/bench/warm_up.py --worker http://127.0.0.1:8101 --model phi3 --boats 1500

Each pair is one chat of three turns: the first is generated, the second comes from the cache, the third is generated
and timed, once with warm-ups and once without, in random order. The worker's prefix cache is emptied before each, and
the proxy is started afresh, so that neither remembers the other's run. Needs `deploy/vllm/install.sh` and `models.sh`.
"""

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import orjson

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "live")]

from proxy.app import Proxy, open_proxy  # noqa: E402
from proxy.settings import load  # noqa: E402

SHORT = {"min_tokens": 5, "logit_bias": {"2": 100}, "temperature": 0}  # five tokens, then the end: it may be stored
ARMS = {False: "without", True: "with"}
Json = dict[str, Any]


class VllmServer(Protocol):
    """A worker whose prefix cache can be emptied (VLLM_SERVER_DEV_MODE=1)."""

    url: str
    model: str

    def reset_prefix_cache(self) -> None: ...


class Running:
    """A server that somebody else started."""

    def __init__(self, url: str, model: str) -> None:
        self.url, self.model = url, model

    def reset_prefix_cache(self) -> None:
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.url}/reset_prefix_cache", method="POST"), timeout=10
        ):
            pass


def questions(chat: int, boats: int) -> list[str]:
    return [
        f"Here is text {chat}, about bicycles. " + " ".join(f"Wheel number {n} is round." for n in range(20)),
        "And here is one about boats. " + " ".join(f"Boat number {n} floats well." for n in range(boats)),
        "Which of the two is longer?",
    ]


class Front:
    """The proxy before one worker, and a client."""

    def __init__(self, proxy: Proxy, client: aiohttp.ClientSession, model: str) -> None:
        self.proxy, self.client, self.model = proxy, client, model

    async def ask(self, texts: list[str], session: str, control: str = "") -> tuple[str, bool, Json, float]:
        """The answer, whether it was cached, its usage, and milliseconds to the first byte of its stream."""
        roles = ("user", "assistant")
        body = {
            "model": self.model, "stream": True, "stream_options": {"include_usage": True}, **SHORT,
            "messages": [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)],
        }  # fmt: skip
        headers = {"X-Session-ID": session, **({"Cache-Control": control} if control else {})}
        began_s = time.perf_counter()
        async with self.client.post("/v1/chat/completions", json=body, headers=headers) as reply:
            assert reply.status == 200, await reply.text()
            first = await reply.content.readany()
            ttft_ms = (time.perf_counter() - began_s) * 1000
            told = first + await reply.read()
        await self.proxy.gateway.settled()

        chunks = [orjson.loads(line[6:]) for line in told.split(b"\n\n") if line.startswith(b"data: {")]
        text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
        usage = next(c["usage"] for c in reversed(chunks) if c.get("usage"))
        return text, "; hit;" in reply.headers["Cache-Status"], usage, ttft_ms

    async def metric(self, start: str) -> float:
        async with self.client.get("/metrics") as reply:
            lines = (await reply.text()).splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start))


@contextlib.asynccontextmanager
async def front(worker: VllmServer, state_dir: Path, *, warm_up: bool) -> Any:
    settings, _ = load({
        "workers": (worker.url,), "port": 0, "state_dir": state_dir, "embedder": "none", "reader": "none",
        "warm_up": warm_up, "shadow_share": 0.0, "spare_time_share": 1.0, "drain_s": 1.0,
    })  # fmt: skip
    async with open_proxy(settings) as proxy, aiohttp.ClientSession(proxy.url) as client:
        assert await proxy.health.wait_ready(60)
        yield Front(proxy, client, worker.model)


async def third_turn(
    worker: VllmServer, state_dir: Path, chat: list[str], *, warm_up: bool
) -> tuple[float, int, float]:
    """Milliseconds to its first byte, its uncached tokens, and the seconds that the warm-up took."""
    await asyncio.to_thread(worker.reset_prefix_cache)
    async with front(worker, state_dir, warm_up=warm_up) as house:
        _, hit, _, _ = await house.ask(chat[:1], "ben", "no-cache")
        assert not hit
        _, hit, _, _ = await house.ask(chat[:3], "ben")
        assert hit, "the second turn must come from the cache"
        async with asyncio.timeout(120):
            while warm_up and not await house.metric('rejoinder_warmups_total{outcome="done"}'):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        spent_s = await house.metric("rejoinder_warmup_seconds_total")
        _, hit, usage, ttft_ms = await house.ask(chat, "ben", "no-store")
        assert not hit
        return ttft_ms, usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"], spent_s


async def measure(worker: VllmServer, pairs: int, limit_s: float, boats: int) -> None:
    dice, ends_s = random.Random(1), time.monotonic() + limit_s
    rows: dict[bool, list[tuple[float, int, float]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory(prefix="rejoinder-warm-up-") as folder:
        state_dir, chats = Path(folder), []
        async with front(worker, state_dir, warm_up=False) as house:
            for number in range(pairs):
                first, second, third = questions(number, boats)
                told = (await house.ask([first], "anna"))[0]
                chat = [first, told, second]
                chats.append([*chat, (await house.ask(chat, "anna"))[0], third])
        for chat in chats:
            if time.monotonic() > ends_s:
                break
            arms = [True, False]
            dice.shuffle(arms)
            pair = {arm: await third_turn(worker, state_dir, chat, warm_up=arm) for arm in arms}
            for arm in arms:
                rows[arm].append(pair[arm])
            told = [f"{arm}: {pair[on][0]:.0f} ms, {pair[on][1]} tokens computed" for on, arm in ARMS.items()]
            print(f"{'; '.join(told)}; the warm-up took {pair[True][2]:.2f} s", flush=True)
    saved = [cold[0] - warm[0] for cold, warm in zip(rows[False], rows[True], strict=True)]
    ratio = statistics.median(cold[0] / warm[0] for cold, warm in zip(rows[False], rows[True], strict=True))
    print(f"{worker.model}: {len(saved)} pairs; median time to the first token of the turn after a hit: "
          f"{statistics.median(row[0] for row in rows[False]):.0f} ms without, "
          f"{statistics.median(row[0] for row in rows[True]):.0f} ms with warm-up; per pair {ratio:.1f} times, "
          f"{statistics.median(saved):.0f} ms less (worst pair {min(saved):.0f}); "
          f"a warm-up took {statistics.median(row[2] for row in rows[True]):.2f} s of idle time")  # fmt: skip


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    words.add_argument("--model", default="tiny", help="tiny or smollm2")
    words.add_argument("--pairs", type=int, default=8)
    words.add_argument("--seconds", type=float, default=300.0, help="begin no pair after so long")
    words.add_argument("--worker", metavar="URL", help="a vLLM server that runs already, with VLLM_SERVER_DEV_MODE=1")
    words.add_argument("--boats", type=int, default=150, help="length of the second turn, in sentences of 7 tokens")
    given = words.parse_args()
    if given.worker:
        asyncio.run(measure(Running(given.worker, given.model), given.pairs, given.seconds, given.boats))
        return
    from vllm_workers import VllmWorker

    worker = VllmWorker(given.model)
    try:
        worker.start()
        worker.wait_ready(600.0)  # a busy machine is slow to start it
        asyncio.run(measure(worker, given.pairs, given.seconds, given.boats))
    finally:
        worker.close()


if __name__ == "__main__":
    main()
