"""`rejoinder eval` and `rejoinder replay`: read, run, count. What is printed where is the front's affair.

The cache is opened for each pack anew, empty and in memory, with the settings that `serve` would use: only the store
and the deadlines are others, because nobody waits.
"""

import contextlib
import dataclasses
import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from cache import CacheSettings, Labelled, Likeness, Schooled, TieredCache, open_cache, school
from proxy.app import DECISIVE, cache_settings
from proxy.evaluation import plot
from proxy.evaluation.curve import Curves, curves
from proxy.evaluation.packs import Arrival, Pack, PackError, PackKind, first_of, read_pack, split
from proxy.evaluation.progress import Meter
from proxy.evaluation.replay import replayed
from proxy.evaluation.report import Report, report
from proxy.evaluation.run import Labels, OwnClock, Replay, Trial
from proxy.settings import Settings

# Trains reader and trust on (question, answer id) pairs, so that the next cache that is opened uses what was learned of
# them and of nothing else; of no pairs, so that it uses what ships.
Adapt = Callable[[Sequence[tuple[str, str]]], Awaitable[None]]
CacheOf = Callable[..., AbstractAsyncContextManager[TieredCache]]  # called as `open_cache` is: (settings, clock=…)

_SECRET = b"rejoinder evaluation"  # nothing outlives the run; a fixed one makes two runs alike
_DEADLINE_S = 30.0
_UNLIMITED = 1.0  # a budget that refuses nobody: everything is scored


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. first: share in (0, 1] of each pack.  limit: most rows of each.  adapt_first: share in [0, 1) of each
    stream that is learned from, not scored.  labels: `none` or `shadow:SHARE`.  teach_reader: the reader learns, too.
    plot: picture to draw, or None."""

    first: float = 1.0
    limit: int | None = None
    adapt_first: float = 0.0
    labels: str = "none"
    teach_reader: bool = False
    seed: int = 0
    plot: Path | None = None


def read_labels(text: str, seed: int) -> Labels:
    """`none`, or `shadow:0.02`: that share of the hits by meaning. Raises PackError."""
    name, _, share = text.partition(":")
    try:
        value = float(share) if name == "shadow" else 0.0
    except ValueError:
        value = -1.0
    if text != "none" and not (name == "shadow" and 0.0 < value <= 1.0):
        raise PackError(f"--labels {text}: write none, or shadow:SHARE with a share above 0 and up to 1 (shadow:0.02).")
    return Labels(value, seed)


async def evaluate(
    paths: Sequence[Path], options: Options, settings: Settings, err: TextIO, *,
    adapt: Adapt | None = None, cache_of: CacheOf = open_cache,
) -> list[Report]:  # fmt: skip
    """One report a pack, in order. err: where progress is told.  adapt: called before each pack's cache is opened by
    cache_of, with the first share of a stream, or with nothing where there is nothing to learn from.
    Raises PackError, StateError, CacheError."""
    labels = read_labels(options.labels, options.seed)
    if options.adapt_first and adapt is None:
        async with _adapting(settings, err, options.teach_reader) as (learn_first, looks_there):
            return await evaluate(paths, options, settings, err, adapt=learn_first, cache_of=looks_there)
    if options.plot is not None:
        plot.require()
    packs = [first_of(read_pack(path), options.first, options.limit) for path in paths]
    opened = _offline(settings)
    reports: list[Report] = []
    drawn: list[Curves] = []
    for pack in packs:
        told = _told(settings, options)
        if options.adapt_first and adapt is not None:
            learned: Sequence[Arrival] = ()
            if pack.kind is PackKind.STREAM:
                learned, pack = split(pack, options.adapt_first)  # noqa: PLW2901 - what is left of it
            await adapt([(arrival.text, arrival.answer_id or "") for arrival in learned])
            told["adapted_on"] = len(learned)
        trials = await _trials(pack, opened, labels, err, cache_of)
        reports.append(report(pack, trials, settings.max_false_hit_rate, told))
        if options.plot is not None:
            drawn.append(await _curves(pack, trials, opened, settings, err, cache_of))
    if options.plot is not None:
        plot.draw(drawn, options.plot)
    return reports


@contextlib.asynccontextmanager
async def _adapting(settings: Settings, err: TextIO, teach_reader: bool) -> AsyncIterator[tuple[Adapt, CacheOf]]:
    """`rejoinder train` into a folder that nobody else sees, and a cache that looks there."""
    with tempfile.TemporaryDirectory(prefix="rejoinder-adapted-") as folder:
        place = Path(folder) / "adapted"

        async def adapt(labelled: Sequence[tuple[str, str]]) -> None:
            shutil.rmtree(place, ignore_errors=True)
            if labelled:
                told = await learn(
                    [Labelled(question, answer) for question, answer in labelled],
                    place,
                    settings,
                    err,
                    always=False,
                    teach_reader=teach_reader,
                )
                old, new = told.lesson.old, told.lesson.new
                err.write(
                    f"adapted on {told.learned_from} questions; on unseen ones {new.served} of {new.asked} served, "
                    f"{new.wrong} wrong, before {old.served}, {old.wrong} wrong: "
                    f"{'the new one is used' if told.taken else 'the old one stays'}\n{told.reader}\n"
                )

        def cache_of(opened: CacheSettings, **more: Any) -> AbstractAsyncContextManager[TieredCache]:
            return open_cache(dataclasses.replace(opened, adapted_dir=place), **more)

        yield adapt, cache_of


async def learn(
    labelled: Sequence[Labelled], folder: Path, settings: Settings, err: TextIO, *, always: bool,
    teach_reader: bool = False,
) -> Schooled:  # fmt: skip
    """Adapt to labels, with progress. Raises StateError, CacheError."""
    with Meter("learning", 100, err) as tell:
        return await school(
            labelled, folder, embedder=settings.embedder, reader=settings.reader, budget=settings.max_false_hit_rate,
            always=always, teach_reader=teach_reader, tell=lambda what, share: tell(int(100 * share)),
        )  # fmt: skip


async def train(
    paths: Sequence[Path], folder: Path, options: Options, settings: Settings, err: TextIO, *, always: bool
) -> dict[str, Any]:
    """Learn from streams of labelled questions. Raises PackError, StateError, CacheError."""
    labelled: list[Labelled] = []
    for path in paths:
        pack = first_of(read_pack(path), options.first, options.limit)
        if pack.kind is PackKind.PAIRS:
            raise PackError(f'{path} holds pairs; training reads questions with the answer that serves them: '
                            '{"query": "…", "answer_id": "…"}.')  # fmt: skip
        labelled += [Labelled(each.text, f"{path}:{each.answer_id}") for each in pack.arrivals]
    told = await learn(labelled, folder, settings, err, always=always, teach_reader=options.teach_reader)
    return {
        "learned_from": told.learned_from, "taken": told.taken, "folder": str(folder), "reader": told.reader,
        "reader_taken": told.reader_taken,
        "budget": settings.max_false_hit_rate,
        "unseen": {"old": dataclasses.asdict(told.lesson.old), "new": dataclasses.asdict(told.lesson.new)},
    }  # fmt: skip


async def replay(
    path: Path, options: Options, settings: Settings, err: TextIO, *, cache_of: CacheOf = open_cache
) -> Report:
    """What would have been served of a log. Raises PackError, StateError, CacheError."""
    log = first_of(read_pack(path, log=True), options.first, options.limit)
    if log.kind is PackKind.PAIRS:
        raise PackError(f"{path} holds pairs; a log holds questions. `rejoinder eval` reads pairs.")
    trials = await _trials(log, _offline(settings), Labels(), err, cache_of)
    return replayed(log, trials, settings.max_false_hit_rate, _told(settings, options))


async def _trials(pack: Pack, opened: CacheSettings, labels: Labels, err: TextIO, cache_of: CacheOf) -> list[Trial]:
    clock = OwnClock()
    async with cache_of(opened, clock=clock) as cache:
        with Meter(pack.name, len(pack), err) as tell:
            way = Replay(cache, opened.rules, _SECRET, clock)
            return await (way.pairs(pack, tell) if pack.kind is PackKind.PAIRS else way.stream(pack, labels, tell))


async def _curves(
    pack: Pack, trials: Sequence[Trial], opened: CacheSettings, settings: Settings, err: TextIO, cache_of: CacheOf
) -> Curves:
    clock = OwnClock()
    generous = dataclasses.replace(opened, max_false_hit_rate=_UNLIMITED)
    async with cache_of(generous, clock=clock) as cache:
        with Meter(f"{pack.name}, scored", len(pack), err) as tell:
            scored = await Replay(cache, opened.rules, _SECRET, clock).scores(pack, tell)
    served = [trial.right for trial in trials if trial.likeness is Likeness.MEANING]
    operating = (len(served) / len(pack), served.count(False) / len(served)) if served else None
    return curves(pack.name, scored, len(pack), operating, settings.max_false_hit_rate)


def _offline(settings: Settings) -> CacheSettings:
    fingerprint = hashlib.sha256(_SECRET).hexdigest()[:16]
    return dataclasses.replace(
        cache_settings(settings, None, fingerprint), redis_url=None, embed_deadline_s=_DEADLINE_S,
        reader_deadline_s=_DEADLINE_S, store_deadline_s=_DEADLINE_S,
    )  # fmt: skip


def _told(settings: Settings, options: Options) -> dict[str, Any]:
    """What decides a run, so that a report says how it was made."""
    told = {name: getattr(settings, name) for name in DECISIVE}
    chosen = {field.name: getattr(options, field.name) for field in dataclasses.fields(options) if field.name != "plot"}
    return told | chosen
