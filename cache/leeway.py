"""What a question's key may leave out of account: values in the system prompt, and the order of marked documents. Pure.

A date in the system prompt makes every day's questions other questions, and a time those of every minute. What the
operator's patterns (`Rules.ignore`) take out is left out of the key only; the worker reads what the caller wrote.
Where the value may matter it counts after all: for the question (`counts`), and for the answer that came (`shows_in`).
Unsure means that it counts, and that is a miss.

Documents that the caller marked (`question` and `sources`) may come in any order: which of them were found decides the
answer, and not which was found first. Somebody who asks for "the first document", or an answer that cites one by its
place, knows them in one order only.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cache import fingerprint
from cache.moment import is_of_the_moment
from cache.policy import Controls, Rules
from cache.question import Leeway, Question, Trait
from cache.templates import MOMENTS, Taken, take_out

_INSTRUCTIONS = ("system", "developer")
_UNREAD = frozenset((Trait.NOT_TEXT, Trait.TOOLS, Trait.TOOL_RESULTS, Trait.NO_TEXT, Trait.LONG_TEXT, Trait.LOGPROBS))
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")

_WORDS = re.compile(r"[a-z][a-z'’]+|[\u4e00-\u9fff]+")
_SAYS_NOTHING = frozenset(_WORDS.findall(
    "the an and are for you your with this that is it of to in on at by be as or from now current currently today"
    " please here am was has have will user's who what talking talk speaking answer chat their his her its"
    " 当前 现在 今天 今日 你在 正在 一个 的是"
))  # fmt: skip
# A question for which the date or the hour may matter though it is not about this moment.
_DATED = re.compile(
    r"\b(?:dates?|today|tonight|tomorrow|yesterday|now|current(?:ly)?|this (?:week|month|year|morning|evening|quarter"
    r"|season|semester)|next|last|latest|ago|since|until|till|left|remain\w*|old(?:er|est)?|age[ds]?|born|birthdays?"
    r"|leap|week ?days?|week ?ends?|holidays?|seasons?|semester|quarter|calendar|o'clock|(?:what|which) (?:time|day"
    r"|month|year|hour)|deadlines?|due|expire[sd]?|expiry|anniversary|countdown|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|january|february|march|april|june|july|august|september|october|november|december|christmas|easter|new year)\b"
    r"|\b(?:19|20)\d\d\b|今|明[天早晚年]|昨|前天|后天|现在|目前|当前|日期|时间|几[点号月]|星期|周[一二三四五六日末]|本[周月年]"
    r"|下[周个]|上[周个]|月份|年[龄纪]|多大|岁|生日|节|季|截止|到期|过期|还有几|还剩|之前|以前|以后|(?:19|20)\d\d年",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\b(?:who am i|my (?:\w+ )?name|names?|called|greet\w*|address me|sign(?:ed|ature)?|introduce|dear|me|myself|i am"
    r"|i'm)\b|我是谁|我叫|名字|姓名|称呼|署名|问候|介绍",
    re.IGNORECASE,
)
# An answer that speaks of a day, or of the hour.
_SPEAKS_OF_A_DAY = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|now|current(?:ly)?|this (?:week|month|year|morning|evening|quarter|season)"
    r"|(?:next|last) (?:week|month|year|mon|tues|wednes|thurs|fri|satur|sun)\w*|ago|(?:mon|tues|wednes|thurs|fri|satur"
    r"|sun)days?|(?:january|february|march|april|june|july|august|september|october|november|december)\b|may \d"
    r"|\d{1,2}(?:st|nd|rd|th)? of may|\d+ (?:days?|weeks?|months?|years?) (?:left|remain\w*|from now|old|until|to go)"
    r")\b"
    r"|\b(?:19|20)\d\d\b|\b\d{1,2}:\d{2}\b|\b\d{1,2}\s?[ap]\.?m\b|今|明天|明年|昨|现在|目前|当前|本[周月年]|下周|上周|星期"
    r"|周[一二三四五六日末]|\d+月|\d+号|\d+点|还有\d+|还剩|岁",
    re.IGNORECASE,
)
_NUMBER = r"(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|[a-h]|i{1,3}|iv|vi{0,3})"
_THING = (
    r"(?:documents?|docs?|sources?|passages?|articles?|contexts?|texts?|excerpts?|sections?|paragraphs?|snippets?|chunks?"
    r"|results?|references?|files?|pages?|entry|entries|items?|ones?)"
)
_ORDER = re.compile(
    rf"\b(?:first|second|third|fourth|fifth|sixth|last|latter|former|previous|next|above|below|following|preceding"
    rf"|final|top(?:most)?|bottom|\d+(?:st|nd|rd|th))\b|\b{_THING}\W{{0,2}}(?:no\.? ?|number |#)?{_NUMBER}\b"
    rf"|[\[(【（]\s?\^?\d{{1,3}}\s?[\])】）]|\border\b|\bbegin\w*\b|\bstart\w*\b|\bend\b|第\s?[一二三四五六七八九十\d]+|最后|上[面述文一]"
    r"|下[面述文一]|前[者面一]|后[者面一]|开头|结尾|(?:文档|资料|来源|文件|片段)\s?[一二三四五六七八九十\d]|顺序",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Loosened:
    """A body without what its key may leave out. taken: from its instructions.  reordered: its documents stand in an
    order of ours."""

    body: Mapping[str, Any]
    taken: tuple[Taken, ...]
    reordered: bool


def loosened(body: Mapping[str, Any], controls: Controls, rules: Rules) -> Loosened | None:
    """None where everything counts. The body given is not changed."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(turn, dict) for turn in messages):
        return None
    taken: list[Taken] = []
    told = [_emptied(turn, rules, taken) for turn in messages] if rules.ignore else messages
    documents = body.get("documents")
    reordered = False
    if controls.question is not None and len(controls.sources) > 1:
        last, ordered = _in_order(told[-1], controls.question)
        told = [*told[:-1], last] if ordered else told
        if isinstance(documents, list) and len(documents) > 1:
            documents, ordered = sorted(documents, key=fingerprint.canonical), True
        reordered = ordered
    if not taken and not reordered:
        return None
    loose = {**body, "messages": told}
    if reordered and documents is not None:
        loose["documents"] = documents
    return Loosened(loose, tuple(taken), reordered)


def instructions(body: Mapping[str, Any], rules: Rules) -> str:
    """The text of a chat's system and developer turns, as its key sees it; empty where there is none."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return ""
    told = [
        _emptied(turn, rules, []) for turn in messages if isinstance(turn, dict) and turn.get("role") in _INSTRUCTIONS
    ]
    texts = [turn.get("content") for turn in told]
    return "\n".join(
        text for each in texts for text in (each if isinstance(each, list) else [each])
        for text in [text.get("text") if isinstance(text, dict) else text] if isinstance(text, str)
    )  # fmt: skip


def marked(body: Mapping[str, Any], controls: Controls, rules: Rules, tenant: str) -> Controls:
    """The controls with the question that the tenant's pattern finds, where the caller marked none."""
    splits = dict(rules.splits)
    split = splits.get(tenant, splits.get("*"))
    messages = body.get("messages")
    if split is None or controls.question is not None or not isinstance(messages, list) or not messages:
        return controls
    last = messages[-1]
    content = last.get("content") if isinstance(last, dict) and last.get("role") == "user" else None
    if isinstance(content, list) and content and isinstance(content[-1], dict):
        content = content[-1].get("text")
    question = split.question_in(content) if isinstance(content, str) else None
    return controls if question is None else replace(controls, question=question)


def counts(question: Question, loose: Loosened, said: Sequence[str]) -> str | None:
    """Why what was left out matters to this question, for a person; None where it does not.

    said: the asker's words that belong to it, its own last."""
    if (unread := question.traits & _UNREAD) and (loose.taken or Trait.NO_TEXT in unread):
        return f"the request is not only text that can be read ({min(unread)})"
    text = said[-1] if said else ""
    if loose.reordered and any(_ORDER.search(each) for each in said):
        return "the question may speak of the order of its documents"
    if not loose.taken:
        return None
    if question.traits & {Trait.PERSONAL, Trait.ACCOUNT}:
        return "the question is one person's own affair"
    if Trait.TIME_BOUND in question.traits or any(_of_the_moment(each) for each in said[:-1]):
        return "the question, or a turn that it may lean on, is bound to the moment"
    kinds = {each.kind for each in loose.taken}
    if kinds & MOMENTS and any(map(_DATED.search, said)):
        return "the date or the time may matter to the question"
    if "name" in kinds and any(map(_NAMED.search, said)):
        return "a name may matter to the question"
    for pattern in {each.pattern for each in loose.taken}:
        shared = _content(pattern.words) & _content(text)
        if shared:
            return f"the question speaks of {min(shared)!r}, as the pattern {pattern.source!r} does"
    return None


def shows_in(leeway: Leeway, text: str) -> bool:
    """Whether an answer shows, or may show, what its question's key left out."""
    if leeway.reordered and _ORDER.search(text):
        return True
    if not leeway.taken:
        return False
    if any(kind in MOMENTS for kind, _ in leeway.taken) and _SPEAKS_OF_A_DAY.search(text):
        return True
    lower = text.lower()
    words = set(re.findall(r"\w+", lower))
    return any(_stands_in(value.lower(), lower, words) for _, value in leeway.taken)


def _stands_in(value: str, text: str, words: set[str]) -> bool:
    if value in text:
        return True
    parts = [part for part in re.findall(r"\w+", value) if part not in _SAYS_NOTHING]
    if any(part in words for part in parts if len(part) > 1 or part.isdigit()):
        return True
    return any(part[1:] in text for part in parts if len(part) > 2 and "\u4e00" <= part[0] <= "\u9fff")


def _emptied(turn: Mapping[str, Any], rules: Rules, taken: list[Taken]) -> Mapping[str, Any]:
    if turn.get("role") not in _INSTRUCTIONS:
        return turn
    content = turn.get("content")
    if isinstance(content, str):
        text, found = take_out(content, rules.ignore)
        taken += found
        return {**turn, "content": text} if found else turn
    if not isinstance(content, list):
        return turn
    parts = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            text, found = take_out(part["text"], rules.ignore)
            taken += found
            parts.append({**part, "text": text} if found else part)
        else:
            parts.append(part)
    return {**turn, "content": parts}


def _in_order(turn: Mapping[str, Any], marked: str) -> tuple[Mapping[str, Any], bool]:
    """The turn with the blocks around its question sorted, those before it and those after it; whether there was
    anything to sort. A block is what stands between blank lines, or in a text part of its own."""
    content = turn.get("content")
    if isinstance(content, str):
        text, ordered = _sorted(content, marked)
        return ({**turn, "content": text}, True) if ordered else (turn, False)
    if not isinstance(content, list) or not all(
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str) for part in content
    ):
        return turn, False
    texts = [part for part in content[:-1] if part.keys() == {"type", "text"}]
    if len(texts) != len(content) - 1 or not content:
        return turn, False
    last, ordered = _sorted(content[-1]["text"], marked)
    others = sorted(texts, key=lambda part: str(part["text"]))
    if not ordered and len(others) < 2:
        return turn, False
    return {**turn, "content": [*others, {**content[-1], "text": last}]}, True


def _sorted(text: str, marked: str) -> tuple[str, bool]:
    if text.count(marked) != 1:
        return text, False
    before, _, after = text.partition(marked)
    *blocks, lead = _BLANK_LINES.split(before)
    tail, *others = _BLANK_LINES.split(after)
    if len(blocks) < 2 and len(others) < 2:
        return text, False
    told = [*sorted(each.strip() for each in blocks), f"{lead}{marked}{tail}", *sorted(each.strip() for each in others)]
    return "\n\n".join(told), True


def _of_the_moment(text: str) -> bool:
    return is_of_the_moment(text[:2000], frozenset(_WORDS.findall(text[:2000].lower())))


def _content(text: str) -> set[str]:
    """Words that say something; of Chinese, every two signs in a row."""
    found: set[str] = set()
    for run in _WORDS.findall(text.lower()):
        if run[0] <= "z":
            found.add(run.removesuffix("'s").removesuffix("s"))
        else:
            found |= {run[at : at + 2] for at in range(len(run) - 1)}
    return {word for word in found if len(word) > 1} - _SAYS_NOTHING
