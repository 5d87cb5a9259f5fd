"""A bench that miscounts flatters somebody: traces, rivals' rules and accounts are checked on small runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from deploy.simulator.blocks import chain
from deploy.simulator.traces import LOAD, NAMES, Ask, Message, Trace, build, middle, works_s
from tests.bench.routing import SHAPE, Run, compare, faults_of, oracle_of
from tests.bench.routing_policies import POLICIES, CacheAware, ConsistentHash, LeastLoaded, RoundRobin

WORKERS = 4
SIZE = 0.1
NOBODY: frozenset[int] = frozenset()


@pytest.fixture(scope="module", params=NAMES)
def trace(request: pytest.FixtureRequest) -> Trace:
    return build(request.param, WORKERS, SHAPE, seed=3, size=SIZE)


@pytest.fixture(scope="module")
def chats() -> Trace:
    return build("B", WORKERS, SHAPE, seed=3, size=SIZE)


def asked(text: Ask, session: str | None = None, prompt: int = 160, first: int = 1) -> Ask:
    """An ask whose blocks are `first`, `first` + 1, …"""
    return replace(text, session=session, prompt_tokens=prompt, hashes=tuple(range(first, first + prompt // 16)))


# -- traces ----------------------------------------------------------------------------------------------------------


def test_the_hashes_of_a_trace_are_those_of_its_words(trace: Trace) -> None:
    for ask in trace.asks[:: max(1, len(trace.asks) // 50)]:
        assert chain(ask.tokens()) == ask.hashes
        words = sum(len(each["content"].split()) for each in ask.body()["messages"])
        assert words == ask.prompt_tokens - 1 - 2 * len(ask.messages), "a word is a token; each turn has two marks"


def test_a_trace_asks_in_order_and_the_same_seed_asks_the_same(trace: Trace) -> None:
    assert [ask.index for ask in trace.asks] == list(range(len(trace.asks)))
    assert all(ask.after is None or ask.after < ask.index for ask in trace.asks)
    again = build(trace.name, WORKERS, SHAPE, seed=3, size=SIZE)
    other = build(trace.name, WORKERS, SHAPE, seed=4, size=SIZE)
    assert [(ask.hashes, ask.wait_s) for ask in again.asks] == [(ask.hashes, ask.wait_s) for ask in trace.asks]
    assert again.asks[0].hashes != other.asks[0].hashes


def test_the_next_turn_of_a_chat_goes_on_from_the_answer_before(chats: Trace) -> None:
    later = [ask for ask in chats.asks if ask.after is not None]
    assert len(later) > len(chats.asks) // 2
    for ask in later:
        before = chats.asks[ask.after or 0]
        assert before.session == ask.session
        assert ask.tokens()[: len(before.tokens())] == before.tokens()


def test_the_agents_never_ask_two_at_once() -> None:
    agents = build("D", WORKERS, SHAPE, seed=3, size=SIZE)
    assert [ask.after for ask in agents.asks] == [None, *range(len(agents.asks) - 1)]


@pytest.mark.parametrize("name", ["A", "C"])
def test_arrivals_fill_the_share_of_the_workers_time_that_they_should(name: str) -> None:
    made = build(name, WORKERS, SHAPE, seed=3, size=SIZE)
    first, last = middle(len(made.asks))
    works = sorted(zip([ask.wait_s for ask in made.asks], works_s(made.asks, SHAPE), strict=True))
    load = sum(work for _, work in works[first:last]) / (WORKERS * (works[last][0] - works[first][0]))
    assert load == pytest.approx(LOAD, abs=0.01)


def test_there_is_no_other_trace() -> None:
    with pytest.raises(ValueError, match="not 'F'"):
        build("F", WORKERS, SHAPE)


# -- runs ------------------------------------------------------------------------------------------------------------


def test_every_policy_finishes_every_trace_and_none_finds_more_than_the_oracle(trace: Trace) -> None:
    results = compare(trace, tuple(POLICIES), WORKERS)
    assert [each.policy for each in results] == ["oracle", *POLICIES]
    for each in results:
        assert each.requests == len(trace.asks)
        assert (each.failed, each.broken, each.retried) == (0, 0, 0), each.policy
        assert each.of_oracle <= 1.0, each.policy
        assert 1.0 <= each.total_skew <= WORKERS + 1e-9
        assert each.ttft_p50 <= each.ttft_p99
    told = {each.policy: each for each in results}
    assert told["oracle"].utilisation <= 0.75
    assert told["rejoinder"].utilisation <= 0.75


def test_a_run_can_be_repeated(chats: Trace) -> None:
    first, second = (compare(chats, ["rejoinder_events"], WORKERS)[1] for _ in range(2))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_every_prompt_is_counted_at_the_worker_that_read_it(chats: Trace) -> None:
    run = Run(chats, "round_robin", WORKERS, SHAPE)
    run.go()
    metrics = [engine.metrics() for engine in run.engines]
    assert sum(each.prompt_tokens for each in metrics) == sum(ask.prompt_tokens for ask in chats.asks)
    assert sum(each.prompt_tokens_cached for each in metrics) == run.cached_tokens
    written = sum(ask.output_tokens for ask in chats.asks)
    assert sum(account.total for account in run.accounts) == run.prompt_tokens + written
    assert len(run.ttft) == len(chats.asks)


def test_waiting_behind_other_prefills_is_part_of_the_first_token(chats: Trace) -> None:
    ask = replace(chats.asks[0], after=None, wait_s=0.0)
    other = replace(ask, index=1, hashes=tuple(each + 1 for each in ask.hashes))
    run = Run(Trace("two", [ask, other]), "round_robin", 1, SHAPE)
    run.go()
    one_s = SHAPE.timing.prefill_s(ask.prompt_tokens)
    assert run.ttft[0] == pytest.approx(one_s)
    assert run.ttft[1] > 2 * one_s


def test_the_oracle_has_one_cache_for_all_and_their_speed(chats: Trace) -> None:
    oracle = oracle_of(chats, WORKERS, SHAPE)
    assert len(oracle.engines) == 1
    assert oracle.engines[0].shape.blocks == WORKERS * SHAPE.blocks
    assert oracle.hit_rate() > 0.8


# -- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_a_killed_worker_breaks_only_the_answers_it_was_giving(chats: Trace, policy: str) -> None:
    result = compare(chats, [policy], WORKERS, faults=["kill"])[1]
    assert result.failed == 0
    assert 0 < result.homeless < len({ask.thread for ask in chats.asks})
    assert 1 / WORKERS < result.fullest <= 1.0


def test_the_first_healthy_worker_gets_every_session_that_consistent_hashing_moves(chats: Trace) -> None:
    kept = compare(chats, ["consistent_hash"], WORKERS, faults=["kill"])[1]
    assert (kept.fullest, kept.strays) == (1.0, 0.0)


def test_a_worker_that_joins_is_used_and_one_that_leaves_is_not(chats: Trace) -> None:
    run = Run(chats, "round_robin", WORKERS, SHAPE, faults_of("scale", WORKERS))
    run.go()
    assert len(run.engines) == WORKERS + 1
    assert run.engines[WORKERS].metrics().request_success > 0
    left = run.engines[WORKERS // 2].metrics().request_success
    assert 0 < left < max(engine.metrics().request_success for engine in run.engines)
    assert len(run.ttft) == len(chats.asks)


def test_when_all_are_dead_requests_fail_and_the_trace_still_ends(chats: Trace) -> None:
    run = Run(chats, "rejoinder", 1, SHAPE, faults_of("kill", 1))
    run.go()
    assert run.failed > 0
    assert run.failed + len(run.ttft) == len(chats.asks)


# -- the rivals' rules -----------------------------------------------------------------------------------------------


def test_round_robin_takes_turns_and_passes_over_who_is_down(chats: Trace) -> None:
    policy = RoundRobin()
    for worker in range(3):
        policy.join(worker)
    policy.down(1)
    assert [policy.choose(chats.asks[0], NOBODY) for _ in range(4)] == [0, 2, 0, 2]
    policy.up(1)
    assert {policy.choose(chats.asks[0], NOBODY) for _ in range(3)} == {0, 1, 2}


def test_least_loaded_counts_what_is_in_flight(chats: Trace) -> None:
    policy = LeastLoaded()
    policy.join(0)
    policy.join(1)
    ask = chats.asks[0]
    assert [policy.choose(ask, NOBODY) for _ in range(3)] == [0, 1, 0]
    policy.end(ask, 0, 0)
    policy.fail(ask, 0)
    assert policy.choose(ask, NOBODY) == 0
    with pytest.raises(LookupError):
        policy.choose(ask, frozenset({0, 1}))


def test_consistent_hashing_keeps_a_session_and_scatters_requests_without_one(chats: Trace) -> None:
    policy = ConsistentHash()
    for worker in range(4):
        policy.join(worker)
    ask = chats.asks[0]
    assert len({policy.choose(asked(ask, "s", first=first), NOBODY) for first in range(1, 200, 20)}) == 1
    chosen = Counter(policy.choose(asked(ask, first=first), NOBODY) for first in range(1, 20_000, 20))
    assert len(chosen) == 4 and max(chosen.values()) < 400


def test_cache_aware_follows_the_prefix_if_it_is_more_than_a_third_of_the_prompt(chats: Trace) -> None:
    policy = CacheAware()
    policy.join(0)
    policy.join(1)
    text = chats.asks[0]
    assert policy.choose(asked(text), NOBODY) == 0
    longer = replace(asked(text), prompt_tokens=320, hashes=(*range(1, 11), *range(101, 111)))
    assert policy.choose(longer, NOBODY) == 0, "half of it is there"
    other = replace(asked(text), prompt_tokens=320, hashes=(1, 2, 3, *range(201, 218)))
    assert policy.choose(other, NOBODY) == 1, "a fifth of it is not enough"


def test_cache_aware_forgets_all_affinity_when_loads_differ_too_much(chats: Trace) -> None:
    policy = CacheAware()
    policy.join(0)
    policy.join(1)
    chosen = [policy.choose(asked(chats.asks[0]), NOBODY) for _ in range(66)]
    assert chosen == [0] * 65 + [1]


def test_cache_aware_keeps_a_session_where_it_was_until_that_worker_dies(chats: Trace) -> None:
    policy = CacheAware()
    for worker in range(3):
        policy.join(worker)
    text = chats.asks[0]
    policy.choose(asked(text), NOBODY)
    assert policy.choose(asked(text, "s", first=500), NOBODY) == 1
    assert policy.choose(asked(text, "s", first=900), NOBODY) == 1
    policy.down(1)
    assert policy.choose(asked(text, "s", first=900), NOBODY) == 0, "the first healthy one"


def test_a_message_is_what_its_tokens_say(chats: Trace) -> None:
    message = chats.asks[0].messages[0]
    assert isinstance(message, Message)
    assert len(message.content.split()) == len(message.ids)
    assert 3.5 < len(message.content) / len(message.ids) <= 4
