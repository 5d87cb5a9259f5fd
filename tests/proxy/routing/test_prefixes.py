"""What a session's blocks teach, and what is believed of a worker then."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.routing.memory import Memory
from proxy.routing.prefixes import FRESH_S, Prefixes
from proxy.routing.trail import Trail

SIZE = 16  # tokens of a block
TRAIL = Trail(tuple(range(1, 11)), 2560)  # 10 marks; 640 tokens, so 4 blocks a mark
CHAIN = [1000 + block for block in range(42)]  # the prompt's 40 blocks and two of the answer


class Held:
    """A worker's blocks, as `Resident` has them."""

    block_size: int | None = SIZE
    complete = True

    def __init__(self, chain: list[int], session: str = "s") -> None:
        self.blocks = set(chain)
        self._chain, self._session = chain, session

    def __contains__(self, own: object) -> bool:
        return own in self.blocks

    def tip(self, session: str) -> int | None:
        return self._chain[-1] if session == self._session and self._chain else None

    def chain(self, own: int) -> list[int]:
        return self._chain[: self._chain.index(own) + 1]


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def taught(held: Held, *, tokens: int = 640, written: int = 40) -> tuple[Prefixes, Clock]:
    clock = Clock()
    prefixes = Prefixes(clock)
    prefixes.ended("s", TRAIL, tokens, written, held)
    clock.now_s += 1
    prefixes.learn()
    return prefixes, clock


def resident(prefixes: Prefixes, held: Held | None, memory: Memory | None = None) -> tuple[int, bool]:
    return prefixes.resident(TRAIL, prefixes.deepest(TRAIL), 640, memory or Memory(), held)


def test_which_tokens_a_text_became_is_learnt_from_the_events_of_its_session() -> None:
    prefixes, _ = taught(held := Held(CHAIN))
    assert prefixes.learnt == 1 and resident(prefixes, held) == (640, True)


def test_another_worker_that_never_saw_the_text_is_known_to_lack_it() -> None:
    prefixes, _ = taught(Held(CHAIN))
    memory = Memory()
    memory.read(TRAIL.marks, 0.0)  # whatever our own books say, long ago
    assert resident(prefixes, Held([5, 6]), memory) == (0, True)


def test_what_the_worker_evicted_is_not_counted() -> None:
    prefixes, _ = taught(held := Held(CHAIN))
    held.blocks -= set(CHAIN[20:])
    assert resident(prefixes, held) == (320, True)


def test_a_prompt_that_was_sent_a_moment_ago_counts_before_its_events_come() -> None:
    prefixes, clock = taught(Held(CHAIN))
    longer = Trail((*TRAIL.marks, 11, 12), 3072)
    memory = Memory()
    memory.read(longer.marks, clock.now_s)
    held = Held(CHAIN)
    assert prefixes.resident(longer, prefixes.deepest(longer), 768, memory, held) == (768, False)
    clock.now_s += FRESH_S + 1
    assert prefixes.resident(longer, prefixes.deepest(longer), 768, memory, held) == (640, True)


def test_a_stream_that_was_joined_late_proves_what_is_there_and_not_what_is_missing() -> None:
    prefixes, _ = taught(Held(CHAIN))
    late = Held(CHAIN[:8])
    late.complete = False
    memory = Memory()
    memory.read(TRAIL.marks[:5], 0.0)
    assert resident(prefixes, late, memory) == (320, False)
    assert resident(prefixes, late) == (128, True)


def test_without_events_its_answers_are_believed() -> None:
    prefixes, memory = Prefixes(lambda: 0.0), Memory()
    memory.read(TRAIL.marks[:5], 0.0)
    assert resident(prefixes, None, memory) == (320, False)


def test_two_prompts_of_one_session_at_once_teach_nothing_wrong() -> None:
    prefixes, _ = taught(Held(CHAIN[:10]))  # the session's last block belongs to a much shorter prompt
    assert prefixes.learnt == 0 and prefixes.deepest(TRAIL) == 0


def test_nothing_is_learnt_before_the_last_events_can_have_come() -> None:
    prefixes = Prefixes(lambda: 0.0)
    prefixes.ended("s", TRAIL, 640, 40, Held(CHAIN))
    prefixes.learn()
    assert prefixes.learnt == 0


def test_a_session_that_no_event_named_teaches_nothing() -> None:
    prefixes, _ = taught(Held(CHAIN, session="somebody else"))
    assert prefixes.learnt == 0


@pytest.mark.parametrize("size", [128, 256, 640])
def test_blocks_that_are_longer_than_a_step_of_the_text_break_no_search(size: int) -> None:  # vLLM on CPU: 128
    held = Held([1000 + block for block in range(640 // size)])
    held.block_size = size
    prefixes, _ = taught(held)
    assert resident(prefixes, held) == (640 // size * size, True)
    for known in range(len(held.blocks) + 1):
        other = Held([1000 + block for block in range(known)])
        other.block_size = size
        assert resident(prefixes, other) == (known * size if known else 0, True)


def test_a_picture_in_the_text_is_few_tokens_in_many_steps_and_breaks_no_search() -> None:
    trail = Trail(tuple(range(1, 5001)), 5000 * 256)
    held, clock = Held(CHAIN), Clock()
    prefixes = Prefixes(clock)
    prefixes.ended("s", trail, 640, 40, held)
    clock.now_s += 1
    prefixes.learn()
    assert prefixes.deepest(trail) == 5000
    for blocks in range(len(CHAIN)):
        found, _ = prefixes.resident(trail, 5000, 640, Memory(), Held(CHAIN[:blocks]))
        assert found <= blocks * SIZE


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 12)), min_size=1, max_size=40), st.integers(1, 60))
def test_what_is_forgotten_of_what_was_learnt_leaves_no_holes(chats: list[tuple[int, int]], room: int) -> None:
    clock = Clock()
    prefixes = Prefixes(clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxy.routing.prefixes.MOST_KNOWN", room)
        for chat, turns in chats:
            trail = Trail(tuple(100 * chat + step for step in range(turns)), turns * 256)
            prefixes.ended("s", trail, turns * 64, 0, Held(CHAIN[: turns * 4]))
            clock.now_s += 1
            prefixes.learn()
        for chat in range(10):
            trail = Trail(tuple(100 * chat + step for step in range(12)), 12 * 256)
            deepest = prefixes.deepest(trail)
            for blocks in range(0, 42, 5):
                prefixes.resident(trail, deepest, 768, Memory(), Held(CHAIN[:blocks]))
