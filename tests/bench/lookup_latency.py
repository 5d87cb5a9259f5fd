"""What does a lookup by meaning cost, stage by stage, in one scope that holds ten thousand questions?

    taskset -c 0 python tests/bench/lookup_latency.py [--stored 10000] [--lookups 400] [--runs 3] [--language en zh]

The real cache (memory store, default embedder, default reader or none) on one core: its models use one thread each, as
in production. The scope is filled with the questions and traps of deploy/reader/written/, each language by itself,
topped up with small variations; then other wordings are looked up, one after another. Before every run the texts that
the guards have read are forgotten, so each stored question is read again when it first comes near; words stay known, as
in a process that has worked for a while.

wall: by the clock, what a user waits; on a shared machine it holds other people's turns.  cpu: of this process, all its
threads; what the same would take on an idle core. A row comes from the run whose own p95 (by the clock) was lowest.
"""

import argparse
import asyncio
import contextlib
import gc
import inspect
import itertools
import math
import os
import platform
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from cache import assessor
from cache.asking import Caller, ask
from cache.embedder import open_embedder
from cache.entry import Answer, Hit, Vector
from cache.errors import CacheError, TextTooLong
from cache.guards import added, objections, read
from cache.language import language
from cache.opening import CacheSettings, open_cache
from cache.policy import Controls, Rules, Verdict, judge
from cache.question import Kind, Question, Reach
from cache.tiered import TieredCache

WRITTEN = Path(__file__).parents[2] / "deploy" / "reader" / "written"
RULES = Rules(account_questions="shared")
ANSWER = Answer(b'{"choices":[{"message":{"role":"assistant","content":"Within three working days."}}]}', 7)
MODELS = {"en": "MiniLM", "zh": "the Chinese model"}
NEAR_MS = {"en": 5.0, "zh": 10.0}  # embed + search + guards + trust, p95
READER_MS = 25.0
GUARDS_US = 200.0  # a candidate
_SPARE = 100  # more questions than are stored, because a few have signs that a model cannot read
STAGES = ("embed", "search", "guards", "trust", "reader")
ENDS = {
    "en": ("in {}", "for a customer in {}", "if I live in {}", "when ordering from {}"),
    "zh": ("在{}", "人在{}的话", "寄到{}的", "{}地区"),
}
TOWNS = {
    "en": ("Leeds", "Bristol", "Ottawa", "Denver", "Auckland", "Cardiff", "Boston", "Dublin", "Perth", "Austin"),
    "zh": ("成都", "武汉", "南京", "杭州", "西安", "苏州", "青岛", "长沙", "厦门", "昆明"),
}


# ── what is stored, and what is asked ────────────────────────────────────────────────────────────────────────────────


def question(text: str) -> tuple[Question, Verdict]:
    body = {"model": "demo", "temperature": 0.2, "messages": [{"role": "user", "content": text}]}
    asked = ask(Kind.CHAT, body, Caller("bench"), Controls(), b"bench")
    return asked, judge(asked, Controls(), RULES)


def texts(spoken: str, stored: int, lookups: int) -> tuple[list[str], list[str]]:
    """(distinct questions to store, other wordings of some of them). Only what may be compared by meaning."""
    heads: list[str] = []
    traps: list[str] = []
    others: list[str] = []
    for path in sorted(WRITTEN.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            mark, _, said = line.partition(" ")
            if mark == "!":
                traps.append(said.partition(" | ")[2].strip())
            elif mark in ("=", "~", ":"):
                {"=": heads, "~": others, ":": traps}[mark].append(said.strip())
    rng = random.Random(7)
    rng.shuffle(others)
    wordings: set[str | None] = {None}

    def fit(candidates: Sequence[str] | Iterator[str], count: int) -> list[str]:
        kept: list[str] = []
        for text in candidates:
            if len(kept) == count:
                break
            if not text or language(text) != spoken:
                continue
            asked, verdict = question(text)
            if verdict.write is Reach.SIMILAR and asked.wording not in wordings:
                wordings.add(asked.wording)
                kept.append(text)
        return kept

    asked = fit(others, lookups)  # first, so that none of them is stored
    kept = fit(heads, stored)
    kept += fit(traps, stored - len(kept))
    varied = (
        f"{text.rstrip(' ?？.。!！')} {end.format(town)}?" if spoken == "en" else f"{end.format(town)}{text}"
        for end, town in itertools.product(ENDS[spoken], TOWNS[spoken])
        for text in heads
    )
    kept += fit(varied, stored - len(kept))
    return kept, asked


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Times:
    """Milliseconds of every lookup, by stage, as (wall, cpu).  now: of the lookup in progress."""

    rows: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    now: dict[str, tuple[float, float]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        try:
            yield
        finally:
            spent = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
            before = self.now.get(name, (0.0, 0.0))
            self.now[name] = before[0] + spent[0] / 1e6, before[1] + spent[1] / 1e6

    def end(self, outcome: str) -> None:
        """The lookup is over."""
        now, self.now = self.now, {}
        self.outcomes[outcome] += 1
        if "embed" not in now:  # served by its words
            return
        near = [now[name] for name in ("embed", "search", "guards", "trust") if name in now]
        now["near"] = math.fsum(wall for wall, _ in near), math.fsum(cpu for _, cpu in near)
        for name, spent in now.items():
            self.rows[name].append(spent)

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, on the clock."""

        async def waits(*args: Any, **more: Any) -> Any:
            with self.stage(name):
                return await work(*args, **more)

        def decides(*args: Any, **more: Any) -> Any:
            with self.stage(name):
                return work(*args, **more)

        return waits if inspect.iscoroutinefunction(work) else decides


@contextlib.asynccontextmanager
async def filled(reader: str, stored: Sequence[tuple[str, Vector]]) -> AsyncIterator[TieredCache]:
    settings = CacheSettings(rules=RULES, fingerprint="bench", reader=reader)
    async with open_cache(settings) as cache:
        for text, vector in stored:
            asked, verdict = question(text)
            entry = cache.keep(asked, verdict, ANSWER)
            assert entry is not None and await cache.store(entry, vector), text
        assert await cache.count() == len(stored)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)  # as `proxy.app` does
        yield cache


async def vectors_of(stored: Sequence[str]) -> list[tuple[str, Vector]]:
    """With their texts; those that the model cannot read are left out."""
    embedder = open_embedder()
    assert embedder is not None
    found: list[tuple[str, Vector]] = []
    async with embedder:
        for at in range(0, len(stored), 64):
            batch = stored[at : at + 64]
            made = await asyncio.gather(
                *(embedder.embed(text, deadline_s=60.0) for text in batch), return_exceptions=True
            )
            for text, vector in zip(batch, made, strict=True):
                if isinstance(vector, BaseException):
                    if not isinstance(vector, TextTooLong):
                        raise vector
                else:
                    found.append((text, vector))
    return found


def on_the_clock(cache: TieredCache, times: Times) -> Callable[[], None]:
    """Put a clock beside every stage. Returns what takes them away again."""
    similar, weighs = cache._similar, cache._assessor
    assert similar is not None
    places: list[tuple[Any, str, str]] = [
        (similar, "embed", "embed"), (similar, "holds", "search"), (similar, "find", "search"),
        (similar, "vectors", "search"), (assessor, "nominate", "guards"), (assessor, "decide", "trust"),
    ]  # fmt: skip
    if weighs._reader is not None:
        places.append((weighs._reader, "read", "reader"))
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, stage in places:
        setattr(owner, name, times.timed(stage, getattr(owner, name)))

    def undo() -> None:
        for owner, name, work in before:
            setattr(owner, name, work)

    return undo


def counting(times: Times) -> Callable[[], None]:
    """Time also what the guards take for one candidate: reading the stored text, where nobody has, and judging."""
    module: Any = assessor
    nominate = module.nominate

    def counted(*args: Any, **more: Any) -> Any:
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        found = nominate(*args, **more)
        spent = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
        seen = len(found.nominees) + sum(each.by not in ("threshold", "policy") for each in found.refused)
        if seen:
            times.rows["candidate"].append((spent[0] / 1e6 / seen, spent[1] / 1e6 / seen))
            times.rows["candidates"].append((float(seen), float(seen)))
        return found

    module.nominate = counted

    def undo() -> None:
        module.nominate = nominate

    return undo


def forget_texts() -> None:
    read.cache_clear()
    added._words.cache_clear()


async def looked_up(cache: TieredCache, asked: Sequence[str], times: Times) -> None:
    undo_counting = counting(times)
    undo = on_the_clock(cache, times)
    try:
        for text in asked:
            put, verdict = question(text)
            with times.stage("whole"):
                outcome = await cache.lookup(put, verdict)
            times.end("hit" if isinstance(outcome, Hit) else outcome.reason)
    finally:
        undo()
        undo_counting()


async def neighbours(cache: TieredCache, asked: Sequence[str], most: int) -> list[tuple[str, str]]:
    """Asked and stored texts that the guards really have to compare."""
    pairs: list[tuple[str, str]] = []
    similar = cache._similar
    assert similar is not None
    for text in asked[:most]:
        with contextlib.suppress(CacheError):
            vector = await similar.embed(text, deadline_s=5.0)
            near = await similar.find(question(text)[0], vector)
            pairs += [(text, entry.text or "") for entry, _ in near[:2]]
    return pairs


def judged(pairs: Sequence[tuple[str, str]], times: Times) -> None:
    """First reading of a text, and judging two that were read."""
    forget_texts()
    for text in dict.fromkeys(itertools.chain.from_iterable(pairs)):
        with times.stage("first read"):
            read(text)
        times.rows["first read"].append(times.now.pop("first read"))
    for one, other in pairs:
        a, b = read(one), read(other)
        with times.stage("judging"):
            objections(a, b)
        times.rows["judging"].append(times.now.pop("judging"))


# ── telling ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def best(runs: Sequence[Times], name: str) -> tuple[float, float, float, float, int] | None:
    """(p50, p95 by the clock; p50, p95 of CPU; lookups) of the run whose p95 is lowest."""
    found = []
    for run in runs:
        if run.rows[name]:
            wall, cpu = np.array(run.rows[name]).T
            found.append((*np.percentile(wall, [50, 95]), *np.percentile(cpu, [50, 95]), len(wall)))
    return min(found, key=lambda row: row[1]) if found else None


def tell(
    spoken: str, name: str, runs: Sequence[Times], key: str, unit: str = "ms", target: float | None = None
) -> None:
    row = best(runs, key)
    if row is None:
        return
    scale = 1000.0 if unit == "µs" else 1.0
    figures = "  ".join(f"{figure * scale:8.2f}" if unit == "ms" else f"{figure * scale:8.1f}" for figure in row[:4])
    aim = ""
    if target is not None:
        clock, cpu = ("kept" if figure * scale <= target else "MISSED" for figure in (row[1], row[3]))
        aim = f"p95 ≤ {target:g} {unit}: wall {clock}, cpu {cpu}"
    print(f"{spoken}  {name:34} {unit}  {figures}  {row[4]:6d}  {aim}".rstrip(), flush=True)


def report(spoken: str, reader: str, runs: Sequence[Times]) -> None:
    if reader == "default":
        for stage in STAGES:
            tell(spoken, stage, runs, stage, target=READER_MS if stage == "reader" else None)
        tell(spoken, "embed+search+guards+trust", runs, "near", target=NEAR_MS[spoken])
        tell(spoken, "whole lookup, reader=default", runs, "whole")
        tell(spoken, "guards, a candidate as it comes", runs, "candidate", "µs", GUARDS_US)
        tell(spoken, "guards, first read of a text", runs, "first read", "µs")
        tell(spoken, "guards, judging two read texts", runs, "judging", "µs", GUARDS_US)
    else:
        tell(spoken, "embed+search+guards+trust, no reader", runs, "near", target=NEAR_MS[spoken])
        tell(spoken, "whole lookup, reader=none", runs, "whole")
    outcomes = sum((run.outcomes for run in runs), Counter[str]())
    seen = [number for run in runs for number, _ in run.rows["candidates"]]
    print(f"    {len(runs)} runs: " + ", ".join(f"{name} {n}" for name, n in outcomes.most_common())
          + f"; the guards saw {np.mean(seen or [0.0]):.1f} candidates where they saw any\n", flush=True)  # fmt: skip


async def measure(spoken: str, options: argparse.Namespace) -> None:
    candidates, asked = texts(spoken, options.stored + _SPARE, options.lookups + options.warm)
    stored = (await vectors_of(candidates))[: options.stored]
    warm, asked = asked[: options.warm], asked[options.warm :]
    print(f"{spoken}: {len(stored)} stored in one scope, {len(asked)} other wordings looked up; {MODELS[spoken]}",
          flush=True)  # fmt: skip
    for reader in ("default", "none"):
        runs = []
        async with filled(reader, stored) as cache:
            await looked_up(cache, warm, Times())
            pairs = await neighbours(cache, asked, 250) if reader == "default" else []
            for _ in range(options.runs):
                forget_texts()
                times = Times()
                await looked_up(cache, asked, times)
                judged(pairs, times)
                runs.append(times)
        report(spoken, reader, runs)


async def work(options: argparse.Namespace) -> None:
    for spoken in options.language:
        await measure(spoken, options)


def processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(": ")[2]
    return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", type=int, default=10_000)
    parser.add_argument("--lookups", type=int, default=400)
    parser.add_argument("--warm", type=int, default=100, help="lookups of other wordings before the first run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--language", nargs="+", choices=sorted(MODELS), default=["en", "zh"])
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(
        f"{processor()}, {cores} of {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}; best of {options.runs} runs a row"
    )
    if cores > 1:
        print("(not pinned: put `taskset -c 0` before the command)")
    print(f"\n    {'':34}     {'wall p50':>8}  {'p95':>8}  {'cpu p50':>8}  {'p95':>8}  {'number':>6}")
    uvloop.run(work(options))


if __name__ == "__main__":
    main()
