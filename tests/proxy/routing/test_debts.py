"""What homes lack after hits: never more than there is room for, never paid twice, never for the wrong worker."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.choice import Prompt
from proxy.routing.debts import Debt, Debts, Paid, Payments, Use
from proxy.routing.trail import Trail

SESSIONS = st.sampled_from("abcdef")
HOMES = st.sampled_from(["http://one", "http://two"])


def debt(session: str = "a", url: str = "http://one", *, since_s: float = 0.0, size: int = 100) -> Debt:
    return Debt(session, url, 1, b"x" * size, Prompt("m", session, Trail((1, 2), 600)), 1, 700, since_s)


def test_a_newer_turn_takes_the_place_of_the_older_one() -> None:
    debts = Debts()
    assert debts.owe(debt(since_s=1)) == debts.owe(debt(since_s=2)) == 0
    assert len(debts) == debts.at("http://one") == 1
    assert debts.take("http://one") == debt(since_s=2)
    assert debts.take("http://one") is None and debts.bytes == 0


def test_a_real_generation_settles_it() -> None:
    debts = Debts()
    debts.owe(debt())
    assert debts.settle("a") == debt()
    assert debts.settle("a") is None and debts.at("http://one") == 0


def test_the_oldest_is_paid_first_and_one_that_was_broken_off_before_all() -> None:
    debts = Debts()
    for session in "abc":
        debts.owe(debt(session))
    first = debts.take("http://one")
    assert first is not None and first.session == "a"
    debts.put_back(first)
    again = debts.take("http://one")
    assert again is not None and (again.session, again.tries) == ("a", 1)


def test_what_was_broken_off_does_not_take_the_place_of_a_newer_turn() -> None:
    debts = Debts()
    debts.owe(debt(since_s=1))
    old = debts.take("http://one")
    debts.owe(debt(since_s=2))
    assert old is not None
    debts.put_back(old)
    assert debts.take("http://one") == debt(since_s=2) and not len(debts)


def test_large_ones_leave_less_room() -> None:
    debts = Debts(most_bytes=1000)
    assert [debts.owe(debt(session, size=400)) for session in "abc"] == [0, 0, 1]
    assert debts.settle("a") is None, "the oldest left"
    assert debts.owe(debt("d", size=2000)) == 3, "one that is too large is not kept at all"
    assert debts.bytes == len(debts) == 0


def test_nobody_is_warmed_for_a_chat_that_has_ended() -> None:
    debts = Debts(patience_s=120)
    debts.owe(debt("a", since_s=0))
    debts.owe(debt("b", since_s=100))
    assert debts.expire(120.0) == 0
    assert debts.expire(121.0) == 1
    assert debts.settle("a") is None and debts.settle("b") is not None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["owe", "take", "put back", "settle", "expire", "clear"]), SESSIONS, HOMES,
            st.integers(0, 500), st.floats(0, 60),
        ),
        max_size=60,
    )
)  # fmt: skip
def test_whatever_happens_the_books_are_right(story: list[tuple[str, str, str, int, float]]) -> None:
    debts = Debts(most=4, most_bytes=1500, patience_s=50)
    now_s, owed, gone, held = 0.0, 0, 0, []
    for act, session, url, size, passes_s in story:
        now_s += passes_s
        before = len(debts)
        if act == "owe":
            owed += 1
            gone += session in debts._debts
            gone += debts.owe(debt(session, url, since_s=now_s, size=size))
        elif act == "take":
            taken = debts.take(url)
            assert (taken is None) == (before == len(debts))
            assert taken is None or taken.url == url
            gone += taken is not None
            held += [taken] if taken is not None else []
        elif act == "put back" and held:
            debts.put_back(held.pop())
            gone -= len(debts) - before
        elif act == "settle":
            gone += debts.settle(session) is not None
        elif act == "expire":
            gone += debts.expire(now_s)
            assert all(now_s - each.since_s <= 50 for each in debts._debts.values())
        elif act == "clear":
            gone += debts.clear()
        assert owed == gone + len(debts)
        assert len(debts) <= 4 and debts.bytes <= 1500
        assert debts.bytes == sum(each.bytes for each in debts._debts.values())
        assert sum(debts.at(home) for home in ("http://one", "http://two")) == len(debts)


# ── what became of it ────────────────────────────────────────────────────────────────────────────────────────────────


def paid(*, url: str = "http://one", computed: int = 900, cached: int | None = 200, at_s: float = 0.0) -> Paid:
    return Paid(url, 1, computed, cached, at_s)


def test_a_warm_up_saved_what_the_next_turn_found_beyond_what_was_there_before() -> None:
    for found, saved in ((1096, 896), (200, 0), (0, 0), (5000, 900)):
        payments = Payments()
        assert payments.paid("a", paid()) == Use()
        assert payments.generated("a", "http://one", 1, found) == Use(saved, 900 - saved)
        assert payments.generated("a", "http://one", 1, found) == Use(), "it counts once"


def test_a_warm_up_that_the_next_turn_did_not_come_to_was_for_nothing() -> None:
    payments = Payments()
    for url, generation in (("http://two", 1), ("http://one", 2)):
        payments.paid("a", paid())
        assert payments.generated("a", url, generation, 1000) == Use(wasted=900)


def test_a_worker_that_does_not_tell_leaves_it_unknown() -> None:
    payments = Payments()
    payments.paid("a", paid())
    assert payments.generated("a", "http://one", 1, None) == Use(unknown=900)
    payments.paid("a", paid(cached=None))
    assert payments.generated("a", "http://one", 1, 1000) == Use(unknown=900)


def test_two_hits_in_a_row_are_one_warm_up_on_the_other() -> None:
    payments = Payments()
    payments.paid("a", paid(computed=900, cached=200))
    assert payments.paid("a", paid(computed=600, cached=1100)) == Use()
    assert payments.generated("a", "http://one", 1, 1600) == Use(1400, 100)
    payments.paid("a", paid())
    assert payments.paid("a", paid(url="http://two")) == Use(wasted=900), "the chat has moved"


def test_nobody_came() -> None:
    payments = Payments(patience_s=120)
    payments.paid("a", paid(at_s=0))
    payments.paid("b", paid(at_s=100))
    assert payments.expire(121) == Use(wasted=900)
    assert len(payments) == 1


@given(st.lists(st.tuples(st.sampled_from(["paid", "generated", "expire"]), SESSIONS, HOMES,
                          st.one_of(st.none(), st.integers(0, 3000)), st.integers(0, 2000), st.floats(0, 60)),
                max_size=60))  # fmt: skip
def test_every_computed_token_is_counted_exactly_once(
    story: list[tuple[str, str, str, int | None, int, float]],
) -> None:
    payments = Payments(most=3, patience_s=50)
    now_s = spent = counted = 0.0
    for act, session, url, cached, computed, passes_s in story:
        now_s += passes_s
        if act == "paid":
            spent += computed
            use = payments.paid(session, Paid(url, 1, computed, cached, now_s))
        elif act == "generated":
            use = payments.generated(session, url, 1, cached)
        else:
            use = payments.expire(now_s)
        assert min(use.saved, use.wasted, use.unknown) >= 0
        counted += use.saved + use.wasted + use.unknown
        assert len(payments) <= 3
    assert counted + sum(each.computed for each in payments._paid.values()) == spent
