"""The caller's wishes: `Cache-Control`, the body field `cache`, and what the reply says of it (RFC 9111, RFC 9211)."""

from typing import Any

import pytest
from embedders import alike
from house import Clock, OpenHouse

SAME_WISH: dict[str, tuple[str, dict[str, Any]]] = {
    "no-cache": ("no-cache", {"no-cache": True}),
    "no-store": ("no-store", {"no-store": True}),
    "only-if-cached": ("only-if-cached", {"only-if-cached": True}),
    "max-age=0": ("max-age=0", {"max-age": 0}),
    "max-age=5": ("max-age=5", {"max_age": 5}),
    "max-age=100": ("max-age=100", {"max-age": 100}),
    "min-fresh=50": ("min-fresh=50", {"min-fresh": 50}),
    "min-fresh=95": ("min-fresh=95", {"min_fresh": 95}),
    "max-stale=10": ("max-stale=10", {"max-stale": 10}),
    "both": ("max-age=100, min-fresh=5", {"max-age": 100, "min-fresh": 5}),
    "contradiction": ("no-store, only-if-cached", {"no-store": True, "only-if-cached": True}),
    "nothing": ("", {}),
}


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("wish", SAME_WISH)
async def test_header_and_body_field_have_the_same_effect(house: OpenHouse, wish: str, stream: bool) -> None:
    """Issue: SDK users cannot always set headers."""
    header, field = SAME_WISH[wish]
    seen = []
    for how in ({"cache_control": header}, {"cache": field}):
        clock = Clock()
        async with house(clock=clock, ttl_s=100, store="memory") as h:
            await h.ask()
            clock.pass_by(10)
            told = await h.ask(stream=stream, **how)
            unknown = await h.ask("How far is the moon?", stream=stream, **how)
            after = await h.ask("How far is the moon?")
            seen.append([
                (one.status, one.hit, one.cache_status.partition("; detail")[0]) for one in (told, unknown, after)
            ] + [h.calls, await h.stored()])  # fmt: skip
            assert all("cache" not in body for body in h.bodies), "the field never reaches the worker"
    assert seen[0] == seen[1]
    assert seen[0][0][:2] == {
        "no-cache": (200, False), "no-store": (200, False), "only-if-cached": (200, True), "max-age=0": (200, False),
        "max-age=5": (200, False), "max-age=100": (200, True), "min-fresh=50": (200, True),
        "min-fresh=95": (200, False), "max-stale=10": (200, True), "both": (200, True), "contradiction": (504, False),
        "nothing": (200, True),
    }[wish]  # fmt: skip


@pytest.mark.parametrize(
    "field", [{"no-cache": True}, {"no_cache": True}, {"ttl": 9}, {"namespace": "n"}, {}, False, None]
)
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_the_cache_field_never_reaches_the_worker(house: OpenHouse, field: Any, stream: bool) -> None:
    """Issue: vLLM would warn about it, other servers refuse it."""
    async with house() as h:
        told = await h.ask(cache=field, stream=stream, temperature=0.5, a_new_field={"x": [1, 2.50]})
        assert told.status == 200
        [body] = h.bodies
        assert "cache" not in body
        assert (body["temperature"], body["a_new_field"], body["stream"]) == (0.5, {"x": [1, 2.5]}, stream)


async def test_only_if_cached_is_504_when_there_is_nothing_and_asks_nobody(house: OpenHouse) -> None:
    """RFC 9111, 5.2.1.7."""
    async with house() as h:
        told = await h.ask(cache_control="only-if-cached")
        assert told.status == 504
        assert told.error["code"] == "not_cached"
        assert h.calls == 0
        await h.ask()
        assert (await h.ask(cache_control="only-if-cached")).hit
        assert (await h.ask(cache={"only-if-cached": True}, stream=True)).done
        assert h.calls == 1


async def test_the_body_wins_where_both_speak(house: OpenHouse) -> None:
    """Issue: an SDK's default header must not undo what the program says."""
    async with house() as h:
        await h.ask()
        assert (await h.ask(cache_control="no-cache", cache={"no-cache": False})).hit
        assert not (await h.ask(cache_control="max-age=1000", cache={"max-age": 0})).hit or h.calls == 1


@pytest.mark.parametrize(
    "header", ["No-Cache", " no-cache ", "foo=bar, no-cache", "no-cache,,", 'private, no-cache="x"']
)
async def test_directives_are_read_as_http_reads_them(house: OpenHouse, header: str) -> None:
    """RFC 9111, 5.2: names in any case, unknown ones ignored."""
    async with house() as h:
        await h.ask()
        assert not (await h.ask(cache_control=header)).hit


async def test_pragma_is_understood_as_no_cache(house: OpenHouse) -> None:
    """RFC 9111, 5.4: when there is no Cache-Control."""
    async with house() as h:
        await h.ask()
        assert not (await h.ask(headers={"Pragma": "no-cache"})).hit
        assert (await h.ask(headers={"Pragma": "no-cache", "Cache-Control": "max-age=60"})).hit


WRONG = (
    5, "no-cache", [], True, {"no-cash": True}, {"no-cache": "yes"}, {"ttl": -1}, {"ttl": "10"}, {"threshold": 2},
    {"threshold": True}, {"namespace": ""}, {"namespace": 5}, {"sources": "doc"}, {"sources": [{"version": 1}]},
    {"question": []}, {"max-age": None, "min-fresh": {}},
)  # fmt: skip


@pytest.mark.parametrize("field", WRONG, ids=str)
async def test_a_wish_that_cannot_be_read_is_400_and_says_what_is_wrong(house: OpenHouse, field: Any) -> None:
    """Issue: a mistyped wish must not pass for none."""
    async with house() as h:
        told = await h.ask(cache=field)
        assert told.status == 400
        assert told.error["param"].startswith("cache")
        assert "cache" in told.error["message"]
        assert h.calls == 0


async def test_hit_and_miss_stream_and_json_carry_the_same_names(house: OpenHouse) -> None:
    """Issue: `Cache-Status` always; `Age` where there is an age; no name depends on the shape."""
    ours = {"cache-status", "age", "x-request-id", "x-rejoinder-worker"}
    async with house(embedder=alike()) as h:
        told = {
            (kind, stream): await h.ask(question, stream=stream)
            for kind, question in (("miss", "Why is the sky blue?"), ("hit", "Why is the sky blue?"))
            for stream in ((False,) if kind == "miss" else (False, True))
        }
        told["miss", True] = await h.ask("How many moons has Mars?", stream=True)
        names = {which: ours.intersection(one.names) for which, one in told.items()}
        assert names["miss", True] == names["miss", False] == {"cache-status", "x-request-id", "x-rejoinder-worker"}
        assert names["hit", True] == names["hit", False] == {"cache-status", "x-request-id", "age"}
        for one in told.values():
            assert one.cache_status.startswith("rejoinder; ")
            assert sorted(one.names) == sorted(set(one.names)), "no header is told twice"


async def test_a_marked_question_is_compared_and_the_rest_of_the_message_is_its_scope(house: OpenHouse) -> None:
    """DESIGN 8, RAG: the question is usually inside a longer message."""

    def prompt(document: str, question: str) -> str:
        return f"Answer from this document: {document}\nQuestion: {question}"

    first, near = "How do I reset the router?", "How can I reset the router?"
    async with house(embedder=alike()) as h:
        await h.ask(prompt("v7", first), cache={"question": first})
        assert (await h.ask(prompt("v7", near), cache={"question": near})).hit
        assert not (await h.ask(prompt("v8", first), cache={"question": first})).hit
        assert not (await h.ask(prompt("v7", near))).hit, "unmarked, it is another message"
        assert h.calls == 3
