"""How an entry is written down, the same in every store.

Lives here: the order of an entry's columns, the bytes of a vector, and the versions of both.
Must not live here: I/O, or what a particular database wants.

A vector is kept as little-endian float16: half the bytes, and the cosine of two unit vectors of 384 dimensions
changes by at most 6e-5 (measured on 50,000 random pairs), far below what any threshold can tell apart.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import orjson

from cache.entry import Answer, Entry, Vector
from cache.evidence import Evidence, Label, Source
from cache.protocols import Selection
from cache.question import Kind, Reach, Scope

SCHEMA: Final = 3  # the layout of what is stored; raise it when a column changes its meaning
KEY_VERSION: Final = 1  # how keys, wordings and scopes are computed; raise it when a question's own changes

COLUMNS: Final = (
    "id", "tenant", "model", "scope", "key", "kind", "text", "proof", "wording", "reach",
    "tokens", "prompt_tokens", "created_s", "expires_s", "embedder", "tags", "vector", "body",
)  # fmt: skip


def searchable(entry: Entry) -> bool:
    """May this entry be found by meaning? Only then does a store hand its vector to an index."""
    return entry.vector is not None and entry.embedder is not None and entry.reach >= Reach.SIMILAR


def normalised(entry: Entry) -> Entry:
    """The entry as a store keeps it: without the vector that nobody may search."""
    return entry if searchable(entry) else replace(entry, embedder=None, vector=None)


def pack(vector: Vector) -> bytes:
    """float32, shape (dim,) → 2 * dim bytes."""
    return vector.astype("<f2").tobytes()


def unpack(data: bytes) -> Vector:
    """The inverse of `pack`, equal to within float16's precision."""
    return np.frombuffer(data, "<f2").astype(np.float32)


def to_columns(entry: Entry) -> tuple[Any, ...]:
    """An entry as plain values, in the order of COLUMNS."""
    vector = pack(entry.vector) if searchable(entry) and entry.vector is not None else None
    scope, answer = entry.scope, entry.answer
    return (
        entry.id, scope.tenant, scope.model, scope.key, entry.key, entry.kind.value, entry.text, entry.proof,
        entry.wording, int(entry.reach), answer.tokens, answer.prompt_tokens, entry.created_s, entry.expires_s,
        entry.embedder if vector is not None else None, orjson.dumps(entry.tags).decode(), vector, answer.body,
    )  # fmt: skip


def from_columns(values: Sequence[Any]) -> Entry:
    """The inverse of `to_columns`; a vector of None is one that was left out."""
    (
        entry_id, tenant, model, scope, key, kind, text, proof, wording, reach,
        tokens, prompt_tokens, created_s, expires_s, embedder, tags, vector, body,
    ) = values  # fmt: skip
    return Entry(
        id=entry_id,
        kind=Kind(kind),
        scope=Scope(tenant, model, scope),
        text=text,
        key=key,
        proof=proof,
        wording=wording,
        reach=Reach(reach),
        answer=Answer(body, tokens, prompt_tokens),
        created_s=created_s,
        expires_s=expires_s,
        embedder=embedder,
        vector=None if vector is None else unpack(vector),
        tags=tuple(orjson.loads(tags)),
    )


def label_to_text(label: Label) -> str:
    """A label as JSON, a list in an order of its own."""
    seen = label.evidence
    return orjson.dumps(
        [
            label.right, label.source.value, label.at_s, label.weight, label.tenant, label.model, label.entry_id,
            label.principal, seen.similarity, seen.features, seen.p_right, seen.calibration,
        ]
    ).decode()  # fmt: skip


def label_from_text(text: str | bytes) -> Label:
    """The inverse of `label_to_text`."""
    (
        right, source, at_s, weight, tenant, model, entry_id, principal, similarity, features, p_right, calibration,
    ) = orjson.loads(text)  # fmt: skip
    seen = Evidence(similarity, tuple(features), p_right, calibration)
    return Label(right, Source(source), at_s, weight, tenant, model, entry_id, seen, principal)


def complains(label: Label) -> bool:
    """Is it a principal that calls an entry wrong? Curators and comparisons are not counted: they decide themselves."""
    return not label.right and label.source is Source.FEEDBACK and label.principal != ""


def named(selection: Selection) -> tuple[int, ...]:
    """The ids that are to be forgotten whatever stands under them."""
    return selection.ids or () if selection == Selection(ids=selection.ids) else ()


def matches(selection: Selection, entry: Entry) -> bool:
    """Does an entry match every field of the selection? `expired_by_s` is a moment: expired then, or earlier."""
    scope = entry.scope
    return (
        (selection.ids is None or entry.id in selection.ids)
        and (selection.tenant is None or scope.tenant == selection.tenant)
        and (selection.model is None or scope.model == selection.model)
        and (selection.scope_key is None or scope.key == selection.scope_key)
        and (selection.expired_by_s is None or entry.expires_s <= selection.expired_by_s)
        and (selection.tag is None or selection.tag in entry.tags)
        and (selection.unless is None or selection.unless not in entry.tags)
        and (selection.before_s is None or entry.created_s < selection.before_s)
    )
