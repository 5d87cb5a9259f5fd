"""A simulated worker that hits or waits otherwise than vLLM would make every comparison of routers worthless."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.simulator.blocks import BLOCK_TOKENS, BlockPool, chain
from deploy.simulator.engine import NEVER, Engine, WorkerDead
from deploy.simulator.facts import (
    Batch,
    Cleared,
    Finished,
    FirstToken,
    Outcome,
    Removed,
    Request,
    Shape,
    Stored,
    Timing,
)

TIMING = Timing(prefill_base_s=0.01, prefill_token_s=0.001, decode_base_s=0.01, decode_sequence_s=0.001)
SERIAL = Timing(0.01, 0.001, 0.01, 0.001, chunk_tokens=None)


def request(name: str, text: list[int], answer: int = 1, session: str | None = None) -> Request:
    tokens = [*text, *range(900_000, 900_000 + answer)]
    return Request(name, len(text), answer, chain(tokens), tokens, session)


def text_of(*pieces: int, words: int = BLOCK_TOKENS) -> list[int]:
    """Each piece is a text of its own, so many words long."""
    return [piece * 1000 + word for piece in pieces for word in range(words)]


def drained(engine: Engine) -> list[Outcome]:
    outcomes: list[Outcome] = []
    while engine.next_event_time() < NEVER:
        outcomes += engine.advance(engine.next_event_time())
    return outcomes


def cached_in(engine: Engine, name: str, text: list[int], answer: int = 1, at_s: float = 0.0) -> int:
    engine.submit(at_s, request(name, text, answer))
    return next(each.cached_tokens for each in drained(engine) if isinstance(each, FirstToken))


# -- what is cached --------------------------------------------------------------------------------------------------


def test_a_prompt_finds_the_blocks_of_the_one_before_it() -> None:
    engine = Engine(Shape(timing=TIMING))
    assert cached_in(engine, "a", text_of(1, 2, 3)) == 0
    assert cached_in(engine, "b", text_of(1, 2, 4)) == 32
    assert cached_in(engine, "c", text_of(9, 2, 3)) == 0, "the same block after another beginning is another block"


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    engine = Engine(Shape(timing=TIMING))
    cached_in(engine, "a", text_of(1, 2))
    assert cached_in(engine, "b", text_of(1, 2)) == 16
    assert cached_in(engine, "c", [*text_of(1, 2), 7]) == 32


def test_the_next_turn_finds_the_answer_of_the_one_before() -> None:
    engine = Engine(Shape(timing=TIMING))
    first = request("a", text_of(1, words=20), answer=29)
    engine.submit(0.0, first)
    drained(engine)
    # 49 tokens, of which the last was only sampled: 48 are in the cache.
    assert cached_in(engine, "b", [*first.tokens, 1, 2, 3]) == 48


def test_of_the_longest_unused_text_the_tail_goes_first() -> None:
    engine = Engine(Shape(blocks=6, timing=TIMING))
    cached_in(engine, "a", text_of(1, 2, 3))
    cached_in(engine, "b", text_of(4, 5))
    cached_in(engine, "c", text_of(6, 7))  # of the five others one has to go: the end of the oldest
    assert engine.cached_tokens_of(chain(text_of(1, 2, 3)), 49) == 32
    assert engine.cached_tokens_of(chain(text_of(4, 5)), 33) == 32


def test_what_a_running_request_holds_is_not_evicted_and_the_next_one_waits() -> None:
    engine = Engine(Shape(blocks=4, timing=TIMING))
    engine.submit(0.0, request("a", text_of(1, 2), answer=10))
    engine.submit(0.0, request("b", text_of(3, 4), answer=2))
    assert engine.metrics().num_requests_waiting == 1
    order = [(type(each).__name__, each.request.id) for each in drained(engine)]
    assert order == [("FirstToken", "a"), ("Finished", "a"), ("FirstToken", "b"), ("Finished", "b")]


def test_a_request_that_could_never_run_is_refused() -> None:
    engine = Engine(Shape(blocks=2, timing=TIMING))
    with pytest.raises(ValueError, match="do not fit"):
        engine.submit(0.0, request("a", text_of(1, 2, 3)))
    with pytest.raises(ValueError, match="at least one token"):
        engine.submit(0.0, Request("b", 0, 1, ()))
    engine.submit(0.0, request("c", text_of(1)))
    with pytest.raises(ValueError, match="here already"):
        engine.submit(0.0, request("c", text_of(2)))


def test_a_chain_that_is_known_in_part_is_the_same_chain() -> None:
    tokens = text_of(1, 2, 3, 4)
    whole = chain(tokens)
    assert len(whole) == 4 and len(set(whole)) == 4
    assert all(chain(tokens, known=whole[:depth]) == whole for depth in range(5))
    assert chain(tokens, parent=5)[0] != whole[0]


# -- what takes how long ---------------------------------------------------------------------------------------------


def test_a_prefill_takes_its_base_and_every_token_that_was_not_cached() -> None:
    engine = Engine(Shape(timing=TIMING))
    engine.submit(1.0, request("a", text_of(1, 2, words=100)))
    assert engine.next_event_time() == pytest.approx(1.0 + 0.01 + 0.2)
    drained(engine)
    engine.submit(5.0, request("b", text_of(1, 2, words=100)))
    assert engine.next_event_time() == pytest.approx(5.0 + 0.01 + 0.001 * (200 - 192))


def test_prefills_wait_for_each_other() -> None:
    engine = Engine(Shape(timing=TIMING))
    for place in range(3):
        engine.submit(0.0, request(str(place), text_of(place + 1, words=90)))
    firsts = [each.at_s for each in drained(engine) if isinstance(each, FirstToken)]
    assert firsts == pytest.approx([0.1, 0.2, 0.3])


def test_a_full_batch_makes_the_next_one_wait() -> None:
    engine = Engine(Shape(max_num_seqs=1, timing=TIMING))
    engine.submit(0.0, request("a", text_of(1), answer=11))
    engine.submit(0.0, request("b", text_of(2)))
    finished, first = drained(engine)[1:3]
    assert (finished.request.id, first.request.id) == ("a", "b")
    assert finished.at_s == pytest.approx(0.026 + 10 * 0.011)
    assert first.at_s == pytest.approx(finished.at_s + 0.026)


def test_sequences_share_the_steps_of_a_batch() -> None:
    engine = Engine(Shape(timing=SERIAL))
    engine.submit(0.0, request("a", text_of(1), answer=101))
    engine.submit(0.0, request("b", text_of(2), answer=101))
    ends = {each.request.id: each.at_s for each in drained(engine) if isinstance(each, Finished)}
    # b is prefilled while a waits with its second token; then both decode, two in a step.
    assert ends["a"] == pytest.approx(0.052 + 100 * 0.012)
    assert ends["b"] == pytest.approx(ends["a"])


def test_a_chunked_prefill_slows_the_batch_and_is_slowed_by_it() -> None:
    timing = Timing(0.0, 0.001, 0.01, 0.0, chunk_tokens=10)  # 10 ms of prefill and 10 ms of decoding in each step
    engine = Engine(Shape(timing=timing))
    engine.submit(0.0, request("a", text_of(1), answer=1000))
    engine.advance(0.016)
    engine.submit(0.016, request("b", text_of(2, words=100)))
    assert engine.next_event_time() == pytest.approx(0.016 + 0.2)
    engine.advance(0.216)
    assert engine.progress("a") == 1 + 10


def test_progress_tells_each_token_when_it_is_out() -> None:
    engine = Engine(Shape(timing=TIMING))
    engine.submit(0.0, request("a", text_of(1), answer=5))
    seen = []
    for at_s in (0.0, 0.0259, 0.0261, 0.0371, 0.0481, 0.0591):
        engine.advance(at_s)
        seen.append(engine.progress("a"))
    assert seen == [0, 0, 1, 2, 3, 4]
    assert engine.progress("nobody") == 0


# -- what else befalls a worker --------------------------------------------------------------------------------------


def test_an_abort_frees_the_blocks_and_keeps_what_was_computed() -> None:
    engine = Engine(Shape(timing=TIMING))
    engine.submit(0.0, request("a", text_of(1, 2), answer=100))
    engine.submit(0.0, request("b", text_of(3)))
    engine.submit(0.0, request("c", text_of(4)))
    engine.advance(0.05)
    assert engine.abort(0.05, "a") and engine.abort(0.05, "c") and not engine.abort(0.05, "a")
    assert [each.request.id for each in drained(engine)] == ["b", "b"]
    assert engine.metrics().kv_cache_usage_perc == 0
    assert engine.cached_tokens_of(chain(text_of(1, 2)), 33) == 32


def test_an_abort_in_the_queue_lets_the_next_one_in() -> None:
    engine = Engine(Shape(blocks=4, timing=TIMING))
    engine.submit(0.0, request("a", text_of(1, 2), answer=10))
    engine.submit(0.0, request("large", text_of(3, 4, 5)))
    engine.submit(0.0, request("b", text_of(6)))
    engine.advance(0.06)
    assert engine.metrics().num_requests_waiting == 2
    engine.abort(0.06, "large")
    assert engine.metrics().num_requests_waiting == 0


def test_a_killed_worker_loses_everything_and_refuses_until_it_is_restarted() -> None:
    batches: list[Batch] = []
    engine = Engine(Shape(timing=TIMING), on_batch=batches.append)
    cached_in(engine, "a", text_of(1, 2))
    engine.submit(1.0, request("b", text_of(1, 3), answer=50))
    engine.submit(1.0, request("c", text_of(1, 4)))
    assert {each.id for each in engine.kill(1.1)} == {"b", "c"}
    with pytest.raises(WorkerDead):
        engine.submit(1.2, request("d", text_of(1)))
    assert engine.next_event_time() == NEVER
    engine.restart(2.0)
    assert engine.resident == frozenset() and engine.metrics().prompt_tokens == 0
    batches.clear()
    assert cached_in(engine, "b", text_of(1, 2), at_s=2.0) == 0
    assert [batch.seq for batch in batches] == [0]


def test_the_cache_is_reset_only_while_nobody_runs() -> None:
    batches: list[Batch] = []
    engine = Engine(Shape(timing=TIMING), on_batch=batches.append)
    engine.submit(0.0, request("a", text_of(1, 2)))
    assert not engine.reset_prefix_cache(0.0)
    drained(engine)
    assert engine.reset_prefix_cache(1.0)
    assert batches[-1].events == (Cleared(),)
    assert cached_in(engine, "b", text_of(1, 2)) == 0


def test_counters_are_those_of_vllm() -> None:
    engine = Engine(Shape(blocks=10, timing=TIMING))
    cached_in(engine, "a", text_of(1, 2, 3), answer=4)
    cached_in(engine, "b", text_of(1, 2, 4), answer=4)
    found = engine.metrics()
    assert (found.prefix_cache_queries, found.prefix_cache_hits) == (96, 32)
    assert (found.prompt_tokens, found.prompt_tokens_cached, found.generation_tokens) == (96, 32, 8)
    assert (found.request_success, found.num_requests_running, found.kv_cache_usage_perc) == (2, 0, 0.0)


def test_events_name_the_parent_the_tokens_and_the_session() -> None:
    batches: list[Batch] = []
    engine = Engine(Shape(timing=TIMING), on_batch=batches.append)
    text = text_of(1, 2, 3)
    engine.submit(0.0, request("a", text[:32], session="s"))
    drained(engine)
    engine.submit(1.0, request("b", text))
    drained(engine)
    hashes = chain(text)
    assert [each for batch in batches for each in batch.events] == [
        Stored(hashes[:2], None, tuple(text[:32]), "s"),
        Stored(hashes[2:], hashes[1], tuple(text[32:]), None),
    ]


# -- whatever is asked -----------------------------------------------------------------------------------------------

asked = st.lists(
    st.tuples(
        st.floats(0, 0.3),  # seconds since the request before
        st.lists(st.integers(1, 3), min_size=1, max_size=4),  # pieces of its text
        st.integers(1, 20),  # words per piece
        st.integers(1, 40),  # tokens of its answer
    ),
    min_size=1,
    max_size=25,
)
shapes = st.builds(
    Shape, blocks=st.integers(8, 24), max_num_seqs=st.integers(1, 4), timing=st.sampled_from([TIMING, SERIAL])
)


def played(shape: Shape, asks: list[tuple[float, list[int], int, int]], batches: list[Batch]) -> list[Outcome]:
    engine = Engine(shape, on_batch=batches.append)
    outcomes: list[Outcome] = []
    now_s = 0.0
    for number, (gap_s, pieces, words, answer) in enumerate(asks):
        now_s += gap_s
        outcomes += engine.advance(now_s)
        engine.submit(now_s, request(str(number), text_of(*pieces, words=words), answer))
        assert engine.metrics().kv_cache_usage_perc <= 1
        assert len(engine.resident) <= shape.blocks
    outcomes += drained(engine)
    assert len(engine.resident) <= shape.blocks
    assert engine.metrics().kv_cache_usage_perc == 0
    left: Counter[int] = Counter()
    for batch in batches:
        for event in batch.events:
            if isinstance(event, Stored):
                left.update(event.hashes)
            elif isinstance(event, Removed):
                left.subtract(event.hashes)
    assert min(left.values(), default=0) >= 0
    assert {each for each, copies in left.items() if copies} == engine.resident
    assert [batch.seq for batch in batches] == list(range(len(batches)))
    assert [batch.at_s for batch in batches] == sorted(batch.at_s for batch in batches)
    return outcomes


@settings(max_examples=150, deadline=None)
@given(shapes, asked)
def test_every_request_is_answered_once_and_the_events_tell_what_is_resident(
    shape: Shape, asks: list[tuple[float, list[int], int, int]]
) -> None:
    outcomes = played(shape, asks, [])
    assert sorted(int(each.request.id) for each in outcomes if isinstance(each, FirstToken)) == list(range(len(asks)))
    assert sorted(int(each.request.id) for each in outcomes if isinstance(each, Finished)) == list(range(len(asks)))
    assert [each.at_s for each in outcomes] == sorted(each.at_s for each in outcomes)


@settings(max_examples=50, deadline=None)
@given(shapes, asked)
def test_the_same_calls_give_the_same_outcomes(shape: Shape, asks: list[tuple[float, list[int], int, int]]) -> None:
    first: list[Batch] = []
    second: list[Batch] = []
    assert played(shape, asks, first) == played(shape, asks, second)
    assert first == second


@settings(max_examples=50, deadline=None)
@given(shapes, asked, st.floats(0.001, 0.05))
def test_looking_more_often_changes_nothing(
    shape: Shape, asks: list[tuple[float, list[int], int, int]], tick_s: float
) -> None:
    """In real time a server looks at every tick; in a bench only when something is due."""
    seldom, often = Engine(shape), Engine(shape)
    outcomes: tuple[list[Outcome], list[Outcome]] = ([], [])
    now_s = 0.0
    for number, (gap_s, pieces, words, answer) in enumerate(asks):
        ask = request(str(number), text_of(*pieces, words=words), answer)
        for tick in range(int(gap_s / tick_s)):
            outcomes[1].extend(often.advance(now_s + tick * tick_s))
            often.progress("0")
        now_s += gap_s
        for engine, seen in zip((seldom, often), outcomes, strict=True):
            seen.extend(engine.advance(now_s))
            engine.submit(now_s, ask)
    for engine, seen in zip((seldom, often), outcomes, strict=True):
        seen.extend(drained(engine))
    assert outcomes[0] == outcomes[1]


class NaiveCache:
    """One request at a time: a list of what is cached, the longest unused first. `Engine` must hit as this does.

    What is computed again, an answer above all, is there twice; of two copies that which was stored first is reused."""

    def __init__(self, blocks: int) -> None:
        self.room = blocks
        self.cached: list[tuple[int, int]] = []  # number when it was stored, hash
        self.stored = 0

    def serve(self, prompt: int, answer: int, hashes: tuple[int, ...]) -> int:
        held: list[tuple[int, int]] = []
        for each in hashes[: (prompt - 1) // BLOCK_TOKENS]:
            copies = [block for block in self.cached if block[1] == each]
            if not copies:
                break
            held.append(min(copies))
            self.cached.remove(min(copies))
        hits = len(held)
        needed = -(-(prompt + answer - 1) // BLOCK_TOKENS)
        while len(self.cached) + needed > self.room:
            self.cached.pop(0)
        for each in hashes[hits : (prompt + answer - 1) // BLOCK_TOKENS]:
            self.stored += 1
            held.append((self.stored, each))
        self.cached += reversed(held)
        return hits * BLOCK_TOKENS


@settings(max_examples=200, deadline=None)
@given(st.integers(8, 24), asked)
def test_hits_are_those_of_a_naive_cache(blocks: int, asks: list[tuple[float, list[int], int, int]]) -> None:
    engine, naive = Engine(Shape(blocks=blocks, timing=TIMING)), NaiveCache(blocks)
    for number, (_, pieces, words, answer) in enumerate(asks):
        ask = request(str(number), [*text_of(*pieces, words=words), 7], answer)  # no prompt ends with a full block
        if ask.prompt_tokens % BLOCK_TOKENS == 0:
            continue
        engine.submit(float(number), ask)
        found = next(each.cached_tokens for each in drained(engine) if isinstance(each, FirstToken))
        assert found == naive.serve(ask.prompt_tokens, answer, tuple(ask.hashes))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 11)), max_size=60))
def test_no_block_is_held_and_free_at_once(capacity: int, moves: list[tuple[int, int]]) -> None:
    pool = BlockPool(capacity)
    held: list[list[int]] = []
    for count, which in moves:
        if held and which % 2:
            pool.release(held.pop(which % len(held)))
        elif count <= pool.free:
            blocks, _ = pool.take(count)
            pool.store(blocks, [number + 1 for number in range(len(blocks))])
            held.append(blocks)
        else:
            with pytest.raises(ValueError, match="free"):
                pool.take(count)
        in_use = {block for blocks in held for block in blocks}
        assert len(in_use) == sum(map(len, held)) == pool.held
        assert pool.held + pool.free == capacity
