"""Do two answers say the same? What can be read is read; what cannot is unsure, and unsure is never a verdict."""

import pytest

from cache.comparison import OTHER, SAME, Agreement, at_a_glance, by_cosine, known_other, passages

CONTRADICTIONS = (
    ("You can return it within 30 days.", "Returns are accepted for 14 days."),
    ("It costs $20 a month.", "The price is 25 dollars a month."),
    ("Yes, you can.", "No, you cannot."),
    ("It is refundable.", "It is not refundable."),
    ("Write to help@shop.example.", "Write to support@other.example."),
    ("Order the part AB-1200-X.", "Order the part AB-1300-X."),
    ("是的，可以退货。", "不可以，不能退货。"),
    ("退货期限为30天。", "您可以在7天内退货。"),
    ("The capital of France is Paris.", "法国的首都是巴黎。"),
)


@pytest.mark.parametrize(("fresh", "served"), CONTRADICTIONS)
def test_an_open_contradiction_needs_no_model(fresh: str, served: str) -> None:
    for one, other in ((fresh, served), (served, fresh)):
        found = at_a_glance(one, other)
        assert found is not None
        assert found.agreement is Agreement.DISAGREE, found


@pytest.mark.parametrize(("fresh", "served"), [
    ("The capital is Paris.", "the capital is  Paris"), ("- Open Settings\n- Tap it", "1. Open settings\n2. Tap it."),
    ("**Yes.** It is free.", "Yes. It is free!"), ("可以退货。", "可以退货！"),
])  # fmt: skip
def test_the_same_words_agree_however_they_are_set(fresh: str, served: str) -> None:
    found = at_a_glance(fresh, served)
    assert found is not None
    assert found.agreement is Agreement.AGREE


@pytest.mark.parametrize(("fresh", "served"), [
    ("Two weeks, so you have fourteen days.", "You have 14 days."),
    ("It takes 5 minutes. First open Settings.", "Open Settings; in 5 minutes it is done."),
    ("Paris is the capital.", "The capital is Paris."),
    ("1. Open Settings\n2. Tap Security\n3. Tap Reset", "Open Settings, then Security, then tap Reset."),
    ("Water boils at 100 degrees, in 1 bar.", "At 100 degrees, as was shown in 1742 by 2 people."),
])  # fmt: skip
def test_other_words_for_the_same_are_no_contradiction(fresh: str, served: str) -> None:
    assert at_a_glance(fresh, served) is None


@pytest.mark.parametrize(("fresh", "served"), [
    ("", "Yes."), ("Yes.", "  \n"), ("I'm sorry, I cannot help with that.", "Open Settings and tap Reset."),
    ("抱歉，我无法回答。", "点击重置即可。"),
])  # fmt: skip
def test_an_empty_answer_or_an_apology_says_nothing_about_the_stored_one(fresh: str, served: str) -> None:
    found = at_a_glance(fresh, served)
    assert found is not None
    assert found.agreement is Agreement.UNSURE


def test_between_near_and_far_the_cosine_is_unsure() -> None:
    def told(cosine: float | None, served: str = "Open Settings and tap Reset.") -> Agreement:
        return by_cosine("Tap Reset, which you find in Settings.", served, cosine).agreement

    assert told(SAME) is Agreement.AGREE
    assert told(OTHER - 0.01) is Agreement.DISAGREE
    assert told((SAME + OTHER) / 2) is Agreement.UNSURE
    assert told(None) is Agreement.UNSURE
    assert told(0.99, "Open Settings. " * 60) is Agreement.UNSURE, "one says much more than the other"


def test_an_embedder_is_never_given_more_than_it_reads() -> None:
    for text, room in (("You can return it. " * 400, 600), ("您可以在三十天内退货。" * 200, 200), ("x" * 5000, 600)):
        pieces = passages(text)
        assert 0 < len(pieces) <= 8
        assert all(len(piece) <= room for piece in pieces)
    assert passages("One. Two.") == ["One. Two."]
    assert passages("  ") == []


def test_a_known_bad_control_is_the_nearest_question_that_a_guard_tells_apart() -> None:
    asked = "How do I return the red shoes?"
    others = ["How do I return the shoes in red?", "What is the weather like?", "How do I return the blue shoes?"]
    assert known_other(asked, others) == 2
    assert known_other(asked, [asked]) is None
    assert known_other(asked, []) is None
