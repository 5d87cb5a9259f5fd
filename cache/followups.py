"""What a short follow-up asks when it names nothing of its own: "how long does that take?" is "and the duration?".
Pure.

After the same turns two such questions are one question, and are served from one another like equal words. So a sense
is told only where the whole text is known; one word more and there is none. Two texts have the same sense only where
one answer fits both to the letter, a bare "yes" included: "is it free?" and "does it cost anything?" differ.
"""

import re
from collections.abc import Sequence

from cache.subjects import subjects
from cache.wording import folded

_IT = r"(?:it|that|this|these|those|they|all that|all this)"
_LEAD = r"(?:(?:and|so|ok|okay|but|then|well|also|please|thanks|thank you|hm+|great|fine|sorry)\W+)*"
_EN = {
    "duration": rf"(?:how long (?:does|will|would|do|is|might|can|could) {_IT} (?:usually |normally |typically "
    rf"|all )?(?:take|be)"
    rf"|how long {_IT} takes?|how (?:much time|long) (?:(?:does|will|would) {_IT} )?(?:take|need|require)"
    rf"|how much time (?:does|will|would) {_IT} (?:take|need|require)|how much time (?:is|will be) needed"
    r"|(?:what(?:'s| is) |what about |how about )?the (?:duration|time needed|time it takes)|how long"
    rf"|when (?:is|will|are) {_IT} (?:be )?(?:finished|done|ready|completed?|over)(?: then)?)",
    "fee": rf"(?:(?:does|will|would|do) {_IT} cost (?:anything|something|money|me anything)|is there an? (?:fee"
    rf"|charge|cost)"
    rf"(?: for {_IT})?|(?:do|will|must) i (?:have to |need to )?pay(?: anything)?(?: for {_IT})?"
    rf"|(?:are there )?any (?:fees"
    rf"|costs|charges)(?: for {_IT})?)",
    "free": rf"is {_IT} (?:for )?free(?: of charge)?",
    "price": rf"(?:how much (?:does|will|would) {_IT} cost(?: me)?|how much (?:is|are) {_IT}|what (?:does|will"
    rf"|would) {_IT} cost"
    rf"|what(?:'s| is) the (?:price|cost)(?: of {_IT})?|how much)",
    "phone": rf"(?:(?:can|could|may) i (?:also )?(?:do|use|manage) {_IT} (?:on|from|with|by|via) (?:my "
    rf"|a )?(?:mobile |cell |smart)?phone"
    rf"|can i use (?:my |a )?(?:mobile|phone|smartphone)(?: phone)? for {_IT}|(?:is {_IT} )?possible (?:on|from"
    rf"|with|via|by) (?:my |a )?"
    r"(?:mobile|phone|smartphone|mobile phone)|(?:does|will) " + _IT + r" work on (?:my |a )?(?:mobile|phone"
    r"|smartphone|mobile phone))",
    "app": rf"(?:(?:does|will) {_IT} work in the (?:mobile )?app|(?:can|could) i do {_IT} in the (?:mobile )?app)",
    "failure": rf"(?:what (?:if|when) {_IT} (?:doesn't|does not|won't|will not|didn't) work"
    rf"|(?:what )?if {_IT} (?:fails?|goes wrong"
    rf"|doesn't work)|(?:and )?if {_IT} (?:fails?|goes wrong|doesn't work)(?: what then)?|what (?:should|do"
    rf"|can) i do (?:if|when)"
    rf" {_IT} (?:goes wrong|fails?|doesn't work|does not work|won't work|isn't working)|{_IT} (?:is not"
    rf"|isn't) working,? what"
    rf" (?:then|now)|what if {_IT} (?:is not|isn't) working)",
    "simpler": rf"(?:(?:can|could|would) you (?:please )?(?:explain|say|put) {_IT} (?:again )?(?:more simply"
    rf"|in (?:a )?(?:simpler|easier) (?:words|terms"
    r"|way)|simpler)|(?:in|use) (?:simpler|easier|plainer) (?:words|terms)(?: please)?|i (?:did not|didn't|do not"
    r"|don't) (?:get|understand) "
    + _IT + r"[,.;]? (?:simpler|more simply|simpler please)|(?:explain"
        r"|say) " + _IT + r" (?:again )?(?:more simply|simpler|in (?:simpler|easier) (?:words|terms)))",
    "shorter": rf"(?:(?:explain|say) (?:{_IT} )?again(?:,? but| and)? shorter|(?:can"
    rf"|could) you (?:make {_IT} shorter|shorten {_IT})|shorter please|make {_IT} shorter)",
    "why": r"(?:why|why is that|why's that|how come|but why|and why)",
    "example": r"(?:(?:can|could) you (?:please )?give (?:me )?an example|(?:give me |for |show me )?an example"
    r"|for example|an example please)",
    "more": rf"(?:tell me more(?: about {_IT})?|(?:can|could) you (?:please )?tell me more(?: about {_IT})?"
    rf"|more details?(?: please)?)",
}  # fmt: skip
_LEAD_ZH = r"(?:那么?|然后|所以|请问|那请问|嗯|好的?|谢谢|请|[\s，,。！!])*"
_IT_ZH = r"(?:它|这个?|那个?|这样|那样|这件事)?"
_ZH = {
    "duration": rf"(?:{_IT_ZH}(?:大概|一般|通常|总共)?(?:需要|要|得|会)?(?:花|用)?(?:多久|多长时间"
    rf"|多少时间)(?:时间)?(?:才能好|能好|完成|办好)?"
    rf"|{_IT_ZH}时间要?多[长久]|要?多久(?:才?能好|能完成)?|(?:大概|一般)?什么时候(?:才|就)?能(?:好|完成|办好"
    rf"|弄好))(?:呢|啊|呀)?",
    "fee": rf"{_IT_ZH}(?:需要|要|用|得|会)?(?:收费|付费|花钱|付钱|钱|手续费|付手续费|收手续费|交钱)(?:吗|么|不)",
    "free": rf"{_IT_ZH}(?:是)?(?:不要钱|免费)(?:的)?(?:吗|么)",
    "price": rf"{_IT_ZH}(?:要|需要|得)?(?:多少钱|花多少钱|付多少钱)(?:呢|啊)?",
    "phone": r"(?:用|在|能用|能在|可以用|可以在)?手机(?:端|上|里)?(?:也)?(?:可以|能|支持)?(?:操作|弄|做|办|办理"
    r"|用)?(?:支持)?(?:吗|么)",
    "app": r"(?:能|可以)?在?(?:app|APP|App|应用)(?:里|上)?(?:可以|能)?(?:做|操作|办|弄|办理)?(?:吗|么)",
    "failure": rf"(?:(?:如果|要是|万一|假如)?{_IT_ZH}(?:还是)?(?:不行|不成功|失败|没用|没成功|不管用|没有用"
    rf"|行不通)(?:了)?(?:的话)?(?:该|要|应该)?(?:怎么办|怎么处理|怎么弄|如何处理|呢))",
    "simpler": r"(?:(?:请|能|可以|可不可以|能不能)?(?:再)?(?:说|讲|解释)(?:得|的)?(?:更|再)?(?:简单|容易懂|通俗"
    r"|好懂|易懂)(?:一?[点些])?(?:吗|么)?"
    r"|(?:没|没有)(?:听)?[懂明]白?了?[，,\s]*(?:请|能)?(?:再|更)?(?:说|讲)?(?:得)?(?:简单|通俗)(?:一?[点些])?(?:吗)?"
    r"|(?:请)?用(?:更|再)?(?:通俗|简单|易懂|好懂)(?:一?[点些])?的(?:话|语言|方式)(?:说|讲|解释)(?:一[下遍次])?)",
    "why": r"(?:为什么|为何|为啥|这是为什么)(?:呢|啊|呀)?",
    "example": r"(?:请|能)?(?:给我)?(?:举|给)(?:一?个)?例子?(?:吗|吧)?",
}  # fmt: skip
_SENSES = [(name, re.compile(_LEAD + pattern + r"\W*")) for name, pattern in _EN.items()]
_SENSES_ZH = [(name, re.compile(_LEAD_ZH + pattern + r"\W*")) for name, pattern in _ZH.items()]
_LONGEST = 60  # characters
# What these ask, they ask of the matter that is talked of; "why?" and "simpler, please" are about the last answer.
_OF_THE_MATTER = frozenset(("duration", "fee", "free", "price", "phone", "app", "failure"))
# These bring nothing new into the talk, unless their answer does.
_IN_PASSING = frozenset(("duration", "fee", "free", "price", "simpler", "shorter"))


def of_the_matter(text: str) -> bool:
    """Whether it is a short follow-up that asks something of the matter itself, not of what was said last."""
    return (sense(text) or "").removesuffix("-zh") in _OF_THE_MATTER


def in_passing(text: str, answer: str, before: Sequence[str]) -> bool:
    """Whether a turn was a short follow-up after which the talk is of the same matter as before: its answer names
    nothing that was not named before it. "The express way costs 5 euros" brings up another way; "no, it is free" and a
    mere number do not. before: everything said before it, by both."""
    if (sense(text) or "").removesuffix("-zh") not in _IN_PASSING:
        return False
    named = frozenset[str]().union(*map(subjects, before))
    return all(word[0].isdigit() for word in subjects(answer) - named)


def sense(text: str) -> str | None:
    """A name for what a follow-up asks, where it names nothing of its own and the whole of it is known; else None."""
    if len(text) > _LONGEST:
        return None
    plain = folded(text).strip().lower()
    for name, pattern in _SENSES if plain.isascii() else _SENSES_ZH:
        if pattern.fullmatch(plain):
            return name if plain.isascii() else f"{name}-zh"
    return None


def other_sense(asked: str, stored: str) -> str | None:
    """Why these are not one question, where one of them is a follow-up whose sense is known; None = nothing says so."""
    mine, theirs = sense(asked), sense(stored)
    if mine == theirs:
        return None
    return f"the one asks {mine or 'something else'}, the other {theirs or 'something else'}, of what went before"
