"""Answers that reached somebody else. CASES.md, group B. The embedder finds that everything is alike: only the scope
stands between two people."""

import asyncio
import json
import secrets
from typing import Any

import pytest
from embedders import alike
from house import EMBEDDERS, OpenHouse, turns

KEYS = {"key-ann": "acme", "key-ann-2": "acme", "key-bob": "globex"}

PERSONAL = (
    "What is my account balance?",
    "Where is my order 48213?",
    "My e-mail is ann@example.com, why can't I log in?",
    "Has my refund arrived?",
    "我的订单到哪里了？",
    "My card number is 4111 1111 1111 1111, is it blocked?",
    "Why was my claim rejected?",
    "What plan am I on?",
    "Have I paid?",
    "Has the parcel for Jane Roe arrived?",
    "I have asthma, may I dive?",
    "我被录取了吗",
    "为什么我的退款没到",
)


@pytest.mark.parametrize("question", PERSONAL)
async def test_a_personal_answer_stays_in_its_session(house: OpenHouse, question: str) -> None:
    """B1 (semantic-router#1448), B8 (semantic-router PR#1502): same tenant, same text, another person."""
    async with house(embedder=alike()) as h:
        await h.ask(question, session="ann")
        assert not (await h.ask(question, session="bob")).hit
        assert not (await h.ask(question)).hit, "nobody's session is nobody's answer"
        assert h.calls == 3
        own = await h.ask(question, session="ann")
        assert own.hit and "session" in own.cache_status, "the test must be able to fail: nothing was ever kept"
        assert await h.stored() == 2, "ann's and bob's, each in a scope that only its session can name"


@pytest.mark.parametrize("question", PERSONAL)
async def test_a_personal_generation_in_the_air_is_not_shared_either(house: OpenHouse, question: str) -> None:
    """B1, H6: coalescing is sharing, too."""
    async with house() as h:
        told = await asyncio.gather(*(h.ask(question, session=name) for name in ("ann", "bob", "cy", "ann")))
        assert h.calls == 3, "one for each person"
        assert sum(one.collapsed or one.hit for one in told) == 1
        await asyncio.gather(h.ask(question, stream=True), h.ask(question))
        assert h.calls == 5, "who has no session shares with nobody"


async def test_what_an_earlier_turn_revealed_keeps_the_follow_up_personal(house: OpenHouse) -> None:
    """B8: the answer may repeat what was said before."""
    chat = turns("I am Ann, ann@example.com.", "Hello Ann.", "Please write a summary of the process")
    async with house(embedder=alike()) as h:
        await h.ask(chat, session="ann")
        assert not (await h.ask(chat, session="bob")).hit
        assert await h.stored() == 2


SOMEBODYS = "Where is my order 70415?"
SHAPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("chat/completions", {"messages": [{"role": "user", "content": [SOMEBODYS]}]}),
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "input_text", "text": SOMEBODYS}]}]}),
    ("chat/completions", {"messages": [{"role": "customer", "content": SOMEBODYS}]}),
    ("chat/completions", {"messages": turns("Where is my order?", "Which one?", "The blue shoes")}),
    ("chat/completions", {"messages": turns("我的快递到哪了？", "哪一个？", "蓝色的鞋")}),
    ("completions", {"prompt": SOMEBODYS}),
    ("completions", {"prompt": [SOMEBODYS]}),
    ("completions", {"prompt": "Hello", "suffix": SOMEBODYS}),
    (
        "chat/completions",
        {"messages": turns("I mean my order of last week. Where is it?"), "cache": {"question": "Where is it?"}},
    ),
)


@pytest.mark.parametrize(("path", "fields"), SHAPES)
async def test_no_form_of_a_request_hides_whose_it_is(house: OpenHouse, path: str, fields: dict[str, Any]) -> None:
    """Reported: the same words as a plain string part, under another role, as a prompt list or in an earlier turn were
    shared between two sessions."""
    body = json.dumps({"model": "demo", **fields}).encode()
    async with house(embedder=alike()) as h:
        for session in ("ann", "bob"):
            told = await h.post(f"/v1/{path}", body, {"X-Session-ID": session})
            assert not told.hit and not told.collapsed
            await h.settled()
        together = (h.post(f"/v1/{path}", body, {"X-Session-ID": name}) for name in ("cy", "dee"))
        assert not any(told.hit or told.collapsed for told in await asyncio.gather(*together))
        assert await h.stored() == 4, "each in a scope that only its session can name"


async def test_a_long_turn_before_the_question_is_not_shared_by_meaning(house: OpenHouse) -> None:
    """What was not read may hold anything: only who sends the same bytes gets the answer."""
    async with house(embedder=alike()) as h:
        await h.ask(turns("the cat sat. " * 20_000, "ok", "hi there"))
        assert not (await h.ask(turns("the cat sat. " * 20_000, "ok", "hello there"))).hit
        assert (await h.ask(turns("the cat sat. " * 20_000, "ok", "hi there"))).hit


@pytest.mark.parametrize("length", [1, 30, 200])
async def test_a_long_question_does_not_drown_the_tenant(house: OpenHouse, length: int) -> None:
    """B2 (semantic-router#2134): isolation by a text prefix leaked at 0.9085. Ours is a partition."""
    question = "Explain in detail how photosynthesis works in plants and why it matters. " * length
    async with house(embedder=alike(), api_keys=KEYS) as h:
        await h.ask(question, key="key-ann")
        for asked in (question, question + "Thanks!", "How does photosynthesis work?"):
            assert not (await h.ask(asked, key="key-bob")).hit
            await h.forget_all()
            await h.ask(question, key="key-ann")
        assert (await h.ask(question, key="key-ann-2")).hit, "two keys of one tenant share"


async def test_byte_identical_requests_of_two_tenants_are_two_generations(house: OpenHouse) -> None:
    """B3 (OmniRoute#3740, GHSA-h9ww-f95j-h54c, wso2#733)."""
    async with house(embedder=alike(), api_keys=KEYS) as h:
        for stream in (False, True, False, True):
            for key in ("key-ann", "key-bob"):
                await h.ask(key=key, stream=stream, session="the same session name")
        assert h.calls == 2


async def test_two_tenants_at_once_do_not_share_a_generation(house: OpenHouse) -> None:
    """B3, H6: never across tenants, in the air neither."""
    async with house(api_keys=KEYS) as h:
        await asyncio.gather(*(h.ask(key=key, stream=stream) for key in KEYS for stream in (False, True)))
        assert h.calls == 2


async def test_without_configured_keys_each_bearer_key_is_a_tenant_of_its_own(house: OpenHouse) -> None:
    """B3: the worker may well treat the keys differently."""
    async with house(embedder=alike()) as h:
        for key in ("sk-1", "sk-2", None, "sk-1"):
            await h.ask(key=key)
        assert h.calls == 3


async def test_namespaces_do_not_mix(house: OpenHouse) -> None:
    """B4 (litellm#19575): the request's namespace was ignored by the semantic cache."""
    async with house(embedder=alike()) as h:
        for name in ("support", "sales", None):
            for question in ("How do I reset the router?", "How can I reset the router?"):
                await h.ask(question, cache={"namespace": name})
        assert h.calls == 3
        told = await asyncio.gather(*(h.ask("How do I bake bread?", cache={"namespace": name}) for name in "abc"))
        assert not any(one.collapsed for one in told)


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_isolation_does_not_cost_the_tenant_its_own_paraphrases(house: OpenHouse, embedder: str) -> None:
    """B5 (litellm#29086): with the whole request hashed into the filter, the semantic tier never hit at all."""
    async with house(embedder=embedder, api_keys=KEYS, trusted_tenants=("acme",)) as h:
        await h.ask("How do I reset the password?", key="key-ann", temperature=0.2, session="one")
        told = await h.ask("How can I reset the password?", key="key-ann-2", temperature=0.2, session="two", user="u7")
        assert told.hit and "similar meaning" in told.cache_status
        assert h.calls == 1


async def test_two_hundred_concurrent_answers_each_go_to_who_asked(house: OpenHouse) -> None:
    """B6 (litellm#25447): replies went to the wrong client under concurrency."""
    async with house(workers=3) as h:
        nonces = [secrets.token_hex(8) for _ in range(200)]
        told = await asyncio.gather(*(
            h.ask(f"Explain code {nonce}", stream=place % 2 == 0, session=nonce) for place, nonce in enumerate(nonces)
        ))  # fmt: skip
        for nonce, one in zip(nonces, told, strict=True):
            assert nonce in one.text
            assert sum(other in one.text for other in nonces) == 1


async def test_another_system_prompt_is_another_world(house: OpenHouse) -> None:
    """B7 (octopus#235)."""
    async with house(embedder=alike()) as h:
        for system in ("You are a pirate.", "You are a lawyer.", None, "You are a pirate. "):
            for stream in (False, True):
                await h.ask(turns("Who are you?", system=system), stream=stream)
        assert h.calls == 4


async def test_an_untrusted_caller_cannot_read_off_the_headers_who_asked_before(house: OpenHouse) -> None:
    """B9 (GPTCache#652): similarity, worker and reasons are for callers who may know them."""
    async with house(embedder=alike(), api_keys=KEYS, trusted_tenants=("globex",)) as h:
        miss = await h.ask("How do I reset the router?", key="key-ann")
        near = await h.ask("How can I reset the router?", key="key-ann")
        assert not miss.hit and near.hit
        assert miss.cache_status == "rejoinder; fwd=miss"
        assert not any(char.isdigit() for char in near.cache_status.partition("detail=")[2]), near.cache_status
        for told in (miss, near):
            # The reply token is opaque: tests/proxy/test_receipt.py.
            assert [name for name in told.names if name.startswith("x-rejoinder")] == ["x-rejoinder-reply"]
        assert (await h.post("/admin/explain", b"{}", {"Authorization": "Bearer key-ann"})).status == 403
        seen = await h.ask("How do I reset the router?", key="key-bob")
        assert seen.worker, "a trusted tenant may see who answered"
