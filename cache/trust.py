"""When is near near enough? First form: a cautious threshold of the embedder's own, then every guard must agree.

Pure. The measured false-hit rate and the reader come with the next step; they will stand here.
"""

import hmac
import math
from collections.abc import Iterable
from dataclasses import dataclass

from cache.entry import Entry, Hit, Likeness, Miss, Refusal
from cache.guards import first_objection, objections, read
from cache.policy import Verdict, unacceptable
from cache.question import Question
from cache.wording import worded


@dataclass(frozen=True, slots=True)
class Candidate:
    """One neighbour, and everything that speaks against it. Empty `against` = it would be served."""

    text: str
    similarity: float
    age_s: float
    against: tuple[tuple[str, str], ...]


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
        same = entry.text is not None and question.text is not None and worded(entry.text) == worded(question.text)
        return Likeness.WORDING if same else None
    return None


@dataclass(frozen=True, slots=True)
class Weighed:
    """chosen: the entry that may be served, with its cosine; None when every candidate was refused."""

    chosen: Entry | None
    similarity: float | None
    refused: tuple[Refusal, ...]


def below(similarity: float, floor: float) -> str:
    """In words. Cut, not rounded: a cosine that is refused must not read as if it were enough."""
    return f"{math.floor(similarity * 1000) / 1000:.3f} is below {floor:.3f}"


def weigh(
    question: Question, candidates: Iterable[tuple[Entry, float]], threshold: float, verdict: Verdict, now_s: float
) -> Weighed:
    """The first candidate that nobody objects to.

    candidates: (entry, cosine in [-1, 1]), best first.  threshold: cosine in [0, 1], higher is stricter; it is
    tested on the very candidate that is served, not on the nearest one."""
    refused: list[Refusal] = []
    asked = question.text
    if asked is None:
        return Weighed(None, None, ())
    floor = max(threshold, verdict.controls.threshold or 0.0)
    for entry, similarity in candidates:
        stored = entry.text or ""
        if similarity < floor:
            refused.append(Refusal(entry.id, stored, similarity, "threshold", below(similarity, floor)))
            break  # the others are farther still
        reason = unacceptable(entry, question, verdict, now_s)
        if reason is not None:
            refused.append(Refusal(entry.id, stored, similarity, "policy", reason))
            continue
        objection = first_objection(asked, stored)
        if objection is not None:
            refused.append(Refusal(entry.id, stored, similarity, *objection))
            continue
        return Weighed(entry, similarity, tuple(refused))
    return Weighed(None, None, tuple(refused))


def examine(
    question: Question, verdict: Verdict, entry: Entry, similarity: float, threshold: float, now_s: float
) -> Candidate:
    """Everything that speaks against one candidate, where `weigh` stops at the first."""
    against: list[tuple[str, str]] = []
    floor = max(threshold, verdict.controls.threshold or 0.0)
    if similarity < floor:
        against.append(("threshold", below(similarity, floor)))
    reason = unacceptable(entry, question, verdict, now_s)
    if reason is not None:
        against.append(("policy", reason))
    stored = entry.text or ""
    against += [(found.guard, found.reason) for found in objections(read(question.text or ""), read(stored))]
    return Candidate(stored, similarity, max(0.0, now_s - entry.created_s), tuple(against))
