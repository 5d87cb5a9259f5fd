"""Who weighs: which of its helpers is asked when, what labels do to one tenant and nobody else, and that nothing which
is late or broken ever serves."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from readers import ScriptedReader

from cache.adapted import Adapted
from cache.anchors import Anchors
from cache.assessor import JUDGED_RIGHT, Assessed, Assessor, answer_text
from cache.belief import RELIEF
from cache.calibration import FEATURES, Calibration, probability
from cache.entry import Answer, Entry, Vector
from cache.evidence import Evidence, Label, Source
from cache.policy import Controls, Rules, judge
from cache.question import Kind, Question, Reach, Scope
from cache.trust import CAUTIOUS, READ

NOW = 1_700_000_000.0
ASKED, STORED = "How do I reset my password?", "How can I reset my password?"
SURE, GREY, NO = 4.0, 1.0, -4.0  # logits
# A candidate is as sure as its reading says; 0.9 is a logit of 2.2.
WEIGHTS = (0.0, *(1.0 if name == "reader" else 0.0 for name in FEATURES), 0.0)
CALIBRATION = Calibration("c1", "e", "scripted", 0.5, WEIGHTS, 0.9, ((0.02, 0.6), (0.008, 0.9), (0.004, 0.97)))
TIGHT = 0.008  # a budget that takes more than the guards, so that the reader alone decides


class ScriptedJudge:
    """Says what it was told to; None = no verdict. An exception is raised."""

    def __init__(self, sure: float | Exception | None) -> None:
        self.sure = sure
        self.asked: list[tuple[str, str, str]] = []

    async def judge(self, asked: str, stored: str, answer: str) -> float | None:
        self.asked.append((asked, stored, answer))
        if isinstance(self.sure, Exception):
            raise self.sure
        return self.sure


def question(text: str = ASKED, *, tenant: str = "shop", model: str = "m") -> Question:
    return Question(
        kind=Kind.CHAT, scope=Scope(tenant, model, "5" * 32), text=text, key="k", proof="p", wording="w",
        traits=frozenset(), limit=None, session=None,
    )  # fmt: skip


def entry(text: str = STORED, id: int = 1, *, tenant: str = "shop", model: str = "m", body: bytes = b"") -> Entry:
    return Entry(
        id=id, kind=Kind.CHAT, scope=Scope(tenant, model, "5" * 32), text=text, key=f"k{id}", proof="p", wording=None,
        reach=Reach.SIMILAR, answer=Answer(body or b'{"choices":[{"message":{"content":"So."}}]}', 5),
        created_s=NOW - 10, expires_s=NOW + 600,
    )  # fmt: skip


def assessor(
    logit: float | None = SURE, *, judge: ScriptedJudge | None = None, budgets: dict[str, float] | None = None,
    budget: float = TIGHT, clock: list[float] | None = None, **more: object,
) -> Assessor:  # fmt: skip
    """logit: what the reader says of every pair."""
    reader = ScriptedReader({(ASKED, text): logit for text in (STORED, *(f"{STORED} {n}" for n in range(9)))})
    times = clock or [NOW]
    parts: dict[str, object] = {"reader": reader, "calibration": CALIBRATION, "judge": judge, **more}
    return Assessor(lambda: times[0], budget_of=lambda tenant: (budgets or {}).get(tenant, budget), **parts)  # type: ignore[arg-type]


async def assess(
    subject: Assessor, *near: tuple[Entry, float], asked: Question | None = None, floor: float | None = None,
    threshold: float | None = None, vector: Sequence[float] = (1.0, 0.0), vectors: dict[int, Vector] | None = None,
) -> Assessed:  # fmt: skip
    asked = asked or question()
    verdict = judge(asked, Controls(threshold=threshold), Rules())
    return await subject.assess(
        asked, near or ((entry(), 0.8),), np.array(vector, np.float32), verdict, cautious=0.9, asked_floor=floor,
        vectors=vectors,
    )  # fmt: skip


def serves(assessed: Assessed) -> bool:
    return assessed.weighed.chosen is not None


def label(
    right: bool, *, tenant: str = "shop", model: str = "m", calibration: str = "c1",
    features: Sequence[float] | None = None,
    principal: str = "", entry_id: int = 1, logit: float = SURE,
) -> Label:  # fmt: skip
    seen = tuple(features) if features is not None else tuple(logit if name == "reader" else 0.0 for name in FEATURES)
    return Label(
        right, Source.SHADOW, NOW, 1.0, tenant, model, entry_id, Evidence(0.9, seen, 0.98, calibration), principal
    )


# ── the reader ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_the_reader_is_sure_of_is_served_and_says_why() -> None:
    found = await assess(assessor(SURE))
    assert found.weighed.chosen == entry()
    assert found.weighed.evidence is not None
    assert found.weighed.evidence.calibration == "c1"
    assert found.weighed.evidence.p_right == pytest.approx(probability(SURE))
    assert found.readings == {1: SURE}
    assert (found.floor, found.bar) == (0.5, 0.9)


@pytest.mark.parametrize("logit", [NO, None])
async def test_a_no_and_a_late_reader_serve_nothing(logit: float | None) -> None:
    found = await assess(assessor(logit))
    assert not serves(found) and found.weighed.grey is None
    assert found.weighed.refused


async def test_the_reader_reads_only_what_may_be_served_and_little_of_that() -> None:
    reader = ScriptedReader()
    subject = assessor(reader=reader)
    near = [(entry(f"{STORED[:-1]} {n}?", n), 0.99) for n in (11, 12)]
    await assess(subject, *near, (entry(STORED, 3), 0.4))
    assert reader.asked == [], "another number, too far: nobody reads"
    await assess(subject, *near, *((entry(id=n), 0.9) for n in range(1, 6)))
    assert reader.asked == [(ASKED, (STORED,) * READ)]


async def test_without_a_reader_or_a_calibration_the_cautious_way_is_the_only_one() -> None:
    for subject in (assessor(reader=None), assessor(calibration=None), Assessor(lambda: NOW)):
        found = await assess(subject, (entry(), 0.91))
        assert serves(found) and found.weighed.evidence is not None
        assert found.weighed.evidence.calibration == CAUTIOUS and found.readings == {}
        assert found.floor == 0.9
        assert not serves(await assess(subject, (entry(), 0.89)))
        assert not serves(await assess(subject, (entry("Why do I reset my password?"), 0.99)))
        assert not serves(await assess(subject, (entry(), 0.91), floor=0.92)), "the operator's own threshold"


async def test_the_default_budget_allows_the_cautious_way_and_a_tighter_one_does_not() -> None:
    for budget, served in ((0.05, True), (0.01, True), (0.009, False)):
        assert serves(await assess(assessor(NO, budget=budget), (entry(), 0.95))) is served


@pytest.mark.parametrize(("floor", "threshold"), [(0.85, None), (None, 0.85)])
async def test_operator_and_caller_may_ask_for_more_than_the_calibration(
    floor: float | None, threshold: float | None
) -> None:
    found = await assess(assessor(SURE), (entry(), 0.84), floor=floor, threshold=threshold)
    assert not serves(found) and found.floor == 0.85
    assert serves(await assess(assessor(SURE), (entry(), 0.86), floor=floor, threshold=threshold))


async def test_nothing_near_is_nothing_served() -> None:
    subject = assessor()
    asked = question()
    verdict = judge(asked, Controls(), Rules())
    for each in (subject, Assessor(lambda: NOW)):
        found = await each.assess(asked, [], np.zeros(2, np.float32), verdict, cautious=0.9, asked_floor=None)
        assert not serves(found) and found.weighed.refused == ()


async def test_the_explanation_is_that_of_the_decision() -> None:
    subject, asked = assessor(SURE), question()
    near = [(entry("How can I reset my 2 passwords?", 2), 0.95), (entry(), 0.8), (entry(id=3), 0.45)]
    verdict = judge(asked, Controls(threshold=0.5), Rules())
    found = await assess(subject, *near, asked=asked, threshold=0.5)
    told = subject.explained(asked, near, verdict, found)
    assert [candidate.against == () for candidate in told] == [False, True, False]
    assert [candidate.reader for candidate in told] == [None, SURE, None]
    assert told[0].against[0][0] == "numbers" and told[2].against[0][0] == "threshold"
    assert told[1].p_right == pytest.approx(probability(SURE)) and told[1].bar == 0.9


# ── the judge ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("logit", "asked"), [(SURE, 0), (GREY, 1), (NO, 0), (None, 0)])
async def test_the_judge_is_asked_in_the_grey_band_only(logit: float | None, asked: int) -> None:
    judge = ScriptedJudge(1.0)
    await assess(assessor(logit, judge=judge))
    assert len(judge.asked) == asked


async def test_what_the_judge_finds_right_is_served() -> None:
    judge = ScriptedJudge(0.99)
    found = await assess(assessor(GREY, judge=judge))
    assert judge.asked == [(ASKED, STORED, "So.")]
    assert found.weighed.chosen == entry() and found.weighed.similarity == 0.8
    assert found.weighed.evidence is not None and found.weighed.evidence.p_right == 0.99
    assert found.weighed.refused == (), "it is not refused any more"


@pytest.mark.parametrize(("budget", "served"), [(0.008, False), (0.02, False), (0.05, True)])
async def test_a_tighter_budget_takes_a_surer_judge(budget: float, served: bool) -> None:
    """Who is right with 0.95 is wrong in twenty; the budget allows half of that at least. Never below JUDGED_RIGHT."""
    strict = replace(CALIBRATION, bars=((0.0, 0.9),))
    subject = assessor(GREY, judge=ScriptedJudge(0.95), budget=budget, calibration=strict)
    assert serves(await assess(subject)) is served
    lax = assessor(GREY, judge=ScriptedJudge(JUDGED_RIGHT - 0.01), budget=0.5, calibration=strict)
    assert not serves(await assess(lax))


@pytest.mark.parametrize("sure", [JUDGED_RIGHT - 0.01, 0.0, None, RuntimeError("the worker is gone")])
async def test_a_judge_who_doubts_or_breaks_leaves_a_miss(sure: float | Exception | None) -> None:
    found = await assess(assessor(GREY, judge=ScriptedJudge(sure)))
    assert not serves(found)
    assert [refusal.by for refusal in found.weighed.refused] == ["trust"]


async def test_without_a_judge_the_grey_band_is_a_miss() -> None:
    found = await assess(assessor(GREY))
    assert not serves(found) and found.weighed.grey is not None


async def test_an_answer_that_cannot_be_read_is_not_judged() -> None:
    judge = ScriptedJudge(1.0)
    assert not serves(await assess(assessor(GREY, judge=judge), (entry(body=b'{"choices":[]}'), 0.8)))
    assert judge.asked == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"choices":[{"message":{"content":"Hi"}}]}', "Hi"), (b'{"choices":[{"text":"Hi"}]}', "Hi"),
        (b'{"choices":[{"message":{"content":null}}]}', None), (b'{"choices":[{}]}', None), (b'{"choices":[]}', None),
        (b"{}", None), (b"[]", None), (b"", None), (b"no", None), (b'{"choices":[{"message":{}}]}', None),
        (b'{"choices":{"0":1}}', None), (b'{"choices":[3]}', None), (b'{"choices":[{"message":{"content":[]}}]}', None),
    ],
)  # fmt: skip
def test_the_text_of_an_answer(body: bytes, said: str | None) -> None:
    assert answer_text(entry(body=body or b" ")) == said


# ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_wrong_labels_tighten_their_scope_and_no_other() -> None:
    subject = assessor(3.0)
    for n in range(12):
        subject.learn(label(n % 2 == 0, logit=3.0))
    assert not serves(await assess(subject))
    for tenant, model in (("bank", "m"), ("shop", "n")):
        other = question(tenant=tenant, model=model)
        assert serves(await assess(subject, (entry(tenant=tenant, model=model), 0.8), asked=other))


async def test_right_labels_loosen_once_they_are_many() -> None:
    subject = assessor(2.0)
    assert not serves(await assess(subject))
    subject.learn(label(True, logit=2.0))
    assert not serves(await assess(subject)), "one is not enough"
    for _ in range(300):
        subject.learn(label(True, logit=2.0))
    assert serves(await assess(subject))


@pytest.mark.parametrize(
    "wrong",
    [
        label(False, calibration="c0"), label(False, calibration=""), label(False, features=()),
        label(False, features=(1.0, 2.0)),
    ],
)  # fmt: skip
async def test_what_another_calibration_weighed_teaches_nothing(wrong: Label) -> None:
    subject = assessor(3.0)
    for _ in range(50):
        subject.learn(wrong)
    assert not subject.alarmed("shop", "m")
    assert serves(await assess(subject))


async def test_without_a_calibration_labels_are_not_in_the_way() -> None:
    subject = Assessor(lambda: NOW)
    subject.learn(label(False))
    subject.begin([label(False)] * 10)
    assert not subject.alarmed("shop", "m")
    assert serves(await assess(subject, (entry(), 0.95)))


async def test_beginning_again_counts_no_label_twice() -> None:
    once, often = assessor(3.0), assessor(3.0)
    labels = [label(n != 0, logit=3.0) for n in range(8)]
    once.begin(labels)
    for _ in range(5):
        often.begin(labels)
    for subject in (once, often):
        assert serves(await assess(subject)) == serves(await assess(once))
        assert subject._beliefs["shop", "m"].count == 8
    once.begin([])
    assert serves(await assess(once))


async def test_what_is_forgotten_teaches_no_more() -> None:
    subject = assessor(3.0)
    for _ in range(10):
        subject.learn(label(False))
        subject.learn(label(False, tenant="bank"))
    subject.forget("shop", None)
    assert not subject.alarmed("shop", "m") and subject.alarmed("bank", "m")
    assert serves(await assess(subject))
    subject.forget(None, None)
    assert not subject.alarmed("bank", "m")


def test_one_caller_alone_raises_no_alarm() -> None:
    subject = assessor()
    for _ in range(50):
        subject.learn(label(False, principal="bob"))
        subject.learn(label(False, principal="bob", calibration=CAUTIOUS, features=(), entry_id=2))
    assert not subject.alarmed("shop", "m")


async def test_an_alarm_halves_the_budget_until_labels_are_right_again(caplog: pytest.LogCaptureFixture) -> None:
    subject = assessor(SURE)
    for _ in range(4):
        subject.learn(label(False, logit=20.0))
    assert subject.alarmed("shop", "m") and not subject.alarmed("bank", "m")
    assert (await assess(subject)).bar == 0.97
    for _ in range(RELIEF):
        subject.learn(label(True, logit=20.0))
    assert not subject.alarmed("shop", "m")
    assert (await assess(subject)).bar == 0.9
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1, (
        "told once, not ever again"
    )


async def test_an_alarm_with_no_tighter_bar_leaves_the_tightest() -> None:
    """Were nothing served any more, no label could ever speak for it again."""
    subject = assessor(SURE, budget=0.005)
    for _ in range(4):
        subject.learn(label(False, logit=20.0))
    assert (await assess(subject)).bar == 0.97


async def test_the_cautious_way_ends_when_it_is_wrong_too_often() -> None:
    subject = assessor(NO, budget=0.05)
    assert serves(await assess(subject, (entry(), 0.95)))
    for n in range(5):
        subject.learn(label(False, calibration=CAUTIOUS, features=(), entry_id=n))
    assert not serves(await assess(subject, (entry(), 0.95)))


def test_at_the_start_an_alarm_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    subject = assessor()
    subject.begin([label(False)] * 40 + [label(False, tenant="bank")])
    assert len(caplog.records) == 1 and "tenant shop, model m" in caplog.text


async def test_every_tenant_has_a_budget_of_its_own() -> None:
    subject = assessor(GREY, budgets={"bank": 0.02})
    assert not serves(await assess(subject))
    bank = question(tenant="bank")
    assert serves(await assess(subject, (entry(tenant="bank"), 0.8), asked=bank))


# ── what the operator's own labels taught ────────────────────────────────────────────────────────────────────────────

ANCHORS = Anchors(np.array([[0.0, 5.0, -5.0], [0.0, -5.0, 5.0], [0.0, 0.0, 0.0]], np.float32))
HERE, SAME, THERE = (np.array(each, np.float32) for each in ((1.0, 0.0), (1.0, 0.0), (0.0, 1.0)))


async def test_known_answers_speak_for_or_against() -> None:
    weights = tuple(2.0 if name == "agreement" else 0.5 if name == "reader" else 0.0 for name in FEATURES)
    learned = replace(CALIBRATION, name="adapted", weights=(0.5, *weights, 0.0))
    subject = assessor(SURE, adapted=Adapted(learned, ANCHORS))
    assert subject.wants_vectors and not assessor().wants_vectors
    found = await assess(subject, vectors={1: SAME})
    assert serves(found) and found.weighed.evidence is not None
    seen = dict(zip(FEATURES, found.weighed.evidence.features, strict=True))
    assert seen["agreement"] == pytest.approx(0.0, abs=0.05) and seen["known"] > 0.9
    assert not serves(await assess(subject, vectors={1: THERE}))


async def test_a_neighbour_whose_vector_is_gone_has_no_known_answer_in_common() -> None:
    weights = tuple(2.0 if name == "agreement" else 0.5 if name == "reader" else 0.0 for name in FEATURES)
    learned = replace(CALIBRATION, name="adapted", weights=(0.5, *weights, 0.0))
    subject = assessor(SURE, adapted=Adapted(learned, ANCHORS))
    assert not serves(await assess(subject, vectors={}))


async def test_what_was_learned_replaces_what_ships() -> None:
    learned = replace(CALIBRATION, name="adapted", bars=())
    subject = assessor(SURE, adapted=Adapted(learned, None))
    assert not serves(await assess(subject))
    for _ in range(5):
        subject.learn(label(False))
    assert not subject.alarmed("shop", "m"), "labels of the one that ships"
    subject.learn(label(False, calibration="adapted"))
    assert ("shop", "m") in subject._beliefs
