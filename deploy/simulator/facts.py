"""What goes into a simulated worker and what comes out of it: its shape, requests, outcomes, KV events, counters."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from deploy.simulator.blocks import BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast a worker is; the defaults are in the range of an 8B model on one large GPU, and stand for no machine.

    A prefill costs prefill_base_s + prefill_token_s · uncached tokens of work. A step of n decoding sequences takes
    decode_base_s + decode_sequence_s · n.
    chunk_tokens: prompt tokens per step while others decode (chunked prefill: both slow each other down);
    None = serial: while a prompt is prefilled, nobody decodes."""

    prefill_base_s: float = 0.010
    prefill_token_s: float = 50e-6
    decode_base_s: float = 0.008
    decode_sequence_s: float = 0.0001
    chunk_tokens: int | None = 2048

    def step_s(self, sequences: int) -> float:
        return self.decode_base_s + self.decode_sequence_s * sequences if sequences else 0.0

    def prefill_s(self, uncached_tokens: int) -> float:
        """Seconds of work of one prefill, alone on the worker."""
        return self.prefill_base_s + self.prefill_token_s * uncached_tokens

    def rates(self, sequences: int, prefilling: bool) -> tuple[float, float]:
        """(tokens per second of each decoding sequence, seconds of prefill work done per second)."""
        step_s = self.step_s(sequences)
        if not prefilling:
            return (1 / step_s if sequences else 0.0), 0.0
        if self.chunk_tokens is None or not sequences:
            return 0.0, 1.0
        chunk_s = self.chunk_tokens * self.prefill_token_s
        return 1 / (step_s + chunk_s), chunk_s / (step_s + chunk_s)


@dataclass(frozen=True, slots=True)
class Shape:
    """blocks: KV blocks (`num_gpu_blocks`), of block_tokens each.  max_num_seqs: requests in the batch at once."""

    blocks: int = 16_384
    block_tokens: int = BLOCK_TOKENS
    max_num_seqs: int = 256
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class Request:
    """id: unique on its worker while it is there.  prompt_tokens, output_tokens: at least 1 each.
    hashes: `blocks.chain` of prompt and answer; fewer are fine, what has no hash is never cached.
    tokens: ids of prompt and answer, only to be told in events.  session: X-Session-ID, told in events."""

    id: str
    prompt_tokens: int
    output_tokens: int
    hashes: Sequence[int]
    tokens: Sequence[int] = ()
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """Blocks that are cached from now on, in the order of the prompt.  parent: the hash before the first of them."""

    hashes: tuple[int, ...]
    parent: int | None
    tokens: tuple[int, ...]
    session: str | None


@dataclass(frozen=True, slots=True)
class Removed:
    """One copy of each of these hashes is gone: a hash that was stored twice is gone when it was removed twice."""

    hashes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cleared:
    """Every hash is gone."""


@dataclass(frozen=True, slots=True)
class Batch:
    """KV events of one moment.  seq: from 0 in each life of the worker, without gaps."""

    seq: int
    at_s: float
    events: tuple[Stored | Removed | Cleared, ...]


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The prefill is over.  cached_tokens: of the prompt, as `usage.prompt_tokens_details` would say."""

    at_s: float
    request: Request
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The last token came (`output_tokens` in all)."""

    at_s: float
    request: Request
    cached_tokens: int


Outcome = FirstToken | Finished


@dataclass(slots=True)
class Metrics:
    """Named as in vLLM's /metrics, without `vllm:` and `_total`. Counts are of this life of the worker; tokens."""

    num_requests_running: int = 0
    num_requests_waiting: int = 0
    kv_cache_usage_perc: float = 0.0  # 0..1, of running requests only
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    prompt_tokens: int = 0  # of prefills that ended
    prompt_tokens_cached: int = 0
    generation_tokens: int = 0
    request_success: int = 0
    busy_s: float = 0.0  # seconds with a prefill or a sequence at work; vLLM has none such
    prefill_s: float = 0.0  # seconds of prefill work done; vLLM has none such
