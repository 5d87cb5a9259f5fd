"""How much KV memory a model's context takes, from its config.json, and what fits in a GPU. Pure.

KV bytes of one token, all layers together (vLLM 0.32, `kv_cache_interface`):

    attention (MHA, GQA, MQA)   2 · layers · KV heads · head size · bytes of an element
    MLA (DeepSeek)              layers · (kv_lora_rank + qk_rope_head_dim) · bytes of an element: one latent for both

Layers with a sliding window hold the window only; layers without attention (Mamba, linear) hold none of it. Tensor
parallelism splits KV heads over the GPUs (at least one stays on each); an MLA latent is on every one of them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

GIB: Final = 1 << 30
BLOCK: Final = 16  # tokens of a KV block on a GPU, vLLM's default
DTYPE_BYTES: Final = {
    "float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1,
}  # fmt: skip
_QUANTIZED_BYTES: Final = {"fp8": 1.0, "gptq": 0.56, "awq": 0.56, "compressed-tensors": 1.0, "bitsandbytes": 0.56}
_OVERHEAD_GIB: Final = (
    2.0  # activations and CUDA graphs at 8K batched tokens: a guess, which vLLM measures at its start
)
WORKLOADS: Final = (8_192, 32_768, 131_072)


class PlanError(Exception):
    """The configuration cannot be read; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Model:
    """layers: those with attention over everything.  windowed: those with a sliding window of `window` tokens.
    kv_heads, head_dim: of one layer; of MLA kv_heads is 1 and head_dim the latent's size, and `latent` is true.
    weights: parameters, estimated.  dtype: of weights and, unless told otherwise, of the KV cache."""

    layers: int
    windowed: int
    window: int
    kv_heads: int
    head_dim: int
    latent: bool
    dtype: str
    weights: float
    weight_bytes: float
    longest: int

    def kv_bytes(self, kv_dtype: str = "auto", *, tensor_parallel: int = 1, windowed: bool = False) -> int:
        """Of one token on one GPU, layers with a window left out, or only these."""
        element = DTYPE_BYTES[self.dtype if kv_dtype == "auto" else kv_dtype]
        layers = self.windowed if windowed else self.layers
        if self.latent:
            return layers * self.head_dim * element
        return 2 * layers * max(1, self.kv_heads // tensor_parallel) * self.head_dim * element

    def context_bytes(self, tokens: int, kv_dtype: str = "auto", *, tensor_parallel: int = 1) -> int:
        """Of one context on one GPU, in whole blocks."""
        blocks = math.ceil(tokens / BLOCK) * BLOCK
        short = min(blocks, math.ceil(self.window / BLOCK) * BLOCK + BLOCK) if self.window else blocks
        return (
            blocks * self.kv_bytes(kv_dtype, tensor_parallel=tensor_parallel)
            + short * self.kv_bytes(kv_dtype, tensor_parallel=tensor_parallel, windowed=True)
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fit:
    """kv_gib: what is left for the KV cache of each GPU, negative where the weights alone do not fit.
    tokens: that many fit together.  contexts: (length, how many of them at once)."""

    weights_gib: float
    kv_gib: float
    tokens: int
    contexts: tuple[tuple[int, float], ...]


def read_config(config: Mapping[str, Any]) -> Model:
    """From a Hugging Face config.json. Raises PlanError."""
    text = config.get("text_config")
    inner = {**config, **text} if isinstance(text, dict) else dict(config)
    layers, heads, hidden = (
        _number(inner, name) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size")
    )
    rank = inner.get("kv_lora_rank")
    latent = isinstance(rank, int) and rank > 0
    if latent:
        kv_heads, head_dim = 1, int(rank or 0) + int(inner.get("qk_rope_head_dim") or 0)
    else:
        kv_heads = int(inner.get("num_key_value_heads") or heads)
        head_dim = int(inner.get("head_dim") or hidden // heads)
    full, windowed, window = _kinds(inner, layers)
    dtype = str(inner.get("torch_dtype") or inner.get("dtype") or "bfloat16").removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise PlanError(f"config.json names the dtype {dtype!r}, which is none of {', '.join(sorted(DTYPE_BYTES))}")
    method = (config.get("quantization_config") or {}).get("quant_method")
    weight_bytes = _QUANTIZED_BYTES.get(str(method), float(DTYPE_BYTES[dtype]))
    weights = _parameters(inner, layers, heads, hidden, kv_heads if not latent else heads, head_dim)
    longest = int(inner.get("max_position_embeddings") or 0)
    return Model(full, windowed, window, kv_heads, head_dim, latent, dtype, weights, weight_bytes, longest)


def fit(
    model: Model, gpu_gib: float, *, kv_dtype: str = "auto", tensor_parallel: int = 1, utilization: float = 0.9,
    weights_gib: float | None = None, contexts: tuple[int, ...] = WORKLOADS,
) -> Fit:  # fmt: skip
    """What fits in each of `tensor_parallel` GPUs of this size. weights_gib: of the whole model, where you know it."""
    whole = weights_gib if weights_gib is not None else model.weights * model.weight_bytes / GIB
    kv_gib = gpu_gib * utilization - whole / tensor_parallel - _OVERHEAD_GIB
    left = max(0.0, kv_gib) * GIB
    lengths = tuple(each for each in contexts if not model.longest or each <= model.longest) or (model.longest,)
    per_token = model.context_bytes(lengths[-1], kv_dtype, tensor_parallel=tensor_parallel) / lengths[-1]
    found = tuple(
        (each, left / model.context_bytes(each, kv_dtype, tensor_parallel=tensor_parallel)) for each in lengths
    )
    return Fit(whole, kv_gib, int(left / per_token), found)


def flags(model: Model, found: Fit, *, kv_dtype: str = "auto", tensor_parallel: int = 1) -> list[tuple[str, str]]:
    """(flag of `vllm serve`, why)."""
    said = [
        (
            "--enable-prefix-caching",
            "a chat's earlier turns are not computed again; on by default, said so that it stays on",
        ),
        (
            "--enable-prompt-tokens-details",
            "answers say how much was found in the prefix cache: routing learns from it",
        ),
    ]
    if tensor_parallel > 1:
        said.append((f"--tensor-parallel-size {tensor_parallel}", "the weights are split over so many GPUs"))
    if kv_dtype not in ("auto", model.dtype):
        said.append((f"--kv-cache-dtype {kv_dtype}", "twice the context in the same memory; test your answers with it"))
    longest = max((each for each, at_once in found.contexts if at_once >= 1), default=0)
    if longest and longest < model.longest:
        said.append((f"--max-model-len {longest}", "the longest of these contexts that fits at least once"))
    if longest > 32_768:
        said.append(
            ("--max-num-batched-tokens 8192", "long prompts are read in pieces, so that others go on meanwhile")
        )
    return said


def _kinds(inner: Mapping[str, Any], layers: int) -> tuple[int, int, int]:
    """(layers over everything, layers with a window, the window)."""
    window = int(inner.get("sliding_window") or 0)
    kinds = inner.get("layer_types")
    if isinstance(kinds, list) and kinds:
        windowed = sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds)
        return sum(kind in ("full_attention", "attention") for kind in kinds), windowed if window else 0, window
    if window and inner.get("use_sliding_window") is not False:
        pattern = inner.get("sliding_window_pattern")
        full = layers // pattern if isinstance(pattern, int) and pattern > 0 else 0
        return full, layers - full, window
    return layers, 0, 0


def _parameters(
    inner: Mapping[str, Any], layers: int, heads: int, hidden: int, kv_heads: int, head_dim: int
) -> float:  # fmt: skip
    """About how many; within some per cent for usual decoders, experts included. The files on disk say it."""
    width = int(inner.get("intermediate_size") or 4 * hidden)
    experts = int(inner.get("num_experts") or inner.get("num_local_experts") or inner.get("n_routed_experts") or 0)
    expert_width = int(inner.get("moe_intermediate_size") or width)
    mlp = 3 * hidden * (experts * expert_width if experts else width)
    attention = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim
    embeddings = int(inner.get("vocab_size") or 0) * hidden * (1 if inner.get("tie_word_embeddings") else 2)
    return float(layers * (mlp + attention) + embeddings)


def _number(inner: Mapping[str, Any], name: str) -> int:
    value = inner.get(name)
    if not isinstance(value, int) or value <= 0:
        raise PlanError(f"config.json does not say {name}; is it the config.json of a language model?")
    return value
