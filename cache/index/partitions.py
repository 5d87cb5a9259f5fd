"""The vector index of one process: exact for the many small scopes, approximate only for a large one.

A scope is a list of rows, not an object with vectors of its own: the vectors of one tenant and model stand in one
growing matrix, whose free rows are used again and which shrinks when it has become mostly holes. So 200,000 scopes of
one or two entries cost little more than their vectors. A scope of `large` rows or more gets a FAISS index beside
the matrix; what that finds is scored again with the vectors, so every similarity returned is a real cosine.

The matrix holds float16, computed with in float32: half the memory, cosines wrong by at most 6e-5.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from cache.entry import Vector
from cache.question import Scope

if TYPE_CHECKING:
    from cache.index.faiss import LargeScope

FREE: Final = -1  # stands for "no entry" where an entry id is expected; real ids are positive
LARGE: Final = 2048  # rows from which exact search, a millisecond here, costs more than FAISS
SMALLEST: Final = 4  # rows of a new matrix
CANDIDATES: Final = 64  # fewest that an approximate search hands over to be scored exactly
SHRINKS: Final = 1024  # rows below which a matrix is not worth shrinking
SHIFT: Final = 32  # a place is (partition << SHIFT) | row in one int, a third of the memory of a tuple
ROW: Final = (1 << SHIFT) - 1


@dataclass(slots=True, eq=False)
class Members:
    """One scope: its rows in the matrix, in no order."""

    scope: Scope
    rows: "array[int]"
    large: "LargeScope | None" = None


class Partition:
    """All scopes of one tenant and model. Row r holds the vector of entry ids[r], a member of owners[r]."""

    def __init__(self, number: int, name: tuple[str, str], dim: int) -> None:
        self.number = number
        self.name = name  # tenant, model
        self.matrix = np.empty((SMALLEST, dim), np.float16)
        self.ids: NDArray[np.int64] = np.full(SMALLEST, FREE, np.int64)
        self.spots = np.zeros(SMALLEST, np.int32)  # where in its members' rows a row stands
        self.owners: list[Members | None] = [None] * SMALLEST
        self.free = array("i", range(SMALLEST - 1, -1, -1))
        self.scopes: dict[str, Members] = {}

    def __len__(self) -> int:
        return len(self.ids) - len(self.free)

    def reserve(self, count: int) -> None:
        """Make room for `count` more. Grows by an eighth: the pages are remapped, not copied."""
        held = len(self.ids)
        if count <= len(self.free):
            return
        wanted = max(held + count - len(self.free), held + held // 8 + SMALLEST)
        # No view of these arrays outlives a call, so they may be moved; see `numpy.ndarray.resize`.
        self.matrix.resize((wanted, self.matrix.shape[1]), refcheck=False)
        self.ids.resize(wanted, refcheck=False)
        self.spots.resize(wanted, refcheck=False)
        self.ids[held:] = FREE
        self.owners.extend([None] * (wanted - held))
        self.free = array("i", range(wanted - 1, held - 1, -1)) + self.free

    def take(self, members: Members, entry_id: int) -> int:
        """A row for a new member; the caller writes its vector."""
        self.reserve(1)
        row = self.free.pop()
        self.ids[row] = entry_id
        self.owners[row] = members
        self.spots[row] = len(members.rows)
        members.rows.append(row)
        return row

    def give_back(self, row: int) -> Members:
        """Free a row. Returns the scope that it was a member of."""
        members = self.owners[row]
        assert members is not None
        last = members.rows.pop()
        spot = int(self.spots[row])
        if last != row:  # the last one takes its place
            members.rows[spot] = last
            self.spots[last] = spot
        self.ids[row] = FREE
        self.owners[row] = None
        self.free.append(row)
        return members

    def vectors(self, rows: NDArray[np.int32]) -> NDArray[np.float32]:
        """float32, shape (len(rows), dim)."""
        return self.matrix.take(rows, axis=0).astype(np.float32)

    def compact(self) -> None:
        """Move all rows to the front and give the rest of the memory back."""
        live = np.flatnonzero(self.ids != FREE)
        size = max(len(live), SMALLEST)
        moved = np.full(len(self.ids), FREE, np.int32)
        moved[live] = np.arange(len(live), dtype=np.int32)
        spare = size - len(live)
        self.matrix = np.concatenate([self.matrix[live], np.empty((spare, self.matrix.shape[1]), np.float16)])
        self.spots = np.concatenate([self.spots[live], np.zeros(spare, np.int32)])
        self.owners = [self.owners[row] for row in live] + [None] * spare
        self.ids = np.concatenate([self.ids[live], np.full(spare, FREE, np.int64)])
        self.free = array("i", range(size - 1, len(live) - 1, -1))
        for members in self.scopes.values():
            members.rows = array("i", moved[np.frombuffer(members.rows, np.int32)].tobytes())


class PartitionIndex:
    """A VectorIndex in memory. dim: of every vector; large: rows from which a scope is searched approximately.

    Not safe for several threads: one owner calls it from one thread."""

    def __init__(self, dim: int, *, large: int = LARGE) -> None:
        if dim < 1 or large < 1:
            raise ValueError("dim and large must be at least 1")
        self.dim = dim
        self._large = large
        self._partitions: dict[tuple[str, str], Partition] = {}
        self._numbered: dict[int, Partition] = {}
        self._places: dict[int, int] = {}  # entry id -> (partition << SHIFT) | row
        self._next = 0

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        scopes = sum(len(each.scopes) for each in self._partitions.values())
        return f"<PartitionIndex [{len(self)} vectors in {scopes} scopes | {self.nbytes / 1e6:.1f} MB of vectors]>"

    @property
    def nbytes(self) -> int:
        """Bytes reserved for vectors, free rows included."""
        return sum(each.matrix.nbytes for each in self._partitions.values())

    def add(self, scope: Scope, entry_id: int, vector: Vector) -> None:
        if vector.shape != (self.dim,):
            raise ValueError(f"a vector of shape ({self.dim},) is needed, not {vector.shape}")
        self.extend([scope], [entry_id], vector[np.newaxis])

    def extend(self, scopes: Sequence[Scope], ids: Sequence[int], vectors: NDArray[np.floating[Any]]) -> None:
        """Add many at once; a scope that becomes large is fitted once. vectors: shape (len(ids), dim), unit length."""
        if vectors.shape != (len(ids), self.dim) or not np.isfinite(vectors).all():
            raise ValueError(f"finite vectors of shape ({len(ids)}, {self.dim}) are needed, not {vectors.shape}")
        if ids and min(ids) < 0:
            raise ValueError("an entry id is not negative")
        last = {entry_id: nth for nth, entry_id in enumerate(ids)}  # an id that comes twice: the later one counts
        self.remove([entry_id for entry_id in last if entry_id in self._places])
        taken: dict[int, tuple[Partition, list[int], list[int]]] = {}
        touched: dict[int, tuple[Partition, Members]] = {}
        for entry_id, nth in last.items():
            partition, members = self._members(scopes[nth])
            row = partition.take(members, entry_id)
            self._places[entry_id] = partition.number << SHIFT | row
            _, rows, order = taken.setdefault(partition.number, (partition, [], []))
            rows.append(row)
            order.append(nth)
            if members.large is not None:
                members.large.add(entry_id, vectors[nth].astype(np.float32))
            if len(members.rows) >= self._large:
                touched[id(members)] = partition, members
        for partition, rows, order in taken.values():
            partition.matrix[rows] = vectors[order]
        for partition, members in touched.values():
            self._refit(partition, members)

    def remove(self, entry_ids: Sequence[int]) -> int:
        known = 0
        touched: dict[int, tuple[Partition, Members, list[int]]] = {}
        for entry_id in entry_ids:
            place = self._places.pop(entry_id, None)
            if place is None:
                continue
            known += 1
            partition, row = self._numbered[place >> SHIFT], place & ROW
            members = partition.give_back(row)
            touched.setdefault(id(members), (partition, members, []))[2].append(entry_id)
        for partition, members, gone in touched.values():
            if members.large is not None:
                members.large.remove(gone)
                self._refit(partition, members)
            if not members.rows:
                del partition.scopes[members.scope.key]
        for partition in {each.number: each for each, _, _ in touched.values()}.values():
            self._shrink(partition)
        return known

    def search(self, scope: Scope, vector: Vector, k: int) -> list[tuple[int, float]]:
        partition = self._partitions.get((scope.tenant, scope.model))
        members = None if partition is None else partition.scopes.get(scope.key)
        if partition is None or members is None or k < 1:
            return []
        if members.large is None:
            rows = np.array(members.rows, np.int32)
        else:
            near = members.large.search(vector.astype(np.float32), max(4 * k, CANDIDATES))
            rows = np.array([self._places[each] & ROW for each in near], np.int32)
        cosines = np.clip(partition.vectors(rows) @ vector, -1.0, 1.0)
        if len(rows) > 4 * k:
            best = np.argpartition(cosines, -k)[-k:]
            rows, cosines = rows[best], cosines[best]
        order = np.argsort(-cosines, kind="stable")[:k]
        return list(zip(partition.ids[rows[order]].tolist(), cosines[order].tolist(), strict=True))

    def holds(self, scope: Scope) -> bool:
        partition = self._partitions.get((scope.tenant, scope.model))
        return partition is not None and scope.key in partition.scopes

    def vectors(self, entry_ids: Sequence[int]) -> dict[int, Vector]:
        found = {}
        for entry_id in entry_ids:
            place = self._places.get(entry_id)
            if place is not None:
                partition = self._numbered[place >> SHIFT]
                found[entry_id] = partition.matrix[place & ROW].astype(np.float32)
        return found

    def ids(self) -> set[int]:
        return set(self._places)

    def export(self, count: int) -> "Iterator[tuple[list[Scope], list[int], NDArray[np.float16]]]":
        """Everything, in pieces of up to `count` rows. The index may change between two pieces: what moved meanwhile
        may then be missing or come twice, which is why a reader compares the ids with the store."""
        for partition in list(self._partitions.values()):
            start = 0
            while start < len(partition.ids):
                rows = np.flatnonzero(partition.ids[start : start + count] != FREE) + start
                owners = [partition.owners[row] for row in rows]
                scopes = [each.scope for each in owners if each is not None]
                yield scopes, partition.ids[rows].tolist(), partition.matrix[rows]
                start += count

    def _members(self, scope: Scope) -> tuple[Partition, Members]:
        partition = self._partitions.get((scope.tenant, scope.model))
        if partition is None:
            name = scope.tenant, scope.model
            partition = Partition(self._next, name, self.dim)
            self._next += 1
            self._partitions[name] = self._numbered[partition.number] = partition
        members = partition.scopes.get(scope.key)
        if members is None:
            scope = Scope(*partition.name, scope.key)  # two of its three strings are shared
            members = partition.scopes[scope.key] = Members(scope, array("i"))
        return partition, members

    def _refit(self, partition: Partition, members: Members) -> None:
        """Give a scope that has become large an index, and take it from one that is no longer."""
        count = len(members.rows)
        if members.large is not None and count < self._large // 2:
            members.large = None
        elif count >= self._large and (members.large is None or members.large.outgrown):
            from cache.index.faiss import LargeScope  # 0.13 s, and most installations never need it

            rows = np.array(members.rows, np.int32)
            members.large = LargeScope(self.dim, partition.ids[rows], lambda some: partition.vectors(rows[some]))

    def _shrink(self, partition: Partition) -> None:
        held = len(partition)
        if not held:
            del self._partitions[partition.name], self._numbered[partition.number]
        elif len(partition.ids) > SHRINKS and held < len(partition.ids) // 2:
            partition.compact()
            for row, entry_id in enumerate(partition.ids[:held].tolist()):
                self._places[entry_id] = partition.number << SHIFT | row
