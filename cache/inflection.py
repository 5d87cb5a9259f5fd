"""English inflection, and nothing more: which forms are one word.

A stemmer such as Snowball's (Porter2) also joins different words: universe and university, news and new, organ and
organization, general and generous. Behind the wording fingerprint stands no guard that could notice, so only known
verbs and plain plurals are brought to their base form here, and whatever is not known stays as it is. Two words
wrongly kept apart cost a miss; two words wrongly joined cost a wrong answer.

`plain` is the cautious form, for the fingerprint. `lemma` also undoes past tenses, for the guards, which look at tense
separately.
"""

from functools import lru_cache

from cache.words import listed, words

_REGULAR = listed("""
    accept access achieve activate adapt add adjust admit advise afford agree allow amend analyse analyze announce
    answer appeal apply appoint approve archive arrange arrive ask assign attach attend authorise authorize avoid ban
    block boil book borrow bounce browse cache calculate call cancel capture care carry cause change charge chat check
    choose claim clean clear click climb close collect combine come comment commit compare compile complain complete
    compute confirm connect consider contact contain continue contribute control convert cook copy correct count cover
    crash create credit cross customise customize dance deactivate debug decide declare decline decrease define delay
    delete deliver deny depart deploy deposit describe design detect determine develop die differ disable discard
    disconnect discover dispute distribute divide donate double download downgrade drop dry earn edit email employ
    empty enable encrypt end enrol enroll enter erase escape estimate exchange exclude execute exercise exist exit
    expand expect expire explain export extend extract fail fasten fax fetch file fill finish fix flag flash flush fold
    follow force format fry gain generate grant graph guess handle happen hate help hide highlight hire hit hope import
    improve include increase infect inform inherit insert inspect install integrate invest invite invoice issue iterate
    join jump kick kill knock label land last laugh launch learn lend like limit link list listen load lock log look
    lower maintain manage map mark measure mention merge migrate miss mix modify monitor mount move multiply mute name
    need notify obtain offer open operate order organise organize own pack paint park parse pass paste pause perform
    pick place plan plant play plug post pour practise practice prepare preserve press prevent print process produce
    prohibit promise protect prove provide publish pull purchase push qualify query queue quote raise rate reach react
    reactivate read rebook receive recharge recommend record recover recycle redeem redirect reduce refer refill
    refresh refund refuse register reject relate release reload remain remember remind remove rename renew rent repair
    repeat replace reply report request require reschedule reserve reset resize resolve restart restore restrict resume
    retry return reverse review revoke roll rotate save scan schedule scroll search select sell separate serve share
    ship shop shout show shut sign skip slice smoke solve sort specify spell split spread start state stay steal stop
    store stream study submit subscribe subtract suggest supply support surf suspend swap switch sync talk tax
    terminate test thank touch track trade train transfer translate transport travel treat trigger troubleshoot trust
    try turn type unarchive unblock uninstall unlink unlock unmute unpack unpause unsubscribe update upgrade upload
    urge use vaccinate validate verify view visit vote wait walk want warn wash watch water wear weigh withdraw work
    worry wrap write zip zoom make take give get put run set sit swim win begin forget bring buy build catch do drive
    drink eat feed feel find fly grow go have hear hold keep know leave let lose mean meet pay ride ring rise say see
    send shoot sing sleep speak spend stand stick swear sweep teach tell think throw wake hurt cut burn become break
    choose
    """)
# fmt: off
_IRREGULAR = {
    "made": "make", "took": "take", "taken": "take", "gave": "give", "given": "give", "got": "get", "gotten": "get",
    "ran": "run", "sat": "sit", "swam": "swim", "won": "win", "began": "begin", "begun": "begin", "forgot": "forget",
    "forgotten": "forget", "brought": "bring", "bought": "buy", "built": "build", "caught": "catch", "did": "do",
    "done": "do", "does": "do", "drove": "drive", "driven": "drive", "drank": "drink", "drunk": "drink", "ate": "eat",
    "eaten": "eat", "fed": "feed", "felt": "feel", "found": "find", "flew": "fly", "flown": "fly", "grew": "grow",
    "grown": "grow", "went": "go", "gone": "go", "goes": "go", "had": "have", "has": "have", "heard": "hear",
    "held": "hold", "kept": "keep", "knew": "know", "known": "know", "left": "leave", "lost": "lose", "meant": "mean",
    "met": "meet", "paid": "pay", "rode": "ride", "ridden": "ride", "rang": "ring", "rung": "ring", "risen": "rise",
    "said": "say", "saw": "see", "seen": "see", "sent": "send", "shot": "shoot", "sang": "sing", "slept": "sleep",
    "spoke": "speak", "spoken": "speak", "spent": "spend", "stood": "stand", "stuck": "stick", "taught": "teach",
    "told": "tell", "thought": "think", "threw": "throw", "thrown": "throw", "woke": "wake", "came": "come",
    "became": "become", "broke": "break", "broken": "break", "chose": "choose", "chosen": "choose", "wrote": "write",
    "written": "write", "wore": "wear", "worn": "wear", "withdrew": "withdraw", "withdrawn": "withdraw",
    "stole": "steal", "stolen": "steal", "sold": "sell", "shown": "show", "lent": "lend", "understood": "understand",
    "hid": "hide", "hidden": "hide", "dying": "die", "tying": "tie", "lying": "lie", "children": "child",
    "men": "man", "women": "woman", "people": "person", "feet": "foot", "teeth": "tooth", "mice": "mouse",
    "lives": "life", "wives": "wife", "knives": "knife", "leaves": "leave", "halves": "half", "shelves": "shelf",
    "travelling": "travel", "travelled": "travel", "cancelling": "cancel", "cancelled": "cancel",
    "labelling": "label", "labelled": "label", "modelling": "model", "modelled": "model", "controlling": "control",
    "controlled": "control", "enrolling": "enrol", "enrolled": "enrol", "enroll": "enrol", "programme": "program",
    "programmes": "program", "loses": "lose", "losing": "lose", "analyses": "analysis", "criteria": "criterion",
    "diagnoses": "diagnosis",
}
# A gerund that is also a thing: "parking in London" is not "park in London".
_THINGS = words("""
    parking building meeting setting booking opening shipping training saving listing rating painting planning landing
    drawing feeling beginning finding holding reading banking writing spelling filing packing cleaning cutting ending
    mapping marking dressing heading lining living mining passing planting posting pricing printing processing
    recording reporting running sailing serving showing sitting spending standing teaching thinking timing topping
    trading turning typing understanding warning washing watering wedding winning wrapping backing bearing boxing
    casting coming clearing crossing clothing housing lighting engineering gaming marketing advertising accounting
    cooking dancing climbing fishing hiking swimming riding smoking learning programming testing ordering hiring
    offering burning going having being making mixing missing working loading mounting ringing rising rolling scanning
    seeing stocking touching wanting wearing tracking coding king ring thing string spring wing sing bring during
    morning evening nothing something anything everything ceiling sibling pudding
    """)
# Ends in s, but is no plural; or a plural that is another word than its singular.
_NO_PLURAL = words("""
    news this thus plus less always perhaps besides afterwards towards sometimes whereas does goes was has gas bus
    yes us is as its his ours yours theirs goods customs arms glasses savings means physics maths mathematics
    economics politics ethics statistics athletics gymnastics mechanics electronics logistics analytics basics
    graphics genetics lens series species shorts pants jeans trousers scissors spirits manners contents damages
    grounds premises terms directions forces works times peoples airs colours colors waters looks papers minutes
    headquarters barracks outskirts christmas paris texas james charles thomas jones williams edwards roberts
    richards adams stephens phillips peters evans daniels michaels andrews matthews jacobs simmons hawkins brooks
    woods fields rivers banks mills parks powers sanders rogers myers walters summers winters masters bowers watts
    harris morris collins hopkins jenkins perkins stevens owens hughes wales athens brussels naples netherlands
    philippines maldives honduras barbados laos cyprus mars venus windows teams maps sheets slides docs aids rapids
    measles diabetes rabies herpes hives mumps odds ends kudos thanks regards congratulations cons pros upstairs
    downstairs overseas indoors outdoors needs boss loss class glass pass access address process express business
    success progress status virus bonus campus focus census radius genius corpus versus apparatus analysis basis
    crisis thesis axis emphasis diagnosis oasis synopsis hypothesis tennis iris chess bias atlas canvas alias
    gallows sales assets earnings earns securities bonds futures options rights spices clothes https corps macos
    vans boots gates jobs cheers friends
    """)
# fmt: on
_IE_PLURALS = words("movies cookies selfies zombies calories pixies hoodies brownies smoothies")
_VOWELS = "aeiou"
_DOUBLING = words("""
    admit ban chat commit drop get cut hit let log map outbid permit plan plug put refer regret run scan set ship
    shop shut sit skip split step stop submit swap swim tag tap tip transfer trip travel cancel label model win
    wrap zip begin forget reset unplug equip dip pin grab hug rob sub unpin rip clip snap fit pat control enrol
    spam cap pop nap beg sum
    """)


def _ing(verb: str) -> str:
    if verb in _DOUBLING:
        return f"{verb}{verb[-1]}ing"
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return f"{verb[:-1]}ing"
    return f"{verb}ing"


def _past(verb: str) -> str:
    if verb in _DOUBLING:
        return f"{verb}{verb[-1]}ed"
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return f"{verb[:-1]}ied"
    return f"{verb}ed"


VERBS = frozenset(_REGULAR)
_GERUNDS = {_ing(verb): verb for verb in _REGULAR}
_PASTS = {_past(verb): verb for verb in _REGULAR if len(verb) > 2}


@lru_cache(maxsize=20_000)
def singular(word: str) -> str:
    """A lower-case word without its plural (or third person) s, where that is surely what it is."""
    if len(word) < 4 or not word.endswith("s") or word in _NO_PLURAL or word.endswith(("ss", "us", "is", "ous", "'s")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y" if len(word) > 5 and word not in _IE_PLURALS else word[:-1]
    if word.endswith(("sses", "xes", "ches", "shes")) and word not in ("aches", "caches", "axes"):
        return word[:-2]
    return word[:-1]


@lru_cache(maxsize=20_000)
def plain(word: str) -> str:
    """The base form of a lower-case word: plurals, and the -ing of known verbs that are not also things.

    Past forms stay: "locked card" is a complaint, "lock card" is a request."""
    if word.endswith("ing"):
        return word if word in _THINGS else _GERUNDS.get(word, word)
    return singular(word)


@lru_cache(maxsize=20_000)
def lemma(word: str) -> str:
    """The base form of a lower-case word, past tenses and gerunds included."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ing"):
        return _GERUNDS.get(word, word)
    if word.endswith("ed"):
        return _PASTS.get(word, word)
    if word.endswith("'s"):
        return lemma(word[:-2])
    return singular(word)
