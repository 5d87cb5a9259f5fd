"""How much of a prompt each worker holds in its KV cache, from the best source at hand. Pure, bounded.

    KV events        what vLLM says it stored and removed: exact, see `proxy.routing.blocks`
    answers          the marks of prompts that it read, corrected by the `cached_tokens` of its answers
    session table    it answered this session's last turn

Events speak of token ids and we of text. No tokenizer stands between them: vLLM gives the session id that we sent back
in its events, so which blocks a conversation filled is *learnt* when its answer has ended. For each mark of that text
we keep the block it ends in; whether a worker holds a prompt is then one look-up per step of a binary search. It needs
no model files, costs the choice nothing, and is right for any chat template, tool format and model. Text that nobody
has sent yet is in no cache either.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from proxy.routing.memory import Memory
from proxy.routing.trail import STEP_BYTES, Trail

MOST_KNOWN: Final = 400_000  # marks whose blocks we learnt; about 150 B each
FRESH_S: Final = 10.0  # a prompt that was sent so lately may not have shown in the events yet
_SETTLE_S: Final = 0.1  # events of an answer's last blocks may come this much after its last byte
_MOST_WAITING: Final = 4096


class Resident(Protocol):
    """The KV blocks that one worker holds, by its own account. Implemented by `proxy.routing.blocks.Blocks`."""

    block_size: int | None

    def __contains__(self, own: object) -> bool: ...

    @property
    def complete(self) -> bool:
        """Whether what is not here is not on the worker; False = its stream was joined too late to know."""
        ...

    def tip(self, session: str) -> int | None:
        """The last block that this session filled."""
        ...

    def chain(self, own: int) -> Sequence[int]:
        """That block and all before it, first block first."""
        ...


@dataclass(frozen=True, slots=True)
class Lesson:
    """An answer that has ended: what its session read. tokens: of the prompt.  written: of the answer."""

    due_s: float
    session: str
    trail: Trail
    tokens: int
    written: int
    resident: Resident


class Prefixes:
    """clock: seconds; the pool's."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[int, tuple[int, int]] = {}  # mark → the block it ends in, tokens up to there
        self._lessons: deque[Lesson] = deque(maxlen=_MOST_WAITING)
        self.learnt = 0

    def deepest(self, trail: Trail) -> int:
        """How many of the first marks have known blocks."""
        known, marks = self._known, trail.marks
        low, high = 0, len(marks)
        while low < high:
            middle = (low + high) // 2
            if marks[middle] in known:
                low = middle + 1
            else:
                high = middle
        return low

    def resident(
        self, trail: Trail, deepest: int, tokens: int, memory: Memory, exact: Resident | None
    ) -> tuple[int, bool]:
        """Tokens of this prompt that the worker holds, and whether its own events say so.

        deepest: from `deepest(trail)`.  tokens: of the whole prompt, as estimated.  exact: its blocks, if it tells."""
        marks = trail.marks
        if exact is None or not deepest:
            known = memory.known(marks)
            return known * STEP_BYTES * tokens // trail.size if known else 0, False
        held = self._known
        low, high = 0, deepest
        while low < high:
            middle = (low + high) // 2
            if held[marks[middle]][0] in exact:
                low = middle + 1
            else:
                high = middle
        found = held[marks[low - 1]][1] if low else 0
        if not exact.complete:
            known = memory.known(marks) * STEP_BYTES * tokens // trail.size
            return max(found, known), found >= known
        if low == deepest and deepest < len(marks):
            fresh = memory.known(marks, self._clock() - FRESH_S)
            if fresh > low:
                return max(found, fresh * STEP_BYTES * tokens // trail.size), False
        return found, True

    def ended(self, session: str, trail: Trail, tokens: int, written: int, resident: Resident) -> None:
        """An answer is over; its last events may still be on their way."""
        if trail.marks:
            self._lessons.append(Lesson(self._clock() + _SETTLE_S, session, trail, tokens, written, resident))

    def learn(self, most: int = 4) -> None:
        """Take in what answers have taught by now, a few at a time."""
        now_s = self._clock()
        while most and self._lessons and self._lessons[0].due_s <= now_s:
            self._take(self._lessons.popleft())
            most -= 1

    def _take(self, lesson: Lesson) -> None:
        resident = lesson.resident
        tip = resident.tip(lesson.session)
        size = resident.block_size
        if tip is None or not size:
            return
        chain = resident.chain(tip)
        # Another prompt of the same session would show as another length: two agents under one id, an edited turn.
        least, most = lesson.tokens // size - 1, (lesson.tokens + lesson.written) // size + 1
        if not chain or not least <= len(chain) <= most:
            return
        known, per_step = self._known, STEP_BYTES * lesson.tokens / lesson.trail.size
        # No holes, or the binary searches fall into them: marks that end before the first block does count as nothing
        # of it, and the oldest entries, which leave first, are ends of prompts.
        for place in range(len(lesson.trail.marks) - 1, -1, -1):
            mark, depth = lesson.trail.marks[place], int((place + 1) * per_step) // size
            if depth <= len(chain):
                known.pop(mark, None)
                known[mark] = (chain[max(depth, 1) - 1], depth * size)
        self.learnt += 1
        if len(known) > MOST_KNOWN + MOST_KNOWN // 8:
            for mark in list(islice(known, len(known) - MOST_KNOWN)):
                del known[mark]
