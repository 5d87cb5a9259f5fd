"""The session tier: what this conversation was told, nobody else, and not for ever."""

import pytest

from cache.entry import Answer, Entry
from cache.question import Kind, Question, Reach, Scope
from cache.tiers.session import SessionTier, private_scope


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def question(
    session: str | None = "ann", key: str = "k", wording: str | None = "w", *, tenant: str = "shop"
) -> Question:
    return Question(
        kind=Kind.CHAT, scope=Scope(tenant, "m", "s"), text="q", key=key, proof="p", wording=wording,
        traits=frozenset(), limit=None,
        session=session,
    )  # fmt: skip


def entry(
    id: int = 1, key: str = "k", wording: str | None = "w", *, tenant: str = "shop", model: str = "m",
    expires_s: float = 9e9,
    reach: Reach = Reach.SESSION,
) -> Entry:  # fmt: skip
    return Entry(
        id=id, kind=Kind.CHAT, scope=Scope(tenant, model, "s"), text="q", key=key, proof="p", wording=wording,
        reach=reach,
        answer=Answer(b"{}", 1), created_s=1000.0, expires_s=expires_s,
    )  # fmt: skip


def found(tier: SessionTier, asked: Question) -> list[int]:
    return [each.id for each in tier.find(asked)]


def test_a_session_is_told_again_what_it_was_told(clock: Clock) -> None:
    tier = SessionTier(clock)
    tier.put(question(), entry())
    assert set(found(tier, question())) == {1}
    assert found(tier, question(key="other")) == [1]  # the same words
    assert found(tier, question(key="other", wording="other")) == []
    assert found(tier, question(key="other", wording=None)) == []


@pytest.mark.parametrize("other", [question("bob"), question(None), question(tenant="bank")])
def test_no_other_session_or_tenant_finds_it(clock: Clock, other: Question) -> None:
    tier = SessionTier(clock)
    tier.put(question(), entry())
    assert found(tier, other) == []


def test_without_a_session_there_is_nowhere_to_keep_it(clock: Clock) -> None:
    tier = SessionTier(clock)
    tier.put(question(None), entry())
    assert len(tier) == 0
    assert 1 not in tier


def test_the_surest_candidate_comes_first(clock: Clock) -> None:
    tier = SessionTier(clock)
    tier.put(question(), entry(1, "a"))
    tier.put(question(), entry(2, "b"))
    assert found(tier, question(key="a")) == [1, 2]


def test_a_session_that_is_silent_is_forgotten_whole(clock: Clock) -> None:
    tier = SessionTier(clock, idle_s=60)
    tier.put(question(), entry())
    clock.now_s += 60
    assert found(tier, question(wording=None)) == [1]  # and this was a sign of life
    clock.now_s += 60
    assert found(tier, question(wording=None)) == [1]
    clock.now_s += 60.1
    assert found(tier, question()) == []
    assert len(tier) == 0


def test_a_silent_session_that_speaks_again_does_not_remember(clock: Clock) -> None:
    tier = SessionTier(clock, idle_s=60)
    tier.put(question(), entry(1, "a", "va"))
    clock.now_s += 61
    tier.put(question(), entry(2, "b", "vb"))
    assert found(tier, question(key="a", wording="va")) == []
    assert set(found(tier, question(key="b", wording="vb"))) == {2}


def test_the_least_recently_used_session_leaves_first(clock: Clock) -> None:
    tier = SessionTier(clock, sessions=2)
    tier.put(question("ann"), entry(1))
    tier.put(question("bob"), entry(2))
    found(tier, question("ann"))
    tier.put(question("cid"), entry(3))
    assert len(tier) == 2
    assert (found(tier, question("bob")), set(found(tier, question("ann")))) == ([], {1})


def test_a_session_is_bounded_in_entries_and_in_bytes(clock: Clock) -> None:
    tier = SessionTier(clock, entries=2)
    for number in range(5):
        tier.put(question(), entry(number, f"k{number}", None))
    assert [each.id for each in tier.matching(None, None)] == [3, 4]
    tier = SessionTier(clock, bytes_limit=700)
    for number in range(5):
        tier.put(question(), entry(number, f"k{number}", None))
    assert [each.id for each in tier.matching(None, None)] == [4]


def test_forgetting_reaches_every_session_that_was_told(clock: Clock) -> None:
    tier = SessionTier(clock)
    for session in ("ann", "bob", "cid"):
        tier.put(question(session), entry(1))
    tier.put(question("cid"), entry(2, "b", "vb"))
    assert tier.forget([1, 99]) == 3
    assert [found(tier, question(session)) for session in ("ann", "bob", "cid")] == [[], [], []]
    assert set(found(tier, question("cid", "b", "vb"))) == {2}
    assert 1 not in tier


def test_a_purge_finds_what_it_must_reach(clock: Clock) -> None:
    tier = SessionTier(clock)
    tier.put(question(tenant="shop"), entry(1, tenant="shop"))
    tier.put(question(tenant="bank"), entry(2, tenant="bank", model="n"))
    assert [each.id for each in tier.matching("shop", None)] == [1]
    assert [each.id for each in tier.matching(None, "n")] == [2]
    assert [each.id for each in tier.matching("shop", "n")] == []
    assert len(tier.matching(None, None)) == 2


def test_what_others_can_find_too_is_dropped_and_what_is_personal_stays(clock: Clock) -> None:
    tier = SessionTier(clock)
    tier.put(question(), entry(1, "a", "va", reach=Reach.SESSION))
    tier.put(question(), entry(2, "b", "vb", reach=Reach.RECENT))
    tier.put(question("bob"), entry(3, "c", "vc", reach=Reach.SIMILAR))
    assert tier.forget_shared() == 2
    assert [each.id for each in tier.matching(None, None)] == [1]


def test_the_sweep_drops_idle_sessions_and_expired_entries(clock: Clock) -> None:
    tier = SessionTier(clock, idle_s=60)
    tier.put(question("ann"), entry(1))
    clock.now_s += 50
    tier.put(question("bob"), entry(2, "a", "va", expires_s=1080.0))
    tier.put(question("bob"), entry(3, "b", "vb"))
    clock.now_s += 31
    assert tier.sweep() == 1
    assert len(tier) == 1
    assert [each.id for each in tier.matching(None, None)] == [3]
    assert [each in tier for each in (1, 2, 3)] == [False, False, True]
    assert tier.forget([3]) == 1


def test_who_invents_sessions_displaces_his_own(clock: Clock) -> None:
    """Ids are free to invent: least recently used over all tenants would empty the neighbours' sessions."""
    tier = SessionTier(clock, sessions=10)
    tier.put(question("ann", tenant="bank"), entry(1, tenant="bank"))
    for n in range(100):
        tier.put(question(f"s{n}"), entry(2 + n))
    assert set(found(tier, question("ann", tenant="bank"))) == {1}
    assert len(tier) == 10
    assert set(found(tier, question("s99"))) == {101} and found(tier, question("s0")) == []


def test_who_holds_most_bytes_gives_way_first(clock: Clock) -> None:
    tier = SessionTier(clock, total_bytes=10_000)
    tier.put(question("ann", tenant="bank"), entry(1, tenant="bank"))
    for n in range(50):
        tier.put(question(f"s{n}"), entry(2 + n))
    assert set(found(tier, question("ann", tenant="bank"))) == {1}
    assert 2 <= len(tier) <= 16


def test_only_the_session_can_name_the_scope_that_its_answers_are_stored_in(clock: Clock) -> None:
    tier = SessionTier(clock, idle_s=60)
    tier.put(question("ann"), entry(1))
    kept = tier.private(entry(1))
    assert kept is not None and kept.expires_s == clock() + 60
    assert kept.scope == private_scope(Scope("shop", "m", "s"), "ann") != private_scope(Scope("shop", "m", "s"), "bob")
    assert tier.private(entry(2)) is None
