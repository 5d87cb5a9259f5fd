"""When is near near enough? First form: a cautious threshold of the embedder's own, then every guard must agree.

Pure. The measured false-hit rate and the reader come with the next step; they will stand here.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from cache.entry import Entry, Refusal
from cache.guards import first_objection
from cache.policy import Verdict, unacceptable
from cache.question import Question


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
