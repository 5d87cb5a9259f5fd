"""Does a turn lean on those before it? A turn called alone that leans is a wrong answer, the other way round a miss."""

import pytest

from cache.standalone import (
    Turn,
    leans,
    leans_by_itself,
    looks_back,
    points_farther,
    sets_the_manner,
    tells_circumstances,
)

BEFORE = [Turn("How do I return an item?", "Within 14 days, with the receipt.")]


def turns(text: str) -> list[str]:
    """Written with a slash between two turns."""
    return [turn.strip() for turn in text.split(" /")]


# Written for this test by hand, together with what a support chat, a bank and a tutor hear.
LEANING = turns("""
    and for business accounts? / business accounts? / What about students? / Why? / why is that / and then? /
    How? / How long does it take? / is it free / the second one / Which one is cheaper? / which is better? /
    yes please / ok do it / cancel it / send me the link / book it for two / please book Thursday morning /
    What's the deadline? / how much is the deposit? / Can I do that online? / can I bring my dog? /
    do I need a deposit? / will I get my money back? / when will I be charged? / what will I pay? /
    What documents do I need? / how do I do that / give me an example / another one / tell me more /
    say that again / in simpler words / Explain the first step / What if it fails? / Is dental covered? /
    Does the price include tax? / What does she do there? / How old is he? / How do I cancel? /
    the blue shoes / a red one / no, the other / same for my wife / for premium customers? / in Germany? /
    continue / How long does delivery take? / and how do I renew my passport / so what's the limit /
    那企业账户呢？ / 那要多久 / 它多少钱 / 这个可以退吗 / 为什么 / 怎么办 / 第二个 / 继续 / 再详细一点 /
    举个例子 / 企业账户可以吗 / 如果失败了怎么办 / 还有别的办法吗 / 需要什么材料 / 好的，帮我取消 / 蓝色的鞋 /
    手机上能操作吗 / 上面说的费用是多少 / 他是谁 / 那里几点开门 / 不成功的话怎么办 / 要钱吗 / 另外一个呢 /
    怎么取消 / 更便宜的有吗 / 是的 / 可以
    """)
ALONE = turns("""
    How do I reset my password? / What is the capital of Australia? / What is photosynthesis? /
    What is your return policy? / How do I take a screenshot on Windows? /
    By the way, how do I change my email address? / Who wrote Hamlet? /
    How long do bank transfers to Germany take? / What documents do UK licence holders need to hire a car? /
    I have a voucher, how do I redeem it? / Do you accept American Express? /
    tips for speaking English fluently / 怎么重置密码？ / 红楼梦的作者是谁 / 怎么申请延期还款？ /
    退货有什么规定 / 顺便问一下，怎么修改收货地址？ / 机器学习的定义 / 密码忘了怎么办 / 我要转人工 /
    有没有学生折扣
    """)


@pytest.mark.parametrize("turn", LEANING)
def test_a_turn_that_may_lean_is_never_called_alone(turn: str) -> None:
    assert leans(turn, BEFORE) is not None


@pytest.mark.parametrize("turn", ALONE)
def test_a_turn_with_a_subject_of_its_own_is_alone(turn: str) -> None:
    assert leans(turn, BEFORE) is None


def test_everything_is_alone_where_nothing_was_said() -> None:
    assert leans("and then?", []) is None


@pytest.mark.parametrize(
    ("said", "answer", "turn"),
    [
        ("From now on answer in French.", "D'accord.", "What is the capital of Australia?"),
        ("You are a pirate.", "Arr.", "What is photosynthesis?"),
        ("请用英文回答", "OK.", "怎么重置密码？"),
        ("I'm with Flixora on the family plan.", "Noted.", "How do I reset my password?"),
        ("我住在德国", "好的。", "我要怎么申请签证延期？"),
        ("How do I reset my password?", "Click the link.", "how do I reset my password?"),
        ("My phone is broken.", "Which model do you have?", "Samsung Galaxy S23 Ultra"),
        ("我的快递到哪了？", "哪一个？", "上周买的蓝色运动鞋"),
    ],
)
def test_what_was_said_before_can_make_it_lean(said: str, answer: str, turn: str) -> None:
    assert leans(turn, [Turn(said, answer)]) is not None


@pytest.mark.parametrize("turn", ["Wie setze ich mein Passwort zurück?", "パスワードを忘れました", "word " * 200])
def test_what_is_not_read_is_not_sure(turn: str) -> None:
    assert leans(turn, BEFORE) is not None


def test_questions_in_other_words_do_not_tell_circumstances_or_a_manner() -> None:
    for said in ("How do I reset my password?", "can i use mobile for it", "I want my account gone", "怎么申请退货"):
        assert not tells_circumstances(said) and not sets_the_manner(said)


def test_a_look_back_farther_than_the_last_subject_is_seen() -> None:
    back = ("what about the first question", "you said 14 days earlier", "summarize everything", "前面说的退货呢")
    for turn in (*back, "第一个问题"):
        assert points_farther(turn), turn
    assert not points_farther("how long does that take?")


def test_a_reason_is_for_a_person_to_read() -> None:
    assert "begins as the rest" in (leans_by_itself("and for business accounts?") or "")


@pytest.mark.parametrize(
    "answer",
    [
        "As I mentioned, it is free.", "Like I said: two days.", "That is discussed above.", "As you asked: yes.",
        "Compared with your previous question, this is easy.", "如前所述，三天。", "刚才说过了",
    ],
)  # fmt: skip
def test_an_answer_that_speaks_of_what_was_said_before_is_seen(answer: str) -> None:
    assert looks_back(answer)


def test_most_answers_do_not_look_back() -> None:
    for answer in (
        "Canberra is the capital of Australia.",
        "As you type, results appear.",
        "As we age, bones thin.",
        "三天",
    ):
        assert not looks_back(answer), answer
