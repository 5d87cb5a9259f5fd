"""The tables of README and docs that are generated, and the way back. `python tests/support/tables.py` writes them.

They stand between `<!-- name -->` and `<!-- /name -->`; tests/test_docs.py says when one is old."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from proxy.metrics import Metrics  # noqa: E402
from proxy.settings import Settings, shown  # noqa: E402


@dataclass(frozen=True, slots=True)
class Family:
    """name: as Prometheus stores it, `_total` included.  kind: counter, gauge or histogram."""

    name: str
    kind: str
    labels: frozenset[str]
    words: str


def families() -> Iterator[Family]:
    """Every metric that /metrics can tell, from the objects that tell it."""
    metrics = Metrics()
    metrics.measuring(list)
    metrics.watching((), worked=float)
    for collector in list(metrics.registry._collector_to_names):
        told = list(collector.collect())
        for family in told:
            labels = getattr(collector, "_labelnames", None) or getattr(family, "_labelnames", ())
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield Family(name, family.type, frozenset(labels), family.documentation)


def metrics_table() -> str:
    rows = [
        f"| `{each.name}` | {each.kind} | {' '.join(f'`{label}`' for label in sorted(each.labels)) or '–'} "
        f"| {each.words} |"
        for each in sorted(families(), key=lambda each: each.name)
    ]
    return "\n".join(["| metric | kind | labels | what it is |", "|---|---|---|---|", *rows])


def documented_metrics() -> dict[str, Family]:
    """Read back from the page, so that tests judge what people read."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(rejoinder_\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|$", page, re.MULTILINE)
    return {
        name: Family(name, kind, frozenset(re.findall(r"`(\w+)`", labels)), words) for name, kind, labels, words in rows
    }


def settings_table() -> str:
    rows = []
    for name, field in Settings.model_fields.items():
        default = shown(field.get_default(call_default_factory=True))
        words = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{name}` | {default} | {words} |")
    return "\n".join(["| setting | default | what it is |", "|---|---|---|", *rows])


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "metrics": ("docs/metrics.md", metrics_table),
}


def written(name: str) -> str:
    """What stands in the page now."""
    text = (ROOT / TABLES[name][0]).read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)
    return found[1] if found else ""


def main() -> None:
    for name, (page, made) in TABLES.items():
        path = ROOT / page
        before, begin, rest = path.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not begin or not end:
            sys.exit(f"{page} has no place for the table {name!r}")
        path.write_text(f"{before}{begin}{made()}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
