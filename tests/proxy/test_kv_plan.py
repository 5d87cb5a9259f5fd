"""KV arithmetic: what one token takes, by the model's own kind of attention, and what then fits."""

import pytest

from proxy.kv_plan import GIB, PlanError, fit, flags, read_config

LLAMA_8B = {
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
    "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16", "max_position_embeddings": 131072,
}  # fmt: skip
DEEPSEEK_V3 = {
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "hidden_size": 7168,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "torch_dtype": "bfloat16", "max_position_embeddings": 163840,
    "intermediate_size": 18432, "vocab_size": 129280,
}  # fmt: skip
TINY = {
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "hidden_size": 128,
    "torch_dtype": "float32", "max_position_embeddings": 32768,
}  # fmt: skip


def test_grouped_queries_share_their_keys_and_values() -> None:
    """Counting all 32 heads would say four times as much, and buy four times the GPUs."""
    assert read_config(LLAMA_8B).kv_bytes() == 2 * 32 * 8 * 128 * 2 == 131_072
    everyone = {**LLAMA_8B, "num_key_value_heads": None}
    assert read_config(everyone).kv_bytes() == 4 * 131_072


def test_mla_keeps_one_latent_and_no_keys_and_values_apart() -> None:
    assert read_config(DEEPSEEK_V3).kv_bytes() == 61 * (512 + 64) * 2
    assert read_config(DEEPSEEK_V3).kv_bytes(tensor_parallel=8) == 61 * (512 + 64) * 2  # on every GPU, whole


def test_the_dtype_and_fp8() -> None:
    assert read_config(LLAMA_8B).kv_bytes("fp8") == 65_536
    assert read_config({**LLAMA_8B, "torch_dtype": "float32"}).kv_bytes() == 262_144


def test_heads_are_split_over_gpus_and_one_stays_on_each() -> None:
    assert read_config(LLAMA_8B).kv_bytes(tensor_parallel=4) == 131_072 // 4
    assert read_config(LLAMA_8B).kv_bytes(tensor_parallel=16) == 131_072 // 8


def test_a_context_takes_whole_blocks() -> None:
    model = read_config(LLAMA_8B)
    assert model.context_bytes(1) == 16 * 131_072
    assert model.context_bytes(131_072) == 16 * GIB


def test_layers_with_a_window_keep_the_window_only() -> None:
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    gemma = {**LLAMA_8B, "num_hidden_layers": 48, "layer_types": kinds * 8, "sliding_window": 1024}
    model = read_config(gemma)
    assert (model.layers, model.windowed) == (8, 40)
    assert model.context_bytes(100_000) < 100_000 * model.kv_bytes() + 1100 * model.kv_bytes(windowed=True)
    off = {**LLAMA_8B, "sliding_window": 4096, "use_sliding_window": False}
    assert read_config(off).layers == 32  # Qwen2 writes a window down and does not use it


def test_a_multimodal_models_text_part_is_what_counts() -> None:
    assert read_config({"text_config": LLAMA_8B, "torch_dtype": "bfloat16"}).kv_bytes() == 131_072


def test_the_estimate_of_the_weights_is_near() -> None:
    assert read_config(LLAMA_8B).weights == pytest.approx(8.03e9, rel=0.02)


def test_what_fits_in_a_gpu() -> None:
    model = read_config(LLAMA_8B)
    found = fit(model, 80.0)
    assert found.weights_gib == pytest.approx(15.0, abs=0.4)
    assert found.kv_gib == pytest.approx(80 * 0.9 - found.weights_gib - 2.0)
    assert dict(found.contexts)[131_072] == pytest.approx(found.kv_gib / 16)
    assert found.tokens == pytest.approx(found.kv_gib * GIB / 131_072, rel=1e-3)
    assert fit(model, 16.0).kv_gib < 0 and fit(model, 16.0).tokens == 0


def test_no_context_longer_than_the_model_reads_is_promised() -> None:
    assert [each for each, _ in fit(read_config(TINY), 8).contexts] == [8_192, 32_768]


def test_the_flags_fit_what_fits() -> None:
    model = read_config(LLAMA_8B)
    small = [flag for flag, _ in flags(model, fit(model, 24.0))]
    assert "--enable-prefix-caching" in small and "--max-model-len 32768" in small
    assert "--kv-cache-dtype fp8" in [
        flag for flag, _ in flags(model, fit(model, 24.0, kv_dtype="fp8"), kv_dtype="fp8")
    ]
    assert not any("max-model-len" in flag for flag, _ in flags(model, fit(model, 80.0)))


@pytest.mark.parametrize("broken", [{}, {"num_hidden_layers": "2"}, {**LLAMA_8B, "torch_dtype": "float3"}])
def test_what_is_no_language_model_is_said_to_be_none(broken: dict[str, object]) -> None:
    with pytest.raises(PlanError, match=r"config\.json"):
        read_config(broken)


def test_the_tiny_model_of_the_live_tests() -> None:
    """64 MiB hold 65,536 tokens, as vLLM itself says in its log (tests/live/test_plan.py)."""
    assert 64 * (1 << 20) // read_config(TINY).kv_bytes() == 65_536
