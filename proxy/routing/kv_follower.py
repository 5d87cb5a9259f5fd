"""Following one publisher of KV events: what each message means for the index, and when to ask for a replay. Pure.

    live(frames) ──in order──▶ applied                     seq falls, or a batch we know reads differently:
        │ a gap                                               the engine is a new one → all its blocks are forgotten
        ▼
    wants(seq) ──▶ [asked for] ──▶ replayed(frames)… ──▶ caught_up() ──▶ what waited is applied
                                                     └──▶ gave_up()   ──▶ forget all, go on from now: not `complete`

A replay begins with the last batch that we know already, not with the one after it: only so can a publisher that was
restarted, and is past that number again, be told from one that went on. (A gap of one sender and a gap between two look
alike; for the same reason a replay is wanted after each reconnection.) `complete` says that every resident block is
known: what is not in the index, is not on the worker.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Final

from proxy.routing.blocks import Blocks
from proxy.routing.kv_wire import END, Cleared, Frame, Malformed, decode, live, replayed

NONE_YET: Final = -1
_HEAD_BYTES: Final = 64  # holds the time stamp: enough to tell two batches of one number apart


@dataclass(slots=True)
class Counts:
    """blocks: stored ones, with repetitions.  purges: times that blocks were forgotten, the engine's own resets not
    among them.  lag_s: from an engine's step to the application of its newest live batch, by two clocks."""

    batches: int = 0
    blocks: int = 0
    gaps: int = 0
    duplicates: int = 0
    replays: int = 0
    failed_replays: int = 0
    restarts: int = 0
    purges: int = 0
    unknown_events: int = 0
    malformed: int = 0
    lag_s: float = 0.0

    def add(self, other: "Counts") -> None:
        """Of several ranks the lag is the longest."""
        for each in fields(self):
            mine, its = getattr(self, each.name), getattr(other, each.name)
            setattr(self, each.name, max(mine, its) if each.name == "lag_s" else mine + its)


class Follower:
    """One rank's stream applied to `blocks`.

    wall: seconds since 1970.  on_tip: called with a session after its tip moved."""

    def __init__(
        self,
        blocks: Blocks,
        rank: int = 0,
        *,
        wall: Callable[[], float] = time.time,
        on_tip: Callable[[str], None] | None = None,
    ) -> None:
        self.blocks = blocks
        self.rank = rank
        self.counts = Counts()
        self.complete = False
        self.trouble: str | None = None  # why blocks were forgotten last, in words
        self._wall = wall
        self._on_tip = on_tip
        self._applied = NONE_YET
        self._applied_head = b""
        self._applied_ts = 0.0
        self._newest = NONE_YET  # the last number seen live
        self._newest_head = b""
        self._waiting: Frame | None = None  # a live message that cannot be applied before the replay
        self._seen = 0  # batches of the replay that runs
        self._replay_again = False  # it turned out to be another engine's: from 0, then
        blocks.all_known(rank, False)

    # -- live ------------------------------------------------------------------------------------------------------

    def live(self, frames: Sequence[bytes]) -> bool:
        """Whether a replay is wanted now, see `wants`; until it is over, no other live message may be given."""
        try:
            frame = live(frames)
        except Malformed as error:
            self._unreadable(error)
            return False
        head = frame.payload[:_HEAD_BYTES]
        if frame.seq == self._newest and head == self._newest_head:
            self.counts.duplicates += 1
            return False
        if frame.seq <= self._newest or (frame.seq == self._applied and head != self._applied_head):
            self._restarted()
        self._newest, self._newest_head = frame.seq, head
        if frame.seq <= self._applied:
            self.counts.duplicates += 1  # a replay brought it before
            return False
        if frame.seq > self._applied + 1:
            self.counts.gaps += 1
            self._waiting = frame
            return True
        self._apply(frame)
        self.counts.lag_s = max(0.0, self._wall() - self._applied_ts)
        return False

    # -- replay ----------------------------------------------------------------------------------------------------

    def wants(self) -> int:
        """The number from which to ask for a replay. Call it once per request."""
        self._seen = 0
        self._replay_again = False
        self.counts.replays += 1
        return max(self._applied, 0)

    def replayed(self, frames: Sequence[bytes]) -> bool:
        """Whether the replay is over."""
        try:
            frame = replayed(frames)
        except Malformed as error:
            self._unreadable(error)
            return False
        if frame.seq == END:
            return True
        self._seen += 1
        if frame.seq == self._applied and frame.payload[:_HEAD_BYTES] != self._applied_head:
            self._restarted()
            self._replay_again = True
        if self._replay_again or frame.seq <= self._applied:
            return False
        if frame.seq > self._applied + 1:
            self._forget("the worker does not keep its KV events long enough (buffer_steps)")
            self._applied = frame.seq - 1
        self._apply(frame)
        return False

    def caught_up(self) -> bool:
        """The replay ended by itself. Whether another is wanted: this one was of an engine that we did not know."""
        if self._seen == 0 and self._applied != NONE_YET:  # any engine keeps its last batch
            self._restarted()
            self._replay_again = True
        if self._replay_again:
            return True
        if self._seen == 0 and self._waiting is None:
            self._know_all(True)  # it has not stored anything yet
        self._go_on("the replay did not reach the present")
        return False

    def gave_up(self, trouble: str) -> None:
        """There is no replay, or it broke off, or took too long."""
        self.counts.failed_replays += 1
        self._forget(trouble)
        self._applied = NONE_YET
        self._go_on(trouble)

    def start_over(self) -> None:
        """Before a replay of everything, where an earlier one failed."""
        self._forget("read again from the beginning")
        self._applied = NONE_YET

    def _go_on(self, trouble: str) -> None:
        frame, self._waiting = self._waiting, None
        if frame is None or frame.seq <= self._applied:
            return
        if frame.seq > self._applied + 1:
            self._forget(trouble)
            self._applied = frame.seq - 1
        self._apply(frame)

    # -- what both do ----------------------------------------------------------------------------------------------

    def _apply(self, frame: Frame) -> None:
        if frame.seq == 0:
            self._know_all(True)
        self._applied, self._applied_head = frame.seq, frame.payload[:_HEAD_BYTES]
        counts = self.counts
        try:
            batch = decode(frame.payload)
        except Malformed as error:
            self._unreadable(error)
            self._forget(f"unreadable: {error}")  # it may have told of removals
            return
        before = self.blocks.indexed
        moved = self.blocks.apply(batch, self.rank)
        self._applied_ts = batch.ts
        counts.batches += 1
        counts.unknown_events += batch.unknown
        counts.blocks += self.blocks.indexed - before
        if not self.complete and any(isinstance(event, Cleared) for event in batch.events):
            self._know_all(True)
        if self._on_tip is not None:
            for session in moved:
                self._on_tip(session)

    def _unreadable(self, error: Malformed) -> None:
        self.counts.malformed += 1
        self.trouble = f"unreadable: {error}"

    def _restarted(self) -> None:
        self.counts.restarts += 1
        self._forget("the engine was restarted")
        self._applied = self._newest = NONE_YET

    def _forget(self, trouble: str) -> None:
        if self.complete or self._applied != NONE_YET:
            self.counts.purges += 1
        self.trouble = trouble
        self._know_all(False)
        self.blocks.cleared(self.rank)

    def _know_all(self, yes: bool) -> None:
        self.complete = yes
        self.blocks.all_known(self.rank, yes)
