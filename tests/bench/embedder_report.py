"""What an embedding model finds and what it mistakes, on evaluation packs, and how long it takes.

    python tests/bench/embedder_report.py DATA_DIR [--embedder SPEC ...] [--vectors DIR]

DATA_DIR holds pairs-, contrast-, paraphrase- and stream-*.jsonl. SPEC is what the setting takes. --vectors keeps the
vectors between runs. Only likeness by meaning counts: repeats of the very same text are left out of the streams."""

import argparse
import asyncio
import datetime
import hashlib
import itertools
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cache.embedder import open_embedder
from cache.errors import TextTooLong
from cache.guards import first_objection
from cache.protocols import Embedder

Vectors = dict[str, NDArray[np.float32] | None]
CANDIDATES = 5  # neighbours read before giving up
STREAMS = (
    "own-faq",
    "clinc-static",
    "hint3-curekart",
    "hint3-powerplay11",
    "hint3-sofmattress",
    "math",
    "banking77",
    "hwu64-slots",
)


@dataclass(frozen=True, slots=True)
class Pair:
    pack: str
    lang: str
    a: str
    b: str
    same: bool


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    answer: str
    lang: str


def read_pairs(folder: Path) -> list[Pair]:
    found = []
    for kind in ("paraphrase", "pairs", "contrast"):
        for path in sorted(folder.glob(f"{kind}-*.jsonl")):
            for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
                if not row.get("ambiguous"):
                    found.append(Pair(path.stem, row["lang"], row["a"], row["b"], bool(row["same"])))
    return found


def read_stream(folder: Path, name: str) -> list[Asked]:
    rows = map(json.loads, (folder / f"stream-{name}.jsonl").read_text(encoding="utf-8").splitlines())
    return [Asked(row["query"], str(row["answer_id"]), row["lang"]) for row in rows]


async def embed_all(embedder: Embedder, texts: Iterable[str], keep: Path | None) -> Vectors:
    wanted = sorted(set(texts))
    label = hashlib.sha256("\0".join([embedder.name, *wanted]).encode()).hexdigest()[:16]
    kept = keep / f"{label}.npz" if keep else None
    if kept and kept.is_file():
        with np.load(kept) as saved:
            return {
                text: row if readable else None
                for text, row, readable in zip(wanted, saved["rows"], saved["readable"], strict=True)
            }
    vectors: Vectors = {}
    for start in range(0, len(wanted), 64):
        chunk = wanted[start : start + 64]
        for text, outcome in zip(
            chunk, await asyncio.gather(*map(embedder.embed, chunk), return_exceptions=True), strict=True
        ):
            if isinstance(outcome, BaseException) and not isinstance(outcome, TextTooLong):
                raise outcome
            vectors[text] = None if isinstance(outcome, BaseException) else outcome
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        blank = np.zeros(embedder.dim, np.float32)
        rows = [vectors[text] for text in wanted]
        np.savez(
            kept,
            rows=np.array([blank if row is None else row for row in rows]),
            readable=np.array([row is not None for row in rows]),
        )
    return vectors


class Objections:
    """The guards' word on two texts, asked once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}

    def against(self, asked: str, stored: str) -> bool:
        pair = (asked, stored)
        if pair not in self._known:
            self._known[pair] = first_objection(asked, stored) is not None
        return self._known[pair]


def cosine(vectors: Vectors, pair: Pair) -> float:
    one, other = vectors[pair.a], vectors[pair.b]
    return -1.0 if one is None or other is None else float(one @ other)


def area(good: Sequence[float], bad: Sequence[float]) -> float:
    """The chance that a random true rewording stands above a random trap."""
    ordered = np.sort(np.array(bad))
    below = np.searchsorted(ordered, good, "left") + np.searchsorted(ordered, good, "right")
    return float(below.mean() / 2 / len(ordered))


def report_pairs(pairs: Sequence[Pair], vectors: Vectors, thresholds: Sequence[float], guards: Objections) -> None:
    print("\nPairs served, % (after the guards)\n")
    print("| pack | language | same | n |", " | ".join(f"{t:.3f}" for t in thresholds), "|")
    print("|---" * (4 + len(thresholds)) + "|")
    for (pack, lang, same), rows in grouped(pairs):
        cosines = [cosine(vectors, pair) for pair in rows]
        cells = []
        for threshold in thresholds:
            near = [pair for pair, value in zip(rows, cosines, strict=True) if value >= threshold]
            sure = [pair for pair in near if not guards.against(pair.a, pair.b)]
            cells.append(f"{percent(len(near), len(rows))} ({percent(len(sure), len(rows))})")
        print(f"| {pack} | {lang} | {'yes' if same else 'no'} | {len(rows)} |", " | ".join(cells), "|")
    for lang in ("en", "zh"):
        mine = [pair for pair in pairs if pair.lang == lang]
        easy = [cosine(vectors, pair) for pair in mine if pair.same and pair.pack == "paraphrase-own"]
        others = shuffled([pair for pair in mine if pair.pack == "paraphrase-own"])
        apart = [cosine(vectors, pair) for pair in others]
        traps = [cosine(vectors, pair) for pair in mine if pair.pack == f"contrast-own-{lang}"]
        print(f"\nAUC {lang}: rewordings over unrelated {area(easy, apart):.3f}, over traps {area(easy, traps):.3f}")


def shuffled(pairs: Sequence[Pair]) -> list[Pair]:
    return [
        Pair(one.pack, one.lang, one.a, other.b, False)
        for one, other in itertools.product(pairs, pairs)
        if one is not other
    ]


def grouped(pairs: Sequence[Pair]) -> Iterable[tuple[tuple[str, str, bool], list[Pair]]]:
    groups: dict[tuple[str, str, bool], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.pack, pair.lang, pair.same), []).append(pair)
    return sorted(groups.items())


def replay(
    stream: Sequence[Asked], vectors: Vectors, threshold: float, guards: Objections | None
) -> tuple[int, int, int]:
    """(questions, hits, wrong hits) when each miss is stored and each question may take a near neighbour's answer."""
    rows = np.zeros((len(stream), 0), np.float32)
    stored: list[Asked] = []
    seen: set[str] = set()
    questions = hits = wrong = 0
    for asked in stream:
        vector = vectors[asked.text]
        if asked.text in seen:
            continue
        questions += 1
        found = None
        if vector is not None:
            if not rows.shape[1]:
                rows = np.zeros((len(stream), len(vector)), np.float32)
            found = nearest(asked, vector, rows[: len(stored)], stored, threshold, guards)
        if found is not None:
            hits += 1
            wrong += found.answer != asked.answer
            continue
        seen.add(asked.text)
        if vector is not None:
            rows[len(stored)] = vector
            stored.append(asked)
    return questions, hits, wrong


def nearest(
    asked: Asked,
    vector: NDArray[np.float32],
    rows: NDArray[np.float32],
    stored: Sequence[Asked],
    threshold: float,
    guards: Objections | None,
) -> Asked | None:
    cosines = rows @ vector
    for place in map(int, np.argsort(-cosines)[:CANDIDATES]):
        if cosines[place] < threshold:
            return None
        if guards is None or not guards.against(asked.text, stored[place].text):
            return stored[place]
    return None


def report_streams(folder: Path, vectors: Vectors, thresholds: Sequence[float], guards: Objections) -> None:
    print("\nStreams: hits %, wrong hits / hits; cosine alone -> with the guards\n")
    print("| stream | language | questions |", " | ".join(f"{t:.3f}" for t in thresholds), "|")
    print("|---" * (3 + len(thresholds)) + "|")
    for name in STREAMS:
        stream = read_stream(folder, name)
        for lang in sorted({asked.lang for asked in stream}):
            rows = [asked for asked in stream if asked.lang == lang]
            cells = []
            for threshold in thresholds:
                questions, hits, wrong = replay(rows, vectors, threshold, None)
                _, sure, mistaken = replay(rows, vectors, threshold, guards)
                cells.append(
                    f"{percent(hits, questions)}, {wrong}/{hits} → {percent(sure, questions)}, {mistaken}/{sure}"
                )
            print(f"| {name} | {lang} | {questions} |", " | ".join(cells), "|")


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}"


async def report_latency(embedder: Embedder, texts: Sequence[str]) -> None:
    taken: list[float] = []
    for text in texts:
        began = time.perf_counter()
        await embedder.embed(text)
        taken.append((time.perf_counter() - began) * 1000)
    taken.sort()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\nOne at a time, 1 thread, {len(texts)} short questions: p50 {statistics.median(taken):.1f} ms, "
        f"p95 {taken[int(0.95 * len(taken))]:.1f} ms; highest memory {memory:.0f} MB; load {os.getloadavg()[0]:.1f}"
    )


async def report(spec: str, folder: Path, thresholds: Sequence[float], keep: Path | None, guards: Objections) -> None:
    embedder = open_embedder(spec, deadline_s=60)
    assert embedder is not None
    began = time.perf_counter()
    async with embedder:
        print(f"\n## {embedder.name}: {embedder.dim} dimensions, own threshold {embedder.threshold}")
        print(f"languages {', '.join(sorted(embedder.languages))}; loaded in {time.perf_counter() - began:.2f} s")
        pairs = read_pairs(folder)
        short = [pair.a for pair in pairs if pair.pack == "paraphrase-own" and pair.lang in embedder.languages]
        await report_latency(embedder, short)
        texts = [text for pair in pairs for text in (pair.a, pair.b)]
        texts += [asked.text for name in STREAMS for asked in read_stream(folder, name)]
        texts += [other.b for other in pairs]
        vectors = await embed_all(embedder, texts, keep)
    unread = sum(vector is None for vector in vectors.values())
    print(f"\n{len(vectors)} texts, {unread} not readable and so never matched")
    report_pairs(pairs, vectors, thresholds, guards)
    report_streams(folder, vectors, thresholds, guards)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--embedder", action="append", help="may be given several times")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[0.90, 0.92, 0.94, 0.95, 0.96, 0.97])
    parser.add_argument("--vectors", type=Path)
    chosen = parser.parse_args()
    print(f"{datetime.date.today()}, {platform.machine()}, {platform.platform()}, {os.cpu_count()} cores")
    guards = Objections()
    for spec in chosen.embedder or ["default"]:
        asyncio.run(report(spec, chosen.data, chosen.thresholds, chosen.vectors, guards))


if __name__ == "__main__":
    main()
