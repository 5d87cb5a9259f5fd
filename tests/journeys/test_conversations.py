"""The same words after another conversation are another question. CASES.md, group C."""

import pytest
from embedders import alike
from house import OpenHouse, turns


async def test_how_old_are_they_is_answered_for_the_company_of_this_chat(house: OpenHouse) -> None:
    """C1 (GPTCache#8): two chats about different people, the same follow-up."""
    async with house(embedder=alike()) as h:
        for company in ("Siemens", "Nokia"):
            told = await h.ask(turns(f"Tell me about {company}.", f"{company} makes telephones.", "How old is it?"))
            assert not told.hit
        assert h.calls == 2
        same = turns("Tell me about Nokia.", "Nokia makes telephones.", "How old is it?")
        assert (await h.ask(same)).hit, "the very same chat may be answered"


async def test_the_reply_concerns_the_last_turn_though_the_earlier_ones_are_cached(house: OpenHouse) -> None:
    """C2 (GPTCache#373)."""
    topics = ("What is a mortgage?", "How do vaccines work?", "Why is the sea salty?")
    chat = [{"role": "user", "content": topic} for topic in topics]
    async with house(embedder=alike()) as h:
        for topic in topics:
            await h.ask(topic)
        told = await h.ask(chat)
        assert not told.hit
        assert topics[-1] in told.text
        assert not (await h.ask(chat[::-1])).hit, "the order is part of the chat"


async def test_and_for_business_accounts_is_two_questions_after_two_topics(house: OpenHouse) -> None:
    """C3 (semantic-router#36): only the newest user message formed the query."""
    async with house(embedder=alike()) as h:
        for opening in ("How do I open a savings account?", "How do I close a savings account?"):
            first = await h.ask(opening)
            told = await h.ask(turns(opening, first.text, "And for business accounts?"))
            assert not told.hit
        assert not (await h.ask("And for business accounts?")).hit
        assert h.calls == 5


@pytest.mark.parametrize("depth", [1, 3, 20, 34])
async def test_one_word_of_an_old_turn_makes_a_long_chat_another_chat(house: OpenHouse, depth: int) -> None:
    """A9, C5 (fow-cache): multi-turn traps of 40 to 70 messages, the difference far back. By whole-chat embedding 30 %
    of these were answered wrongly; by the last message alone, 98 %."""

    def chat(place: int, word: str) -> list[dict[str, str]]:
        texts = [f"Remark number {turn} about the trip" for turn in range(2 * 35)]
        texts[2 * place] = f"By the way, I am travelling with {word} to the coast"
        return turns(*texts, "What should I pack?")

    async with house(embedder=alike()) as h:
        assert len(chat(depth, "cats")) == 71
        for word in ("cats", "dogs", "nobody"):
            assert not (await h.ask(chat(depth, word))).hit
        assert (await h.ask(chat(depth, "dogs"))).hit
        assert h.calls == 3


async def test_what_the_assistant_said_before_counts_too(house: OpenHouse) -> None:
    """A9: "the second one" means what the assistant had listed."""
    async with house(embedder=alike()) as h:
        for listed in ("1. Rome 2. Oslo", "1. Oslo 2. Rome"):
            assert not (await h.ask(turns("Name two capitals of Europe", listed, "Describe the second one"))).hit
        assert h.calls == 2


async def test_a_chat_that_was_cut_at_the_front_is_another_chat(house: OpenHouse) -> None:
    """C5: clients that trim their history send the same tail."""
    whole = turns("Let us talk about Rome", "Gladly.", "Is it old?", "Yes.", "And is it large?")
    async with house(embedder=alike()) as h:
        await h.ask(whole)
        assert not (await h.ask(whole[2:])).hit
        assert not (await h.ask(whole[4:])).hit
