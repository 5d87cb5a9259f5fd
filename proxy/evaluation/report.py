"""What became of a pack, counted: one JSON object a pack, and a table for people. Pure.

Two shares are told: of everything that was served, and of what was served by meaning alone. The budget
`max_false_hit_rate` is about the second: exact repeats are easily right, and would hide what meaning got wrong.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cache import Likeness
from proxy import tally
from proxy.evaluation.packs import Pack, PackKind
from proxy.evaluation.run import Trial
from proxy.intervals import CLOPPER_PEARSON, clopper_pearson, lower_bound
from proxy.tally import SHOWN, Pair

Report = dict[str, Any]
_UNIT = {PackKind.STREAM: "queries", PackKind.PAIRS: "pairs"}


def report(pack: Pack, trials: Sequence[Trial], max_false_hit_rate: float, settings: Mapping[str, Any]) -> Report:
    """One pack, as `rejoinder eval --json` prints it. trials: one for each row, in order; every truth is known.

    Shares are in [0, 1]; null where nothing was served, because no hit is no evidence."""
    served = [trial for trial in trials if trial.likeness is not None]
    by_meaning = [trial for trial in served if trial.likeness is Likeness.MEANING]
    told: Report = {
        "pack": pack.name,
        "kind": pack.kind.value,
        _UNIT[pack.kind]: len(trials),
        **_shares("", served),
        **_shares("semantic_", by_meaning),
        "hits_by": {likeness.value: sum(trial.likeness is likeness for trial in served) for likeness in Likeness},
        "interval": CLOPPER_PEARSON,
        "refused": refusals(trials),
        "labels": sum(trial.labelled for trial in trials),
        "latency_ms": latency_ms(trials),
        "max_false_hit_rate": max_false_hit_rate,
    }
    if pack.kind is PackKind.PAIRS:
        told |= _of_pairs(trials)
    for name, leaning in (("follow_ups", True), ("standalone", False)):
        turns = [trial for trial in trials if trial.asked.leaning is leaning]
        if turns:
            hits = [trial for trial in turns if trial.likeness is not None]
            told[name] = {"queries": len(turns), **_shares("", hits)}
    told["settings"] = dict(settings)
    told["worst"] = worst(served)
    return told


def pooled(reports: Iterable[Report]) -> Report | None:
    """All streams together, as one; None for fewer than two. Their packs' own figures stand beside it."""
    streams = [told for told in reports if told["kind"] == PackKind.STREAM]
    if len(streams) < 2:
        return None
    told: Report = {"pack": "(all streams)", "kind": PackKind.STREAM.value}
    for name in ("queries", "hits", "false_hits", "semantic_hits", "semantic_false_hits"):
        told[name] = sum(each[name] for each in streams)
    for prefix in ("", "semantic_"):
        told |= _bounds(prefix, told[f"{prefix}false_hits"], told[f"{prefix}hits"])
    return told


def refusals(trials: Iterable[Trial]) -> dict[str, int]:
    """Why questions were not served, most frequent first; with the hits they are all questions. A guard's name (or
    trust's) stands where something near was refused, the miss's own reason elsewhere."""
    return dict(Counter(trial.reason for trial in trials if trial.reason is not None).most_common())


def latency_ms(trials: Iterable[Trial]) -> dict[str, float | None]:
    """Of the lookups, embedding included, by nearest rank."""
    return tally.latency_ms(trial.lookup_s for trial in trials)


def worst(served: Iterable[Trial]) -> list[dict[str, Any]]:
    """The false hits of which trust was surest."""
    wrong = sorted((trial for trial in served if trial.right is False), key=_sureness, reverse=True)
    return [pair_of(trial).as_json() for trial in wrong[:SHOWN]]


def pair_of(trial: Trial) -> Pair:
    """A served question beside the one whose answer it got."""
    assert trial.likeness is not None and trial.stored is not None
    return Pair(trial.asked.text, trial.stored.text, trial.likeness, trial.similarity, trial.p_right)


def _sureness(trial: Trial) -> tuple[float, float]:
    surest = 1.0 if trial.likeness is not Likeness.MEANING else 0.0
    return trial.p_right if trial.p_right is not None else surest, trial.similarity or 0.0


def _shares(prefix: str, served: Sequence[Trial]) -> Report:
    wrong = sum(trial.right is False for trial in served)
    return {f"{prefix}hits": len(served), f"{prefix}false_hits": wrong, **_bounds(prefix, wrong, len(served))}


def _bounds(prefix: str, wrong: int, of: int) -> Report:
    return {
        f"{prefix}false_share": wrong / of if of else None,
        f"{prefix}false_share_interval": [round(bound, 6) for bound in clopper_pearson(wrong, of)],
        f"{prefix}lower_bound_95_one_sided": round(lower_bound(wrong, of), 6),
    }


def _of_pairs(trials: Sequence[Trial]) -> Report:
    told = _sides(trials)
    categories = sorted({trial.category for trial in trials if trial.category is not None})
    told["by_category"] = {name: _sides([trial for trial in trials if trial.category == name]) for name in categories}
    return told


def _sides(trials: Sequence[Trial]) -> Report:
    told: Report = {}
    for name, same in (("same", True), ("different", False)):
        side = [trial for trial in trials if trial.same is same]
        told[f"served_{name}"] = sum(trial.likeness is not None for trial in side)
        told[f"n_{name}"] = len(side)
    return told


def exceeded(reports: Iterable[Report], limit: float) -> list[str]:
    """A sentence for each pack where the false share of what was served by meaning is above the limit."""
    return [
        f"{told['pack']}: {told['semantic_false_hits']} of {told['semantic_hits']} hits by meaning were wrong, "
        f"{percent(told['semantic_false_share'])}; more than the {percent(limit)} allowed."
        for told in reports
        if told["semantic_false_share"] is not None and told["semantic_false_share"] > limit
    ]


# ── for people ───────────────────────────────────────────────────────────────────────────────────────────────────────


def percent(share: float | None) -> str:
    """Three digits are enough for people; what is not known is a dash, never 0 %."""
    return "–" if share is None else f"{100 * share:.2f} %" if share < 0.1 else f"{100 * share:.1f} %"


def as_text(reports: Sequence[Report]) -> str:
    """The table, and under it who refused what and what was served of each pack of pairs."""
    rows: list[tuple[str, ...]] = [
        ("pack", "n", "served", "by meaning", "wrong", "of them", "95 % interval", "p50 ms", "p95 ms")
    ]
    together = pooled(reports)
    rows += [_row(told) for told in [*reports, *([together] if together else [])]]
    lines = aligned(rows)
    lines.append(f'"wrong", "of them": of those by meaning; interval: {CLOPPER_PEARSON}, of that share')
    for told in reports:
        lines.append("")
        if told["kind"] == PackKind.PAIRS:
            lines.append(
                f"{told['pack']}: served {told['served_same']} of {told['n_same']} that share an answer, "
                f"{told['served_different']} of {told['n_different']} that do not"
            )
        refused = ", ".join(f"{reason} {count}" for reason, count in list(told["refused"].items())[:10])
        lines.append(f"{told['pack']}: not served because of {refused or 'nothing'}")
        lines += [f"   WRONG {pair['asked']}\n      <- {pair['stored']}" for pair in told["worst"][:5]]
    return "\n".join(lines)


def _row(told: Report) -> tuple[str, ...]:
    n = told[_UNIT[PackKind(told["kind"])]]
    low, high = told["semantic_false_share_interval"]
    latency = told.get("latency_ms", {})
    times = [f"{latency[rank]:.1f}" if latency.get(rank) is not None else "–" for rank in ("p50", "p95")]
    return (
        told["pack"], str(n), percent(told["hits"] / n), percent(told["semantic_hits"] / n),
        str(told["semantic_false_hits"]), percent(told["semantic_false_share"]),
        f"{percent(low)} to {percent(high)}" if told["semantic_hits"] else "no hits, no evidence", *times,
    )  # fmt: skip


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell; the first to the left, figures to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
