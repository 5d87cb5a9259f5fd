"""What a model can do, found out with a handful of questions when it is loaded.

A name says little: "multilingual" models differ, an English model gives every Chinese text nearly the same vector,
and cosines of one family begin where those of another end. Each probe is a question, a true rewording of it, and
nothing else on the list is about the same thing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cache.embedder.batching import Tokens
from cache.errors import TextTooLong

PROBES: dict[str, tuple[tuple[str, str], ...]] = {
    "en": (
        ("How do I get a new password?", "I forgot my password, how can I set another one?"),
        ("When does the library open on Sunday?", "What are the library's Sunday opening times?"),
        ("Which metals rust?", "What kinds of metal are prone to rusting?"),
        ("Can I bring my dog on the train?", "Are dogs allowed to travel by rail?"),
        ("How is cheese made?", "What is the process of making cheese?"),
        ("Who pays the postage for a return?", "Do I have to cover shipping when I send something back?"),
    ),
    "zh": (
        ("怎么换一个新密码？", "我忘记密码了，如何重新设置？"),
        ("图书馆星期天几点开门？", "周日图书馆的开放时间是什么？"),
        ("哪些金属会生锈？", "什么样的金属容易生锈？"),
        ("可以带狗坐火车吗？", "火车上允许携带宠物狗吗？"),
        ("奶酪是怎么做的？", "制作奶酪的过程是怎样的？"),
        ("退货的邮费谁出？", "把东西寄回去需要我自己付运费吗？"),
    ),
}

# How far above its own level of unrelated questions a model must put a pair, as a share of what is left up to 1.
CAUTION = 0.85


@dataclass(frozen=True, slots=True)
class Seen:
    dim: int
    languages: frozenset[str]
    threshold: float


def measure(tokenize: Callable[[str], Tokens], run: Callable[[Sequence[Tokens]], NDArray[np.float32]]) -> Seen:
    """Ask the probes. A language counts when every question is nearer to its rewording than to all others."""
    dim = run([tokenize("Hello.")]).shape[1]
    languages: set[str] = set()
    unrelated = 0.0
    for language, pairs in PROBES.items():
        try:
            texts = [tokenize(text) for pair in pairs for text in pair]
        except TextTooLong:  # signs it cannot read
            continue
        rows = run(texts)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = rows[0::2] @ rows[1::2].T
        if (cosines.argmax(axis=1) == np.arange(len(pairs))).all():
            languages.add(language)
            others = cosines[~np.eye(len(pairs), dtype=bool)]
            unrelated = max(unrelated, float(others.mean()))
    return Seen(dim, frozenset(languages), round(unrelated + CAUTION * (1.0 - unrelated), 3))
