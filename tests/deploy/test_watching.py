"""What watches Rejoinder (dashboard, alerts) names only what a running server's /metrics tells."""

import asyncio
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from house import open_house
from prometheus_client.parser import text_string_to_metric_families
from tables import Family, documented_metrics

from proxy.metrics import KINDS

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
FROM_PROMETHEUS = {"job", "instance"}  # labels that the scrape adds
PROMTOOL = shutil.which("promtool")


def builder() -> Any:
    found = importlib.util.spec_from_file_location("dashboard_builder", DEPLOY / "grafana" / "build.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


DASHBOARD = json.loads((DEPLOY / "grafana" / "rejoinder.json").read_text(encoding="utf-8"))


def dashboard_queries() -> Iterator[tuple[str, str, str]]:
    """(panel, legend, PromQL)"""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["legendFormat"], target["expr"]


QUERIES = {f"panel {title}: {legend}": query for title, legend, query in dashboard_queries()}
QUERIES |= {f"alert {rule['alert']}": rule["expr"] for rule in RULES}


def named(query: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every metric of ours in a query, with its label matchers (label → the value or pattern)."""
    for metric, matchers in re.findall(r"\b(rejoinder_\w+)(?:\{([^}]*)\})?", query):
        yield metric, dict(re.findall(r'(\w+)\s*=~?\s*"([^"]*)"', matchers))


def family_of(metric: str, documented: dict[str, Family]) -> Family | None:
    return documented.get(metric) or documented.get(re.sub(r"_(bucket|sum|count)$", "", metric))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real server's /metrics, after some traffic."""

    async def traffic() -> str:
        async with open_house(tmp_path_factory.mktemp("watched"), workers=2) as h:
            for n in range(2):
                await h.ask("Why is the sky blue?", stream=bool(n))
            await h.ask("How many moons has Mars?", session="s")
            await h.ask("Why is the sky blue?", cache_control="no-store")
            return (await h.send("GET", "/metrics")).body.decode()

    return asyncio.run(traffic())


@pytest.mark.parametrize("where", QUERIES)
def test_every_metric_and_label_is_told_by_a_running_server(where: str, told: str) -> None:
    query, documented = QUERIES[where], documented_metrics()
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", told, re.MULTILINE))
    grouped = {label.strip() for group in re.findall(r"\bby \(([^)]*)\)", query) for label in group.split(",")}
    families = []
    for metric, matchers in named(query):
        family = family_of(metric, documented)
        assert family is not None, f"{metric} is not in docs/metrics.md"
        assert types.get(family.name) == family.kind, f"{metric} is not told by the server as a {family.kind}"
        assert set(matchers) <= family.labels | FROM_PROMETHEUS, (
            f"{metric} has no label {set(matchers) - family.labels}"
        )
        families.append(family)
    known = {"le"}.union(FROM_PROMETHEUS, *(family.labels for family in families))
    assert families or query.startswith("up{")
    assert grouped <= known, f"nothing has the label {grouped - known}"


@pytest.mark.parametrize("where", QUERIES)
def test_a_label_value_that_is_asked_for_can_be_there(where: str, told: str) -> None:
    """A typing mistake in a value is an alert that never comes."""
    seen: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(told):
        for sample in family.samples:
            for label, value in sample.labels.items():
                seen.setdefault(label, set()).add(value)
    possible = {
        "kind": set(KINDS.values()), "bound": {"low", "estimate", "high"}, "rating": {"good", "bad"},
        "outcome": {"memory only", "acknowledged"}, "source": {"curated"} | seen["source"] | {"session", "similar"},
        "state": seen["state"], "job": {"$job", "rejoinder"},
    }  # fmt: skip
    for _, matchers in named(QUERIES[where]):
        for label, wanted in matchers.items():
            values = {"5.."} if label == "status" else possible[label]
            assert set(wanted.split("|")) <= values, f"{label} is never {wanted}"


def test_every_legend_shows_a_label_that_the_query_keeps() -> None:
    for title, legend, query in dashboard_queries():
        for label in re.findall(r"\{\{(\w+)\}\}", legend):
            assert re.search(rf"by \([^)]*\b{label}\b", query), f"{title}: {label}"


def test_the_dashboard_is_what_its_list_of_panels_builds() -> None:
    written = (DEPLOY / "grafana" / "rejoinder.json").read_text(encoding="utf-8")
    assert written == builder().text(), "python deploy/grafana/build.py"


def test_no_two_panels_lie_on_each_other_and_none_leaves_the_grid() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) >= 10
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["what_to_do"], rule["alert"]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (package prometheus) is not here to read the rules")
def test_prometheus_itself_reads_the_rules_and_every_query(tmp_path: Path) -> None:
    rules = DEPLOY / "prometheus" / "rules.yml"
    queries = [
        {"record": f"q:{place}", "expr": query.replace("$__rate_interval", "5m").replace("$__range", "1h")}
        for place, query in enumerate(QUERIES.values())
    ]
    beside = tmp_path / "queries.yml"
    beside.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": queries}]}), encoding="utf-8")
    for path in (rules, beside):
        done = subprocess.run([PROMTOOL, "check", "rules", path], capture_output=True, text=True, check=False)  # type: ignore[list-item]
        assert done.returncode == 0, done.stderr
