"""Whole conversations in an evaluation: told turn by turn, with what the cache itself answered before."""

import contextlib
import json
from collections.abc import AsyncIterator

import pytest
from trials import lines, silent

from cache import CacheSettings, Likeness, Rules, open_cache
from proxy.evaluation.packs import PackError, PackKind, parse
from proxy.evaluation.report import report
from proxy.evaluation.run import Labels, OwnClock, Replay, Trial


@contextlib.asynccontextmanager
async def real(**rules: bool) -> AsyncIterator[Replay]:
    clock, made = OwnClock(), Rules(**rules)  # type: ignore[arg-type]
    async with open_cache(CacheSettings(made, "f", embedder="hashing"), clock=clock) as cache:
        yield Replay(cache, made, b"secret", clock)


def row(*turns: tuple[str, str, str, bool], name: str = "c") -> dict[str, object]:
    """turns: (question, answer id, answer, whether it leans)."""
    messages: list[dict[str, object]] = []
    for said, answer_id, answer, leaning in turns:
        messages.append({"role": "user", "content": said, "answer_id": answer_id, "context_dependent": leaning})
        messages.append({"role": "assistant", "content": answer})
    return {"conversation_id": name, "messages": messages}


CARD = ("How do I report a stolen card?", "card", "Call us at once.", False)
HOURS = ("What are your opening hours?", "hours", "From nine to five.", False)
RETURN = ("How do I return an item?", "return", "Print the label.", False)
LOAN = ("How do I apply for a student loan?", "loan", "Fill in the form.", False)


def after(topic: tuple[str, str, str, bool], said: str, answer: str) -> tuple[str, str, str, bool]:
    return (said, f"{topic[1]}/{said}", answer, True)


async def run(*rows: dict[str, object], **rules: bool) -> list[Trial]:
    async with real(**rules) as way:
        return await way.stream(parse(lines(*rows), "chats"), Labels(), silent)


async def test_each_turn_is_a_question_with_what_was_told_before_it() -> None:
    pack = parse(lines(row(CARD, HOURS)), "chats")
    assert pack.kind is PackKind.STREAM and len(pack) == 2
    first, second = pack.arrivals
    assert first.leaning is False and first.answer == "Call us at once." and first.answer_id == "card"
    assert [turn["content"] for turn in second.body["messages"]] == [CARD[0], CARD[2], HOURS[0]]
    assert first.conversation == second.conversation


async def test_the_second_user_of_the_same_conversation_is_served_all_of_it() -> None:
    talk = (CARD, after(CARD, "How long does that take?", "An hour."), HOURS)
    trials = await run(row(*talk), row(*talk, name="d"))
    assert [trial.likeness for trial in trials[:3]] == [None] * 3
    assert [trial.likeness for trial in trials[3:]] == [Likeness.EXACT] * 3
    told = report(parse(lines(row(*talk), row(*talk)), "chats"), trials, 0.01, {})
    assert (told["queries"], told["hits"], told["false_hits"]) == (6, 3, 0)
    assert told["follow_ups"]["queries"] == 2 and told["follow_ups"]["hits"] == 1
    assert told["standalone"]["queries"] == 4 and told["standalone"]["hits"] == 2


@pytest.mark.parametrize(
    "follow",
    [
        "And how long does the return take?", "back to the first question, how long does it take?",
        "what about the one I asked about earlier?", "you said something about a form, which one?", "compare both",
        "how long does it take?",  # of the hours it makes no sense: the answer speaks of the older subject
    ],
)  # fmt: skip
async def test_a_follow_up_that_leans_on_an_older_subject_is_not_served_that_of_another(follow: str) -> None:
    """The last subject is the same in both, the older one is not."""
    trials = await run(
        row(RETURN, HOURS, after(RETURN, follow, "A return takes three days.")),
        row(LOAN, HOURS, after(LOAN, follow, "A loan takes three weeks."), name="d"),
    )
    assert trials[4].likeness is not None, "the opening hours are the same for both"
    assert trials[5].likeness is None


@pytest.mark.parametrize(
    "follow", ["how long does it take?", "and the duration of the first one?", "back to the form?"]
)
async def test_an_older_subject_counts_across_an_aside_too(follow: str) -> None:
    """What is told between the two brings nothing new; that the follow-up leans on more than the last subject does."""
    trials = await run(
        row(RETURN, HOURS, after(HOURS, "is it free?", "Yes."), after(RETURN, follow, "A return takes three days.")),
        row(LOAN, HOURS, after(HOURS, "is it free?", "Yes."), after(LOAN, follow, "A loan takes weeks."), name="d"),
    )
    assert trials[7].likeness is None


async def test_what_is_asked_next_is_shared_across_an_aside() -> None:
    duration = after(HOURS, "how long does that take?", "An hour.")
    trials = await run(row(HOURS, duration), row(HOURS, after(HOURS, "is it free?", "Yes, it is."), duration, name="d"))
    assert [trial.likeness for trial in trials] == [None, None, Likeness.EXACT, None, Likeness.EXACT]


async def test_the_same_follow_up_after_another_subject_is_a_miss() -> None:
    follow = "and for business accounts?"
    trials = await run(*(row(each, after(each, follow, "Yes.")) for each in (CARD, HOURS, RETURN, LOAN)))
    assert all(trial.likeness is None for trial in trials)


async def test_a_pair_of_chats_is_walked_turn_by_turn() -> None:
    def side(*texts: str) -> list[dict[str, str]]:
        return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]

    alone = "What are your opening hours?"
    rows = [
        {"a_messages": side(CARD[0], CARD[2], alone), "b_messages": side(LOAN[0], LOAN[2], alone), "same": True},
        {
            "a_messages": side(CARD[0], CARD[2], "cancel it"),
            "b_messages": side(LOAN[0], LOAN[2], "cancel it"),
            "same": False,
        },
    ]
    async with real() as way:
        served, trap = await way.pairs(parse(lines(*rows), "pairs"), silent)
    assert served.right is True and trap.likeness is None


def test_a_user_turn_without_its_answer_id_is_named() -> None:
    broken = row(CARD, HOURS)
    del broken["messages"][2]["answer_id"]  # type: ignore[index]
    with pytest.raises(PackError, match=r"line 1.*answer_id"):
        parse(json.dumps(broken), "chats")
