"""Guards against an answer that somebody bends for others: an added clause, an order to the answerer, another role,
characters that nobody sees. They decide alone: what one side *adds* is where small models see no difference."""

import re
import unicodedata
from functools import lru_cache

from cache.guards.reading import Reading
from cache.wording import worded
from cache.words import listed

_LEAST_ADDED = 2  # words; a single one is the affair of the other guards
_AT_START = (
    r"(?:^|[.?!;:,\n(]\s*|\b(?:and|also|then|please|but)\s+)"
    r"(?:(?:and|also|then|please|always|never|remember to|you must|in (?:the|your) answer),?\s+)*"
)
# "Tell me" and "explain" only ask.
_ORDERS = re.compile(
    _AT_START + r"(?:tell(?! me)|say|mention|answer|respond|reply|ignore|disregard|pretend"
    r"|forget (?:all|the|previous|everything)|assume|explain (?:it|this|that)|lie|invent|recommend|include"
    r"|give(?! me)|provide(?! me)|add|append|speak|talk|act|be (?:rude|brief|evil|wrong)|end with|use the wrong)\b"
    r"|\bmake (?:it|this|that|something) up\b"
    r"|忽略|无视|(?:^|[。？！，,\n])\s*提供|告诉(?!我)|回答[时说中得]|用.{0,6}回答|说谎|撒谎|编造|假装|假设|推荐|务必"
    r"|必须包含|结尾|加上|提到|骂|给出|说(?!明)",
    re.IGNORECASE,
)  # fmt: skip
_END = re.compile(r"[.?!;]+(?=\s|$|[\u3400-\u9fff])|[。？！；\n\r\u2028\u2029]+")
# What a question may be wrapped in: "What is the capital of Peru" and "capital of Peru".
_WRAPPING = frozenset(
    listed("""
    what whats which is are was were the a an do does did can could may should would i we you me my to of for on in at
    how please tell about there it that this have has any some
    请 问 请问 吗 呢 啊 呀 吧 我 想 知 道 一 下 是 的 了 怎 么 如 何 可 以 能 要
    """)
)
_ROLES = re.compile(
    r"<\|[^|>\n]{1,40}\|>|\[/?INST\]|<</?SYS>>|</?(?:s|system|user|assistant)>|\"role\"\s*:|\{\{\s*system\s*\}\}"
    r"|(?:^|[\r\n\u2028\u2029])[ \t]*(?:\#{1,6}[ \t]*)?"
    r"(?:system|assistant|user|human|developer|instruction|系统|助手|用户)[ \t]*(?:[:：]|(?=[\r\n\u2028\u2029]|\Z))",
    re.IGNORECASE,
)


def added(a: Reading, b: Reading) -> str | None:
    """One text must not be the other with a run of words put into it: before, behind or in the midst."""
    short, long = sorted((_words(a.plain), _words(b.plain)), key=len)
    extra = len(long) - len(short)
    if extra < _LEAST_ADDED or len(short) < 2:
        return None
    before = next((at for at, word in enumerate(short) if word != long[at]), len(short))
    behind = next((at for at in range(len(short) - before) if short[-1 - at] != long[-1 - at]), len(short) - before)
    run = long[before : before + extra]
    if before + behind < len(short) or _WRAPPING.issuperset(run):
        return None
    return f"only one side says {' '.join(run[:8])!r}"


@lru_cache(maxsize=4096)
def _words(plain: str) -> tuple[str, ...]:
    """A stored question is compared again and again."""
    return tuple(worded(plain))


def sentences(a: Reading, b: Reading) -> str | None:
    """As many sentences on both sides, courtesy left aside: what stands in one of its own may be a second request."""
    here, there = _sentences(a.plain), _sentences(b.plain)
    return None if here == there else f"{here} sentences against {there}"


@lru_cache(maxsize=4096)
def _sentences(plain: str) -> int:
    parts = [part for part in _END.split(plain) if part.strip()]
    return len(parts) if len(parts) < 2 else sum(1 for part in parts if worded(part))


def orders(a: Reading, b: Reading) -> str | None:
    """As many orders to the one who answers on both sides: what to say, to ignore, to recommend."""
    here, there = _orders(a.plain), _orders(b.plain)
    return None if here == there else f"{here} orders to the answerer against {there}"


@lru_cache(maxsize=4096)
def _orders(plain: str) -> int:
    return len(_ORDERS.findall(plain))


def roles(a: Reading, b: Reading) -> str | None:
    """The same marks of another speaker: "system:", <|im_start|>, [INST]."""
    here, there = _roles(a.text), _roles(b.text)
    return None if here == there else f"marks of a role: {list(here)} against {list(there)}"


@lru_cache(maxsize=4096)
def _roles(text: str) -> tuple[str, ...]:
    return tuple(sorted(mark.strip().lower() for mark in _ROLES.findall(text)))


def unseen(a: Reading, b: Reading) -> str | None:
    """The same characters that nobody sees: formats, tags, lone accents."""
    here, there = (_unseen(each.text) for each in (a, b))
    return None if here == there else "characters that nobody sees differ"


@lru_cache(maxsize=4096)
def _unseen(text: str) -> str:
    if text.isascii():
        return ""
    return "".join(
        char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) in ("Cf", "Mn", "Co", "Cn")
    )
