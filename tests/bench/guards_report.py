"""How many traps the guards let through, and how many true rewordings: one table for a folder of evaluation packs.

    python tests/bench/guards_report.py /path/to/packs [--embedder package.module:function] [--threshold 0.8]

A pack is a file of JSON lines: `pairs-*`, `contrast-*` and `paraphrase-*` hold a, b, same; `stream-*` hold query and
answer_id in the order of arrival, and each arrival is compared with its nearest earlier one (by the embedder, or by
shared words without one). The embedder is a function from a list of texts to unit vectors, one row a text.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cache.fingerprint import wording
from cache.guards import first_objection, objections, read
from cache.wording import worded

Embed = Callable[[list[str]], Any]
_ARRIVALS = 900  # of a stream that are compared; all pairs of more take too long
_PATTERNS = ("contrast-*.jsonl", "pairs-*.jsonl", "paraphrase-*.jsonl", "stream-*.jsonl")


@dataclass
class Tally:
    """Counts over the pairs of one pack that share one label. read_s, judge_s: CPU seconds spent in all."""

    pairs: int = 0
    passed: int = 0
    near: int = 0
    near_passed: int = 0
    worded_alike: int = 0
    read_s: float = 0.0
    judge_s: float = 0.0
    objections: dict[str, int] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embedder", help="package.module:function, list of texts -> unit vectors")
    parser.add_argument("--threshold", type=float, default=0.8, help="cosine in [0, 1], higher is stricter")
    parser.add_argument("--why", action="store_true", help="name the guards that objected most")
    options = parser.parse_args(arguments)
    packs = sorted(path for pattern in _PATTERNS for path in options.folder.glob(pattern))
    if not packs:
        print(f"skipped: no evaluation packs in {options.folder}")
        return 0
    embed = _load(options.embedder) if options.embedder else None
    heads = (f"{'pack':27} {'same':5}", "pairs", "   pass", "   near", "near+pass", "wording", "read µs", "judge µs")
    print(" ".join(heads))
    for path in packs:
        for same, tally in sorted(_measure(path, embed, options.threshold).items()):
            print(_line(path.stem, same, tally, embed is not None))
            if options.why:
                top = sorted(tally.objections.items(), key=lambda item: -item[1])[:6]
                print("    " + ", ".join(f"{name} {count}" for name, count in top))
    return 0


def _load(name: str) -> Embed:
    module, _, function = name.partition(":")
    loaded: Embed = getattr(importlib.import_module(module), function)
    return loaded


def _measure(path: Path, embed: Embed | None, threshold: float) -> dict[bool, Tally]:
    tallies: dict[bool, Tally] = {}
    for a, b, same, near in _pairs(path, embed, threshold):
        tally = tallies.setdefault(same, Tally())
        read.cache_clear()
        start = time.process_time()
        asked, stored = read(a), read(b)
        middle = time.process_time()
        objections(asked, stored)
        tally.judge_s += time.process_time() - middle
        tally.read_s += (middle - start) / 2
        objection = first_objection(a, b)
        passed = objection is None
        if objection is not None:
            tally.objections[objection[0]] = tally.objections.get(objection[0], 0) + 1
        tally.pairs += 1
        tally.passed += passed
        tally.near += near
        tally.near_passed += near and passed
        tally.worded_alike += wording(a) is not None and wording(a) == wording(b)
    return tallies


def _pairs(path: Path, embed: Embed | None, threshold: float) -> Iterator[tuple[str, str, bool, bool]]:
    """(text, text, whether they share an answer, whether the embedder finds them near); without an embedder all are."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.stem.startswith("stream-"):
        yield from _neighbours(rows[:_ARRIVALS], embed, threshold)
        return
    rows = [row for row in rows if isinstance(row.get("a"), str)]
    vectors = _vectors([text for row in rows for text in (row["a"], row["b"])], embed)
    for index, row in enumerate(rows):
        near = vectors is None or float(vectors[2 * index] @ vectors[2 * index + 1]) >= threshold
        yield row["a"], row["b"], bool(row["same"]), near


def _neighbours(
    rows: list[dict[str, Any]], embed: Embed | None, threshold: float
) -> Iterator[tuple[str, str, bool, bool]]:
    texts = [row["query"] for row in rows]
    vectors = _vectors(texts, embed)
    bags = [frozenset(worded(text)) for text in texts]
    for index in range(1, len(rows)):
        if vectors is not None:
            likeness = vectors[:index] @ vectors[index]
        else:
            likeness = np.array([len(bags[index] & bag) / (len(bags[index] | bag) or 1) for bag in bags[:index]])
        nearest = int(likeness.argmax())
        if texts[nearest] != texts[index] and (vectors is not None or likeness[nearest] > 0):
            near = vectors is None or float(likeness[nearest]) >= threshold
            yield texts[index], texts[nearest], rows[index]["answer_id"] == rows[nearest]["answer_id"], near


def _vectors(texts: list[str], embed: Embed | None) -> Any:
    return None if embed is None else np.asarray(embed(texts), dtype=np.float32)


def _line(name: str, same: bool, tally: Tally, embedded: bool) -> str:
    def share(count: int) -> str:
        return f"{100 * count / tally.pairs:6.1f}%"

    near, both = (share(tally.near), share(tally.near_passed)) if embedded else ("-", "-")
    each_us = 1e6 / tally.pairs
    return (
        f"{name:27} {'yes' if same else 'no':5} {tally.pairs:5} {share(tally.passed):>7} {near:>7} {both:>9} "
        f"{tally.worded_alike:7} {tally.read_s * each_us:7.0f} {tally.judge_s * each_us:8.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
