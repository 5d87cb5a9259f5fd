"""A simulated worker's /metrics, under vLLM 0.32's names and labels. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gauges:
    """running, waiting: requests.  usage: share of the KV blocks that running requests hold, 0..1.
    queries, hits: prompt tokens that were looked up in the prefix cache, and found.  Tokens, all of them, since start.
    blocks: `num_gpu_blocks`."""

    running: int
    waiting: int
    usage: float
    queries: int
    hits: int
    prompt_tokens: int
    generation_tokens: int
    blocks: int
    block_tokens: int


def exposition(gauges: Gauges, model: str, started_at_s: float) -> str:
    """started_at_s: seconds since the epoch; a restart is seen by it."""
    labels = f'{{engine="0",model_name="{model}"}}'
    rows = (
        ("gauge", "num_requests_running", gauges.running),
        ("gauge", "num_requests_waiting", gauges.waiting),
        ("gauge", "kv_cache_usage_perc", gauges.usage),
        ("counter", "prefix_cache_queries_total", gauges.queries),
        ("counter", "prefix_cache_hits_total", gauges.hits),
        ("counter", "prompt_tokens_total", gauges.prompt_tokens),
        ("counter", "prompt_tokens_cached_total", gauges.hits),
        ("counter", "generation_tokens_total", gauges.generation_tokens),
    )
    lines = [
        f"# TYPE vllm:{name.removesuffix('_total')} {kind}\nvllm:{name}{labels} {value}" for kind, name, value in rows
    ]
    config = (
        f'{{block_size="{gauges.block_tokens}",engine="0",num_gpu_blocks="{gauges.blocks}",'
        'enable_prefix_caching="True",prefix_caching_hash_algo="sha256"}'
    )
    lines.append(f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{config} 1")
    lines.append(f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {started_at_s}")
    return "\n".join(lines) + "\n"
