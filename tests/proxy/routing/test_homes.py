"""Where sessions live: settled by answers, bounded, and counted without drift."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.homes import Homes

A, B = "http://a:8000", "http://b:8000"


def test_a_new_session_has_no_home_and_an_answered_one_has() -> None:
    homes = Homes()
    assert homes.of("ann") is None
    homes.settle("ann", A)
    assert homes.of("ann") == A
    assert len(homes) == 1


def test_a_session_lives_where_it_was_answered_last() -> None:
    homes = Homes()
    homes.settle("ann", A)
    homes.settle("ann", B)
    assert homes.of("ann") == B
    assert (homes.counts[A], homes.counts[B]) == (0, 1)


def test_a_session_that_stays_is_counted_once() -> None:
    homes = Homes()
    for _ in range(5):
        homes.settle("ann", A)
    assert homes.counts[A] == 1


@pytest.mark.parametrize("moved", [False, True])
def test_the_longest_silent_session_leaves_first(moved: bool) -> None:
    homes = Homes(most=2)
    homes.settle("ann", A)
    homes.settle("bob", A)
    homes.settle("ann", B if moved else A)  # ann spoke again
    homes.settle("cid", A)
    assert [homes.of(session) is not None for session in ("ann", "bob", "cid")] == [True, False, True]
    assert sum(homes.counts.values()) == len(homes) == 2


def test_asking_where_a_session_lives_moves_nobody() -> None:
    homes = Homes(most=2)
    homes.settle("ann", A)
    homes.settle("bob", A)
    homes.of("ann")
    homes.settle("cid", A)
    assert homes.of("ann") is None


@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from([A, B, "http://c:8000"])), max_size=60))
def test_the_counts_are_what_counting_would_give(turns: list[tuple[str, str]]) -> None:
    homes = Homes(most=4)
    for session, url in turns:
        homes.settle(session, url)
        living = Counter(home for each in "abcdefg" if (home := homes.of(each)) is not None)
        assert {url: count for url, count in homes.counts.items() if count} == living
        assert len(homes) == living.total() <= 4
