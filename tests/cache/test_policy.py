"""How far a question may travel, which stored entry may answer, which fresh answer may be kept: tables for each."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.entry import Answer, Entry
from cache.policy import (
    EXACT_ONLY,
    Controls,
    Outcome,
    Rules,
    Why,
    flight_key,
    inadmissible,
    judge,
    sounds_like_an_apology,
    unacceptable,
)
from cache.question import Kind, Question, Reach, Scope, Trait

RULES = Rules(ttl_s=3600.0, time_bound_ttl_s=60.0)
SCOPE = Scope("shop", "m", "5" * 32)


def question(
    *traits: Trait, session: str | None = "s", text: str | None = "Why?", limit: int | None = None
) -> Question:
    return Question(
        kind=Kind.CHAT, scope=SCOPE, text=None if EXACT_ONLY & set(traits) else text, key="k", proof="p", wording="w",
        traits=frozenset(traits), limit=limit, session=session,
    )  # fmt: skip


def entry(
    *,
    created_s: float = 1000.0,
    ttl_s: float = 600.0,
    tokens: int | None = 50,
    scope: Scope = SCOPE,
    kind: Kind = Kind.CHAT,
) -> Entry:
    return Entry(
        id=1, kind=kind, scope=scope, text="Why?", key="k", proof="p", wording="w", reach=Reach.SIMILAR,
        answer=Answer(b"{}", tokens), created_s=created_s, expires_s=created_s + ttl_s,
    )  # fmt: skip


# ── how far ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("traits", "session", "reach", "ttl_s", "says"),
    [
        ((), "s", Reach.SIMILAR, 3600.0, "shared inside its scope"),
        ((), None, Reach.SIMILAR, 3600.0, "shared inside its scope"),
        ((Trait.CREATIVE,), "s", Reach.NOWHERE, 3600.0, "something new"),
        ((Trait.PERSONAL,), "s", Reach.SESSION, 3600.0, "never leaves its session"),
        ((Trait.PERSONAL,), None, Reach.NOWHERE, 3600.0, "personal, and no session id"),
        ((Trait.TIME_BOUND,), "s", Reach.RECENT, 60.0, "bound to a moment: kept 60 s"),
        ((Trait.ACCOUNT,), "s", Reach.SESSION, 3600.0, "about the asker's own account: never leaves its session"),
        ((Trait.ACCOUNT,), None, Reach.NOWHERE, 3600.0, "about the asker's own account, and no session id"),
        ((Trait.PERSONAL, Trait.ACCOUNT), "s", Reach.SESSION, 3600.0, "personal: never leaves its session"),
        ((Trait.PERSONAL, Trait.TIME_BOUND), "s", Reach.SESSION, 60.0, "never leaves its session"),
        ((Trait.PERSONAL, Trait.CREATIVE), "s", Reach.NOWHERE, 3600.0, "something new"),
        ((Trait.TIME_BOUND, Trait.TOOLS), "s", Reach.RECENT, 60.0, "bound to a moment"),
        ((Trait.PERSONAL, Trait.NOT_TEXT), "s", Reach.SESSION, 3600.0, "never leaves its session"),
        ((Trait.NOT_TEXT,), "s", Reach.RECENT, 3600.0, "images, audio or files"),
        ((Trait.LOGPROBS,), None, Reach.RECENT, 3600.0, "logprobs"),
        ((Trait.SEVERAL_CHOICES,), "s", Reach.RECENT, 3600.0, "several choices"),
        ((Trait.TOOLS,), "s", Reach.RECENT, 3600.0, "with tools"),
        ((Trait.TOOL_RESULTS,), "s", Reach.RECENT, 3600.0, "tool's result"),
        ((Trait.STRUCTURED,), "s", Reach.RECENT, 3600.0, "structured output"),
        ((Trait.NO_TEXT,), "s", Reach.RECENT, 3600.0, "only bytes"),
    ],
)
def test_a_trait_limits_how_far_and_how_long(
    traits: tuple[Trait, ...], session: str | None, reach: Reach, ttl_s: float, says: str
) -> None:
    verdict = judge(question(*traits, session=session), Controls(), RULES)
    assert (verdict.read, verdict.write, verdict.ttl_s) == (reach, reach, ttl_s)
    assert says in verdict.reason
    assert verdict.why is (Why.BYPASS if reach is Reach.NOWHERE else Why.NOTHING)


@pytest.mark.parametrize(
    ("controls", "read", "write", "ttl_s", "why"),
    [
        (Controls(no_store=True), Reach.NOWHERE, Reach.NOWHERE, 0.0, Why.REQUEST),
        (Controls(no_cache=True), Reach.NOWHERE, Reach.SIMILAR, 3600.0, Why.REQUEST),
        (Controls(no_cache=True, no_store=True), Reach.NOWHERE, Reach.NOWHERE, 0.0, Why.REQUEST),
        (Controls(ttl_s=5), Reach.SIMILAR, Reach.SIMILAR, 5, Why.NOTHING),
        (Controls(ttl_s=99999), Reach.SIMILAR, Reach.SIMILAR, 3600.0, Why.NOTHING),
        (Controls(ttl_s=0), Reach.NOWHERE, Reach.NOWHERE, 0, Why.BYPASS),
        (
            Controls(max_age_s=5, min_fresh_s=5, only_if_cached=True, threshold=0.99),
            Reach.SIMILAR,
            Reach.SIMILAR,
            3600.0,
            Why.NOTHING,
        ),
    ],
)
def test_the_caller_may_narrow_it(controls: Controls, read: Reach, write: Reach, ttl_s: float, why: Why) -> None:
    verdict = judge(question(), controls, RULES)
    assert (verdict.read, verdict.write, verdict.ttl_s, verdict.why) == (read, write, ttl_s, why)
    assert verdict.controls is controls


@pytest.mark.parametrize("reach", [Reach.SESSION, Reach.RECENT, Reach.SIMILAR])
def test_the_operator_may_narrow_it(reach: Reach) -> None:
    assert judge(question(), Controls(), replace(RULES, reach=reach)).write is reach
    assert judge(question(Trait.PERSONAL), Controls(), replace(RULES, reach=reach)).write is Reach.SESSION
    assert judge(question(Trait.TOOLS), Controls(), replace(RULES, reach=reach)).write is min(reach, Reach.RECENT)


@pytest.mark.parametrize(
    ("traits", "reach", "says"),
    [
        ((Trait.ACCOUNT,), Reach.SIMILAR, "shared inside its scope"),
        ((Trait.ACCOUNT, Trait.TIME_BOUND), Reach.RECENT, "bound to a moment"),
        ((Trait.ACCOUNT, Trait.CREATIVE), Reach.NOWHERE, "something new"),
        ((Trait.ACCOUNT, Trait.PERSONAL), Reach.SESSION, "personal"),
        ((Trait.PERSONAL,), Reach.SESSION, "personal"),
        *(((Trait.ACCOUNT, each), Reach.SESSION, "own account") for each in sorted(EXACT_ONLY)),
    ],
)
def test_an_assistant_that_sees_no_accounts_may_share_what_is_asked_about_them(
    traits: tuple[Trait, ...], reach: Reach, says: str
) -> None:
    verdict = judge(question(*traits), Controls(), replace(RULES, account_questions="shared"))
    assert (verdict.write, verdict.read) == (reach, reach)
    assert says in verdict.reason


def test_what_is_kept_to_its_session_goes_nowhere_without_one() -> None:
    verdict = judge(question(session=None), Controls(), replace(RULES, reach=Reach.SESSION))
    assert (verdict.write, verdict.reason) == (Reach.NOWHERE, "kept to its session, and no session id to keep it in")
    assert not verdict.shareable


def test_an_operator_may_keep_nothing_about_the_moment() -> None:
    assert judge(question(Trait.TIME_BOUND), Controls(), replace(RULES, time_bound_ttl_s=0)).write is Reach.NOWHERE


TRAITS = st.sets(st.sampled_from(list(Trait)))
CONTROLS = st.builds(
    Controls, no_cache=st.booleans(), no_store=st.booleans(), max_age_s=st.none() | st.floats(0, 9999),
    ttl_s=st.none() | st.floats(0, 9999), threshold=st.none() | st.floats(0, 1),
)  # fmt: skip


@given(
    TRAITS, CONTROLS, st.none() | st.just("s"), st.sampled_from([Reach.SESSION, Reach.RECENT, Reach.SIMILAR]),
    st.booleans(),
)  # fmt: skip
def test_no_verdict_goes_farther_than_anybody_allowed(
    traits: set[Trait], controls: Controls, session: str | None, reach: Reach, shared: bool
) -> None:
    rules = replace(RULES, reach=reach, account_questions="shared" if shared else "session")
    verdict = judge(question(*traits, session=session), controls, rules)
    assert verdict.read <= verdict.write <= reach
    assert verdict.ttl_s <= RULES.ttl_s
    assert verdict.reason
    if Trait.PERSONAL in traits or (Trait.ACCOUNT in traits and (not shared or traits & EXACT_ONLY)):
        assert verdict.write <= Reach.SESSION
    if Trait.CREATIVE in traits or controls.no_store:
        assert verdict.write is Reach.NOWHERE
    if Trait.TIME_BOUND in traits:
        assert verdict.ttl_s <= RULES.time_bound_ttl_s
    if traits & EXACT_ONLY:
        assert verdict.write <= Reach.RECENT
    if session is None:
        assert verdict.write is not Reach.SESSION
    if controls.no_cache or controls.no_store:
        assert verdict.read is Reach.NOWHERE
        assert not verdict.shareable


@given(TRAITS, TRAITS, CONTROLS, st.booleans())
def test_one_more_trait_never_carries_an_answer_farther(
    traits: set[Trait], more: set[Trait], controls: Controls, shared: bool
) -> None:
    rules = replace(RULES, account_questions="shared" if shared else "session")
    before, after = (judge(question(*each), controls, rules) for each in (traits, traits | more))
    assert after.write <= before.write
    assert after.ttl_s <= before.ttl_s


# ── may this entry answer ────────────────────────────────────────────────────────────────────────────────────────────


def objection(
    now_s: float = 1100.0, asked: Question | None = None, stored: Entry | None = None, **controls: Any
) -> str | None:
    asked = asked or question()
    return unacceptable(stored or entry(), asked, judge(asked, Controls(**controls), RULES), now_s)


def test_a_fresh_entry_of_the_scope_may_answer() -> None:
    assert objection() is None


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"stored": entry(scope=Scope("bank", "m", "5" * 32))}, "another scope"),
        ({"stored": entry(scope=Scope("shop", "m2", "5" * 32))}, "another scope"),
        ({"stored": entry(scope=Scope("shop", "m", "6" * 32))}, "another scope"),
        ({"stored": entry(kind=Kind.COMPLETION)}, "another scope"),
        ({"now_s": 1600.0}, "expired"), ({"now_s": 9e9}, "expired"),
        ({"max_age_s": 99.9}, "older than max-age=99.9"), ({"max_age_s": 0}, "older than max-age=0"),
        ({"min_fresh_s": 501}, "not fresh for another 501 s"),
        ({"asked": question(limit=49)}, "50 tokens, the caller accepts 49"),
        ({"asked": question(limit=0)}, "50 tokens, the caller accepts 0"),
        ({"asked": question(limit=50), "stored": entry(tokens=None)}, "unknown"),
    ],
)  # fmt: skip
def test_an_entry_that_must_not_answer(found: dict[str, Any], says: str) -> None:
    assert says in (objection(**found) or "nothing")


@pytest.mark.parametrize(
    "found",
    [
        {"now_s": 1599.9}, {"max_age_s": 100}, {"min_fresh_s": 500}, {"asked": question(limit=50)},
        {"stored": entry(tokens=None)},
        {"now_s": 900.0},  # another replica's clock is ahead of ours
    ],
)  # fmt: skip
def test_an_entry_that_may_just_answer(found: dict[str, Any]) -> None:
    assert objection(**found) is None


# ── may this answer be kept ──────────────────────────────────────────────────────────────────────────────────────────

GOOD = Outcome(200, ("stop",), ("Because of Rayleigh scattering.",))


def test_a_whole_answer_may_be_kept() -> None:
    assert inadmissible(GOOD) is None
    assert inadmissible(replace(GOOD, finish_reasons=("stop", "stop"), texts=("a", "b"))) is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"status": 500}, "status 500"), ({"status": 429}, "status 429"), ({"status": 302}, "status 302"),
        ({"status": 199}, "status 199"),
        ({"complete": False}, "broke off"), ({"tool_calls": True}, "calls a tool"),
        ({"finish_reasons": ()}, "no choice"),
        ({"finish_reasons": ("length",)}, "finish_reason length"),
        ({"finish_reasons": ("content_filter",)}, "content_filter"),
        ({"finish_reasons": (None,)}, "finish_reason None"),
        ({"finish_reasons": ("stop", "length")}, "finish_reason length"),
        ({"finish_reasons": ("abort",)}, "abort"), ({"refusal": True}, "refused"), ({"texts": ("",)}, "empty"),
        ({"texts": (" \n\t",)}, "empty"), ({"texts": ("good", "")}, "empty"),
        ({"texts": ("good", "I'm sorry, no.")}, "apologises"),
    ],
)  # fmt: skip
def test_an_answer_that_must_not_be_kept(changed: dict[str, Any], says: str) -> None:
    assert says in (inadmissible(replace(GOOD, **changed)) or "nothing")


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.", "I’m sorry, I cannot assist.",
        "I am very sorry for the inconvenience.",
        "We're sorry, something broke.", "Sorry, I don't know.", "Sorry but there was a problem.",
        "I apologize for the confusion.",
        "We sincerely apologise.", "My apologies, I misread that.", "Apologies, but no.", "I cannot answer that.",
        "I can't help with this.",
        "I could not find anything.", "I am unable to process your request.", "I'm unable to assist with that.",
        "I'm not able to help.",
        "We are unable to complete it.", "We’re not able to access the data.", "Unfortunately, I cannot provide that.",
        "I'm afraid I can't do that.", "Unfortunately I don't have access to your account.",
        "I do not have access to real-time data.",
        "As an AI language model, I have no opinions.", "As a large language model I cannot know.",
        "An error occurred.",
        "Internal server error occurred while answering", "An unexpected error has occurred",
        "Something went wrong. Try later.",
        "The service is temporarily unavailable.", "The request has timed out.", "Please try again later.",
        "  **I'm sorry**, no.",
        "\n\nI’m really sorry about this", "抱歉，我无法回答这个问题。", "非常抱歉，系统出了问题。",
        "我很抱歉，这个我不知道。", "对不起，我不能提供这个信息。",
        "不好意思，没有找到。", "我无法回答这个问题。", "我不能提供此类信息", "我无法直接访问您的账户。",
        "作为一个AI语言模型，我没有感情。", "作为人工智能，我不能。",
        "系统繁忙，请稍后再试", "服务器错误", "服务暂时不可用。", "网络异常，请重试", "请求超时", "出错了，请重试",
        "出现错误",
    ],
)  # fmt: skip
def test_an_apology_is_heard(text: str) -> None:
    assert sounds_like_an_apology(text)


@pytest.mark.parametrize(
    "text",
    [
        "You can reset your password on the login page.", "To apologise to a customer, write: I'm sorry for the delay.",
        "Yes. I'm sure about it.", "The word sorry comes from Old English sarig.", "Sorry is a song by Justin Bieber.",
        "Error 404 means that a page was not found.", "Errors are listed in the log.",
        "The error occurred because the key was missing.",
        "I can help you with that.", "I could go on, but that is the gist.", "Cannot is one word.",
        "We are able to deliver on Sundays.",
        "The service is available from 9 to 5.", "The request has a method, a path and headers.",
        "Unfortunately, the store closed in 2019.",
        "As an airline passenger you may claim 250 euros.", "As a rule, yes.", "Please try our new app.",
        "I do not have to restart it.",
        "Failure modes are described below.", "您可以在登录页面重置密码。", "道歉时可以说：对不起，让您久等了。",
        "错误代码的含义如下", "我可以帮助您。", "系统设置里可以更改。",
        "服务费是每月十元。", "作为一个新用户，您可以先注册。", "请求头包含以下字段", "出口在左边。", "", "42",
    ],
)  # fmt: skip
def test_an_answer_is_not_taken_for_an_apology(text: str) -> None:
    assert not sounds_like_an_apology(text)


@given(st.text(max_size=300))
def test_listening_for_apologies_never_fails(text: str) -> None:
    assert sounds_like_an_apology("I'm sorry. " + text)
    assert not sounds_like_an_apology("Thus: I'm sorry. " + text)


def test_a_long_text_is_judged_quickly() -> None:
    assert not sounds_like_an_apology("error " + "x" * 2_000_000)
    assert not sounds_like_an_apology(" " * 2_000_000 + "y")


# ── who may share a generation ───────────────────────────────────────────────────────────────────────────────────────


def key(asked: Question) -> tuple[str, str, int | None, str]:
    return flight_key(asked, judge(asked, Controls(), RULES))


def test_equal_questions_share_a_generation_across_sessions() -> None:
    assert key(question(session="a")) == key(question(session="b")) == key(question(session=None))


@pytest.mark.parametrize(
    "other",
    [replace(question(), proof="q"), replace(question(), scope=Scope("shop", "m", "6" * 32)), question(limit=5)],
)
def test_whatever_changes_the_answer_is_another_generation(other: Question) -> None:
    assert key(other) != key(question())


def test_a_personal_question_is_shared_inside_its_session_only() -> None:
    assert key(question(Trait.PERSONAL, session="a")) != key(question(Trait.PERSONAL, session="b"))
    assert key(question(Trait.PERSONAL, session="a")) == key(question(Trait.PERSONAL, session="a"))
    assert not judge(question(Trait.PERSONAL, session=None), Controls(), RULES).shareable
