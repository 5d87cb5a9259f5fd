"""Somebody says that an answer was wrong, and what is done about it. Nobody's word counts for more than it may."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from embedders import alike
from house import CHAT, Clock, House, OpenHouse, Told, open_house, request
from scripted import STREAM, Asked, ScriptedWorker, completion

QUESTION, REWORDED = "How do I reset my password?", "How can I reset my password?"
KEYS = {
    "key-ann": "acme", "key-bob": "acme", "key-carl": "acme", "key-editor": "acme", "key-app": "app", "key-eve": "evil",
}  # fmt: skip
KEYED: dict[str, Any] = {
    "api_keys": KEYS, "curate_keys": ("key-editor",), "trusted_tenants": ("app",),
    "admin_tokens": {"token-of-lead-001": "curate lead"},
}  # fmt: skip


@asynccontextmanager
async def counting() -> AsyncIterator[ScriptedWorker]:
    """A worker whose answers are numbered, so that a fresh one can be told from a stored one."""
    numbers = itertools.count(1)

    async def answer(_: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(completion({"role": "assistant", "content": f"Answer number {next(numbers)}."}))

    async with ScriptedWorker(answer) as worker:
        yield worker


@pytest.fixture
def keyed(tmp_path: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[House]:
        async with counting() as worker, open_house(tmp_path, [worker], **(KEYED | settings)) as h:
            yield h

    return opened


def token(told: Told) -> str:
    return told.headers["X-Rejoinder-Reply"]


async def rate(h: House, told: Told | str, rating: str, key: str | None = None, **more: Any) -> Told:
    headers = more.pop("headers", {})
    body = {"reply": told if isinstance(told, str) else token(told), "rating": rating, **more}
    authorization = {"Authorization": f"Bearer {key}"} if key else {}
    return await h.post("/v1/feedback", orjson.dumps(body), authorization | headers)


async def outcome(h: House, told: Told | str, rating: str, key: str | None = None, **more: Any) -> Mapping[str, Any]:
    said = await rate(h, told, rating, key, **more)
    assert said.status == 200, said.body
    result: Mapping[str, Any] = said.json
    return result


# ── the token ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_reply_of_ours_carries_a_token_and_what_passes_through_does_not(house: OpenHouse) -> None:
    async with house() as h:
        miss, hit = await h.ask(QUESTION), await h.ask(QUESTION)
        streamed = await h.ask(QUESTION, stream=True)
        fresh = await h.ask("Why is the sky blue?", stream=True)
        unkept = await h.ask(QUESTION, cache_control="no-store")
        assert hit.hit and streamed.hit and not fresh.hit
        for told in (miss, hit, streamed, fresh, unkept):
            assert told.names.count("x-rejoinder-reply") == 1
        passed = await h.post("/v1/embeddings", orjson.dumps({"model": "demo", "input": "x"}))
        assert "x-rejoinder-reply" not in passed.names


async def test_a_browser_may_read_the_token(house: OpenHouse) -> None:
    async with house() as h:
        told = await h.ask(QUESTION, headers={"Origin": "https://shop.example"})
        assert "X-Rejoinder-Reply" in told.headers["Access-Control-Expose-Headers"]


@pytest.mark.parametrize(
    ("spoil", "status", "says"),
    [
        (lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"), 400, "not a token"),
        (lambda text: "A" * len(text), 400, "not a token"),
        (lambda text: text[:20], 400, "not a token"), (lambda _: "ünïcode", 400, "not a token"),
        (lambda _: "x" * 5000, 400, "not a token"), (lambda _: "", 400, "X-Rejoinder-Reply"),
    ],
)  # fmt: skip
async def test_a_forged_token_does_nothing(keyed: Any, spoil: Callable[[str], str], status: int, says: str) -> None:
    async with keyed() as h:
        told = await h.ask(QUESTION, key="key-ann")
        said = await rate(h, spoil(token(told)), "bad", "key-editor")
        assert said.status == status and says in said.error["message"] and said.error["param"] == "reply"
        assert (await h.ask(QUESTION, key="key-ann")).hit


async def test_another_tenants_token_looks_like_a_forged_one(keyed: Any) -> None:
    async with keyed() as h:
        told = await h.ask(QUESTION, key="key-ann")
        stolen, forged = await rate(h, told, "bad", "key-eve"), await rate(h, "A" * 72, "bad", "key-eve")
        assert stolen.error == forged.error and stolen.status == forged.status == 400
        assert (await h.ask(QUESTION, key="key-ann")).hit
        assert (await rate(h, told, "bad")).status == 401  # without a key nobody says anything


async def test_a_reply_of_long_ago_cannot_be_rated_and_the_message_says_the_way_out(tmp_path: Path) -> None:
    clock = Clock()
    async with open_house(tmp_path, clock=clock, ttl_s=1e7, feedback_window_s=100) as h:
        told = await h.ask(QUESTION)
        clock.pass_by(100)
        assert (await rate(h, told, "good")).status == 200
        clock.pass_by(2)
        late = await rate(h, told, "bad")
        assert late.status == 410 and "Ask the question again" in late.error["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"rating": "bad"}, "reply"), ({"reply": 7, "rating": "bad"}, "reply"), ({"reply": "x"}, "rating"),
        ({"reply": "x", "rating": "awful"}, "rating"), ({"reply": "x", "rating": ["bad"]}, "rating"),
        ({"reply": "x", "rating": "bad", "comment": 1}, "comment"),
        ({"reply": "x", "rating": "bad", "comment": "x" * 2001}, "comment"),
        ({"reply": "x", "rating": "bad", "commment": "typo"}, "commment"),
    ],
)  # fmt: skip
async def test_a_rating_that_cannot_be_read_says_what_would_be_right(house: OpenHouse, body: Any, param: str) -> None:
    async with house() as h:
        said = await h.post("/v1/feedback", orjson.dumps(body))
        assert said.status == 400 and said.error["param"] == param and said.error["type"] == "invalid_request_error"
        assert (await h.post("/v1/feedback", b"not json")).status == 400


async def test_a_restart_does_not_make_a_token_worthless(tmp_path: Path) -> None:
    async with open_house(tmp_path, **KEYED) as h:
        told = await h.ask(QUESTION, key="key-ann")
    async with open_house(tmp_path, **KEYED) as h:
        assert (await outcome(h, told, "bad", "key-editor"))["quarantined"]
        assert not (await h.ask(QUESTION, key="key-ann")).hit


# ── whose "bad" does what ────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_callers_bad_hides_the_answer_from_that_session_and_from_nobody_else(keyed: Any) -> None:
    async with keyed() as h:
        await h.ask(QUESTION, key="key-ann", session="other")
        told = await h.ask(QUESTION, key="key-ann", session="mine")
        assert told.hit
        said = await outcome(h, told, "bad", "key-ann", comment="The link is dead.")
        assert (said["hidden"], said["queued"], said["quarantined"], said["role"]) == (True, True, False, "user")
        for session in ("other", "third"):
            again = await h.ask(QUESTION, key="key-ann", session=session)
            assert again.hit and again.text == told.text
        fresh = await h.ask(QUESTION, key="key-ann", session="mine")
        assert not fresh.hit and fresh.text != told.text
        assert (await h.ask(QUESTION, key="key-ann", session="mine")).text == fresh.text


async def test_what_a_session_hid_is_not_found_by_meaning_either(keyed: Any) -> None:
    async with keyed(embedder=alike()) as h:
        await h.ask(QUESTION, key="key-ann", session="other")
        told = await h.ask(REWORDED, key="key-ann", session="mine")
        assert told.hit and "meaning" in told.cache_status
        await outcome(h, told, "bad", "key-ann")
        assert not (await h.ask(REWORDED, key="key-ann", session="mine")).hit


async def test_a_restart_does_not_show_it_to_that_session_again(tmp_path: Path) -> None:
    async with counting() as worker:
        async with open_house(tmp_path, [worker], **KEYED) as h:
            await h.ask(QUESTION, key="key-ann", session="other")
            told = await h.ask(QUESTION, key="key-ann", session="mine")
            await outcome(h, told, "bad", "key-ann")
        async with open_house(tmp_path, [worker], **KEYED) as h:
            assert (await h.ask(QUESTION, key="key-ann", session="other")).hit
            assert not (await h.ask(QUESTION, key="key-ann", session="mine")).hit


async def test_a_caller_without_a_session_hides_nothing_and_is_told_the_way_out(keyed: Any) -> None:
    async with keyed() as h:
        said = await outcome(h, await h.ask(QUESTION, key="key-ann"), "bad", "key-ann")
        assert (said["hidden"], said["queued"]) == (False, True) and "no-cache" in said["message"]
        assert (await h.ask(QUESTION, key="key-bob")).hit


async def test_one_caller_with_a_hundred_sessions_is_one_caller(keyed: Any) -> None:
    async with keyed() as h:
        await h.ask(QUESTION, key="key-bob")
        for number in range(10):
            told = await h.ask(QUESTION, key="key-ann", session=f"s{number}")
            assert told.hit
            assert not (await outcome(h, told, "bad", "key-ann"))["quarantined"]
        assert (await h.ask(QUESTION, key="key-bob")).hit


async def test_as_many_callers_as_the_quorum_take_it_out_of_service_everywhere(keyed: Any) -> None:
    async with keyed(bad_quorum=3, embedder=alike()) as h:
        told = await h.ask(QUESTION, key="key-ann", session="mine")
        for key in ("key-ann", "key-bob", "key-ann"):
            assert not (await outcome(h, told, "bad", key))["quarantined"]
        assert (await h.ask(QUESTION, key="key-bob", session="other")).hit
        assert (await outcome(h, told, "bad", "key-carl"))["quarantined"]
        fresh = await h.ask(REWORDED, key="key-bob")
        assert not fresh.hit, "found by meaning"
        for session in ("mine", "other", None):
            again = await h.ask(QUESTION, key="key-ann", session=session)
            assert again.text != told.text


async def test_a_caller_who_takes_it_back_is_not_counted(keyed: Any) -> None:
    async with keyed() as h:
        told = await h.ask(QUESTION, key="key-ann")
        await outcome(h, told, "bad", "key-ann")
        await outcome(h, told, "good", "key-ann")
        assert not (await outcome(h, told, "bad", "key-bob"))["quarantined"]


async def test_a_curators_bad_is_enough_and_the_next_answer_is_fresh_and_stored(keyed: Any) -> None:
    async with keyed() as h:
        told = await h.ask(QUESTION, key="key-ann", session="mine")
        said = await outcome(h, told, "bad", "key-editor")
        assert (said["role"], said["quarantined"]) == ("curate", True)
        fresh = await h.ask(QUESTION, key="key-ann", session="mine")
        assert not fresh.hit and fresh.text != told.text
        again = await h.ask(QUESTION, key="key-bob")
        assert again.hit and again.text == fresh.text
        assert (await outcome(h, told, "bad", "key-editor"))["quarantined"]  # said twice, nothing more happens
        assert (await h.ask(QUESTION, key="key-bob")).hit


async def test_a_personal_answer_goes_from_its_session_too(keyed: Any) -> None:
    async with keyed() as h:
        mine = "What is the status of my order 4711?"
        told = await h.ask(mine, key="key-ann", session="mine")
        assert (await h.ask(mine, key="key-ann", session="mine")).hit
        await outcome(h, told, "bad", "key-editor")
        assert not (await h.ask(mine, key="key-ann", session="mine")).hit


async def test_the_end_users_of_a_trusted_application_are_counted_one_by_one(keyed: Any) -> None:
    async with keyed() as h:
        told = await h.ask(QUESTION, key="key-app", headers={"X-Rejoinder-User": "u1"})
        for user in ("u1", "u1"):
            assert not (await outcome(h, told, "bad", "key-app", user=user))["quarantined"]
        assert not (await outcome(h, told, "bad", "key-app"))["quarantined"]  # the one who was told: u1 again
        assert (await outcome(h, told, "bad", "key-app", headers={"X-Rejoinder-User": "u2"}))["quarantined"]


async def test_whoever_is_not_trusted_cannot_name_users_to_vote_for_him(keyed: Any) -> None:
    async with keyed() as h:
        told = await h.ask(QUESTION, key="key-ann")
        for user in ("u1", "u2", "u3"):
            said = await outcome(h, told, "bad", "key-ann", user=user, headers={"X-Rejoinder-User": user})
            assert not said["quarantined"]


async def test_the_users_name_stays_here(keyed: Any) -> None:
    async with keyed() as h:
        await h.ask(QUESTION, key="key-app", headers={"X-Rejoinder-User": "anna@example.org"})
        assert all(call.header("X-Rejoinder-User") is None for call in h.workers[0].calls)


async def test_on_a_laptop_the_operator_curates_but_not_the_users_he_speaks_for(house: OpenHouse) -> None:
    async with house() as h:
        told = await h.ask(QUESTION, user="anna")
        assert not (await outcome(h, told, "bad"))["quarantined"]
        mine = await h.ask(QUESTION)
        assert mine.hit
        assert (await outcome(h, mine, "bad"))["quarantined"]
        assert not (await h.ask(QUESTION)).hit


async def test_an_answer_that_was_not_kept_has_nobody_to_be_hidden_from(keyed: Any) -> None:
    async with keyed() as h:
        told = await h.ask(QUESTION, key="key-ann", cache_control="no-store")
        said = await outcome(h, told, "bad", "key-editor")
        assert not said["quarantined"] and "not kept" in said["message"]


# ── late answers ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_stream_that_is_called_wrong_while_it_runs_is_not_kept(tmp_path: Path) -> None:
    """The header comes before the first word; the answer would be stored after the last."""
    go_on = asyncio.Event()

    async def answer(web_request: web.Request, asked: Asked) -> web.StreamResponse:
        reply = web.StreamResponse(headers=STREAM)
        await reply.prepare(web_request)
        for content, finish in (("Press the", None), (" button.", "stop")):
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "demo",
                     "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]}  # fmt: skip
            await reply.write(b"data: " + orjson.dumps(chunk) + b"\n\n")
            if finish is None:
                await go_on.wait()
        await reply.write(b"data: [DONE]\n\n")
        return reply

    async with ScriptedWorker(answer) as worker, open_house(tmp_path, [worker], **KEYED) as h:
        headers = {"Authorization": "Bearer key-ann"}
        async with h.client.post(CHAT, json=request(QUESTION, stream=True), headers=headers) as reply:
            await reply.content.readany()
            said = await outcome(h, reply.headers["X-Rejoinder-Reply"], "bad", "key-editor")
            assert said["quarantined"]
            go_on.set()
            assert (await reply.read()).endswith(b"data: [DONE]\n\n")
        assert await h.stored() == 0
        assert not (await h.ask(QUESTION, key="key-bob", stream=True)).hit


async def test_those_who_shared_a_generation_share_its_entry(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def answer(_: web.Request, asked: Asked) -> web.StreamResponse:
        await go_on.wait()
        return web.json_response(completion({"role": "assistant", "content": "Press the button."}))

    async with ScriptedWorker(answer) as worker, open_house(tmp_path, [worker], **KEYED) as h:
        both = [asyncio.create_task(h.ask(QUESTION, key=key)) for key in ("key-ann", "key-bob")]
        await h.until(lambda: sum(flight.listeners for flight in h.proxy.flights._by_key.values()) == 2)
        go_on.set()
        ann, bob = await asyncio.gather(*both)
        await outcome(h, ann, "bad", "key-ann")
        assert (await outcome(h, bob, "bad", "key-bob"))["quarantined"]


# ── review ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_who_reviews_sees_what_was_asked_answered_and_said(keyed: Any) -> None:
    async with keyed(bad_quorum=2) as h:
        one = await h.ask(QUESTION, key="key-ann")
        two = await h.ask("Why is the sky blue?", key="key-ann")
        await outcome(h, one, "bad", "key-ann", comment="The link is dead.")
        await outcome(h, two, "bad", "key-ann")
        await outcome(h, two, "bad", "key-bob")
        headers = {"Authorization": "Bearer token-of-lead-001"}
        listed = (await h.send("GET", "/admin/review", headers=headers)).json
        (queued,), (out,) = listed["queue"], listed["quarantined"]
        assert (queued["question"], queued["answer"]) == (QUESTION, one.text)
        assert queued["comments"] == ["The link is dead."] and queued["reason"] == "1 of 2 callers"
        assert (out["question"], out["answer"], out["tenant"]) == ("Why is the sky blue?", two.text, "acme")
        assert out["reason"] == "2 callers called it wrong"

        released = await h.post(f"/admin/entries/{out['entry']}/release", b"", headers)
        assert released.json == {"released": 1}
        again = await h.ask("Why is the sky blue?", key="key-carl")
        assert again.hit and again.text == two.text
        taken = await h.post(f"/admin/entries/{queued['entry']}/quarantine", b'{"reason": "outdated"}', headers)
        assert taken.json == {"quarantined": 1}
        assert not (await h.ask(QUESTION, key="key-carl")).hit
        listed = (await h.send("GET", "/admin/review", headers=headers)).json
        assert (listed["queue"], [each["reason"] for each in listed["quarantined"]]) == ([], ["outdated"])


async def test_the_doors_of_review_are_for_the_operator(keyed: Any) -> None:
    async with keyed() as h:
        mine, trusted = {"Authorization": "Bearer key-ann"}, {"Authorization": "Bearer token-of-lead-001"}
        looks = {"Authorization": "Bearer key-app"}
        assert (await h.send("GET", "/admin/review", headers=looks)).status == 200
        assert (await h.post(f"/admin/entries/{'0' * 16}/quarantine", b"", looks)).status == 403
        assert (await h.send("GET", "/admin/review", headers=mine)).status == 403
        for deed in ("quarantine", "release"):
            path = f"/admin/entries/{'0' * 16}/{deed}"
            assert (await h.post(path, b"", mine)).status == 403
            assert (await h.post(path, b"", trusted | {"Origin": "https://evil.example"})).status == 403
            assert (await h.post(f"/admin/entries/xyz/{deed}", b"", trusted)).status == 400
        assert (await h.post(f"/admin/entries/{'0' * 16}/release", b"", trusted)).status == 404
        assert (await h.post(f"/admin/entries/{'0' * 16}/praise", b"", trusted)).status == 404


async def test_explain_says_why_the_answer_is_not_served(house: OpenHouse) -> None:
    async with house() as h:
        told = await h.ask(QUESTION, session="mine", user="anna")
        await outcome(h, told, "bad")
        against = [each["against"] for each in (await h.explain(QUESTION, session="mine"))["candidates"]]
        assert [{"by": "policy", "reason": "this session called it wrong"}] in against
        await outcome(h, await h.ask(QUESTION, session="other"), "bad")
        against = [each["against"] for each in (await h.explain(QUESTION, session="other"))["candidates"]]
        assert [{"by": "quarantine", "reason": "a curator called it wrong"}] in against


async def test_what_was_said_is_counted(keyed: Any) -> None:
    async with keyed() as h:
        told = await h.ask(QUESTION, key="key-ann")
        await outcome(h, told, "good", "key-bob")
        await outcome(h, told, "bad", "key-ann")
        await outcome(h, told, "bad", "key-editor")
        assert await h.metric("rejoinder_feedback_total", rating="good", role="user") == 1
        assert await h.metric("rejoinder_feedback_total", rating="bad", role="curate") == 1
        assert await h.metric("rejoinder_quarantined_total") == 1


async def test_what_was_served_by_meaning_from_a_wrong_answer_waits_for_a_second_look(keyed: Any) -> None:
    async with keyed(embedder=alike(), shadow_share=0) as h:
        told = await h.ask(QUESTION, key="key-ann")
        assert (await h.ask(REWORDED, key="key-bob")).hit
        served = h.proxy.cache.reviews.served
        await outcome(h, told, "bad", "key-editor")
        suspect = served.next_suspect()
        assert suspect is not None and suspect.text == REWORDED and served.next_suspect() is None


# ── promote_after ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_caller_with_many_sessions_plants_nothing(keyed: Any) -> None:
    """Single-user seeding: whatever session ids he invents, nobody else is served what he caused."""
    async with keyed(promote_after=2, embedder=alike()) as h:
        planted = [await h.ask(QUESTION, key="key-ann", session=f"s{number}") for number in range(10)]
        assert len({told.text for told in planted}) == 10 and not any(told.hit for told in planted)
        own = await h.ask(QUESTION, key="key-ann", session="s3")
        assert own.hit and own.text == planted[3].text  # his session keeps what it was told
        assert await h.stored() == 0
        for asked in (QUESTION, REWORDED):
            victim = await h.ask(asked, key="key-bob", session="s3")  # not even under the same session id
            assert victim.text not in {told.text for told in planted}


async def test_what_is_shared_is_the_second_callers_own_fresh_answer(keyed: Any) -> None:
    async with keyed(promote_after=2) as h:
        first = await h.ask(QUESTION, key="key-ann", session="a")
        second = await h.ask("  how do I reset my password", key="key-bob", session="b")  # the same words are enough
        third = await h.ask("  how do I reset my password", key="key-carl")
        assert not second.hit and third.hit and third.text == second.text != first.text
        assert (await h.ask(QUESTION, key="key-ann", session="a")).text == first.text


async def test_end_users_whom_a_trusted_caller_names_are_counted_and_he_himself_vouches(keyed: Any) -> None:
    async with keyed(promote_after=2) as h:
        for session in ("s1", "s2", "s3"):
            assert not (await h.ask(QUESTION, key="key-app", session=session, user="u1")).hit
        assert not (await h.ask(QUESTION, key="key-app", user="u2")).hit
        assert (await h.ask(QUESTION, key="key-app", user="u3")).hit
        await h.ask("Why is the sky blue?", key="key-app")
        assert (await h.ask("Why is the sky blue?", key="key-app", user="u4")).hit


async def test_users_whom_an_untrusted_caller_invents_promote_nothing(keyed: Any) -> None:
    async with keyed(promote_after=2) as h:
        for user in ("u1", "u2", "u3"):
            told = await h.ask(QUESTION, key="key-ann", user=user, headers={"X-Rejoinder-User": user})
            assert not told.hit
        assert await h.stored() == 0


async def test_what_one_caller_asked_alone_is_not_shared_in_the_air_either(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    numbers = itertools.count(1)

    async def answer(_: web.Request, asked: Asked) -> web.StreamResponse:
        number = next(numbers)
        await go_on.wait()
        return web.json_response(completion({"role": "assistant", "content": f"This is answer number {number}."}))

    async with ScriptedWorker(answer) as worker, open_house(tmp_path, [worker], promote_after=2, **KEYED) as h:
        ann = asyncio.create_task(h.ask(QUESTION, key="key-ann", session="s"))
        await h.until(lambda: len(worker.calls) == 1)
        bob = asyncio.create_task(h.ask(QUESTION, key="key-bob", session="s"))
        await h.until(lambda: len(worker.calls) == 2)
        go_on.set()
        assert (await ann).text != (await bob).text
