"""The whole product in front of two real vLLM workers, driven by the real openai SDK.

The tiny model babbles; `SHORT` makes it stop by itself after a few tokens (min_tokens holds the end back, logit_bias
then forces it), so that its answers may be stored.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from vllm_workers import VllmWorker

from proxy.app import Proxy, open_proxy
from proxy.settings import load

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
SHORT = {"min_tokens": 5, "logit_bias": {"2": 100}}  # 2 = <|im_end|>
SYSTEM = {"role": "system", "content": "You answer questions about a shop that sells bicycles. " * 40}


@pytest.fixture
async def proxy(tiny_workers: list[VllmWorker], tmp_path: Path) -> AsyncIterator[Proxy]:
    settings, _ = load(
        {"workers": tuple(w.url for w in tiny_workers), "port": 0, "state_dir": tmp_path, "drain_s": 1.0}
    )
    async with open_proxy(settings) as opened:
        assert await opened.health.wait_ready(30, workers=2)
        yield opened


@pytest.fixture
async def client(proxy: Proxy) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=proxy.url + "/v1", api_key="none", max_retries=0) as sdk:
        yield sdk


async def say(client: openai.AsyncOpenAI, messages: list[Any], session: str, **more: Any) -> Any:
    return await client.chat.completions.with_raw_response.create(
        model="tiny",
        messages=messages,
        extra_headers={"X-Session-ID": session},
        extra_body=SHORT,
        temperature=0,
        **more,
    )


def worker_of(raw: Any) -> str:
    return str(raw.headers["x-rejoinder-worker"].split(";")[0])


async def chat(client: openai.AsyncOpenAI, session: str, turns: int) -> tuple[set[str], list[int]]:
    """Workers that answered, and the cached prompt tokens of every turn."""
    messages: list[Any] = [{**SYSTEM, "content": f"This is the shop {session}. {SYSTEM['content']}"}]
    workers, cached = set(), []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{session}: what about wheel number {turn}?"})
        raw = await say(client, messages, session)
        reply = raw.parse()
        workers.add(worker_of(raw))
        cached.append(reply.usage.prompt_tokens_details.cached_tokens)
        messages.append({"role": "assistant", "content": reply.choices[0].message.content})
    return workers, cached


async def test_a_chat_of_six_turns_stays_on_one_worker_and_finds_its_prefix_there(client: openai.AsyncOpenAI) -> None:
    workers, cached = await chat(client, "chat-one", 6)
    assert len(workers) == 1
    assert all(tokens > 0 for tokens in cached[1:])
    assert cached[-1] > cached[1], "every turn finds more of the conversation than the one before"


async def test_chats_that_share_nothing_do_not_pile_up_on_one_worker(client: openai.AsyncOpenAI) -> None:
    """Each is answered before the next one comes, so nothing is ever in hand when one is placed. The first few go where
    hashing will find them again after a restart, which may be one worker; then the emptier one is taken."""
    homes = [await chat(client, f"chat-{number}", 1) for number in range(8)]
    assert {len(workers) for workers, _ in homes} == {1}
    assert len(set.union(*(workers for workers, _ in homes))) == 2


async def test_a_repetition_comes_from_the_session_and_asks_no_worker(client: openai.AsyncOpenAI, proxy: Proxy) -> None:
    ask = [SYSTEM, {"role": "user", "content": "How do I mend a flat tyre?"}]
    first = await say(client, ask, "repeat")
    second = await say(client, ask, "repeat")
    assert "fwd=miss" in first.headers["cache-status"]
    assert "; hit; ttl=" in second.headers["cache-status"] and "session exact" in second.headers["cache-status"]
    assert first.parse().choices[0].message.content == second.parse().choices[0].message.content
    assert first.parse().id != second.parse().id


async def test_a_rewording_from_another_session_comes_from_the_index(client: openai.AsyncOpenAI, proxy: Proxy) -> None:
    await say(client, [SYSTEM, {"role": "user", "content": "How do I reset my password?"}], "one")
    await proxy.gateway.settled()
    other = await say(client, [SYSTEM, {"role": "user", "content": "How can I reset my password?"}], "two")
    assert "; hit;" in other.headers["cache-status"], other.headers["cache-status"]


async def test_a_real_stream_is_stored_and_replayed_both_ways(client: openai.AsyncOpenAI, proxy: Proxy) -> None:
    ask = [SYSTEM, {"role": "user", "content": "Which lock is the strongest one?"}]

    async def streamed() -> tuple[str, str]:
        raw = await say(client, ask, "stream", stream=True, stream_options={"include_usage": True})
        text, usage = "", None
        async for chunk in raw.parse():
            text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
            usage = chunk.usage or usage
        assert usage is not None and usage.completion_tokens > 0
        return text, raw.headers["cache-status"]

    text, status = await streamed()
    assert "fwd=miss" in status and text
    again, status = await streamed()
    assert "; hit;" in status and again == text
    whole = await say(client, ask, "stream")
    assert "; hit;" in whole.headers["cache-status"] and whole.parse().choices[0].message.content == text


async def test_a_hundred_equal_questions_are_one_generation(
    client: openai.AsyncOpenAI, tiny_workers: list[VllmWorker]
) -> None:
    def generations() -> float:
        return sum(
            value for worker in tiny_workers for name, value in worker.metrics().items()
            if name.startswith("vllm:request_success_total")
        )  # fmt: skip

    before = await asyncio.to_thread(generations)
    ask = [SYSTEM, {"role": "user", "content": "Why are all the bells so loud?"}]
    replies = await asyncio.gather(*(say(client, ask, f"crowd-{n}") for n in range(100)))
    texts = {raw.parse().choices[0].message.content for raw in replies}
    assert len(texts) == 1
    assert await asyncio.to_thread(generations) - before == 1


async def test_when_a_worker_is_killed_in_mid_chat_the_next_turn_answers(
    tiny_workers: list[VllmWorker], another_worker: Callable[..., VllmWorker], tmp_path: Path
) -> None:
    victim = await asyncio.to_thread(another_worker)
    settings, _ = load({"workers": (victim.url, tiny_workers[0].url), "port": 0, "state_dir": tmp_path, "drain_s": 1.0})
    async with (
        open_proxy(settings) as proxy,
        openai.AsyncOpenAI(base_url=proxy.url + "/v1", api_key="none", max_retries=0) as client,
    ):
        assert await proxy.health.wait_ready(30, workers=2)
        for number in range(64):  # find a chat whose home is the victim
            messages: list[Any] = [SYSTEM, {"role": "user", "content": f"Question {number} about saddles?"}]
            raw = await say(client, messages, f"chat-{number}")
            if worker_of(raw) == victim.url.removeprefix("http://"):
                break
        else:
            pytest.fail("no chat had its home on the victim")
        await asyncio.to_thread(victim.kill)
        messages += [
            {"role": "assistant", "content": raw.parse().choices[0].message.content},
            {"role": "user", "content": "And what else?"},
        ]
        raw = await say(client, messages, f"chat-{number}")
        assert worker_of(raw) == tiny_workers[0].url.removeprefix("http://")
        assert raw.parse().choices[0].message.content


async def test_what_we_do_not_cache_passes_through(client: openai.AsyncOpenAI, proxy: Proxy) -> None:
    models = await client.models.list()
    assert [model.id for model in models.data] == ["tiny"]
    response = await client.responses.create(model="tiny", input="Hello", max_output_tokens=16)
    assert response.object == "response"
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "Hi"}])
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], temperature=-1)
