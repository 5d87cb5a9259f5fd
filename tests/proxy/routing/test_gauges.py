"""A worker's /metrics: the lines as vLLM 0.32 writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.gauges import Gauges, gauges_of

VLLM = b"""# HELP python_gc_objects_collected_total Objects collected during gc
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{generation="0"} 9803.0
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79602371154e+09
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 6.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 6.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 1840.0
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{engine="0",model_name="tiny"} 1.79602373e+09
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 640.0
vllm:cache_config_info{block_size="32",cache_dtype="auto",engine="0",num_gpu_blocks="2048",user_specified_block_size="True"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="tiny"} 0.0
"""  # noqa: E501


def test_what_vllm_says_is_read() -> None:
    assert gauges_of(VLLM, 5.0) == Gauges(
        5.0, running=2, waiting=6, kv_usage=0.25, prefix_queries=1840, prefix_hits=640, block_size=32,
        num_gpu_blocks=2048, started_s=1796023711.54,
    )  # fmt: skip


def test_the_engines_behind_one_address_are_summed() -> None:
    second = VLLM.replace(b'engine="0"', b'engine="1"').replace(b"} 0.25", b"} 0.75")
    both = gauges_of(VLLM + second, 0.0)
    assert both is not None
    assert (both.running, both.waiting, both.prefix_queries, both.prefix_hits) == (4, 12, 3680, 1280)
    assert (both.block_size, both.num_gpu_blocks, both.kv_tokens) == (32, 4096, 32 * 4096)
    assert both.kv_usage == 0.5


@pytest.mark.parametrize(
    "text", [b"", b"404 page not found", b"process_start_time_seconds 1\n", b"vllm:num_requests_running{} 1\n"]
)
def test_what_is_not_vllms_has_no_gauges(text: bytes) -> None:
    assert gauges_of(text, 0.0) is None


def test_what_is_missing_is_not_known() -> None:
    few = gauges_of(b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n", 0.0)
    assert few == Gauges(0.0, 1, 0)
    assert few.kv_tokens is None


def test_a_block_size_that_somebody_asked_for_is_not_the_one_in_use() -> None:
    line = b'vllm:cache_config_info{user_block_size="99",block_size="16",num_gpu_blocks="None"} 1\n'
    few = gauges_of(b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n" + line, 0.0)
    assert few is not None and (few.block_size, few.num_gpu_blocks) == (16, None)


def test_numbers_that_are_none_are_passed_over() -> None:
    text = b"vllm:num_requests_running NaN\nvllm:num_requests_running 3\nvllm:num_requests_waiting +Inf\n"
    assert gauges_of(text, 0.0) is None
    told = gauges_of(text + b"vllm:num_requests_waiting 0\n", 0.0)
    assert told is not None and told.running == 3


@given(st.binary(max_size=400))
def test_no_bytes_break_it(text: bytes) -> None:
    found = gauges_of(VLLM + b"\n" + text, 0.0)
    assert found is None or found.running >= 2 or b"vllm" in text
