"""Complaints about small words: the answer was about another time, another duty, or another person's doing."""

import pytest

from cache.guards import first_objection, relations
from cache.guards.difference import difference
from cache.guards.reading import read
from cache.guards.verdict import Guard


def says(guard: Guard, one: str, other: str) -> str | None:
    a, b = read(one), read(other)
    return guard(a, b, difference(a, b))


SMALL_WORDS = [
    ("Can I swim before a blood test?", "Can I swim during a blood test?"),
    ("Are exchanges possible within 14 days?", "Are exchanges possible beyond 14 days?"),
    ("Is the kitchen open until 9?", "Is the kitchen open from 9?"),
    ("Do parcels above 20 kg cost more?", "Do parcels of 20 kg cost more?"),
    ("Do I sign before the viewing?", "Do I sign at the viewing?"),
    ("Can I pause it once it starts?", "Can I pause it before it starts?"),
    ("Can I cycle while medicated?", "Can I cycle until medicated?"),
    ("Can I rebook even if I checked in?", "Can I rebook if I checked in?"),
    ("Can I reserve for my sister?", "Can I reserve with my sister?"),
    ("Is the museum near the harbour?", "Is the museum far from the harbour?"),
    ("Did she speak against the plan?", "Did she speak for the plan?"),
    ("Is the tent sold without poles?", "Is the tent sold with poles?"),
    ("Are few seats left?", "Are a few seats left?"),
    ("Is it too wet to paint?", "Is it wet to paint?"),
    ("5岁以上要买票吗?", "5岁以下要买票吗?"),
    ("100元以上有赠品吗?", "100元有赠品吗?"),
    ("被狗咬了怎么办?", "狗咬了怎么办?"),
    ("来上海要核酸吗?", "去上海要核酸吗?"),
    ("上架要多久?", "下架要多久?"),
]
MODES = [
    ("Should I keep the box?", "Must I keep the box?"),
    ("Should I wear a tie?", "Do I have to wear a tie?"),
    ("Should I tell my dentist?", "Can I tell my dentist?"),
    ("Would I get a reply?", "Could I get a reply?"),
    ("Do I have a licence?", "Do I need a licence?"),
    ("Is a vest recommended?", "Is a vest required?"),
    ("会涨价吗?", "涨价了吗?"),
    ("会扣分吗?", "可以扣分吗?"),
    ("要付押金吗?", "可以付押金吗?"),
]
ACTORS = [
    ("Can my school expel me?", "Can I expel my school?"),
    ("Does my brother owe me anything?", "Do I owe my brother anything?"),
    ("Can they report me?", "Can I report them?"),
    ("Do I follow you?", "Do you follow me?"),
    ("They cheated me. What now?", "I cheated them. What now?"),
    ("He hit her car. Can she sue him?", "She hit his car. Can he sue her?"),
    ("Can the club end my membership?", "Can I end the club's membership?"),
    ("Can my bank close my account?", "Can I close my bank account?"),
    ("Do I get charged for parking?", "Do I charge for parking?"),
    ("邻居骂我怎么办?", "我骂邻居怎么办?"),
    ("她骗了我怎么办?", "我骗了她怎么办?"),
    ("爸爸的车我能开吗?", "我的车爸爸能开吗?"),
    ("学校可以查我的手机吗?", "我可以查学校的手机吗?"),
    ("我的押金怎么退?", "你们的押金怎么退?"),
]
FOCUS = [
    ("I signed but did not pay", "I did not sign but did pay"),
    ("Only guests can swim on Sunday?", "Guests can only swim on Sunday?"),
    ("No, exchanges are possible?", "No exchanges are possible?"),
    ("不，可以换货吗", "不可以换货吗"),
]


@pytest.mark.parametrize(
    ("guard", "one", "other"),
    [
        *((relations.small_words, *pair) for pair in SMALL_WORDS if pair[0] != "Is the museum near the harbour?"),
        *((relations.modes, *pair) for pair in MODES),
        *((relations.actors, *pair) for pair in ACTORS),
        *((relations.focus, *pair) for pair in FOCUS),
    ],
)
def test_the_small_words_were_not_the_same(guard: Guard, one: str, other: str) -> None:
    assert says(guard, one, other) is not None
    assert says(guard, other, one) is not None


@pytest.mark.parametrize(("one", "other"), [*SMALL_WORDS, *MODES, *ACTORS, *FOCUS])
def test_i_got_the_answer_to_another_question(one: str, other: str) -> None:
    assert first_objection(one, other) is not None
    assert first_objection(other, one) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("My dog chased a goose. What now?", "A goose chased my dog. What now?"),
        ("Can Twitter see my photos?", "Can my photos see Twitter?"),
        ("Who trains Ajax?", "Who does Ajax train?"),
        ("What hunts owls?", "What do owls hunt?"),
        ("Does A follow B?", "Does B follow A?"),
        ("Do Japanese citizens need a visa for Brazil?", "Do Brazilian citizens need a visa for Japan?"),
        ("Can US teams enter China?", "Can Chinese teams enter the US?"),
        ("Do I get an invoice for a voucher?", "Do I get a voucher for an invoice?"),
    ],
)
def test_who_does_what_to_whom(one: str, other: str) -> None:
    assert first_objection(one, other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is the capital of France?", "Which city is the capital of France?"),
        ("How do I reset my password?", "How can I reset my password?"),
        ("How should I clean the filter?", "How do I clean the filter?"),
        ("Why is the sky blue?", "How come the sky is blue?"),
        ("Can I cancel if it ships?", "Can I cancel when it ships?"),
        ("Can I bring my dog?", "Am I allowed to bring my dog?"),
        ("What is the fee of the card?", "What is the fee for the card?"),
        ("Why is my parcel still late?", "Why is my parcel late?"),
        ("怎么重置密码", "如何重置我的密码"),
        ("我的订单怎么取消?", "怎么取消我的订单?"),
        ("我怎么取消订单?", "怎么取消我的订单?"),
    ],
)
def test_small_words_that_change_nothing_may_differ(one: str, other: str) -> None:
    assert first_objection(one, other) is None
    assert first_objection(other, one) is None
