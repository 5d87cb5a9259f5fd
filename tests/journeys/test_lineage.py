"""Conversations told in different words, on the real server. CASES.md, group C."""

from pathlib import Path
from typing import Any

import pytest
from embedders import alike
from house import OpenHouse, open_house, turns

FIRST = ("How do I reset my password?", "how do I reset my password, please")
FOLLOW = "and how long does that take?"


async def begun(h: Any, first: str, **fields: Any) -> list[dict[str, Any]]:
    """A chat after its first turn, as the OpenAI client keeps it: the whole message is sent back."""
    told = await h.ask(first, **fields)
    return [*turns(first), {"refusal": None, "tool_calls": None, "annotations": [], **told.message}]


def then(talk: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    return [*talk, {"role": "user", "content": text}]


@pytest.mark.parametrize("stream", [False, True])
async def test_two_users_who_asked_the_same_in_other_words_share_the_answer_to_the_follow_up(
    house: OpenHouse, stream: bool
) -> None:
    async with house(embedder=alike()) as h:
        talks = [await begun(h, first, stream=stream) for first in FIRST]
        assert h.calls == 1 and talks[0][1]["content"] == talks[1][1]["content"]
        assert not (await h.ask(then(talks[0], FOLLOW))).hit
        assert (await h.ask(then(talks[1], FOLLOW), stream=stream)).hit
        assert (await h.ask(then(talks[1], "how much time will it need?"))).hit, "the same follow-up in other words"
        assert not (await h.ask(then(talks[1], "is it free?"))).hit
        assert h.calls == 3


async def test_the_third_turn_is_shared_too(house: OpenHouse) -> None:
    async with house(embedder=alike()) as h:
        talks = [await begun(h, first) for first in FIRST]
        for number, follow in enumerate((FOLLOW, "Is there a fee for that?")):
            told = [await h.ask(then(talk, follow)) for talk in talks]
            assert [each.hit for each in told] == [False, True]
            talks = [[*then(talk, follow), each.message] for talk, each in zip(talks, told, strict=True)]
            assert h.calls == 2 + number


async def test_another_topic_before_the_same_follow_up_goes_to_a_worker(house: OpenHouse) -> None:
    """C3 (semantic-router#36) and C1 (GPTCache#8), with everything before it answered from the cache."""
    async with house(embedder=alike()) as h:
        for opening in ("How do I open a savings account?", "How do I close a savings account?"):
            await h.ask(opening)
            talk = await begun(h, opening)
            assert not (await h.ask(then(talk, "And for business accounts?"))).hit
        assert h.calls == 4


async def test_an_edited_or_invented_answer_before_it_is_another_conversation(house: OpenHouse) -> None:
    async with house(embedder=alike()) as h:
        talks = [await begun(h, first) for first in FIRST]
        await h.ask(then(talks[0], FOLLOW))
        for text in (talks[1][1]["content"] + " ", talks[1][1]["content"].upper(), "It takes a year."):
            forged = [talks[1][0], {**talks[1][1], "content": text}]
            assert not (await h.ask(then(forged, FOLLOW))).hit
        assert h.calls == 5


@pytest.mark.parametrize("store", ["sqlite"])
async def test_it_is_still_one_conversation_after_a_restart(tmp_path: Path, store: str) -> None:
    async with open_house(tmp_path, embedder=alike(), store=store) as h:
        talks = [await begun(h, first) for first in FIRST]
        await h.ask(then(talks[0], FOLLOW))
    async with open_house(tmp_path, embedder=alike(), store=store) as h:
        assert (await h.ask(then(talks[1], FOLLOW))).hit
        assert h.calls == 0


async def test_a_deleted_answer_takes_its_conversations_with_it(house: OpenHouse) -> None:
    async with house(embedder=alike()) as h:
        talks = [await begun(h, first) for first in FIRST]
        entry = (await h.ask(FIRST[0])).headers["X-Rejoinder-Entry"]
        await h.ask(then(talks[0], FOLLOW))
        assert (await h.ask(then(talks[1], FOLLOW))).hit
        await h.proxy.gateway.forget(int(entry, 16))
        assert not (await h.ask(then(talks[1], FOLLOW))).hit


async def test_a_personal_follow_up_stays_in_its_session(house: OpenHouse) -> None:
    follow = "My e-mail is ann@example.com, how long will it take?"
    async with house(embedder=alike()) as h:
        talks = [await begun(h, first, session=name) for first, name in zip(FIRST, ("ann", "bob"), strict=True)]
        for talk, name in zip(talks, ("ann", "bob"), strict=True):
            assert not (await h.ask(then(talk, follow), session=name)).hit
        assert (await h.ask(then(talks[0], follow), session="ann")).hit


async def test_a_question_of_its_own_in_the_middle_of_a_chat_is_the_question_of_a_new_one(house: OpenHouse) -> None:
    alone = "What is your return policy?"
    async with house(embedder=alike()) as h:
        await h.ask(alone)
        talk = await begun(h, FIRST[0])
        assert (await h.ask(then(talk, alone))).hit
        assert not (await h.ask([{"role": "system", "content": "Be brief."}, *then(talk, alone)])).hit
        manner = [*turns("Answer in French from now on.", "Oui."), *then(talk, alone)]
        assert not (await h.ask(manner)).hit
    async with house(embedder=alike(), standalone_across_history=False) as h:
        await h.ask(alone)
        talk = await begun(h, FIRST[0])
        assert not (await h.ask(then(talk, alone))).hit


async def test_without_lineage_only_equal_bytes_continue_a_conversation(house: OpenHouse) -> None:
    async with house(embedder=alike(), lineage=False) as h:
        talks = [await begun(h, first) for first in FIRST]
        await h.ask(then(talks[0], FOLLOW))
        assert not (await h.ask(then(talks[1], FOLLOW))).hit
        assert (await h.ask(then(talks[0], FOLLOW))).hit


async def test_explain_says_what_a_question_leans_on(house: OpenHouse) -> None:
    async with house(embedder=alike()) as h:
        talk = await begun(h, FIRST[0])
        told = (await h.explain(then(talk, FOLLOW)))["conversation"]
        assert told["turns"] == 1 and told["known"] == 1 and "begins as the rest" in told["reason"]
        assert (await h.explain(then(talk, "What is your return policy?")))["conversation"]["turns"] == 0
        assert (await h.explain("What is your return policy?"))["conversation"] is None
