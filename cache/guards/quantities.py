"""Numbers as values, not as spellings: 5k is 5,000 is five thousand; 五百 is 500; two weeks are fourteen days.

A quantity is (value, unit). Units are names from `UNITS`; durations with a number are told in minutes or in months, so
that "48 hours" and "two days" agree. Money keeps its currency, and a percentage its sign.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from cache.words import listed, words

# fmt: off
_ONES = {word: value for value, word in enumerate(listed("""
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
    """))}
_TENS = {word: 10 * value for value, word in enumerate(listed(
    "twenty thirty forty fifty sixty seventy eighty ninety"), start=2)} | {"fourty": 40}
_SCALES = {
    "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "hundreds": 100,
    "thousands": 1000, "millions": 10**6,
}
_WHOLE: dict[str, int | Fraction] = {
    "dozen": 12, "couple": 2, "once": 1, "twice": 2, "thrice": 3, "pair": 2, "half": Fraction(1, 2), "double": 2,
    "triple": 3, "quadruple": 4, "both": 2,
}
ORDINALS = {word: value for value, word in enumerate(listed(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"), start=1)}
_SUFFIXES = {
    "k": 1000, "bn": 10**9, "mn": 10**6, "万": 10**4, "亿": 10**8, "千": 1000, "百": 100, "百万": 10**6, "千万": 10**7,
}
_FRACTIONS = {
    "½": Fraction(1, 2), "¼": Fraction(1, 4), "¾": Fraction(3, 4), "⅓": Fraction(1, 3), "⅔": Fraction(2, 3),
    "⅕": Fraction(1, 5), "⅛": Fraction(1, 8),
}
_HAN_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {
    "〇": 0, "两": 2, "壹": 1, "贰": 2, "叁": 3,
}
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}

# One line, one unit. Those after `?` are units only directly behind a number ("5 m", but not "I'm").
_UNIT_LINES = """
kilometre km kilometer kilometers kilometre kilometres kms 公里 千米
metre meter meters metre metres 米 ? m
centimetre cm centimeter centimeters centimetre centimetres 厘米 公分
millimetre mm millimeter millimeters millimetre millimetres 毫米
mile mile miles 英里
inch inch inches inc 英寸 寸 ? in "
foot feet foot ft 英尺
yard yard yards yd 码
hectare hectare hectares 公顷
acre acre acres 英亩 亩
kilogram kg kgs kilo kilos kilogram kilograms kilogramme kilogrammes 公斤 千克
gram gram grams gramme grammes 克 ? g gm gms
milligram mg milligram milligrams 毫克
tonne tonne tonnes ton tons 吨
pound pound pounds lb lbs gbp sterling quid £ 英镑 磅
jin 斤
ounce ounce ounces oz 盎司
stone ? st
litre litre litres liter liters 升 ? l
millilitre ml millilitre millilitres milliliter milliliters 毫升
gallon gallon gallons 加仑
pint pint pints
cup cup cups 杯
tablespoon tablespoon tablespoons tbsp 汤匙
teaspoon teaspoon teaspoons tsp 茶匙
byte byte bytes 字节
kilobyte kb kilobyte kilobytes
megabyte mb mbs megabyte megabytes 兆
gigabyte gb gbs gigabyte gigabytes ? gig
terabyte tb terabyte terabytes
mbps mbps ? mbit
gbps gbps
celsius celsius centigrade 摄氏度 摄氏 ℃ ? °c c
fahrenheit fahrenheit 华氏度 华氏 ℉ ? °f f
kelvin kelvin 开尔文
mph mph
kmh km/h kmh kph
kilowatt_hour kwh
kilowatt kw kilowatt kilowatts 千瓦
watt watt watts 瓦 ? w
volt volt volts 伏 ? v
joule joule joules kj 焦耳
calorie calorie calories kcal 卡路里 千卡 大卡
hertz hz hertz khz mhz ghz 赫兹
dollar dollar dollars usd bucks $ us$ 美元 美金 刀
euro euro euros eur € 欧元
yuan yuan rmb cny ￥ ¥ 元 块钱 人民币
yen yen jpy 日元
rupee rupee rupees rs rs. inr ₹ 卢比
won krw 韩元
franc franc francs chf
hkd hkd 港币 港元
aud aud
cad cad
cent cent cents ¢ 分钱
penny pence penny pennies ? p
percent percent % 百分比 ％
discount 折
second secs seconds sec 秒 秒钟 ? s
minute minute minutes mins min 分钟
hour hour hours hr hrs 小时 钟头 ? h
day day days 天 daily
night night nights 晚 夜
week week weeks wk weekly 周 星期 礼拜
fortnight fortnight fortnightly fortnights
month month months mth monthly 月 个月
quarter quarterly 季度
year year years yr yrs yearly annual annually annum 年
decade decade decades
century century centuries 世纪
"""
# fmt: on
_BEHIND_NUMBER_ONLY: set[str] = set()
UNITS: dict[str, str] = {}
for _line in _UNIT_LINES.split("\n"):
    _name, *_words = _line.split() or [""]
    _strict = False
    for _word in _words:
        if _word == "?":
            _strict = True
            continue
        UNITS[_word] = _name
        if _strict:
            _BEHIND_NUMBER_ONLY.add(_word)
UNITS.pop('"', None)
_TIME = words("second minute hour day night week fortnight month quarter year decade century")
_MINUTES = {
    "second": Fraction(1, 60), "minute": Fraction(1), "hour": Fraction(60), "day": Fraction(1440),
    "week": Fraction(10080), "fortnight": Fraction(20160),
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}
_SIGNS = "$€£¥￥₹"
_DIGITS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
_HAN_NUMBER = r"[〇零一二两三四五六七八九十百千万亿壹贰叁]+"
_NUMBER = re.compile(
    rf"""(?P<sign>(?:(?<=\s)|(?<=[(=:])|^)-(?=\d)|[{_SIGNS}]\s?(?=[\d.])|(?:us|hk|a|c)\$\s?(?=\d))?
    (?:(?P<a>\d+)\s?/\s?(?P<b>\d+)(?![\d/])|(?P<digits>{_DIGITS})(?P<half>[½¼¾⅓⅔⅕⅛])?|(?P<vulgar>[½¼¾⅓⅔⅕⅛]))
    (?P<suffix>\s?(?:bn|mn)\b|k\b(?!\w)|千万|百万|[万亿千百])?
    (?P<ordinal>(?:st|nd|rd|th)\b)?""",
    re.VERBOSE,
)
_CLOCK = re.compile(
    r"\b(?P<h>\d{1,2})(?:[:.](?P<m>\d\d))?\s?(?P<half>[ap])\.?m\b\.?|\b(?P<h24>\d{1,2}):(?P<m24>\d\d)\b"
)
_DECADE = re.compile(r"\b(?:1\d|20)\d0s\b|\b\d0s\b")
_PERCENT_HAN = re.compile(rf"百分之(?P<n>{_HAN_NUMBER}|\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """value: exact.  unit: a name of `UNITS`, "#" for ordinals, "clock" for minutes after midnight, "" for none.
    start, end: where it stands in the text, in characters."""

    value: Fraction
    unit: str
    start: int
    end: int


def durations(value: Fraction, unit: str) -> tuple[Fraction, str]:
    """A time span in minutes or months, so that equal spans are equal; other units unchanged."""
    if unit in _MINUTES:
        return value * _MINUTES[unit], "minutes"
    if unit in _MONTHS:
        return value * _MONTHS[unit], "months"
    return value, unit


def is_time(unit: str) -> bool:
    return unit in _TIME


def bare_unit(word: str) -> str | None:
    """The unit that a word names when no number stands before it."""
    return None if word in _BEHIND_NUMBER_ONLY else UNITS.get(word)


def written(match: re.Match[str]) -> Fraction:
    """The value of a number in digits. match: of the pattern that `find_digits` uses."""
    if match["a"]:
        value = Fraction(int(match["a"]), int(match["b"])) if int(match["b"]) else Fraction(int(match["a"]))
    elif match["vulgar"]:
        value = _FRACTIONS[match["vulgar"]]
    else:
        value = Fraction(match["digits"].replace(",", "")) + _FRACTIONS.get(match["half"] or "", Fraction(0))
    value *= _SUFFIXES.get((match["suffix"] or "").strip(), 1)
    return -value if match["sign"] == "-" else value


def find_digits(low: str) -> list[Quantity]:
    """Every number written with digits in a lower-cased text; a currency sign before it is its unit."""
    found: list[Quantity] = []
    taken = [(match.start(), match.end()) for match in _CLOCK.finditer(low) if _add_clock(match, found)]
    for match in _DECADE.finditer(low):
        found.append(Quantity(Fraction(match.group()[:-1]), "decade", match.start(), match.end()))
        taken.append((match.start(), match.end()))
    for match in _PERCENT_HAN.finditer(low):
        number = match["n"]
        value = Fraction(number) if number[0].isdigit() else Fraction(han_value(number))
        found.append(Quantity(value, "percent", match.start(), match.end()))
        taken.append((match.start(), match.end()))
    for match in _NUMBER.finditer(low):
        start, end = match.start(), match.end()
        if any(start < stop and begin < end for begin, stop in taken):
            continue
        sign = (match["sign"] or "").strip()
        unit = "#" if match["ordinal"] else UNITS.get(sign, "dollar" if sign.endswith("$") else "")
        found.append(Quantity(written(match), unit, start, end))
    return sorted(found, key=lambda quantity: quantity.start)


def _add_clock(match: re.Match[str], found: list[Quantity]) -> bool:
    hour, minute = int(match["h"] or match["h24"]), int(match["m"] or match["m24"] or 0)
    if hour > 24 or minute > 59:
        return False
    if match["half"]:
        hour = hour % 12 + (12 if match["half"] == "p" else 0)
    found.append(Quantity(Fraction(hour * 60 + minute), "clock", match.start(), match.end()))
    return True


@lru_cache(maxsize=4096)
def han_value(text: str) -> int:
    """The value of a number in Chinese characters: 二十四 is 24, 五百 is 500, 一九四五 is 1945."""
    if not any(char in _HAN_SCALES for char in text):
        return int("".join(str(_HAN_DIGITS[char]) for char in text))
    total = section = digit = 0
    last = 1  # the scale right before the coming digit: 三百五 is 350, 三百零五 is 305
    for char in text:
        if char in _HAN_DIGITS:
            digit = _HAN_DIGITS[char]
            last = last if digit else 1
            continue
        scale = last = _HAN_SCALES[char]
        if scale >= 10**4:
            total = (total + section + digit) * scale
            section = digit = 0
        else:
            section += (digit or 1) * scale
            digit = 0
    return total + section + digit * (last // 10 if text[-1] in _HAN_DIGITS and last >= 100 else 1)


def is_han_number(char: str) -> bool:
    return char in _HAN_DIGITS or char in _HAN_SCALES


def spelled(said: list[str], at: int) -> tuple[Fraction, int] | None:
    """The English number that begins with word `at`: (value, how many words it takes), None when there is none.

    said: lower-case words; "twenty-four" may be one word or two."""
    total = current = Fraction(0)
    index = at
    seen = False
    while index < len(said):
        word = said[index]
        head, dash, tail = word.partition("-")
        if word in _ONES:
            current += _ONES[word]
        elif word in _TENS:
            current += _TENS[word]
        elif dash and head in _TENS and tail in _ONES:
            current += _TENS[head] + _ONES[tail]
        elif word in _SCALES and seen:
            if word.startswith("hundred"):
                current *= 100
            else:
                total += current * _SCALES[word]
                current = Fraction(0)
        elif word in ("hundred", "thousand", "million", "billion") and index and said[index - 1] == "a":
            current = Fraction(_SCALES[word])
        elif word in _WHOLE and not seen:
            return _WHOLE[word] * Fraction(1), 1
        elif word == "and" and seen and said[index - 1] in _SCALES and _counts(said, index + 1):
            pass  # "five hundred and thirty"
        else:
            break
        seen = True
        index += 1
    return (total + current, index - at) if seen else None


def _counts(said: list[str], at: int) -> bool:
    return at < len(said) and (said[at] in _ONES or said[at] in _TENS)
