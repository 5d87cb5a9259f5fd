import gc
import random
import tracemalloc
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy.routing.blocks import Blocks, own_hashes
from proxy.routing.kv_wire import Batch, Cleared, Removed, Stored

SIZE = 4


def engine_hash(tokens: list[int]) -> int:
    """What the engine calls the block that ends this prompt: opaque to us, the same for the same prompt."""
    return random.Random(repr(tokens)).getrandbits(64)


def stored(tokens: list[int], *, since: int = 0, **fields: object) -> Stored:
    """The event that stores a prompt's blocks from block `since` on."""
    ends = range((since + 1) * SIZE, len(tokens) + 1, SIZE)
    parent = engine_hash(tokens[: since * SIZE]) if since else None
    body = tokens[since * SIZE : len(tokens) // SIZE * SIZE]
    return Stored([engine_hash(tokens[:end]) for end in ends], parent, body, SIZE, **{"medium": "GPU", **fields})


def removed(*prompts: list[int], **fields: object) -> Removed:
    return Removed([engine_hash(prompt) for prompt in prompts], **{"medium": "GPU", **fields})


PROMPT = list(range(100, 100 + 5 * SIZE + 1))
OWNS = own_hashes(PROMPT, SIZE)


def test_a_stored_prompt_is_found_by_its_tokens_alone() -> None:
    blocks = Blocks()
    blocks.stored(stored(PROMPT[: 3 * SIZE]))
    assert len(OWNS) == 5 and len(blocks) == 3 and blocks.block_size == SIZE
    assert [own in blocks for own in OWNS] == [True, True, True, False, False]
    assert blocks.leading(OWNS) == 3
    blocks.stored(stored(PROMPT, since=3))
    assert blocks.chain(OWNS[4]) == OWNS and blocks.chain(OWNS[1]) == OWNS[:2]


def test_equal_blocks_behind_different_beginnings_are_different_blocks() -> None:
    other = [1] * SIZE + PROMPT[SIZE:]
    assert not set(own_hashes(other, SIZE)) & set(OWNS)


def test_whoever_names_blocks_differently_means_the_same_prompt() -> None:
    by_int, by_bytes = Blocks(), Blocks()
    by_int.stored(stored(PROMPT))
    digests = [bytes([number]) * 32 for number in range(5)]
    by_bytes.stored(Stored(list(digests), None, PROMPT[:-1], SIZE))
    assert by_int.chain(OWNS[4]) == by_bytes.chain(OWNS[4]) == OWNS
    by_bytes.removed(Removed([digests[4]]))
    assert by_bytes.leading(OWNS) == 4


def test_salts_adapters_and_images_do_not_share_blocks() -> None:
    blocks = Blocks()
    variants = [
        {}, {"extra_keys": [["tenantA"], *[None] * 4]}, {"extra_keys": [["tenantB"], *[None] * 4]},
        {"lora_name": "adapter"}, {"lora_id": 1},
        {"extra_keys": [None, None, [["image-1", 0]], None, None]},
    ]  # fmt: skip
    for number, fields in enumerate(variants):
        event = stored(PROMPT, **fields)
        renamed = [(each + number) % 2**60 for each in event.block_hashes]
        blocks.stored(Stored(renamed, None, event.token_ids, SIZE, **fields))
    # The image stands in the third block: what is before it is shared with the plain prompt.
    assert len(blocks) == 5 * len(variants) - 2
    assert blocks.leading(own_hashes(PROMPT, SIZE, [("tenantA",), None])) == 5
    assert blocks.leading(own_hashes(PROMPT, SIZE, [("tenantC",)])) == 0


def test_a_block_computed_twice_is_resident_until_both_are_gone() -> None:
    blocks = Blocks()
    blocks.stored(stored(PROMPT))
    blocks.stored(stored(PROMPT, since=4))
    assert (len(blocks), blocks.references) == (5, 6)
    blocks.removed(removed(PROMPT[:-1]))
    assert OWNS[4] in blocks
    blocks.removed(removed(PROMPT[:-1]))
    assert OWNS[4] not in blocks and blocks.references == 4


def test_a_chain_whose_beginning_was_not_seen_is_never_taken_for_a_known_one() -> None:
    blocks = Blocks()
    blocks.stored(stored(PROMPT, since=2, session_id="s"))
    assert len(blocks) == 3 and not any(own in blocks for own in OWNS)
    tip = blocks.tip("s")
    assert tip is not None and tip < 0 and tip in blocks and blocks.chain(tip) == []
    blocks.stored(stored(PROMPT[: 2 * SIZE]))
    assert blocks.leading(OWNS) == 2
    blocks.stored(stored(PROMPT))  # computed again: now its beginning is known
    assert blocks.leading(OWNS) == 5 and len(blocks) == 5
    for end in (5, 5, 4, 4, 3, 3, 2, 2, 1, 1):
        blocks.removed(removed(PROMPT[: end * SIZE]))
    assert len(blocks) == 0 and blocks.references == 0


def test_a_chain_with_a_hole_is_no_chain() -> None:
    blocks = Blocks()
    blocks.stored(stored(PROMPT))
    blocks.removed(removed(PROMPT[: 2 * SIZE]))
    assert blocks.chain(OWNS[0]) == OWNS[:1] and blocks.chain(OWNS[4]) == [] and blocks.leading(OWNS) == 1


def test_a_session_points_at_the_block_it_stored_last_and_old_sessions_are_forgotten() -> None:
    blocks = Blocks(most_sessions=2)
    moved = blocks.apply(
        Batch(1.0, [stored(PROMPT[: 2 * SIZE], session_id="a"), stored(PROMPT, since=2, session_id="b")])
    )
    assert moved == ["a", "b"]
    assert blocks.tip("a") == OWNS[1] and blocks.tip("b") == OWNS[4]
    blocks.stored(stored([9] * SIZE, session_id="a"))
    blocks.stored(stored([8] * SIZE, session_id="c"))
    assert blocks.tip("b") is None and blocks.tip("a") == own_hashes([9] * SIZE, SIZE)[0]
    assert blocks.tip("nobody") is None


@pytest.mark.parametrize("elsewhere", [{"medium": "CPU"}, {"medium": "STORAGE"}, {"locality": "REMOTE"}])
def test_blocks_on_another_tier_are_not_resident(elsewhere: dict[str, str]) -> None:
    blocks = Blocks()
    assert not blocks.stored(stored(PROMPT, **elsewhere)) and len(blocks) == 0
    blocks.stored(stored(PROMPT, medium=None))
    blocks.removed(removed(PROMPT[:-1], **elsewhere))
    assert len(blocks) == 5


def test_only_the_group_that_attends_to_the_whole_prompt_counts() -> None:
    blocks = Blocks()
    blocks.stored(stored(PROMPT, group_idx=0, kv_cache_spec_kind="sliding_window"))
    blocks.stored(stored(PROMPT[: 2 * SIZE], group_idx=1, kv_cache_spec_kind="full_attention"))
    blocks.stored(stored(PROMPT, group_idx=2, kv_cache_spec_kind="full_attention"))
    assert blocks.leading(OWNS) == 2
    blocks.removed(removed(PROMPT[: 2 * SIZE], group_idx=0))
    assert blocks.leading(OWNS) == 2
    blocks.removed(removed(PROMPT[: 2 * SIZE], group_idx=1))
    assert blocks.leading(OWNS) == 1


def test_an_event_that_does_not_add_up_is_left_out_and_counted() -> None:
    blocks = Blocks()
    assert not blocks.stored(Stored([1, 2], None, [5] * SIZE, SIZE))
    assert not blocks.stored(Stored([1], None, [2**32] * SIZE, SIZE))
    assert not blocks.stored(Stored([1], None, [], 0))
    assert (blocks.skipped, len(blocks)) == (4, 0)


def test_one_rank_is_cleared_without_the_others() -> None:
    blocks = Blocks()
    blocks.stored(stored(PROMPT), rank=0)
    blocks.stored(stored(PROMPT[: 2 * SIZE]), rank=1)
    assert (len(blocks), blocks.references) == (5, 7)
    blocks.cleared(rank=0)
    assert blocks.leading(OWNS) == 2 == len(blocks)
    blocks.cleared(rank=1)
    assert len(blocks) == 0


def test_it_is_complete_when_every_rank_is() -> None:
    blocks = Blocks()
    blocks.all_known(0, False)
    blocks.all_known(1, False)
    blocks.all_known(0, True)
    assert not blocks.complete
    blocks.all_known(1, True)
    assert blocks.complete


PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=4).map(
    lambda digits: [d for d in digits for _ in range(SIZE)]
)


class AgainstANaiveModel(RuleBasedStateMachine):
    """Any order of events, possible or not, keeps the same set as counting engine hashes does."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = Blocks()
        self.naive: Counter[tuple[int, tuple[int, ...]]] = Counter()

    @rule(prompt=PROMPTS, rank=st.integers(0, 1))
    def store(self, prompt: list[int], rank: int) -> None:
        self.blocks.stored(stored(prompt), rank)
        for end in range(SIZE, len(prompt) + 1, SIZE):
            self.naive[rank, tuple(prompt[:end])] += 1

    @rule(prompt=PROMPTS, rank=st.integers(0, 1), data=st.data())
    def store_on(self, prompt: list[int], rank: int, data: st.DataObject) -> None:
        """Goes on from a block that is resident."""
        known = [tokens for (of, tokens), count in self.naive.items() if count and of == rank]
        if known:
            whole = [*data.draw(st.sampled_from(known)), *prompt]
            since = (len(whole) - len(prompt)) // SIZE
            self.blocks.stored(stored(whole, since=since), rank)
            for end in range((since + 1) * SIZE, len(whole) + 1, SIZE):
                self.naive[rank, tuple(whole[:end])] += 1

    @rule(prompt=PROMPTS, rank=st.integers(0, 1))
    def remove(self, prompt: list[int], rank: int) -> None:
        self.blocks.removed(removed(prompt), rank)
        self.naive[rank, tuple(prompt)] = max(0, self.naive[rank, tuple(prompt)] - 1)

    @rule(rank=st.integers(0, 1))
    def clear(self, rank: int) -> None:
        self.blocks.apply(Batch(1.0, [Cleared()]), rank)
        self.naive = Counter({key: count for key, count in self.naive.items() if key[0] != rank})

    @invariant()
    def the_same_is_resident(self) -> None:
        there = {tokens for (_, tokens), count in self.naive.items() if count}
        assert {own_hashes(list(tokens), SIZE)[-1] for tokens in there} == set(self.blocks._parents)
        assert self.blocks.references == self.naive.total()
        assert all(count > 1 for count in [*self.blocks._again.values(), *self.blocks._shared.values()])


TestAgainstANaiveModel = AgainstANaiveModel.TestCase
TestAgainstANaiveModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def churned(blocks: Blocks, rounds: int, chance: random.Random) -> None:
    """A worker of 2,000 blocks that is always full: prompts of 20 blocks come, the oldest blocks go."""
    full: list[int] = []
    for _ in range(rounds):
        hashes = [chance.getrandbits(64) for _ in range(20)]
        tokens = [chance.randrange(150_000) for _ in range(20 * SIZE)]
        gone = full[: max(0, len(full) + 20 - 2_000)]
        del full[: len(gone)]
        full += hashes
        new = Stored(list[int | bytes](hashes), None, tokens, SIZE)
        blocks.apply(Batch(1.0, [*[Removed([each]) for each in gone], new]))


def test_memory_does_not_grow_with_what_came_and_went() -> None:
    """dynamo#10774: an index that grew by 20 GB an hour, because it never let go."""
    blocks, chance = Blocks(), random.Random(5)
    tracemalloc.start()
    try:
        churned(blocks, 100, chance)
        gc.collect()
        full = tracemalloc.get_traced_memory()[0]
        assert len(blocks) == 2_000
        blocks.cleared()
        for _ in range(3):
            churned(blocks, 400, chance)
            assert len(blocks) == 2_000
            blocks.cleared()
        churned(blocks, 400, chance)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1.7 * full  # a dict may be half empty
        blocks.cleared()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 0.05 * full
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("resident", [44_000, 87_000, 88_000])  # around where the dicts grow
def test_a_resident_block_takes_at_most_200_bytes(resident: int) -> None:
    blocks, chance = Blocks(), random.Random(5)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(resident // 20):
            hashes = [chance.getrandbits(64) for _ in range(20)]
            blocks.stored(Stored(list(hashes), None, [chance.randrange(150_000) for _ in range(20)], 1))
        del hashes
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] / len(blocks) <= 200
    finally:
        tracemalloc.stop()
