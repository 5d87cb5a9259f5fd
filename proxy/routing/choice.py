"""What was asked of routing, and what it answered. Facts only."""

from dataclasses import dataclass
from enum import StrEnum

from proxy.routing.trail import Trail
from proxy.routing.worker import Worker


@dataclass(frozen=True, slots=True)
class Prompt:
    """What routing knows of one request.

    model: None = the request names none.  session: the digest from `identity`; None = no session.
    trail: None = its prompt has no prefix worth remembering.  size: bytes of the body, where there is no trail.
    stream: the first byte of the answer tells that the prompt was computed.
    unread: the worker will compute all of it, whatever is in its cache, see `proxy.routing.trail.unread`."""

    model: str | None
    session: str | None = None
    trail: Trail | None = None
    size: int = 0
    stream: bool = False
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one worker would cost. tokens and costs are estimates; costs in milliseconds.
    exact: its own KV events say what is resident."""

    worker: Worker
    cost_ms: float
    resident: int
    exact: bool


class Kind(StrEnum):
    """Why a worker was chosen, in one word; for metrics."""

    HOME = "home"  # it answered this session before
    NEW = "new"  # a session's first turn, as far as we know
    MOVED = "moved"  # its home is away, or much busier
    CHEAPEST = "cheapest"  # no session
    ONLY = "only"  # there is no other
    LAST_RESORT = "last resort"  # nobody is up


@dataclass(frozen=True, slots=True)
class Choice:
    """worker: whom to ask.  tokens: of the prompt, resident: of them in its KV cache, both as believed.
    source: who says so.  reason: why this worker, for people: log, header, `explain`."""

    worker: Worker
    kind: Kind
    why: str
    tokens: int = 0
    resident: int = 0
    source: str = ""
    cost_ms: float = 0.0

    @property
    def reason(self) -> str:
        if not self.resident:
            return self.why
        return f"{self.why}; {self.resident} of {self.tokens} prompt tokens are there ({self.source})"
