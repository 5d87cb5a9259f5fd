import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.kv_wire import END, Cleared, Malformed, Removed, Stored, decode, live, replayed

encode = msgspec.msgpack.encode
SEEN_IN_0_32 = {
    "type": "BlockStored", "block_hashes": [6522045006455570523, 2], "parent_block_hash": None,
    "token_ids": [1000, 1001, 1002, 1003], "block_size": 2, "lora_id": None, "medium": "GPU", "lora_name": None,
    "extra_keys": [["tenantA"], None], "group_idx": 0, "kv_cache_spec_kind": "full_attention", "session_id": "chat-42",
}  # fmt: skip


def only(event: object) -> object:
    batch = decode(encode([1.5, [event], 0]))
    assert batch.unknown == 0 and batch.dp_rank == 0
    [decoded] = batch.events
    return decoded


def test_the_events_of_vllm_0_32_are_maps() -> None:
    stored = only(SEEN_IN_0_32)
    assert isinstance(stored, Stored)
    assert stored.token_ids == [1000, 1001, 1002, 1003] and stored.extra_keys == [["tenantA"], None]
    assert (stored.session_id, stored.medium, stored.group_idx) == ("chat-42", "GPU", 0)
    removed = only({"type": "BlockRemoved", "block_hashes": [3463317102837642659], "medium": "GPU", "group_idx": 0})
    assert isinstance(removed, Removed) and removed.block_hashes == [3463317102837642659]
    assert isinstance(only({"type": "AllBlocksCleared"}), Cleared)


@pytest.mark.parametrize(
    "tail",
    [
        [],  # 0.9
        ["GPU"],  # 0.10.2
        ["GPU", "adapter"],
        ["GPU", "adapter", [["tenantA"]]],
        ["GPU", "adapter", [["tenantA"]], 0, "full_attention"],
    ],
)
def test_older_releases_send_arrays_that_grew_at_their_end(tail: list[object]) -> None:
    stored = only(["BlockStored", [7], 6, [1, 2], 2, 3, *tail])
    assert isinstance(stored, Stored)
    assert (stored.block_hashes, stored.parent_block_hash, stored.token_ids, stored.lora_id) == ([7], 6, [1, 2], 3)
    told = [stored.medium, stored.lora_name, stored.extra_keys, stored.group_idx, stored.kv_cache_spec_kind]
    assert told == [*tail, *[None] * (5 - len(tail))]


def test_removals_and_resets_of_older_releases_are_arrays_too() -> None:
    removed = only(["BlockRemoved", [-5, b"x" * 32], "GPU"])
    assert isinstance(removed, Removed) and (removed.block_hashes, removed.medium) == ([-5, b"x" * 32], "GPU")
    assert isinstance(only(["AllBlocksCleared"]), Cleared)


def test_both_layouts_say_the_same() -> None:
    array = ["BlockStored", *[value for name, value in SEEN_IN_0_32.items() if name not in ("type", "session_id")]]
    in_array, in_map = only(array), only({k: v for k, v in SEEN_IN_0_32.items() if k != "session_id"})
    assert isinstance(in_array, Stored) and isinstance(in_map, Stored)
    assert {f: getattr(in_array, f) for f in Stored.__struct_fields__} == {
        f: getattr(in_map, f) for f in Stored.__struct_fields__
    }


def test_what_a_later_release_adds_is_passed_over_and_counted() -> None:
    later = {**SEEN_IN_0_32, "event_version": 9, "locality": "LOCAL"}
    batch = decode(
        encode([1.0, [{"type": "BlockMoved", "to": 3}, later, ["BlockShared", 1], ["AllBlocksCleared"]], 1, 8])
    )
    assert batch.unknown == 2 and batch.dp_rank == 1
    assert [type(event).__name__ for event in batch.events] == ["Stored", "_ClearedArray"]


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\x93", encode({"ts": 1}), encode([1.0, [7], 0]), encode([1.0, [{"no": "type"}], 0]),
        encode([1.0, [{"type": "BlockStored"}], 0]), encode([1.0, [["BlockRemoved"]], 0]),
        encode([1.0, [["BlockStored", [1], None, ["a token"], 1]], 0]), encode(["now", [], 0]),
    ],
)  # fmt: skip
def test_nonsense_raises_one_error(payload: bytes) -> None:
    with pytest.raises(Malformed):
        decode(payload)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(payload: bytes) -> None:
    try:
        decode(payload)
    except Malformed as error:
        assert str(error)


def test_live_frames_have_a_topic_and_an_unsigned_number() -> None:
    assert live([b"kv@w", (2**64 - 1).to_bytes(8, "big"), b"p"]) == (2**64 - 1, b"p")
    for frames in ([], [b"t", b"12345678"], [b"t", b"1234567", b"p"], [b"", b"t", b"12345678", b"p"]):
        with pytest.raises(Malformed):
            live(frames)


@pytest.mark.parametrize("topic", [[], [b""], [b"kv@w"]])
def test_a_replay_is_read_with_its_topic_and_without(topic: list[bytes]) -> None:
    """vllm#45177: before 0.26 the topic was left out, and consumers took the number for it."""
    assert replayed([b"", *topic, (7).to_bytes(8, "big"), b"p"]) == (7, b"p")
    assert replayed([b"", *topic, (-1).to_bytes(8, "big", signed=True), b""]).seq == END


def test_other_answers_to_a_replay_are_refused() -> None:
    for frames in ([], [b"12345678", b"p"], [b"x", b"12345678", b"p"], [b"", b"t", b"1", b"p"], [b""] * 5):
        with pytest.raises(Malformed):
            replayed(frames)
