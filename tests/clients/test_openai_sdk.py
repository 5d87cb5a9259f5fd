"""OpenAI's own Python SDK against the production runner: what people change is `base_url`, and nothing else."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from proxy.app import Proxy, open_proxy
from proxy.demo import SimulatedWorker
from proxy.settings import Settings

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
]


@dataclass
class House:
    proxy: Proxy
    workers: list[SimulatedWorker]
    client: AsyncOpenAI

    @property
    def calls(self) -> int:
        return sum(len(worker.calls) for worker in self.workers)

    async def ask(self, question: str = "How do I reset my password?", **fields: Any) -> Any:
        """A whole answer, or a stream, of the async client."""
        return await self.client.chat.completions.create(model="demo", messages=[user(question)], **fields)

    async def status(self, question: str = "How do I reset my password?", **fields: Any) -> str:
        """`Cache-Status`, after everything is stored."""
        raw = await self.client.chat.completions.with_raw_response.create(
            model="demo", messages=[user(question)], **fields
        )
        await self.proxy.gateway.settled()
        return str(raw.headers["Cache-Status"])


def user(content: str) -> Any:
    return {"role": "user", "content": content}


@contextlib.asynccontextmanager
async def house(workers: int = 2, *, api_key: str = "sk-none", **settings: Any) -> AsyncIterator[House]:
    async with asyncio.timeout(30), contextlib.AsyncExitStack() as stack:
        simulated = [await stack.enter_async_context(SimulatedWorker()) for _ in range(workers)]
        urls = tuple(worker.url for worker in simulated)
        proxy = await stack.enter_async_context(
            open_proxy(Settings(port=0, workers=urls, store="memory", embedder="hashing", shadow_share=0.0, **settings))
        )
        assert await proxy.health.wait_ready(10, workers=workers)
        client = await stack.enter_async_context(
            AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key=api_key, max_retries=0)
        )
        yield House(proxy, simulated, client)


# ── the same question again ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_miss_and_then_a_hit_with_the_same_answer_and_another_id() -> None:
    async with house() as here:
        first = await here.ask()
        await here.proxy.gateway.settled()
        second = await here.ask()
        assert here.calls == 1
        assert "simulated answer" in first.choices[0].message.content
        assert first.id != second.id
        assert first.model_dump(exclude={"id"}) == second.model_dump(exclude={"id"})
        assert second.usage.completion_tokens == first.usage.completion_tokens > 0


async def test_raw_responses_show_what_the_cache_did() -> None:
    async with house() as here:
        assert (await here.status()).startswith("rejoinder; fwd=miss")
        assert (await here.status()).startswith("rejoinder; hit; ttl=")
        assert 'detail="recent wording"' in await here.status("please, how do i reset my password")
        assert 'detail="similar meaning 0.8' in await here.status("How can I reset my password?")
        assert here.calls == 1
        raw = await here.client.chat.completions.with_raw_response.create(
            model="demo", messages=[user("How do I reset my password?")]
        )
        assert raw.headers["Age"] == "0"
        assert raw.headers["X-Request-Id"]
        assert raw.parse().choices[0].finish_reason == "stop"


async def test_the_sync_client_works_too() -> None:
    async with house() as here:

        def two() -> list[str]:
            with OpenAI(base_url=f"{here.proxy.url}/v1", api_key="sk-none", max_retries=0) as client:
                return [
                    client.chat.completions.with_raw_response.create(
                        model="demo", messages=[user("Why is it so?")]
                    ).headers["Cache-Status"]
                    for _ in range(2)
                ]

        first, second = await asyncio.to_thread(two)
        assert "fwd=miss" in first
        assert "; hit;" in second


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def streamed(here: House, **fields: Any) -> tuple[str, list[Any]]:
    chunks = [chunk async for chunk in await here.ask(stream=True, **fields)]
    await here.proxy.gateway.settled()
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices), chunks


async def test_a_stream_is_stored_and_replayed_as_a_stream_and_as_a_whole() -> None:
    async with house() as here:
        text, live = await streamed(here)
        again, replayed = await streamed(here)
        whole = await here.ask()
        assert here.calls == 1
        assert text == again == whole.choices[0].message.content
        for chunks in (live, replayed):
            assert chunks[0].choices[0].delta.role == "assistant"
            assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["stop"]
            assert len({c.id for c in chunks}) == 1
        assert live[0].id != replayed[0].id
        assert whole.usage.completion_tokens > 0, "a stream tells its usage to the cache even when nobody asked"


async def test_a_whole_answer_is_replayed_as_a_stream() -> None:
    async with house() as here:
        whole = await here.ask()
        await here.proxy.gateway.settled()
        text, chunks = await streamed(here)
        assert (here.calls, text) == (1, whole.choices[0].message.content)
        assert len(chunks) > 3


async def test_usage_comes_with_a_stream_when_asked_for_on_miss_and_hit_and_never_otherwise() -> None:
    async with house() as here:
        wanted = {"stream_options": {"include_usage": True}}
        _, live = await streamed(here, **wanted)
        _, replayed = await streamed(here, **wanted)
        _, silent = await streamed(here)
        assert here.calls == 1
        for chunks in (live, replayed):
            assert [c.usage.completion_tokens > 0 for c in chunks if c.usage] == [True]
            assert chunks[-1].choices == []
        assert live[-1].usage == replayed[-1].usage
        assert not any(c.usage for c in silent)
        assert all(c.choices for c in silent)


async def test_the_streaming_helper_of_the_sdk_gathers_a_replayed_answer() -> None:
    async with house() as here:
        whole = await here.ask()
        await here.proxy.gateway.settled()
        async with here.client.chat.completions.stream(
            model="demo", messages=[user("How do I reset my password?")]
        ) as stream:
            final = await stream.get_final_completion()
        assert here.calls == 1
        assert final.choices[0].message.content == whole.choices[0].message.content


async def test_a_reader_that_leaves_a_stream_leaves_the_next_one_whole() -> None:
    async with house() as here:
        stream = await here.ask(stream=True)
        await anext(aiter(stream))
        await stream.close()
        text, _ = await streamed(here)
        assert text.endswith("]")


# ── what the caller says ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"extra_body": {"cache": {"no-cache": True}}}, "rejoinder; fwd=request"),
        ({"extra_headers": {"Cache-Control": "no-cache"}}, "rejoinder; fwd=request"),
        ({"extra_body": {"cache": {"namespace": "other"}}}, "rejoinder; fwd=miss"),
        ({"extra_body": {"cache": {"max-age": 3600}}}, "rejoinder; hit"),
        ({"extra_headers": {"Cache-Control": "max-age=3600"}}, "rejoinder; hit"),
        ({"extra_body": {"cache": {}}}, "rejoinder; hit"),
        ({"user": "ann", "metadata": {"a": "b"}, "store": False}, "rejoinder; hit"),
        ({"temperature": 0.123}, "rejoinder; fwd=miss"),
        ({"extra_body": {"top_k": 5}}, "rejoinder; fwd=miss"),
        ({"max_tokens": 4000}, "rejoinder; hit"),
        ({"max_tokens": 3}, "rejoinder; fwd=miss"),
    ],
)  # fmt: skip
async def test_the_sdk_can_say_what_it_wants_of_the_cache(fields: dict[str, Any], status: str) -> None:
    async with house() as here:
        await here.status()
        assert (await here.status(**fields)).startswith(status)


async def test_our_own_field_never_reaches_a_worker() -> None:
    async with house() as here:
        await here.ask(extra_body={"cache": {"no-cache": True}, "top_k": 5})
        (call,) = [call for worker in here.workers for call in worker.calls]
        assert call.json["top_k"] == 5
        assert "cache" not in call.json


async def test_only_if_cached_asks_nobody() -> None:
    async with house() as here:
        with pytest.raises(openai.APIStatusError) as refused:
            await here.ask(extra_body={"cache": {"only-if-cached": True}})
        assert refused.value.status_code == 504
        assert refused.value.code == "not_cached"
        assert here.calls == 0


# ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_calls_come_through_untouched_and_are_never_served_from_memory(stream: bool) -> None:
    async with house() as here:
        question = "Call a tool for the weather in Oslo"
        for _ in range(2):
            if stream:
                async with here.client.chat.completions.stream(
                    model="demo", messages=[user(question)], tools=TOOLS
                ) as events:
                    answer: Any = await events.get_final_completion()
            else:
                answer = await here.ask(question, tools=TOOLS)
            await here.proxy.gateway.settled()
            (called,) = answer.choices[0].message.tool_calls
            assert (called.type, called.function.name) == ("function", "weather")
            assert called.function.arguments == '{"question":"Call a tool for the weather in Oslo"}'
            assert answer.choices[0].finish_reason == "tool_calls"
        assert here.calls == 2
        (sent, *_) = [call for worker in here.workers for call in worker.calls]
        assert sent.json["tools"] == TOOLS


async def test_an_answer_in_words_to_a_request_with_tools_is_remembered_by_its_bytes() -> None:
    async with house() as here:
        await here.status(tools=TOOLS)
        assert "; hit;" in await here.status(tools=TOOLS)
        assert "fwd=miss" in await here.status("How can I reset my password?", tools=TOOLS)
        assert "fwd=miss" in await here.status()


# ── other endpoints ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_plain_completions_are_remembered_by_their_bytes() -> None:
    async with house() as here:
        texts = []
        for _ in range(2):
            texts.append(
                (await here.client.completions.create(model="demo", prompt="Once upon a time")).choices[0].text
            )
            await here.proxy.gateway.settled()
        streamed_text = "".join(
            [
                c.choices[0].text
                async for c in await here.client.completions.create(
                    model="demo", prompt="Once upon a time", stream=True
                )
            ]
        )
        assert texts[0] == texts[1] == streamed_text
        assert here.calls == 1


async def test_models_and_embeddings() -> None:
    async with house() as here:
        assert [model.id async for model in here.client.models.list()] == ["demo"]
        assert (await here.client.models.retrieve("demo")).id == "demo"
        vectors = await here.client.embeddings.create(model="demo", input=["a", "b"], encoding_format="float")
        assert len(vectors.data) == 2


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"extra_body": {"cache": {"no-cahce": True}}}, "`cache.no-cahce` is not known"),
        ({"extra_body": {"cache": {"threshold": 7}}}, "higher is stricter"),
        ({"extra_body": {"cache_salt": ""}}, "cache_salt"),  # the worker's own words
    ],
)  # fmt: skip
async def test_a_mistake_is_a_bad_request(fields: dict[str, Any], says: str) -> None:
    async with house() as here:
        with pytest.raises(openai.BadRequestError, match=says) as refused:
            await here.ask(**fields)
        assert isinstance(refused.value.body, dict)
        assert set(refused.value.body) >= {"message", "type", "param", "code"}


async def test_an_unknown_model_is_not_found() -> None:
    async with house() as here:
        with pytest.raises(openai.NotFoundError, match="`gpt-9` does not exist") as refused:
            await here.client.chat.completions.create(model="gpt-9", messages=[user("Why?")])
        assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.NotFoundError):
            await here.client.models.retrieve("gpt-9")


async def test_a_wrong_key_is_an_authentication_error() -> None:
    async with house(api_keys={"sk-shop": "shop"}, api_key="sk-wrong") as here:
        with pytest.raises(openai.AuthenticationError, match="Incorrect API key") as refused:
            await here.ask()
        assert refused.value.code == "invalid_api_key"
        assert here.calls == 0
        here.client.api_key = "sk-shop"
        assert (await here.ask()).choices[0].message.content
        (sent,) = [call for worker in here.workers for call in worker.calls]
        assert "Authorization" not in sent.headers, "the client's key never reaches a worker"


async def test_when_nobody_is_up_the_sdk_sees_503_and_when_to_come_back() -> None:
    async with house(workers=1) as here:
        await here.workers[0].kill()
        with pytest.raises(openai.InternalServerError) as refused:
            await here.ask()
        assert refused.value.status_code == 503
        assert refused.value.response.headers["Retry-After"] == "2"
        assert refused.value.code == "no_worker"


@pytest.mark.parametrize(
    ("status", "error"),
    [(429, openai.RateLimitError), (500, openai.InternalServerError), (400, openai.BadRequestError)],
)
async def test_a_workers_own_error_is_the_sdks_own_and_is_not_stored(
    status: int, error: type[openai.APIStatusError]
) -> None:
    async with house(workers=1) as here:
        here.workers[0].fault("status", status=status, times=1)
        with pytest.raises(error, match=f"simulated {status}"):
            await here.ask()
        assert (await here.ask()).choices[0].message.content


async def test_a_stream_that_breaks_off_is_an_error_and_not_a_short_answer() -> None:
    async with house(workers=1) as here:
        here.workers[0].fault("die", after=3, times=1)
        with pytest.raises((openai.APIError, httpx.HTTPError)):
            await streamed(here)
        text, _ = await streamed(here)
        assert text.endswith("]")
        assert here.calls == 2


async def test_many_at_once_get_each_their_own_answer() -> None:
    """litellm#25447: under concurrency replies went to the wrong client."""
    async with house() as here:
        answers = await asyncio.gather(
            *(here.ask(f"What is the meaning of word-{number:04d}x?") for number in range(60))
        )
        for number, answer in enumerate(answers):
            assert f"word-{number:04d}x" in answer.choices[0].message.content


async def test_equal_questions_at_once_are_asked_once() -> None:
    async with house() as here:
        for worker in here.workers:
            worker.pace.first_token_s = 0.05
        answers = await asyncio.gather(*(here.ask() for _ in range(20)))
        assert here.calls == 1
        assert len({answer.choices[0].message.content for answer in answers}) == 1
