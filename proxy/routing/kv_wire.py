"""vLLM's KV events as they come over the wire: ZeroMQ frames in, events out. The door to msgspec.

    live:    [topic, seq, payload]                     seq: 8 bytes, big-endian, from 0 in each life of the engine
    replay:  [b"", topic, seq, payload]  or, before vLLM 0.26 (vllm#45177),  [b"", seq, payload];  seq -1 is the end
    payload: msgpack [ts, [event, …], dp_rank]

An event is a map with its name under "type" in releases since vllm#42892 (June 2026; seen in 0.26 and 0.32), and before
that an array that begins with its name. The arrays only ever grew at their end, and trailing defaults are left out:
hashes, parent, tokens, block_size, lora_id (0.9) · medium (0.10.2) · lora_name (vllm#27577) · extra_keys (vllm#33304) ·
group_idx, kv_cache_spec_kind, kv_cache_spec_sliding_window (vllm#40984); the later fields came with the maps.
Block hashes are bytes or integers of 64 bits, whatever the engine's settings say, and mean nothing to others.

Decoding is msgspec's because typed structs took 1.8 µs a block where msgpack took 3.0 and untyped msgspec 2.5 (one core
of a busy machine, 16 tokens a block, each block stored and removed once; stores alone are equally quick in all three).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

__all__ = ["END", "Batch", "Cleared", "Event", "Frame", "Malformed", "Removed", "Stored", "decode", "live", "replayed"]

EngineHash = int | bytes
END: Final = -1  # the seq of the frame that closes a replay


class Malformed(ValueError):
    """Frames or a payload that cannot be read; says what was wrong with them."""


class Frame(NamedTuple):
    """seq: ≥ 0, or END.  payload: what `decode` takes."""

    seq: int
    payload: bytes


class Stored(msgspec.Struct, tag="BlockStored", frozen=True, gc=False):
    """Blocks that became resident, in the order of their prompt.

    token_ids: `block_size` of them a block, one after another; empty for stores by an offloading tier.
    parent_block_hash: of the block before the first; None = they begin the prompt.
    extra_keys: a block each, what went into the hash besides tokens (LoRA name, cache salt, images); None = nothing.
    medium: "GPU" on every device that computes, also on CPU; None where only one is known."""

    block_hashes: list[EngineHash]
    parent_block_hash: EngineHash | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: Any = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: str | None = None
    session_id: str | None = None


class Removed(msgspec.Struct, tag="BlockRemoved", frozen=True, gc=False):
    """Blocks that are not resident any more, one reference each."""

    block_hashes: list[EngineHash]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None


class Cleared(msgspec.Struct, tag="AllBlocksCleared", frozen=True, gc=False):
    """The whole prefix cache was reset. vLLM tells it only with the engine's next step."""


class _StoredArray(Stored, tag="BlockStored", array_like=True, frozen=True, gc=False):
    pass


class _RemovedArray(Removed, tag="BlockRemoved", array_like=True, frozen=True, gc=False):
    pass


class _ClearedArray(Cleared, tag="AllBlocksCleared", array_like=True, frozen=True, gc=False):
    pass


Event = Stored | Removed | Cleared


class Batch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The events of one engine step, in their causal order.

    ts: seconds since 1970 by the worker's clock.  dp_rank: the engine's data-parallel rank; None = it did not say.
    unknown: events of types that we do not know, left out of `events`."""

    ts: float
    events: list[Event]
    dp_rank: int | None = None
    unknown: int = 0


class _Maps(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[Event]
    dp_rank: int | None = None


class _Arrays(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[_StoredArray | _RemovedArray | _ClearedArray]
    dp_rank: int | None = None


class _Untyped(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[msgspec.Raw]
    dp_rank: int | None = None


_as_maps: Final = msgspec.msgpack.Decoder(_Maps)
_as_arrays: Final = msgspec.msgpack.Decoder(_Arrays)
_untyped: Final = msgspec.msgpack.Decoder(_Untyped)
_any: Final = msgspec.msgpack.Decoder()
_one_map: Final = msgspec.msgpack.Decoder(Event)
_one_array: Final = msgspec.msgpack.Decoder(_StoredArray | _RemovedArray | _ClearedArray)
_KNOWN: Final = {"BlockStored", "BlockRemoved", "AllBlocksCleared"}


def live(frames: Sequence[bytes]) -> Frame:
    """Raises Malformed."""
    if len(frames) != 3 or len(frames[1]) != 8:
        raise Malformed(f"a live message of {_shape(frames)}; [topic, 8 bytes, payload] was expected")
    return Frame(int.from_bytes(frames[1], "big"), frames[2])


def replayed(frames: Sequence[bytes]) -> Frame:
    """One answer to a replay request, with its empty delimiter as a DEALER gets it. Raises Malformed."""
    if len(frames) not in (3, 4) or frames[0] or len(frames[-2]) != 8:
        raise Malformed(f"a replayed message of {_shape(frames)}; [b'', topic or none, 8 bytes, payload] was expected")
    return Frame(int.from_bytes(frames[-2], "big", signed=True), frames[-1])


def decode(payload: bytes) -> Batch:
    """Unknown fields are ignored, unknown types of events left out and counted. Raises Malformed."""
    try:
        maps = _as_maps.decode(payload)
        return Batch(maps.ts, maps.events, maps.dp_rank)
    except msgspec.DecodeError:
        pass
    try:
        arrays = _as_arrays.decode(payload)
        return Batch(arrays.ts, [*arrays.events], arrays.dp_rank)
    except msgspec.DecodeError:
        return _decode_one_by_one(payload)


def _decode_one_by_one(payload: bytes) -> Batch:
    """For batches with events that we do not know, or with both layouts."""
    try:
        batch = _untyped.decode(payload)
        events: list[Event] = []
        for raw in batch.events:
            event: Any = _any.decode(raw)
            if _name(event) in _KNOWN:
                events.append((_one_map if isinstance(event, dict) else _one_array).decode(raw))
    except msgspec.DecodeError as error:
        raise Malformed(f"a payload of {len(payload)} bytes: {error}") from error
    return Batch(batch.ts, events, batch.dp_rank, unknown=len(batch.events) - len(events))


def _name(event: Any) -> object:
    first = event[0] if isinstance(event, list) and event else None
    name = event.get("type") if isinstance(event, dict) else first
    if not isinstance(name, str):
        raise Malformed("an event without a name")
    return name


def _shape(frames: Sequence[bytes]) -> str:
    return f"{len(frames)} frames ({', '.join(str(len(frame)) for frame in frames[:6])} bytes)"
