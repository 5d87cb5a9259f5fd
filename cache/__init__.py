"""What a request MEANS, and whether we know the answer. Knows no HTTP, never imports `proxy`.

Read in this order; a module imports only what stands above it:

    errors                      what can go wrong, one class per thing that somebody does something about
    question · entry            the facts: Question, Scope, Reach, Trait · Answer, Entry, Hit, Miss
    fingerprint · traits        canonical bytes, exact key and proof, wording · what kind of question is it
    policy · guards · trust     how far may it travel · near is not the same · is near near enough     (pure)
    asking                      from a request body to a Question
    protocols                   the seams: Embedder, VectorIndex, EntryStore
    embedder · index · store    those who wait: models, vectors, rows
    tiers                       session · recent · similar
    tiered                      TieredCache: lookup, keep, store, forget, explain
    opening                     open_cache: the one place that puts the parts together

Write path: `keep` (memory, at once) → `store` (durable) → index.  Read path: session → recent → similar.
`proxy` sees only the names below.
"""

from cache.asking import Caller, ask
from cache.entry import Answer, Entry, Hit, Likeness, Miss, Refusal
from cache.errors import CacheError, StateError, StoreUnavailable
from cache.opening import CacheSettings, open_cache
from cache.policy import (
    Controls,
    Outcome,
    Rules,
    Verdict,
    Why,
    flight_key,
    inadmissible,
    judge,
)
from cache.protocols import Clock, Selection
from cache.question import Kind, Question, Reach, Scope, Trait
from cache.tiered import TieredCache
from cache.trust import Candidate, Explanation

__all__ = [
    "Answer",
    "CacheError",
    "CacheSettings",
    "Caller",
    "Candidate",
    "Clock",
    "Controls",
    "Entry",
    "Explanation",
    "Hit",
    "Kind",
    "Likeness",
    "Miss",
    "Outcome",
    "Question",
    "Reach",
    "Refusal",
    "Rules",
    "Scope",
    "Selection",
    "StateError",
    "StoreUnavailable",
    "TieredCache",
    "Trait",
    "Verdict",
    "Why",
    "ask",
    "flight_key",
    "inadmissible",
    "judge",
    "open_cache",
]
