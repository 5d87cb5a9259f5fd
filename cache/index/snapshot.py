"""An index on disk, so that a start needs to read only what was stored since.

A snapshot may lag behind and may even be torn between two of its pieces, because the index goes on working while it is
written. That does no harm: `open_index` replays what the store kept later, and compares every id with the store.
The file: a line of JSON, pieces (lengths, scopes as JSON, ids, vectors as float16), and a digest of all of it.
"""

import asyncio
import logging
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from cache.index.partitions import LARGE, PartitionIndex
from cache.protocols import EntryStore, Row
from cache.question import Scope

log = logging.getLogger(__name__)
T = TypeVar("T")

VERSION: Final = 1
PIECE: Final = 8192  # rows written, and rows for which the index's thread is held, at once: some 5 ms
MARGIN: Final = 4096  # positions replayed once more: puts that were stored but not yet indexed when `position` was read
_PIECE: Final = struct.Struct("<II")  # bytes of scopes, number of rows


class _Digested:
    """A file whose every byte goes through one digest."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = xxhash.xxh3_128()

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self._file.write(data)


def _directly(work: Callable[[], T]) -> T:
    return work()


def save(
    index: PartitionIndex,
    path: Path,
    position: int,
    embedder: str,
    call: Callable[[Callable[[], Any]], Any] = _directly,
) -> None:
    """Write a snapshot that replaces the old one whole or not at all. Blocks: for a thread that may wait.

    position: of the store, read *before* this is called.  call: runs a function on the index's own thread and gives its
    result, for instance `lambda work: executor.submit(work).result()`; each takes milliseconds.  Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".draft")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as file:
            out = _Digested(file)
            head = {"version": VERSION, "embedder": embedder, "dim": index.dim, "position": position}
            out.write(orjson.dumps(head) + b"\n")
            pieces = index.export(PIECE)
            while (piece := call(lambda: next(pieces, None))) is not None:
                scopes, ids, vectors = piece
                numbers: dict[Scope, int] = {}
                which = [numbers.setdefault(scope, len(numbers)) for scope in scopes]
                names = orjson.dumps([[each.tenant, each.model, each.key] for each in numbers])
                out.write(_PIECE.pack(len(names), len(ids)))
                out.write(names)
                out.write(np.array(which, "<i4").tobytes())
                out.write(np.array(ids, "<i8").tobytes())
                out.write(vectors.astype("<f2", copy=False).tobytes())
            file.write(out.digest.digest())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # the new name survives a power cut as well
    finally:
        os.close(folder)


def load(path: Path, embedder: str, dim: int, large: int = LARGE) -> tuple[PartitionIndex, int] | None:
    """The index and the position of the store that it was written at; None where there is no snapshot that can be used.
    Blocks: a second or two for 400,000 vectors."""
    try:
        with open(path, "rb") as file:
            if not _whole(file):
                log.warning("%s is damaged; the index is built from the store", path)
                return None
            file.seek(0)
            head = orjson.loads(file.readline())
            if (head["version"], head["embedder"], head["dim"]) != (VERSION, embedder, dim):
                log.info("%s belongs to %s; the index is built from the store", path, head["embedder"])
                return None
            index = PartitionIndex(dim, large=large)
            for piece in _pieces(file, dim):
                index.extend(*piece)
            return index, int(head["position"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:  # the digest was right, so somebody else wrote this
        log.warning("%s cannot be read (%s); the index is built from the store", path, error)
        return None


def _whole(file: BinaryIO) -> bool:
    digest = xxhash.xxh3_128()
    left = os.fstat(file.fileno()).st_size - digest.digest_size
    while left > 0 and (data := file.read(min(left, 1 << 20))):
        digest.update(data)
        left -= len(data)
    return left == 0 and file.read() == digest.digest()


def _pieces(file: BinaryIO, dim: int) -> Iterator[tuple[list[Scope], list[int], NDArray[np.float16]]]:
    end = os.fstat(file.fileno()).st_size - xxhash.xxh3_128().digest_size
    while file.tell() < end:
        names, count = _PIECE.unpack(file.read(_PIECE.size))
        scopes = [Scope(*each) for each in orjson.loads(file.read(names))]
        which = np.frombuffer(file.read(4 * count), "<i4")
        ids = np.frombuffer(file.read(8 * count), "<i8")
        vectors = np.frombuffer(file.read(2 * count * dim), "<f2").reshape(count, dim)
        yield [scopes[each] for each in which], ids.tolist(), vectors


async def open_index(
    store: EntryStore, embedder: str, dim: int, path: Path | None, *, large: int = LARGE
) -> PartitionIndex:
    """The index of everything in the store that can be searched: `index.ids() == store.ids(embedder)` on return.

    path: of a snapshot, where there may be one.  The work is done on a helper thread, never on the event loop.
    Raises StoreUnavailable."""
    index, after = PartitionIndex(dim, large=large), 0
    loaded = None if path is None else await asyncio.to_thread(load, path, embedder, dim, large)
    if loaded is not None:
        index, after = loaded[0], max(0, loaded[1] - MARGIN)
    async for batch in store.rows(embedder, after):
        await asyncio.to_thread(_take, index, batch)
    missing = await _agree(store, embedder, index)
    if missing:
        log.warning("the snapshot lacks %d entries of the store; reading all of it", len(missing))
        async for batch in store.rows(embedder):
            await asyncio.to_thread(_take, index, [row for row in batch if row.entry_id in missing])
        missing = await _agree(store, embedder, index)
    if missing:  # another replica is storing at this moment, and `changes` tells what
        log.info("%d entries are not indexed yet", len(missing))
    return index


async def _agree(store: EntryStore, embedder: str, index: PartitionIndex) -> set[int]:
    """Remove what the store no longer has. Returns what the index lacks."""
    known = await store.ids(embedder)

    def compare() -> set[int]:
        held = index.ids()
        index.remove(list(held - known))
        return known - held

    return await asyncio.to_thread(compare)


def _take(index: PartitionIndex, rows: Sequence[Row]) -> None:
    fitting = [row for row in rows if row.vector.shape == (index.dim,)]
    if len(fitting) < len(rows):
        log.error("%d vectors have another dimension than %d", len(rows) - len(fitting), index.dim)
    if fitting:
        vectors = np.stack([row.vector for row in fitting])
        index.extend([row.scope for row in fitting], [row.entry_id for row in fitting], vectors)
