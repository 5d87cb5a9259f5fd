"""An explanation in JSON and in words: everything that decided is in it, and both tell the same."""

from typing import Any

import orjson
import pytest
from chats import asked, chat

from cache import (
    Answer,
    Candidate,
    Entry,
    Explanation,
    Hit,
    Kind,
    Likeness,
    Miss,
    Question,
    Reach,
    Scope,
    Trait,
    Verdict,
)
from proxy.errors import NoWorker
from proxy.explain import Way, as_json, as_text
from proxy.routing import choice
from proxy.routing.identity import Identity, Source, Strength
from proxy.routing.workers import Worker

QUESTION = Question(
    kind=Kind.CHAT, scope=Scope("shop", "m", "5" * 32), text="How do I pay 50?", key="k", proof="p", wording="w",
    traits=frozenset({Trait.TIME_BOUND, Trait.PERSONAL}), limit=100, session="s",
)  # fmt: skip
ENTRY = Entry(
    id=255, kind=Kind.CHAT, scope=QUESTION.scope, text="How can I pay 50?", key="k", proof="p", wording="w",
    reach=Reach.SIMILAR,
    answer=Answer(b"{}", 5), created_s=0.0, expires_s=60.0,
)  # fmt: skip
VERDICT = Verdict(Reach.SIMILAR, Reach.RECENT, 60.0, "because it may")
HIT = Hit(ENTRY, "similar", Likeness.MEANING, 12.3456, 0.93214)
CANDIDATES = (
    Candidate("How can I pay 50?", 0.93214, 12.3456, ()),
    Candidate("How do I pay 60?", 0.91, 3.0, (("numbers", "50 against 60"), ("threshold", "0.910 is below 0.920"))),
)
CHOICE = choice.Choice(Worker("http://10.0.0.5:8000"), choice.Kind.NEW, "session: rendezvous home", 100)
WORKERS = (choice.Candidate(CHOICE.worker, 12.34, 64, exact=True),)
WHO = Identity("d" * 32, Strength.STRONG, Source.HEADER)


def told(outcome: Hit | Miss = HIT, question: Question = QUESTION, **others: Any) -> dict[str, Any]:
    explanation = Explanation(question, VERDICT, outcome, 0.9, others.pop("candidates", CANDIDATES))
    chosen = others.pop("choice", CHOICE)
    return as_json(explanation, Way(chosen, WORKERS if chosen is CHOICE else ()), others.pop("who", WHO))


def test_a_hit_is_told_with_all_that_decided() -> None:
    assert told() == {
        "context": None, "warning": None,
        "question": {
            "text": "How do I pay 50?", "kind": "chat", "model": "m", "tenant": "shop", "scope": "5" * 32,
            "traits": ["personal", "time-bound"], "limit_tokens": 100,
        },
        "conversation": None,
        "policy": {"read": "similar", "write": "recent", "ttl_s": 60.0, "reason": "because it may"},
        "lookup": {
            "hit": True, "tier": "similar", "likeness": "meaning", "similarity": 0.93214, "age_s": 12.346,
            "entry": "00000000000000ff", "stored_question": "How can I pay 50?",
        },
        "threshold": 0.9,
        "candidates": [
            {"text": "How can I pay 50?", "similarity": 0.9321, "age_s": 12.346, "would_serve": True, "reader": None,
             "p_right": None, "bar": None, "against": []},
            {"text": "How do I pay 60?", "similarity": 0.91, "age_s": 3.0, "would_serve": False, "reader": None,
             "p_right": None, "bar": None, "against": [
                {"by": "numbers", "reason": "50 against 60"}, {"by": "threshold", "reason": "0.910 is below 0.920"}]},
        ],
        "session": {"source": "X-Session-ID header", "strength": "strong"},
        "worker": {"name": "10.0.0.5:8000", "url": "http://10.0.0.5:8000", "reason": "session: rendezvous home"},
        "workers": [{
            "name": "10.0.0.5:8000", "cost_ms": 12.3, "resident_tokens": 64, "source": "KV events", "in_flight": 0,
        }],
        "prompt_tokens": 100,
    }  # fmt: skip


def test_a_miss_is_told_with_its_reason() -> None:
    assert told(Miss("refused", "numbers: 50 against 60"))["lookup"] == {
        "hit": False, "reason": "refused", "detail": "numbers: 50 against 60",
    }  # fmt: skip


def test_where_nobody_can_be_asked_the_error_stands() -> None:
    assert told(choice=NoWorker("No worker is up."))["worker"] == {"error": "No worker is up."}
    assert told(who=None)["session"] is None


@pytest.mark.parametrize("outcome", [HIT, Miss("bypass", "creative"), Miss("not-recent")])
def test_every_explanation_is_json(outcome: Hit | Miss) -> None:
    found = told(outcome)
    assert orjson.loads(orjson.dumps(found)) == found


def test_no_session_id_key_or_proof_leaves_the_house() -> None:
    text = orjson.dumps(told()).decode()
    assert "d" * 32 not in text
    assert not {"key", "proof", "id"} & set(told()["question"])


def test_in_words_a_hit_reads_like_this() -> None:
    assert as_text(told()).splitlines() == [
        "question   How do I pay 50?",
        "traits     personal, time-bound",
        "policy     may be read from similar, stored for recent, 60 s: because it may",
        "lookup     HIT in similar by meaning, cosine 0.932, 12.346 s old",
        "           stored for: How can I pay 50?",
        "candidate  0.932 would serve: How can I pay 50?",
        "candidate  0.910 refused: How do I pay 60?",
        "           by numbers: 50 against 60",
        "           by threshold: 0.910 is below 0.920",
        "session    X-Session-ID header (strong)",
        "worker     10.0.0.5:8000: session: rendezvous home",
        "           10.0.0.5:8000: 12.3 ms, 64 of 100 prompt tokens there by its KV events, 0 requests in hand",
    ]


def test_in_words_a_miss_and_nobody_to_ask() -> None:
    bare = Question(
        kind=Kind.COMPLETION, scope=QUESTION.scope, text=None, key="k", proof="p", wording=None, traits=frozenset(),
        limit=None,
        session=None,
    )  # fmt: skip
    lines = as_text(
        told(Miss("not-recent", "only bytes"), bare, candidates=(), choice=NoWorker("Nobody is up."), who=None)
    ).splitlines()
    assert lines == [
        "question   (nothing to compare but bytes)",
        "traits     none",
        "policy     may be read from similar, stored for recent, 60 s: because it may",
        "lookup     MISS not-recent: only bytes",
        "session    none",
        "worker     Nobody is up.",
    ]


def test_in_words_an_exact_hit_has_no_cosine() -> None:
    text = as_text(told(Hit(ENTRY, "session", Likeness.EXACT, 1.0), candidates=()))
    assert "HIT in session by exact, 1 s old" in text
    assert "cosine" not in text


def test_it_tells_which_of_the_turns_before_belong_to_the_question() -> None:
    talk = ("How do I open a mortgage?", "Ask us.")
    leaning = told(Miss("not-recent"), asked(chat(*talk, "and how long does that take?")), candidates=())
    assert leaning["conversation"]["turns"] == 1 and leaning["conversation"]["whole"]
    assert "history    all of it, 0 turns answered from known entries: it may lean on" in as_text(leaning)
    alone = told(Miss("not-recent"), asked(chat(*talk, "What are your opening hours?")), candidates=())
    assert "history    none of it, 0 turns answered from known entries: it stands alone" in as_text(alone)
