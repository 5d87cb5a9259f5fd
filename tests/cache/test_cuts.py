"""Cut answers are kept to be continued by who sends the same bytes, and for nobody else."""

from dataclasses import replace

from chats import RULES, asked, chat
from house import Clock

from cache.cuts import Cuts
from cache.entry import Answer
from cache.forgetting import Forgettings
from cache.policy import Controls, judge
from cache.protocols import Selection

BODY = b'{"choices":[]}'


def kept(cuts: Cuts, limit: int = 8, tokens: int = 8, since: int = 0, text: str = "Why is the sky blue?") -> bool:
    question = asked(chat(text), max_tokens=limit)
    return cuts.keep(question, judge(question, Controls(), RULES), Answer(BODY, tokens), tokens, since)


def found(cuts: Cuts, limit: int | None, text: str = "Why is the sky blue?", session: str | None = None) -> int | None:
    question = asked(chat(text), **({"max_tokens": limit} if limit is not None else {}))
    question = replace(question, session=session)
    entry = cuts.find(question, judge(question, Controls(), RULES))
    return entry.id if entry is not None else None


def test_who_accepts_more_gets_the_beginning_and_who_does_not_gets_nothing() -> None:
    cuts = Cuts(Clock(), Forgettings())
    assert kept(cuts)
    assert [found(cuts, limit) for limit in (None, 9, 8, 3)] == [8, 8, None, None]
    assert found(cuts, 9, "why is the sky blue") is None, "the same words are not the same prompt"


def test_the_longer_of_two_beginnings_stays() -> None:
    cuts = Cuts(Clock(), Forgettings())
    assert kept(cuts, tokens=8) and not kept(cuts, tokens=5) and kept(cuts, tokens=12)
    assert found(cuts, None) == 12 and len(cuts) == 1


def test_what_is_personal_is_continued_in_its_session_only() -> None:
    cuts = Cuts(Clock(), Forgettings())
    question = replace(asked(chat("What is my account balance?")), session="ann")
    assert cuts.keep(question, judge(question, Controls(), RULES), Answer(BODY, 8), 1, 0)
    assert [found(cuts, 20, question.text or "", name) for name in ("ann", "bob", None)] == [1, None, None]


def test_a_beginning_ends_with_its_life_and_with_a_purge() -> None:
    clock, forgettings = Clock(), Forgettings()
    cuts = Cuts(clock, forgettings)
    assert kept(cuts)
    clock.pass_by(RULES.ttl_s + 1)
    assert found(cuts, None) is None
    assert kept(cuts, tokens=3), "one that has expired gives way to a shorter one"
    assert cuts.forget([each.id for each in cuts.matching(None, None)]) == 1 and found(cuts, None) is None
    forgettings.note(Selection())
    assert not kept(cuts, since=0), "it was asked for before its like was forgotten"
