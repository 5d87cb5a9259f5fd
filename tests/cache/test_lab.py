"""What would be decided for a pair of questions: the same parts decide as for users, and nothing is kept of it."""

from pathlib import Path

import pytest
from embedders import Placed

from cache import CacheSettings, Caller, Controls, Kind, Likeness, Rules, ask, judge, open_cache
from cache.lab import Compared
from cache.question import Question, Reach

RESET = "How do I reset my password?"
RESTORE = "How can I reset my password?"
RULES = Rules()


def question(text: str, rules: Rules = RULES, **fields: object) -> Question:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **fields}
    return ask(Kind.CHAT, body, Caller("shop"), Controls(), b"s" * 32, rules=rules)


async def compared(
    asked: str | Question, stored: str | Question, embedder: Placed | None = None, rules: Rules = RULES
) -> Compared:
    settings = CacheSettings(rules, "f", embedder="none", reader="none")
    async with open_cache(settings, embedder=embedder) as cache:
        new, old = (question(each, rules) if isinstance(each, str) else each for each in (asked, stored))
        told = await cache.lab.compare(
            new, judge(new, Controls(), rules), old, judge(old, Controls(), rules), "an answer"
        )
        assert await cache.count() == 0, "nothing is stored"
        assert cache.lab.alarmed("shop", "m") is False
        return told


async def test_equal_questions_need_no_weighing() -> None:
    assert (await compared(RESET, RESET)).likeness is Likeness.EXACT
    told = await compared("please, " + RESET, RESET)
    assert (told.served, told.likeness, told.similarity) == (True, Likeness.WORDING, None)


async def test_a_near_question_is_weighed_as_a_users_would_be() -> None:
    told = await compared(RESTORE, RESET, Placed({RESTORE: 10.0}))
    assert (told.served, told.likeness) == (True, Likeness.MEANING)
    assert told.similarity == pytest.approx(0.985, abs=0.001) and told.threshold == 0.8
    assert told.candidate is not None and told.candidate.against == ()


async def test_every_objection_is_named() -> None:
    five, seven = "Can I return it within 5 days?", "Can I return it within 7 days?"
    told = await compared(five, seven, Placed())
    assert not told.served and told.candidate is not None
    assert "7200 minutes against" in dict(told.candidate.against)["numbers"] and told.similarity == pytest.approx(1.0)
    far = await compared(RESET, "Why is the sky blue?", Placed({RESET: 90.0}))
    assert not far.served and far.candidate is not None
    assert "threshold" in dict(far.candidate.against)


@pytest.mark.parametrize(
    ("asked", "stored", "words"),
    [
        (RESTORE, RESET, "no embedder"),
        ("Write a poem about rain", "Write a poem about snow", "would not be kept"),
        (RESET, "Write a poem about snow", "would not be kept"),
        ("Write a poem about snow", RESET, "Nothing is looked up"),
        (RESET, "What is the weather in Rome today?", "same words only"),
        ("What is the weather in Rome today?", RESET, "by meaning here"),
    ],
)
async def test_where_nothing_is_weighed_it_says_why(asked: str, stored: str, words: str) -> None:
    told = await compared(asked, stored)
    assert not told.served and words in told.why and told.candidate is None


async def test_questions_in_different_scopes_never_meet() -> None:
    told = await compared(RESET, question(RESET, temperature=0.7), Placed())
    assert not told.served and "scopes" in told.why


async def test_a_language_that_nobody_reads_is_not_compared() -> None:
    told = await compared("Как сбросить пароль?", RESET, Placed())
    assert not told.served and "language" in told.why


async def test_equal_words_whose_answer_is_too_long_are_refused_in_words() -> None:
    told = await compared(question(RESET, max_tokens=5), RESET)
    assert not told.served and told.likeness is Likeness.EXACT and "tokens" in told.why


async def test_a_short_reach_is_heeded(tmp_path: Path) -> None:
    told = await compared(RESTORE, RESET, Placed(), Rules(reach=Reach.RECENT))
    assert not told.served and "by meaning here" in told.why
