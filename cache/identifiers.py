"""One person's data inside a text: e-mail addresses, phone, card, bank and identity numbers, numbered orders, names.

Patterns with their check digits where a standard has them. A false alarm costs hits, an oversight somebody's privacy,
so the patterns are wide; none of them takes more than linear time on a hostile text.
"""

import re
from collections.abc import Sequence

_DIGIT = re.compile(r"\d")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]*\w", re.ASCII)
_SPOKEN = re.compile(r"\b\w+ ?(?:@|\bat) ?\w+ dot (?:com|org|net|edu|co|io)\b", re.IGNORECASE)
_DIGIT_RUN = re.compile(r"(?<![\d.,$€£¥]|[A-Za-z_])\+?\(?\d(?:[ ().-]{0,2}\d){8,22}(?![\d%])")
_DATE_LIKE = re.compile(r"\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{2,4}")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")
_NATIONAL_ID = re.compile(r"(?<!\d)(?:\d{3}-\d{2}-\d{4}|\d{17}[\dXx])(?!\d)")
_NUMBERED_THING = re.compile(
    r"\b(?:order|account|ticket|invoice|booking|reservation|tracking|case|reference|ref|confirmation|customer"
    r"|member|membership|policy"
    r"|claim|transaction|parcel|package|shipment|delivery|passport|licence|license|iban|imei|patient|employee"
    r"|student|user|phone"
    r"|mobile|card|pnr|contract|application|subscription|serial|refund|complaint|request)"
    r"(?P<named>(?:'s)?[ -]?(?:number|num|nr|no\.?|id|code|ref(?:erence)?|#)?\s*(?:is|was|:|=|#)?\s*#?\s*)"
    r"(?P<id>(?=[\w-]*\d)[A-Za-z0-9][\w-]{3,})",
    re.IGNORECASE,
)
_NUMBERED_THING_ZH = re.compile(
    r"(?:订单|账号|帐号|账户|工单|单号|运单|快递|包裹|会员|保单|发票|身份证|银行卡|信用卡|卡号|手机|电话|护照|合同"
    r"|学号|工号|编号|票号|车牌)"
    r"(?:号码?|编号)?(?:是|为|：|:|#|\s)*(?P<id>(?=[A-Za-z0-9-]*\d)[A-Za-z0-9][A-Za-z0-9-]{3,})"
)
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_INTRODUCTION = re.compile(
    r"\bmy (?:full |first |last )?name(?: is|'s) (?!(?:wrong|incorrect|misspelled|not|required|needed|on|changed)\b)\w"
    r"|\bi live (?:at|in) \d|\bmy (?:home |email )?address is (?=\S*\d)|\bi was born (?:on|in)\b"
    r"|\bmy (?:phone|mobile|account|card|order)(?: number)? is (?=\S*\d)"
    r"|\bmy (?:password|passcode|pin|date of birth|birthday) is (?!(?:wrong|incorrect|not|invalid|expired|locked"
    r"|blocked|lost|forgotten|too|required|rejected)\b)\w"
    r"|我(?:的名字)?叫(?!什么|啥|谁)\w|我姓(?!什么|啥)\w"
    r"|我的(?:地址|住址|电话|手机号?|身份证号?|密码|生日)是(?!什么|多少|哪|啥|不是|否)"
    r"|我住在?(?!哪|什么)\w{1,12}(?:路|街|号|区|室)",
    re.IGNORECASE,
)


def holds_identifier(text: str) -> bool:
    """Whether an e-mail address, a phone, card, bank or identity number, or a numbered order stands in the text."""
    if _INTRODUCTION.search(text) or ("@" in text and _EMAIL.search(text)) or _SPOKEN.search(text):
        return True
    if not _DIGIT.search(text):
        return False
    return (
        _NATIONAL_ID.search(text) is not None
        or any(_is_long_number(run.group()) for run in _DIGIT_RUN.finditer(text))
        or any(_is_iban(match.group()) for match in _IBAN.finditer(text))
        or any(match["named"].strip(" -") or not _YEAR.match(match["id"]) for match in _NUMBERED_THING.finditer(text))
        or any(not _YEAR.match(match["id"]) for match in _NUMBERED_THING_ZH.finditer(text))
    )


def _is_long_number(run: str) -> bool:
    """A phone number (9 to 15 digits, E.164) or a card number (13 to 19 digits with a right check digit)."""
    if _DATE_LIKE.match(run.strip("+( ")):
        return False
    digits = [int(char) for char in run if char.isdigit()]
    return 9 <= len(digits) <= 15 or (13 <= len(digits) <= 19 and _luhn(digits))


def _luhn(digits: Sequence[int]) -> bool:
    """The check of card numbers. Source: ISO/IEC 7812-1, annex B."""
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(candidate: str) -> bool:
    """The check of bank account numbers. Source: ISO 13616, modulo 97."""
    plain = candidate.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1
