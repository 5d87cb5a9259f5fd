import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.memory import TOKENS_A_MARK, Memory

PROMPTS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20, unique=True)


def test_a_prefix_outlives_what_hung_on_it() -> None:
    memory = Memory(TOKENS_A_MARK * 64)
    shared, tail = list(range(20)), list(range(100, 120))
    memory.read(shared + tail, 1.0)
    for other in range(8):
        memory.read([*shared, *range(1000 * other + 1000, 1000 * other + 1010)], 2.0 + other)
    assert memory.known(shared + tail) == 20


@given(st.lists(PROMPTS, max_size=30))
def test_it_never_keeps_more_than_a_worker_has_room_for(prompts: list[list[int]]) -> None:
    memory = Memory(0)
    for at, marks in enumerate(prompts):
        memory.read(marks, float(at))
        assert len(memory) <= 72 and memory.known(marks) == len(marks)


def test_ten_thousand_unique_prompts_leave_the_memory_bounded_and_small() -> None:  # production-stack#687
    memory = Memory(TOKENS_A_MARK * 10_000)
    tracemalloc.start()
    for prompt in range(10_000):
        memory.read([hash((prompt, step)) for step in range(8)], float(prompt))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(memory) <= 11_250 and size / len(memory) < 200 * 4  # of four vLLM blocks of 16 tokens each


def test_a_worker_that_remembers_nothing_three_times_is_believed_to_be_empty() -> None:  # Fastllm-proxy#22
    memory = Memory()
    memory.read(list(range(100)), 0.0)
    for _ in range(3):
        memory.told(2000, 0)
    assert len(memory) == 0 and memory.emptied == 1 and memory.wasted == 6000 and memory.drift > 0.1


def test_one_forgotten_prompt_is_not_an_empty_worker() -> None:
    memory = Memory()
    memory.read(list(range(100)), 0.0)
    for cached in (0, 2000, 0, 0, 1900):
        memory.told(2000, cached)
    assert len(memory) == 100 and memory.emptied == 0


def test_who_forgets_sooner_than_its_room_would_tell_is_given_less_room() -> None:
    memory = Memory(TOKENS_A_MARK * 1000)
    for _ in range(20):
        memory.told(2000, 500)
    memory.read(list(range(1000)), 0.0)
    assert len(memory) < 200


def test_what_was_read_long_ago_is_not_fresh() -> None:
    memory = Memory()
    memory.read([1, 2], 10.0)
    memory.read([1], 20.0)
    assert memory.known([1, 2], fresh_after_s=15.0) == 1 and memory.known([1, 2]) == 2 and 2 in memory.marks


def test_a_worker_that_boasts_of_its_room_does_not_fill_ours() -> None:
    memory = Memory(10**12)
    assert memory.most * TOKENS_A_MARK < 20_000_000
