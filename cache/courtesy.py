"""What people say around a question without changing it: greetings, thanks, "could you tell me", 请问, 谢谢.

Only at the two ends of a text, and never in a text that may be *about* such words ("How do you say thank you in
Thai?"). When it is not sure that a word is mere courtesy, the word stays: that costs a miss.
"""

import re

# Behind 请 these make a polite request; before anything else it may mean to hire (请律师) or to take leave (请病假).
ZH_ASKED = (
    "帮|告诉|告知|解释|介绍|讲|说明|说说|说一|说出|给我|给出|给一|提供|列|描述|写|翻译|总结|分析|推荐|举|简|概|比较|对比|回答|用一|用中|用英|用简"
    "|用通|用表|用[a-zA-Z0-9]|把|将|以|生成|查|计算|算|确认|证明|详细|教我|教教我|谈谈|根据|阐述|论述|评价|设计|制定|创建|实现|问"
    "|协助|查看|看一|选择|提醒|回复|安排|处理|核实|检查|继续|修改|优化|改写|润色|扩写|续写|编写|统计|判断|识别|提取|归纳|尽快|找出|补充"
    "|你帮|你告诉|你解释|你给|你介绍|你说|你用|你把|你写"
)
_STARTER = (
    r"(?:how|what|what's|whats|when|where|where's|why|who|who's|which|whose|can|could|would|will|should|shall|may"
    r"|do|does|did|is"
    r"|are|was|were|has|have|i|i'm|im|i'd|i've|my|we|our|please|pls|plz|kindly|tell|show|give|help|explain"
    r"|describe|translate"
    r"|cancel|track|reset|list|convert|book|need|want|looking|just|quick|sorry|excuse|um|uh|so|there|if|let)\b"
)
_ASKED = r"(?=(?:how|what|what's|when|where|why|who|which|whose|if|whether)\b)"
# The text may be about the courtesy itself: then nothing is taken away.
_MENTION = re.compile(
    r"\b(?:translat\w*|say|says|said|saying|spell\w*|mean|means|meaning|words?|phrases?|pronounc\w*|rhym\w*"
    r"|greeting\w*|lyrics?"
    r"|songs?|sang|sing|sung|wrote|write|written|reply|respond|compose|etymology|synonyms?|quote|movie|film|album"
    r"|episode)\b"
    r"|翻译|意思|怎么说|如何说|怎么读|怎么写|歌词|英语|英文|日语|法语|韩语|回复|造句|成语|这个词|拼音|歌曲|唱",
    re.IGNORECASE,
)
_SEPARATOR = r"[\s,.!:;~—–-]"
_OPEN = re.compile(
    "^(?:"
    + "|".join(
        [
            r"(?:hi+|hello|hey+|hiya|greetings|good (?:morning|afternoon|evening|day)|dear (?:team|all|support"
            r"|sir or madam|sir|madam))"
            r"(?: (?:there|team|all|everyone|everybody|guys|folks|support|sir|madam))?"
            + rf"{_SEPARATOR}+(?={_STARTER})",
            rf"(?:u+m+|u+h+m*|hmm+|erm+){_SEPARATOR}+",
            rf"(?:so|well|ok|okay|yeah|yes|er|ah|oh|sorry(?: to bother you)?|excuse me"
            rf"|(?:just )?(?:a )?quick (?:question|one)){_SEPARATOR}+(?={_STARTER})",
            r"(?:please )?(?:solve|answer) (?:this|the following)(?: (?:problem|question))?\s*:\s*(?=\S)",
            r"(?:question|q)\s*:\s*(?=\S)",
            r"(?:please|pls|plz|kindly)[\s,]+(?=\S)",
            r"(?:could|can|would|will) you (?:please |kindly |pls |plz )?(?:tell me|let me know|explain to me) "
            + _ASKED,
            r"(?:could|can|would|will) you (?:please|kindly|pls|plz) (?=\S)",
            r"(?:tell me|let me know) " + _ASKED,
            r"(?:do|would) you (?:happen to )?know " + _ASKED,
            r"i (?:just )?(?:want|wanted|would like|need)(?: to) (?:know|ask|find out) " + _ASKED,
            r"i'd (?:just )?like to (?:know|ask|find out) " + _ASKED,
            r"(?:i was (?:just )?wondering|just wondering|i wonder),? " + _ASKED,
            r"(?:may|can|could) i ask(?: you)? " + _ASKED,
        ]
    )
    + ")",
    re.IGNORECASE,
)
_THANKS = (
    r"(?:many thanks|thanks?(?: you)?(?: (?:a lot|so much|very much|in advance|again|a million|a bunch"
    r"|for your help))*|thank u|thx|tnx"
    r"|cheers|(?:kind |best |warm )?regards)"
)
_CLOSE = re.compile(
    rf"(?:[.,!?;\n][\s~—–-]{{0,5}}{_THANKS}|(?<=[.?!\n])\s{{0,5}}(?:answer|a)\s{{0,5}}:"
    r"|(?<!\bof)(?<!\bfor)(?<!\bmy)(?<!\bis)(?<!\ba)(?<!\bthe)(?<!\bwith)(?<!\band)(?<!\bto)(?<!\bno)(?<!\bgive)(?<!\bcalled)(?<!\bnamed)"
    r"[\s,]{1,5}(?:thanks|thank you|thx|please|pls|plz))[\s.!~:)]{0,9}$",
    re.IGNORECASE,
)
_ZH_PAUSE = r"[，,。.！!？?～~：:、\s]"
_ZH_OPEN = re.compile(
    "^(?:"
    + "|".join(
        [
            rf"(?:你好|您好|hi|hello|哈喽|哈啰|嗨|嘿|亲|在吗|早上好|上午好|中午好|下午好|晚上好|大家好|打扰了"
            rf"|不好意思)[啊呀]?{_ZH_PAUSE}+(?=\S)",
            r"(?:你好|您好)(?=请|我想|怎么|怎样|如何|什么|为什么|为啥|麻烦|帮我|哪)",
            rf"(?:请问一下|请问下|请问|打扰一下|劳驾|我?想?请教一下|麻烦问一下|麻烦问下|我?想问一下|我?想问下|我?想问问"
            rf"|我想问){_ZH_PAUSE}*(?=\S)",
            r"(?:我想|想)(?:知道|了解)(?:一下)?(?=怎|如何|什么|为什么|哪|谁|多少|几|是否|有没有)",
            r"(?:请|麻烦你?)告诉我(?=怎|如何|什么|为什么|哪|谁|多少|几|是否|有没有)",
            r"麻烦你?(?=帮|告诉|解释|介绍|查|看)",
            rf"请(?={ZH_ASKED})",
        ]
    )
    + ")",
    re.IGNORECASE,
)
_ZH_CLOSE = re.compile(
    rf"{_ZH_PAUSE}{{1,5}}(?:谢谢[你啦了]?|谢谢大家|多谢了?|感谢|谢啦|谢了|拜托了?|麻烦了|辛苦了)[！!。.~～\s]*$"
    rf"|(?<=..)[啊呀哦]{{1,3}}[？?！!。.~～\s]*$"
)
_ZH_A_BIT = re.compile(r"(?<=[说讲绍释问看查询诉解荐])一下(?![午子班雨课车单飞载线雪楼水床来去手场])")
_ALONE = re.compile(
    rf"^(?:(?:hi+|hello|hey+|hiya|good (?:morning|afternoon|evening|day))(?: there| team| all| everyone)?|{_THANKS}"
    rf"|please|pls"
    rf"|你好啊?|谢谢[你啦了]?|多谢|感谢|嗨|哈喽|在吗|请问)$",
    re.IGNORECASE,
)
_ENDING = 60  # characters at the end of a text in which thanks may stand
_EDGE = " \t\r\n,.!?;:，。！？；：~～…—–-"


def without_courtesy(text: str, language: str) -> str:
    """The text without what is only polite; unchanged in a language that is neither "en" nor "zh".

    A text that is nothing but a greeting or thanks becomes empty."""
    if language not in ("en", "zh"):
        return text
    if _ALONE.match(text.strip(_EDGE)):
        return ""
    if language == "zh":
        text = text.replace("您", "你")
    text = text.strip()
    opening, closing = (_OPEN, _CLOSE) if language == "en" else (_ZH_OPEN, _ZH_CLOSE)
    rest = text
    for _ in range(6):  # "Hi team, quick question, could you please tell me how ..."
        shorter = opening.sub("", rest, count=1)
        shorter = shorter[:-_ENDING] + closing.sub("", shorter[-_ENDING:], count=1)
        if shorter == rest or not shorter.strip():
            break
        rest = shorter
    if (rest != text or language == "zh") and _MENTION.search(text):
        return text
    text = rest
    return _ZH_A_BIT.sub("", text) if language == "zh" else text
