"""Builds `rejoinder.json`, the dashboard for Grafana: `python deploy/grafana/build.py`. A test says when it is old.

Written as a list of panels, because nobody reviews Grafana's own JSON. Import the file, or mount it where Grafana is
provisioned from; it asks for a Prometheus data source and works for one job and any number of instances."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent / "rejoinder.json"
HITS = 'source=~"session|recent|similar|curated"'
JOB = 'job=~"$job"'
RATE = "[$__rate_interval]"


@dataclass(frozen=True, slots=True)
class Panel:
    """queries: legend → PromQL.  unit: Grafana's word for it.  stack: areas on each other."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    width: int = 8
    stack: bool = False
    kind: str = "timeseries"
    words: str = ""


def rate(metric: str, labels: str = "", by: str = "") -> str:
    chosen = ", ".join(part for part in (JOB, labels) if part)
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{chosen}}}{RATE}))"


def quantile(share: float, histogram: str, labels: str = "", by: str = "") -> str:
    groups = ", ".join(part for part in ("le", by) if part)
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', labels, groups)})"


def share(part: str, whole: str) -> str:
    return f"{part} / {whole}"


ROWS: dict[str, list[Panel]] = {
    "Does it pay?": [
        Panel(
            "Answered from the cache",
            {"share": share(rate("rejoinder_hits_total"), rate("rejoinder_lookups_total"))},
            "percentunit",
            4,
            kind="stat",
        ),
        Panel(
            "False hits, measured",
            {
                bound: f'max(rejoinder_false_hit_rate{{{JOB}, bound="{bound}"}})'
                for bound in ("low", "estimate", "high")
            },
            "percentunit",
            8,
            kind="stat",
            words="Of what was served by meaning. Absent while there is not enough evidence; never 0 for want of it.",
        ),
        Panel(
            "Tokens that no worker had to write",
            {"saved": rate("rejoinder_served_tokens_total"), "written": rate("rejoinder_upstream_tokens_total")},
            "short",
            6,
            stack=True,
        ),
        Panel("Workers", {"{{state}}": f"max by (state) (rejoinder_workers{{{JOB}}})"}, "short", 6, kind="stat"),
    ],
    "What happens to questions": [
        Panel(
            "Lookups: hits, refusals, misses, errors, bypasses",
            {
                "hit {{tier}}": rate("rejoinder_hits_total", by="tier"),
                "{{kind}}": rate("rejoinder_misses_total", by="kind"),
            },
            "reqps",
            stack=True,
            words="They add up to all lookups; a test holds it to that.",
        ),
        Panel(
            "Why a worker was asked", {"{{reason}}": rate("rejoinder_misses_total", by="reason")}, "reqps", stack=True
        ),
        Panel(
            "Who objected to near entries",
            {"{{by}}": rate("rejoinder_refused_candidates_total", by="by")},
            "reqps",
            stack=True,
        ),
        Panel("Replies by source", {"{{source}}": rate("rejoinder_replies_total", by="source")}, "reqps", stack=True),
        Panel(
            "Errors told to clients",
            {"{{status}}": rate("rejoinder_replies_total", 'status=~"5.."', "status")},
            "reqps",
        ),
        Panel(
            "Not stored, by reason",
            {"{{reason}}": rate("rejoinder_not_stored_total", by="reason")},
            "reqps",
            stack=True,
        ),
    ],
    "How fast": [
        Panel(
            "A hit",
            {f"p{int(100 * each)}": quantile(each, "rejoinder_reply_seconds", HITS) for each in (0.5, 0.95, 0.99)},
            "s",
        ),
        Panel(
            "First token of a stream, p95",
            {"{{source}}": quantile(0.95, "rejoinder_time_to_first_token_seconds", by="source")},
            "s",
        ),
        Panel(
            "What we cost a miss",
            {f"p{int(100 * each)}": quantile(each, "rejoinder_miss_overhead_seconds") for each in (0.5, 0.95, 0.99)},
            "s",
        ),
        Panel(
            "Stages of a lookup by meaning, p95",
            {"{{stage}}": quantile(0.95, "rejoinder_lookup_stage_seconds", by="stage")},
            "s",
        ),
        Panel("Requests in flight", {"in flight": f"sum(rejoinder_requests_in_flight{{{JOB}}})"}),
        Panel(
            "Shared generations",
            {"shared": rate("rejoinder_collapsed_total"), "own": rate("rejoinder_flights_total")},
            "reqps",
            stack=True,
        ),
    ],
    "Workers": [
        Panel(
            "Prefix cache: share of prompt tokens found",
            {
                "through us, as answers say": share(
                    rate("rejoinder_routed_cached_tokens_total"), rate("rejoinder_routed_prompt_tokens_total")
                ),
                "vLLM's own count": share(
                    rate("rejoinder_worker_prefix_hits_tokens_total"),
                    rate("rejoinder_worker_prefix_queries_tokens_total"),
                ),
            },
            "percentunit",
            words="Far apart: somebody else asks these workers, or --enable-prompt-tokens-details is missing.",
        ),
        Panel(
            "Waiting in vLLM's queue",
            {"{{worker}}": f'max by (worker) (rejoinder_worker_requests{{{JOB}, state="waiting"}})'},
        ),
        Panel(
            "KV blocks in use",
            {"{{worker}}": f"max by (worker) (rejoinder_worker_kv_usage_ratio{{{JOB}}})"},
            "percentunit",
        ),
        Panel("Why this worker", {"{{why}}": rate("rejoinder_routed_total", by="why")}, "reqps", stack=True),
        Panel(
            "Prompt tokens by worker",
            {"{{worker}}": rate("rejoinder_routed_prompt_tokens_total", by="worker")},
            stack=True,
        ),
        Panel(
            "Idle time used: checks and warm-ups",
            {
                "checks": rate("rejoinder_shadow_seconds_total"),
                "warm-ups": rate("rejoinder_warmup_seconds_total"),
            },
            "s",
            stack=True,
        ),
    ],
    "What people say": [
        Panel("Feedback", {"{{rating}}": rate("rejoinder_feedback_total", by="rating")}, "reqps", 6, stack=True),
        Panel(
            "Checks of hits by meaning",
            {"{{outcome}}": rate("rejoinder_shadow_checks_total", by="outcome")},
            "reqps",
            6,
            stack=True,
        ),
        Panel(
            "Taken out of service",
            {"answers": f"sum(increase(rejoinder_quarantined_total{{{JOB}}}[$__range]))"},
            "short",
            6,
            kind="stat",
        ),
        Panel("Answers without a vector yet", {"owed": f"sum(rejoinder_vectors_owed{{{JOB}}})"}, "short", 6),
    ],
}


def panels() -> Iterator[dict[str, Any]]:
    number = y = 0
    for title, row in ROWS.items():
        number += 1
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
               "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}}  # fmt: skip
        y, x = y + 1, 0
        for panel in row:
            number += 1
            if x + panel.width > 24:
                x, y = 0, y + 8
            yield drawn(number, panel, x, y)
            x += panel.width
        y += 8


def drawn(number: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    custom = {"fillOpacity": 20 if panel.stack else 5, "stacking": {"mode": "normal" if panel.stack else "none"}}
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.words, "datasource": source,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": 8},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "targets": [
            {"refId": chr(65 + place), "expr": query, "legendFormat": legend, "datasource": source}
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
    }  # fmt: skip


def dashboard() -> dict[str, Any]:
    chosen = {"text": "rejoinder", "value": "rejoinder"}
    return {
        "title": "Rejoinder", "uid": "rejoinder", "schemaVersion": 39, "editable": True, "refresh": "10s",
        "time": {"from": "now-6h", "to": "now"}, "tags": ["vllm", "cache"],
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "data source"},
            {"name": "job", "type": "query", "label": "job", "includeAll": True, "multi": True, "current": chosen,
             "datasource": {"type": "prometheus", "uid": "${datasource}"},
             "query": "label_values(rejoinder_lookups_total, job)", "refresh": 1},
        ]},
        "panels": list(panels()),
    }  # fmt: skip


def text() -> str:
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
