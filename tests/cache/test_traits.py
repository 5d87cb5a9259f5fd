"""What a text says about how far its answer may travel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.question import Trait
from cache.traits import traits_of

PERSONAL = [
    # one person's data
    "Send it to ann.smith+x@mail.example.org",
    "email me at ann at gmail dot com",
    "Call me on +44 20 7946 0958",
    "我的手机13812345678能登录吗",
    "Is 4111 1111 1111 1111 a good card?",
    "My IBAN is DE89 3704 0044 0532 0130 00",
    "My SSN is 078-05-1120",
    "身份证11010519491231002X对吗",
    "Has order 70415 shipped?",
    "What about ticket #A-1234?",
    "invoice no. 2024 is wrong",
    "订单70415什么时候发货",
    "My name is Ann, what rhymes with it?",
    "我叫小芳，帮我看看",
    # the state of one's own thing
    "Where is my parcel?",
    "Where's my refund",
    "What is my balance?",
    "When does my subscription end?",
    "When will I get my refund?",
    "Has my order shipped yet?",
    "Is my appointment confirmed?",
    "How much do I owe?",
    "How many points do I have left?",
    "Track my order",
    "Tell me my credit score",
    "my account balance",
    "Order status",
    "My package still hasn't arrived",
    "Am I registered?",
    "Where is the nearest pharmacy?",
    "What's my name?",
    "我的快递到哪了",
    "我的余额是多少",
    "查一下我的订单",
    "快递怎么还没到",
    "我还有多少积分",
    "我的会员什么时候到期",
    "附近有什么好吃的",
]

GENERAL = [
    "How do I reset my password?",
    "How can I check my balance?",
    "Can I change my delivery address?",
    "What are the steps to close my account?",
    "Where do I find my invoices?",
    "Why was my card declined?",
    "What should I do if my card is stolen?",
    "Is my Visa card supported?",
    "Is my data safe?",
    "Is it possible to move my appointment?",
    "my address is wrong, how do I correct it",
    "What happened on 2024-05-03?",
    "Add 1,000,000,000 and 1,000,000,000",
    "What was policy 1984 about?",
    "What does error 404 mean?",
    "What is an order status?",
    "怎么查我的订单",
    "如何修改我的收货地址",
    "我的卡为什么不能用",
    "我的订单在哪里可以查",
    "怎么退货",
]

OF_THE_MOMENT = [
    "Will it rain today?",
    "What's the weather in Oslo?",
    "What is the latest version of Python?",
    "Who leads the league right now?",
    "Tell me the news",
    "What is the stock price of Acme?",
    "Are you open this weekend?",
    "What happened last night?",
    "What's the current exchange rate?",
    "今天有什么新闻",
    "现在几点了",
    "最新版本是多少",
    "目前油价多少",
    "明天会下雨吗",
]

LASTING = [
    "How do I update to the latest version?",
    "How do I open a current account?",
    "What is an electric current?",
    "What is the latest check-in time?",
    "What is the exchange rate fee?",
    "How do I unsubscribe from the newsletter?",
    "What do traffic lights mean?",
    "怎么升级到最新版本",
    "Ann bought six pens last week. Bob bought two more yesterday. How many pens do they have?",
]

NEW = [
    "Write a poem about the sea",
    "Tell me a joke",
    "Tell me another funny story",
    "a haiku please",
    "Surprise me",
    "Pick a random colour",
    "Flip a coin",
    "Give me a name for my cat",
    "Make me laugh",
    "写一首关于秋天的诗",
    "讲个笑话",
    "随便说点什么",
    "给公司起个名字",
    "再来一个",
]

NOT_NEW = [
    "How do I write a poem?",
    "Who wrote this poem?",
    "What is a haiku?",
    "Write a function that sorts a list",
    "Generate a new API key",
    "What is a random forest?",
    "Translate 'good night' into Welsh",
    "怎么写诗",
    "这首诗是谁写的",
    "写一个排序函数",
]


@pytest.mark.parametrize("text", PERSONAL)
def test_one_persons_affair_is_personal(text: str) -> None:
    assert Trait.PERSONAL in traits_of(text)


@pytest.mark.parametrize("text", GENERAL)
def test_a_question_that_anybody_could_ask_is_not(text: str) -> None:
    assert Trait.PERSONAL not in traits_of(text)


@pytest.mark.parametrize("text", OF_THE_MOMENT)
def test_what_changes_by_the_hour_is_bound_to_the_moment(text: str) -> None:
    assert Trait.TIME_BOUND in traits_of(text)


@pytest.mark.parametrize("text", LASTING)
def test_what_only_sounds_like_now_is_not(text: str) -> None:
    assert Trait.TIME_BOUND not in traits_of(text)


@pytest.mark.parametrize("text", NEW)
def test_who_wants_something_new_must_not_get_something_old(text: str) -> None:
    assert Trait.CREATIVE in traits_of(text)


@pytest.mark.parametrize("text", NOT_NEW)
def test_a_question_about_such_works_is_a_question(text: str) -> None:
    assert Trait.CREATIVE not in traits_of(text)


@pytest.mark.parametrize("text", ["", " \n", "\u3000"])
def test_nothing_is_no_text(text: str) -> None:
    assert traits_of(text) == {Trait.NO_TEXT}


def test_data_in_an_earlier_turn_makes_the_whole_question_personal() -> None:
    assert Trait.PERSONAL in traits_of("And what does it cost?", ["I am ann@example.org", "Do you ship?"])
    assert Trait.PERSONAL not in traits_of("And what does it cost?", ["Do you ship?"])


def test_data_deep_inside_a_long_text_is_found() -> None:
    assert Trait.PERSONAL in traits_of("word " * 9_000 + "ann@example.org " + "word " * 9_000)


def test_a_wrong_check_digit_is_no_card() -> None:
    assert Trait.PERSONAL not in traits_of("4111111111111112")


@given(st.text(max_size=120))
def test_only_traits_of_a_text_are_given(text: str) -> None:
    assert traits_of(text) <= {Trait.PERSONAL, Trait.TIME_BOUND, Trait.CREATIVE, Trait.NO_TEXT}


@pytest.mark.parametrize(
    "piece", ["a", "a@", "1", "1 ", "my ", "do i have ", "write a ", "where is my ", "order ", "我的", "写"]
)
def test_a_hostile_text_takes_no_longer_than_an_honest_one(piece: str) -> None:
    traits_of(piece * (20_000 // len(piece)))
