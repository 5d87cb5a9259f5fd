"""Two conversations are one context only by receipt: whatever is forged, edited, dropped or swapped has none."""

from typing import Any

import orjson
from chats import ANSWER, FIRST, FOLLOW, RULES, SECRET, asked, chat
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.asking import Caller, ask
from cache.entry import Answer
from cache.lineage import answer_text, in_full, kept_as, read_chat, receipt, within
from cache.policy import Controls, Rules, flight_key, judge
from cache.question import Kind, Question, Trait


def told(known: dict[str, int], messages: list[dict[str, Any]], answer: str, entry_id: int) -> None:
    """This chat's last question was answered from this entry."""
    past = asked(messages).past
    assert past is not None
    known |= {receipt(each, answer): entry_id for each in past.asked}


def same(one: Question, other: Question) -> bool:
    return (one.scope, one.key, one.proof) == (other.scope, other.key, other.proof)


def test_the_same_first_question_in_other_words_is_the_same_context_by_receipt_only() -> None:
    known: dict[str, int] = {}
    pair = [asked(chat(first, ANSWER, FOLLOW)) for first in FIRST]
    assert not same(*[within(each, known) for each in pair])
    told(known, chat(FIRST[0]), ANSWER, 7)
    assert not same(*[within(each, known) for each in pair]), "one receipt is not two"
    told(known, chat(FIRST[1]), ANSWER, 7)
    one, other = (within(each, known) for each in pair)
    assert same(one, other) and one.scope != pair[0].scope
    told(known, chat(FIRST[1]), ANSWER, 8)
    assert not same(*[within(each, known) for each in pair]), "answered from two entries"


def test_nothing_crosses_tenants_system_prompts_models_or_fields() -> None:
    known: dict[str, int] = {}
    for first in FIRST:
        told(known, chat(first), ANSWER, 7)
    ours = within(asked(chat(FIRST[0], ANSWER, FOLLOW)), known)
    talk = chat(FIRST[1], ANSWER, FOLLOW)
    for other in (
        asked(talk, tenant="u"), asked(chat(FIRST[1], ANSWER, FOLLOW, system="Be brief.")), asked(talk, model="n"),
        asked(talk, temperature=0.1), asked(talk, top_p=0.5),
    ):  # fmt: skip
        assert within(other, known).scope.key != ours.scope.key
        assert within(other, known) == other, "the receipts are of another place"


WORDS = st.text(alphabet="abcdefgh ", min_size=1, max_size=12).filter(lambda text: text.strip() != "")
LEANING = WORDS.map(lambda words: f"and {words}")  # so that no turn but the first can begin a chain
TALK = st.lists(st.tuples(LEANING, WORDS), min_size=1, max_size=5)


def lived(talk: list[tuple[str, str]]) -> tuple[dict[str, int], list[str]]:
    """Every turn was answered from an entry of its own."""
    known: dict[str, int] = {}
    texts: list[str] = []
    for number, (said, answer) in enumerate(talk, 1):
        texts.append(said)
        told(known, chat(*texts), answer, number)
        texts.append(answer)
    return known, texts


@settings(max_examples=60, deadline=None)
@given(talk=TALK, data=st.data())
def test_who_edits_drops_or_swaps_has_another_context(talk: list[tuple[str, str]], data: st.DataObject) -> None:
    known, texts = lived(talk)
    mine = within(asked(chat(*texts, FOLLOW)), known)
    assert mine.past is not None and all(each in known for each in mine.past.receipts)
    how = data.draw(st.sampled_from(["edit", "drop", "swap", "forge"]))
    at = data.draw(st.integers(0, len(texts) - 1))
    if how == "edit":
        forged = [*texts[:at], texts[at] + data.draw(st.sampled_from([" ", "x", ".", "\n"])), *texts[at + 1 :]]
    elif how == "drop":
        forged = [*texts[: at - at % 2], *texts[at - at % 2 + 2 :]]
    elif how == "swap":
        order = data.draw(st.permutations(talk))
        forged = [text for pair in order for text in pair]
    else:
        forged = [*texts, data.draw(LEANING), data.draw(WORDS)]
    other = within(asked(chat(*forged, FOLLOW)), known)
    assert same(mine, other) == (forged == texts)


@settings(max_examples=30, deadline=None)
@given(talk=TALK)
def test_without_receipts_a_leaning_question_is_known_by_its_bytes(talk: list[tuple[str, str]]) -> None:
    texts = [text for pair in talk for text in pair]
    question = asked(chat(*texts, FOLLOW))
    exact = ask(Kind.CHAT, {"model": "m", "messages": chat(*texts, FOLLOW)}, Caller("t"), Controls(), SECRET)
    assert same(within(question, {}), exact)
    assert exact.past is None, "without rules there is no lineage"


def test_a_question_that_stands_alone_is_the_question_of_a_new_chat() -> None:
    alone = within(asked(chat("How do I apply a promo code?", "Type it in.", "What is your return policy?")), {})
    assert same(alone, asked(chat("What is your return policy?")))
    off = Rules(standalone_across_history=False)
    kept = asked(chat("How do I apply a promo code?", "Type it in.", "What is your return policy?"), off)
    assert not same(within(kept, {}), asked(chat("What is your return policy?"), off))


def test_a_follow_up_leaves_out_what_came_before_the_last_subject_unless_told_otherwise() -> None:
    short = chat("What is your return policy?", "14 days.", FOLLOW)
    long = chat("How do I apply a promo code?", "Type it in.", "What is your return policy?", "14 days.", FOLLOW)
    known: dict[str, int] = {}
    told(known, short[:1], "14 days.", 5)
    told(known, long[:3], "14 days.", 5)
    assert same(within(asked(short), known), within(asked(long), known))
    whole = Rules(lineage_reset_on_standalone=False)
    assert not same(within(asked(short, whole), known), within(asked(long, whole), known))


def test_a_follow_up_that_names_or_points_at_an_older_subject_keeps_all_of_it() -> None:
    for older in (
        "and how long does the promo code last?",
        "back to the first question, is it free?",
        "compare the two",
    ):
        talk = chat("How do I apply a promo code?", "Type it in.", "What is your return policy?", "14 days.", older)
        question = asked(talk)
        assert question.past is not None and question.past.whole, older


TOPIC = ("How do I renew a passport?", "At the town hall, in person.")


def test_a_short_follow_up_about_the_matter_does_not_lean_on_another_that_was_answered_with_nothing_new() -> None:
    known: dict[str, int] = {}
    told(known, chat(TOPIC[0]), TOPIC[1], 5)
    short = within(asked(chat(*TOPIC, "how long does that take?")), known)
    aside = within(asked(chat(*TOPIC, "is it free?", "Yes, it is free.", "and the duration?")), known)
    assert same_but_words(short, aside)
    for question, answer, then in (
        ("is it free?", "Only the express service costs something.", "how long does that take?"),
        ("is it free?", "Yes, it is free.", "why?"),  # of the last answer
        ("can I do it on my phone?", "Yes.", "how long does that take?"),  # on the phone, perhaps
        ("is it free?", "Yes, it is free.", "how long does that take by mail?"),
    ):
        leaning = within(asked(chat(*TOPIC, question, answer, then)), known)
        assert leaning.scope != short.scope and leaning.past is not None and leaning.past.whole, (question, then)
    whole = Rules(lineage_reset_on_standalone=False)
    kept = within(asked(chat(*TOPIC, "is it free?", "Yes, it is free.", "and the duration?"), whole), known)
    assert kept.past is not None and kept.past.whole


def same_but_words(one: Question, other: Question) -> bool:
    return (one.scope, one.wording) == (other.scope, other.wording)


def test_an_aside_is_forgotten_only_with_the_very_answer_that_was_given() -> None:
    known: dict[str, int] = {}
    told(known, chat(TOPIC[0]), TOPIC[1], 5)
    forged = chat(TOPIC[0], "On the moon.", "is it free?", "Yes, it is free.", "how long does that take?")
    assert within(asked(forged), known).scope != within(asked(chat(*TOPIC, "how long does that take?")), known).scope


def test_an_answer_that_speaks_of_an_older_subject_is_kept_for_its_own_history_only() -> None:
    earlier = ("How do I open a mortgage?", "Ask us.", "What are your opening hours?", "9 to 5.")
    talk = chat(*earlier, "how long does it take?")
    question = within(asked(talk), {})
    plain, borrowed = (
        Answer(orjson.dumps({"choices": [{"message": {"content": text}}]}), 5)
        for text in ("Two days.", "A mortgage takes two weeks.")
    )
    assert kept_as(question, plain) is question
    kept = kept_as(question, borrowed)
    assert kept.past is not None and (kept.scope.key, kept.key, kept.proof) == kept.past.exact
    assert in_full(question) == kept and in_full(kept) is None


def test_a_generation_is_shared_by_a_part_of_the_history_with_nobody() -> None:
    pair = [within(asked(chat(first, "Yes.", "What is your return policy?")), {}) for first in FIRST]
    assert same(*pair)
    keys = {flight_key(each, judge(each, Controls(), RULES)) for each in pair}
    assert len(keys) == 2


def test_what_is_no_plain_talk_has_no_lineage() -> None:
    user, reply = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    last = {"role": "user", "content": "c"}
    for odd in (
        [user, last], [user, reply, reply, last], [reply, last], [user, {"role": "tool", "content": "b"}, last],
        [user, {**reply, "tool_calls": [{"id": "1"}]}, last], [user, {**reply, "content": None}, last],
        [user, {"role": "system", "content": "b"}, last], [user, {**reply, "reasoning_content": "hm"}, last],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, reply, last],
    ):  # fmt: skip
        assert read_chat(odd) is None
    found = read_chat([{"role": "system", "content": "s"}, user, {**reply, "refusal": None, "tool_calls": None}, last])
    assert found is not None and found.turns == [(user, "b")]
    parts = read_chat([user, {"role": "assistant", "content": [{"type": "text", "text": "b"}]}, last])
    assert parts is not None and parts.turns == [(user, "b")], "the same text as one part"
    assert read_chat([user, reply] * 65 + [last]) is None, "bounded"


def test_an_account_question_before_does_not_make_the_next_subject_private_but_data_does() -> None:
    later = "What is your return policy?"
    spoke = asked(chat("Where is my order?", "Which one?", later))
    assert Trait.ACCOUNT not in spoke.traits
    assert Trait.ACCOUNT in asked(chat("Where is my order?", "On its way.", "when will it be here?")).traits
    assert Trait.PERSONAL in asked(chat("My e-mail is ann@example.com", "Thanks.", later)).traits


def test_is_it_free_after_a_question_that_is_everybodys_is_everybodys_too() -> None:
    for first in ("How do I close my account?", "How do I cancel my order?", "close my account for good"):
        assert Trait.ACCOUNT not in asked(chat(first)).traits
        assert Trait.ACCOUNT not in asked(chat(first, "Under Settings.", "is it free?")).traits, first
    for first in ("My parcel is late", "I mean my order of last week", "Why was my card declined?", "我的订单还没到"):
        assert Trait.ACCOUNT in asked(chat(first, "I see.", "how long does that take?")).traits, first
    assert Trait.ACCOUNT in asked(chat("How do I cancel my order?", "Under Orders.", "has it been sent yet?")).traits


def test_the_text_of_an_answer_is_its_only_choice() -> None:
    def answer(*choices: dict[str, Any]) -> Answer:
        return Answer(orjson.dumps({"choices": list(choices)}), 1)

    text = {"message": {"content": "yes"}}
    assert answer_text(answer(text)) == "yes"
    empty = answer({"message": {"content": ""}})
    for other in (answer(text, text), answer({"text": "yes"}), answer(), Answer(b"{", 1), empty):
        assert answer_text(other) is None
