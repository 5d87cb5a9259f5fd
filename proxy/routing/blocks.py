"""Which KV blocks are resident on one worker, by its own account (`kv_wire`). Pure.

The engine's hash of a block is opaque: its algorithm and seed are the worker's affair. So every block gets a hash of
our own, from its tokens and its parent's own hash; equal prompts have equal own hashes on every worker. The engine's
hashes are kept only to know what a removal means.

    own = xxh3-64(the block's tokens as uint32, seed: the parent's own hash, or 0), the lowest 60 bits

60 bits, because an int of CPython takes 32 bytes up to there and 48 beyond; of a million blocks two share a hash with a
probability of 4·10⁻⁷, and the price would be one wrong estimate. What else the engine hashed (cache salt, LoRA, images)
changes the seed. A block whose parent we never saw (we came late) gets a *negative* own hash, and so do its
descendants: it can be found and removed, but never be taken for a chain that is known from its root.

Only attention over the whole prompt is indexed. In models that have sliding windows beside it, a hit also needs the
window's blocks, which are not looked at: there, residency is an upper bound.

Two things that no consumer of events can tell apart: a block computed twice, which is gone after two removals, and one
that is only reported again, because a client set vLLM's `kv_cache_report_mode` to "full", which is gone after one. The
first is common and is what we count; the second leaves blocks behind, and `references` above the worker's number of
blocks gives it away.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

from xxhash import xxh3_64_intdigest

from proxy.routing.kv_wire import Batch, Cleared, EngineHash, Removed, Stored

MOST_SESSIONS: Final = 20_000
BITS: Final = (1 << 60) - 1
ROOT: Final = 0  # the parent of a first block
_SEED_BITS: Final = (1 << 64) - 1
_WHOLE_PROMPT: Final = {"full_attention", "mla_attention", "sink_full_attention"}  # vLLM's KVCacheSpecKind


def own_hashes(tokens: Sequence[int], block_size: int, extra_keys: Sequence[Any] | None = None) -> list[int]:
    """Own hashes of a prompt's full blocks, first to last.

    tokens: ids, 0 ≤ id < 2³².  extra_keys: a block each, as `kv_wire.Stored` has them."""
    whole = len(tokens) // block_size * block_size
    return _chain(ROOT, array("I", tokens[:whole]).tobytes(), 4 * block_size, extra_keys)


class Blocks:
    """What one worker holds, all its data-parallel ranks together. Lookups are set lookups.

    block_size: tokens in a block; None before the first one.
    indexed: blocks stored since the beginning, with repetitions.
    skipped: stored blocks that were not indexed though they are on the device (token count and hashes disagree)."""

    def __init__(self, *, most_sessions: int = MOST_SESSIONS) -> None:
        self.block_size: int | None = None
        self.indexed = 0
        self.skipped = 0
        self._unknown: set[int] = set()  # ranks that may hold blocks we never heard of
        self._most_sessions = most_sessions
        self._parents: dict[int, int] = {}  # own hash of each resident block → its parent's
        self._engine: dict[int, dict[int, int]] = {}  # rank → engine hash → own hash
        self._again: dict[tuple[int, int], int] = {}  # (rank, engine hash) → references, where it is more than one
        self._shared: dict[int, int] = {}  # own hash → engine hashes that mean it, where it is more than one
        self._tips: dict[str, int] = {}  # session → own hash, least recently extended first
        self._group: int | None = None  # the KV cache group that attends to the whole prompt

    # -- what the router reads -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Distinct resident blocks."""
        return len(self._parents)

    def __contains__(self, own: object) -> bool:
        return own in self._parents

    @property
    def references(self) -> int:
        """Blocks of the worker's memory that are accounted for; never above its number of blocks, if all is well."""
        extra = sum(self._again.values()) - len(self._again)
        return sum(len(known) for known in self._engine.values()) + extra

    @property
    def complete(self) -> bool:
        """What is not here, is not on the worker. Else: it may be, stored before we listened or while we did not."""
        return not self._unknown

    def leading(self, owns: Iterable[int]) -> int:
        """How many of a prompt's blocks, from the first, are resident: what the engine would hit."""
        parents = self._parents
        count = 0
        for own in owns:
            if own not in parents:
                break
            count += 1
        return count

    def chain(self, own: int) -> list[int]:
        """Own hashes from the prompt's first block to this one. Empty if it or an ancestor is not resident, or if its
        beginning was never seen."""
        found: list[int] = []
        parents = self._parents
        if own < 0:
            return found
        while own != ROOT:
            parent = parents.get(own)
            if parent is None:
                return []
            found.append(own)
            own = parent
        found.reverse()
        return found

    def tip(self, session: str) -> int | None:
        """Own hash of the block that this session stored last; it may have been evicted since. A prompt that was a pure
        hit stores nothing and moves no tip."""
        return self._tips.get(session)

    def all_known(self, rank: int, yes: bool) -> None:
        """Whoever follows the rank's stream says whether that is everything."""
        if yes:
            self._unknown.discard(rank)
        else:
            self._unknown.add(rank)

    # -- what the worker tells -----------------------------------------------------------------------------------

    def apply(self, batch: Batch, rank: int = 0) -> list[str]:
        """Returns the sessions whose tips moved.

        rank: whose stream it came from; removals and resets concern that rank alone."""
        moved: list[str] = []
        for event in batch.events:
            if isinstance(event, Stored):
                if self.stored(event, rank) and event.session_id is not None:
                    moved.append(event.session_id)
            elif isinstance(event, Removed):
                self.removed(event, rank)
            else:
                assert isinstance(event, Cleared)
                self.cleared(rank)
        return moved

    def stored(self, event: Stored, rank: int = 0) -> bool:
        """Whether it was indexed."""
        hashes, size = event.block_hashes, event.block_size
        if not _on_device(event) or not hashes or not self._is_indexed(event):
            return False
        if size <= 0 or len(event.token_ids) != len(hashes) * size:
            self.skipped += len(hashes)
            return False
        try:
            data = array("I", event.token_ids).tobytes()
        except OverflowError:  # no tokenizer has such ids
            self.skipped += len(hashes)
            return False
        self.block_size = max(size, self.block_size or 0)  # parts of blocks are stored as smaller blocks
        engine = self._engine.setdefault(rank, {})
        parent = self._parent_of(event, engine)
        owns = _chain(parent, data, 4 * size, _extra_keys(event))
        self._add(rank, engine, hashes, owns, parent)
        self.indexed += len(hashes)
        if event.session_id is not None:
            self._extend(event.session_id, engine[_key(hashes[-1])])
        return True

    def removed(self, event: Removed, rank: int = 0) -> None:
        """Blocks that we do not know are none of our concern: of another group, tier, or from before our time."""
        engine = self._engine.get(rank)
        if engine is None or not _on_device(event) or (event.group_idx or 0) != self._group:
            return
        for each in event.block_hashes:
            key = _key(each)
            if self._again and (references := self._again.get((rank, key))) is not None:
                if references > 2:
                    self._again[rank, key] = references - 1
                else:
                    del self._again[rank, key]
                continue
            own = engine.pop(key, None)
            if own is not None:
                self._release(own)

    def cleared(self, rank: int = 0) -> None:
        """This rank holds nothing any more. Tips stay: they say what was last, not what is resident."""
        engine = self._engine.pop(rank, None)
        if not self._engine:
            self._parents, self._again, self._shared = {}, {}, {}
        elif engine is not None:
            for own in engine.values():
                self._release(own)
            self._again = {key: count for key, count in self._again.items() if key[0] != rank}

    def _add(self, rank: int, engine: dict[int, int], hashes: list[EngineHash], owns: list[int], parent: int) -> None:
        keys = [each & BITS if isinstance(each, int) else _key(each) for each in hashes]
        parents, shared = self._parents, self._shared
        if engine.keys().isdisjoint(keys) and parents.keys().isdisjoint(owns) and len(set(keys)) == len(keys):
            engine.update(zip(keys, owns, strict=True))
            parents.update(zip(owns, (parent, *owns), strict=False))
            return
        for key, own, before in zip(keys, owns, (parent, *owns), strict=False):
            known = engine.get(key)
            if known is not None:
                self._again[rank, key] = self._again.get((rank, key), 1) + 1
                if not known < 0 <= own:
                    continue
                self._release(known)  # its beginning was not known, and now is
            engine[key] = own
            if own in parents:
                shared[own] = shared.get(own, 1) + 1
            else:
                parents[own] = before

    def _release(self, own: int) -> None:
        if self._shared and (meanings := self._shared.get(own)) is not None:
            if meanings > 2:
                self._shared[own] = meanings - 1
            else:
                del self._shared[own]
        else:
            self._parents.pop(own, None)

    def _extend(self, session: str, own: int) -> None:
        self._tips.pop(session, None)
        self._tips[session] = own
        if len(self._tips) > self._most_sessions:
            del self._tips[next(iter(self._tips))]

    def _parent_of(self, event: Stored, engine: dict[int, int]) -> int:
        if event.parent_block_hash is None:
            return ROOT
        key = _key(event.parent_block_hash)
        own = engine.get(key)
        if own is None:
            own = -1 - (xxh3_64_intdigest(key.to_bytes(8, "big")) & BITS)
        return own

    def _is_indexed(self, event: Stored) -> bool:
        """Of several groups, the first one seen that attends to the whole prompt; releases that do not say what a group
        is number it 0, or not at all."""
        group, kind = event.group_idx or 0, event.kv_cache_spec_kind
        if self._group is None and (kind in _WHOLE_PROMPT or (kind is None and group == 0)):
            self._group = group
        return group == self._group


def _chain(parent: int, data: bytes, step: int, extra_keys: Sequence[Any] | None) -> list[int]:
    """Own hashes of consecutive blocks of `step` bytes."""
    owns: list[int] = []
    own, digest, add = parent, xxh3_64_intdigest, owns.append
    if extra_keys is None and parent >= 0:  # nearly always, and this is where the time goes
        for start in range(0, len(data), step):
            own = digest(data[start : start + step], own) & BITS
            add(own)
        return owns
    for number, start in enumerate(range(0, len(data), step)):
        seed = own & _SEED_BITS
        if extra_keys is not None and number < len(extra_keys) and extra_keys[number]:
            seed = digest(repr(_flat(extra_keys[number])).encode("utf-8", "surrogatepass"), seed)
        own = digest(data[start : start + step], seed) & BITS
        if parent < 0:
            own = -1 - own
        add(own)
    return owns


def _flat(keys: Any) -> Any:
    """One spelling for lists and tuples, which msgpack does not tell apart."""
    return tuple(_flat(key) for key in keys) if isinstance(keys, list | tuple) else keys


def _extra_keys(event: Stored) -> Sequence[Any] | None:
    """None where no block has any. Releases without `extra_keys` name at least the LoRA."""
    keys = event.extra_keys
    if isinstance(keys, list):
        return keys if any(keys) else None
    lora = event.lora_name if event.lora_name is not None else event.lora_id
    return None if lora is None else [[lora]] * len(event.block_hashes)


def _key(engine_hash: EngineHash) -> int:
    return (engine_hash if isinstance(engine_hash, int) else int.from_bytes(engine_hash[-8:], "big")) & BITS


def _on_device(event: Stored | Removed) -> bool:
    """Not on a tier for offloading, nor somewhere else."""
    return event.medium in (None, "GPU") and event.locality != "REMOTE"
