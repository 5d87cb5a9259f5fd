"""What a worker said so far: cut at event ends, kept until it is whole."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from scripted import chunked

from proxy.said import Said

STREAM = chunked([{"role": "assistant", "content": ""}, {"content": "one "}, {"content": "two"}])
ERROR = b'data: {"error":{"message":"EngineDeadError"}}\n\ndata: [DONE]\n\n'


def fed(said: Said, data: bytes, cuts: list[int], *, stop_at_error: bool = True) -> bytes:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    return b"".join(block.data for piece in pieces for block in said.next(piece, stop_at_error=stop_at_error))


@given(st.lists(st.integers(0, 9999), max_size=6))
def test_however_it_arrives_it_is_told_whole_and_the_end_is_known(cuts: list[int]) -> None:
    said = Said(1 << 20, streamed=True)
    assert fed(said, STREAM, cuts) == STREAM and said.done
    assert said.told == [STREAM] and b"".join(said.kept or []) == STREAM


@given(st.lists(st.integers(0, 9999), max_size=6))
def test_an_error_in_the_stream_is_not_told_nor_what_follows(cuts: list[int]) -> None:
    said = Said(1 << 20, streamed=True)
    begun = STREAM.removesuffix(b"data: [DONE]\n\n")
    assert fed(said, begun + ERROR, cuts) == begun and not said.done
    assert said.told == [begun]


def test_without_rescue_every_byte_is_told() -> None:
    said = Said(1 << 20, streamed=True)
    assert fed(said, ERROR + b"data: half", [3], stop_at_error=False) == ERROR
    assert b"".join(block.data for block in said.rest()) == b"data: half"


def test_what_is_too_large_is_told_and_not_kept() -> None:
    said = Said(10, streamed=False)
    assert fed(said, b"x" * 50, [7, 20]) == b"x" * 50
    assert said.kept is None and said.told is None
