"""One person inside a text: his data and his affairs.

Data are e-mail addresses, phone, card, bank and identity numbers, numbered orders, names, what he tells of his health
and money; patterns with their check digits where a standard has them. Affairs are the state of his own things: "Where
is my order?", not "How do I return an order?". A false alarm costs hits, an oversight somebody's privacy, so the
patterns are wide; none of them takes more than linear time on a hostile text.
"""

import re
from collections.abc import Sequence

_DIGIT = re.compile(r"\d")
_EMAIL = re.compile(r"[\w+-]@[\w-]{1,63}\.\w")  # any script: ahmed@müller.de
_SPOKEN = re.compile(
    r"\b\w+ ?(?:@|\bat\b) ?\w+ dot (?:com|org|net|edu|co|io)\b|\w ?[(\[{] ?(?:at|@) ?[)\]}] ?[\w-]{1,63} ?(?:\."
    r"|[(\[{] ?(?:dot|\.) ?[)\]}]| dot ) ?\w",
    re.IGNORECASE,
)
_DIGIT_RUN = re.compile(
    r"(?<![\d$€£¥A-Za-z_])(?<!\d[.,])\+?\(?\d(?:(?:[ ().·‐‑‒–—-]{0,2}|[,/_*|:;、，])\d){8,22}(?![\d%])"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+\Z")
_LISTED = re.compile(r"[,/_*|:;、，]")
_DATE_LIKE = re.compile(r"\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{2,4}")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")
_NATIONAL_ID = re.compile(
    r"(?<!\d)(?:\d{3}[-. –]\d{2}[-. –]\d{4}|\d{17}[\dXx])(?!\d)"
    r"|\b[A-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b",  # United Kingdom: two letters, six digits, a letter
    re.ASCII,
)
# Marks that name one thing of one person by their very form: parcels (UPU S10, UPS), cars (ISO 3779, British and
# Chinese plates), street addresses and British postcodes.
_MARK = re.compile(
    r"\b[A-Z]{2}\d{9}[A-Z]{2}\b|\b1Z[0-9A-Z]{16}\b|\b(?=[A-Z]*\d)(?=\d*[A-Z])[A-HJ-NPR-Z\d]{17}\b"
    r"|\b[A-Z]{2}\d{2} ?[A-Z]{3}\b"
    r"|[京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-Z][·• ]?[A-Z0-9]{5,6}(?![A-Za-z0-9])"
    r"|\b[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}\b|\b\d{1,5}[A-Za-z]? (?:[A-Z][\w'.-]{1,20} ){1,3}(?:Street|St|Road|Rd|Avenue"
    r"|Ave|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Place|Square|Way|Close|Terrace|Crescent|Gardens)\b"
    r"|[\u4e00-\u9fff](?:路|街|大道|巷|弄|胡同)\d{1,5}(?:号|弄|栋|-\d)|\d{1,4}(?:号楼|栋|单元)\d{1,4}",
    re.ASCII,
)
_IP = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)")
_NOBODYS_IP = re.compile(
    r"(?:0|10|127|255)\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\.|8\.8\.[84]\.[84]|1\.[01]\.[01]\.1$"
)
_THING = (
    r"(?:order|account|ticket|invoice|booking|reservation|tracking|case|reference|ref|confirmation|customer|member"
    r"|membership|policy|claim|transaction|parcel|package|shipment|delivery|passport|licence|license|iban|imei"
    r"|patient|employee|student|user|phone|tel|telephone|mobile|card|pnr|contract|application|subscription|serial"
    r"|refund|complaint|request|ssn|nhs|plate)"
)
_NUMBERED_THING = re.compile(
    rf"\b(?P<my>my )?{_THING}"
    r"(?P<named>(?:'s)?[ -]?(?:number|num|nr|no\.?|id|code|ref(?:erence)?|#)?[\s,.;]*(?:is|was|:|="
    r"|#)?\s*#?\s*)(?P<id>(?=[\w-]*\d)[A-Za-z0-9][\w-]+)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![A-Za-z&])#\d[\w-]*\d|(?:\bno\.|№|\bnumber:?) ?#?\d[\w-]{2,}\d", re.IGNORECASE)
_SHORT_NUMBER = re.compile(
    r"\bcards?\b[^.?!\n]{0,16}\bend(?:s|ing)?(?: in| with|:)? ?\d{3,4}\b|尾号(?:是|为|：|:)?\s?\d{3,4}|\b(?:cvv|cvc"
    r"|otp|pin)2?(?: code)?(?: is|:)? ?\d{3,8}\b|\b(?:call|text|phone|ring|reach|contact|sms|whatsapp"
    r"|tel)\.?:? (?:(?:me|us|him|her) )?(?:at |on |under )?[+(]?\d{3}[ .-]?\d{3}|(?:微信|QQ|qq)(?:号码?)?(?:是|为|："
    r"|:|\s)*(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{5,}",
    re.IGNORECASE,
)
_BOOKING = re.compile(
    r"\b(?:[Pp][Nn][Rr]|[Bb]ooking|[Rr]eservation|[Cc]onfirmation|[Rr]ecord [Ll]ocator)(?: (?:code|number|reference"
    r"|ref))?(?: is|:)? (?=[A-Z0-9]{5,8}\b)(?!PLEASE|CANCEL|NUMBER|STATUS|SYSTEM|TICKET)[A-Z0-9]+"
)
_NUMBERED_THING_ZH = re.compile(
    r"(?:订单|账号|帐号|账户|工单|单号|运单|快递|包裹|会员|保单|发票|身份证|银行卡|信用卡|卡号|手机|电话|护照|合同"
    r"|学号|工号|编号|票号|车牌)(?P<named>号码?|编号)?(?:是|为|：|:|#|,|，"
    r"|\s)*(?P<id>(?=[A-Za-z0-9-]*\d)[A-Za-z0-9](?:[A-Za-z0-9-]{3,}"
    r"|[A-Za-z0-9-]{1,2}(?![A-Za-z0-9-天日个元块%年月周小分单折件次万千百])))"
)
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_INTRODUCTION = re.compile(
    r"\bmy (?:full |first |last )?name(?: is|'s) (?!(?:wrong|incorrect|misspelled|not|required|needed|on"
    r"|changed)\b)\w|\bi live (?:at|in) \d|\bmy (?:home |email )?address is (?=\S*\d)|\bi was born (?:on|in)\b"
    r"|\bmy (?:phone|mobile|account|card|order)(?: number)? is (?=\S*\d)|\bmy (?:password|passcode|pin|date of birth"
    r"|birthday|username|user ?name|login) is (?!(?:wrong|incorrect|not|invalid|expired|locked|blocked|lost|forgotten"
    r"|too|required|rejected)\b)\w|我(?:的名字)?叫(?!什么|啥|谁)\w|我姓(?!什么|啥)\w|我的(?:地址|住址|电话|手机号?"
    r"|身份证号?|密码|生日)是(?!什么|多少|哪|啥|不是|否)|我住在?(?!哪|什么)\w{1,12}(?:路|街|号|区|室)",
    re.IGNORECASE,
)

# Health, money and people of one's own, told before a question: the answer is made to measure.
_AILMENT = (
    r"(?:diabet\w*|hiv|aids|cancer|herpes|asthma\w*|epilep\w*|depress\w*|anxiety|bipolar|adhd|autis\w*|hepatitis"
    r"|pregnan\w*|miscarriage|surgery|tumou?r|hypertension|migraines?|arthritis|allerg\w*|std|sti|syphilis|chlamydia"
    r"|gonorrh\w*|schizophren\w*|dementia|parkinson\w*|stroke|heart (?:attack|disease|failure)|high blood pressure"
    r"|breastfeeding|suicidal|addict\w*|alcoholic|overweight|obese|infertil\w*|ptsd|ocd|lupus|kidney disease"
    r"|bankrupt\w*|unemployed|laid off|divorced|evicted|arrested)"
)
_KIN = (
    r"(?:ex|boss|wife|husband|partner|son|daughter|mother|father|mum|mom|dad|brother|sister|friend|girlfriend"
    r"|boyfriend|neighbou?r|landlord|colleague|manager|doctor|teacher|client|tenant)"
)
_TELLS_OWN = re.compile(
    "|".join([
        rf"(?<!if )(?<!when )(?<!know )(?<!whether )\bi(?:'m| am| was| have|'ve| had| suffer"
        rf"| got) (?:[\w'-]+ ){{0,4}}?{_AILMENT}\b",
        rf"\bi(?:'ve| have)? (?:been |was |just )*diagnosed\b|\bmy {_AILMENT}\b",
        r"\bi(?:'m| am)? (?:only |also |currently )?(?:earn|make|owe|take home|taking|take|on|weigh)\b[^.?!]{0,20}?\d",
        r"\bmy (?:salary|income|rent|debt|weight|age|height|wage|savings|credit score) (?:is|are|of) (?:\w+ )?\W?\d",
        r"\bi(?:'m| am) (?:a |an )?\d{1,2}(?:[- ](?:years?|weeks?|months?)|\W*$|,)",
    ]),
    re.IGNORECASE,
)  # fmt: skip
_NAMES_SOMEBODY = re.compile(
    rf"\b[Mm]y (?:\w+ )?{_KIN},? [A-Z][a-z]+|\b(?:I'm|I am|[Tt]his is) (?:Mr|Mrs|Ms|Dr)?\.? ?[A-Z][a-z]+ [A-Z][a-z]+"
    r"|^\W*[A-Z][a-z]+ [A-Z][a-z]+ here\b"
)
_SURNAME = (
    "王李张刘陈杨黄赵吴周徐孙朱胡郭何林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪"
    "范廖贾韦付邹孟熊秦邱尹薛闫段侯陶黎贺顾郝龚邵万严覃"
)
_NAMED = re.compile(
    r"\b(?:[Ff]rom|[Oo]f|[Tt]o|[Bb]y|[Ww]ith|[Nn]amed?) [A-Z][a-z]+ [A-Z][a-z]+|\b(?:Mr|Mrs|Ms|Dr)\b\.? ?[A-Z]"
    r"|^\W*[A-Z][a-z]+ here\b|\b(?:[Ff]or|I'm|I am|[Tt]his is) [A-Z][a-z]+"
    r"|\b(?:[Tt]hanks|[Tt]hank you|[Rr]egards|[Cc]heers|[Ss]incerely|[Yy]ours),?\s+[A-Z][a-z]+(?: [A-Z][a-z]+)?\W*$"
    rf"|(?:收件人|姓名|户名|持卡人|本人)(?:是|叫|为|：|:)?\s?[{_SURNAME}]\w"
)
_TELLS_OWN_ZH = re.compile(
    "|".join([
        rf"我(?:是|叫)(?:[{_SURNAME}])(?:\w{{1,2}})(?:$|[,，。、！!\s])|我(?:的)?(?:老公|老婆|妻子|丈夫|儿子|女儿"
        rf"|爸爸?|妈妈?|男友|女友|男朋友|女朋友|同事|老板|朋友|前任|前夫|前妻|邻居|房东)(?:叫)?[{_SURNAME}]\w{{1,2}}",
        r"(?<!如果)(?<!假如)(?<!知道)(?<!判断)我(?:现在|最近|已经|刚)?(?:得了|得过|患有|患了|患上|确诊|怀孕|感染了"
        r"|流产|有?(?:糖尿病|高血压|抑郁|乙肝|艾滋|心脏病|癌症|哮喘|癫痫)|对\w{1,6}过敏|失业|破产|离婚)|我(?:今年"
        r"|现在)?\d{1,3}岁",
        r"我(?:\w{0,3})(?:月薪|年薪|工资|收入|负债|欠款?|存款|房贷|月收入|年收入)(?:是|有|为|了|大概"
        r"|大约)*[\d一二三四五六七八九十百千万]",
    ])
)  # fmt: skip

# ---- the state of one's own thing --------------------------------------------------------------------------------
_OWN_THING = (
    r"(?:[\w-]+ ){0,3}?(?:orders?|parcels?|packages?|deliver(?:y|ies)|shipments?|refunds?|payments?|transfers?"
    r"|bookings?|reservations?|appointments?|applications?|claims?|subscriptions?|membership|flights?|accounts?"
    r"|balances?|cards?|tickets?|bills?|invoices?|statements?|salary|payslip|paycheck|paychecks|wages?|points"
    r"|rewards?|miles|limit|plan|contract|policy|loan|mortgage|deposit|withdrawals?|transactions?|money|cheque|check"
    r"|results?|grades?|scores?|visa|passport|licence|license|prescriptions?|insurance|trial|items?|stuff|things?"
    r"|purchase|return|exchange|complaint|request|case|tax|taxes|pension|vacation|holiday|pto|leave|schedule|calendar"
    r"|meetings?|alarms?|reminders?|lists?|emails?|messages?|usage|data|credit|debt|bonus|cashback|top[- ]?up"
    r"|winnings|car|phone|luggage|baggage|bag|p60|w2|w-2)"
)
_GENERAL = (
    r"(?:supported|accepted|compatible|covered|safe|secure|insured|protected|guaranteed|valid|legal|normal|allowed"
    r"|taxable|refundable|deductible|eligible|private|encrypted)"
)
_HOW_TO = re.compile(
    r"\bhow (?:do|can|could|should|would|might|must) (?:i|we|you|one|someone|people)\b|\bhow (?:to|does one)\b"
    r"|\b(?:steps?|ways?|process|method|procedure|instructions|possible|able|allowed) (?:to|for|of)\b|\b(?:can|could"
    r"|may|should|must) (?:i|we)\b|\bwhere (?:do|can|could|should|would) (?:i|we)\b|\bwhat (?:do|should|can|must"
    r"|will) (?:i|we) (?:have to |need to )?(?:do|need|bring)\b|\bwhy (?:do|must|should|would) (?:i|we) (?:need"
    r"|have) to\b|\b(?:what|and) if\b",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:my|our|i|me|mine|we|us|where|near\w*|closest|track|trace|status)\b", re.IGNORECASE
)  # without one of these, `_STATE` and `_CERTAIN` and `_TELLS_OWN` cannot match
_DONE = (
    r"(?:ship\w*|arriv\w*|deliver\w*|sent|dispatch\w*|received?|refund\w*|clear\w*|process\w*|approv\w*|paid|posted"
    r"|accepted|reject\w*|declin\w*|cancel\w*|confirm\w*|credited|through|on (?:its|the) way|ready|due|here|back"
    r"|come)"
)
# Asked in whatever way, this is the state of one's own thing or what oneself did: no how-to answers it.
_CERTAIN = re.compile(
    "|".join([
        r"\bwhy (?:was|were|has|have|had|did|wasn't|weren't|hasn't|hasnt|haven't|havent|didn't|didnt|am"
        r"|are you)\b[^?]{0,40}?\b(?:my|our|i|me)\b|\bhow come (?:my|our|i)\b",
        r"\bwhy (?:is|are|isn't|isnt|aren't) (?:my|our|i)\b(?![^?]{0,40}\b(?:working|slow|needed|required|necessary"
        r"|important|asked|being asked)\b)",
        r"\b(?:what|which) (?:did|have|had|was) i (?!do|to)",
        r"\bwhat (?:i|we) (?:ordered|bought|said|asked|wrote|paid|owe|earned?|spent|booked|told you)\b",
        r"\b(?:tell|show|give|send|read) me (?:what |how much )?(?:is |are )?(?:my|i owe|i have (?!to))\b",
        r"\bwhere do (?:i|we) (?:live|work|study|sit)\b|\bhow old am i\b|\bwhat was my\b|\b(?:what|who|which)(?:'s"
        r"| is| are) (?:in|on|inside) (?:my|our)\b",
        r"\b(?:do|did|am|have|had|was|are|were) (?:i|we) (?:still |currently |already )?(?:owe|owed|owing|overdue"
        r"|behind)\b",
        r"^\W*(?:so |and |but |hi |hello |please |well )*(?:(?:am|was|have|did|had) i|(?:have|had|did|are"
        r"|were) we (?=paid|pay|owe|been|receive|book|order|insured|covered|registered|approved|eligible"
        r"|pass)) (?!able|allowed|supposed|required|permitted|going|obliged|right|correct|meant|to\b)\w+",
        rf"^\W*(?:please |can you |could you |will you |would you |i want you to |kindly |just |pls )*(?:cancel"
        rf"|refund|reschedule|pay|send|ship|redeliver|track|rebook|renew|order|transfer|return"
        rf"|re-?send) (?:(?<=refund )(?:me|us)\b|(?:my|our|this|that) {_OWN_THING}\b)",
        r"\b(?:please|can you|could you|will you|i want you to|kindly|pls)\b (?:please |just )?(?:cancel|refund|close"
        r"|delete|change|update|block|unblock|freeze|unfreeze|activate|reset|check|verify|remove|reverse|find|fix"
        r"|stop|apply|add|book|return) (?:\w+ ){0,2}(?:my|our)\b(?! (?:\w+ )?(?:grammar|spelling|code|essay|text"
        r"|answer|writing|sentence|english|cv|resume|letter|homework|script|query|regex|function|sql|calculation"
        r"|maths?)\b)",
    ]),
    re.IGNORECASE,
)  # fmt: skip
# What only its asker can mean: "it", "the parcel".
_DEICTIC = re.compile(
    "|".join([
        rf"\b(?:has|have|hasn't|had|is|are|isn't|did|was|were|wasn't|will|does|do) (?:it(?! take)|they|(?:the|this"
        rf"|that) {_OWN_THING})\b[^?.!]{{0,40}}?\b{_DONE}\b(?! (?:in|within|by default|if|when|for|to|on weekends"
        rf"|at)\b)",
        rf"\bwhen(?:'s|s| is| are| does| do| will) (?:it|they)\b[^?.!]{{0,20}}\b{_DONE}\b",
        r"\b(?:did|have) you (?:get|got|receive|received|send|sent|ship|shipped|charge|charged|cancel|cancelled"
        r"|refund)\b[^?.!]{0,30}\b(?:my|our|me|us|i|we)\b",
    ]),
    re.IGNORECASE,
)  # fmt: skip
_SPEAKS_OF_OWN = re.compile(
    rf"\bmy {_OWN_THING}\b|\bmine\b|\bi(?:'ve| have)? (?:ordered|bought|paid|booked)\b", re.IGNORECASE
)
_WISHES = re.compile(r"\b(?:want|need|like|trying|try|going|plan|wish) to\b|\bif (?:i|my)\b", re.IGNORECASE)
_STATE = re.compile(
    "|".join([
        r"\bwhere(?:'s|s| is| are| was| did| has| have)? (?:my|our)\b",
        rf"\bwhere {_OWN_THING} (?:is|are|went)\b",
        r"\b(?:when|what time|where)(?:'s|s| is| are| was| were) (?:my|our)\b",
        r"\b(?:what|which|who)\b[^?]{0,40}\b(?:am|was) i\b(?! (?:able|allowed|supposed|required|permitted|meant"
        r"|expected|eligible|to\b|going))",
        r"\bdo (?:i|we) (?:qualify|owe)\b|\bhow (?:many|much)\b[^?]{0,20}\b(?:did|have|had) i\b",
        r"\bwhat(?:'s|s| is| was) (?:the )?(?:status|state|balance|outcome|result|progress|amount) (?:of|on"
        r"|for) (?:my|our)\b",
        r"\b(?:what|which|who)\b[^?]{0,30}\b(?:have|know|store|hold|keep|talk\w*|spoke) (?:\w+ )?(?:for|about|on"
        r"|of) (?:me|us|my)\b",
        r"\bwhat (?:did|were|have) we (?:talk|discuss|say|agree|decide|just)\w*|\bdo you have my\b|\b(?:as|by) me\W*$",
        r"\bi(?:'ve| have|'m)? (?:was|got|been|am|never|paid|haven't|havent|didn't|didnt) (?:\w+ )?(?:charged|billed"
        r"|debited|overcharged|refunded|rejected|approved|paid|double|twice|receive|received|got|get|credited)\b",
        rf"\bmy {_OWN_THING} (?:is|was|has been|never|has|have|got|are|were) (?:\w+ )?(?:missing|came|arrived|late"
        r"|wrong|overdue|incorrect|hacked|frozen|gone|refused|returned|delayed|cancel+ed|rejected|deducted|not \w+)\b",
        rf"\bwhen (?:will|does|do|is|are|was|did|can) (?:my|our) {_OWN_THING}\b",
        r"\bwhen (?:will|do|can|am|would|should) i (?:be )?(?:get|getting|receive|receiving|have|paid|pay|refunded"
        r"|charged|expect)\b",
        rf"(?<!why )(?<!come )\b(?:has|have|did|is|are|was|were|will|does|do|hasn't|isn't|haven't|didn't) (?:my"
        rf"|our) {_OWN_THING}\b(?! (?:[\w-]+ ){{0,2}}?{_GENERAL})",
        r"\b(?:what|which|who)(?:'s|s| is| are| was| were| does| did|'re) my\b(?! (?:options?|rights|chances|best"
        r"|next)\b)",
        r"\b(?:how much|how many|how long|how old)\b[^?]{0,25}\b(?:is|are|was|until|till|before|of|on|in) my\b",
        r"\b(?:how much|how many|what|which)\b[^?]{0,40}\b(?:do|did|have|had|am|was) (?:i"
        r"|we) (?:still )?(?:have(?! to (?!pay\b(?! for)))|owe|own|earn|earned|spend|spent|pay|paid|use|used|charged"
        r"|order|ordered|buy|bought|save|saved|left|got|get|booked|scheduled|subscribed|say|said|ask|asked)\b",
        r"\b(?:track|trace|check|show|see|view|read|look up|find|get|pull up|list|display|tell me|give me|know|fetch"
        r"|review) (?:me )?(?:on |about |of |for )?"
        rf"(?:the )?(?:(?:status|state|balance|details|history|progress|list|amount) (?:of|on|for"
        rf"|in) )?my {_OWN_THING}\b",
        r"\bmy (?:[\w-]+ ){0,2}(?:status|balance|history|statement|progress|due date|expiry|location|whereabouts)\b",
        r"^\W*(?:order|delivery|refund|shipment|shipping|parcel|package|claim|application|payment|withdrawal|deposit"
        r"|transaction|present|current) status\b",
        r"\bdo i (?:still )?have (?:any|a|an|some|enough|the|to pay)?\b[^?]{0,60}\b(?:left|today|tomorrow|scheduled"
        r"|points|messages|emails|meetings|appointments|reminders|alarms|balance|credit|money|debts?)\b",
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
    r"怎么(?!还没|还不|回事)|如何|怎样|咋(?!还没|回事)|(?:在)?哪(?:里|儿)?(?:可以|能|能够)?(?:查|看|改|换|申请|办|开"
    r"|设|找|下载|导出|填|取消|更改|修改)|能不能|可以|可不可以|方法|步骤|流程|教程|安全吗"
)
_OWN_THING_ZH = (
    r"(?:订单|快递|包裹|货|物流|余额|账单|积分|工资|退款|申请|会员|套餐|流量|话费|账户|账号|存款|贷款|额度|欠款|花呗"
    r"|借呗|信用分|保单|理赔|预约|预订|机票|车票|航班|酒店|考试|成绩|报告|结果|优惠券|红包|提现|转账|付款|交易|合同"
    r"|签证|护照|社保|公积金|工单|投诉|课程|日程|闹钟|提醒|消息|邮件|年假|假期|还款|欠费|押金|发票|礼品|卡|东西|钱)"
)
_STATE_ZH = re.compile(
    "|".join([
        rf"我(?:们)?的?(?:\w{{0,4}}){_OWN_THING_ZH}(?:\w{{0,6}})(?:到哪|在哪|到了|到没|到账|发货|几时|什么时候|何时"
        rf"|哪天|几号|多久|多少|几|还有|还剩|剩|状态|进度|情况|过期|到期|有没有|没到|没收到|不见|去哪|怎么还没"
        rf"|怎么还不|明细|记录|是什么|通过|批|好了)",
        rf"(?:查|看|查询|看看|告诉|显示|列出|跟踪|追踪)(?:一下|下|我)*我(?:们)?的?(?:\w{{0,4}}){_OWN_THING_ZH}",
        rf"{_OWN_THING_ZH}(?:\w{{0,3}})(?:到哪|去哪了|发货了吗|发货了没|到了吗|到了没|怎么还没|怎么还不|还没到|没收到"
        rf"|到账了吗|通过了吗|批了吗|好了吗|寄到哪|送到哪)",
        r"我(?:还|现在|一共|总共|这个?月|上个?月|上周|这周|今天|昨天|今年|去年|目前|已经)*(?:有|剩|欠|花了?|用了?"
        r"|存了?|买了?|赚了?|挣了?|该还|要还|应还|需要还)(?:下|了)?(?:多少|几|哪些|什么)",
        r"我(?:是谁|在哪|叫什么|几岁|多大|的名字|住哪)|(?:离我|我附近|附近|最近的)|记得我",
        rf"我(?:们)?的{_OWN_THING_ZH}(?:呢|啊)?[？?]?$|我(?:们)?的?\w{{0,3}}{_OWN_THING_ZH}(?:\w{{0,2}})(?:丢了|没了"
        rf"|被|退了)",
        r"我(?:们)?(?!可以|能|是不是可以)(?:的|买的|订的|寄的)?[^，。？！,?!]{1,10}(?:了吗|了没有?|成功吗|过了没)"
        r"|我\w{0,3}(?:考|得|赚|挣|走|跑)了?多少|我(?:们)?(?:的|买的|订的|寄的)\w{1,6}(?:还有多少|还剩|什么时候到"
        r"|几点|哪天)",
        r"(?:查|看)(?:一下|下)?(?:我的)?(?:余额|账单|订单|积分|快递|物流|流量|话费|工资|成绩|违章)|上次我?(?:问|说"
        r"|聊)",
    ])
)  # fmt: skip

_CERTAIN_ZH = re.compile(
    "|".join([
        r"(?:为什么|为何|为啥|怎么)\w{0,4}我(?:们)?的?\w{0,10}?(?:没|还没|未|被|不见|少了|取消了|失效了)",
        r"我(?:们)?的?\w{1,8}?(?:为什么|为何|为啥|怎么)\w{0,6}?(?:没|未|被|取消了|不见了|少了)",
        r"我(?:们)?(?:已经|到底|究竟)?(?:被\w{1,6}|通过|中|考上|录取|及格|合格|逾期|欠费|入选)了?(?:吗|没有?)",
        r"我(?:们)?(?:是不是|是否|有没有)(?:被|已经|通过|逾期|欠|中奖)|我(?:们)?(?:有没有|有|够|是否有"
        r"|符合)(?:\w{0,4})(?:资格|条件)(?:吗|$)",
        r"我(?:们)?(?:上次|上一次|刚才|刚刚|之前|以前|昨天|前面)?(?:都)?(?:问|说|买|订|下单|点|存|借|花|提)(?:了"
        r"|过)(?:什么|哪些|多少|啥|几)",
        r"我(?:们)?(?:还|现在|一共|总共)*(?:欠|该还|要还|应还)(?:了)?(?:你们|银行)?(?:多少|几|钱)",
        r"^\W*(?:请|麻烦|快|帮我|给我|帮忙|帮)+(?:把)?(?:我的?)?\w{0,4}?(?:取消|退|删除|注销|冻结|解冻|催|寄|发货"
        r"|转)(?:一下|掉)?(?:我的?)?(?:订单|款|货|钱|账户|账号|卡|快递|包裹|会员|预约|预订|机票|酒店)",
        r"^\W*(?:取消|退掉?|退还|删除|冻结|注销)(?:一下)?我(?:们)?的",
        r"(?:订单|快递|包裹|货|退款|申请)(?:已经)?(?:发货|发|到|寄出|到账|批|处理|通过|送)了(?:吗|没)",
    ])
)  # fmt: skip


def holds_identifier(text: str) -> bool:
    """Whether an e-mail address, a phone, card, bank or identity number, or a numbered order stands in the text."""
    if _INTRODUCTION.search(text) or ("@" in text and _EMAIL.search(text)) or _SPOKEN.search(text):
        return True
    if _BOOKING.search(text):
        return True
    if not _DIGIT.search(text):
        return False
    return (
        _NATIONAL_ID.search(text) is not None
        or _MARK.search(text) is not None
        or _SHORT_NUMBER.search(text) is not None
        or _NUMBER.search(text) is not None
        or any(_is_long_number(run.group()) for run in _DIGIT_RUN.finditer(text))
        or any(not _NOBODYS_IP.match(match.group()) for match in _IP.finditer(text))
        or any(_is_iban(match.group()) for match in _IBAN.finditer(text))
        or any(map(_is_numbered, _NUMBERED_THING.finditer(text)))
        or any(not _YEAR.match(match["id"]) for match in _NUMBERED_THING_ZH.finditer(text))
    )


def identifies_a_person(text: str) -> bool:
    """Whether an introduction ("my name is Ann"), a national identity number or a payment card stands in the text:
    what no document of a company holds by itself. Its own phone, e-mail address and bank account do not count."""
    if _INTRODUCTION.search(text) or _NATIONAL_ID.search(text):
        return True
    return any(_is_card(run.group()) for run in _DIGIT_RUN.finditer(text))


def tells_own(sentence: str) -> bool:
    """Whether it names somebody, or tells of the speaker's own age, health or money: an answer made to measure."""
    if _NAMES_SOMEBODY.search(sentence) or (_OWN.search(sentence) and _TELLS_OWN.search(sentence)):
        return True
    return not sentence.isascii() and _TELLS_OWN_ZH.search(sentence) is not None


def names_somebody(text: str) -> bool:
    """Whether a name stands in a question about somebody's thing: "the parcel for Jane Roe", "Thanks, Ann"."""
    return _NAMED.search(text) is not None


def asks_own(sentence: str) -> bool:
    """Whether a sentence asks for the state of the asker's own thing, rather than how such things are done."""
    first_person = _OWN.search(sentence)
    if first_person and _CERTAIN.search(sentence):
        return True
    if ((first_person and _STATE.search(sentence)) or _DEICTIC.search(sentence)) and not _HOW_TO.search(sentence):
        return True
    if sentence.isascii():
        return False
    if _CERTAIN_ZH.search(sentence):
        return True
    return _STATE_ZH.search(sentence) is not None and not _HOW_TO_ZH.search(sentence)


def speaks_of_own(sentence: str) -> bool:
    """Whether a sentence names the speaker's own thing: "I mean my order of last week"."""
    return bool(_SPEAKS_OF_OWN.search(sentence)) and not _HOW_TO.search(sentence) and not _WISHES.search(sentence)


def _is_numbered(match: re.Match[str]) -> bool:
    """Two digits are enough behind "my order" or a word such as "no"; otherwise four, and not those of a year."""
    named = bool(match["named"].strip(" -"))
    if len(match["id"]) < 4 and not named and not match["my"]:
        return False
    return named or not _YEAR.match(match["id"])


def _is_long_number(run: str) -> bool:
    """A phone number (9 to 15 digits, E.164) or a card number (13 to 19 digits with a right check digit)."""
    if _DATE_LIKE.match(run.strip("+( ")) or _THOUSANDS.match(run):
        return False
    if _LISTED.search(run) and max(map(len, re.findall(r"\d+", run))) < 3:  # 1,2,3 and 10:30:45
        return False
    return 9 <= sum(map(str.isdigit, run)) <= 15 or _is_card(run)


def _is_card(run: str) -> bool:
    digits = [int(char) for char in run if char.isdigit()]
    return 13 <= len(digits) <= 19 and _luhn(digits)


def _luhn(digits: Sequence[int]) -> bool:
    """The check of card numbers. Source: ISO/IEC 7812-1, annex B."""
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(candidate: str) -> bool:
    """The check of bank account numbers. Source: ISO 13616, modulo 97."""
    plain = candidate.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1
