"""What a text says about how far its answer may travel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.question import Trait
from cache.traits import traits_of

OWN = {Trait.PERSONAL, Trait.ACCOUNT}

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
    # why it happened to me is no how-to
    "Why was my card declined?",
    "Why was our claim turned down?",
    "How come I was billed twice?",
    "为什么我的包裹还没到",
    "我的押金为什么没退",
    # what I did, am, have and owe
    "What plan am I on?",
    "Have I already paid?",
    "Am I eligible?",
    "Did I pass the test?",
    "How much do we owe?",
    "What did I just ask?",
    "What's in my cart?",
    "When's my next bill due?",
    "Where do I live?",
    "How do I get there, and what time is my appointment?",
    "I was charged twice",
    "我被录取了吗",
    "我通过了吗",
    "我有资格吗",
    "我还欠多少钱",
    # only the asker knows which
    "Has it shipped yet?",
    "Has the parcel for Jane Roe arrived?",
    "When is it due?",
    "Did you get the form I sent?",
    # done for one person
    "Please cancel my booking and refund me",
    "Refund me",
    "帮我取消订单",
    # told of oneself
    "I have asthma, may I dive?",
    "I am 12 weeks pregnant, can I fly?",
    "I earn 31k, can I get a mortgage?",
    "My neighbour Karl Braun is loud, what can I do?",
    "This is Jane Roe from Cork. Is there a discount?",
    "I'm Jane Roe, which tariff is best?",
    "我是李娜，可以退货吗",
    "我怀孕了能坐飞机吗",
    "我月薪9000能贷款吗",
    # the thing in one sentence, the question in the next
    "I mean my order of last week. Where is it?",
]

GENERAL = [
    "How do I reset my password?",
    "How can I check my balance?",
    "Can I change my delivery address?",
    "What are the steps to close my account?",
    "Where do I find my invoices?",
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
    "Can I return my shoes after 30 days?",
    "What do I have to do to cancel my subscription?",
    "Do I need a visa for Japan?",
    "How can I change my delivery address?",
    "Can I bring my dog?",
    "How long do I have to return an item?",
    "How much do I have to pay for shipping?",
    "Why do I need to verify my identity?",
    "Why does my phone get hot?",
    "Why did the Roman Empire fall?",
    "What am I supposed to do after an accident?",
    "How long does it take for a card to arrive?",
    "Please check my grammar: he go home",
    "How do I know if I have diabetes?",
    "What are we made of?",
    "怎么修改我的收货地址？",
    "我可以退货吗？",
    "忘记密码了怎么办",
    "我的卡丢了怎么办",
    "我们为什么会做梦",
    "订单30天后还能退吗",
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
    # no word of time is in it, and yet
    "Are you open?",
    "Is the site down?",
    "Is the pool closed?",
    "When is the next train to York?",
    "Who won the match?",
    "What's the score?",
    "How much is Bitcoin?",
    "What year is it?",
    "Is it Friday?",
    "Any seats left?",
    "Has the sale started?",
    "How long is the queue?",
    "Are there delays on the M25?",
    "What is the dollar to euro rate?",
    "服务器挂了吗",
    "比特币多少钱",
    "还有票吗",
    "开门了吗",
    "航班延误了吗",
    "谁赢了比赛",
    "促销结束了吗",
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
    "When are you open?",
    "What are your opening hours?",
    "Are you open on Sundays?",
    "Who won the World Cup in 2018?",
    "What is an interest rate?",
    "How long is a marathon?",
    "Is the earth round?",
    "你们几点开门",
    "比特币是什么",
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
    assert OWN & traits_of(text)


@pytest.mark.parametrize("text", GENERAL)
def test_a_question_that_anybody_could_ask_is_not(text: str) -> None:
    assert not OWN & traits_of(text)


DATA = [
    "Where is my order 70415?",
    "Where is my parcel? I am ann@example.org",
    "Why was my card 4111 1111 1111 1111 declined?",
    "Where is my refund? Call me on +44 20 7946 0958",
    "My name is Ann. Where is my order?",
    "I'm Ann. Where is my order?",
    "Ann here, where is my order?",
    "Where is my order? Thanks, Ann",
    "This is Jane Roe from Cork. Where is my parcel?",
    "Has the parcel for Jane Roe arrived?",
    "Why was my transfer to Jane Roe declined?",
    "Is my appointment with Dr Braun confirmed?",
    "I am 40 years old, why was my loan declined?",
    "I earn 31k. Why was my loan declined?",
    "I have asthma, is my claim approved?",
    "订单70415什么时候发货，我的快递到哪了",
    "我叫小芳，我的快递到哪了",
    "我的快递到哪了，收件人：张伟",
    "我是李娜，我的余额是多少",
    "我月薪9000，我的贷款通过了吗",
]

AFFAIRS = [
    "Where is my order?",
    "Why was my card declined?",
    "When will I get my refund?",
    "What is my balance?",
    "I was charged twice",
    "Has it shipped yet?",
    "Please cancel my booking and refund me",
    "I mean my order of last week. Where is it?",
    "我的快递到哪了",
    "我被录取了吗",
    "帮我取消订单",
]


@pytest.mark.parametrize("text", DATA)
def test_who_tells_data_with_his_affair_is_personal(text: str) -> None:
    assert Trait.PERSONAL in traits_of(text)


@pytest.mark.parametrize("text", AFFAIRS)
def test_an_affair_without_data_is_about_the_account_only(text: str) -> None:
    assert OWN & traits_of(text) == {Trait.ACCOUNT}
    assert Trait.PERSONAL in traits_of(text, ["I am ann@example.org"])
    assert Trait.PERSONAL in traits_of(text, ["I have asthma", "Where is my parcel?"])
    assert Trait.PERSONAL in traits_of(text, (), ["My name is Ann."])
    assert Trait.LONG_TEXT in traits_of(text, ["I am ann@example.org", "word " * 100_000])


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


EARLIER_AFFAIRS = [
    (["Where is my order?", "The blue shoes"], "And the red ones?"),
    (["I paid last Monday."], "Did you book it?"),
    (["Why was my claim rejected?"], "What can be done?"),
    (["我的快递到哪了？"], "蓝色的鞋"),
    (["我被录取了吗？"], "什么时候开学"),
]


@pytest.mark.parametrize(("earlier", "text"), EARLIER_AFFAIRS)
def test_an_affair_in_an_earlier_turn_makes_the_whole_question_personal(earlier: list[str], text: str) -> None:
    assert OWN & traits_of(text, earlier)


def test_a_how_to_in_an_earlier_turn_does_not() -> None:
    earlier = ["How do I return my order?", "I want to cancel my subscription", "怎么退货"]
    assert not OWN & traits_of("And what does it cost?", earlier)


@pytest.mark.parametrize(
    "around",
    ["I mean my order of last week.", "My name is Ann.", "我叫小芳。", "Card 4111 1111 1111 1111", "Where is my bag?"],
)
def test_first_person_words_around_a_question_are_somebodys(around: str) -> None:
    assert OWN & traits_of("Where is it?", (), [around])


def test_a_companys_contacts_around_a_question_are_everybodys() -> None:
    document = (
        "Mail help@shop.example or call +44 20 7946 0958. Invoices: DE89 3704 0044 0532 0130 00. See form no. 40415."
    )
    assert Trait.PERSONAL not in traits_of("How do I pay?", (), [document])
    assert Trait.PERSONAL in traits_of("How do I pay?", [document]), "the same as somebody's own words"


@pytest.mark.parametrize("words", ["the cat sat. ", "1 ", "我的猫", "\n"])
def test_what_was_not_read_is_compared_by_bytes_only(words: str) -> None:
    """An earlier turn of 8 MB must not stop the event loop, and must not hide an e-mail address either."""
    told = traits_of("hi there", ["I am ann@example.org", words * 100_000])
    assert told & {Trait.LONG_TEXT, Trait.PERSONAL}


def test_very_many_short_turns_are_bounded_too() -> None:
    assert Trait.LONG_TEXT in traits_of("hi there", ["yes"] * 100_000)
    assert traits_of("hi there", ["yes"] * 100) == frozenset()


def test_data_deep_inside_a_long_text_is_found() -> None:
    assert Trait.PERSONAL in traits_of("word " * 9_000 + "ann@example.org " + "word " * 9_000)


def test_a_wrong_check_digit_is_no_card() -> None:
    assert Trait.PERSONAL not in traits_of("4111111111111112")


@given(st.text(max_size=120))
def test_only_traits_of_a_text_are_given(text: str) -> None:
    assert traits_of(text) <= {
        Trait.PERSONAL, Trait.ACCOUNT, Trait.TIME_BOUND, Trait.CREATIVE, Trait.NO_TEXT,
    }  # fmt: skip


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a@",
        "1",
        "1 ",
        "my ",
        "do i have ",
        "write a ",
        "where is my ",
        "order ",
        "我的",
        "写",
        "i am ",
        "has the ",
        "why was ",
    ],
)
def test_a_hostile_text_takes_no_longer_than_an_honest_one(piece: str) -> None:
    traits_of(piece * (20_000 // len(piece)))
