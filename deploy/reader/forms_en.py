"""English questions in another form: `reworded` asks the same, `misasked` sounds alike and asks for something else."""

import random
import re
from pathlib import Path

from frames import alternatives, families, said_otherwise

_SLOT = r"[^?!.;]+?"
_FAMILIES = families(Path(__file__).parent / "frames" / "en.txt", _SLOT, spaced=True)

# Words that may stand for one another wherever they stand, in questions as people ask them.
_WORDS = alternatives("""
colour | color
favourite | favorite
cancelled | canceled
organise | organize
licence | license
centre | center
metres | meters
grey | gray
autumn | fall season
cell phone | mobile phone | cellphone
flat | apartment
luggage | baggage
parcel | package
buy | purchase
film | movie
e-mail | email
sofa | couch
kids | children
doctor | physician
remove | get rid of
switch off | turn off
switch on | turn on
contact | get in touch with
misplaced | lost
can't remember | don't remember | forgot
eligible for | entitled to
immediately | right away | at once
for free | free of charge | at no cost
begin | start
log in | sign in | login
large | big
photo | picture
not working | broken | doesn't work
what is | what's
it is | it's
i am | i'm
cannot | can't
do not | don't
does not | doesn't
is not | isn't
will not | won't
did not | didn't
i would like | i'd like
vacation | holiday
application | app
""")  # fmt: skip

_IF = re.compile(r"(?P<q>(?:how|what|can|do|does|is|will|where|who|should|may|am)\b[^?.,;]+?) (?P<c>(?:if|when) "
                 r"(?:i|my|the|it|you|we|he|she|they|there|an?|someone)\b[^?.,;]+)", re.IGNORECASE)  # fmt: skip
_IF_FIRST = re.compile(r"(?P<c>(?:if|when) [^?.,;]+), (?P<q>(?:how|what|can|do|does|is|will|where|who|should|may|am)\b"
                       r"[^?.,;]+)", re.IGNORECASE)  # fmt: skip
_TOLD_FIRST = re.compile(r"(?P<t>(?:i|my|the|we|our)\b[^?.]+?)[.,] (?P<q>(?:how|what|can|do|does|is|will|where|who|"
                         r"should|may|am|why)\b[^?.]+)\??", re.IGNORECASE)  # fmt: skip
_MOST_WORDS = 14


def _fits(slots: dict[str, str]) -> bool:
    x = slots["x"].lower()
    first = x.split(" ", 1)[0]
    return len(x.split()) <= _MOST_WORDS and first not in ("not", "i", "it", "this", "that") and " or " not in f" {x} "


def _cleaned(said: str, rng: random.Random) -> str:
    said = re.sub(r"\bi\b", "I", said)
    if rng.random() < 0.6:
        said = said[0].upper() + said[1:]
    return said if said.endswith("?") or rng.random() < 0.4 else said + "?"


def framed(text: str, rng: random.Random) -> str | None:
    """How do I X? -> what do I need to do to X"""
    said = said_otherwise(text, _FAMILIES, _fits, rng, missing=False)
    return said and _cleaned(said, rng)


def clauses_moved(text: str, rng: random.Random) -> str | None:
    """What do I do if Y? -> If Y, what do I do?  I lost it. How do I X? -> How do I X? I lost it."""
    core = text.strip("?. ")
    if match := _IF_FIRST.fullmatch(core):
        return _cleaned(f"{_small(match['q'])} {_small(match['c'])}", rng)
    if match := _IF.fullmatch(core):
        return _cleaned(f"{_small(match['c'])}, {_small(match['q'])}", rng)
    if match := _TOLD_FIRST.fullmatch(core):
        told = match["t"]
        return f"{match['q'][0].upper()}{match['q'][1:]}? {told[0].upper()}{told[1:]}."
    return None


def _small(clause: str) -> str:
    return clause if clause[:2] in ("I ", "I'") else clause[0].lower() + clause[1:]


def other_words(text: str, rng: random.Random) -> str | None:
    found = []
    for word, others in _WORDS:
        match = re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text, re.IGNORECASE)
        if match:
            found.append((match, others))
    if not found:
        return None
    match, others = rng.choice(found)
    other = rng.choice(others)
    if match.group()[0].isupper():
        other = other[0].upper() + other[1:]
    return text[: match.start()] + other + text[match.end() :]


def reworded(text: str, rng: random.Random) -> str | None:
    """The same question in another form, at times in other words, too."""
    said = None
    for way in rng.choice(((framed, clauses_moved), (clauses_moved, framed))):
        said = way(text, rng)
        if said:
            break
    return (other_words(said or text, rng) if said is None or rng.random() < 0.4 else None) or said


def misasked(text: str, rng: random.Random) -> str | None:
    said = said_otherwise(text, _FAMILIES, _fits, rng, missing=True)
    return said and _cleaned(said, rng)


_FILLERS = frozenset(
    [
        "a",
        "an",
        "the",
        "do",
        "does",
        "did",
        "i",
        "you",
        "to",
        "is",
        "are",
        "am",
        "my",
        "your",
        "please",
        "can",
        "could",
        "would",
        "of",
        "it",
        "be",
        "will",
        "me",
        "in",
        "on",
        "for",
        "at",
        "with",
        "that",
        "have",
        "has",
        "there",
    ]
)
_STAY = frozenset(["how", "what", "when", "where", "who", "why", "which", "no", "not", "without"])


def keywords(text: str, rng: random.Random) -> str | None:
    """How do I cancel my subscription? -> how cancel subscription. Only how-to questions: there no filler decides."""
    if not re.match(r"how (do|can) i ", text, re.IGNORECASE):
        return None
    words = text.strip("?. ").split()
    kept = [word for word in words if word.lower() not in _FILLERS - {"in", "on", "for", "at", "with", "your"}]
    if not 3 <= len(kept) < len(words) or len(words) > 10:
        return None
    first, *rest = kept
    return rng.choice((" ".join(kept), " ".join([*rest, first]), " ".join(rest))).lower()


_STORIES = (
    "I looked everywhere on your website and couldn't find it. ", "Not sure if this is the right place to ask. ",
    "I hope somebody can help me with this. ", "A friend told me to ask here. ", "I've been wondering about this. ",
    "Sorry if this was asked before. ", "My wife asked me this and I had no idea. ", "I read the FAQ twice already. ",
    "I'm a bit lost here. ", "I tried to google it, without luck. ", "I'm not good with these things. ",
)  # fmt: skip


def story(text: str, rng: random.Random) -> str | None:
    """Words around the question that change nothing about it."""
    told = rng.choice(_STORIES)
    if len(text.split()) > 30:
        return None
    body = text if rng.random() < 0.7 else text.lower()
    if rng.random() < 0.3:
        return f"{body.rstrip('?. ')}? {told.strip()}"
    return told + body
