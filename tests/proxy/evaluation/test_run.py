"""The way of a question in an evaluation: the real pipeline where it decides, a scripted cache where a test must."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from trials import Scripted, counting, lines, silent, stream, texts

from cache import CacheSettings, Likeness, Rules, Source, TieredCache, open_cache
from proxy.evaluation.packs import Arrival, Pack, PackError, parse
from proxy.evaluation.run import START_S, Labels, OwnClock, Replay

RULES = Rules()
NO_LABELS = Labels()


@contextlib.asynccontextmanager
async def real(**settings: object) -> AsyncIterator[tuple[Replay, TieredCache]]:
    clock = OwnClock()
    wanted = {"embedder": "hashing", **settings}
    async with open_cache(CacheSettings(RULES, "f", **wanted), clock=clock) as cache:  # type: ignore[arg-type]
        yield Replay(cache, RULES, b"secret", clock), cache


def scripted(cache: Scripted) -> Replay:
    return Replay(cache, RULES, b"secret", OwnClock())  # type: ignore[arg-type]


SHOP = stream(
    ("How do I reset my password?", "password"),
    ("How do I reset my password?", "password"),
    ("hello, how do I reset my password", "password"),
    ("Which planets have rings?", "rings"),
)


# ── through the real pipeline ────────────────────────────────────────────────────────────────────────────────────────


async def test_repeats_are_served_by_their_bytes_and_by_their_words() -> None:
    async with real() as (way, _):
        trials = await way.stream(SHOP, NO_LABELS, silent)
    assert [trial.likeness for trial in trials] == [None, Likeness.EXACT, Likeness.WORDING, None]
    assert [trial.right for trial in trials] == [None, True, True, None]
    assert trials[1].stored is not None and trials[1].stored.text == "How do I reset my password?"
    assert all(trial.lookup_s > 0 for trial in trials)


async def test_a_hit_stores_nothing_and_a_miss_stores_one_entry() -> None:
    async with real() as (way, cache):
        await way.stream(SHOP, NO_LABELS, silent)
        assert await cache.count() == 2


async def test_policy_decides_here_as_it_does_in_life() -> None:
    pack = stream(*[("Where is my order 48213?", "1"), ("Write a poem about rain", "2")] * 2)
    async with real() as (way, cache):
        trials = await way.stream(pack, NO_LABELS, silent)
        assert await cache.count() == 0
    assert [trial.reason for trial in trials] == ["personal", "creative"] * 2


@pytest.mark.parametrize(
    ("rules", "reason", "now"),
    [(RULES, "account", "account"), (Rules(account_questions="shared"), "empty-scope", "time-bound")],
)
async def test_a_question_about_the_askers_account_is_named_only_where_that_keeps_it_back(
    rules: Rules, reason: str, now: str
) -> None:
    clock = OwnClock()
    pack = stream(("Where is my order?", "1"), ("Where is my order now?", "2"), ("Where is my order 48213?", "3"))
    async with open_cache(CacheSettings(rules, "f", embedder="hashing"), clock=clock) as cache:
        trials = await Replay(cache, rules, b"secret", clock).stream(pack, NO_LABELS, silent)
    assert [trial.reason for trial in trials] == [reason, now, "personal"]


async def test_equal_words_of_two_tenants_are_not_served_across() -> None:
    rows = ({"query": "How do I pay?", "answer_id": name, "tenant": name} for name in ("acme", "other"))
    async with real() as (way, _):
        trials = await way.stream(parse(lines(*rows), "log"), NO_LABELS, silent)
    assert [trial.likeness for trial in trials] == [None, None]


async def test_no_pair_sees_the_answer_of_another_pair() -> None:
    """The very same text stands in every row; only its own row may serve it."""
    same = {"a": "How do I pay?", "b": "how do i pay", "same": True}
    other = {"a": "Which planets have rings?", "b": "How do I pay?", "same": False}
    async with real() as (way, _):
        trials = await way.pairs(parse(lines(same, other, same, other), "pairs"), silent)
    assert [trial.likeness for trial in trials] == [Likeness.WORDING, None, Likeness.WORDING, None]
    assert [trial.right for trial in trials] == [True, None, True, None]


async def test_a_served_trap_is_a_false_hit() -> None:
    trap = {"a": "How do I pay?", "b": "How do I pay?", "same": False, "category": "label"}
    async with real() as (way, _):
        (trial,) = await way.pairs(parse(lines(trap), "traps"), silent)
    assert (trial.likeness, trial.right, trial.category) == (Likeness.EXACT, False, "label")


async def test_the_times_of_a_log_are_the_times_of_the_replay() -> None:
    """A day later an answer has expired, also in a replay that takes a millisecond."""
    pack = parse(lines(*({"query": "How do I pay?", "at": at} for at in (1000, 2000, 2000 + 86_400))), "l", log=True)
    async with real() as (way, _):
        trials = await way.stream(pack, NO_LABELS, silent)
    assert [trial.likeness for trial in trials] == [None, Likeness.EXACT, None]
    assert trials[1].right is None


async def test_an_answer_that_apologises_is_not_stored() -> None:
    row = {"query": "How do I pay?", "answer": "I'm sorry, I can't help with that."}
    async with real() as (way, _):
        trials = await way.stream(parse(lines(row, row), "log"), NO_LABELS, silent)
    assert [trial.likeness for trial in trials] == [None, None]


async def test_what_a_caller_forbade_then_is_forbidden_in_the_replay() -> None:
    row = {"messages": [{"role": "user", "content": "How do I pay?"}], "cache": {"no-store": True}, "answer_id": "1"}
    async with real() as (way, _):
        trials = await way.stream(parse(lines(row, row), "log"), NO_LABELS, silent)
    assert {trial.reason for trial in trials} == {"request"}


async def test_a_request_that_cannot_be_asked_is_named() -> None:
    row = {"messages": [{"role": "user", "content": "How do I pay?"}], "cache": 7, "answer_id": "1"}
    async with real() as (way, _):
        with pytest.raises(PackError, match=r"'How do I pay\?' cannot be asked: `cache` must be an object"):
            await way.stream(parse(lines(row), "log"), NO_LABELS, silent)


async def test_everybody_is_told_how_far_it_is() -> None:
    seen: list[int] = []
    async with real() as (way, _):
        await way.stream(SHOP, NO_LABELS, counting(seen))
    assert seen == [1, 2, 3, 4]


# ── hits by meaning, as a test wants them ────────────────────────────────────────────────────────────────────────────


ANSWERS = (("How do I pay?", "pay"), ("By which means can I pay?", "pay"), ("How do I get paid?", "wages"))
SERVES = {"By which means can I pay?": ("How do I pay?", 0.995), "How do I get paid?": ("How do I pay?", 0.97)}


async def test_a_hit_is_false_when_the_stored_answer_is_another() -> None:
    trials = await scripted(Scripted(SERVES)).stream(stream(*ANSWERS), NO_LABELS, silent)
    assert [trial.right for trial in trials] == [None, True, False]
    assert [trial.p_right for trial in trials] == [None, 0.995, 0.97]
    assert texts(trials) == [text for text, _ in ANSWERS]


async def test_a_busy_machine_does_not_decide_what_is_a_hit() -> None:
    cache = Scripted(SERVES, busy=2)
    trials = await scripted(cache).stream(stream(*ANSWERS[:2]), NO_LABELS, silent)
    assert [trial.likeness for trial in trials] == [None, Likeness.MEANING]


async def test_labels_carry_the_truth_and_the_weight_of_their_share() -> None:
    many = Pack("shop", SHOP.kind, (*stream(ANSWERS[0]).arrivals, *stream(*ANSWERS[1:]).arrivals * 100))
    cache = Scripted(SERVES)
    await scripted(cache).stream(many, Labels(0.25, seed=1), silent)
    assert 25 <= len(cache.learned) <= 75
    assert {label.weight for label in cache.learned} == {4.0}
    assert {label.source for label in cache.learned} == {Source.SHADOW}
    assert all(label.right is (label.evidence.p_right == 0.995) for label in cache.learned)
    assert all(label.tenant == "shop" and label.at_s > START_S for label in cache.learned)


async def test_the_same_seed_labels_the_same_hits() -> None:
    learned = []
    for seed in (1, 1, 2):
        cache = Scripted(SERVES)
        many = Pack("shop", SHOP.kind, (*stream(ANSWERS[0]).arrivals, *stream(*ANSWERS[1:]).arrivals * 50))
        await scripted(cache).stream(many, Labels(0.3, seed), silent)
        learned.append([label.at_s for label in cache.learned])
    assert learned[0] == learned[1] != learned[2]


async def test_nothing_is_learned_when_no_labels_flow() -> None:
    cache = Scripted(SERVES)
    await scripted(cache).stream(stream(*ANSWERS), NO_LABELS, silent)
    assert cache.learned == []


# ── scores for a curve ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_scores_tell_of_every_question_that_repeats_no_other() -> None:
    cache = Scripted(SERVES)
    scored = await scripted(cache).scores(stream(*ANSWERS, ANSWERS[0]), silent)
    assert [(each.score, each.right) for each in scored] == [(None, False), (0.995, True), (0.97, False)]
    assert [each.cosine for each in scored] == [None, 0.9, 0.9]
    assert all(each.estimated for each in scored)


async def test_a_scored_question_is_stored_unless_its_neighbour_was_right() -> None:
    cache = Scripted(SERVES)
    await scripted(cache).scores(stream(*ANSWERS), silent)
    assert set(cache.entries) == {"How do I pay?", "How do I get paid?"}


async def test_pairs_are_scored_in_scopes_of_their_own() -> None:
    rows = [
        {"a": "How do I pay?", "b": text, "same": same} for text, same in ((ANSWERS[1][0], True), ("Rings?", False))
    ]
    async with real() as (way, _):
        scored = await way.scores(parse(lines(*rows), "pairs"), silent)
    assert len(scored) == 2
    assert all(each.cosine is not None for each in scored)


def test_the_clock_moves_a_second_a_question_and_never_back() -> None:
    clock = OwnClock()
    clock.move()
    clock.move()
    assert clock() == START_S + 2
    clock.move(5.0)
    assert clock() == START_S + 2
    early = OwnClock()
    early.move(100.0)
    assert early() == 100.0


async def test_arrivals_without_a_text_are_asked_all_the_same() -> None:
    picture = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]}
    pack = Pack("pictures", SHOP.kind, (Arrival(picture, "", "1"),) * 2)
    async with real() as (way, _):
        trials = await way.stream(pack, NO_LABELS, silent)
    assert [trial.likeness for trial in trials] == [None, Likeness.EXACT]
