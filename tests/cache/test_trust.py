"""Near is not enough: the threshold, the policy and every guard must agree, on the very candidate that is served."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.entry import Answer, Entry
from cache.policy import Controls, Rules, judge
from cache.question import Kind, Question, Reach, Scope
from cache.trust import Weighed, weigh

SCOPE = Scope("shop", "m", "5" * 32)
QUESTION = Question(
    kind=Kind.CHAT, scope=SCOPE, text="How do I pay 50 euros?", key="k", proof="p", wording="w", traits=frozenset(),
    limit=None,
    session=None,
)  # fmt: skip


def entry(
    text: str | None = "How can I pay 50 euros?", id: int = 1, *, created_s: float = 1000.0, scope: Scope = SCOPE
) -> Entry:
    return Entry(
        id=id, kind=Kind.CHAT, scope=scope, text=text, key=f"k{id}", proof="p", wording=None, reach=Reach.SIMILAR,
        answer=Answer(b"{}", 5), created_s=created_s, expires_s=created_s + 600,
    )  # fmt: skip


def weighed(
    *candidates: tuple[Entry, float],
    floor: float = 0.9,
    question: Question = QUESTION,
    now_s: float = 1100.0,
    **controls: float,
) -> Weighed:
    return weigh(question, candidates, floor, judge(question, Controls(**controls), Rules()), now_s)  # type: ignore[arg-type]


def test_the_nearest_that_nobody_objects_to_is_served() -> None:
    one, two = entry(id=1), entry(id=2)
    assert weighed((one, 0.97), (two, 0.95)) == Weighed(one, 0.97, ())


def test_what_is_below_the_threshold_is_not_served() -> None:
    found = weighed((entry(), 0.899))
    assert (found.chosen, found.similarity) == (None, None)
    assert [(r.by, r.similarity) for r in found.refused] == [("threshold", 0.899)]


@pytest.mark.parametrize(("asked", "served"), [(None, True), (0.5, True), (0.95, True), (0.951, False), (1.0, False)])
def test_the_caller_may_tighten_the_threshold_and_never_loosen_it(asked: float | None, served: bool) -> None:
    controls = {} if asked is None else {"threshold": asked}
    assert (weighed((entry(), 0.95), **controls).chosen is not None) is served
    assert weighed((entry(), 0.85), **controls).chosen is None


def test_a_farther_candidate_is_held_to_the_same_threshold() -> None:
    """BetterDB's `check()` tested the nearest one only and served another."""
    other = entry("How can I pay 60 euros?", 1)
    found = weighed((other, 0.97), (entry(id=2), 0.89))
    assert found.chosen is None
    assert [r.by for r in found.refused] == ["numbers", "threshold"]


def test_when_the_nearest_is_refused_the_next_may_be_served() -> None:
    wrong, right = entry("How can I pay 60 euros?", 1), entry(id=2)
    found = weighed((wrong, 0.97), (right, 0.95))
    assert (found.chosen, found.similarity) == (right, 0.95)
    assert [(r.entry_id, r.text) for r in found.refused] == [(1, "How can I pay 60 euros?")]
    assert found.refused[0].reason


@pytest.mark.parametrize(
    "stored",
    [entry(created_s=100.0), entry(scope=Scope("bank", "m", "5" * 32)), entry(scope=replace(SCOPE, key="6" * 32))],
)
def test_an_index_cannot_carry_an_answer_past_the_policy(stored: Entry) -> None:
    found = weighed((stored, 1.0))
    assert found.chosen is None
    assert [r.by for r in found.refused] == ["policy"]


def test_a_question_without_text_is_never_near_anything() -> None:
    assert weighed((entry(), 1.0), question=replace(QUESTION, text=None)) == Weighed(None, None, ())


def test_an_entry_without_text_is_never_near_anything() -> None:
    assert weighed((entry(None), 1.0)).chosen is None


def test_no_candidate_is_read_after_the_first_that_is_too_far() -> None:
    def candidates() -> Iterator[tuple[Entry, float]]:
        yield entry(), 0.5
        raise AssertionError("read on")

    verdict = judge(QUESTION, Controls(), Rules())
    assert len(weigh(QUESTION, candidates(), 0.9, verdict, 1100.0).refused) == 1


TEXTS = [
    "How can I pay 50 euros?",
    "How can I pay 60 euros?",
    "How do I pay 50 euros?",
    "How do I not pay 50 euros?",
    "怎么付款？",
]
CANDIDATES = st.lists(
    st.tuples(
        st.builds(entry, st.sampled_from(TEXTS), st.integers(1, 99), created_s=st.sampled_from([100.0, 1000.0])),
        st.floats(0, 1),
    ),
    max_size=5,
).map(lambda found: sorted(found, key=lambda each: -each[1]))


@given(CANDIDATES, st.floats(0, 1), st.floats(0, 1))
def test_stricter_never_serves_more(candidates: list[tuple[Entry, float]], one: float, two: float) -> None:
    loose, strict = (weighed(*candidates, floor=each) for each in sorted((one, two)))
    if strict.chosen is not None:
        assert loose.chosen == strict.chosen
    if loose.similarity is not None:
        assert loose.similarity >= min(one, two)


@given(CANDIDATES, st.floats(0.5, 1))
def test_everything_read_is_either_chosen_or_refused_with_a_reason(
    candidates: list[tuple[Entry, float]], floor: float
) -> None:
    found = weighed(*candidates, floor=floor)
    assert len(found.refused) + (found.chosen is not None) <= len(candidates)
    assert all(refusal.by and refusal.reason for refusal in found.refused)
    if candidates and found.chosen is None:
        assert found.refused
