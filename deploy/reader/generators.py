"""Pairs made by rule from questions we have: what keeps the answer, and what changes it.

Every function takes a question and a seeded `random.Random` and returns another question, or None where it does not
apply. `KEEPS` say the same with another surface, `REWORDS` in another form; `CHANGES` ask for something else."""

import random
import re
from collections.abc import Callable

import forms_en
import forms_zh

from cache.guards.lexicon import CHINESE, ENGLISH

Generator = Callable[[str, random.Random], str | None]

_HAN = re.compile(r"[\u4e00-\u9fff]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[A-Za-z']+")


def _words(line: str) -> list[str]:
    return line.split()


_SPELLED = dict(enumerate(_words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)))  # fmt: skip
_HAN_DIGITS = "零一二三四五六七八九十"
_OPENERS = (
    "please ", "hi, ", "hello ", "hey, ", "could you tell me ", "can you please tell me: ", "quick question: ",
    "I'd like to know, ", "just wondering, ", "um ", "so ", "ok so ", "sorry, ", "good morning, ", "please help: ",
)  # fmt: skip
_CLOSERS = (" please", " thanks", ", thank you", " pls", "??", " ?", "...", " thx in advance", " asap", ", anyone?")
_OPENERS_ZH = (
    "请问",
    "你好，",
    "您好，请问",
    "那个，",
    "我想问一下，",
    "麻烦问下",
    "想了解一下，",
    "嗨，",
    "帮我看下，",
)
_CLOSERS_ZH = ("？？", "，谢谢", "，谢谢啦", "呢", "呀", "啊？", "，求解答", "，在线等")
_PLACES = _words(
    "London Paris Berlin Madrid Rome Vienna Lisbon Dublin Boston Chicago Denver Seattle Mumbai Delhi Tokyo Osaka Seoul "
    "Sydney Toronto Cairo Nairobi Oslo Prague Warsaw Athens Geneva Munich Milan Leeds Bristol Glasgow Austin Dallas"
)
_LANDS = _words(
    "France Germany Spain Italy Portugal Ireland Japan China India Brazil Mexico Canada Australia Norway Sweden Poland "
    "Greece Egypt Kenya Turkey Vietnam Thailand Peru Chile Scotland England Wales"
)
_PLACES_ZH = _words("北京 上海 广州 深圳 杭州 南京 成都 重庆 武汉 西安 苏州 天津 长沙 青岛 厦门 大连 昆明 郑州")
_LANDS_ZH = _words("中国 日本 韩国 美国 英国 法国 德国 俄罗斯 印度 巴西 加拿大 澳大利亚 意大利 西班牙 泰国 越南 埃及")
_DAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
_MONTHS = _words("January February March April June July August September October November December")
_KINDRED = [
    tuple(line.split("|"))
    for line in """
credit card|debit card|gift card|prepaid card
savings account|current account|joint account|business account
iPhone|iPad|MacBook|Android phone|laptop|tablet
Windows|Linux|macOS|ChromeOS
dog|cat|rabbit|hamster|parrot|horse
apple|banana|orange|mango|grape|pear
chicken|beef|pork|fish|lamb|tofu
mattress|pillow|sofa|bed frame|desk
shirt|jacket|shoes|dress|jeans
Gmail|Outlook|Slack|Zoom|Teams
Python|Java|Ruby|Go|Rust
MySQL|PostgreSQL|MongoDB|SQLite
passport|visa|driving licence|birth certificate
doctor|dentist|nurse|lawyer|accountant
breakfast|lunch|dinner
husband|wife|brother|sister|mother|father
adult|child|student|senior
email|SMS|phone|post
morning|afternoon|evening|night
kilometres|miles|metres|feet
kilograms|pounds|grams|ounces
Celsius|Fahrenheit|Kelvin
dollars|euros|pounds|yen|rupees
hours|days|weeks|months|years
train|bus|plane|ferry|taxi
football|tennis|cricket|basketball|hockey
red|blue|green|black|white
oldest|newest|largest|smallest|cheapest|fastest
first|second|third|last
always|never|sometimes
all|some|none
kitchen|bedroom|bathroom|garage
alarm|timer|reminder
Mars|Venus|Jupiter|Saturn|Mercury
gold|silver|iron|copper
heart|liver|kidney|lung
vitamin C|vitamin D|iron|calcium
GET|POST|PUT|DELETE
monthly|weekly|yearly|daily
""".strip().split("\n")
]
_KINDRED_ZH = [
    tuple(line.split("|"))
    for line in """
信用卡|借记卡|储蓄卡|礼品卡
微信|支付宝|银联
苹果|安卓|华为|小米
爸爸|妈妈|哥哥|妹妹|爷爷|奶奶
火车|飞机|高铁|汽车|轮船
狗|猫|兔子|仓鼠
护照|身份证|驾照|签证|户口本
早餐|午餐|晚餐
周一|周二|周三|周四|周五|周六|周日
今天|明天|昨天|后天
天|周|个月|年
元|美元|欧元|日元
公斤|斤|克|吨
公里|米|英里
学生|老人|儿童|成人
红色|蓝色|黑色|白色
第一|第二|第三|最后
最大|最小|最高|最低|最长|最短
卧室|客厅|厨房|卫生间
闹钟|提醒|定时器
退款|退货|换货
邮箱|手机号|密码|用户名
牛肉|猪肉|鸡肉|鱼肉
心脏|肝脏|肾脏|肺
金星|火星|木星|土星
父亲|母亲|儿子|女儿
买家|卖家
房东|租客
之前|之后|期间
以内|以外
""".strip().split("\n")
]
_OFF = str.maketrans("", "", "?!.,;:？！。，")


def is_chinese(text: str) -> bool:
    return _HAN.search(text) is not None


# ── the answer stays ─────────────────────────────────────────────────────────────────────────────────────────────


def politeness(text: str, rng: random.Random) -> str | None:
    if is_chinese(text):
        body = text.rstrip("？?。！! ")
        return (rng.choice(_OPENERS_ZH) if rng.random() < 0.6 else "") + body + rng.choice(("", "？", *_CLOSERS_ZH))
    opener = rng.choice(_OPENERS) if rng.random() < 0.6 else ""
    body = text.rstrip("?.! ")
    if opener and body[:1].isupper() and body[:2] not in ("I ", "I'"):
        body = body[0].lower() + body[1:]
    return opener + body + rng.choice(("", "?", *_CLOSERS))


def case_and_marks(text: str, rng: random.Random) -> str | None:
    way = rng.randrange(5)
    if way == 0:
        return text.translate(_OFF)
    if way == 1:
        return text.lower().translate(_OFF)
    if way == 2:
        return text.upper() if rng.random() < 0.4 else text.lower()
    if way == 3:
        return text.rstrip("?？.! ") + rng.choice((" ?", "??", "!", ""))
    return "  ".join(text.split(" ")) if " " in text else text + " "


def typo(text: str, rng: random.Random) -> str | None:
    """One slip of the finger in a word of five letters or more; in Chinese a sign that sounds alike."""
    if is_chinese(text):
        return forms_zh.slip(text, rng)
    places = [match for match in _WORD.finditer(text) if len(match.group()) >= 5]
    if not places:
        return None
    match = rng.choice(places)
    word = match.group()
    at = rng.randrange(1, len(word) - 1)
    slipped = rng.choice((
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :] if at >= 2 else word[:at] + word[at + 1 :],
    ))  # fmt: skip
    return text[: match.start()] + slipped + text[match.end() :]


def respelled_number(text: str, rng: random.Random) -> str | None:
    """5 and five, 500 and 五百 are one number."""
    match = _NUMBER.search(text)
    if match is None or not match.group().isdigit():
        return None
    value = int(match.group())
    if is_chinese(text):
        if value > 10:
            return None
        said = (
            "两"
            if value == 2 and text[match.end() : match.end() + 1] not in ("", "月", "号", "日")
            else _HAN_DIGITS[value]
        )
    elif value in _SPELLED:
        said = _SPELLED[value]
    else:
        return None
    return text[: match.start()] + said + text[match.end() :]


def story(text: str, rng: random.Random) -> str | None:
    return (forms_zh if is_chinese(text) else forms_en).story(text, rng)


def keywords(text: str, rng: random.Random) -> str | None:
    return (forms_zh if is_chinese(text) else forms_en).keywords(text, rng)


def reworded(text: str, rng: random.Random) -> str | None:
    return (forms_zh if is_chinese(text) else forms_en).reworded(text, rng)


# ── the answer changes ───────────────────────────────────────────────────────────────────────────────────────────


def other_number(text: str, rng: random.Random) -> str | None:
    places = list(_NUMBER.finditer(text))
    if not places:
        return None
    match = rng.choice(places)
    digits = match.group()
    if digits.isdigit() and int(digits) < 10**7:
        value = int(digits)
        near = [value + 1, value - 1, value * 10, value // 10, value * 2, value + rng.randint(2, 30), int(digits[::-1])]
        near = [number for number in near if number >= 0 and number != value]
        said = str(rng.choice(near)) if near else "7"
    else:
        at = rng.choice([place for place, sign in enumerate(digits) if sign.isdigit()])
        said = digits[:at] + str((int(digits[at]) + rng.randint(1, 9)) % 10) + digits[at + 1 :]
    return text[: match.start()] + said + text[match.end() :]


def _swap_member(text: str, families: list[tuple[str, ...]], rng: random.Random, whole: bool) -> str | None:
    found = []
    for family in families:
        for member in family:
            pattern = rf"\b{re.escape(member)}\b" if whole else re.escape(member)
            match = re.search(pattern, text, re.IGNORECASE if whole and member.islower() else 0)
            if match:
                found.append((match, family, member))
    if not found:
        return None
    match, family, member = rng.choice(found)
    others = [other for other in family if other not in text and other != member]
    if not others:
        return None
    other = rng.choice(others)
    if match.group()[:1].isupper() and whole:
        other = other[0].upper() + other[1:]
    return text[: match.start()] + other + text[match.end() :]


def other_thing(text: str, rng: random.Random) -> str | None:
    if is_chinese(text):
        return _swap_member(text, [*_KINDRED_ZH, tuple(_PLACES_ZH), tuple(_LANDS_ZH)], rng, whole=False)
    families = [*_KINDRED, tuple(_PLACES), tuple(_LANDS), tuple(_DAYS), tuple(_MONTHS)]
    return _swap_member(text, families, rng, whole=True)


def opposite(text: str, rng: random.Random) -> str | None:
    """A word gives way to its opposite in our lexicon."""
    if is_chinese(text):
        found = [(word, others) for word, others in CHINESE.against.items() if len(word) >= 2 and word in text]
        if not found:
            return None
        word, others = rng.choice(found)
        usable = sorted(other for other in others if len(other) >= 2 and "_" not in other)
        return text.replace(word, rng.choice(usable), 1) if usable else None
    places = [match for match in _WORD.finditer(text) if match.group().lower() in ENGLISH.against]
    if not places:
        return None
    match = rng.choice(places)
    usable = sorted(other for other in ENGLISH.against[match.group().lower()] if other.isalpha())
    if not usable:
        return None
    said = rng.choice(usable)
    return text[: match.start()] + (said.capitalize() if match.group()[0].isupper() else said) + text[match.end() :]


_AUXILIARY = re.compile(
    r"\b(do|does|did|can|could|is|are|was|were|will|would|should|has|have|must|am)\b(?! not|n't)", re.IGNORECASE
)
_NOT = {"can": "can't", "will": "won't", "am": "am not"}


def denied(text: str, rng: random.Random) -> str | None:
    if is_chinese(text):
        for word, other in (
            ("可以", "不可以"),
            ("能", "不能"),
            ("会", "不会"),
            ("需要", "不需要"),
            ("有", "没有"),
            ("是", "不是"),
            ("要", "不要"),
        ):
            at = text.find(word)
            if at > 0 and text[at - 1] not in "不没能可只就还" and f"{word}不" not in text and f"不{word}" not in text:
                return text[:at] + other + text[at + len(word) :]
        return None
    match = _AUXILIARY.search(text)
    if match is None:
        return None
    said = match.group()
    not_ = _NOT.get(said.lower(), said + "n't")
    return text[: match.start()] + (not_.capitalize() if said[0].isupper() else not_) + text[match.end() :]


_FROM_TO = re.compile(r"\bfrom ((?:[\w-]+ ){0,2}[\w-]+) to ((?:[\w-]+ ?){1,2})", re.IGNORECASE)
_FROM_TO_ZH = re.compile(
    r"(?:从)([\u4e00-\u9fffA-Za-z]{1,4})(到|去|转到|飞)([\u4e00-\u9fffA-Za-z]{2,4}?)(?=[的怎要坐多最有]|$)"
)
_THAN = re.compile(r"^(is|are|was) (.{2,30}?) (\w+er|more \w+|less \w+) than (.{2,30}?)([?.]?)$", re.IGNORECASE)


def turned(text: str, rng: random.Random) -> str | None:
    """From A to B becomes from B to A; A taller than B becomes B taller than A."""
    if match := _FROM_TO_ZH.search(text):
        return text[: match.start(1)] + match[3] + match[2] + match[1] + text[match.end(3) :]
    if match := _THAN.search(text):
        return f"{match[1]} {match[4]} {match[3]} than {match[2]}{match[5]}"
    if (match := _FROM_TO.search(text)) and match[1].strip().lower() != match[2].strip().lower():
        return text[: match.start(1)] + match[2].strip() + " to " + match[1].strip() + " " + text[match.end() :]
    return None


_NAMED = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")


def names_exchanged(text: str, rng: random.Random) -> str | None:
    places = list(_NAMED.finditer(text))
    if len(places) < 2:
        return None
    first, second = places[0], places[-1]
    if first.group() == second.group() or text[first.end() : second.start()].strip() in ("and", "or", "&", ","):
        return None
    return (
        text[: first.start()]
        + second.group()
        + text[first.end() : second.start()]
        + first.group()
        + text[second.end() :]
    )


def misasked(text: str, rng: random.Random) -> str | None:
    """Another question about the same thing: why instead of how, when instead of where."""
    return (forms_zh if is_chinese(text) else forms_en).misasked(text, rng)


_LIMITS = ("only ", "except on weekends", "for children", "for free", "without an account", "on mobile", "in winter",
           "for business customers", "at night", "abroad", "for the first time", "twice", "by post",
           "at home")  # fmt: skip
_LIMITS_ZH = ("周末", "国外", "未成年人", "企业用户", "夜间", "第一次", "海外版", "老年人", "孕妇", "会员", "在校学生")


def narrowed(text: str, rng: random.Random) -> str | None:
    if is_chinese(text):
        return rng.choice(_LIMITS_ZH) + text
    limit = rng.choice(_LIMITS)
    if limit == "only ":
        match = re.search(r"\b(for|in|on|with|at)\b", text)
        return text[: match.start()] + "only " + text[match.start() :] if match else None
    body = text.rstrip("?.! ")
    return f"{body} {limit}{text[len(body) :].strip() or ''}"


def with_tail(text: str, other: str, rng: random.Random) -> str:
    """A second request behind the first: the stored answer covers half of it, or serves whoever injected it."""
    if is_chinese(text):
        return (
            text.rstrip("？?。 ")
            + rng.choice(("？另外，", "，还有，", "？顺便问下，", "。忽略上面的，", "，并且告诉我"))
            + other
        )
    joint = rng.choice((" Also, ", " and ", ". By the way, ", ". Ignore that and instead tell me: ", "; ", " - and "))
    return text.rstrip("?.! ") + ("?" if joint[0] in " .;" and rng.random() < 0.5 else "") + joint + other


KEEPS: tuple[Generator, ...] = (politeness, case_and_marks, typo, respelled_number, politeness, story)
REWORDS: tuple[Generator, ...] = (reworded, reworded, reworded, keywords)
CHANGES: tuple[tuple[str, Generator], ...] = (
    ("number", other_number), ("thing", other_thing), ("opposite", opposite), ("negation", denied),
    ("order", turned), ("order", names_exchanged), ("narrowed", narrowed), ("question", misasked),
    ("question", misasked),
)  # fmt: skip
