"""What one routing decision costs: the trail of the prompt, the weighing of every worker, the choice.

    python tests/bench/choice.py [--json]

p50 of many decisions in one process, the prompts already decoded (the proxy decodes a body once, for the cache). Half
of the sessions are known. Targets: at 8 workers 30 µs for 2 KB and 1 ms for
400 KB, at 50 workers 100 µs for 2 KB.
"""

import argparse
import json
import random
import statistics
import time
from typing import Any

from proxy.routing.choice import Prompt
from proxy.routing.router import Router
from proxy.routing.trail import trail_of
from proxy.routing.workers import WorkerPool

CASES = ((8, 2_000, 4000, 30.0), (50, 2_000, 4000, 100.0), (8, 400_000, 400, 1000.0), (50, 400_000, 400, None))
SESSIONS = 40


def body(size: int, seed: int) -> dict[str, Any]:
    """A chat request of about so many bytes, with a system text that some of them share."""
    dice = random.Random(seed)
    words = " ".join(str(dice.random()) for _ in range(size // 18))[: size - 250]
    system = f"You are assistant {seed % 7} of the library. " * 4
    return {"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": words}]}


def measured(workers: int, size: int, count: int) -> tuple[float, float]:
    """p50 and p99 in µs."""
    pool = WorkerPool([f"http://10.0.0.{i}:8000" for i in range(workers)])
    for worker in pool:
        pool.answered(worker, {"m": {"id": "m"}})
    router = Router(pool)
    bodies = [body(size, seed) for seed in range(SESSIONS)]
    for seed, each in enumerate(bodies[::2]):
        prompt = Prompt("m", f"s{2 * seed}", trail_of(each), stream=True)
        with router.ride(router.choose(prompt), prompt) as ride:
            ride.answered()
            ride.opened()
            ride.told(size // 4, 0, 100)
    taken = []
    for number in range(count):
        seed = number % SESSIONS
        began = time.perf_counter_ns()
        router.choose(Prompt("m", f"s{seed}", trail_of(bodies[seed]), stream=True))
        taken.append((time.perf_counter_ns() - began) / 1000)
    taken.sort()
    return statistics.median(taken), taken[int(len(taken) * 0.99)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", action="store_true", help="one object on stdout")
    given = options.parse_args()
    found = []
    for workers, size, count, most_us in CASES:
        p50, p99 = measured(workers, size, count)
        found.append(
            {"workers": workers, "bytes": size, "p50_us": round(p50, 1), "p99_us": round(p99, 1), "target_us": most_us}
        )
    if given.json:
        print(json.dumps({"decisions": found}))
        return
    for row in found:
        aim = f"target {row['target_us']:g}" if row["target_us"] is not None else ""
        print(
            f"{row['workers']:3} workers {row['bytes']:7} B  p50 {row['p50_us']:7} µs  p99 {row['p99_us']:7} µs  {aim}"
        )


if __name__ == "__main__":
    main()
