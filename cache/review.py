"""What people said of answers, and what became of those. Facts only; who may decide what is the proxy's to know."""

from dataclasses import dataclass

from cache.entry import Entry
from cache.evidence import Evidence
from cache.question import Scope


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An answer that nobody is served any more, kept so that a person can look at it.

    entry: None where the answer was called wrong before it was stored; its id alone is barred then.
    at_s: seconds since the Unix epoch."""

    entry_id: int
    reason: str
    at_s: float
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Complaint:
    """An answer that somebody called wrong and that is still served to others.

    principals: how many distinct ones said so.  at_s: the latest time.  comments: their own words, latest first."""

    entry_id: int
    principals: int
    at_s: float
    comments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Served:
    """A question that was answered with an entry made for another one, because they mean the same.

    text: what was asked.  evidence: what trust saw, None where nothing weighed it."""

    entry_id: int
    text: str
    scope: Scope
    evidence: Evidence | None
    at_s: float


@dataclass(frozen=True, slots=True)
class Listing:
    """The review queue: what is out of service, and what is complained about but still in it.

    entries: those of the complaints that exist."""

    quarantined: tuple[Quarantined, ...]
    complaints: tuple[tuple[Complaint, Entry], ...]
