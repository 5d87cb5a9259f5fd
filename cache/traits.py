"""What a text itself says about how far its answer may travel: personal, bound to the moment, asking for a new thing.

Only what can be read off the text, in English and Chinese; what a request's fields say (tools, logprobs ...) is the
business of `asking`, and what follows from a trait is that of `policy`. When unsure, a trait is set: it costs a hit,
its absence could cost somebody's privacy. `language` is offered here too: the other thing a text says about itself.
"""

import re
from collections.abc import Sequence

from cache.identifiers import holds_identifier
from cache.language import language
from cache.question import Trait
from cache.wording import folded

__all__ = ["language", "traits_of"]

_LONGEST_SEARCHED = 100_000  # characters, about 25 ms
_LONGEST_READ = 20_000  # characters; a longer text is read at both ends, where people put their question
_SENTENCE = re.compile(r"[.?!;。？！；\n]+\s*(?=\D|$)")
_TOLD = re.compile(r"(?:[^.?!。？！\n]|\.(?=\d))+[.?!。？！\n]*")
_STORY = 3  # sentences

# ---- the state of one's own thing --------------------------------------------------------------------------------
_THING = (
    r"(?:[\w-]+ ){0,3}?(?:orders?|parcels?|packages?|deliver(?:y|ies)|shipments?|refunds?|payments?|transfers?"
    r"|bookings?|reservations?|appointments?"
    r"|applications?|claims?|subscriptions?|membership|flights?|accounts?|balances?|cards?|tickets?|bills?"
    r"|invoices?|statements?|salary|payslip"
    r"|paycheck|paychecks|wages?|points|rewards?|miles|limit|plan|contract|policy|loan|mortgage|deposit"
    r"|withdrawals?|transactions?|money|cheque|check"
    r"|results?|grades?|scores?|visa|passport|licence|license|prescriptions?|insurance|trial|items?|stuff|things?"
    r"|purchase|return|exchange|complaint"
    r"|request|case|tax|taxes|pension|vacation|holiday|pto|leave|schedule|calendar|meetings?|alarms?|reminders?"
    r"|lists?|emails?|messages?"
    r"|usage|data|credit|debt|bonus|cashback|top[- ]?up|winnings|car|phone|luggage|baggage|bag|p60|w2|w-2)"
)
_GENERAL = (
    r"(?:supported|accepted|compatible|covered|safe|secure|insured|protected|guaranteed|valid|legal|normal|allowed"
    r"|taxable|refundable"
    r"|deductible|eligible|private|encrypted)"
)
_HOW_TO = re.compile(
    r"\bhow (?:do|can|could|should|would|might|must) (?:i|we|you|one|someone|people)\b|\bhow (?:to|does one)\b"
    r"|\b(?:steps?|ways?|process|method|procedure"
    r"|instructions|possible|able|allowed) (?:to|for|of)\b|\b(?:can|could|may|should|must) (?:i|we)\b"
    r"|\bwhere (?:do|can|could|should|would) (?:i|we)\b"
    r"|\bwhat (?:do|should|can|must) (?:i|we) (?:need to )?do\b|\bwhy\b|\bhow come\b",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:my|our|i|me|mine|where|near\w*|closest|track|trace|status)\b", re.IGNORECASE
)  # without one of these, `_STATE` cannot match
_STATE = re.compile(
    "|".join([
        r"\bwhere(?:'s|s| is| are| was| did| has| have)? (?:my|our)\b",
        rf"\bwhere {_THING} (?:is|are|went)\b",
        rf"\bwhen (?:will|does|do|is|are|was|did|can) (?:my|our) {_THING}\b",
        r"\bwhen (?:will|do|can|am|would|should) i (?:be )?(?:get|getting|receive|receiving|have|paid|pay|refunded"
        r"|charged|expect)\b",
        rf"\b(?:has|have|did|is|are|was|were|will|does|do|hasn't|isn't|haven't|didn't) (?:my"
        rf"|our) {_THING}\b(?! (?:[\w-]+ ){{0,2}}?{_GENERAL})",
        r"\b(?:what|which|who)(?:'s|s| is| are| was| were| does| did|'re) my\b(?! (?:options?|rights|chances|best"
        r"|next)\b)",
        r"\b(?:how much|how many|how long|how old)\b[^?]{0,25}\b(?:is|are|was|until|till|before|of|on|in) my\b",
        r"\b(?:how much|how many|what|which)\b[^?]{0,40}\b(?:do|did|have|had|am|was) i (?:still )?(?:have|owe|own"
        r"|earn|earned|spend|spent|pay|paid|use"
        r"|used|charged|order|ordered|buy|bought|save|saved|left|got|get|booked|scheduled|subscribed|say|said|ask"
        r"|asked)\b",
        r"\b(?:track|trace|check|show|see|view|read|look up|find|get|pull up|list|display|tell me|give me|know"
        r"|fetch|review) (?:me )?(?:on |about |of |for )?"
        rf"(?:the )?(?:(?:status|state|balance|details|history|progress|list|amount) (?:of|on|for|in) )?my {_THING}\b",
        r"\bmy (?:[\w-]+ ){0,2}(?:status|balance|history|statement|progress|due date|expiry|location|whereabouts)\b",
        r"^\W*(?:order|delivery|refund|shipment|shipping|parcel|package|claim|application|payment|withdrawal"
        r"|deposit|transaction|present|current) status\b",
        r"\bdo i (?:still )?have (?:any|a|an|some|enough|the|to pay)?\b[^?]{0,60}\b(?:left|today|tomorrow|scheduled"
        r"|points|messages|emails|meetings|appointments"
        r"|reminders|alarms|balance|credit|money|debts?)\b",
        r"\b(?:am i|was i) (?:registered|enrolled|subscribed|verified|approved|charged|billed|logged|on the list"
        r"|insured|overdrawn|being charged)\b",
        r"\bmy (?:[\w-]+ ){0,2}(?:hasn't|hasnt|has not|haven't|didn't|didnt|isn't|still) (?:\w+ )?(?:arriv\w*"
        r"|shipp\w*|deliver\w*|here|been|come|show\w*|receiv\w*|credited)",
        r"\b(?:haven't|havent|have not|didn't|didnt|did not|never) (?:received?|got|gotten|get) my\b",
        r"\b(?:nearest|near me|nearby|near here|around here|close to me|closest|my (?:location|area|city|town|zip"
        r"|postcode))\b",
        r"\bwho am i\b|\bwhere am i\b|\bwhat(?:'s| is) my name\b|\bremember (?:me|my|what i)\b",
    ]),
    re.IGNORECASE,
)  # fmt: skip
_HOW_TO_ZH = re.compile(
    r"怎么(?!还没|还不|回事)|如何|怎样|咋(?!还没|回事)|(?:在)?哪(?:里|儿)?(?:可以|能|能够)?(?:查|看|改|换|申请|办"
    r"|开|设|找|下载|导出|填|取消|更改|修改)|能不能|可以|可不可以|为什么|为何|方法|步骤|流程|教程|安全吗"
)
_THING_ZH = (
    r"(?:订单|快递|包裹|货|物流|余额|账单|积分|工资|退款|申请|会员|套餐|流量|话费|账户|账号|存款|贷款|额度|欠款"
    r"|花呗|借呗|信用分|保单|理赔|预约|预订|机票|车票|航班|酒店|考试|成绩"
    r"|报告|结果|优惠券|红包|提现|转账|付款|交易|合同|签证|护照|社保|公积金|工单|投诉|课程|日程|闹钟|提醒|消息"
    r"|邮件|年假|假期|还款|欠费|押金|发票|礼品|卡|东西|钱)"
)
_STATE_ZH = re.compile(
    "|".join([
        rf"我(?:们)?的?(?:\w{{0,4}}){_THING_ZH}(?:\w{{0,6}})(?:到哪|在哪|到了|到没|到账|发货|几时|什么时候|何时"
        rf"|哪天|几号|多久|多少|几|还有|还剩|剩|状态|进度|情况|过期|到期|有没有|没到|没收到|不见|去哪|怎么还没"
        rf"|怎么还不|明细|记录|是什么|通过|批|好了)",
        rf"(?:查|看|查询|看看|告诉|显示|列出|跟踪|追踪)(?:一下|下|我)*我(?:们)?的?(?:\w{{0,4}}){_THING_ZH}",
        rf"{_THING_ZH}(?:\w{{0,3}})(?:到哪|去哪了|发货了吗|发货了没|到了吗|到了没|怎么还没|怎么还不|还没到|没收到"
        rf"|到账了吗|通过了吗|批了吗|好了吗|寄到哪|送到哪)",
        r"我(?:还|现在|一共|总共|这个?月|上个?月|上周|这周|今天|昨天|今年|去年|目前|已经)*(?:有|剩|欠|花了?|用了?"
        r"|存了?|买了?|赚了?|挣了?|该还|要还|应还|需要还)(?:下|了)?(?:多少|几|哪些|什么)",
        r"我(?:是谁|在哪|叫什么|几岁|多大|的名字|住哪)|(?:离我|我附近|附近|最近的)|记得我",
        rf"我(?:们)?的{_THING_ZH}(?:呢|啊)?[？?]?$",
    ])
)  # fmt: skip

# ---- bound to the moment ----------------------------------------------------------------------------------------
_MOMENT = re.compile(
    r"\b(?:today|today's|tonight|tonight's|tomorrow|tomorrow's|yesterday|yesterday's|right now|at the moment"
    r"|at present|currently|nowadays|these days"
    r"|this (?:week|weekend|month|year|morning|afternoon|evening|quarter|season|semester|summer|winter|spring"
    r"|autumn|fall|minute|hour|monday|tuesday"
    r"|wednesday|thursday|friday|saturday|sunday)|(?:last|next|past|coming|previous) (?:few )?(?:night|week"
    r"|weekend|month|year|quarter|season|summer|winter"
    r"|spring|autumn|fall|days|weeks|months|hour|hours|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|january|february|march|april|may"
    r"|june|july|august|september|october|november|december)|ago|recent|recently|lately|newest|up[- ]to[- ]date"
    r"|so far|as of|upcoming|breaking"
    r"|news|headlines?|weather|forecast|traffic|(?:stock|share|gold|oil|gas|fuel|bitcoin|btc|ethereum"
    r"|crypto) prices?|price of (?:gold|oil|gas|bitcoin"
    r"|btc|ethereum)|exchange rates?(?! fees?)|live score|scores? of the|standings|trending|what time is it"
    r"|what's the time|the time (?:now|in)"
    r"|what day is it|what(?:'s| is) the date|what date is it|how(?:'s| is| are) the (?:market|stock)\w*|raining"
    r"|snowing|on sale|in stock|open now|latest|current|now)\b",
    re.IGNORECASE,
)
_NO_MOMENT = re.compile(
    r"\bcurrent accounts?\b|\b(?:electric(?:al)?|alternating|direct|ocean|eddy|a/?c|d/?c) currents?\b"
    r"|\bcurrent (?:password|pin|employer|address|email"
    r"|phone|number|plan|subscription|job|balance)\b|\bwhat now\b|\bnow what\b|\bfrom now on\b|\buntil now\b"
    r"|\bby now\b|\bthe latest (?:time|date"
    r"|check|i can|you can|hour|day|possible|moment)\b|\blatest (?:check|arrival|departure|departing|possible"
    r"|entry)\b|\bat the latest\b|\bearliest (?:and|or) latest\b"
    r"|\bnews ?(?:letters?|feed)\b|\b(?:up|down)?grad\w* (?:\w+ ){0,3}to the (?:latest|newest|current) (?:version"
    r"|release)\b"
    r"|\b(?:update|get|install|download|have|use) (?:\w+ ){0,3}the (?:latest|newest|current) (?:version|release)\b"
    r"|\bweb ?traffic\b|\btraffic (?:lights?|signs?|laws?)\b",
    re.IGNORECASE,
)
_MOMENT_ZH = re.compile(
    r"今天|今日|今晚|今早|今夜|明天|明日|明早|明晚|后天|昨天|昨日|昨晚|前天|现在|目前|当前|此刻|眼下|眼前|刚刚"
    r"|刚才|如今|近日|最近|近期|近来|最新|实时|即时|本周|这周|这个?星期|上周|上个?星期|下周|下个?星期|周末"
    r"|本月|这个月|上个月|下个月|上月|下月|今年|去年|明年|前年|本年|本季|天气|气温|下雨吗|下雪吗|会下雨|会下雪"
    r"|股价|股市|大盘|汇率|油价|金价|房价|币价|行情|新闻|头条|热搜|路况|堵车吗|比分|赛况|几点了|现在几点|星期几"
    r"|几月几号|今儿|明儿|昨儿|有货吗|即将"
)
_NO_MOMENT_ZH = re.compile(
    r"(?:更新|升级|下载|安装|装|换)\w{0,6}最新(?:的)?版|最新(?:的)?版本?\w{0,3}(?:怎么|如何|在哪)(?:更新|升级|下载"
    r"|安装|装)|(?:汇率|新闻)(?:是什么意思|的定义)|从现在开始"
)

# ---- something new each time -------------------------------------------------------------------------------------
_WORKS = (
    r"(?:poems?|poetry|verses?|haikus?|limericks?|sonnets?|rhymes?|story|stories|tales?|fables?|jokes?|puns?"
    r"|riddles?|songs?|lyrics|raps?|novels?|slogans?|taglines?"
    r"|mottos?|essays?|blog ?posts?|tweets?|captions?|speech(?:es)?|toasts?|dialogues?|screenplays?|scripts?"
    r"|monologues?|plots?|names?|nicknames?|usernames?"
    r"|pick-?up lines?|fun facts?|trivia|compliments?|insults?|love letters?|wish(?:es)?|greeting cards?|ideas"
    r"|one-liners?|quotes?)"
)
_MUSE = re.compile(
    rf"\b(?:{_WORKS}|surprise|random(?:ly)?|make me|cheer|coin|roll|pick|brainstorm|role-?play|another one|something"
    r"|your|a different|creative|guess)\b",
    re.IGNORECASE,
)  # without one of these, `_NEW` cannot match
_NEW = re.compile(
    rf"\b(?:write|compose|create|make up|make|invent|generate|draft|come up with|tell|give|sing|suggest|craft|do"
    rf"|say|share|think of|produce|know|have|hear) (?:me |us |up )?"
    rf"(?:a |an |another |some |the |any |one |your |out |me |\d+ |two |three |five "
    rf"|ten )?(?:[\w',-]+ ){{0,5}}?{_WORKS}\b"
    rf"|^\W*(?:a |an |another |random )?{_WORKS}(?: please| about\b|\W*$)|\bsurprise me\b|\brandom(?:ly)?\b"
    rf"|\bmake me (?:laugh|smile)\b|\bcheer me up\b|\bflip a coin\b|\btoss a coin\b"
    r"|\broll (?:a |the |two |some )?(?:dice|die|d\d+)\b|\bpick (?:a|one|any|some)\b[^.?!]{0,80}\b(?:number|card|color"
    r"|colour|name|word|for me)\b|\bbrainstorm\b|\brole-?play\b|\banother one\b"
    r"|\bsomething (?:funny|creative|new|different|interesting)\b|\b(?:your|a different) (?:favou?rite|opinion)\b"
    r"|\bbe creative\b|\bguess (?:a|my) number\b",
    re.IGNORECASE,
)
_NOT_NEW = re.compile(
    r"\bhow (?:do|can|to|should|would|does|did)\b|\bwho (?:wrote|sang|composed|sings|made|invented)\b|\b(?:my|your"
    r"|user|domain|file|first|last|full|host|real) names?\b|\brandom (?:access|forest|variable|sampl|walk"
    r"|number generator)"
    r"|\bwhat (?:is|are|does|was)\b",
    re.IGNORECASE,
)
_NEW_ZH = re.compile(
    r"(?:写|作|编|创作|讲|说|来|生成|想|给我|唱|续写|改写)(?:一下|出|我|们|大家|听|点|些|几|两|三|一|首|个|篇|段"
    r"|则|句|副|封|\d)*[^，。？！,?!]{0,10}?(?:诗|故事|笑话|歌词|歌|小说|散文|作文|段子|对联|谜语|急转弯|文案|口号"
    r"|标语|剧本|情书|祝福语?|童话|寓言|绕口令|情话|朋友圈|演讲稿|点子)"
    r"|随机|随便(?:说|来|讲|给|写|挑|选)|给我(?:一个|个)?惊喜|(?:掷|扔|抛|丢)(?:一?[个次])?(?:骰子|硬币)"
    r"|[起取](?:一?个)?\w{0,4}名字?(?!是)|逗我|哄我|再来一[个首段]|换一[个首段]|头脑风暴|角色扮演"
)
_NOT_NEW_ZH = re.compile(
    r"怎么|如何|怎样|谁写|谁唱|是谁|作者|什么时候|哪一?年|哪首|随机(?:变量|森林|数生成|存取|过程|抽样)|是什么"
)


def traits_of(text: str, other_user_texts: Sequence[str] = ()) -> frozenset[Trait]:
    """PERSONAL, TIME_BOUND and CREATIVE as the text shows them; NO_TEXT when there is none.

    other_user_texts: earlier user turns; one person's data in them makes the whole question personal, because the
    answer may repeat it. "How do I update to the latest version?" is not bound to the moment: the way to do it stays,
    whichever version is the latest; "What is the latest version?" is."""
    whole = folded(_ends(text))
    if not whole.strip():
        return frozenset((Trait.NO_TEXT,))
    found = set()
    ends = _ends(whole)
    sentences = [sentence for sentence in _SENTENCE.split(ends) if sentence.strip()]
    if any(map(_asks_own, sentences)) or _tells_of_a_person(text, other_user_texts):
        found.add(Trait.PERSONAL)
    if _is_of_the_moment(_question(ends)):
        found.add(Trait.TIME_BOUND)
    if any(map(_asks_new, sentences)):
        found.add(Trait.CREATIVE)
    return frozenset(found)


def _tells_of_a_person(text: str, earlier: Sequence[str]) -> bool:
    """Whether this turn or an earlier one holds somebody's data. Newest first, and no more than so many characters in
    all: this runs on the event loop. What is left out is shared with nobody who does not send the same words."""
    left = _LONGEST_SEARCHED
    for turn in (text, *reversed(earlier)):
        if left <= 0:
            return False
        if holds_identifier(folded(turn[:left])):
            return True
        left -= len(turn)
    return False


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


def _asks_own(sentence: str) -> bool:
    """Whether a sentence asks for the state of the asker's own thing, rather than how such things are done."""
    if _OWN.search(sentence) and _STATE.search(sentence) and not _HOW_TO.search(sentence):
        return True
    return not sentence.isascii() and bool(_STATE_ZH.search(sentence)) and not _HOW_TO_ZH.search(sentence)


def _is_of_the_moment(text: str) -> bool:
    if _MOMENT.search(text) and _MOMENT.search(_NO_MOMENT.sub(" ", text)):
        return True
    return not text.isascii() and bool(_MOMENT_ZH.search(_NO_MOMENT_ZH.sub(" ", text)))


def _asks_new(sentence: str) -> bool:
    if _MUSE.search(sentence) and _NEW.search(sentence) and not _NOT_NEW.search(sentence):
        return True
    return not sentence.isascii() and bool(_NEW_ZH.search(sentence)) and not _NOT_NEW_ZH.search(sentence)
