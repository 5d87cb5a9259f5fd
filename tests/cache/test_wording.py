"""The wording fingerprint is served without a guard: what it joins must be one question, typed differently."""

import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cache.wording import folded, looks_like_code, worded

SAME = [
    ("How do I renew my passport?", "how do i renew my passport"),
    ("How do I renew my passport?", "How do I renew my passports?"),
    ("How do I renew my passport?", "Hi there! How do I renew my passport? Thanks a lot!"),
    ("How do I renew my passport?", "hello, how do I renew my passport please"),
    ("How do I renew my passport?", "Could you please tell me how do I renew my passport?"),
    ("How do I renew my passport?", "  How   do I renew\nmy passport ???  "),
    ("How do I renew my passport?", "HOW DO I RENEW MY PASSPORT?"),
    ("How do I renew my passport?", "Ｈow do I renew my passport？"),
    ("how can i pay", "um, how can I pay?"),
    ("Can't I pay by card?", "can not I pay by card"),
    ("I dont have a card", "I don't have a card."),
    ("What's the fee?", "whats the fee"),
    ("renewing a passport", "renew a passport"),
    ("Which hotels allow dogs", "which hotel allow dog"),
    ("Please solve this: What is 3 + 4?", "What is 3 + 4?"),
    ("Question: What is 3 + 4?\nAnswer:", "What is 3 + 4?"),
    ("怎么续签护照？", "请问怎么续签护照"),
    ("怎么续签护照？", "你好，请问怎么续签护照？谢谢！"),
    ("怎么续签护照？", "您好，麻烦问一下，怎么续签护照"),
    ("解释黑洞", "请解释一下黑洞。"),
    ("iPhone 怎么 截屏", "iPhone怎么截屏？"),
    ("你们几点开门？", "您们几点开门"),
]

DIFFERENT = [
    # one sign, one digit, one letter
    ("Track parcel 70415", "Track parcel 70451"),
    ("My password is ABC", "my password is abc"),
    ("password Falcon", "password falcon"),
    ("Is v1.2 stable?", "Is v12 stable?"),
    ("Is 3.5 enough?", "Is 35 enough?"),
    ("What is -5 plus 2", "What is 5 plus 2"),
    ("Does it cost $5?", "Does it cost 5%?"),
    ("Does it cost $5?", "Does it cost 5?"),
    ("What is 5!", "What is 5"),
    ("What is 10²?", "What is 102?"),
    ("3½ cups of flour", "31/2 cups of flour"),
    ("Learn C", "Learn C++"),
    ("Learn C#", "Learn C++"),
    ("Install .NET", "Install net"),
    ("Open /etc/Hosts", "Open /etc/hosts"),
    ("Mail Ann@x.org", "Mail ann@x.org"),
    ("2 * (3 + 4)", "2 * 3 + 4"),
    ("What is 7 - 2", "What is 7 2"),
    ("1,000 or 1.000", "1.000 or 1,000"),
    # words that change everything
    ("Why does it work?", "Why does it not work?"),
    ("Why can I pay?", "Why can't I pay?"),
    ("Is there a fee?", "Is there no fee?"),
    ("Does a dog chase a cat?", "Does a cat chase a dog?"),
    ("When is it open?", "Where is it open?"),
    ("It is open", "Is it open"),
    ("Is the shop closed?", "Is the shop closing?"),
    ("locked card", "lock card"),
    ("Who is he following?", "Who is he followed?"),
    ("Is the phone charging?", "Is the phone charge?"),
    ("parking in Leeds", "park in Leeds"),
    ("train to Leeds", "training to Leeds"),
    ("tell me the news", "tell me the new"),
    ("university of life", "universe of life"),
    ("organ donation", "organization donation"),
    ("general rules", "generous rules"),
    ("lost glasses", "lost glass"),
    ("united states", "unit states"),
    ("I sent it", "I send it"),
    ("enable https", "enable http"),
    ("John Edwards", "John Edward"),
    ("What does the WHO say?", "What does the who say?"),
    ("How do I Polish it", "How do I polish it"),
    # politeness that is the matter itself
    ("How do you say thank you in Thai?", "How do you say in Thai?"),
    ("Translate into French: thank you", "Translate into French"),
    ("Hello Kitty toys", "Kitty toys"),
    ("hello in Spanish", "in Spanish"),
    ("Hello, Goodbye lyrics", "Goodbye lyrics"),
    ("How do I please my boss", "How do I my boss"),
    ("把“谢谢”翻译成英文", "把“”翻译成英文"),
    ("你好吗", "吗"),
    ("请假流程", "假流程"),
    ("一下午能做什么", "午能做什么"),
    # other languages keep their forms
    ("los perros comen", "lo perros comen"),
    ("in Maßen trinken", "in Massen trinken"),
    # Chinese, to the character
    ("怎么开通漫游", "怎么关闭漫游"),
    ("我要退款", "我不要退款"),
    ("狗追猫", "猫追狗"),
    ("订单70415", "订单70451"),
    ("五百元", "五千元"),
    ("能退吗", "能退"),
    # a mark that is a sign, a measure or a turn
    ("Is –7 °C fine?", "Is 7 °C fine?"),
    ("今天—8度吗", "今天8度吗"),
    ("～8度能开机吗", "8度能开机吗"),
    ("Is 6' enough?", 'Is 6" enough?'),
    ("Is 6' enough?", "Is 6 enough?"),
    ("Is ,7 mg fine?", "Is 7 mg fine?"),
    ("Don't, sell it", "Don't sell it"),
    ("No, deliveries come?", "No deliveries come?"),
    ("不，可以换货吗", "不可以换货吗"),
    ("不要，关闭账户", "不要关闭账户"),
    ("what does * do in sed", "what does + do in sed"),
    ("what does , do in awk", "what does . do in awk"),
    ("how do I type ?", "how do I type !"),
    ("what does :) mean", "what does :( mean"),
    ("What is seven - three?", "What is seven three?"),
    ("请保姆多少钱", "保姆多少钱"),
    ("请年假扣钱吗", "年假扣钱吗"),
    ("DO US BANKS LEND", "do us banks lend"),
    ("How do I reset Outlook?", "How do I reset outlook?"),
    # code, to the letter
    ("```\nif a:\n  b()\n```", "```\nif a:\n    b()\n```"),
    ("Explain `A.b`", "Explain `a.b`"),
    ("for (i = 0; i < n; i++) { f(i); }", "for (i = 0; i < n; i++) { F(i); }"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_question_typed_differently(one: str, other: str) -> None:
    assert worded(one) == worded(other) != ()


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_a_small_difference_that_matters_stays(one: str, other: str) -> None:
    assert worded(one) != worded(other)


@given(st.integers(0, 10**9), st.data())
def test_any_changed_digit_is_another_question(number: int, data: st.DataObject) -> None:
    digits = list(str(number))
    place = data.draw(st.integers(0, len(digits) - 1))
    digit = data.draw(st.sampled_from(string.digits))
    assume(digit != digits[place])
    digits[place] = digit
    template = data.draw(
        st.sampled_from(["Where is parcel {}?", "Divide {} by 3", "包裹{}在哪", "{}", "it is {}. Why?"])
    )
    assert worded(template.format(number)) != worded(template.format("".join(digits)))


@given(
    st.sampled_from(["how do i renew a passport", "which hotel allows dogs", "where can i swim in the lake"]), st.data()
)
def test_case_punctuation_and_greeting_do_not_matter(text: str, data: st.DataObject) -> None:
    shown = data.draw(st.sampled_from([text, text.upper(), text.capitalize()]))
    mark = data.draw(st.sampled_from(["", "?", "!", "...", " ?", "?!"]))
    opening = data.draw(st.sampled_from(["", "Hi, ", "Hello! ", "Good morning, ", "please ", "quick question: "]))
    closing = data.draw(st.sampled_from(["", " Thanks!", " Thank you.", "\nCheers"]))
    assume(mark or not closing)
    if text.upper() == shown and (opening or closing):
        opening, closing = opening.upper(), closing.upper()
    assert worded(f"{opening}{shown}{mark}{closing}") == worded(text)


@given(st.permutations(["alice", "pays", "bob", "late"]))
def test_the_order_of_words_is_kept(order: list[str]) -> None:
    assert (worded(" ".join(order)) == worded("alice pays bob late")) == (order == ["alice", "pays", "bob", "late"])


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    assert worded(text) == worded(text)


@pytest.mark.parametrize(
    "piece", [" ", "\n", "<a", "a", "'", '"', "[", "谢", "啊", "!", "thanks ", "SELECT ", "-", "9"]
)
def test_a_hostile_text_takes_no_longer_than_an_honest_one(piece: str) -> None:
    """Twenty thousand times the same sign: nothing here may go over it again and again."""
    worded(f"a{piece * (20_000 // len(piece))}b")


def test_wide_letters_fold_and_powers_do_not() -> None:
    assert folded("Ａ１％ ①x²½") == "A1% ①x²½"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def area(r):\n    return 3 * r", True),
        ("SELECT name FROM users", True),
        ("let x = 5;", True),
        ("<div>hello</div>", True),
        ("How do I open a shop?", False),
        ("Is it (really) free?", False),
        ("怎么写函数", False),
    ],
)
def test_code_is_told_from_prose(text: str, code: bool) -> None:
    assert looks_like_code(text) is code
