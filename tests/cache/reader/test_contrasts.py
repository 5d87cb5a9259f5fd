"""Which pairs teach: near ones with another answer, and near as well as far ones with the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cache.reader.contrasts import contrasts, general


def circle(count: int) -> np.ndarray:
    turns = np.linspace(0, np.pi, count)
    return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)


def test_the_wrong_pairs_are_the_nearest_with_another_answer() -> None:
    found = contrasts(circle(6), ["a", "b", "a", "b", "a", "b"], range(6), each=1)
    wrong = {(min(pair.a, pair.b), max(pair.a, pair.b)) for pair in found if not pair.same}
    assert wrong <= {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)}
    assert all(any(place in pair for pair in wrong) for place in range(6))


def test_far_questions_of_one_answer_are_taught_too() -> None:
    found = contrasts(circle(40), ["a", "b"] * 20, range(40), each=4)
    assert max(abs(pair.a - pair.b) for pair in found if pair.same) > 10


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=12), st.integers(1, 4))
def test_no_pair_twice_none_with_itself_and_every_label_true(answers: list[str], each: int) -> None:
    among = range(0, len(answers), 2)
    found = contrasts(circle(len(answers)), answers, among, each)
    assert len({frozenset((pair.a, pair.b)) for pair in found}) == len(found)
    for pair in found:
        assert pair.a != pair.b and pair.a in among and pair.b in among
        assert pair.same == (answers[pair.a] == answers[pair.b])


def test_some_of_our_own_pairs_in_both_languages_keep_what_was_known() -> None:
    pairs = general()
    chinese = sum(any("\u4e00" <= sign <= "\u9fff" for sign in a) for a, _, _ in pairs)
    assert len(pairs) > 300 and 100 < chinese < len(pairs) - 100
    assert 0.3 < sum(same for _, _, same in pairs) / len(pairs) < 0.7
