"""What a caller may ask of the cache, in a header (RFC 9111, section 5.2.1) or in the body; and what is a mistake."""

import asyncio
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import Controls
from proxy.app import open_proxy
from proxy.controls import read_controls
from proxy.demo import SimulatedWorker
from proxy.errors import BadRequest
from proxy.settings import Settings


def header(value: str) -> Controls:
    return read_controls(value, None, None)


def body(**words: Any) -> Controls:
    return read_controls(None, None, {name.replace("_", "-"): value for name, value in words.items()})


def test_who_says_nothing_wants_nothing() -> None:
    assert read_controls(None, None, None) == Controls()
    assert header("") == header(" , ,") == body() == Controls()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("no-cache", Controls(no_cache=True)),
        ("No-Store", Controls(no_store=True)),
        ("only-if-cached", Controls(only_if_cached=True)),
        ("max-age=60", Controls(max_age_s=60)),
        ("MAX-AGE = 60", Controls(max_age_s=60)),
        ('max-age="60"', Controls(max_age_s=60)),
        ("min-fresh=5", Controls(min_fresh_s=5)),
        ("no-cache, no-store , max-age=0", Controls(no_cache=True, no_store=True, max_age_s=0)),
        ('no-cache="Set-Cookie"', Controls(no_cache=True)),
    ],
)
def test_request_directives_are_read(value: str, wanted: Controls) -> None:
    assert header(value) == wanted


@pytest.mark.parametrize(
    "value", ["private", "max-stale=60", "no-transform", "public, immutable", "ttl=5", "threshold=0.2", "=", ";"]
)
def test_unknown_directives_are_ignored(value: str) -> None:
    assert header(value) == Controls()


@pytest.mark.parametrize("age", ["soon", "-1", "1.5", "", "٣", "6 0", "1e3"])
def test_an_age_that_is_no_number_is_stale_at_once(age: str) -> None:
    assert header(f"max-age={age}").max_age_s == 0


@pytest.mark.parametrize("age", ["99999999999", "9" * 5000, "2147483649"])
def test_an_age_beyond_all_bounds_is_some_68_years(age: str) -> None:
    assert header(f"max-age={age}").max_age_s == 2**31


def test_leading_zeros_change_no_number() -> None:
    assert header("max-age=" + "0" * 20 + "60").max_age_s == 60


def test_who_says_two_ages_gets_the_one_that_serves_less() -> None:
    assert header("max-age=0, max-age=600").max_age_s == header("max-age=600, max-age=0").max_age_s == 0
    assert header("min-fresh=5, min-fresh=50").min_fresh_s == header("min-fresh=50, min-fresh=5").min_fresh_s == 50


def test_pragma_speaks_only_where_cache_control_is_silent() -> None:
    assert read_controls(None, "no-cache", None).no_cache
    assert read_controls(None, "No-Cache", None).no_cache
    assert not read_controls("max-age=5", "no-cache", None).no_cache
    assert not read_controls(None, "x-something", None).no_cache


@given(st.text(max_size=80))
def test_no_header_is_an_error(value: str) -> None:
    wishes = read_controls(value, value, None)
    assert wishes.max_age_s is None or 0 <= wishes.max_age_s <= 2**31


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ({"no-cache": True}, Controls(no_cache=True)),
        ({"no_store": True}, Controls(no_store=True)),
        ({"only-if-cached": True}, Controls(only_if_cached=True)),
        ({"max-age": 60}, Controls(max_age_s=60)),
        ({"max_age": 0.5, "min_fresh": 1}, Controls(max_age_s=0.5, min_fresh_s=1)),
        ({"ttl": 30}, Controls(ttl_s=30)),
        ({"threshold": 1}, Controls(threshold=1)),
        ({"threshold": 0.93}, Controls(threshold=0.93)),
        ({"namespace": "shop"}, Controls(namespace="shop")),
        ({"question": "Why?"}, Controls(question="Why?")),
        ({"no-cache": None, "ttl": None, "sources": None}, Controls()),
        ({"max-stale": 60}, Controls()),
    ],
)
def test_the_body_says_the_same_and_more(words: dict[str, Any], wanted: Controls) -> None:
    assert read_controls(None, None, words) == wanted


def test_false_is_short_for_no_store() -> None:
    assert read_controls(None, None, False) == Controls(no_store=True)


def test_tags_are_a_set_of_words() -> None:
    assert body(tags=["winter", "faq", "faq"]).tags == ("faq", "winter")


def test_sources_are_a_set_of_documents_and_versions() -> None:
    one = body(sources=[{"id": "b", "version": 8}, {"id": "a"}, {"id": "b", "version": "8"}])
    assert one.sources == (("a", ""), ("b", "8"))
    assert one == body(sources=[{"id": "a"}, {"id": "b", "version": "8"}])
    assert one != body(sources=[{"id": "a"}, {"id": "b", "version": "9"}])


def test_where_both_speak_the_body_wins() -> None:
    assert read_controls("no-store", None, {"no-store": False}) == Controls()
    assert read_controls("max-age=5", None, {"max-age": 50}).max_age_s == 50
    assert read_controls("no-cache", None, {"max-age": 50}) == Controls(no_cache=True, max_age_s=50)


@pytest.mark.parametrize(
    ("field", "param", "says"),
    [
        (True, "cache", "must be an object"),
        ("no-cache", "cache", "must be an object"),
        ([], "cache", "must be an object"),
        ({"no-cahce": True}, "cache.no-cahce", "not known. Known: no-cache"),
        ({"no-cache": 1}, "cache.no-cache", "true or false"),
        ({"no-store": "yes"}, "cache.no-store", "true or false"),
        ({"max-age": -1}, "cache.max-age", "seconds, 0 or more"),
        ({"max-age": True}, "cache.max-age", "seconds, 0 or more"),
        ({"ttl": "60"}, "cache.ttl", "seconds, 0 or more"),
        ({"min-fresh": []}, "cache.min-fresh", "seconds, 0 or more"),
        ({"threshold": 1.1}, "cache.threshold", "higher is stricter"),
        ({"threshold": -0.1}, "cache.threshold", "from 0 to 1"),
        ({"threshold": True}, "cache.threshold", "from 0 to 1"),
        ({"threshold": "0.9"}, "cache.threshold", "from 0 to 1"),
        ({"namespace": ""}, "cache.namespace", "not empty"),
        ({"namespace": 7}, "cache.namespace", "must be a text"),
        ({"question": "  "}, "cache.question", "not empty"),
        ({"sources": "a"}, "cache.sources", "must be a list"),
        ({"sources": [{"id": "a\nb"}]}, "cache.sources", "must be a list"),
        ({"sources": [{"id": f"{n}"} for n in range(33)]}, "cache.sources", "at most 32"),
        ({"tags": "faq"}, "cache.tags", "must be a list"),
        ({"tags": [""]}, "cache.tags", "must be a list"),
        ({"tags": ["x" * 201]}, "cache.tags", "at most 200"),
        ({"tags": [f"{n}" for n in range(33)]}, "cache.tags", "at most 32"),
        ({"sources": ["a"]}, "cache.sources", "must be a list"),
        ({"sources": [{"version": "8"}]}, "cache.sources", "must be a list"),
        ({"max-age": 5, "max_age": 6}, "cache", "twice"),
    ],
)
def test_a_mistake_in_the_body_is_pointed_at(field: object, param: str, says: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_controls(None, None, field)
    assert refused.value.param == param
    assert says in refused.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["no-cache", "max_age", "ttl", "threshold", "namespace", "question", "sources", "id", "x"]),
        inner, max_size=4
    ),
    max_leaves=8,
)  # fmt: skip


@given(JSON)
def test_whatever_stands_in_the_body_is_read_or_refused_in_words(field: object) -> None:
    try:
        wishes = read_controls("max-age=5", None, field)
    except BadRequest as refused:
        assert refused.message.startswith("`cache")
        return
    assert wishes.threshold is None or 0 <= wishes.threshold <= 1


async def test_two_cache_control_lines_are_one_list() -> None:
    async with asyncio.timeout(20), SimulatedWorker() as worker:
        settings = Settings(port=0, workers=(worker.url,), store="memory", embedder="none")
        async with open_proxy(settings) as proxy, aiohttp.ClientSession() as client:
            assert await proxy.health.wait_ready(10)
            body = {"model": "demo", "messages": [{"role": "user", "content": "Why?"}]}
            lines = [("Cache-Control", "max-age=60"), ("Cache-Control", "no-store")]
            async with client.post(f"{proxy.url}/v1/chat/completions", json=body, headers=lines) as reply:
                await reply.read()
            await proxy.gateway.settled()
            assert await proxy.cache.count() == 0
