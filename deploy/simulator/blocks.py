"""The KV blocks of one simulated worker: which are held, which are cached, which goes next. Pure.

After vLLM 0.32 (`v1/core/block_pool.py`): blocks are numbered; a request holds its blocks by reference count; a block
nobody holds stays cached until it is needed, the longest unused first, and of one request the tail before the head.
Blocks without a hash are used again before any cached one is lost. The same hash may stand on two blocks, when two
requests computed it side by side; each of them is stored and removed on its own.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

BLOCK_TOKENS: Final = 16
_TOKEN_BYTES: Final = 4


def chain(
    tokens: Sequence[int] | NDArray[np.int32],
    parent: int = 0,
    block_tokens: int = BLOCK_TOKENS,
    known: Sequence[int] = (),
) -> tuple[int, ...]:
    """The chained hashes of the full blocks of `tokens` (ids below 2^32), 64 bits each; an unfull last block has none.

    parent: the hash before the first block; for a salt or a LoRA, any other number.  known: the hashes of the first
    blocks, where they are known already (of a shared prefix, or of the turns before)."""
    full = len(tokens) // block_tokens
    if full <= len(known):
        return tuple(known[:full])
    hashes = list(known)
    previous = hashes[-1] if hashes else parent
    step = block_tokens * _TOKEN_BYTES
    data = np.asarray(tokens[len(hashes) * block_tokens : full * block_tokens], dtype="<u4").tobytes()
    for start in range(0, len(data), step):
        previous = xxh3_64_intdigest(data[start : start + step], previous)
        hashes.append(previous)
    return tuple(hashes)


class BlockPool:
    """capacity: how many blocks there are (vLLM's `num_gpu_blocks`)."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a worker needs at least one block, not {capacity}")
        self.capacity = capacity
        self._holders: list[int] = []  # by block; grows up to the capacity, so that an idle worker costs nothing
        self._hashes: list[int | None] = []  # by block
        self._idle: OrderedDict[int, None] = OrderedDict()  # cached, held by nobody; the first is the next to go
        self._blank: list[int] = []  # held by nobody, without a hash; the last is the next to be used
        self._cached: dict[int, dict[int, None]] = {}  # hash → blocks, the oldest first

    @property
    def free(self) -> int:
        """Blocks that may be taken: nobody holds them."""
        return len(self._idle) + len(self._blank) + self.capacity - len(self._holders)

    @property
    def held(self) -> int:
        return self.capacity - self.free

    @property
    def resident(self) -> Mapping[int, Mapping[int, None]]:
        """hash → the blocks that have it, of all that a new request could reuse."""
        return self._cached

    def match(self, hashes: Sequence[int], most: int) -> list[int]:
        """The blocks of the longest cached prefix, `most` at most. Nothing is held yet: see `hold`."""
        found = []
        cached = self._cached
        for each in hashes[:most]:
            blocks = cached.get(each)
            if blocks is None:
                break
            found.append(next(iter(blocks)))
        return found

    def idle_among(self, blocks: Iterable[int]) -> int:
        """How many of them would no longer be free once they are held."""
        holders = self._holders
        return sum([not holders[block] for block in blocks])

    def hold(self, blocks: Iterable[int]) -> None:
        holders, idle = self._holders, self._idle
        for block in blocks:
            if not holders[block]:
                del idle[block]
            holders[block] += 1

    def take(self, count: int) -> tuple[list[int], list[int]]:
        """`count` blocks to write into, held once, and the hashes that were lost for them.

        Raises ValueError when fewer are free."""
        if count > self.free:
            raise ValueError(f"{count} blocks wanted, {self.free} free")
        taken: list[int] = []
        lost: list[int] = []
        for _ in range(count):
            if self._blank:
                block = self._blank.pop()
                self._holders[block] = 1
            elif len(self._holders) < self.capacity:
                block = len(self._holders)
                self._holders.append(1)
                self._hashes.append(None)
            else:
                block, _none = self._idle.popitem(last=False)
                lost.append(self._forget(block))
                self._holders[block] = 1
            taken.append(block)
        return taken, lost

    def _forget(self, block: int) -> int:
        gone = self._hashes[block]
        assert gone is not None  # or it would be blank
        self._hashes[block] = None
        blocks = self._cached[gone]
        del blocks[block]
        if not blocks:
            del self._cached[gone]
        return gone

    def store(self, blocks: Sequence[int], hashes: Sequence[int]) -> None:
        """These held blocks are full: from now on others may reuse them."""
        for block, each in zip(blocks, hashes, strict=True):
            self._hashes[block] = each
            self._cached.setdefault(each, {})[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """One holder lets go of his blocks, given head first."""
        holders, idle, hashes = self._holders, self._idle, self._hashes
        for block in reversed(blocks):
            holders[block] -= 1
            if not holders[block]:
                if hashes[block] is None:
                    self._blank.append(block)
                else:
                    idle[block] = None

    def clear(self) -> bool:
        """Forget every hash; False, and nothing forgotten, while somebody holds a block."""
        if self.held:
            return False
        self._cached.clear()
        self._blank.extend(self._idle)
        self._idle.clear()
        self._hashes = [None] * len(self._hashes)
        return True
