"""Which answers are served most, with bounded memory and a known error."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from proxy.popular import Often, Popular


def test_few_are_counted_exactly() -> None:
    popular = Popular()
    for entry_id in (1, 2, 1, 3, 1, 2):
        popular.note(entry_id)
    assert popular.top(2) == [Often(1, 3, 0), Often(2, 2, 0)]


@given(st.lists(st.integers(0, 30), max_size=300), st.integers(5, 20))
def test_a_count_is_never_too_low_and_says_by_how_much_it_may_be_too_high(served: list[int], most: int) -> None:
    popular, true = Popular(most), Counter(served)
    for entry_id in served:
        popular.note(entry_id)
    top = popular.top(100)
    assert len(top) <= most
    for often in top:
        assert often.times - often.over <= true[often.entry_id] <= often.times


def test_what_is_hot_stays_among_many_that_come_once() -> None:
    popular = Popular(50)
    for number in range(5_000):
        popular.note(1_000_000 + number)
        if number % 10 == 0:
            popular.note(7)
    assert popular.top(1)[0].entry_id == 7
