"""Which answers to keep when there is no room for all: what is kept here, beside LRU, FIFO and the optimum.

    python tests/bench/eviction.py [FILE …] [--share 0.1] [--json]

FILE: streams of questions with the answers they need, {"query", "answer_id"}; without any, made ones: Zipf's law with
three exponents over 10,000 answers, and one whose taste drifts. Every answer that is not held is made and offered.
The optimum (Bélády 1966, with bypass) knows the future. The gap closed is the share of the way from LRU to there.
Ours is the memory store itself, with all that it does, on answers of one size.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cache.entry import Answer, Entry
from cache.question import Kind, Reach, Scope
from cache.store.memory import MemoryStore
from cache.worth import Capacity, gain_of

ANSWERS = 10_000
SCOPE = Scope("tenant", "model", "0" * 32)


@dataclass(frozen=True, slots=True)
class Row:
    """Hits as shares of the questions asked."""

    stream: str
    asked: int
    capacity: int
    fifo: float
    lru: float
    ours: float
    optimum: float

    @property
    def closed(self) -> float:
        """The share of the gap between LRU and the optimum."""
        return (self.ours - self.lru) / (self.optimum - self.lru) if self.optimum > self.lru else 1.0


def zipf(exponent: float, asked: int, seed: int = 1, drift_every: int = 0) -> list[int]:
    """Answers asked for by Zipf's law. drift_every: after so many, a twentieth of them trade places."""
    chance = random.Random(seed)
    weights = [1 / (rank + 1) ** exponent for rank in range(ANSWERS)]
    names = list(range(ANSWERS))
    found: list[int] = []
    step = drift_every or asked
    while len(found) < asked:
        found += [names[rank] for rank in chance.choices(range(ANSWERS), weights, k=step)]
        for _ in range(ANSWERS // 20):
            one, two = chance.randrange(ANSWERS), chance.randrange(ANSWERS)
            names[one], names[two] = names[two], names[one]
    return found[:asked]


def queue_hits(asked: Sequence[int], capacity: int, *, refresh: bool) -> int:
    """LRU, or FIFO where nothing is refreshed."""
    held: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for answer in asked:
        if answer in held:
            hits += 1
            if refresh:
                held.move_to_end(answer)
            continue
        held[answer] = None
        if len(held) > capacity:
            held.popitem(last=False)
    return hits


def optimum_hits(asked: Sequence[int], capacity: int) -> int:
    """Whoever is asked for last leaves, a newcomer included."""
    never = len(asked)
    following, seen = [never] * len(asked), dict[int, int]()
    for place in range(len(asked) - 1, -1, -1):
        following[place] = seen.get(asked[place], never)
        seen[asked[place]] = place
    held: dict[int, int] = {}
    latest: list[tuple[int, int]] = []
    hits = 0
    for place, answer in enumerate(asked):
        hits += answer in held
        held[answer] = following[place]
        heapq.heappush(latest, (-following[place], answer))
        while len(held) > capacity:
            when, gone = heapq.heappop(latest)
            if held.get(gone) == -when:
                del held[gone]
    return hits


async def our_hits(asked: Sequence[int], capacity: int) -> int:
    store = MemoryStore(Capacity(capacity), lambda: 0.0)
    ids: dict[int, Entry] = {}
    hits = 0
    for number, answer in enumerate(asked, 1):
        key = f"{answer:032x}"
        held = ids.get(answer)
        if held is not None and await store.get([held.id]):
            hits += 1
            await store.use([(held.id, gain_of(held))], 1)
            continue
        entry = ids[answer] = Entry(
            number, Kind.CHAT, SCOPE, None, key, key, None, Reach.SIMILAR, Answer(b"{}", 200), 0.0, 1e12
        )
        await store.put(entry)
    return hits


def measure(stream: str, asked: Sequence[int], share: float) -> Row:
    """share: capacity as a share of the different answers of the stream."""
    capacity = max(2, round(share * len(set(asked))))
    hits = (
        queue_hits(asked, capacity, refresh=False), queue_hits(asked, capacity, refresh=True),
        asyncio.run(our_hits(asked, capacity)), optimum_hits(asked, capacity),
    )  # fmt: skip
    return Row(stream, len(asked), capacity, *(each / len(asked) for each in hits))


def read(path: Path) -> list[int]:
    names: dict[str, int] = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return [names.setdefault(str(json.loads(line)["answer_id"]), len(names)) for line in lines if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--asked", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    made = {
        f"zipf {exponent}": zipf(exponent, given.asked) for exponent in (0.8, 1.0, 1.2)
    } | {"zipf 0.9, drifting": zipf(0.9, given.asked, drift_every=5_000)}  # fmt: skip
    streams = {path.stem: read(path) for path in given.files} or made
    for name, asked in streams.items():
        row = measure(name, asked, given.share)
        if given.json:
            print(json.dumps(asdict(row) | {"closed": row.closed}))
        else:
            print(
                f"{row.stream:28} {row.asked:7} asked, {row.capacity:5} kept   fifo {row.fifo:.3f}  lru {row.lru:.3f}  "
                f"ours {row.ours:.3f}  optimum {row.optimum:.3f}   gap closed {row.closed:.0%}"
            )


if __name__ == "__main__":
    main()
