"""What passes with the moment, and what only tells a story or is asked in a hurry."""

import time

import pytest

from cache.question import Trait
from cache.traits import traits_of

# (what lasts, what of nearly the same words does not)
SUMS = [
    "If the current price for regular gas is $13/gallon and his car needs 4 gallons a day, how far can he go with $90?",
    "After scoring 17 points, Erin now has three times more points than Sara, who scored 8. How many points did Erin"
    " have before?",
    "Shiloh is 54 years old today. In 7 years, he will be three times as old as his nephew."
    " How old is his nephew today?",
    "ruby is 6 times older than sam. in 9 years, ruby will be 3 times as old as sam. how old is sam now?",
    "Mia and Emma are currently 16 years apart in age. If Mia, who is younger than Emma, is 40 years old, what's the"
    " average of their ages?",
    "A bakery has 43 less than seven times as many loaves as Sam had last Friday. If Sam had seventy loaves last"
    " Friday, how many loaves does the bakery have?",
    "小明今年8岁，爸爸今年35岁，爸爸的年龄是小明的几倍？再过5年呢，相差多少岁？",
    "小红昨天吃了3个苹果，今天又吃了5个，一共吃了多少个？",
]
NO_SUMS = [
    "How much is gas today?",
    "The current price for gas was $3 and $4 last week. How much is it now?",
    "Tickets are 20 for adults and 10 for 2 kids. How many tickets are available today?",
    "We are 2 adults with 3 kids of 4 and 6. How much are tickets today?",
    "He was born in 1946 and elected in 2016. How old is he now?",
    "He won 2 elections and 1 war in 4 years. How old is he now?",
    "Messi scored 2 goals in 3 games of this season. How many goals does he have now?",
    "Bitcoin was at 30000 and 35000 and 40000 last week. How much is it today?",
    "How old is Paul McCartney?",
    "我今年35岁，工龄10年，现在能领多少退休金？",
    "美元昨天是7.1，今天是7.2，现在1000美元换多少人民币？",
    "明天从北京到上海的票2张一共多少钱？",
]
HURRY = [
    "I want to cancel my order now and reorder again",
    "Send me my card now",
    "Please send my refund now.",
    "I lost my card, what do I do now?",
    "I need my money back now!",
    "Give me a refund now!!",
    "bye for now",
    "now that i have a new job, how do I roll over my pension",
    "现在怎么办",
    "现在想取消订单怎么操作",
]
NO_HURRY = [
    "Send me the weather now",
    "Please send the current score now",
    "Is it open now?",
    "What can I do now in Paris?",
    "I want to know the price now",
    "I want to see who leads now",
    "Give me the score now",
    "Tell me the time now",
    "现在几点怎么看",
    "现在怎么去机场最快",
]
MISHAPS = [
    "My phone was stolen yesterday, what should I do?",
    "How can I stop someone from using my card after I lost it yesterday?",
    "I recently took a new job and need help with my 401k rollover",
    "How can I change my PIN even though I'm out of the country at the moment?",
    "My contactless stopped working today. How do I get it to start again?",
    "我昨天把卡丢了，怎么办",
]
NO_MISHAPS = [
    "There is a strike tomorrow. How do I get to the airport?",
    "I'm in London tonight, what can I do?",
    "I fly tomorrow, how can I see the weather today?",
    "I missed the news today. How can I know what happened?",
    "What happened to the market yesterday?",
    "How do I get there today?",
    "I sold my shares yesterday, what is the stock price?",
    "我昨天到北京，今天天气怎么样",
]
RATES = [
    "from where are coming your exchange rates?",
    "The exchange rate was wrong?",
    "How are your exchange rates calculated?",
    "How do you determine the exchange rate?",
    "I think that the exchange rate for the withdrawal of my cash is not right.",
    "I didn't receive the correct exchange rate when I got cash.",
    "汇率怎么算",
    "汇率不对",
]
NO_RATES = [
    "What is the exchange rate?",
    "How's the exchange rate?",
    "what is the correct exchange rate for getting cash",
    "Where does the exchange rate stand right now?",
    "Please provide currency exchange rates",
    "What is the exchange rate set by the bank today?",
    "What is the dollar to euro rate?",
    "汇率是多少",
]
OFFERED = [
    "Is a physical card also available",
    "Is EMI available",
    "Is COD option available",
    "Which countries do you currently support?",
    "Is it possible for a transaction to be cancelled?",
    "Is there a limit on how much I can top up?",
    "Is the mattress good for my back",
    "Are there any places that won't take my card?",
    "How long is the wait for my card?",
    "How recent do my documents need to be?",
    "Can I use my account even though the verification has not passed yet?",
    "为什么会下雨",
]
NOT_OFFERED = [
    "Is it available",
    "Is a table available?",
    "Is the doctor available?",
    "Is the site back up?",
    "Is the pool back open?",
    "Are there any places?",
    "How long is the wait?",
    "How long is the wait for a table?",
    "Has the vote passed yet?",
    "Is the card machine down?",
    "Is the train cancelled?",
    "明天会下雨吗",
]


@pytest.mark.parametrize("text", [*SUMS, *HURRY, *MISHAPS, *RATES, *OFFERED])
def test_a_story_or_a_hurry_is_no_moment(text: str) -> None:
    assert Trait.TIME_BOUND not in traits_of(text)


@pytest.mark.parametrize("text", [*NO_SUMS, *NO_HURRY, *NO_MISHAPS, *NO_RATES, *NOT_OFFERED])
def test_what_the_moment_decides_stays_bound_to_it(text: str) -> None:
    assert Trait.TIME_BOUND in traits_of(text)


@pytest.mark.parametrize(
    "piece",
    ["now ", "how do i now, ", "exchange rate ", "i ", "send me ", "not ", "1 he how many ", "how many ", "is a ",
     "hi ", "why am i ", "how old is now ", "a", "what n't correct ", "今天我", "小明3个比一共"],
)  # fmt: skip
def test_a_hostile_text_takes_no_longer_than_an_honest_one(piece: str) -> None:
    began = time.process_time()
    traits_of("now " + piece * (20_000 // len(piece)))
    assert time.process_time() - began < 1.0
