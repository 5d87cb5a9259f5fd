"""What the cache knows: answers, the entries that hold them, and the two outcomes of a lookup.

Times are seconds since the Unix epoch, so that they mean the same after a restart and on another replica.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cache.evidence import Evidence
from cache.question import Kind, Reach, Scope

Vector: TypeAlias = NDArray[np.float32]  # shape (dim,), unit length


class Likeness(StrEnum):
    """In which way a stored question equals the asked one; the order is from surest to least sure."""

    EXACT = "exact"  # same canonical bytes, proven
    WORDING = "wording"  # same words in the same order
    MEANING = "meaning"  # near vectors, and every guard agreed


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer.

    body: one JSON object, the `chat.completion` or `text_completion` that a non-streaming call returns, without
    its `id` (each delivery gets a new one).  tokens: completion tokens, None where the worker did not say.
    prompt_tokens: likewise."""

    body: bytes
    tokens: int | None
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A question that was answered.

    id: 63 random bits, unique in a store.  reach: how far the answer may travel (never NOWHERE).
    created_s, expires_s: absolute, a hit does not extend them.
    embedder: name of the embedder that made `vector`; both None where the entry is never compared by meaning.
    Vectors of different embedders are never compared.  tags: names by which it can be forgotten, see `cache.tags`."""

    id: int
    kind: Kind
    scope: Scope
    text: str | None
    key: str
    proof: str
    wording: str | None
    reach: Reach
    answer: Answer
    created_s: float
    expires_s: float
    embedder: str | None = None
    vector: Vector | None = field(default=None, compare=False)
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something was near, but somebody objected.

    by: the guard's or rule's name.  reason: for a person.  similarity: cosine in [-1, 1]."""

    entry_id: int
    text: str
    similarity: float
    by: str
    reason: str


class Hit(NamedTuple):
    """An answer that may be served. tier: `session`, `recent` or `similar`. age_s: since the answer was made.

    A NamedTuple, as immutable as the other facts and made in a quarter of their time: every hit makes one."""

    entry: Entry
    tier: str
    likeness: Likeness
    age_s: float
    similarity: float | None = None
    refused: tuple[Refusal, ...] = ()
    vector: Vector | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Miss:
    """No answer may be served. reason: one word for metrics and headers; detail: for a person.

    vector: the question's embedding when it was made, so that storing needs no second one.
    nearly: id of the entry that was most likely right, and not sure enough to be served; None = there was none."""

    reason: str
    detail: str = ""
    refused: tuple[Refusal, ...] = ()
    vector: Vector | None = field(default=None, compare=False)
    nearly: int | None = None
