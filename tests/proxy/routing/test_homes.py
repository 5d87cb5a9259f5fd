from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.homes import Homes


def test_a_session_lives_where_it_was_answered_last() -> None:
    homes = Homes()
    homes.settle("s", "a")
    homes.settle("s", "b")
    assert (lives := homes.of("s")) is not None and lives.url == "b"
    assert homes.counts == {"b": 1} and homes.of("t") is None


def test_a_worker_that_was_restarted_has_lost_what_the_session_told_it() -> None:
    homes = Homes()
    homes.settle("s", "a", 0).tokens = 900
    assert homes.settle("s", "a", 0).tokens == 900
    assert homes.settle("s", "a", 1).tokens == 0


def test_the_longest_silent_session_leaves_first() -> None:
    homes = Homes(most=2)
    for session in ("old", "new", "old", "newest"):
        homes.settle(session, "a")
    assert homes.of("new") is None and homes.of("old") is not None and len(homes) == 2


@given(st.lists(st.tuples(st.sampled_from("stuvw"), st.sampled_from("abc"), st.integers(0, 1))))
def test_counts_are_the_sessions_that_are_known(visits: list[tuple[str, str, int]]) -> None:
    homes = Homes(most=3)
    for session, url, generation in visits:
        homes.settle(session, url, generation)
        lives = [home.url for session in "stuvw" if (home := homes.of(session)) is not None]
        assert homes.counts == Counter(lives) and len(homes) == len(lives) <= 3
