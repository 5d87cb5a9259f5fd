"""What a vLLM worker says of itself on /metrics: the few lines that routing needs, of the hundreds there. Pure.

The names are those of vLLM 0.32; a worker that has other names, or none, has no gauges, and nothing breaks.
Engines of one server (data parallel ranks, label `engine`) are summed, because one address answers for all of them.
"""

import math
import re
from dataclasses import dataclass, replace
from typing import Final

_LINE: Final = re.compile(
    rb"^(process_start_time_seconds|vllm:(?:num_requests_running|num_requests_waiting|kv_cache_usage_perc"
    rb"|prefix_cache_queries(?:_total)?|prefix_cache_hits(?:_total)?|cache_config_info))"
    rb"(\{.*\})?[ \t]+([^ \t\r\n]+)",
    re.MULTILINE,
)
_BLOCK_SIZE: Final = re.compile(rb'[{,]block_size="(\d+)"')
_NUM_GPU_BLOCKS: Final = re.compile(rb'[{,]num_gpu_blocks="(\d+)"')


@dataclass(frozen=True, slots=True)
class Gauges:
    """read_at_s: when, on the pool's clock.

    running, waiting: requests in the engines' batches, and in their queues.  kv_usage: share of the KV blocks that
    running requests hold, 0 to 1, the mean of the engines (0 when idle, although blocks stay cached).
    prefix_queries, prefix_hits: prompt tokens that were looked up in the prefix cache, and found; since the start.
    block_size: tokens of one KV block.  num_gpu_blocks: KV blocks of all engines.  started_s: when the process began,
    in seconds since the epoch.  None = it did not say."""

    read_at_s: float
    running: int
    waiting: int
    kv_usage: float | None = None
    prefix_queries: int | None = None
    prefix_hits: int | None = None
    block_size: int | None = None
    num_gpu_blocks: int | None = None
    started_s: float | None = None

    @property
    def kv_tokens(self) -> int | None:
        """How many tokens the KV cache holds."""
        if self.block_size is None or self.num_gpu_blocks is None:
            return None
        return self.block_size * self.num_gpu_blocks

    def started(self, started_s: float) -> "Gauges":
        """The same with another start."""
        return replace(self, started_s=started_s)


def gauges_of(text: bytes, now_s: float) -> Gauges | None:
    """From a Prometheus exposition; None = it is not vLLM's: neither running nor waiting requests are told.

    now_s: when it was read, on the pool's clock."""
    found: dict[bytes, list[float]] = {}
    sizes: list[int] = []
    blocks: list[int] = []
    for name, labels, raw in _LINE.findall(text):
        if name == b"vllm:cache_config_info":
            sizes += [int(size) for size in _BLOCK_SIZE.findall(labels)]
            blocks += [int(count) for count in _NUM_GPU_BLOCKS.findall(labels)]
            continue
        try:
            value = float(raw)
        except ValueError:
            continue
        if math.isfinite(value):
            found.setdefault(name.removeprefix(b"vllm:").removesuffix(b"_total"), []).append(value)
    running, waiting = found.get(b"num_requests_running"), found.get(b"num_requests_waiting")
    if running is None or waiting is None:
        return None
    usage = found.get(b"kv_cache_usage_perc")
    started = found.get(b"process_start_time_seconds")
    return Gauges(
        now_s, int(sum(running)), int(sum(waiting)),
        kv_usage=sum(usage) / len(usage) if usage else None,
        prefix_queries=_total(found.get(b"prefix_cache_queries")), prefix_hits=_total(found.get(b"prefix_cache_hits")),
        block_size=max(sizes, default=None), num_gpu_blocks=sum(blocks) or None,
        started_s=max(started) if started else None,
    )  # fmt: skip


def _total(values: list[float] | None) -> int | None:
    return int(sum(values)) if values else None
