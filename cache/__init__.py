"""What a request MEANS, and whether we know the answer. Knows no HTTP, never imports `proxy`.

Read in this order; a module imports only what stands above it:

    errors                      what can go wrong, one class per thing that somebody does something about
    question · evidence · entry the facts: Question, Scope, Reach, Trait · Answer, Entry, Hit, Miss
    fingerprint · traits        canonical bytes, exact key and proof, wording · what kind of question is it
    rates                       how often is something wrong, and how sure does a count make us of it   (pure)
    logistic · calibration      how probable is it that an answer is right, and what must it reach     (pure)
    anchors · adapted · belief  what the operator's labels taught, and what a scope's own say
    worth · tags                what an answer is worth keeping · by what names it can be forgotten            (pure)
    templates · changing        patterns that an operator writes · what changed between two prompts    (pure)
    policy · guards · trust     how far may it travel · near is not the same · is near near enough     (pure)
    comparison · comparator     do two answers to one question say the same
    leeway                      what a question's key may leave out, and when it must not               (pure)
    standalone · lineage        does a turn lean on those before it · what was meant before a question     (pure)
    asking                      from a request body to a Question
    protocols                   the seams: Embedder, Reader, VectorIndex, EntryStore
    embedder · index · store    those who wait: models, vectors, rows
    reader · assessor           reads two questions side by side · asks it, weighs, learns from labels
    receipts                    which turn was answered from which entry
    tiers                       session · recent · similar
    cuts                        beginnings of answers, to be continued
    lab                         what would be decided for a pair of questions
    reviews                     what people say of answers: labels, quarantine, release
    tiered                      TieredCache: lookup, keep, store, forget, explain
    opening                     open_cache: the one place that puts the parts together
    adapting · coaching         what trust, and what the reader, learn from labelled questions
    schooling                   `rejoinder train`: both, and which of old and new is kept

Write path: `keep` (memory, at once) → `store` (durable) → index.  Read path: session → recent → similar.
`proxy` sees only the names below.
"""

from cache.adapting import Labelled
from cache.asking import Caller, ask
from cache.changing import Changed, alike, changed
from cache.comparator import Comparator
from cache.comparison import Agreement, Comparison, known_other
from cache.embedder.breaker import Breaker
from cache.entry import Answer, Entry, Hit, Likeness, Miss, Refusal
from cache.errors import CacheError, StateError, StoreUnavailable
from cache.evidence import Evidence, Label, Source
from cache.lab import Compared
from cache.leeway import instructions
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
from cache.protocols import Clock, Embedder, Judge, Selection, Stage, Timed
from cache.question import Kind, Question, Reach, Scope, Trait
from cache.rates import Rate, corrected_rate, effective_number, wilson
from cache.review import Served
from cache.schooling import Schooled, school
from cache.store.board import SharedBoard
from cache.store.journal import SharedJournal
from cache.tags import of_asker, of_session, of_source, of_tag
from cache.tags import plain as plain_name
from cache.tags import told as told_names
from cache.templates import read_pattern, read_split
from cache.tiered import TieredCache
from cache.trust import Candidate, Explanation

__all__ = [
    "Agreement",
    "Answer",
    "Breaker",
    "CacheError",
    "CacheSettings",
    "Caller",
    "Candidate",
    "Changed",
    "Clock",
    "Comparator",
    "Compared",
    "Comparison",
    "Controls",
    "Embedder",
    "Entry",
    "Evidence",
    "Explanation",
    "Hit",
    "Judge",
    "Kind",
    "Label",
    "Labelled",
    "Likeness",
    "Miss",
    "Outcome",
    "Question",
    "Rate",
    "Reach",
    "Refusal",
    "Rules",
    "Schooled",
    "Scope",
    "Selection",
    "Served",
    "SharedBoard",
    "SharedJournal",
    "Source",
    "Stage",
    "StateError",
    "StoreUnavailable",
    "TieredCache",
    "Timed",
    "Trait",
    "Verdict",
    "Why",
    "alike",
    "ask",
    "changed",
    "corrected_rate",
    "effective_number",
    "flight_key",
    "inadmissible",
    "instructions",
    "judge",
    "known_other",
    "of_asker",
    "of_session",
    "of_source",
    "of_tag",
    "open_cache",
    "plain_name",
    "read_pattern",
    "read_split",
    "school",
    "told_names",
    "wilson",
]
