"""Learning from labels in a toy world: what helps is learned, what was held out is never seen, and nobody is told that
the new is better when it is not."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from readers import ScriptedReader

from cache.adapted import Adapted
from cache.adapting import FEWEST, HELD_OUT, Labelled, Lesson, Material, Scorecard, _nominated, adapted, gathered
from cache.anchors import agreement, fit
from cache.calibration import FEATURES, Calibration
from cache.embedder.hashing import HashingEmbedder
from cache.entry import Answer, Entry
from cache.errors import EmbedderUnavailable
from cache.policy import Controls, Rules, judge
from cache.question import Kind, Question, Reach, Scope
from cache.trust import Near, features_of, nominate

# The calibration to begin from: it looks at the cosine, and asks for more of it than this embedder ever gives.
NAMED = {"similarity": 4.0, "reader": 0.2}
START = Calibration(
    "shipped", "hashing-64", "scripted", 0.3, (-2.0, *(NAMED.get(name, 0.0) for name in FEATURES), 0.0), 0.9,
    ((0.05, 0.9), (0.005, 0.98)),
)  # fmt: skip
TOPICS = {
    "reset": ("reset", "forgotten password"), "refund": ("get", "money returned"), "hours": ("find", "opening times"),
    "invoice": ("download", "latest invoice"), "address": ("change", "delivery address"),
}  # fmt: skip
OPENINGS = (
    "how do i {} my {}", "how can i {} the {}", "where do i {} my {}", "please help me {} my {}", "i want to {} my {}",
    "what must i do to {} my {}", "is there a way to {} the {}", "how to {} the {}", "tell me how to {} my {}",
    "i need to {} my {}", "i would like to {} my {}", "could you explain how to {} my {}",
)  # fmt: skip


def world() -> list[Labelled]:
    return [Labelled(shape.format(*words), answer) for shape in OPENINGS for answer, words in TOPICS.items()]


def question(text: str) -> Question:
    return Question(
        kind=Kind.CHAT, scope=Scope("t", "m", "s"), text=text, key="k", proof="p", wording=None, traits=frozenset(),
        limit=None, session=None,
    )  # fmt: skip


def entry(text: str, id: int) -> Entry:
    return Entry(
        id=id, kind=Kind.CHAT, scope=Scope("t", "m", "s"), text=text, key=f"k{id}", proof="p", wording=None,
        reach=Reach.SIMILAR, answer=Answer(b"{}", 5), created_s=1000.0, expires_s=2000.0,
    )  # fmt: skip


def silent(what: str, share: float) -> None:
    assert what and 0.0 <= share <= 1.0


async def material(labelled: Sequence[Labelled], reader: ScriptedReader | None = None) -> Material:
    return await gathered(labelled, HashingEmbedder(), reader or ScriptedReader(), START.floor, silent)


async def test_a_toy_world_is_learned() -> None:
    labelled = world()
    assert len(labelled) >= FEWEST
    lesson = await adapted(await material(labelled), START, 0.05, "adapted", silent)
    learned = lesson.adapted.calibration
    assert (learned.name, learned.embedder, learned.reader, learned.floor) == ("adapted", "hashing-64", "scripted", 0.3)
    assert learned.weights != START.weights and learned.spread <= START.spread
    assert learned.weights[1 + FEATURES.index("agreement")] > 0, "a known answer in common speaks for it"
    assert lesson.adapted.anchors is not None
    assert lesson.adapted.anchors.weights.shape == (65, 1 + len(TOPICS))
    assert lesson.old.asked == lesson.new.asked == int(len(labelled) * HELD_OUT)
    assert lesson.new.served <= lesson.new.asked and lesson.new.wrong <= lesson.new.served


async def test_the_held_out_questions_are_never_seen_before_they_are_asked() -> None:
    """Every fourth. Their answers are swapped for nonsense: what the others teach, and what is served, is the same."""
    labelled = world()
    spoilt = [replace(each, answer=f"nonsense {n}") if n % 4 == 0 else each for n, each in enumerate(labelled)]
    one = await adapted(await material(labelled), START, 0.2, "a", silent)
    two = await adapted(await material(spoilt), START, 0.2, "a", silent)
    assert one.new.served > 0
    assert (one.new.served, one.new.asked) == (two.new.served, two.new.asked)
    assert two.new.wrong == two.new.served, "and every hit is counted wrong then"
    assert one.adapted.calibration != two.adapted.calibration, "in the end all labels are learned from"


async def test_the_new_one_must_beat_what_is_in_use() -> None:
    """Even where what ships would serve nothing at all."""
    reckless = Adapted(replace(START, bars=((0.0, 0.0),)), None)
    shipped = await adapted(await material(world()), START, 0.05, "a", silent)
    in_use = await adapted(await material(world()), START, 0.05, "a", silent, reckless)
    assert shipped.old.served < in_use.old.served
    assert (shipped.new, shipped.adapted.calibration) == (in_use.new, in_use.adapted.calibration)


async def test_learning_twice_gives_the_same() -> None:
    one, two = [await adapted(await material(world()), START, 0.05, "a", silent) for _ in range(2)]
    assert (one.adapted.calibration, one.old, one.new) == (two.adapted.calibration, two.old, two.new)


async def test_labels_that_contradict_each_other_teach_caution() -> None:
    """Every question has an answer of its own: whatever is served is wrong."""
    lonely = [replace(each, answer=f"answer {n}") for n, each in enumerate(world())]
    lesson = await adapted(await material(lonely), START, 0.05, "a", silent)
    assert lesson.adapted.anchors is None
    assert lesson.new.served == 0, "the bar rose above everything"
    assert lesson.adapted.calibration.bar(0.05) > 1.0


async def test_a_reader_that_never_comes_teaches_nothing_and_breaks_nothing() -> None:
    mute = ScriptedReader(longest=-1)
    lesson = await adapted(await material(world(), mute), START, 0.05, "a", silent)
    assert lesson.old.served == lesson.new.served == 0
    assert lesson.adapted.calibration.weights == pytest.approx(START.weights)
    assert not lesson.better(0.05)


async def test_a_pair_is_read_once() -> None:
    reader = ScriptedReader()
    await adapted(await material(world(), reader), START, 0.05, "a", silent)
    pairs = [(asked, text) for asked, texts in reader.asked for text in texts]
    assert len(pairs) == len(set(pairs))


async def test_equal_questions_count_once_and_those_too_long_not_at_all() -> None:
    labelled = [*world(), *world(), Labelled("x" * 5000, "reset")]
    assert len((await material(labelled)).labelled) == len(world())
    with pytest.raises(EmbedderUnavailable, match="none of the labelled questions"):
        await material([Labelled("x" * 5000, "reset")])
    with pytest.raises(EmbedderUnavailable):
        await material([])


async def test_a_pair_is_weighed_in_the_lesson_as_it_will_be_in_the_cache() -> None:
    """Otherwise what was learned would be about other numbers than those it is used on."""
    taught = await material(world())
    labelled = taught.labelled
    anchors = fit(taught.vectors, [each.answer for each in labelled])
    assert anchors is not None
    chances = anchors.chances(taught.vectors)
    verdict = judge(question(""), Controls(), Rules())
    compared = 0
    for asked in range(20, 30):
        here = await _nominated(taught, chances, asked, range(asked))
        cosines = taught.vectors[:asked] @ taught.vectors[asked]
        near = [
            Near(entry(labelled[at].question, at), float(cosines[at]), agreed)
            for at in np.argsort(-cosines)[:8].tolist()
            for agreed in agreement(chances[asked], chances[[at]]).tolist()
        ]
        subject = question(labelled[asked].question)
        nominees = nominate(subject, near, START.floor, verdict, 1100.0).nominees
        logits = await taught.logits(asked, [nominee.near.entry.id for nominee in nominees])
        there = [features_of(subject, nominees, logits, at, float(chances[asked].max())) for at in range(len(nominees))]
        assert [each for each, _ in here] == [pytest.approx(each, abs=1e-5) for each in there]
        compared += len(there)
    assert compared >= 10


BUDGET = 0.1


@pytest.mark.parametrize(
    ("old", "new", "better"),
    [
        (Scorecard(100, 0, 0), Scorecard(100, 30, 0), True),
        (Scorecard(100, 30, 0), Scorecard(100, 30, 0), False),
        (Scorecard(100, 30, 0), Scorecard(100, 29, 0), False),
        (Scorecard(100, 20, 0), Scorecard(100, 60, 50), False),
        (Scorecard(100, 60, 50), Scorecard(100, 5, 0), True),
        (Scorecard(100, 30, 1), Scorecard(100, 32, 3), False),
        (Scorecard(100, 60, 50), Scorecard(100, 60, 40), True),
        (Scorecard(100, 60, 40), Scorecard(100, 60, 50), False),
        (Scorecard(100, 60, 50), Scorecard(100, 60, 50), False),
        (Scorecard(0, 0, 0), Scorecard(0, 0, 0), False),
    ],
)
def test_better_is_within_the_budget_first_and_more_right_answers_then(
    old: Scorecard, new: Scorecard, better: bool
) -> None:
    assert Lesson(Adapted(START, None), old, new).better(BUDGET) is better


@pytest.mark.parametrize("quarter", [0, 4])
@pytest.mark.parametrize(("of_all", "better"), [((160, 30, 8), True), ((160, 30, 1), False)])
def test_what_was_wrong_on_all_labels_does_not_stay_because_the_last_quarter_was_too_short_to_show_it(
    of_all: tuple[int, int, int], better: bool, quarter: int
) -> None:
    """Four right answers of four prove no budget, for the old one as little as for the new one."""
    few = Scorecard(40, quarter, 0)
    assert Lesson(Adapted(START, None), few, few, Scorecard(*of_all)).better(0.05 if quarter else BUDGET) is better


async def test_what_ships_answers_for_all_labels_and_what_learned_from_them_for_the_last_quarter() -> None:
    labelled = world()
    first = await adapted(await material(labelled), START, 0.05, "a", silent)
    assert first.of_all is not None and first.of_all.asked == len(labelled)
    assert first.adapted.anchors is not None
    second = await adapted(await material(labelled), START, 0.05, "b", silent, first.adapted)
    assert second.of_all is None


@pytest.mark.parametrize(
    ("served", "wrong", "within"),
    [
        (0, 0, True), (1, 0, False), (2, 0, True), (10, 1, True), (10, 2, False), (100, 10, True), (100, 19, True),
        (100, 20, False),
    ],
)  # fmt: skip
def test_a_budget_is_kept_as_far_as_a_count_can_tell(served: int, wrong: int, within: bool) -> None:
    assert Scorecard(1000, served, wrong).within(BUDGET) is within


@pytest.mark.parametrize(
    ("new", "old", "beats"),
    [
        ((100, 30, 0), (100, 20, 0), True),
        ((100, 20, 0), (100, 20, 0), False),
        ((100, 30, 2), (100, 20, 0), False),  # more hits, and a larger share of wrong ones
        ((100, 20, 0), (100, 0, 0), True),
        ((100, 10, 0), (100, 0, 0), False),  # none wrong of ten proves nothing
        ((100, 10, 3), (100, 0, 0), False),  # not within the budget
        ((1000, 400, 4), (1000, 300, 4), True),
        ((100, 19, 0), (100, 20, 1), False),  # no more right ones
    ],
)  # fmt: skip
def test_a_reader_is_taken_only_for_more_hits_and_no_larger_share_of_wrong_ones(
    new: tuple[int, int, int], old: tuple[int, int, int], beats: bool
) -> None:
    assert Scorecard(*new).beats(Scorecard(*old), 0.02) is beats


async def test_questions_of_different_parts_never_meet() -> None:
    labelled = world()
    whole = await material(labelled)
    reader = ScriptedReader()
    apart = whole.read_by([reader, reader], [number % 2 for number in range(len(labelled))])
    await adapted(apart, START, 0.05, "a", silent)
    place = {each.question: number for number, each in enumerate(whole.labelled)}
    assert reader.asked
    for asked, stored in reader.asked:
        assert all(place[text] % 2 == place[asked] % 2 for text in stored)
