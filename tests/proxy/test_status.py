"""`Cache-Status` and `Age`: always well formed, and only what this caller may know."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import Answer, Entry, Hit, Kind, Likeness, Miss, Reach, Scope, Verdict, Why
from proxy.status import of_hit, of_miss, of_relay, of_worker, quoted

SF_STRING = re.compile(r'"(?:[ !#-\[\]-~]|\\["\\])*"')  # RFC 8941, section 3.3.3
TOKEN = r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*"  # section 3.3.4
PARAMETER = re.compile(rf"; ([a-z*][a-z0-9_.*-]*)(?:=({SF_STRING.pattern}|{TOKEN}|-?\d{{1,15}}))?")
KNOWN = {"hit", "fwd", "fwd-status", "ttl", "stored", "collapsed", "key", "detail"}  # RFC 9211, section 2


def parsed(status: str) -> dict[str, str]:
    """The parameters of a `Cache-Status` member; fails when it is not one."""
    name, rest = status[: len("rejoinder")], status[len("rejoinder") :]
    assert name == "rejoinder"
    found = {}
    while rest:
        part = PARAMETER.match(rest)
        assert part is not None, f"not a parameter: {rest!r}"
        found[part[1]] = part[2] or "?1"
        rest = rest[part.end() :]
    assert set(found) <= KNOWN
    return found


def hit(
    *,
    tier: str = "similar",
    likeness: Likeness = Likeness.MEANING,
    similarity: float | None = 0.9412,
    age_s: float = 12.9,
) -> Hit:
    entry = Entry(
        id=1, kind=Kind.CHAT, scope=Scope("t", "m", "s"), text="q", key="k", proof="p", wording="w",
        reach=Reach.SIMILAR,
        answer=Answer(b"{}", 1), created_s=1000.0, expires_s=1600.0,
    )  # fmt: skip
    return Hit(entry, tier, likeness, age_s, similarity)


def verdict(why: Why = Why.NOTHING) -> Verdict:
    return Verdict(Reach.SIMILAR, Reach.SIMILAR, 60.0, "because", why)


def test_a_hit_says_how_it_was_found_and_how_long_it_lives() -> None:
    assert of_hit(hit(), detailed=True) == [
        ("Cache-Status", 'rejoinder; hit; ttl=587; detail="similar meaning 0.941"'), ("Age", "12"),
        ("X-Rejoinder-Entry", "0000000000000001"),
    ]  # fmt: skip


def test_similarity_is_told_only_to_who_may_know() -> None:
    assert parsed(of_hit(hit(), detailed=False)[0][1])["detail"] == '"similar meaning"'


def test_a_miss_says_why_the_request_went_on() -> None:
    miss = Miss("refused", 'numbers: 5 against "6"')
    assert of_miss(verdict(), miss, collapsed=False, detailed=True) == [
        ("Cache-Status", 'rejoinder; fwd=miss; detail="refused: numbers: 5 against \\"6\\""')
    ]
    assert of_miss(verdict(Why.REQUEST), miss, collapsed=False, detailed=False) == [
        ("Cache-Status", "rejoinder; fwd=request")
    ]


def test_a_shared_generation_is_called_collapsed() -> None:
    told = parsed(of_miss(verdict(), Miss("not-recent"), collapsed=True, detailed=True)[0][1])
    assert told == {"fwd": "miss", "collapsed": "?1", "detail": '"not-recent"'}


@pytest.mark.parametrize("why", list(Why))
def test_every_reason_to_go_on_is_one_of_the_rfc(why: Why) -> None:
    told = parsed(of_miss(verdict(why), Miss("x"), collapsed=False, detailed=False)[0][1])
    assert told["fwd"] in {"bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"}


def test_what_is_only_passed_on_bypassed_the_cache() -> None:
    assert parsed(of_relay()[0][1]) == {"fwd": "bypass"}


def test_the_worker_and_the_reason_for_it() -> None:
    assert of_worker("10.0.0.5:8000", 'session: "home"') == [
        ("X-Rejoinder-Worker", '10.0.0.5:8000; reason="session: \\"home\\""')
    ]


@given(st.text())
def test_any_text_becomes_a_valid_string(text: str) -> None:
    assert SF_STRING.fullmatch(quoted(text))
    assert quoted(text).isascii()


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=300))
def test_plain_text_can_be_read_back(text: str) -> None:
    assert re.sub(r"\\(.)", r"\1", quoted(text)[1:-1]) == text


def test_a_long_text_is_cut() -> None:
    assert len(quoted("\\" * 10_000)) == 602


@given(st.text(), st.text(), st.booleans(), st.booleans(), st.sampled_from(list(Why)))
def test_a_miss_is_well_formed_whatever_the_reason(
    reason: str, detail: str, collapsed: bool, detailed: bool, why: Why
) -> None:
    (name, status), *rest = of_miss(verdict(why), Miss(reason, detail), collapsed=collapsed, detailed=detailed)
    assert (name, rest) == ("Cache-Status", [])
    assert ("detail" in parsed(status)) is detailed


@given(
    st.sampled_from(["session", "recent", "similar"]), st.sampled_from(list(Likeness)), st.none() | st.floats(-1, 1),
    st.floats(0, 599), st.booleans(),
)  # fmt: skip
def test_a_hit_is_well_formed_whatever_it_is(
    tier: str, likeness: Likeness, similarity: float | None, age_s: float, detailed: bool
) -> None:
    headers = dict(of_hit(hit(tier=tier, likeness=likeness, similarity=similarity, age_s=age_s), detailed=detailed))
    told = parsed(headers["Cache-Status"])
    assert told["hit"] == "?1"
    assert int(told["ttl"]) + int(headers["Age"]) in (599, 600)
