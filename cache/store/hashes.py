"""An entry as Redis keeps it: the columns as one JSON list (m), the body (b) and the vector (v) as they are.

Three fields and not seventeen, because a hash with a long field pays some 70 bytes for every field it has.
"""

import hashlib
import math
from typing import Any

import orjson

from cache.entry import Entry
from cache.errors import StoreUnavailable
from cache.protocols import Row
from cache.question import Scope
from cache.store.record import from_columns, to_columns, unpack

_EXPIRES = 13  # the places in m of what is read without the rest
_EMBEDDER = 14


def digest(scope: Scope) -> str:
    """32 hex digits that stand for a scope in key names; what is found there is compared with the scope itself."""
    name = "\0".join((scope.tenant, scope.model, scope.key)).encode()
    return hashlib.blake2b(name, digest_size=16).hexdigest()


def write(entry: Entry) -> tuple[bytes, bytes, bytes]:
    """m, b, v; v is empty where the entry cannot be searched. Raises StoreUnavailable for what JSON cannot hold."""
    *columns, vector, body = to_columns(entry)
    if columns[_EXPIRES] == math.inf:
        columns[_EXPIRES] = None  # JSON knows no infinity
    try:
        meta = orjson.dumps([*columns, digest(entry.scope)])
    except TypeError as error:
        raise StoreUnavailable(f"the entry cannot be written: {error}") from error
    return meta, body, vector or b""


def read(meta: bytes, body: bytes) -> Entry:
    """An entry without its vector."""
    columns = orjson.loads(meta)[:-1]
    columns[_EXPIRES] = _expires_s(columns)
    return from_columns([*columns, None, body])


def read_row(meta: bytes, vector: bytes | None, now_s: float, embedder: str | None) -> Row | None:
    """What an index needs; None when it has expired, or another embedder made the vector. embedder None = any."""
    columns = orjson.loads(meta)
    if vector is None or _expires_s(columns) <= now_s or embedder not in (None, columns[_EMBEDDER]):
        return None
    return Row(columns[0], Scope(*columns[1:4]), unpack(vector))


def _expires_s(columns: list[Any]) -> float:
    moment = columns[_EXPIRES]
    return math.inf if moment is None else float(moment)
