"""What a text itself says about how far its answer may travel: one person's data, his account, bound to the moment,
asking for a new thing.

Only what can be read off the text, in English and Chinese; what a request's fields say (tools, logprobs ...) is the
business of `asking`, and what follows from a trait is that of `policy`. When unsure, a trait is set: it costs a hit,
its absence could cost somebody's privacy. `language` is offered here too: the other thing a text says about itself.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from cache.identifiers import (
    asks_own,
    holds_identifier,
    identifies_a_person,
    names_somebody,
    speaks_of_own,
    tells_own,
)
from cache.language import language
from cache.moment import SENTENCE, is_of_the_moment
from cache.question import Trait
from cache.wording import folded

__all__ = ["language", "traits_of"]

_LONGEST_SEARCHED = 60_000  # characters of all turns together: about 20 ms of prose, 85 ms of digits
_LONGEST_WEIGHED = 40_000  # of the earlier ones, those whose sentences are weighed
_TURN = 60  # characters that take as long as one turn by itself
_LONGEST_KEPT = 4_000  # of a turn whose reading is remembered: 1,024 of them are some megabytes
_LONGEST_READ = 8_000  # characters; a longer text is read at both ends, where people put their question
_WORD = re.compile(r"[a-z]+")
_POINTS_BACK = re.compile(
    r"\b(?:where|when|what|how|has|have|is|are|was|were|did|does|will|why)\b(?:'s)?[^?.!]{0,20}\b(?:it|they|them|that"
    r"|this|one|these|those)\b|^\W*(?:where|when|status|which|and|any news)\W*$",
    re.IGNORECASE,
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
# The same by words: nothing of `_MUSE` stands in a text without one of them.
_MUSING = frozenset(
    _WORD.findall(
        "poem poems poetry verse verses haiku haikus limerick limericks sonnet sonnets rhyme rhymes story stories"
        " tale tales fable fables joke jokes pun puns riddle riddles song songs lyrics rap raps novel novels slogan"
        " slogans tagline taglines motto mottos essay essays blog blogpost blogposts tweet tweets caption captions"
        " speech speeches toast toasts dialogue dialogues screenplay screenplays script scripts monologue monologues"
        " plot plots name names nickname nicknames username usernames pick pickup fun trivia compliment compliments"
        " insult insults love wish wishes greeting ideas one quote quotes surprise random randomly make cheer coin"
        " roll brainstorm role roleplay another something your different creative guess"
    )
)
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
    """PERSONAL, ACCOUNT, TIME_BOUND and CREATIVE as the text shows them; NO_TEXT when there is none; LONG_TEXT when not
    everything that may show whose affair it is could be read.

    other_user_texts: earlier user turns; one person's data or affair in them makes the whole question his, because the
    answer may repeat it. around: what may be a company's document, such as the message around a marked question:
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
        found.add(Trait.PERSONAL if names_somebody(ends) else Trait.ACCOUNT)
    if any(map(tells_own, sentences)):
        found.add(Trait.PERSONAL)
    if Trait.PERSONAL not in found:
        found |= _told(text, other_user_texts, around)
    words = frozenset(_WORD.findall(ends.lower()))
    if is_of_the_moment(ends, words):
        found.add(Trait.TIME_BOUND)
    if not (words.isdisjoint(_MUSING) and ends.isascii()) and any(map(_asks_new, sentences)):
        found.add(Trait.CREATIVE)
    return frozenset(found)


def _told(text: str, earlier: Sequence[str], around: Sequence[str]) -> set[Trait]:
    """PERSONAL where somebody's data stands in this turn or in what he said before, ACCOUNT where only his affairs do.

    Newest first, and no more than so many characters in all, since this runs on the event loop. What is left unread
    makes the request exact only: its answer is shared with nobody who does not send the same words."""
    if holds_identifier(folded(text[:_LONGEST_SEARCHED])):
        return {Trait.PERSONAL}
    found: set[Trait] = set()
    left = _LONGEST_SEARCHED - len(text)
    weighed = _LONGEST_WEIGHED
    for holds_data, turns in ((holds_identifier, reversed(earlier)), (identifies_a_person, around)):
        for turn in turns:
            if left <= 0:
                return found | {Trait.LONG_TEXT}
            look = _turn_says if len(turn) > _LONGEST_KEPT else _remembered
            says = look(turn[:left], max(weighed, 0) if weighed < len(turn) else None, holds_data)
            if says is Trait.PERSONAL:
                return {Trait.PERSONAL}
            if says is not None:
                found.add(says)
            left -= len(turn) + _TURN
            weighed -= len(turn)
    return found | {Trait.LONG_TEXT} if left < 0 or weighed < 0 else found


def _turn_says(turn: str, weighed: int | None, holds_data: Callable[[str], bool]) -> Trait | None:
    """weighed: characters whose sentences are read; None = all."""
    words = folded(turn)
    sentences = _sentences(words[:weighed])
    if holds_data(words) or any(map(tells_own, sentences)):
        return Trait.PERSONAL
    if any(asks_own(each) or speaks_of_own(each) for each in sentences):
        return Trait.PERSONAL if names_somebody(words) else Trait.ACCOUNT
    return None


_remembered = lru_cache(maxsize=1024)(_turn_says)  # a chat sends its earlier turns again with every new one


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in SENTENCE.split(text) if sentence.strip()]


def _ends(text: str) -> str:
    if len(text) <= _LONGEST_READ:
        return text
    return f"{text[: _LONGEST_READ // 2]}\n{text[-_LONGEST_READ // 2 :]}"


def _goes_on_about_own(sentences: Sequence[str]) -> bool:
    """ "I mean my order of last week. Where is it?" """
    return len(sentences) > 1 and any(map(speaks_of_own, sentences)) and any(map(_POINTS_BACK.search, sentences))


def _asks_new(sentence: str) -> bool:
    if _MUSE.search(sentence) and _NEW.search(sentence) and not _NOT_NEW.search(sentence):
        return True
    return not sentence.isascii() and bool(_NEW_ZH.search(sentence)) and not _NOT_NEW_ZH.search(sentence)
