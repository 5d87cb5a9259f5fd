"""Does a turn of a chat surely stand alone, or may it lean on what was said before? English and Chinese. Pure.

`leans` names why a turn is not surely alone; None says that it is. Unsure counts as leaning: that costs a hit, the
opposite a wrong answer. A turn is alone when it points at nothing ("it", "the fee", 那…呢), does not begin as the rest
of another sentence ("and …", "ok …", 如果不行…), and has a subject of its own: words that are no mere frame ("how much
time will it need"). Three more things are looked for in what was said before: a manner of answering that was asked
for ("in French from now on"), circumstances that were told ("I'm with Flixora"), and the same question.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TypeVar

from cache.language import language
from cache.subjects import THIN, own_han, subjects

R = TypeVar("R")

_END = 300  # characters of an answer in which a question back is looked for
_LONGEST = 600  # characters; a longer turn is a story, and nobody here tells what of it is meant
_LONGEST_KEPT = 2000  # characters of a turn whose reading is remembered
_HAN = re.compile(r"[\u3400-\u9fff]")

# ---- English -------------------------------------------------------------------------------------------------------
_NEW_SUBJECT = re.compile(
    r"^\W*(?:(?:by the way|btw|(?:an?|one) (?:other|different|new|unrelated|separate) (?:question|topic|thing)"
    r"|another (?:question|topic)|(?:on )?an? (?:unrelated|different|separate) (?:note|matter)|new (?:question|topic)"
    r"|unrelated|changing (?:the )?(?:subject|topic)|hi|hello|hey|please|pls)\b[\s,.:;!-]*)+",
    re.IGNORECASE,
)
_OPENS = re.compile(
    r"^\W*(?:and|so|but|or|nor|ok|okay|okey|k|yes|yep|yeah|yup|no|nope|nah|then|also|plus|great|thanks|thank|thx|sure"
    r"|right|fine|well|hm+|cool|nice|perfect|good|wow|oh|ah|aha|uh|because|cause|since|although|though|unless"
    r"|until when"
    r"|what about|how about|what if|how come|why not|what else|who else|if|in (?:that|this|which|the) case|instead"
    r"|alright|got it|i see|i did(?: not|n't)|actually|anyway|still|even|too|only|just|not|never ?mind|sorry|wait"
    r"|in (?:easier|simpler|other|plain|short)\b|(?:for|with|without|to|of|about|from|on|at|in|by|during|after|before"
    r"|under|over|via|per|as) )\b",
    re.IGNORECASE,
)
_EXPLETIVE = re.compile(
    r"\bis it (?:possible|ok|okay|safe|allowed|legal|necessary|better|worth|easy|hard|true) (?:to|that|for)\b"
    r"|\b(?:does|did|will|would) it (?:take|cost|need|mean) (?:long |much |anything |something |extra "
    r"|a lot )?(?:to|for)\b"
    r"|\bit takes? to\b|\bit costs? to\b|\bis there (?:a|an|any) way to\b|\b(?:are|is) there\b|\bthere (?:is|are)\b"
    r"|\bone \w+ (?:for|to|into) another\b|\binstead of\b|\bother than\b|\bbetter at\b|\bmore (?=[a-z]+ (?:in|on"
    r"|at|for|to|with)\b)|\bafter all\b",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"\b(?:it|it's|its|itself|this(?! (?:year|month|week)\b)|that|that's|thats|these|those|they|they're|them"
    r"|themselves|their|theirs|he|she|him"
    r"|her|hers|his|one|ones|same|such|here|there|then|else|another|other|others|both|either|neither|former|latter"
    r"|above|below|previous|previously|earlier|again|instead|difference|rest|next|second|third|fourth|mentioned"
    r"|said|alternatives?|examples?|details?|everything|anymore|besides|otherwise|similar"
    r"|further|longer|shorter|simpler|easier|cheaper|faster|slower|bigger|smaller|cheapest|fastest|best|worse"
    r"|worst|latter|respectively|each|all of|some of|none of|any of|too|as well|so far|yet|already)\b"
    r"|\bfirst (?!name|aid|class|time)|\b(?:any|no|once|some|one|tell me|say|much) more\b|\bmore\W*$"
    r"|\bmore (?:details?|info\w*|examples?|simply|about|of)\b|\blast (?!night|week|month|year)"
    r"|\bbetter(?: (?:option|choice|one|than|or)|\W*$)"
    r"|\bwhich (?:one|of|option|is|are|would|should|do|does)\b",
    re.IGNORECASE,
)
_KNOWN = (  # "the" before these points at nothing that was said
    r"(?:app|website|internet|sun|moon|earth|world|universe|solar|web|us|uk|eu|usa|un|sea|ocean|sky|weather|flu"
    r"|bible|government"
    r"|president|difference between|capital|way to|best way to|name of|list of|meaning of|process of|symptoms of)"
)
# "the deadline" was spoken of before; "the capital of Australia" and "the Pythagorean theorem" say themselves which.
_DEFINITE = re.compile(
    rf"\bthe (?!{_KNOWN}\b)(?!(?-i:[A-Z]))(?!(?:[\w'-]+ ){{1,5}}?(?:of|for|to|about|between|that|which|who|when"
    rf"|where)\b)"
    r"(?!\w+ (?-i:[A-Z]))",
    re.IGNORECASE,
)
# What the asker may or will do depends on what he told of himself.
_MY_CASE = re.compile(
    r"^\W*(?:(?:can|could|may|might|do|does|did|will|would|should|shall|must|am|are|have|has|had|was|were) (?:i|we|my"
    r"|our)\b|(?:when|where|what|how(?: much| many| long| soon)?|why|which)(?: \w+){0,2}? (?:will|would|'ll|am|are|was"
    r"|were|should|did|have|had|could|might) (?:i|we)\b)",
    re.IGNORECASE,
)
_OWN_STUFF = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|we|we're|us|our|ours)\b", re.IGNORECASE)
_ASKS = re.compile(
    r"^\W*(?:who|whom|whose|what|what's|whats|when|when's|where|where's|which|why|how|how's|is|are|was|were|do|does"
    r"|did|can|could|will|would|should|shall|has|have|may|must|tell|explain|describe|name|list|show|give|state|define"
    r"|translate|summari[sz]e|compare|calculate|recommend|suggest|write|i (?:want|need|would like)|i'd like|help"
    r"|(?:ways?|tips|rules|steps|reasons?|fees?|signs|symptoms|list|count|number|guide|instructions|requirements)"
    r" (?:to|for|of))\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,.;:?!–—]+\s+|\s+-+\s+")
# "I have a voucher, how do I redeem it": what the second part points at stands in the first.
_AFTER_ALL_WAS_SAID = re.compile(
    r"^\W*(?:how (?:do|can|to|should|could) |what (?:should|do|can) i do|what now|what are the next steps|why\b"
    r"|what's the reason|help\b|advice\b|how\b\W*$)",
    re.IGNORECASE,
)
_BRINGS_UP = re.compile(r"\b(?:my|an?) [a-z]", re.IGNORECASE)
# Requests that one who cannot act reads as "how do I"; to book, order, add or send takes an assistant that can.
_DO = re.compile(
    r"^\W*(?:change|close|update|start|create|make|making|set up|get|take|use|edit|delete|remove|download|export|import"
    r"|reset|modify|raise|print|save|capture|enter|entering|exporting|report|connect|connecting|discontinue|open"
    r"|install"
    r"|switch|find|turn|enable|disable|activate|convert|apply|redeem)\b",
    re.IGNORECASE,
)
_HOW = re.compile(
    r"\bhow (?:do|can|to|should|could|would|does|is|are)\b|,\W*how\W*$|\b(?:ways?|steps?) (?:to|of|for)\b"
    r"|\bwhere (?:is|are) the\b|\bwhat (?:should|do|can|must|could) i do\b|\bwhat(?:'s| is| are) the\b"
    r"|怎么(?!还|没|不|会)|怎样|如何|方法|步骤|办法|流程",
    re.IGNORECASE,
)
_ACTS = re.compile(
    r"^\W*(?:book|order|add|send|resend|renew|move|reschedule|schedule|reserve|confirm|transfer|buy|cancel|log|upgrade"
    r"|downgrade|do (?:it|that|this|so)|choose|pick|go|forward|chase|put|submit|swap)\b",
    re.IGNORECASE,
)
# "What is the exchange rate fee?" names what it asks for, "What is the fee?" does not.
_WHAT_IS_THE = re.compile(r"^\W*what(?:'s| is| are) the ((?:[\w'-]+ )+[\w'-]+)\W*$", re.IGNORECASE)
_YES_NO = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|may|must)\b", re.IGNORECASE
)
_TO_YOU = re.compile(r"^\W*(?:do|does|can|could|will|would|are|is) (?:you|your)\b", re.IGNORECASE)
_OF_YOURS = re.compile(r"^\W*(?:what|where|when|how|which)\b.*\byour (?!own\b)", re.IGNORECASE)
_WHAT_IS = re.compile(
    r"^\W*(?:what(?:'s| is| are| does)|who (?:is|was|wrote|invented|painted|discovered)|define|explain) "
    r"(?!the\b|my\b|your\b|our\b)[\w' -]+\W*$",
    re.IGNORECASE,
)
# ---- Chinese -------------------------------------------------------------------------------------------------------
_NEW_SUBJECT_ZH = re.compile(
    r"^\W*(?:(?:顺便(?:问一?下|问问)?|换个(?:话题|问题)|另外问(?:一?下|个问题)|再问(?:一?个|您?一?下)(?:别的|其他"
    r"|另外)?(?:问题)?|新问题"
    r"|问个别的|你好|您好|请问|想问一?下|我想问一?下|麻烦问一?下)[\s，,。：:！!、]*)+"
)
_OPENS_ZH = re.compile(
    r"^\W*(?:那|然后|还有|所以|但是?|可是|不过|而且|并且|如果(?!说)|要是|万一|假如|倘若|或者|因为|另外"
    r"|好的?[，,。！ ]|嗯|对[，,。！的 ]|是的|行[，,。！吧 ]"
    r"|可以[，,。！ ]|谢谢|不[^同锈想]|没[^收有]|没有[，,。！用]|再|继续|换成|除了|以及|至于|关于|对于|用更|更"
    r"|能不能再|可以再|能再|在(?!校|线|职|编))"
)
_POINTS_ZH = re.compile(
    r"[它他她]|这(?!个?(?:月|周|星期|年|学期|季度)|辈子)|那(?:么|个|些|样|里|边|儿|种|要|得|会|能|是)"
    r"|其[他它余中实]|另一|另外一|别的|同样|一样"
    r"|上面|前面|前者|后者|上述|刚才|刚刚说|之前(?:说|提)|以上|第[一二三四五几][个种条步点项]|哪(?:个|种|一)(?!国"
    r"|城|省)|最(?:好|便宜|快)的?(?:是|呢|吗)"
    r"|例子|举例|详细|具体|区别(?:是|在)|(?:再|更)\w{0,3}(?:说|讲|简单|详细|短|通俗|容易|具体)|听懂|没懂|不明白"
    r"|看不懂|还(?:是)?(?:不行|没)"
)
# "X 可以吗" asks of X what was asked of something else before.
_ELLIPSIS_ZH = re.compile(
    r"^[^，。？！,?!]{1,10}(?:也?可以|也?行|支持|能行|能用|能办|能弄|能操作|适用|一样|要钱|收费|免费|包括|包含"
    r"|有效|算)[的了]?(?:吗|么|嘛|不)\W*$"
)
_LEFT_OUT_ZH = re.compile(r"(?:呢|咧)\W*$")  # "X 呢?"
_ASKS_ZH = re.compile(
    r"怎|如何|什么|[吗么呢]|多少|哪|谁|为何|能不能|可不可以|有没有|是不是|想|我要|帮|请|解释|告诉|介绍|推荐|写法"
    r"|方法|步骤|技巧"
    r"|公式|定义|意思|区别|原因|作者|办法|教我|讲讲|求"
)
_WHOLE_ZH = re.compile(r"怎|如何|什么|多少|谁|为何")
# ---- what was said before ------------------------------------------------------------------------------------------
_MANNER = re.compile(
    r"\b(?:from now on|for the rest of|always|never|every time|in (?:all )?(?:your|future) (?:answers?|repl\w+)|answer"
    r" (?:in|as|like|with|only|me)\b|(?:reply|respond|speak|talk|write) (?:in|as|like|only|with|to me)\b|call me"
    r"|you are"
    r" (?:a|an|my|now)\b|you're (?:a|an|my|now)\b|act (?:as|like)|pretend|imagine|role-?play|suppose|assume"
    r"|let's (?:say"
    r"|play|assume|pretend)|keep (?:it|your|them)|be (?:brief|concise|short|formal|polite|detailed)|no more than"
    r"|(?:use|using) (?:only|simple|short|bullet|metric|imperial|formal|plain)|remember|forget (?:that|what|everything)"
    r"|ignore|like i'?m (?:five|5)|step by step)\b|^\W*in \w+,? please\b|\bin (?:english|french|german|spanish|italian"
    r"|chinese|japanese|korean|russian|arabic|portuguese|dutch|hindi)(?: please|,? from)\b",
    re.IGNORECASE,
)
_MANNER_ZH = re.compile(
    r"从现在(?:开始|起)|以后(?:都|请|的回答)|接下来(?:都|请)|每次|一直用|总是|请?用(?:英文|英语|中文|法语|日语"
    r"|德语|粤语|文言文?|表格|列表|一句话)|扮演|假[设装如]你|你(?:现在)?是一|叫我"
    r"|称呼我|记住|忘掉|忽略|不要超过|字以内|简短(?:地)?回答|只(?:回答|用|说)|当作|设想|想象"
)
_TELLS = re.compile(
    r"(?:^|[.,;!:\n]|\b(?:and|but|because|since|so|as)\b)\W*(?:(?:well|hi|hello|ok|yes|no)\W+)?(?:(?:i|we)(?:'m"
    r"|'ve|'d| am"
    r"| are| have| had| was| were| live| work| use| own| bought| ordered| got| booked| paid| moved| lost| forgot"
    r"| signed"
    r"| joined| switched| just| currently| recently| already| went| run| study| prefer)\b"
    r"|(?:my|our) [\w' -]{1,40}? (?:is|are|was|were|has|have|renews?|expires?|ends?|starts?|says?|got|broke|does"
    r"|did|can't"
    r"|won't)\b)",
    re.IGNORECASE,
)
_TELLS_ZH = re.compile(
    r"(?:我|我们|我家|我的[^，。]{1,8})(?:是|有|在|住|刚|已经|现在|目前|用的|买了|订了|办了"
    r"|付了|的是|今年)"
)
_WISHES = re.compile(
    r"\?|？|\b(?:how|what|when|where|which|who|why|want|need|help|please|like to|looking|wish|can you|could you|tell me"
    r"|explain|request|can't|cannot|won't|doesn't|isn't|is not|not|unable|lost|forgot|stolen|gone|nicked|took|refused"
    r"|rejected|declined|wrong)\b|怎|如何|什么|吗|呢|想|要|请|帮|多少|哪|谁|为何|能不能|可不可以|办法|没|不|丢|忘"
    r"|坏|破",
    re.IGNORECASE,
)
_ASKED_BACK = re.compile(
    r"\byou\b[^.?!。\n]*\?\W*$|(?:^|[.!。！\n\]])\s*(?:which|who|when|where|how many|shall|should)\b[^.?!\n]*\?\W*$"
    r"|(?:您|你(?!们))[^。？?！\n]*[?？]\W*$|(?:^|[。！\n\]，,])\s*(?:哪|什么|几|谁|要不要|是否"
    r"|需要)[^。？?！\n]*[?？]\W*$"
    r"|(?:^|[。！\n\]])[^。？?！\n\]]{1,6}[?？]\W*$",
    re.IGNORECASE,
)
_AS_SAID = re.compile(
    r"\b(?:as|like) (?:(?:i|we|you)(?:'ve| have)? )?(?:just |already |previously )?(?:said|mentioned|explained|noted"
    r"|discussed|described|told|asked)\b"
    r"|\b(?:mentioned|discussed|described|said|asked|explained) (?:above|earlier|before|previously)\b"
    r"|\b(?:your|my|the|our) (?:previous|earlier|last|first|other) (?:question|answer|message|topic|request)\b"
    r"|如前所述|(?:前面|刚刚|上面|之前)(?:提到|说|讲|问)|刚才|上一?个问题|正如我",
    re.IGNORECASE,
)
_FARTHER = re.compile(
    r"\b(?:earlier|before that|back to|going back|return(?:ing)? to (?:what|the|my)|(?:the|my|your) (?:first"
    r"|previous|original|initial|last"
    r"|other|second|third|former) (?:question|topic|thing|one|point|problem|issue|answer|part|subject)?"
    r"|previously|as for"
    r"|you (?:said|mentioned|told|wrote|explained|listed|recommended|suggested)|i (?:asked|said|mentioned|told)"
    r"|at the (?:start|beginning)|initially|in the beginning|we (?:talked|spoke|discussed)|those two|both of"
    r"|all of (?:th|it)"
    r"|so far|everything|summari[sz]e|sum (?:it )?up|recap|conversation|chat|overall|in total|altogether|compare)\b"
    r"|最(?:开始|初|早)|一开始|之前|前面|刚才|刚刚|回到|上一?个|上次|第[一二三四五][个种条步点项]|你说|您说|你提"
    r"|我问|我说|以上|总结|概括|刚说|先前|所有|全部|一共|总共|对比|比较",
    re.IGNORECASE,
)


def _remembering(read: Callable[[str], R]) -> Callable[[str], R]:
    """A chat sends its earlier turns again with every new one, and each is weighed against all that came before it."""
    remembered = lru_cache(maxsize=4096)(read)

    @wraps(read)
    def of(turn: str) -> R:
        return remembered(turn) if len(turn) <= _LONGEST_KEPT else read(turn)

    return of


@dataclass(frozen=True, slots=True)
class Turn:
    """What a person said, and what the assistant answered; the answer of the newest turn is not there yet."""

    said: str
    answer: str = ""


def leans(turn: str, before: Sequence[Turn]) -> str | None:
    """Why this turn may lean on those before it, for a person; None = it surely stands alone. before: oldest first."""
    if not before:
        return None
    reason = leans_by_itself(turn)
    if reason is not None:
        return reason
    if any(each.said.strip().casefold() == turn.strip().casefold() for each in before):
        return "it was asked before in this chat"
    if any(sets_the_manner(each.said) for each in before):
        return "an earlier turn may say how to answer"
    mine = _OWN_STUFF.search(turn) is not None or "我" in turn
    if mine and any(tells_circumstances(each.said) for each in before):
        return "an earlier turn tells the asker's circumstances"
    end = before[-1].answer[-_END:]
    if ("?" in end or "？" in end) and not _asks(turn) and _ASKED_BACK.search(end):
        return "it may reply to what the assistant asked"
    return None


@_remembering
def leans_by_itself(turn: str) -> str | None:
    """What in the turn's own words may point at something said before; None = nothing does."""
    if len(turn) > _LONGEST:
        return "it is long"
    spoken = language(turn)
    if spoken == "zh":
        return _leans_zh(turn)
    if spoken == "en":
        return _leans_en(turn)
    return f"its language is not read ({spoken})"


def _leans_en(turn: str) -> str | None:
    text = _NEW_SUBJECT.sub("", turn.replace("’", "'")).strip()
    found = _OPENS.match(text)
    if found:
        return f"it begins as the rest of another: {found.group().strip()}"
    clauses = [each for each in _CLAUSE.split(text) if each.strip()]
    told = len(clauses) == 2 and _AFTER_ALL_WAS_SAID.match(clauses[1]) is not None
    if told and (
        _ASKS.match(clauses[0])
        or not (len(subjects(clauses[0])) > 1 or (_BRINGS_UP.search(clauses[0]) and subjects(clauses[0])))
    ):
        told = False
    if _ACTS.match(text):
        return "it asks for something to be done"
    bare = _EXPLETIVE.sub(" ", clauses[0] if told else text)
    named = _WHAT_IS_THE.match(text)
    if named and len(subjects(named[1]) - THIN) > 1:
        bare = named[1]
    for pattern in (_POINTS, _DEFINITE):
        found = pattern.search(bare)
        if found:
            return f"it may point back: {bare[found.start() : found.end() + 12].strip()}"
    if _MY_CASE.match(text):
        return "it asks about the asker's own case"
    own = subjects(text)
    solid = own - THIN
    asks = told or any(map(_ASKS.match, clauses))
    enough = 2
    if not asks:
        enough = 2 if _DO.match(text) else 3
        if text.endswith("?") and not re.search(r"\byour\b", text, re.IGNORECASE):
            return "it is a fragment with a question mark"
    elif _YES_NO.match(text) and not _TO_YOU.match(text):
        enough = 3
    elif _WHAT_IS.match(text) or _OF_YOURS.search(text):
        enough = 1
    if len(own) < enough or not solid:
        return f"it names too little of its own: {' '.join(sorted(own)) or 'nothing'}"
    return None


def _leans_zh(turn: str) -> str | None:
    text = _NEW_SUBJECT_ZH.sub("", turn).strip()
    for pattern, why in (
        (_OPENS_ZH, "it begins as the rest of another"), (_POINTS_ZH, "it may point back"),
        (_ELLIPSIS_ZH, "it leaves out what it asks"),
    ):  # fmt: skip
        found = pattern.search(text)
        if found:
            return f"{why}: {found.group().strip()}"
    left = own_han(text)
    if _LEFT_OUT_ZH.search(text) and not (_WHOLE_ZH.search(text) and len(left) > 3):
        return "it leaves out what it asks"
    if len(left) < (3 if _ASKS_ZH.search(text) else 5):
        return f"it names too little of its own: {left or 'nothing'}"
    return None


@_remembering
def points_farther(turn: str) -> bool:
    """Whether a turn that leans may lean on more than what was spoken of last."""
    return _FARTHER.search(turn) is not None


def looks_back(answer: str) -> bool:
    """Whether an answer speaks of what was said before it: "as I mentioned"."""
    return _AS_SAID.search(answer) is not None


@_remembering
def sets_the_manner(said: str) -> bool:
    """Whether a turn may ask for a manner of answering that holds for later turns too."""
    return _MANNER.search(said) is not None or (not said.isascii() and _MANNER_ZH.search(said) is not None)


@_remembering
def tells_circumstances(said: str) -> bool:
    """Whether a turn tells something of the asker without asking for anything; later answers may build on it."""
    if _WISHES.search(said):
        return False
    return _TELLS.search(said) is not None or (not said.isascii() and _TELLS_ZH.search(said) is not None)


def asks_how(turn: str) -> bool:
    """Whether a turn that speaks of the asker's things asks how such things are done, which is the same for all."""
    return _HOW.search(turn) is not None or _DO.match(turn) is not None


def _asks(turn: str) -> bool:
    return any(map(_ASKS.match, _CLAUSE.split(turn))) or (not turn.isascii() and _ASKS_ZH.search(turn) is not None)
