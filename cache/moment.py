"""Whether the answer to a text passes with the moment: now, today, the latest, the weather, "is it open?".

Left aside is what only tells a story: the numbers of a word problem stand in it, and a card that was lost yesterday is
blocked the way every card is. When unsure, the moment counts: it costs a hit, its absence a stale answer.
"""

import re

SENTENCE = re.compile(
    r"[.?!;。？！；\n]+\s*(?=\D|$)|(?:,|\band\b|\bbut\b),? (?=(?:and )?(?:how|what|when|where|why|who|which|is|am|are"
    r"|do|does|did|has|have|was)\b)"
)
_WORD = re.compile(r"\w+")
_TOLD = re.compile(r"(?:[^.?!。？！\n]|\.(?=\d))+[.?!。？！\n]*")
_STORY = 3  # sentences


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
_DO = (
    r"(?:(?:re-?)?send|cancel|return|refund|close|block|unblock|shut|disconnect|unsync|turn|switch|reset|restore|fix"
    r"|unlock|freeze|unfreeze|delete|remove|(?:re|de)?activate|deactivate|terminate|replace|link|withdraw|top[- ]?up)"
)
_DONE_TO = r"(?:me|us|my|our|this|that|it|the|all|a|an|off|on|back|down)\b"
_LOOKED_UP = (
    r"(?:weather|forecast|news|headlines?|traffic|scores?|prices?|rates?|times?|status|balance|list|report|updates?"
    r"|details|info\w*|market|stocks?|results?|standings|latest|what|who|how|which)\b"
)
_AMISS = (
    r"\b(?:(?:is|was|were|are|be|looks?|seems?|applied) (?:(?:to be|too|being|applied|given|so) )?(?:wrong\w*"
    r"|incorrect\w*"
    r"|inaccurate|off|different|unfair)\b|(?:is|was|were|are)(?: not|n't) (?:right|correct|what|the same)\b)"
)
_NO_MOMENT = re.compile(
    r"\bcurrent accounts?\b|\b(?:electric(?:al)?|alternating|direct|ocean|eddy|a/?c|d/?c) currents?\b"
    r"|\bcurrent (?:password|pin|employer|address|email|phone|number|plan|subscription|job|balance)\b|\bwhat now\b"
    r"|\bnow what\b|\bfrom now on\b|\buntil now\b|\bby now\b|\bthe latest (?:time|date|check|i can|you can|hour|day"
    r"|possible|moment)\b|\blatest (?:check|arrival|departure|departing|possible|entry)\b|\bat the latest\b"
    r"|\bearliest (?:and|or) latest\b|\bnews ?(?:letters?|feed)\b|\b(?:up|down)?grad\w* (?:\w+ ){0,3}to the (?:latest"
    r"|newest|current) (?:version|release)\b|\b(?:update|get|install|download|have|use) (?:\w+ ){0,3}the (?:latest"
    r"|newest|current) (?:version|release)\b|\bweb ?traffic\b|\btraffic (?:lights?|signs?|laws?)\b|\bfake news\b"
    r"|\b(?:good)?bye (?:for )?now\b|\bnow that (?:i|we)\b|\bhow recent (?:do|does|must|should)\b"
    # "What do I do now?" and "Send my card now": the speaker is in a hurry, the answer stays
    r"|\bwhat (?:do|should|can|could|must|shall) (?:i|we) do(?: right)? now\b(?! (?:in|at|near|around|here|with)\b)"
    r"|\bwhat (?:should|must|can|needs to) be done now\b|\bwhy (?:am|was|were|did) i [^.?!]{0,40}?\bnow\b"
    rf"|(?:^|(?<=[.?!] )|\b(?:please|pls|kindly|(?:i|we)(?:'d)? (?:really )?(?:want|need|would like|like"
    rf"|wish) (?:you )?"
    rf"to) ){_DO} {_DONE_TO}(?: (?!{_LOOKED_UP})[\w'-]+){{0,5}}? (?:right )?now\b"
    r"|\b(?:i|we) (?:really )?(?:need|want) (?:(?:it|them|help|assistance)|(?:my|a|the|that) (?:full )?(?:refund|money"
    r"|funds|card|cash|order))(?: back)?(?: right)? now\b|\bgive me (?:my|a) (?:refund|money|card)(?: back)? now\b"
    r"|\b(?:please|pls) help(?: me)?(?: right)? now\b|\bnow i (?:want|need) (?:a refund|to)\b"
    r"|\bdo you currently (?:support|accept)\b|\bhow (?:do|can|could|should|would) (?:i|we) [^.?!]{0,40}?\bmy current\b"
    r"|\b(?:cancel|reverse|dispute|undo|revert) (?:a|my) recent\b"
    # how rates are made, and what went wrong with one
    r"|\b(?:wrong|incorrect|inaccurate|different|(?:not|\w+n't|\w+nt) [^.?!]{0,24}(?:correct"
    r"|right)) (?:\w+ )?exchange rates?\b"
    r"|\bisn't [^.?!]{0,30}exchange rates? (?:correct|right)\b|\bincorrectly \w+ the exchange rate\b"
    r"|\bfrom where[^.?!]{0,20} exchange rates?\b"
    r"|\b(?:where|how|(?:on )?what) (?:do|did) (?:you|they|we) (?:get|take|have|determine|calculate|set|figure out|work"
    r" out|decide|fix|base)(?: on)? (?:your|the|these|those)(?: foreign| currency)? exchange rates?\b"
    r"|\b(?:basis|error|mistake|because) (?:of|in|on|with|for) (?:your|the|my) exchange rates?\b"
    r"|\bexchange rates?(?= (?:bas[ei]s|polic|work|come|changes?\b|(?:is|are|get) (?:calculated|determined|set|decided"
    r"|made|based|different than|different from|the same)|(?:was|were|should have been) (?:applied|different|used)"
    r"|wrong"
    r"|incorrect|determined|calculated|the same on|from\W*$)"
    rf"|[^.?!]{{0,70}}{_AMISS})",
    re.IGNORECASE | re.MULTILINE,
)
# A product's own ways, not how they stand now: "Is a physical card available?"
_OFFERED = (
    r"(?:it possible|there (?:a|an|any) (?:way|limit|reason|fee|charge|minimum|maximum)|[^?.!]{1,30} (?:top"
    r"|my)[ -](?:up|back)"
    r"\W*$|(?!the |my |your |this )[^?.!]{0,24}(?:card|emi|cod|option|facility|feature|instal+ments?"
    r"|cash on delivery|paypal"
    r")s? (?:also |ever )?available\W*$)"
)
# What stands so or otherwise within the hour though no word of time is in it. "When are you open?" is another thing.
_STANDING = re.compile(
    "|".join([
        rf"^\W*(?:hi|hello|hey|so|and|ok)?\W*(?:is|are|isn't|aren't) (?!{_OFFERED})[^?.!]{{1,40}} (?:open|closed"
        rf"|down|up|online"
        r"|offline|available|delayed|cancelled|on time|running|live|busy|full|sold out|over|back|crowded|winning"
        r"|leading|dead|alive)(?: yet| already| again)?\W*$",
        r"\b(?:still|already|yet) (?:open|closed|down|available|on(?! my| the| your)|alive|free|valid|running|working"
        r"|in stock)\b"
        r"|\boutages?\b|\b(?:are|is) there (?:any |a |an )?(?:delays?|queue|line|seats?|tickets?|rooms?|tables?|spots"
        r"|places|jams?|strike)\b(?! (?:that|where)\b)",
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
        r"|left)\b|\bhow long is the (?:queue|line|wait)\b(?! for (?:a |my |the )?(?:\w+ )?(?:card|transfer|refund"
        r"|delivery"
        r"|payment|order)\b)|\bhow old is (?!it|my|your|the|this|that|he|she|too|a"
        r"|an)\w+(?: \w+)?\W*$",
        r"\bhow (?:much|high) (?:is|are|does) (?:a |an |one |1 |the )?(?:bitcoins?|btc|ethereum|eth|dogecoin|gold"
        r"|silver|oil|petrol|gasoline|dollar|euro|pound|yen)\b(?! (?:worth|card))|\btrading at\b|\b(?:the|your"
        r"|today's) (?:\w+ )?(?:mortgage|interest|inflation|base|unemployment|conversion) rates?\b(?! (?:mean|work"
        r"|fee|type|on|for|applied))|\b\w+[ -](?:to|/)[ -]\w+ (?:exchange )?rate\b|\bhow(?:'s| is) \w+ (?:trading"
        r"|doing)\W*$",
        r"\bhas (?:the )?(?:(?!not\b)[^?.!]){1,30} (?:started|begun|ended|passed|finished|launched|resigned|died"
        r"|been released)\b(?! in\b)",
        r"\bis (?:the )?(?:sale|offer|promotion|discount|deal|game|match) (?:over|on|live|running)\b",
    ]),
    re.IGNORECASE,
)  # fmt: skip
# Without one of these words `_STANDING` cannot match: looking at a set costs a tenth of searching.
_STANDS = frozenset(
    _WORD.findall(
        "open closed down up online offline available delayed cancelled time running live busy full sold over back"
        " crowded winning leading dead alive still already yet outage outages there left free gate platform next who"
        " whos score year month week day date monday tuesday wednesday thursday friday saturday sunday dark raining"
        " snowing cold hot warm sunny late until till wait queue line old bitcoin bitcoins btc ethereum eth dogecoin"
        " gold silver oil petrol gasoline dollar euro pound yen trading rate rates doing has sale offer promotion"
        " discount deal game match"
    )
)
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
    r"|安装|装)|汇率(?:\w{0,4}(?:不对|错了?|有误|不准)|\w{0,2}(?:怎么|如何|是?怎样)(?:算|计算|确定|定|得出|来)|从哪)"
    r"|(?:汇率|新闻)(?:是什么意思|的定义)|从现在开始|(?:现在|目前|眼下)(?:我|又)?(?:该|要|应该|应)?怎么办|(?:为什么|为何|为啥"
    r"|怎么)(?:会|要)?下[雨雪]|(?:现在|目前|今天)(?:就)?(?:想|需要)?(?:要)?(?:取消|退货|退款|退掉|换货|注销|解绑|改地址)"
    r"|(?:现在|目前)(?:都)?支持"
)

# ---- told with the question: a sum, or the asker's own mishap -----------------------------------------------------
_WORLD = re.compile(
    r"\b(?:weather|forecast|news|headlines?|traffic|stocks?|share prices?|exchange rates?|bitcoins?|crypto|index"
    r"|season|league"
    r"|champion\w*|standings|elections?|president|minister|population|followers|subscribers|goals|flights?|(?:1[6-9]"
    r"|20)\d\d"
    r"|available|open)\b",
    re.IGNORECASE,
)
_FIRST_OR_SECOND = re.compile(
    r"\b(?:i|i'm|i've|i'd|me|my|mine|we|us|our|you|your(?! (?:steps|work|reasoning|answer)))\b", re.IGNORECASE
)
_QUANTITY = re.compile(
    r"(?<![\w.,])\d[\d.,/]*\w*|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty"
    r"|thirty|forty"
    r"|fifty|sixty|seventy|eighty|ninety|hundred|dozen|half|twice|thrice|double[sd]?|triple[sd]?|quarter)\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(
    r"\b(?:how (?:many|much)\b[^.?!]{0,60}?\b(?:do|does|did|will|would|has|had|have)(?: the)? (?P<whose>\w+)"
    r"|how (?:many|much|far|long|tall|heavy|fast)\b|(?P<old>how old) (?:is|was|will|are)(?: the)? (?P<aged>\w+)"
    r"|what(?:'s| is| was| will be| are)"
    r" the (?:total|sum|average|difference|ratio|product|combined)\b)",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\b(?:apart|average|sum|difference|altogether|in total)\b", re.IGNORECASE)
_AGES = re.compile(r"\b(?:older|younger|years? old|times as old|years apart|the age of|\w+'s age)\b", re.IGNORECASE)
_THIRD = re.compile(
    r"\b(?:he|she|his|her|him|how old (?:is|was) (?:\w+ ){1,3}(?:now|today)|average of their)\b", re.IGNORECASE
)
_WORLD_ZH = re.compile(
    r"[我你您咱]|天气|气温|新闻|股|汇率|比特币|油价|金价|房价|行情|利率|退休金|政策|赛季|联赛|总统|人口|票|(?:1[6-9]|20)\d\d"
)
_QUANTITY_ZH = re.compile(r"\d+(?:\.\d+)?|[一二两三四五六七八九十百千半]+(?=[个只本支块元岁倍米斤颗张条天人千公分])")
_HOW_MANY_ZH = re.compile(r"多少|几[年岁个只本支块元倍米斤颗张条天人]")
_THIRD_ZH = re.compile(
    r"[小老][\u4e00-\u9fff]|[他她甲乙]|爸爸|妈妈|爷爷|奶奶|哥哥|姐姐|弟弟|妹妹|同学|老师|商店|果园|农场"
)
_BETWEEN_ZH = re.compile(r"倍|一共|总共|共有|还剩|剩下|平均|几年[后前]|相差|比\w{1,8}[多少大小]|又\w{0,4}[买卖吃给送]")

_I = re.compile(r"\b(?:i|my|we|our|someone|somebody)\b|\bi'", re.IGNORECASE)
_MEND = re.compile(
    r"\bhow (?:do|can|could|should|would) (?:i|we|one)\b(?! (?:know|find out|tell|see|check)\b)|\bhow to\b|\bwhat (?:do"
    r"|should|can|could|must) (?:i|we) (?:need to |have to )?do\b|\bwhat i should do\b|\bwhat (?:should|must|can|needs"
    r" to) be done\b|\b(?:something|anything) (?:that )?i (?:need|have) to do\b|\bneed (?:some )?help (?:with|fixing"
    r"|to)\b"
    r"|\bis there (?:a|any) way\b|\bis it (?:still )?possible to\b|怎么办|如何|怎么(?!样|还|没|会)|怎样才?能",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[.?!;:,\n。？！；，]+\s*|\s(?=(?:but|and|so|after|because|since|although|even though|as|when) (?:i|i'm|i've|my|we"
    r"|our|someone|somebody)\b)",
    re.IGNORECASE,
)
_SITUATION = re.compile(
    r"\W*(?:(?:hi|hello|help|ok|so|and|but|then|also|after|because|since|although|even though|as|when|yesterday|today"
    r"|recently|last (?:night|week|month)|this morning)\b\W*)*(?:(?:i|i'm|i've|i'd|we|we've|my|our|someone"
    r"|somebody)\b(?!.*\b"
    r"(?:tonight|tomorrow|next|upcoming|weekend|evening|want|would like|plan|planning|going)\b)|(?:card|phone"
    r"|wallet) got\b)|\s*(?:我|今天我"
    r"|昨[天晚]我?|刚[刚才]我?)(?!.*(?:明天|今晚|周末|想|下周))",
    re.IGNORECASE,
)
_LOOK_UP = re.compile(
    rf"\b(?:{_LOOKED_UP}|(?:know|tell|show|see|find|check|wonder|ask|look|hear|view|list|watch\w*|read|play\w*)\b)"
    r"|天气|新闻|汇率|股|价|比分|行情|路况|知道|查|看",
    re.IGNORECASE,
)


def is_of_the_moment(whole: str, words: frozenset[str]) -> bool:
    """words: those of Latin script in it, in lower case. A word problem carries the numbers that it asks about, and
    what happened to the asker yesterday does not change how such things are mended."""
    text = _question(whole)
    if not _speaks_of_the_moment(text, words) or _is_word_problem(whole):
        return False
    if not (_MEND.search(whole) and (_I.search(whole) or not whole.isascii())):
        return True
    clauses = _CLAUSE.split(text)
    others = [each for each in clauses if not _SITUATION.match(each) or _LOOK_UP.search(each)]
    return len(others) == len(clauses) or any(_speaks_of_the_moment(each, words) for each in others)


def _is_word_problem(text: str) -> bool:
    """ "Ann has 3 pens today and buys 4, Bob has twice as many. How many does she have now?" """
    if _WORLD.search(text) or _FIRST_OR_SECOND.search(text):
        return False
    count = len(_QUANTITY.findall(text))
    if count > 2 or (count == 2 and _BETWEEN.search(text)):
        asked = _HOW_MANY.search(text)
        if asked is not None:
            premise = text[: asked.start()] + text[asked.end() :]
            subject = asked["whose"] or asked["aged"] or ""
            if asked["old"] and not _AGES.search(premise):
                return False
            if _THIRD.search(text) or (len(subject) > 2 and subject.lower() in _WORD.findall(premise.lower())):
                return True
    if text.isascii() or _WORLD_ZH.search(text) or len(_QUANTITY_ZH.findall(text)) < 2:
        return False
    return all(each.search(text) for each in (_HOW_MANY_ZH, _THIRD_ZH, _BETWEEN_ZH))


def _speaks_of_the_moment(text: str, words: frozenset[str]) -> bool:
    if _MOMENT.search(text) and _MOMENT.search(_NO_MOMENT.sub(" ", text)):
        return True
    if not words.isdisjoint(_STANDS) and any(map(_STANDING.search, SENTENCE.split(text))):
        return True
    return not text.isascii() and bool(_MOMENT_ZH.search(_NO_MOMENT_ZH.sub(" ", text)))


def _question(text: str) -> str:
    """What a longer text asks: its sentences with a question mark and its last one. The others tell a story, and the
    "last week" of a story is not the week before this one."""
    told = _TOLD.findall(text)
    if len(told) < _STORY:
        return text
    return " ".join([sentence for sentence in told[:-1] if sentence.rstrip().endswith(("?", "？"))] + told[-1:])
