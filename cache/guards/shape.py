"""The shape of a sentence, read off the text by patterns: what is asked for, when, in whose voice, in which form."""

import re
from functools import lru_cache

# What kind of answer is wanted. One text may ask for several; the weak kinds count only where no strong one is found.
_ASKING = [
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("why",
            r"\bwhy\b|\bhow come\b|\b(?:what|what's|whats)\b[^?.]{0,25}\b(?:reasons?|causes?)\b|\breasons? (?:for"
            r"|why|behind)\b|\bwhat causes?\b|\bcauses? of\b"),
        ("how much",
            r"\bhow (?:much|expensive)\b|\bwhat(?:'s| is| are|s)?(?: \w+){0,4} (?:costs?|prices?|fees?|fares?"
            r"|charges?)\b|\bcosts? what\b|\bat what price\b|\bwhat (?:does|do|would|will) [^?.]{1,40} (?:cost"
            r"|charge|set me back)\b"),
        ("how many", r"\bhow many\b|\b(?:number|count) of\b"),
        ("how long",
            r"\bhow (?:long|soon|quickly|fast)\b|\bhow many (?:days|hours|weeks|months|years|minutes)\b"
            r"|\bhow much time\b"),
        ("how often", r"\bhow (?:often|frequently)\b|\bhow many times\b"),
        ("how far",
            r"\bhow (?:far|big|tall|high|deep|wide|heavy|large|old|hot|cold|strong|hard|difficult|likely|safe|good"
            r"|bad|dangerous)\b"),
        ("when",
            r"(?:^|[.?!,;:]\s*|\b(?:know|tell me|say|and|wondering|ask|since|until|till|by|from|see|out"
            r"|check)\s+)when\b|\bwhen\W*$|\b(?:what|which) (?:time|day|date|year|month)\b|\buntil when\b"
            r"|\bdate of\b"),
        ("where",
            r"\b(?:in|at|to|from) (?:what|which) (?:place|city|country|town)\b|\b(?:what|which) (?:place|location)\b"
            r"|(?:^|[.?!,;:]\s*|\b(?:know|tell me|and|wondering|ask|from|see|out|check|please)\s+)where\b"
            r"|\bwhere\W*$|\bwhere (?:is|are|do|can|did|does|should|was|were)\b"),
        ("who",
            r"(?:^|[.?!,;:]\s*|\b(?:know|tell me|and|wondering|ask|see|out|check|with|to|from|by)\s+)whom?\b"
            r"|\bwhose\b|\bwho's\b"),
        ("how",
            r"\bhow (?:do|does|did|can|could|should|would|to|is|are|will|must|might|i)\b|\bsteps?\b|\b(?:way|ways"
            r"|process|procedure|method|instructions?|tips|guide|command) (?:to|for|of|on)\b|\bhow\W*$|\bhow\b"),
        ("what", r"\bwhat\b|\bwhats\b|\bwhat's\b|\bdefine\b|\bdefinition\b|\bexplain\b|\bdescribe\b|\bmeaning of\b"),
        ("which", r"\bwhich\b"),
        ("yes or no",
            r"(?:^|[.?!;,]\s*)(?:and |but |so )?(?:is|are|am|do|does|did|can|could|will|would|should|may|might|has"
            r"|have|had|was|were|shall|must|isn't|aren't|don't|doesn't|can't|won't)\b"),
    )
]  # fmt: skip
_WEAK = frozenset(("what", "which", "yes or no", "state"))
_KINDS_ZH = frozenset(kind for kind, _ in _ASKING) | {"state"}
_PAST = re.compile(r"\b(?:was|were|did|had|used to|wasn't|weren't|didn't)\b", re.IGNORECASE)
_FUTURE = re.compile(r"\b(?:will|won't|shall|going to|gonna)\b|'ll\b", re.IGNORECASE)
_PERFECT = re.compile(
    r"\b(?:has|have|haven't|hasn't)\b(?: \w+)? (?:been|\w+ed|gone|done|got|won|become|made|seen)\b", re.IGNORECASE
)
_PASSIVE = re.compile(
    r"\b(?:is|are|was|were|be|been|being|get|gets|got)\b(?:\W+\w+){0,4}?\W+\w+(?:ed|en|ne|wn|ught|lt|ost|old|ood"
    r"|ept|id|ut|und|urt|ade|eld|ead|ung|uck|ot|ent|et)\b(?:\W+\w+){0,2}?\W+by\b",
    re.IGNORECASE,
)
_FORM = re.compile(
    r"\bin (?:one|two|three|four|five|six|seven|eight|nine|ten|a|\d+|a few) (?:\w+ )?(?:words?|sentences?"
    r"|paragraphs?|lines?|bullets?|points?)\b|\bone[- ](?:sentence|word|line|paragraph)\b|\b(?:briefly|concisely"
    r"|succinctly|in detail|in depth|in brief|in short"
    r"|in simple (?:words|terms)|in plain english|in layman'?s terms|for (?:kids|children|beginners|dummies"
    r"|a child)|like i'?m (?:five|5)|eli5|bullet ?points?|numbered list|as a (?:table|list|poem|joke|json)"
    r"|step[- ]by[- ]step guide|with examples?|with code"
    r"|in (?:json|xml|yaml|csv|markdown|html)|tl;?dr|no more than|at most \d+ words|under \d+ words|(?:short|long"
    r"|detailed|brief) (?:answer|summary|explanation)|only answer|answer only|yes or no)\b"
    r"|用?(?:一|两|三|四|五|几|\d+)(?:句话|个字|段话|个词)|简短|简要|简单(?:说|讲|介绍|解释)|详细|通俗|列表形式"
    r"|表格形式|举例|以?json格式|小学生能",
    re.IGNORECASE,
)
_VOICE = re.compile(r"\b(?:i|me|my|mine|i'm|i've|i'd|you|your|yours|you're)\b", re.IGNORECASE)
_REQUEST = re.compile(
    r"(?:^|[.?!,;]\s*)(?:please )?(?:can|could|would|will|do) you\b"
    r"|\b(?:tell|show|give|help|let|get|provide|inform|remind|explain to) me\b|\bthank you\b",
    re.IGNORECASE,
)
_HOW = re.compile(r"\bhow\b", re.IGNORECASE)


def asked_for(plain: str) -> frozenset[str]:
    """The kinds of answer that an English text wants: "how", "why", "how much" ..."""
    found = {kind for kind, pattern in _ASKING if pattern.search(plain)}
    if "how" in found and len(_HOW.findall(plain)) < 2 and any(kind.startswith("how ") for kind in found):
        found.discard("how")
    if "why" in found and "how come" in plain.lower():
        found.discard("how")
    return frozenset(found - _WEAK or found)


def asked_for_zh(concepts: set[str]) -> frozenset[str]:
    """The same for a Chinese text, whose question words have been recognised already."""
    found = concepts & _KINDS_ZH
    return frozenset(found - _WEAK or found)


def form(plain: str) -> frozenset[str]:
    """Wishes for the shape of the answer: "in one sentence", "as a table", 用一句话."""
    return frozenset(match.group().lower() for match in _FORM.finditer(plain))


def tense(plain: str) -> str:
    """The time of an English text: "past", "future", "perfect" or "present"."""
    if _PAST.search(plain):
        return "past"
    if _FUTURE.search(plain):
        return "future"
    return "perfect" if _PERFECT.search(plain) else "present"


def is_passive(plain: str) -> bool:
    """Whether an English text says by whom something is done."""
    return _PASSIVE.search(plain) is not None


def voices(plain: str) -> tuple[str, ...]:
    """Who speaks of whom: "i" and "you" in order, each run once, without the "can you" of a request."""
    out: list[str] = []
    for word in _VOICE.findall(_REQUEST.sub(" ", plain)):
        voice = "you" if word.lower().startswith("you") else "i"
        if not out or out[-1] != voice:
            out.append(voice)
    return tuple(out)


@lru_cache(maxsize=4096)
def addressed(plain: str) -> str:
    """The text without the "can you" and the "tell me" of a request, which name nobody who acts in it."""
    return _REQUEST.sub(" ", plain)
