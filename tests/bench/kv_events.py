"""What does the exact KV index cost: taking in events, holding blocks, looking prompts up?

    taskset -c 0 python tests/bench/kv_events.py [--runs 15] [--resident 200000] [--json]

Ingest is decoding and applying, on one core: prompts of 64 blocks of 16 tokens, as vLLM publishes them, one event a
prompt. cold: into an empty index.  full: on a worker whose memory is full, so that every block stored costs a removal,
an event of its own each (a block is counted once for both).  wall: by the clock; on a shared machine it holds other
people's turns.  cpu: of this process.  Each figure is the median of the runs, with the slowest and the quickest.

Bytes are what tracemalloc saw come, events gone, divided by the resident blocks: around where the dicts grow, too.
A lookup hashes a prompt's tokens (ids as a list) and walks the index until a block is missing; here all are there.
"""

import argparse
import gc
import json
import random
import statistics
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from proxy.routing.blocks import Blocks, own_hashes
from proxy.routing.kv_wire import decode

SIZE, PROMPT_BLOCKS, VOCABULARY = 16, 64, 150_000
BATCHES = 500


def payload(chance: random.Random, gone: Sequence[int] = ()) -> tuple[bytes, list[int]]:
    hashes = [chance.getrandbits(64) for _ in range(PROMPT_BLOCKS)]
    removed = [{"type": "BlockRemoved", "block_hashes": [each], "medium": "GPU", "group_idx": 0} for each in gone]
    stored = {
        "type": "BlockStored", "block_hashes": hashes, "parent_block_hash": None,
        "token_ids": [chance.randrange(VOCABULARY) for _ in range(SIZE * PROMPT_BLOCKS)], "block_size": SIZE,
        "lora_id": None, "medium": "GPU", "lora_name": None, "extra_keys": [None] * PROMPT_BLOCKS, "group_idx": 0,
        "kv_cache_spec_kind": "full_attention", "session_id": f"chat-{chance.randrange(1000)}",
    }  # fmt: skip
    return msgspec.msgpack.encode([1.0, [*removed, stored], 0]), hashes


def take_in(blocks: Blocks, payloads: Sequence[bytes]) -> None:
    for each in payloads:
        blocks.apply(decode(each))


def rates(runs: int, prepare: Callable[[], Blocks], payloads: Sequence[bytes]) -> dict[str, list[float]]:
    """Blocks a second."""
    found: dict[str, list[float]] = {"wall": [], "cpu": []}
    for _ in range(runs):
        blocks = prepare()
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        take_in(blocks, payloads)
        found["wall"].append(len(payloads) * PROMPT_BLOCKS / (time.perf_counter() - wall_s))
        found["cpu"].append(len(payloads) * PROMPT_BLOCKS / (time.process_time() - cpu_s))
    return found


def bytes_a_block(resident: int, chance: random.Random) -> float:
    gc.collect()
    tracemalloc.start()
    blocks = Blocks()
    while len(blocks) < resident:
        blocks.apply(decode(payload(chance)[0]))
    gc.collect()
    took = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return took / len(blocks)


def lookup_us(tokens: int, runs: int, chance: random.Random) -> list[float]:
    prompt = [chance.randrange(VOCABULARY) for _ in range(tokens)]
    hashes = [chance.getrandbits(64) for _ in range(tokens // SIZE)]
    blocks = Blocks()
    take_in(blocks, [payload(chance)[0] for _ in range(100)])
    event = {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": None, "token_ids": prompt,
             "block_size": SIZE}  # fmt: skip
    blocks.apply(decode(msgspec.msgpack.encode([1.0, [event], 0])))
    took = []
    for _ in range(runs * 20):
        began_s = time.perf_counter()
        found = blocks.leading(own_hashes(prompt, SIZE))
        took.append(1e6 * (time.perf_counter() - began_s))
        assert found == len(hashes)
    return took


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"p50": statistics.median(values), "min": min(values), "max": max(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--resident", type=int, default=200_000)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    chance = random.Random(7)

    cold = [payload(chance)[0] for _ in range(BATCHES)]
    memory: deque[int] = deque()
    fill, full = [], []
    for number in range(2 * BATCHES):
        gone = [memory.popleft() for _ in range(PROMPT_BLOCKS)] if number >= BATCHES else []
        each, hashes = payload(chance, gone)
        memory.extend(hashes)
        (full if gone else fill).append(each)

    def filled() -> Blocks:
        blocks = Blocks()
        take_in(blocks, fill)
        return blocks

    found = {
        "blocks_per_s": {
            name: {clock: spread(values) for clock, values in rates(wanted.runs, prepare, payloads).items()}
            for name, prepare, payloads in (("cold", Blocks, cold), ("full", filled, full))
        },
        "bytes_a_resident_block": {
            str(resident): round(bytes_a_block(resident, chance), 1)
            for resident in (87_000, 88_000, wanted.resident)
        },
        "lookup_us": {f"{tokens} tokens": spread(lookup_us(tokens, wanted.runs, chance)) for tokens in (1_024, 32_768)},
    }  # fmt: skip
    if wanted.json:
        print(json.dumps(found, indent=2))
        return
    for name, clocks in found["blocks_per_s"].items():
        for clock, each in clocks.items():
            print(f"ingest {name}, {clock:4}: {each['p50']:>9,.0f} blocks/s ({each['min']:,.0f} to {each['max']:,.0f})")
    for resident, size in found["bytes_a_resident_block"].items():
        print(f"{int(resident):>7,} resident blocks: {size} bytes each")
    for name, each in found["lookup_us"].items():
        print(f"lookup of {name}: {each['p50']:.1f} us ({each['min']:.1f} to {each['max']:.1f})")


if __name__ == "__main__":
    main()
