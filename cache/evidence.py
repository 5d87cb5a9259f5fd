"""What was known when an answer was served by meaning, and what was learned about it afterwards. Facts only.

Evidence travels: with the hit, inside the reply token, into the label that a shadow check, a user or a curator gives.
"""

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Who says that a served answer was right or wrong. Labels keep it, so that one source can be forgotten."""

    SHADOW = "shadow"  # a fresh generation was compared with the stored answer
    FEEDBACK = "feedback"  # a user said so
    CURATOR = "curator"  # somebody with the role `curate` said so
    IMPORTED = "imported"  # the operator's own labelled questions


@dataclass(frozen=True, slots=True)
class Evidence:
    """What trust saw of one pair of questions when it decided.

    similarity: cosine in [-1, 1].  features: what the calibration named `calibration` is computed from, in its order
    (`trust.FEATURES`).  p_right: the estimated probability that the stored answer is right, in [0, 1]."""

    similarity: float
    features: tuple[float, ...]
    p_right: float
    calibration: str


@dataclass(frozen=True, slots=True)
class Label:
    """One judgement about one served (or nearly served) pair.

    weight: one over the probability with which this pair was chosen to be judged, ≥ 1.
    at_s: seconds since the Unix epoch; labels fade.  principal: keyed digest of who said it, "" for ourselves."""

    right: bool
    source: Source
    at_s: float
    weight: float
    tenant: str
    model: str
    entry_id: int
    evidence: Evidence
    principal: str = ""
