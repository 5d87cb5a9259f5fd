"""The cache's errors, one class per thing that somebody does something about.

CacheError                    a part of the cache failed; the caller sees a counted miss, never an error
├── StoreUnavailable          the entry store is gone, slow or refuses; the breaker counts it
├── EmbedderUnavailable       no vector within the deadline; the similar tier is skipped
└── TextTooLong               more text than the embedder reads; never matched by meaning
StateError                    the state on disk or in Redis must not be used; start-up stops and says why
"""


class CacheError(Exception):
    """A part of the cache failed; the question travels on as a miss."""


class StoreUnavailable(CacheError):
    """The entry store did not answer, or not in time."""


class EmbedderUnavailable(CacheError):
    """The embedder gave no vector within its deadline, or its queue is full."""


class TextTooLong(CacheError):
    """The text is longer than the embedder reads; what it cannot see it must not compare."""


class StateError(Exception):
    """The stored state belongs to another version, secret or process; the message says what to do."""
