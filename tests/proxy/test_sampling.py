"""Which hits are checked, and how much of a worker's time that takes: never more than was allowed, whatever happens."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.sampling import EVERY_ONE, Allowance, Waiting, at_rest, chance, control_chance


def test_while_labels_are_few_every_hit_is_checked_and_later_the_share_that_was_asked_for() -> None:
    assert all(chance(n, 0.02) == 1 for n in range(EVERY_ONE + 1))
    falling = [chance(n, 0.02) for n in range(EVERY_ONE, 1000)]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] == chance(354, 0.02) == 0.02
    assert chance(0, 0.0) == 0, "0 switches it off"
    assert chance(10_000, 1.0) == 1


def test_no_label_drowns_those_before_it() -> None:
    """N labels taken by this rule are worth more than half as many equal ones: see `effective_number`."""
    weight = squares = 0.0
    for n in range(354):
        each = 1 / chance(n, 0.02)
        weight, squares = weight + each, squares + each * each
        assert weight**2 / squares > 0.5 * (n + 1)


def test_the_weighted_share_is_that_of_all_hits() -> None:
    """2,000 hits, the first 300 of them wrong ten times as often; unweighted labels would say 14 %."""
    draw = random.Random(3)
    shares = []
    for _ in range(200):
        wrong = weight = 0.0
        labels = 0
        for hit in range(2000):
            p = chance(labels, 0.02)
            if draw.random() < p:
                labels += 1
                weight += 1 / p
                wrong += (draw.random() < (0.2 if hit < 300 else 0.02)) / p
        shares.append(wrong / weight)
    assert sum(shares) / len(shares) == pytest.approx((300 * 0.2 + 1700 * 0.02) / 2000, abs=0.01)


def test_controls_become_rarer_but_never_stop() -> None:
    assert control_chance(0) == control_chance(50) == 0.5
    assert control_chance(1e6) == 0.1


@given(
    st.floats(0.001, 1.0),
    st.lists(st.tuples(st.floats(0, 500), st.floats(0, 30), st.booleans()), max_size=40),
)
def test_no_worker_is_used_for_longer_than_its_share(share: float, story: list[tuple[float, float, bool]]) -> None:
    """However long checks take and however they end; a check is stopped when its allowance is used up."""
    now_s, allowance = 0.0, Allowance(share, 0.0)
    for idle_s, wanted_s, whole in story:
        now_s += idle_s
        saved_s = allowance.saved(now_s)
        assert saved_s <= share * 3600 + 1e-9, "an idle night does not pay for a busy morning"
        if allowance.ready_in(now_s) > 0:
            continue
        took_s = min(wanted_s, saved_s)
        now_s += took_s
        allowance.spend(took_s, now_s, whole=whole and took_s == wanted_s)
        assert allowance.spent_s <= share * now_s + 1e-6


def test_an_allowance_says_when_it_will_do() -> None:
    allowance = Allowance(0.05, 0.0)
    wait_s = allowance.ready_in(0.0)
    assert 0 < wait_s < 5
    assert allowance.ready_in(wait_s + 0.001) == 0
    assert Allowance(0.0, 0.0).ready_in(1e9) == float("inf")


def test_after_a_check_that_was_too_long_more_is_saved_before_the_next() -> None:
    allowance = Allowance(0.1, 0.0)
    before_s = allowance.ready_in(0.0)
    allowance.spend(allowance.saved(100.0), 100.0, whole=False)
    assert allowance.ready_in(100.0) > before_s


@given(st.lists(st.tuples(st.floats(0, 10), st.sampled_from(["put", "take", "expire"])), max_size=60))
def test_what_waits_is_bounded_fresh_and_in_order(story: list[tuple[float, str]]) -> None:
    waiting: Waiting[int] = Waiting(5, 20.0)
    now_s, put, gone = 0.0, 0, 0
    for number, (passes_s, act) in enumerate(story):
        now_s += passes_s
        if act == "put":
            gone += waiting.put(number, now_s)
            put += 1
        elif act == "take":
            gone += waiting.take(lambda _: True) is not None
        else:
            gone += waiting.expire(now_s)
        assert len(waiting) <= 5
        assert list(waiting) == sorted(waiting)
        assert put == gone + len(waiting), "whatever came either waits or was counted"


def test_the_oldest_leaves_and_what_was_interrupted_comes_first() -> None:
    waiting: Waiting[str] = Waiting(2, 10.0)
    assert [waiting.put(name, 0.0) for name in "abc"] == [0, 0, 1]
    assert waiting.take(lambda name: name == "x") is None
    since_s, taken = waiting.take(lambda name: name == "c") or (0.0, "")
    waiting.put_back(taken, since_s)
    assert list(waiting) == ["c", "b"]
    waiting.put_back("d", 0.0)
    assert list(waiting) == ["c", "b"], "there is no room for it any more"
    assert waiting.expire(10.1) == 2
    assert waiting.clear() == 0


GAUGES = "# TYPE vllm:num_requests_running gauge\n{}\n# TYPE vllm:num_requests_waiting gauge\n{}\n"


@pytest.mark.parametrize(("running", "waiting", "rests"), [
    ('vllm:num_requests_running{engine="0",model_name="m"} 0.0', 'vllm:num_requests_waiting{engine="0"} 0.0', True),
    ('vllm:num_requests_running{engine="0"} 1.0', 'vllm:num_requests_waiting{engine="0"} 0.0', False),
    ('vllm:num_requests_running{engine="0"} 0.0', 'vllm:num_requests_waiting{engine="0"} 2.0', False),
    ('vllm:num_requests_running{engine="0"} 0\nvllm:num_requests_running{engine="1"} 3', "vllm:num_requests_waiting 0",
     False),
    ("vllm:num_requests_running 0", 'vllm:num_requests_waiting_by_reason{reason="capacity"} 0', None),
    ("vllm:num_requests_running zero", "vllm:num_requests_waiting 0", None),
])  # fmt: skip
def test_a_worker_rests_when_it_says_so_and_only_then(running: str, waiting: str, rests: bool | None) -> None:
    assert at_rest(GAUGES.format(running, waiting)) is rests


def test_who_says_nothing_does_not_rest() -> None:
    assert at_rest("") is None
    assert at_rest("<html>") is None
