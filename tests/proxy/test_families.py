"""Gauges that are read when somebody asks: what nobody said is absent, and a large pool makes no more labels."""

from dataclasses import replace

from prometheus_client import CollectorRegistry, generate_latest

from proxy.families import MeasuredRates, WorkerGauges
from proxy.routing.gauges import Gauges
from proxy.routing.worker import Worker
from proxy.routing.workers import WorkerPool

SAID = Gauges(0.0, 3, 2, kv_usage=0.25, prefix_queries=1000, prefix_hits=600)


def told(pool: list[Worker], most: int = 9) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(WorkerGauges(pool, most=most))
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def workers(*said: Gauges | None) -> list[Worker]:
    pool = WorkerPool()
    found = [pool.add(f"http://10.0.0.{place}:8000") for place in range(1, len(said) + 1)]
    for worker, gauges in zip(found, said, strict=True):
        worker.gauges = gauges
    return found


def test_what_vllm_says_of_its_prefix_cache_stands_beside_what_we_measured() -> None:
    assert told(workers(SAID)) == {
        'rejoinder_worker_prefix_queries_tokens_total{worker="10.0.0.1:8000"}': 1000,
        'rejoinder_worker_prefix_hits_tokens_total{worker="10.0.0.1:8000"}': 600,
        'rejoinder_worker_requests{state="running",worker="10.0.0.1:8000"}': 3,
        'rejoinder_worker_requests{state="waiting",worker="10.0.0.1:8000"}': 2,
        'rejoinder_worker_kv_usage_ratio{worker="10.0.0.1:8000"}': 0.25,
    }


def test_a_worker_that_says_nothing_has_no_zeros() -> None:
    assert told(workers(None)) == {}
    silent = replace(SAID, kv_usage=None, prefix_queries=None, prefix_hits=None)
    assert {name.partition("{")[0] for name in told(workers(silent))} == {"rejoinder_worker_requests"}


def test_a_large_pool_has_a_bounded_number_of_labels() -> None:
    names = {name.partition('worker="')[2] for name in told(workers(*[SAID] * 7), most=3)}
    assert len(names) == 3


def test_a_family_without_samples_still_says_what_it_is() -> None:
    registry = CollectorRegistry()
    registry.register(MeasuredRates(list))
    registry.register(WorkerGauges([], most=1))
    assert generate_latest(registry).decode().count("# HELP rejoinder_") == 7
