"""The word lists, compiled once: which group a word is in, what stands against it, where phrases begin.

Pure data, built at import in a few milliseconds and never changed."""

from dataclasses import dataclass

from cache.guards import chinese, english
from cache.guards.names import MEMBERS


@dataclass(frozen=True, slots=True)
class Lexicon:
    """group: word -> the name of its meaning.  against: word -> the words that contradict it.
    phrases: first word -> the phrases that begin with it, longest first, as (words, joined)."""

    group: dict[str, str]
    against: dict[str, frozenset[str]]
    phrases: dict[str, tuple[tuple[tuple[str, ...], str], ...]]


def compiled(synonyms: str, opposites: str) -> Lexicon:
    group: dict[str, str] = {}
    for line in synonyms.split(";"):
        words = line.split()
        for word in words:
            group.setdefault(word, words[0])
    against: dict[str, set[str]] = {}
    for line in opposites.split(";"):
        left, _, right = (side.split() for side in line.partition("|"))
        for here, there in ((left, right), (right, left)):
            for word in here:
                against.setdefault(word, set()).update(there)
                if word in group:  # what stands against a word stands against its whole group
                    against.setdefault(group[word], set()).update(there)
    known = {*group, *against, *MEMBERS}
    phrases: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for phrase in known:
        words_ = tuple(phrase.split("_"))
        if len(words_) > 1:
            phrases.setdefault(words_[0], []).append((words_, phrase))
    ordered = {first: tuple(sorted(all_, key=lambda item: (-len(item[0]), item[1]))) for first, all_ in phrases.items()}
    return Lexicon(group, {word: frozenset(words) for word, words in against.items()}, ordered)


ENGLISH = compiled(english.SYNONYMS, english.OPPOSITES)
CHINESE = compiled(chinese.SYNONYMS, chinese.OPPOSITES)
