"""What a request means to the cache: the question, and the scope inside which its answers may be shared.

Lives here: the facts, and the table that says which request fields can change an answer.
Must not live here: HTTP, I/O, judgement (that is `policy`).
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Reach(IntEnum):
    """How far an answer may travel. Ordered: a reach includes every smaller one."""

    NOWHERE = 0  # neither read nor stored
    SESSION = 1  # this conversation only
    RECENT = 2  # same scope, same bytes or same wording
    SIMILAR = 3  # same scope, same meaning


class Trait(StrEnum):
    """A property of a question that limits how far its answer may travel."""

    PERSONAL = "personal"  # carries one person's data: SESSION at most
    ACCOUNT = "account"  # asks about the asker's own account or affair: SESSION at most, or as `Rules` says
    TIME_BOUND = "time-bound"  # now, today, latest: short life or none
    NOT_TEXT = "not-text"  # images, audio, files: exact only
    LOGPROBS = "logprobs"  # exact only
    SEVERAL_CHOICES = "several-choices"  # n > 1 or best_of > 1: exact only
    TOOLS = "tools"  # the model may call tools: exact only
    TOOL_RESULTS = "tool-results"  # a turn carries a tool's result: exact only
    STRUCTURED = "structured"  # response_format or guided decoding
    NO_TEXT = "no-text"  # nothing to compare: exact only
    LONG_TEXT = "long-text"  # longer than is compared: exact only
    CREATIVE = "creative"  # asks for something new each time


class Kind(StrEnum):
    """The endpoint family a question came through; kinds never share answers."""

    CHAT = "chat"
    COMPLETION = "completion"


@dataclass(frozen=True, slots=True)
class Scope:
    """A hard partition: answers are shared inside a scope, never across.

    tenant: keyed digest or configured name.  model: as the worker calls it.
    key: 32 hex digits, keyed digest of (tenant, kind, model, and every field that can change the answer,
    prior turns included, with the question's own text taken out)."""

    tenant: str
    model: str
    key: str


@dataclass(frozen=True, slots=True)
class Past:
    """What was said before a question, as far as its lineage goes (see `cache.lineage`). Digests are 32 hex digits.

    turns: of the exact text of the turns that the question may lean on, oldest first; none where it stands alone.
    receipts: under which each of these may have been noted, in the same order.  whole: whether these are all turns.
    asked: of the question and the turns before it, from each place where a later chain may begin; with the answer each
    makes a receipt of this turn.
    fresh, exact: scope key, key and proof of the question without its turns, and of the request as it stands.
    reason: how this past was chosen, for a person.
    said, unsaid: the asker's words in these turns and the question, and in all others."""

    turns: tuple[str, ...]
    receipts: tuple[str, ...]
    whole: bool
    asked: tuple[str, ...]
    fresh: tuple[str, str, str]
    exact: tuple[str, str, str]
    reason: str
    said: tuple[str, ...]
    unsaid: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leeway:
    """What a question's key leaves out of account.

    exact: scope key, key and proof of the request with all of it.  taken: (kind, value) of what stood in the system
    prompt.  reordered: marked documents count in any order."""

    exact: tuple[str, str, str]
    taken: tuple[tuple[str, str], ...] = ()
    reordered: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """One request, read once.

    text: what is compared by wording and by meaning (the last user turn); None = exact only.
    key: 32 hex digits, xxh3-128 of the canonical bytes.  proof: 32 hex digits of a keyed SHA-256 over the same
    bytes, compared before serving because xxh3 is fast but not collision-resistant.
    wording: 32 hex digits, fingerprint of the text's words; None = nothing left to compare.
    limit: most completion tokens the caller accepts; None = the model's default.
    session: keyed digest of a *strong* session identity; None = no SESSION tier for this request.
    past: what was said before; None = the request is known by its exact bytes only.  recognised: how many of its turns
    are known to have been answered from an entry.
    leeway: what the key leaves out; None = nothing.  counted: why what might be left out is in it all the same."""

    kind: Kind
    scope: Scope
    text: str | None
    key: str
    proof: str
    wording: str | None
    traits: frozenset[Trait]
    limit: int | None
    session: str | None
    past: Past | None = None
    recognised: int = 0
    leeway: Leeway | None = None
    counted: str | None = None
