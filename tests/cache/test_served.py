"""Siblings: which questions were served with an entry that was made for another one."""

from entries import SCOPE, entry

from cache.entry import Entry, Hit, Likeness
from cache.evidence import Evidence
from cache.question import Kind, Question, Scope
from cache.served import ServedLog

SEEN = Evidence(0.9, (1.0,), 0.98, "c")


def asked(text: str | None, scope: Scope = SCOPE) -> Question:
    return Question(Kind.CHAT, scope, text, "k", "p", None, frozenset(), None, None)


def hit(of: Entry, likeness: Likeness = Likeness.MEANING) -> Hit:
    return Hit(of, "similar", likeness, 1.0, 0.9, evidence=SEEN)


def test_what_was_found_by_meaning_is_remembered_with_its_evidence() -> None:
    log, one = ServedLog(), entry()
    log.note(asked("how come the sky is blue?"), hit(one), 5.0)
    (served,) = log.siblings(one.id)
    assert (served.text, served.scope, served.evidence, served.at_s) == ("how come the sky is blue?", SCOPE, SEEN, 5.0)


def test_whoever_asked_the_same_is_no_sibling() -> None:
    log, one = ServedLog(), entry()
    for likeness in (Likeness.EXACT, Likeness.WORDING):
        log.note(asked("the same"), hit(one, likeness), 5.0)
    log.note(asked(None), hit(one), 5.0)
    assert log.siblings(one.id) == () and len(log) == 0


def test_it_stays_small() -> None:
    log = ServedLog(entries=3, each=2, waiting=3)
    kept = [entry(str(number)) for number in range(5)]
    for each in kept:
        for text in ("a", "b", "c"):
            log.note(asked(text), hit(each), 1.0)
    assert [len(log.siblings(each.id)) for each in kept] == [0, 0, 2, 2, 2]
    assert [served.text for served in log.siblings(kept[4].id)] == ["b", "c"]
    assert sum(log.suspect(each.id) for each in kept) == 6
    assert len(log) == 0
    assert sum(log.next_suspect() is not None for _ in range(10)) == 3


def test_an_entry_that_is_served_again_outlives_those_that_are_not() -> None:
    log, one, two, three = ServedLog(entries=2), entry("1"), entry("2"), entry("3")
    for each in (one, two, one, three):
        log.note(asked("q"), hit(each), 1.0)
    assert [bool(log.siblings(each.id)) for each in (one, two, three)] == [True, False, True]


def test_what_is_forgotten_is_forgotten_here_too() -> None:
    log, mine, other = ServedLog(), entry("1"), entry("2", scope=Scope("other", "model", "s"))
    for each in (mine, other):
        log.note(asked("private", each.scope), hit(each), 1.0)
        log.suspect(each.id)
        log.note(asked("private", each.scope), hit(each), 1.0)
    log.forget("other", None)
    assert (len(log.siblings(mine.id)), len(log.siblings(other.id))) == (1, 0)
    assert log.next_suspect() is not None and log.next_suspect() is None
    log.forget_entries([mine.id])
    assert len(log) == 0
