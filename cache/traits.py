"""What a text itself says about how far its answer may travel: personal, bound to the moment, asking for a new thing.

Only what can be read off the text, in English and Chinese; what a request's fields say (tools, logprobs ...) is the
business of `asking`, and what follows from a trait is that of `policy`. When unsure, a trait is set: it costs a hit,
its absence could cost somebody's privacy. `language` is offered here too: the other thing a text says about itself.
"""

import re
from collections.abc import Sequence

from cache.identifiers import asks_own, holds_identifier, identifies_a_person, speaks_of_own
from cache.language import language
from cache.question import Trait
from cache.wording import folded

__all__ = ["language", "traits_of"]

_LONGEST_SEARCHED = 60_000  # characters of all turns together: about 20 ms of prose, 85 ms of digits
_LONGEST_WEIGHED = 40_000  # of the earlier ones, those whose sentences are weighed
_TURN = 60  # characters that take as long as one turn by itself
_LONGEST_READ = 20_000  # characters; a longer text is read at both ends, where people put their question
_SENTENCE = re.compile(
    r"[.?!;。？！；\n]+\s*(?=\D|$)|(?:,|\band\b|\bbut\b),? (?=(?:and )?(?:how|what|when|where|why|who|which|is|am|are"
    r"|do|does|did|has|have|was)\b)"
)
_TOLD = re.compile(r"(?:[^.?!。？！\n]|\.(?=\d))+[.?!。？！\n]*")
_STORY = 3  # sentences

_POINTS_BACK = re.compile(
    r"\b(?:where|when|what|how|has|have|is|are|was|were|did|does|will|why)\b(?:'s)?[^?.!]{0,20}\b(?:it|they|them|that"
    r"|this|one|these|those)\b|^\W*(?:where|when|status|which|and|any news)\W*$",
    re.IGNORECASE,
)

# ---- bound to the moment ----------------------------------------------------------------------------------------
_MOMENT = re.compile(
    r"\b(?:today|today's|tonight|tonight's|tomorrow|tomorrow's|yesterday|yesterday's|right now|at the moment"
    r"|at present|currently|nowadays|these days|this (?:week|weekend|month|year|morning|afternoon|evening|quarter"
    r"|season|semester|summer|winter|spring|autumn|fall|minute|hour|monday|tuesday|wednesday|thursday|friday|saturday"
    r"|sunday)|(?:last|next|past|coming|previous) (?:few )?(?:night|week|weekend|month|year|quarter|season|summer"
    r"|winter|spring|autumn|fall|days|weeks|months|hour|hours|monday|tuesday|wednesday|thursday|friday|saturday"
    r"|sunday|january|february|march|april|may|june|july|august|september|october|november|december)|ago|recent"
    r"|recently|lately|newest|up[- ]to[- ]date|so far|as of|upcoming|breaking|news|headlines?|weather|forecast"
    r"|traffic|(?:stock|share|gold|oil|gas|fuel|bitcoin|btc|ethereum|crypto) prices?|price of (?:gold|oil|gas|bitcoin"
    r"|btc|ethereum)|exchange rates?(?! fees?)|live score|scores? of the|standings|trending|what time is it"
    r"|what's the time|the time (?:now|in)|what day is it|what(?:'s| is) the date|what date is it|how(?:'s| is"
    r"| are) the (?:market|stock)\w*|raining|snowing|on sale|in stock|open now|latest|current|now)\b",
    re.IGNORECASE,
)
_NO_MOMENT = re.compile(
    r"\bcurrent accounts?\b|\b(?:electric(?:al)?|alternating|direct|ocean|eddy|a/?c|d/?c) currents?\b"
    r"|\bcurrent (?:password|pin|employer|address|email|phone|number|plan|subscription|job|balance)\b|\bwhat now\b"
    r"|\bnow what\b|\bfrom now on\b|\buntil now\b|\bby now\b|\bthe latest (?:time|date|check|i can|you can|hour|day"
    r"|possible|moment)\b|\blatest (?:check|arrival|departure|departing|possible|entry)\b|\bat the latest\b"
    r"|\bearliest (?:and|or) latest\b|\bnews ?(?:letters?|feed)\b|\b(?:up|down)?grad\w* (?:\w+ ){0,3}to the (?:latest"
    r"|newest|current) (?:version|release)\b|\b(?:update|get|install|download|have|use) (?:\w+ ){0,3}the (?:latest"
    r"|newest|current) (?:version|release)\b|\bweb ?traffic\b|\btraffic (?:lights?|signs?|laws?)\b",
    re.IGNORECASE,
)
# What stands so or otherwise within the hour though no word of time is in it. "When are you open?" is another thing.
_STANDING = re.compile(
    "|".join([
        r"^\W*(?:hi|hello|hey|so|and|ok)?\W*(?:is|are|isn't|aren't) [^?.!]{1,40} (?:open|closed|down|up|online"
        r"|offline|available|delayed|cancelled|on time|running|live|busy|full|sold out|over|back|crowded|winning"
        r"|leading|dead|alive)(?: yet| already| again)?\W*$",
        r"\b(?:still|already|yet) (?:open|closed|down|available|on|alive|free|valid|running|working|in stock)\b"
        r"|\boutages?\b|\b(?:are|is) there (?:any |a |an )?(?:delays?|queue|line|seats?|tickets?|rooms?|tables?|spots"
        r"|places|jams?|strike)\b",
        r"\b(?:seats?|tickets?|rooms?|tables?|spots|slots|places) (?:are )?(?:still )?(?:left|free|available)\b"
        r"|\bwhich (?:gate|platform)\b",
        r"\bnext (?:train|bus|flight|tram|ferry|plane|boat|game|match|race|fight|episode|elections?|concert|launch"
        r"|eclipse|draw)\b",
        r"\bwho(?:'s|s| is| are)? (?:won|winning|leading|leads|ahead|playing|in the lead)\b(?!.{0,60}\b(?:1\d"
        r"|20)\d\d\b)",
        r"\bwhat(?:'s|s| is| was) the (?:final )?score(?: now)?\W*$|\bwhat (?:year|month|week|day|time|date) (?:is"
        r"|are) (?:it|this|we)\b",
        r"\bis it (?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\bis it (?:dark|raining|snowing|cold|hot|warm|sunny"
        r"|late) ?(?:out|outside|there)?\W*$",
        r"\bhow (?:many (?:days|weeks|months|hours|minutes)|long is it) (?:is it |are )?(?:there )?(?:until|till"
        r"|left)\b|\bhow long is the (?:queue|line|wait)\b|\bhow old is (?!it|my|your|the|this|that|he|she|too|a"
        r"|an)\w+(?: \w+)?\W*$",
        r"\bhow (?:much|high) (?:is|are|does) (?:a |an |one |1 |the )?(?:bitcoins?|btc|ethereum|eth|dogecoin|gold"
        r"|silver|oil|petrol|gasoline|dollar|euro|pound|yen)\b(?! (?:worth|card))|\btrading at\b|\b(?:the|your"
        r"|today's) (?:\w+ )?(?:mortgage|interest|inflation|base|unemployment|conversion) rates?\b(?! (?:mean|work"
        r"|fee|type|on|for))|\b\w+[ -](?:to|/)[ -]\w+ (?:exchange )?rate\b|\bhow(?:'s| is) \w+ (?:trading|doing)\W*$",
        r"\bhas (?:the )?[^?.!]{1,30} (?:started|begun|ended|passed|finished|launched|resigned|died"
        r"|been released)\b(?! in\b)",
        r"\bis (?:the )?(?:sale|offer|promotion|discount|deal|game|match) (?:over|on|live|running)\b",
    ]),
    re.IGNORECASE,
)  # fmt: skip
_MOMENT_ZH = re.compile(
    r"今天|今日|今晚|今早|今夜|明天|明日|明早|明晚|后天|昨天|昨日|昨晚|前天|现在|目前|当前|此刻|眼下|眼前|刚刚|刚才"
    r"|如今|近日|最近|近期|近来|最新|实时|即时|本周|这周|这个?星期|上周|上个?星期|下周|下个?星期|周末|本月|这个月"
    r"|上个月|下个月|上月|下月|今年|去年|明年|前年|本年|本季|天气|气温|下雨吗|下雪吗|会下雨|会下雪|股价|股市|大盘"
    r"|汇率|油价|金价|房价|币价|行情|新闻|头条|热搜|路况|堵车吗|比分|赛况|几点了|现在几点|星期几|几月几号|今儿|明儿"
    r"|昨儿|有货吗|即将|(?:服务器?|网站|官网|系统|软件|平台|网络|app|APP)\w{0,4}(?:挂了|崩了|崩溃了|宕机|恢复|正常吗)"
    r"|(?:比特币|以太坊|黄金|白银|原油|美元|欧元|英镑|日元|茅台)\w{0,4}(?:多少|什么价|价格|涨|跌)|兑(?:换)?(?:人民币"
    r"|美元|欧元|日元|英镑)\w{0,4}多少|还有(?:没有)?(?:票|房|空房|位|座|货|优惠|名额|库存|现货|余票)"
    r"|有(?:没有)?货[吗没]?|有货没|余票|开门了|关门了|营业了|还营业|在营业|还开着?[吗门]|下一?(?:班|趟|场)|末班"
    r"|延误了|延误[吗没]|晚点了|谁赢|赢了[吗没]|离\w{1,6}还有|还有(?:几|多少)天|(?:结束|开始|上映|上市|发布|涨|跌|停"
    r"|取消|恢复)了[吗没]|排队|要排多久|航班动态|利率是?多少|\d+年了?是不是|今年是"
)
_NO_MOMENT_ZH = re.compile(
    r"(?:更新|升级|下载|安装|装|换)\w{0,6}最新(?:的)?版|最新(?:的)?版本?\w{0,3}(?:怎么|如何|在哪)(?:更新|升级|下载"
    r"|安装|装)|(?:汇率|新闻)(?:是什么意思|的定义)|从现在开始"
)

# ---- something new each time -------------------------------------------------------------------------------------
_WORKS = (
    r"(?:poems?|poetry|verses?|haikus?|limericks?|sonnets?|rhymes?|story|stories|tales?|fables?|jokes?|puns?|riddles?"
    r"|songs?|lyrics|raps?|novels?|slogans?|taglines?|mottos?|essays?|blog ?posts?|tweets?|captions?|speech(?:es)?"
    r"|toasts?|dialogues?|screenplays?|scripts?|monologues?|plots?|names?|nicknames?|usernames?|pick-?up lines?"
    r"|fun facts?|trivia|compliments?|insults?|love letters?|wish(?:es)?|greeting cards?|ideas|one-liners?|quotes?)"
)
_MUSE = re.compile(
    rf"\b(?:{_WORKS}|surprise|random(?:ly)?|make me|cheer|coin|roll|pick|brainstorm|role-?play|another one|something"
    r"|your|a different|creative|guess)\b",
    re.IGNORECASE,
)  # without one of these, `_NEW` cannot match
_NEW = re.compile(
    rf"\b(?:write|compose|create|make up|make|invent|generate|draft|come up with|tell|give|sing|suggest|craft|do|say"
    rf"|share|think of|produce|know|have|hear) (?:me |us |up )?(?:a |an |another |some |the |any |one |your |out |me "
    rf"|\d+ |two |three |five |ten )?(?:[\w',-]+ ){{0,5}}?{_WORKS}\b|^\W*(?:a |an |another "
    rf"|random )?{_WORKS}(?: please| about\b|\W*$)|\bsurprise me\b|\brandom(?:ly)?\b|\bmake me (?:laugh|smile)\b"
    rf"|\bcheer me up\b|\bflip a coin\b|\btoss a coin\b"
    r"|\broll (?:a |the |two |some )?(?:dice|die|d\d+)\b|\bpick (?:a|one|any|some)\b[^.?!]{0,80}\b(?:number|card"
    r"|color|colour|name|word|for me)\b|\bbrainstorm\b|\brole-?play\b|\banother one\b|\bsomething (?:funny|creative"
    r"|new|different|interesting)\b|\b(?:your|a different) (?:favou?rite|opinion)\b|\bbe creative\b|\bguess (?:a"
    r"|my) number\b",
    re.IGNORECASE,
)
_NOT_NEW = re.compile(
    r"\bhow (?:do|can|to|should|would|does|did)\b|\bwho (?:wrote|sang|composed|sings|made|invented)\b|\b(?:my|your"
    r"|user|domain|file|first|last|full|host|real) names?\b|\brandom (?:access|forest|variable|sampl|walk"
    r"|number generator)|\bwhat (?:is|are|does|was)\b",
    re.IGNORECASE,
)
_NEW_ZH = re.compile(
    r"(?:写|作|编|创作|讲|说|来|生成|想|给我|唱|续写|改写)(?:一下|出|我|们|大家|听|点|些|几|两|三|一|首|个|篇|段|则"
    r"|句|副|封|\d)*[^，。？！,?!]{0,10}?(?:诗|故事|笑话|歌词|歌|小说|散文|作文|段子|对联|谜语|急转弯|文案|口号|标语"
    r"|剧本|情书|祝福语?|童话|寓言|绕口令|情话|朋友圈|演讲稿|点子)|随机|随便(?:说|来|讲|给|写|挑|选)|给我(?:一个"
    r"|个)?惊喜|(?:掷|扔|抛|丢)(?:一?[个次])?(?:骰子|硬币)|[起取](?:一?个)?\w{0,4}名字?(?!是)|逗我|哄我"
    r"|再来一[个首段]|换一[个首段]|头脑风暴|角色扮演"
)
_NOT_NEW_ZH = re.compile(
    r"怎么|如何|怎样|谁写|谁唱|是谁|作者|什么时候|哪一?年|哪首|随机(?:变量|森林|数生成|存取|过程|抽样)|是什么"
)


def traits_of(text: str, other_user_texts: Sequence[str] = (), around: Sequence[str] = ()) -> frozenset[Trait]:
    """PERSONAL, TIME_BOUND and CREATIVE as the text shows them; NO_TEXT when there is none; LONG_TEXT when not
    everything that may show whose affair it is could be read.

    other_user_texts: earlier user turns; one person's data or affair in them makes the whole question personal, because
    the answer may repeat it. around: what may be a company's document, such as the message around a marked question:
    read for first-person sentences, introductions, cards and identity numbers, but not for e-mail addresses, phones and
    numbers, which a document names for everybody.
    "How do I update to the latest version?" is not bound to the moment: the way to do it stays, whichever version is
    the latest; "What is the latest version?" is. "Reset my password" is taken for a short "how do I"."""
    whole = folded(_ends(text))
    if not whole.strip():
        return frozenset((Trait.NO_TEXT,))
    found = set()
    ends = _ends(whole)
    sentences = _sentences(ends)
    if any(map(asks_own, sentences)) or _goes_on_about_own(sentences):
        found.add(Trait.PERSONAL)
    else:
        found |= _told(text, other_user_texts, around)
    if _is_of_the_moment(_question(ends)):
        found.add(Trait.TIME_BOUND)
    if any(map(_asks_new, sentences)):
        found.add(Trait.CREATIVE)
    return frozenset(found)


def _told(text: str, earlier: Sequence[str], around: Sequence[str]) -> set[Trait]:
    """PERSONAL where somebody's data stands in this turn, or his data or affairs in what he said before.

    Newest first, and no more than so many characters in all, since this runs on the event loop. What is left unread
    makes the request exact only: its answer is shared with nobody who does not send the same words."""
    if holds_identifier(folded(text[:_LONGEST_SEARCHED])):
        return {Trait.PERSONAL}
    left = _LONGEST_SEARCHED - len(text)
    weighed = _LONGEST_WEIGHED
    for tells, turns in ((_tells, reversed(earlier)), (_tells_around, around)):
        for turn in turns:
            if left <= 0:
                return {Trait.LONG_TEXT}
            if tells(folded(turn[:left]), weighed):
                return {Trait.PERSONAL}
            left -= len(turn) + _TURN
            weighed -= len(turn)
    return {Trait.LONG_TEXT} if left < 0 or weighed < 0 else set()


def _tells(turn: str, weighed: int) -> bool:
    sentences = _sentences(turn[: max(weighed, 0)])
    return holds_identifier(turn) or any(asks_own(each) or speaks_of_own(each) for each in sentences)


def _tells_around(turn: str, weighed: int) -> bool:
    sentences = _sentences(turn[: max(weighed, 0)])
    return identifies_a_person(turn) or any(asks_own(each) or speaks_of_own(each) for each in sentences)


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]


def _ends(text: str) -> str:
    if len(text) <= _LONGEST_READ:
        return text
    return f"{text[: _LONGEST_READ // 2]}\n{text[-_LONGEST_READ // 2 :]}"


def _question(text: str) -> str:
    """What a longer text asks: its sentences with a question mark and its last one. The others tell a story, and the
    "last week" of a story is not the week before this one."""
    told = _TOLD.findall(text)
    if len(told) < _STORY:
        return text
    return " ".join([sentence for sentence in told[:-1] if sentence.rstrip().endswith(("?", "？"))] + told[-1:])


def _goes_on_about_own(sentences: Sequence[str]) -> bool:
    """ "I mean my order of last week. Where is it?" """
    return len(sentences) > 1 and any(map(speaks_of_own, sentences)) and any(map(_POINTS_BACK.search, sentences))


def _is_of_the_moment(text: str) -> bool:
    if _MOMENT.search(text) and _MOMENT.search(_NO_MOMENT.sub(" ", text)):
        return True
    if any(map(_STANDING.search, _SENTENCE.split(text))):
        return True
    return not text.isascii() and bool(_MOMENT_ZH.search(_NO_MOMENT_ZH.sub(" ", text)))


def _asks_new(sentence: str) -> bool:
    if _MUSE.search(sentence) and _NEW.search(sentence) and not _NOT_NEW.search(sentence):
        return True
    return not sentence.isascii() and bool(_NEW_ZH.search(sentence)) and not _NOT_NEW_ZH.search(sentence)
