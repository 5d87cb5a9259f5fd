"""The door to matplotlib (the extra `plot`): risk-coverage curves as a picture, and the same figures as CSV beside."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proxy.evaluation.curve import Curves
from proxy.evaluation.packs import PackError

_TAKES = "--plot needs matplotlib: pip install 'rejoinder[plot]', or leave --plot out."


def require() -> None:
    """Raises PackError where matplotlib is missing: said before the work, not after it."""
    _figure()


def draw(curves: Sequence[Curves], path: Path) -> Path:
    """Write the picture (its suffix says the format) and a CSV of the same name. Returns the CSV's path.
    Raises PackError."""
    figure = _figure()
    columns = min(3, len(curves))
    rows = math.ceil(len(curves) / columns)
    picture = figure(figsize=(5.5 * columns, 4.0 * rows), layout="constrained")
    panels = picture.subplots(rows, columns, squeeze=False)
    for place, panel in enumerate(panels.flat):
        if place < len(curves):
            _panel(panel, curves[place])
        else:
            panel.set_axis_off()
    table = path.with_suffix(".csv")
    try:
        picture.savefig(path, dpi=150)
        table.write_text(as_csv(curves), encoding="utf-8")
    except (OSError, ValueError) as trouble:
        raise PackError(f"No plot was written to {path}: {trouble}.") from None
    return table


def as_csv(curves: Sequence[Curves]) -> str:
    """One line a point: pack, curve, score, coverage, risk."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("pack", "curve", "score", "coverage", "risk"))
    for each in curves:
        for name, points in ((each.by, each.trust), ("plain cosine", each.cosine)):
            writer.writerows((each.pack, name, p.score, round(p.coverage, 6), round(p.risk, 6)) for p in points)
        if each.operating is not None:
            writer.writerow((each.pack, "operating point", "", *(round(value, 6) for value in each.operating)))
    return text.getvalue()


def _panel(panel: Any, each: Curves) -> None:
    for name, points, style in (("plain cosine", each.cosine, "C1--"), (f"Rejoinder: {each.by}", each.trust, "C0-")):
        shares = [100 * point.coverage for point in points]
        panel.plot(shares, [100 * point.risk for point in points], style, label=name, drawstyle="steps-post")
    panel.axhline(100 * each.budget, color="0.4", linewidth=0.8, label=f"budget {100 * each.budget:g} %")
    highest = each.budget
    if each.operating is not None:
        coverage, risk = each.operating
        panel.plot([100 * coverage], [100 * risk], "C3o", label="served in the run")
        highest = max(highest, risk)
    panel.set(
        title=each.pack, xlabel="served by meaning, % of questions", ylabel="wrong, % of the served",
        ylim=(-0.3, max(10.0, 300 * highest)), xlim=(0, None),
    )  # fmt: skip
    panel.legend(fontsize="small")


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure  # an extra; and half a second that only a plot is worth
    except ImportError:
        raise PackError(_TAKES) from None
    return Figure
