"""What must never be stored. CASES.md, group F. After each: nothing is in the store, the repetition goes upstream."""

from typing import Any

import pytest
from embedders import alike
from house import OpenHouse

from proxy.faults import APOLOGY

SPOILT = {
    "cut by the token limit": {"mode": "length", "after": 4},
    "stopped by the content filter": {"mode": "content_filter"},
    "an apology": {"mode": "apology"},
    "empty": {"mode": "empty"},
    "no choices": {"mode": "no_choices"},
}


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
async def test_an_error_is_told_unchanged_and_never_stored(house: OpenHouse, status: int, stream: bool) -> None:
    """F1 (semantic-router#2130): the second identical call got 200 with the error's JSON."""
    async with house() as h:
        h.workers[0].fault("status", status=status, times=1, retry_after_s=7)
        told = await h.ask(stream=stream)
        assert told.status == status
        assert told.error["message"] == f"simulated {status}"
        assert told.error["code"] == status
        assert told.headers["Retry-After"] == "7"
        assert not told.hit
        assert await h.stored() == 0
        second = await h.ask(stream=stream)
        assert (second.status, second.hit) == (200, False)
        assert "sky" in second.text
        assert h.calls == 2


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("kind", SPOILT)
async def test_an_answer_that_is_none_is_never_stored(house: OpenHouse, kind: str, stream: bool) -> None:
    """F2 (LightRAG#3446), F3 (inspect_ai#4846), F4 (Devwhisper#293), F5 (tinyagents#57), E7."""
    fault: dict[str, Any] = SPOILT[kind]
    async with house(embedder=alike()) as h:
        h.workers[0].fault(times=1, **fault)
        told = await h.ask(stream=stream, session="s")
        assert told.status == 200
        assert await h.stored() == 0
        for question in ("Why is the sky blue?", "Why is the sky so blue?"):  # the retry, and a near-duplicate
            again = await h.ask(question, stream=stream, session="s")
            assert not again.hit, f"{kind} was replayed"
            assert again.text.startswith("This is a simulated answer")
            await h.forget_all()
        assert h.calls == 3


async def test_a_longer_limit_does_not_get_the_answer_that_a_shorter_one_cut(house: OpenHouse) -> None:
    """F2: the truncated answer was kept after the limit was raised."""
    async with house() as h:
        short = await h.ask(max_tokens=3)
        assert short.json["choices"][0]["finish_reason"] == "length"
        for limit in (30, 4000, None):
            told = await h.ask(max_tokens=limit)
            assert told.json["choices"][0]["finish_reason"] == "stop"
        assert h.calls == 2


@pytest.mark.parametrize(
    "text",
    [
        APOLOGY,
        "I apologize, but I am unable to process your request.",
        "I cannot assist with that.",
        "Sorry, something went wrong on our end.",
        "As an AI language model, I do not have access to that.",
        "An error occurred while processing the request.",
        "The service is temporarily unavailable.",
        "很抱歉，我无法回答这个问题。",
        "系统繁忙，请稍后再试。",
        "**I'm sorry**, I can't do that.",
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_an_apology_does_not_spread_to_the_neighbours(
    house: OpenHouse, monkeypatch: pytest.MonkeyPatch, text: str, stream: bool
) -> None:
    """F4 (Devwhisper#293): the apology of a failed call was cached and told to near-duplicates."""
    monkeypatch.setattr("proxy.demo.APOLOGY", text)
    async with house(embedder=alike()) as h:
        h.workers[0].fault("apology", times=1)
        assert (await h.ask(stream=stream)).text == text
        assert await h.stored() == 0
        assert not (await h.ask("Why is the sky so blue?", stream=stream)).hit
        assert h.calls == 2


@pytest.mark.parametrize("how", [{"cache_control": "no-store"}, {"cache": {"no-store": True}}, {"cache": False}])
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_no_store_leaves_no_trace(house: OpenHouse, how: dict[str, Any], stream: bool) -> None:
    """F, the caller's own wish: not in the store, not in the session, not in memory."""
    async with house() as h:
        for _ in range(2):
            told = await h.ask(session="s", stream=stream, **how)
            assert not told.hit and told.cache_status.startswith("rejoinder; fwd=request")
        assert await h.stored() == 0
        assert not (await h.ask(session="s")).hit
        assert h.calls == 3


async def test_something_new_is_made_each_time(house: OpenHouse) -> None:
    """F: who asks for a joke twice wants two jokes; who fixes the seed wants the same one."""
    async with house() as h:
        for _ in range(2):
            assert not (await h.ask("Tell me a joke")).hit
        assert await h.stored() == 0
        assert [(await h.ask("Tell me a joke", seed=3)).hit for _ in range(2)] == [False, True]
