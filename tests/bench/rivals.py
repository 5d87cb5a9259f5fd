"""What others would serve of the same streams, on the same vectors: a plain threshold, and vCache's method.

    python tests/bench/rivals.py stream.jsonl … [--embedder default] [--runs 3] [--limit 2000]

Everything that differs from `rejoinder eval` favours the rivals: the plain threshold is picked by an oracle that has
seen the whole stream, vCache gets a perfect judge at once and for nothing. Neither has an exact tier, guards or scopes.

vCache (Schroeder et al., "vCache: Verified Semantic Prompt Caching", 2025) is written here anew from a description of
its method. Its own code takes the uncertainty of an entry whose labels are separable from a table of constants; ours
comes from a posterior on a grid (flat in the turning point, log-flat in the slope), so the figures are those of
"vCache's method, our own small-sample variance", not of its release.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cache.embedder import open_embedder
from cache.errors import EmbedderUnavailable, TextTooLong
from proxy.evaluation.packs import Pack, PackError, PackKind, first_of, read_pack

Floats = NDArray[np.float64]
_THRESHOLDS = np.concatenate([np.arange(0.5, 0.8, 0.02), np.arange(0.8, 0.999, 0.004), [0.999]])
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Served:
    """Counts of one run over n questions."""

    n: int
    hits: int
    wrong: int

    def __str__(self) -> str:
        share = f"{100 * self.wrong / self.hits:.2f} % of hits" if self.hits else "–"
        return f"{100 * self.hits / self.n:5.1f} % hit, {100 * self.wrong / self.n:.2f} % of queries wrong, {share}"


# ── a plain threshold ────────────────────────────────────────────────────────────────────────────────────────────────


def plain(vectors: NDArray[np.float32], answers: Sequence[str], threshold: float) -> Served:
    """Serve the nearest stored question from a cosine up; store what missed. vectors: unit length, in arrival order."""
    stored = np.empty(len(answers), np.int64)
    held = np.empty_like(vectors)
    count = hits = wrong = 0
    for place, vector in enumerate(vectors):
        if count:
            cosines = held[:count] @ vector
            best = int(cosines.argmax())
            if cosines[best] >= threshold:
                hits += 1
                wrong += answers[stored[best]] != answers[place]
                continue
        stored[count], held[count] = place, vector
        count += 1
    return Served(len(answers), hits, wrong)


def best_plain(runs: Sequence[Served], *, of_queries: float | None = None, of_hits: float | None = None) -> Served:
    """The oracle: of all thresholds' runs the one with most hits among those that keep the limit, a share in [0, 1]."""
    kept = [
        run for run in runs
        if (of_queries is None or run.wrong <= of_queries * run.n)
        and (of_hits is None or run.wrong <= of_hits * run.hits)
    ]  # fmt: skip
    return max(kept, key=lambda run: run.hits, default=Served(runs[0].n, 0, 0))


# ── vCache's method ──────────────────────────────────────────────────────────────────────────────────────────────────

_TURNS, _SLOPES = np.meshgrid(np.linspace(0.0, 1.0, 201), np.geomspace(4.0, 400.0, 25), indexing="ij")
_FEWEST_LABELS = 4  # before an entry may be served at all: the method's own rule
_RISKS = np.linspace(0.01, 0.99, 50)  # how much of δ goes to the estimate's own error; the best split is taken
_QUANTILES = np.array([NormalDist().inv_cdf(1.0 - risk) for risk in _RISKS])


@dataclass(slots=True)
class Observed:
    """What one entry was told: (cosine, whether its answer was right). Begins with a no at 0 and a yes at 1."""

    cosines: list[float] = field(default_factory=lambda: [0.0, 1.0])
    right: list[bool] = field(default_factory=lambda: [False, True])
    log_posterior: Floats | None = None  # on the grid, unnormalised
    fit: tuple[float, float, float] | None = None

    def add(self, cosine: float, right: bool) -> None:
        if self.log_posterior is None:
            self.log_posterior = _log_likelihood(0.0, False) + _log_likelihood(1.0, True)
        self.log_posterior = self.log_posterior + _log_likelihood(cosine, right)
        self.cosines.append(cosine)
        self.right.append(right)
        self.fit = None

    def fitted(self) -> tuple[float, float, float]:
        """Turning point in [0, 1], slope > 0, and the variance of the turning point."""
        if self.fit is None:
            yes = [cosine for cosine, right in zip(self.cosines, self.right, strict=True) if right]
            no = [cosine for cosine, right in zip(self.cosines, self.right, strict=True) if not right]
            found = None if max(no) < min(yes) else newton(np.array(self.cosines), np.array(self.right, float))
            self.fit = found if found is not None else _from_grid(self.log_posterior)
        return self.fit


def _log_likelihood(cosine: float, right: bool) -> Floats:
    z = _SLOPES * (cosine - _TURNS)
    return np.asarray(-np.logaddexp(0.0, -z if right else z))


def _from_grid(log_posterior: Floats | None) -> tuple[float, float, float]:
    """Means and variance of the posterior: where labels are separable, likelihood alone has no finite answer."""
    assert log_posterior is not None
    weights = np.exp(log_posterior - log_posterior.max())
    weights /= weights.sum()
    turn = float((weights * _TURNS).sum())
    slope = float(np.exp((weights * np.log(_SLOPES)).sum()))
    return turn, slope, float((weights * (_TURNS - turn) ** 2).sum())


def newton(cosines: Floats, right: Floats, steps: int = 50) -> tuple[float, float, float] | None:
    """Logistic regression of right on cosine: turning point, slope, and the turning point's variance (delta method).
    None where it does not settle, or falls instead of rising."""
    design = np.stack([np.ones_like(cosines), cosines], axis=1)
    beta = np.zeros(2)
    information = np.eye(2)
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-np.clip(design @ beta, -30.0, 30.0)))
        information = design.T @ (design * (p * (1.0 - p))[:, None]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(information, design.T @ (right - p))
        beta = beta + np.clip(step, -50.0, 50.0)
        if np.abs(step).max() < 1e-7:
            break
    else:
        return None
    intercept, slope = float(beta[0]), max(float(beta[1]), 1e-6)
    gradient = np.array([-1.0 / slope, intercept / slope**2])
    variance = float(gradient @ np.linalg.solve(information, gradient))
    return min(1.0, max(0.0, -intercept / slope)), slope, variance


def explores(observed: Observed, cosine: float, delta: float) -> float:
    """The probability in [0, 1] with which the answer is made afresh instead of served, so that at most δ of all
    queries get a wrong one: the smallest over all splits of δ."""
    turn, slope, variance = observed.fitted()
    turns = np.clip(turn + _QUANTILES * np.sqrt(variance), 0.0, 1.0)
    right = (1.0 - _RISKS) / (1.0 + np.exp(-np.clip(slope * (cosine - turns), -60.0, 60.0)))
    return float(np.clip((1.0 - delta / np.maximum(1.0 - right, 1e-12)).min(), 0.0, 1.0))


def vcache(vectors: NDArray[np.float32], answers: Sequence[str], delta: float, seed: int) -> Served:
    """One run of the method. An explored question teaches its neighbour, and is stored when that one was wrong."""
    chance = np.random.default_rng(seed)
    held = np.empty_like(vectors)
    stored: list[int] = []
    entries: list[Observed] = []
    hits = wrong = 0
    for place, vector in enumerate(vectors):
        if stored and vector.any():
            cosines = held[: len(stored)] @ vector
            best = int(cosines.argmax())
            cosine = float(np.clip(cosines[best], 0.0, 1.0))
            right = answers[stored[best]] == answers[place]
            entry = entries[best]
            known = len(entry.cosines) >= _FEWEST_LABELS + 2
            if known and chance.random() >= explores(entry, cosine, delta):
                hits += 1
                wrong += not right
                continue
            entry.add(cosine, right)
            if right:
                continue
        held[len(stored)] = vector
        stored.append(place)
        entries.append(Observed())
    return Served(len(answers), hits, wrong)


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def embedded(pack: Pack, spec: str) -> tuple[NDArray[np.float32], list[str]]:
    """(vectors of unit length, answer ids) in arrival order. A text too long for the embedder is near nothing: it
    gets a zero vector."""
    embedder = open_embedder(spec)
    if embedder is None:
        raise PackError("--embedder none has no vectors to compare.")
    answers = [arrival.answer_id or "" for arrival in pack.arrivals]
    async with embedder:
        vectors = np.zeros((len(answers), embedder.dim), np.float32)
        for place, arrival in enumerate(pack.arrivals):
            with contextlib.suppress(TextTooLong):
                vectors[place] = await embedder.embed(arrival.text, deadline_s=_PATIENCE_S)
    return vectors, answers


def compared(name: str, vectors: NDArray[np.float32], answers: Sequence[str], runs: int) -> list[str]:
    """The lines of one stream."""
    swept = [plain(vectors, answers, float(threshold)) for threshold in _THRESHOLDS]
    lines = [
        f"{name} ({len(answers)} queries)",
        f"  plain, best with <= 1 % of queries wrong   {best_plain(swept, of_queries=0.01)}",
        f"  plain, best with <= 1 % of hits wrong      {best_plain(swept, of_hits=0.01)}",
        f"  plain, best with <= 2 % of hits wrong      {best_plain(swept, of_hits=0.02)}",
    ]
    for delta in (0.01, 0.02):
        each = [vcache(vectors, answers, delta, seed) for seed in range(runs)]
        total = Served(*(sum(getattr(run, name) for run in each) for name in ("n", "hits", "wrong")))
        lines.append(f"  vCache's method, delta = {delta:.2f}, {runs} runs   {total}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", type=Path, nargs="+")
    parser.add_argument("--embedder", default="default")
    parser.add_argument("--runs", type=int, default=3, help="of vCache's method, which draws at random")
    parser.add_argument("--limit", type=int, help="at most so many queries of each stream")
    options: Any = parser.parse_args(arguments)
    try:
        for path in options.packs:
            pack = first_of(read_pack(path), 1.0, options.limit)
            if pack.kind is not PackKind.STREAM:
                raise PackError(f"{path} holds pairs; rivals are compared on streams.")
            vectors, answers = asyncio.run(embedded(pack, options.embedder))
            print("\n".join(compared(pack.name, vectors, answers, options.runs)), flush=True)
    except (PackError, EmbedderUnavailable) as wrong:
        print(wrong, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
