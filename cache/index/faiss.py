"""The only door to FAISS: an approximate index for one scope that has grown large.

Kind: inverted lists over 8-bit codes. It is the one that deletes exactly and cheaply (12 µs each through a hash map of
ids); HNSW cannot delete, and a flat index moves everything behind the hole. Its scores are rough: the caller scores
the candidates again with the vectors themselves.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

from cache.entry import Vector

Matrix = NDArray[np.float32]
Some = slice | NDArray[np.int64]

LISTS: Final = 2.5  # times the square root of the size: below, searches read too much; above, training takes too long
PROBES: Final = 12  # lists read in a search
SAMPLE: Final = 16  # training vectors a list; k-means over more changes the recall by less than it costs
ROUNDS: Final = 5  # of k-means
GROWTH: Final = 3  # after growing so many times the lists have become long: train again
SLICE: Final = 16_384  # vectors added at once, so that no second copy of all of them exists


class LargeScope:
    """Nearest vectors of one scope, roughly. Ids are entry ids; vectors are unit vectors of one dimension."""

    def __init__(self, dim: int, ids: NDArray[np.int64], vectors: Callable[[Some], Matrix]) -> None:
        """vectors: gives the vectors of some of the ids, by their places in `ids`."""
        self._alone()
        count = len(ids)
        lists = min(count, max(PROBES, round(LISTS * math.sqrt(count))))
        self._quantizer = faiss.IndexFlatIP(dim)
        self._index = faiss.IndexIVFScalarQuantizer(
            self._quantizer, dim, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT, False
        )  # not by residual: quicker, and what the codes lose is put right by scoring again
        self._index.nprobe = min(PROBES, lists)
        self._index.cp.niter = ROUNDS
        self._index.cp.min_points_per_centroid = 1
        self._index.cp.max_points_per_centroid = SAMPLE
        sample = np.random.default_rng(count).choice(count, min(count, SAMPLE * lists), replace=False)
        self._index.train(vectors(sample))
        self._index.set_direct_map_type(faiss.DirectMap.Hashtable)  # type: ignore[attr-defined]
        for start in range(0, count, SLICE):
            part = slice(start, start + SLICE)
            self._index.add_with_ids(vectors(part), ids[part])
        self._trained_on = count

    @staticmethod
    def _alone() -> None:
        """One thread, set anew by every call because OpenMP keeps it per calling thread: for a single vector waking
        the others costs more than the work (1 ms against 20 µs on two busy cores), and they are the server's."""
        faiss.omp_set_num_threads(1)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def outgrown(self) -> bool:
        """Has it become so large that training anew would make it faster?"""
        return bool(len(self) > GROWTH * self._trained_on)

    def add(self, entry_id: int, vector: Vector) -> None:
        self._alone()
        self._index.add_with_ids(vector[np.newaxis], np.array([entry_id], np.int64))

    def remove(self, entry_ids: Sequence[int]) -> None:
        """All of them must be in the index."""
        self._alone()
        self._index.remove_ids(faiss.IDSelectorArray(np.array(entry_ids, np.int64)))

    def search(self, vector: Vector, k: int) -> list[int]:
        """The ids of about the k nearest; fewer where the lists read hold fewer."""
        self._alone()
        _, found = self._index.search(vector[np.newaxis], k)
        return [int(each) for each in found[0] if each >= 0]
