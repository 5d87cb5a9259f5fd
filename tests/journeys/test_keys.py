"""What makes two requests the same request. CASES.md, group D."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from embedders import alike
from house import OpenHouse, request

PICTURE = "data:image/png;base64,iVBORw0KGgo="
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}

# Every one alone must make another question.
DIFFERENT: Mapping[str, tuple[Any, ...]] = {
    "temperature": (0, 0.7, 1.0),
    "top_p": (0.5, 0.9),
    "top_k": (10, 40),
    "min_p": (0.1,),
    "n": (2,),
    "stop": ("\n", ["END"]),
    "seed": (0, 1),
    "presence_penalty": (0.5,),
    "frequency_penalty": (0, 0.5),
    "repetition_penalty": (1.1,),
    "logit_bias": ({"42": -100},),
    "logprobs": (True,),
    "tools": ([TOOL],),
    "tool_choice": ("none",),
    "parallel_tool_calls": (False,),
    "response_format": ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}),
    "reasoning_effort": ("low", "high"),
    "chat_template_kwargs": ({"enable_thinking": False},),
    "structured_outputs": ({"choice": ["yes", "no"]},),
    "guided_regex": ("[0-9]+",),
    "cache_salt": ("a",),
    "lora_request": ("legal",),
    "ignore_eos": (True,),
    "min_tokens": (5,),
    "verbosity": ("low",),
    "a_parameter_of_next_year": (1, 2, {"nested": [1]}),
}


@pytest.mark.parametrize("name", DIFFERENT)
async def test_each_parameter_alone_makes_another_question(house: OpenHouse, name: str) -> None:
    """D1 (OrcaRouter#84), D2 (lobster#129, instructor#2585): never served from a request without it, nor with another
    value, not by the same bytes of the message and not by meaning."""
    async with house(embedder=alike()) as h:
        await h.ask()
        for number, value in enumerate(DIFFERENT[name], start=2):
            for stream in (False, True):
                told = await h.ask(**{name: value}, stream=stream)
                assert told.status == 200
                assert not told.hit or stream, f"{name}={value!r} was served from another request"
            assert h.calls >= number
            assert not (await h.ask("Why is the sky so blue?", **{name: value}, cache={"namespace": name})).hit


@pytest.mark.parametrize("name", ["temperature", "top_p", "seed", "stop", "tools"])
async def test_null_is_absent_and_zero_is_not(house: OpenHouse, name: str) -> None:
    """D2: an explicit null means the default, as it does for the worker; 0 is a value."""
    async with house() as h:
        await h.ask()
        assert (await h.ask(**{name: None})).hit
        if name in ("temperature", "seed"):
            assert not (await h.ask(**{name: 0})).hit


async def test_who_asks_and_how_it_travels_do_not_change_the_question(house: OpenHouse) -> None:
    """D1, the other way: what cannot change the words must not cost a hit."""
    async with house() as h:
        await h.ask()
        for fields in (
            {"user": "u1"}, {"metadata": {"trace": "x"}}, {"stream": True}, {"stream_options": None}, {"priority": 3},
            {"stream": True, "stream_options": {"include_usage": True}}, {"session_id": "s"}, {"max_tokens": 500},
            {"prompt_cache_key": "p"}, {"store": False}, {"request_id": "r-1"}, {"max_completion_tokens": 400},
        ):  # fmt: skip
            assert (await h.ask(**fields)).hit, fields
        assert h.calls == 1


async def test_a_tool_call_is_not_replayed_to_a_request_that_forbids_tools(house: OpenHouse) -> None:
    """D3 (OmniRoute#12734)."""
    question = "Please call a tool for me: what is the capital of Norway?"
    async with house(embedder=alike()) as h:
        called = await h.ask(question, tools=[TOOL])
        assert called.message["tool_calls"]
        told = await h.ask(question, tools=[TOOL], tool_choice="none")
        assert not told.hit and told.text and "tool_calls" not in told.message
        assert (await h.ask(question)).text
        assert h.calls == 3
        assert await h.stored() == 2, "the tool call itself is not stored"


async def test_who_asks_for_json_never_gets_prose(house: OpenHouse) -> None:
    """D4 (semantic-router#3423): the semantic path ignored everything but the text."""
    schema = {"type": "json_schema", "json_schema": {"name": "sky", "schema": {"type": "object"}}}
    async with house(embedder=alike()) as h:
        await h.ask("Why is the sky blue?")
        for question in ("Why is the sky blue?", "Why is the sky so blue?"):
            assert not (await h.ask(question, response_format=schema)).hit
        assert not (await h.ask("Why is the sky so very blue?", response_format=schema)).hit
        assert (await h.ask("Why is the sky blue?", response_format=schema)).hit, "the same bytes may"
        assert h.calls == 4


def shuffled(value: Any, dice: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        dice.shuffle(items)
        return {name: shuffled(inner, dice) for name, inner in items}
    return [shuffled(inner, dice) for inner in value] if isinstance(value, list) else value


async def test_the_order_of_keys_and_the_spacing_change_nothing(house: OpenHouse) -> None:
    """D5 (bifrost#2791, #3190)."""
    dice = random.Random(7)
    body = request("How far is the moon?", temperature=0.5, tools=[TOOL], stop=["a", "b"], logit_bias={"1": 2, "3": 4})
    async with house() as h:
        for run in range(200):
            spacing = dice.choice([None, 1, 4])
            told = await h.post("/v1/chat/completions", json.dumps(shuffled(body, dice), indent=spacing).encode())
            assert told.hit == (run > 0)
        assert h.calls == 1


async def test_the_order_of_a_list_does_change_the_question(house: OpenHouse) -> None:
    """D5: `stop: [a, b]` is the same set, but tools and parts are read in their order; we do not guess."""
    async with house() as h:
        await h.ask(stop=["a", "b"])
        assert not (await h.ask(stop=["b", "a"])).hit


async def test_one_and_one_point_zero_are_two_keys_as_documented(house: OpenHouse) -> None:
    """D5: a number keeps the form in which it came (see `cache.fingerprint.canonical`)."""
    async with house() as h:
        await h.ask(temperature=1)
        assert not (await h.ask(temperature=1.0)).hit


@pytest.mark.parametrize("how", [{"cache_control": "no-cache"}, {"cache": {"no-cache": True}}])
async def test_no_cache_goes_upstream_and_refreshes_the_entry(house: OpenHouse, how: dict[str, Any]) -> None:
    """D6 (litellm#3199): the per-request flag was ignored."""
    async with house() as h:
        await h.ask()
        first = (await h.explain("Why is the sky blue?"))["lookup"]["entry"]
        told = await h.ask(**how)
        assert not told.hit and told.cache_status.startswith("rejoinder; fwd=request")
        assert h.calls == 2
        assert (await h.explain("Why is the sky blue?"))["lookup"]["entry"] != first
        assert (await h.ask()).hit
        assert await h.stored() == 1


async def test_pictures_and_files_are_part_of_the_question(house: OpenHouse) -> None:
    """D8 (langchainjs#10092, apisix#13652, RAG-Anything#324, zeroclaw#7779)."""
    text = {"type": "text", "text": "What is shown here?"}

    def showing(*parts: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"role": "user", "content": [text, *parts]}]

    def picture(url: str, **more: str) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": url, **more}}

    asked = (
        showing(), showing(picture(PICTURE)), showing(picture(PICTURE + "A")), showing(picture(PICTURE, detail="high")),
        showing(picture(PICTURE), picture(PICTURE + "A")), showing(picture(PICTURE + "A"), picture(PICTURE)),
        showing({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
        showing({"type": "file", "file": {"file_id": "f1"}}), showing({"type": "file", "file": {"file_id": "f2"}}),
        showing({"type": "something_new", "text": "What is shown here?"}),
    )  # fmt: skip
    async with house(embedder=alike()) as h:
        for messages in asked:
            assert not (await h.ask(messages)).hit, messages
        assert h.calls == len(asked)
        assert (await h.ask(asked[1])).hit, "the very same picture may be answered"
        plain = await h.ask("What is shown here?")
        assert "here" in plain.text


async def test_keys_are_128_bits_and_another_house_computes_others(house: OpenHouse) -> None:
    """D9 (Bifrost's 64-bit xxhash): the scope's key is a keyed digest."""
    scopes = []
    for secret in ("a" * 32, "b" * 32):
        async with house(secret=secret, store="memory") as h:
            explained = await h.explain("Why is the sky blue?")
            scopes.append(explained["question"]["scope"])
    assert all(len(bytes.fromhex(scope)) == 16 for scope in scopes)
    assert scopes[0] != scopes[1]


async def test_one_prompt_under_two_filters_keeps_both_answers(house: OpenHouse) -> None:
    """D10 (redisvl#220): they overwrote each other."""
    async with house(embedder=alike()) as h:
        for _ in range(2):
            for version in ("7", "8"):
                await h.ask("What is the return policy?", cache={"sources": [{"id": "policy", "version": version}]})
        assert h.calls == 2
        assert await h.stored() == 2


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_a_stored_answer_serves_only_limits_that_it_fits(house: OpenHouse, limit: str) -> None:
    """D1: `max_tokens` is no part of the key, it is checked against the answer."""
    async with house() as h:
        tokens = (await h.ask()).json["usage"]["completion_tokens"]
        assert (await h.ask(**{limit: tokens})).hit
        short = await h.ask(**{limit: tokens - 1})
        assert not short.hit and short.json["choices"][0]["finish_reason"] == "length"
        assert (await h.ask(**{limit: 4096})).hit
        assert h.calls == 2


async def test_a_prompt_completion_is_compared_by_its_bytes_only(house: OpenHouse) -> None:
    """D1, `/v1/completions`: one more space may change how a raw prompt goes on."""
    async with house(embedder=alike()) as h:
        for prompt in ("Once upon a time", "Once upon a time ", "once upon a time", ["Once upon a time"]):
            told = await h.send("POST", "/v1/completions", json={"model": "demo", "prompt": prompt})
            assert told.status == 200 and not told.hit
            await h.settled()
            again = await h.send("POST", "/v1/completions", json={"model": "demo", "prompt": prompt})
            assert again.hit and again.json["object"] == "text_completion"
        assert not (await h.ask("Once upon a time")).hit, "and never as a chat"
        assert h.calls == 5
