"""LangChain's ChatOpenAI against the production runner: invoke, stream, tools and usage, on a miss and on a hit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import BadRequestError

from proxy.app import Proxy, open_proxy
from proxy.demo import SimulatedWorker
from proxy.settings import Settings

QUESTION = "How do I reset my password?"


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@contextlib.asynccontextmanager
async def house() -> AsyncIterator[tuple[Proxy, SimulatedWorker]]:
    async with asyncio.timeout(30), SimulatedWorker() as worker:
        settings = Settings(port=0, workers=(worker.url,), store="memory", embedder="hashing", shadow_share=0.0)
        async with open_proxy(settings) as proxy:
            assert await proxy.health.wait_ready(10)
            yield proxy, worker


def chat(proxy: Proxy, **fields: Any) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=f"{proxy.url}/v1",
        api_key="sk-none",
        model="demo",
        max_retries=0,
        include_response_headers=True,
        **fields,
    )


def status(message: Any) -> str:
    headers = {name.lower(): value for name, value in message.response_metadata["headers"].items()}
    return str(headers["cache-status"])


async def test_invoke_misses_and_then_hits_with_the_same_answer_and_usage() -> None:
    async with house() as (proxy, worker):
        model = chat(proxy)
        first = await model.ainvoke(QUESTION)
        await proxy.gateway.settled()
        second = await model.ainvoke(QUESTION)
        assert (status(first).split(";")[1], status(second).split(";")[1]) == (" fwd=miss", " hit")
        assert first.content == second.content
        assert isinstance(first, AIMessage)
        assert isinstance(second, AIMessage)
        assert second.usage_metadata == first.usage_metadata
        assert second.usage_metadata is not None
        assert second.usage_metadata["output_tokens"] > 0
        assert second.response_metadata["finish_reason"] == "stop"
        assert len(worker.calls) == 1


async def test_the_sync_call_works_too() -> None:
    async with house() as (proxy, worker):
        answer = await asyncio.to_thread(chat(proxy).invoke, [SystemMessage("Be brief."), HumanMessage(QUESTION)])
        await proxy.gateway.settled()
        again = await chat(proxy).ainvoke([("system", "Be brief."), ("user", QUESTION)])
        assert answer.content == again.content
        assert len(worker.calls) == 1


async def test_a_stream_hits_and_adds_up_to_the_same_message() -> None:
    async with house() as (proxy, worker):
        whole = await chat(proxy).ainvoke(QUESTION)
        await proxy.gateway.settled()
        pieces = [piece async for piece in chat(proxy, stream_usage=True).astream(QUESTION)]
        assert len(worker.calls) == 1
        assert len(pieces) > 3
        total = pieces[0]
        for piece in pieces[1:]:
            total = total + piece  # type: ignore[assignment]
        assert isinstance(total, AIMessageChunk)
        assert total.content == whole.content
        assert total.usage_metadata is not None
        assert isinstance(whole, AIMessage)
        assert whole.usage_metadata is not None
        assert total.usage_metadata["total_tokens"] == whole.usage_metadata["total_tokens"]


async def test_a_stream_that_was_asked_for_is_stored_for_invoke() -> None:
    async with house() as (proxy, worker):
        text = "".join([str(piece.content) async for piece in chat(proxy).astream(QUESTION)])
        await proxy.gateway.settled()
        assert (await chat(proxy).ainvoke(QUESTION)).content == text
        assert len(worker.calls) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_bound_tools_are_called_and_the_call_is_not_remembered(stream: bool) -> None:
    async with house() as (proxy, worker):
        model = chat(proxy).bind_tools([weather])
        for _ in range(2):
            if stream:
                answer: Any = None
                async for piece in model.astream("Call a tool for Oslo"):
                    answer = piece if answer is None else answer + piece
            else:
                answer = await model.ainvoke("Call a tool for Oslo")
            await proxy.gateway.settled()
            (call,) = answer.tool_calls
            assert (call["name"], call["args"]) == ("weather", {"question": "Call a tool for Oslo"})
            assert call["id"]
        assert len(worker.calls) == 2
        assert worker.calls[0].json["tools"][0]["function"]["name"] == "weather"


async def test_a_conversation_is_told_apart_by_its_earlier_turns() -> None:
    """GPTCache#8: two chats about different people, the same follow-up question."""
    async with house() as (proxy, worker):
        model = chat(proxy)
        for company in ("Acme", "Globex"):
            answer = await model.ainvoke(
                [
                    HumanMessage(f"Who founded {company}?"),
                    AIMessage("A person."),
                    HumanMessage("How old is the company?"),
                ]
            )
            await proxy.gateway.settled()
            assert "fwd=miss" in status(answer)
        assert len(worker.calls) == 2


async def test_extra_body_reaches_the_cache() -> None:
    async with house() as (proxy, worker):
        await chat(proxy).ainvoke(QUESTION)
        await proxy.gateway.settled()
        answer = await chat(proxy, extra_body={"cache": {"no-cache": True}}).ainvoke(QUESTION)
        assert "fwd=request" in status(answer)
        assert len(worker.calls) == 2
        with pytest.raises(BadRequestError, match="higher is stricter"):
            await chat(proxy, extra_body={"cache": {"threshold": 2}}).ainvoke(QUESTION)


async def test_a_batch_of_equal_and_different_questions() -> None:
    async with house() as (proxy, worker):
        answers = await chat(proxy).abatch([QUESTION, "Why is the sea salty?", QUESTION])
        assert answers[0].content == answers[2].content != answers[1].content
        assert "Why is the sea salty?" in answers[1].content
        assert len(worker.calls) == 2
