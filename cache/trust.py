"""When is near near enough? Guards, the reader, the margin to the runner-up and what this scope's labels taught. Pure.

Three steps, because reading takes time and deciding must not:

    nominate   policy, the floor and the hard guards take out what cannot be served, whatever else speaks for it
    (the reader reads the best of the rest; somebody else waits for it)
    decide     features -> p_low >= bar(budget), see `calibration`; the best candidate is served or nobody

*Hard guards* (numbers, units, language, marks, whatever one side adds: a clause, an order, a role, hidden characters)
decide alone: they are right where small models fail. All other guards are evidence for the calibration.

*The cautious way* needs no reader: a cosine from the embedder's own threshold on, and not one guard that objects. Of
what passed it in our development streams 12 of 1,387 were wrong by their labels (hwu64's slots left out), so it serves
where the budget is 1 % or more, whatever the reader says: guards see what small models miss, and the other way round.
Where no reader was calibrated for the embedder it is the only way, and no budget can be promised. A pair that was not
read (too late) is served this way or not at all, and a long one never: a common preamble makes any two questions near.

The grey band: not sure enough to serve, but above half of that; a judge may be asked about it."""

import hmac
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cache.calibration import Calibration, Features, described, probability
from cache.entry import Entry, Hit, Likeness, Miss, Refusal, Vector
from cache.evidence import Evidence
from cache.followups import other_sense, sense
from cache.guards import objections, read
from cache.policy import Verdict, unacceptable
from cache.question import Question
from cache.wording import worded

HARD = frozenset(("language", "numbers", "units", "marks", "tail", "roles", "unseen", "sentences", "orders", "added"))
READ = 2  # candidates the reader reads: each costs milliseconds of a core
NEARLY = 0.8  # so probably right, and its like is told afresh to the letter: then the two mean the same
CAUTIOUS = "cautious"  # the name that stands for a calibration where none was used
CAUTIOUS_WRONG = 0.01  # of what goes the cautious way, see above
CAUTIOUS_RIGHT = 1.0 - CAUTIOUS_WRONG
SHORT = 40  # tokens of both, at least: in longer ones what they share drowns the words that differ
WINDOW = 128  # tokens of both questions together that the reader reads


@dataclass(frozen=True, slots=True)
class Candidate:
    """One neighbour, and everything that speaks against it. Empty `against` = it would be served.

    reader: its logit, None where it did not read.  p_right, bar: the estimate and what it must reach, in [0, 1]."""

    text: str
    similarity: float
    age_s: float
    against: tuple[tuple[str, str], ...]
    reader: float | None = None
    p_right: float | None = None
    bar: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the cache would do with a question, and why."""

    question: Question
    verdict: Verdict
    outcome: Hit | Miss
    threshold: float | None
    candidates: tuple[Candidate, ...]


def likeness_of(entry: Entry, question: Question) -> Likeness | None:
    """In which sure way the stored question equals the asked one; None = by meaning at best."""
    if entry.key == question.key and hmac.compare_digest(entry.proof, question.proof):
        return Likeness.EXACT
    if question.wording is not None and entry.wording == question.wording:
        # The fingerprint finds, the words decide: xxh3 can be made to collide, and this likeness passes no guard.
        if entry.text is None or question.text is None:
            return None
        same = worded(entry.text) == worded(question.text) or (
            question.past is not None and bool(question.past.turns) and sense(question.text) is not None
            and sense(entry.text) == sense(question.text)
        )  # fmt: skip
        return Likeness.WORDING if same else None
    return None


def sure(
    found: Iterable[Entry], question: Question, verdict: Verdict, tier: str, clock: Callable[[], float]
) -> Hit | None:
    """The first entry that equals the question in bytes or in words, and may be served."""
    for entry in found:
        now_s = clock()
        likeness = likeness_of(entry, question)
        threshold = verdict.controls.threshold
        if likeness is None or (likeness is not Likeness.EXACT and threshold is not None and threshold >= 1.0):
            continue
        if unacceptable(entry, question, verdict, now_s) is None:
            return Hit(entry, tier, likeness, max(0.0, now_s - entry.created_s))
    return None


@dataclass(frozen=True, slots=True)
class Near:
    """A neighbour.  agreement: log of the chance that asked and stored question have the same known answer; None where
    no labels of the operator's are known."""

    entry: Entry
    similarity: float
    agreement: float | None = None


@dataclass(frozen=True, slots=True)
class Nominee:
    """A neighbour that nothing forbids.  doubts: (guard, reason) of the guards that object without deciding."""

    near: Near
    doubts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Nominated:
    """best first; at most READ of them are read."""

    nominees: tuple[Nominee, ...]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a scope. offset, deviation: see `Belief.offset`.  bar: the p_low that it takes here.
    cautiously: whether the cautious way keeps the budget."""

    offset: float
    deviation: float
    bar: float
    cautiously: bool = True


@dataclass(frozen=True, slots=True)
class Weighed:
    """chosen: the entry that may be served, with its cosine; None when every candidate was refused.

    grey: an entry that a judge may be asked about, when nobody was chosen."""

    chosen: Entry | None
    similarity: float | None
    refused: tuple[Refusal, ...]
    evidence: Evidence | None = None
    grey: Entry | None = None


def below(similarity: float, floor: float) -> str:
    """In words. Cut, not rounded: a cosine that is refused must not read as if it were enough."""
    return f"{math.floor(similarity * 1000) / 1000:.3f} is below {floor:.3f}"


def nominate(
    question: Question, near: Iterable[Near], floor: float, verdict: Verdict, now_s: float, *, most: int = READ,
    window: int | None = None,
) -> Nominated:  # fmt: skip
    """Take out what cannot be served.  near: best first.  floor: cosine in [0, 1], tested on every candidate.
    window: longest pair in tokens, estimated; a longer one is not even weighed, nobody could read it. None = any."""
    refused: list[Refusal] = []
    nominees: list[Nominee] = []
    asked = read(question.text or "")
    floor = max(floor, verdict.controls.threshold or 0.0)
    for each in near:
        entry, similarity = each.entry, each.similarity
        stored = entry.text or ""
        if similarity < floor:
            refused.append(Refusal(entry.id, stored, similarity, "threshold", below(similarity, floor)))
            break  # the others are farther still
        reason = unacceptable(entry, question, verdict, now_s)
        if reason is not None:
            refused.append(Refusal(entry.id, stored, similarity, "policy", reason))
            continue
        if window is not None and tokens_of(question.text or "") + tokens_of(stored) > window:
            refused.append(Refusal(entry.id, stored, similarity, "trust", "the two are too long to be read together"))
            continue
        reason = other_sense(question.text or "", stored)
        if reason is not None:
            refused.append(Refusal(entry.id, stored, similarity, "sense", reason))
            continue
        found = objections(asked, read(stored))
        deciding = next((each for each in found if each.guard in HARD), None)
        if deciding is not None:
            refused.append(Refusal(entry.id, stored, similarity, deciding.guard, deciding.reason))
            continue
        nominees.append(Nominee(each, tuple((doubt.guard, doubt.reason) for doubt in found)))
        if len(nominees) == most:
            break
    return Nominated(tuple(nominees), tuple(refused))


def decide(
    question: Question, nominated: Nominated, logits: Sequence[float | None], calibration: Calibration | None,
    standing: Standing, cautious: float, known: float | None = None,
) -> Weighed:  # fmt: skip
    """Serve the best candidate, or nobody and say why.

    logits: the reader's, one per nominee, None where it did not read.  cautious: the embedder's own threshold, for what
    was not read.  known: how surely the asked question is one whose answer is known, in [0, 1]; None = no labels."""
    refused = list(nominated.refused)
    nominees = nominated.nominees
    weighed: list[tuple[float, Nominee, Evidence]] = []
    for place, nominee in enumerate(nominees):
        entry, similarity = nominee.near.entry, nominee.near.similarity
        logit = logits[place]
        against = _cautiously(nominee, cautious)
        short = calibration is None or tokens_of(question.text or "") + tokens_of(entry.text or "") <= SHORT
        if against is None and standing.cautiously and short:
            weighed.append((CAUTIOUS_RIGHT, nominee, Evidence(similarity, (), CAUTIOUS_RIGHT, CAUTIOUS)))
            continue
        if calibration is None or logit is None:
            against = against or ("trust", "the reader did not read it, and this budget takes more than the guards")
            refused.append(Refusal(entry.id, entry.text or "", similarity, *against))
            continue
        features = features_of(question, nominees, logits, place, known)
        low = calibration.p_low(features, standing.offset, standing.deviation)
        expected = probability(calibration.z(features) + standing.offset)
        weighed.append((low, nominee, Evidence(similarity, features, expected, calibration.name)))
    weighed.sort(key=lambda each: -each[0])
    grey: Entry | None = None
    for low, nominee, evidence in weighed:
        entry = nominee.near.entry
        if evidence.calibration == CAUTIOUS or low >= standing.bar:
            return Weighed(entry, nominee.near.similarity, _nearest_first(refused), evidence)
        if grey is None and low >= standing.bar / 2:
            grey = entry
        refused.append(
            Refusal(entry.id, entry.text or "", nominee.near.similarity, "trust", _unsure(low, standing.bar, nominee))
        )
    return Weighed(None, None, _nearest_first(refused), weighed[0][2] if grey is not None else None, grey)


def _nearest_first(refused: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """The story of a miss is that of the nearest neighbour."""
    return tuple(sorted(refused, key=lambda each: -each.similarity))


def outcome_of(weighed: Weighed, vector: Vector, tier: str, now_s: float) -> Hit | Miss:
    """What the one who asks is told.  vector: the question's.  tier: whose neighbours were weighed."""
    if (entry := weighed.chosen) is not None:
        age_s = max(0.0, now_s - entry.created_s)
        return Hit(entry, tier, Likeness.MEANING, age_s, weighed.similarity, weighed.refused, vector, weighed.evidence)
    if weighed.refused:
        first = weighed.refused[0]
        reason = "nothing-near" if first.by == "threshold" else "refused"
        nearly = weighed.grey is not None and weighed.evidence is not None and weighed.evidence.p_right >= NEARLY
        told = f"{first.by}: {first.reason}"
        return Miss(reason, told, weighed.refused, vector, weighed.grey.id if nearly and weighed.grey else None)
    return Miss("nothing-near", "no neighbour in this scope", vector=vector)


def features_of(
    question: Question, nominees: Sequence[Nominee], logits: Sequence[float | None], place: int, known: float | None
) -> Features:
    """In the order of `calibration.FEATURES`; the candidate at `place` must have been read."""
    nominee = nominees[place]
    return described(
        [each.near.similarity for each in nominees], logits, {guard for guard, _ in nominee.doubts}, place,
        chinese=read(question.text or "").chinese, agreement=nominee.near.agreement, known=known,
    )  # fmt: skip


def tokens_of(text: str) -> int:
    """How many tokens a text has at least: one for a Chinese character, one for six of another script."""
    wide = sum(1 for sign in text if sign >= "\u2e80") if not text.isascii() else 0
    return wide + (len(text) - wide) // 6


def _cautiously(nominee: Nominee, cautious: float) -> tuple[str, str] | None:
    """What speaks against a pair that nobody read."""
    if nominee.near.similarity < cautious:
        return "threshold", below(nominee.near.similarity, cautious)
    return nominee.doubts[0] if nominee.doubts else None


def _unsure(low: float, bar: float, nominee: Nominee) -> str:
    needed = f"{bar:.3f} is needed" if bar <= 1.0 else "no certainty is enough for this budget"
    doubted = f"; {nominee.doubts[0][0]}: {nominee.doubts[0][1]}" if nominee.doubts else ""
    return f"right with {math.floor(low * 1000) / 1000:.3f} at least, {needed}{doubted}"


def examined(
    question: Question, verdict: Verdict, near: Sequence[Near], weighed: Weighed, readings: dict[int, float],
    floor: float, bar: float, now_s: float,
) -> tuple[Candidate, ...]:  # fmt: skip
    """Every neighbour with everything that speaks against it, for `explain`; the decision is the one that was made.

    readings: the reader's logits by entry id."""
    asked = read(question.text or "")
    refusals = {refusal.entry_id: (refusal.by, refusal.reason) for refusal in weighed.refused}
    found = []
    for each in near:
        entry, stored = each.entry, each.entry.text or ""
        served = weighed.chosen is not None and weighed.chosen.id == entry.id
        against: list[tuple[str, str]] = []
        if not served:
            if each.similarity < floor:
                against.append(("threshold", below(each.similarity, floor)))
            reason = unacceptable(entry, question, verdict, now_s)
            if reason is not None:
                against.append(("policy", reason))
            if entry.id in refusals and refusals[entry.id] not in against:
                against.append(refusals[entry.id])
            against += [
                (doubt.guard, doubt.reason)
                for doubt in objections(asked, read(stored))
                if (doubt.guard, doubt.reason) not in against
            ]
            if not against:
                preferred = "a nearer or surer question was preferred"
                against.append(("trust", preferred if weighed.chosen else f"only the {READ} nearest are read"))
        right = weighed.evidence.p_right if served and weighed.evidence is not None else None
        found.append(
            Candidate(stored, each.similarity, max(0.0, now_s - entry.created_s), tuple(against),
                      readings.get(entry.id), right, bar)
        )  # fmt: skip
    return tuple(found)
