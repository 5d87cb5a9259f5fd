"""Guards over the words that differ: opposites, denials, words of extent, and one word put in the place of another."""

from cache.guards.difference import Difference
from cache.guards.english import PREFIXES
from cache.guards.reading import Reading
from cache.guards.token import Kind, Token
from cache.inflection import lemma
from cache.words import words

# Words of failure: "the payment was declined" and "the payment did not go through" deny alike.
_FAILING = words("""
    fail failure decline reject refuse broken missing lost lose stop error unable wrong expire problem stuck invalid
    impossible unavailable deny forget crash 丢失 损坏 故障 错误 拒绝 崩溃 忘记 关闭 取消
    """)
# A difference in these does not change an answer.
_HARMLESS = words("""
    person people someone customer user sir madam team company online step process way method procedure option detail
    information info app website site page system service place please correctly properly quickly anyway somehow
    """)
_WEAK_SCOPE = words("all each most best more less again another other next per several second both")
_PARTICLES = words("off out up down away back")
# Light verbs that may stand for one another.
_LIGHT_KINDS = {
    verb: kind
    for kind, verbs in enumerate((
        "get receive obtain have include find available", "want need like wish look try", "make do submit put",
        "tell show know see provide inform ask say explain", "go come", "work happen", "need require necessary",
        "allow", "能 可以 能够", "必须 需要",
    ))
    for verb in verbs.split()
}  # fmt: skip
_DUTY = words("must need should required require necessary have_to 必须 应该 得")
_LEAVE = words("can may could allow able possible 可以 能 能够")


# (words, others, the things of which they mean the same)
_RECORDS = words("""
    address email name detail details information info password phone_number number contact card credit_card payment
    billing preference preferences setting settings profile order booking reservation date time photo picture avatar
    birthday username language currency plan subscription appointment method account entry record document file column
    row value status 密码 地址 住址 收货地址 收件地址 送货地址 号码 手机号 电话 邮箱 名字 姓名 信息 个人信息 资料
    材料 时间 日期 头像 套餐 订单 昵称 用户名 支付密码 卡 银行卡 语言 生日 设置
    """)
_LOOSE = (
    (words("change switch"), words("update"), _RECORDS),
    (words("换 更换"), words("修改 更改 改 变更"), _RECORDS),
    (words("raise"), words("increase boost"), words(
        "price salary wage limit amount fee rate tax money income pay temperature level volume cost pension rent")),
)  # fmt: skip


def opposites(a: Reading, b: Reading, between: Difference) -> str | None:
    """A word on one side against its opposite on the other: enable and disable, before and after, 买 and 卖."""
    for token in between.only_a:
        for other in between.only_b:
            if (
                not token.against.isdisjoint(other.keys)
                or not other.against.isdisjoint(token.keys)
                or _prefixed(token.low, other.low)
            ):
                return f"{token.low} against {other.low}"
    return None


def _prefixed(one: str, other: str) -> bool:
    """Whether one word is the other with something in front that changes it: refundable, non-refundable."""
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    return 2 < len(short) < len(long) and long.endswith(short) and long[: -len(short)] in PREFIXES


def negation(a: Reading, b: Reading, between: Difference) -> str | None:
    """As many denials on both sides; far apart, a word of failure may stand for one."""
    if a.negations == b.negations:
        return None
    if not between.alike and a.negations + b.negations == 1 and (b if a.negations else a).known & _FAILING:
        return None
    return f"{a.negations} denials against {b.negations}"


def scope(a: Reading, b: Reading, between: Difference) -> str | None:
    """The same words of extent: only, except, first, at least; in sentences built alike also all, most, more."""
    odd = a.scope ^ b.scope
    if not between.alike:
        odd -= _WEAK_SCOPE
    if not odd:
        return None
    return f"{', '.join(sorted(a.scope & odd)) or 'nothing'} against {', '.join(sorted(b.scope & odd)) or 'nothing'}"


def common_ground(a: Reading, b: Reading, between: Difference) -> str | None:
    """Two questions without a single telling word in common are near by accident, or only their authors know why."""
    return "no word in common" if not between.shared and a.content and b.content else None


def modality(a: Reading, b: Reading, between: Difference) -> str | None:
    """In sentences built alike, having to is not being able to: "must I" against "can I"."""
    if not between.alike:
        return None
    for here, there in ((a, b), (b, a)):
        if here.known & _DUTY and there.known & _LEAVE and not there.known & _DUTY and not here.known & _LEAVE:
            return "a duty against a permission"
    return None


def substitution(a: Reading, b: Reading, between: Difference) -> str | None:
    """In sentences built alike, a word that one side has and the other lacks decides: my child or my guest."""
    if not between.alike:
        return None
    odd_a, odd_b = _telling(between.only_a), _telling(between.only_b)
    if not odd_a and not odd_b:
        odd_a, odd_b = _light(between.only_a), _light(between.only_b)
        if not odd_a or not odd_b or _kinds(odd_a) & _kinds(odd_b):
            return None
    return f"the same sentence but for {_shown(odd_a)} against {_shown(odd_b)}"


def loose_synonyms(a: Reading, b: Reading, between: Difference) -> str | None:
    """Words that mean the same of some things only: one changes or updates an address, but not a phone."""
    lows_a, lows_b = _lows(a), _lows(b)
    for here, there, said, other in ((a, b, lows_a, lows_b), (b, a, lows_b, lows_a)):
        for some, others, things in _LOOSE:
            if not said & some or not other & others or said & others or other & some:
                continue
            if not things & (here.known | said) or not things & (there.known | other):
                return f"{', '.join(sorted(said & some))} against {', '.join(sorted(other & others))}"
    return None


def _lows(reading: Reading) -> frozenset[str]:
    lows = {token.low for token in reading.tokens}
    return frozenset(lows | set(map(lemma, lows)))


def _telling(tokens: tuple[Token, ...]) -> list[Token]:
    return [
        token
        for token in tokens
        if (token.kind in (Kind.CONTENT, Kind.NAME) and not token.keys & _HARMLESS) or token.low in _PARTICLES
    ]


def _light(tokens: tuple[Token, ...]) -> list[Token]:
    return [token for token in tokens if token.concept in _LIGHT_KINDS]


def _kinds(tokens: list[Token]) -> set[int]:
    return {_LIGHT_KINDS[token.concept] for token in tokens}


def _shown(tokens: list[Token]) -> str:
    return ", ".join(repr(token.low) for token in tokens) or "nothing"
