"""Gauges that are read when somebody asks for /metrics, and not counted. What is not known is absent, never 0.

Part of the door to prometheus_client. Nothing here asks a worker: the health probes did, off every request's way.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from proxy.measured import Measurement
from proxy.routing.worker import Worker


class MeasuredRates:
    """How often hits by meaning were wrong, where there is evidence."""

    def __init__(self, measured: Callable[[], Iterable[Measurement]]) -> None:
        self._of = measured

    def collect(self) -> Iterable[Metric]:
        names = ["tenant", "model"]
        rate = GaugeMetricFamily(
            "rejoinder_false_hit_rate", "Share of hits by meaning that were wrong; the comparator's error taken out",
            labels=[*names, "bound"],
        )  # fmt: skip
        raw = GaugeMetricFamily(
            "rejoinder_false_hit_rate_raw", "Share of hits by meaning that the comparator called wrong",
            labels=[*names, "bound"],
        )  # fmt: skip
        evidence = GaugeMetricFamily(
            "rejoinder_false_hit_evidence", "Hits by meaning that were checked; old ones fade", labels=names
        )
        for each in self._of():
            pair = [each.tenant, each.model]
            evidence.add_metric(pair, each.checks)
            for family, found in ((rate, each.corrected), (raw, each.raw)):
                if found is not None:
                    for bound in ("estimate", "low", "high"):
                        family.add_metric([*pair, bound], getattr(found, bound))
        return (rate, raw, evidence)


class WorkerGauges:
    """What vLLM says of itself, as the last probe read it, so that its prefix hits stand beside ours.

    most: so many workers are told; the rest of a larger pool is left out."""

    def __init__(self, pool: Iterable[Worker], *, most: int) -> None:
        self._pool = pool
        self._most = most

    def collect(self) -> Iterable[Metric]:
        queries = CounterMetricFamily(
            "rejoinder_worker_prefix_queries_tokens", "Prompt tokens that vLLM looked up in its prefix cache",
            labels=["worker"],
        )  # fmt: skip
        hits = CounterMetricFamily(
            "rejoinder_worker_prefix_hits_tokens", "Of them, those that it found", labels=["worker"]
        )
        requests = GaugeMetricFamily(
            "rejoinder_worker_requests", "Requests in vLLM's batch and in its queue, whoever sent them",
            labels=["worker", "state"],
        )  # fmt: skip
        usage = GaugeMetricFamily(
            "rejoinder_worker_kv_usage_ratio", "Share of vLLM's KV blocks that running requests hold",
            labels=["worker"],
        )  # fmt: skip
        for worker in islice(self._pool, self._most):
            gauges = worker.gauges
            if gauges is None:
                continue
            requests.add_metric([worker.name, "running"], gauges.running)
            requests.add_metric([worker.name, "waiting"], gauges.waiting)
            for family, value in (
                (usage, gauges.kv_usage), (queries, gauges.prefix_queries), (hits, gauges.prefix_hits),
            ):  # fmt: skip
                if value is not None:
                    family.add_metric([worker.name], value)
        return (queries, hits, requests, usage)
