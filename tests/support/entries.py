"""Entries for tests: short to write, and with vectors that can be traced back to their texts."""

import hashlib
import itertools

import numpy as np

from cache.entry import Answer, Entry, Vector
from cache.question import Kind, Reach, Scope

DIM = 16
EMBEDDER = "pretend@16"
SCOPE = Scope("tenant", "model", "0" * 32)

_ids = itertools.count(1)


def vector_of(text: str, dim: int = DIM) -> Vector:
    """A unit vector that only this text has: tests check by it that a vector stands with its own answer."""
    seed = int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8])
    vector = np.random.default_rng(seed).standard_normal(dim).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def entry(
    text: str = "why is the sky blue?",
    *,
    id: int | None = None,
    scope: Scope = SCOPE,
    key: str | None = None,
    wording: str | None = "",
    reach: Reach = Reach.SIMILAR,
    body: bytes | None = None,
    created_s: float = 1000.0,
    ttl_s: float = 600.0,
    embedder: str | None = EMBEDDER,
    dim: int = DIM,
) -> Entry:
    """An entry whose key, wording and vector follow from its text unless they are given. wording None = none."""
    digest = hashlib.md5(text.encode(errors="replace")).hexdigest()
    return Entry(
        id=next(_ids) if id is None else id,
        kind=Kind.CHAT,
        scope=scope,
        text=text,
        key=key if key is not None else digest,
        proof=digest[::-1],
        wording=digest if wording == "" else wording,
        reach=reach,
        answer=Answer(body if body is not None else f'{{"answer":"{text}"}}'.encode(errors="replace"), 7, 11),
        created_s=created_s,
        expires_s=created_s + ttl_s,
        embedder=embedder,
        vector=None if embedder is None else vector_of(text, dim),
    )
