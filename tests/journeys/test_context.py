"""What surrounds a question on the real server: changing system prompts, and retrieved documents."""

import itertools
from typing import Any

from aiohttp import web
from embedders import alike
from house import OpenHouse, turns
from scripted import Asked, ScriptedWorker, completion

ASK, ALIKE = "How do I reset the router?", "How can I reset the router?"
IGNORE = ("Today is {date}", "The user is {name}")


def on(day: int, text: str = ASK, user: str = "Anna") -> list[dict[str, str]]:
    return turns(text, system=f"Be brief. Today is 2026-12-{day:02}. The user is {user}.")


async def test_the_date_in_a_system_prompt_no_longer_makes_every_day_a_miss(house: OpenHouse) -> None:
    async with house(embedder=alike(), context_ignore=IGNORE) as h:
        assert not (await h.ask(on(1))).hit
        assert (await h.ask(on(2, user="Ben"))).hit and (await h.ask(on(3, ALIKE, user="Cem"))).hit
        assert h.bodies[0]["messages"] == on(1), "the worker reads what the caller wrote"
    async with house(embedder=alike()) as h:
        assert [(await h.ask(on(day))).hit for day in (1, 2)] == [False, False]


async def test_a_question_about_the_date_is_never_answered_with_another_days_answer(house: OpenHouse) -> None:
    async with house(embedder=alike(), context_ignore=IGNORE) as h:
        for text in ("What date is it?", "Is it a leap year?", "How old is somebody born in 1990?", "What is my name?"):
            assert [(await h.ask(on(day, text, user))).hit for day, user in ((1, "Anna"), (2, "Ben"))] == [False] * 2
        assert h.calls == 8


async def test_an_answer_that_names_the_user_is_told_to_this_user_only(house: OpenHouse) -> None:
    async def greets(_: web.Request, asked: Asked) -> web.StreamResponse:
        user = asked.json["messages"][0]["content"].rpartition(" ")[2]
        return web.json_response(completion({"content": f"Hello {user} Hold the button for ten seconds."}))

    async with ScriptedWorker(greets) as worker, house([worker], embedder=alike(), context_ignore=IGNORE) as h:
        assert not (await h.ask(on(1))).hit
        assert not (await h.ask(on(1, user="Ben"))).hit
        assert (await h.ask(on(1))).hit


async def test_a_prompt_that_always_changes_is_told_in_the_header_in_explain_and_in_the_metrics(
    house: OpenHouse,
) -> None:
    async with house(embedder=alike()) as h:
        seconds = itertools.count()

        def now() -> list[dict[str, str]]:
            return turns(ASK, system=f"You help with routers and nothing else. The time is 10:00:{next(seconds):02}.")

        told = [await h.ask(now()) for _ in range(9)]
        pattern = 'context_ignore = ["The time is {time}"]'
        assert "context_ignore" not in told[0].cache_status
        assert pattern in told[-1].cache_status.replace("\\", "")
        assert pattern in (await h.explain(now()))["warning"]
        assert await h.metric("rejoinder_volatile_prompts_total") >= 1


async def test_explain_says_what_the_key_leaves_out_and_why_it_does_not(house: OpenHouse) -> None:
    async with house(embedder=alike(), context_ignore=IGNORE) as h:
        told = (await h.explain(on(1)))["context"]
        assert told["left_out"] == [{"kind": "date", "value": "2026-12-01"}, {"kind": "name", "value": "Anna"}]
        assert "moment" in (await h.explain(on(1, "What day is it today?")))["context"]["counts"]


DOCUMENTS = {"refunds": "Refunds take five days.", "routers": "Hold the button for ten seconds."}


async def test_the_same_documents_hit_in_any_order_and_a_changed_one_misses(house: OpenHouse) -> None:
    """Issue 5, RAG: in other words, in another order; and never over a document that changed."""

    def asked(question: str, names: Any, versions: dict[str, str], **changed: str) -> dict[str, Any]:
        documents = DOCUMENTS | changed
        text = "\n\n".join(["Use the documents.", *(documents[name] for name in names), f"Question: {question}"])
        sources = [{"id": name, "version": versions[name]} for name in names]
        return {"question": turns(text), "cache": {"question": question, "sources": sources}}

    old, new = {"refunds": "7", "routers": "1"}, {"refunds": "8", "routers": "1"}
    async with house(embedder=alike()) as h:
        assert not (await h.ask(**asked(ASK, ("refunds", "routers"), old))).hit
        assert (await h.ask(**asked(ALIKE, ("refunds", "routers"), old))).hit
        assert (await h.ask(**asked(ALIKE, ("routers", "refunds"), old))).hit
        assert not (await h.ask(**asked(ASK, ("refunds", "routers"), new))).hit, "another version"
        assert not (await h.ask(**asked(ASK, ("refunds", "routers"), old, refunds="Six days."))).hit, "another text"
        assert not (await h.ask(**asked(ASK, ("routers",), old))).hit, "a document less"
        assert h.calls == 4


async def test_a_client_that_cannot_mark_the_question_is_served_by_its_tenants_pattern(house: OpenHouse) -> None:
    """As chains of prompts are sent: one message, documents first."""

    def prompt(document: str, question: str) -> str:
        return f"Use this context.\n\n{document}\n\nQuestion: {question}\nHelpful Answer:"

    async with house(
        embedder=alike(), question_patterns={"*": "{documents}Question: {question}\nHelpful Answer:"}
    ) as h:
        assert not (await h.ask(prompt("v7", ASK))).hit
        assert (await h.ask(prompt("v7", ALIKE))).hit
        assert not (await h.ask(prompt("v8", ALIKE))).hit
