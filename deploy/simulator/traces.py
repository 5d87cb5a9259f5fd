"""Five traces that routers are tried on: who asks what, and when. Ours, seeded, and made of real text. Pure.

    A  83 groups, each with an 8k-token prefix of its own, short questions, popularity falling with the rank
    B  chats of several turns, lengths as in public chat logs (log-normal), people who think in between, but only for
       some seconds: fewer chats then make the same load
    C  one system prompt that 7 of 10 requests share, and a long tail of prompts that nothing shares
    D  agents that take turns: never two requests at once, nothing in flight at any decision, contexts that grow
    E  bursts of 64 prompts at once: the same, or the same but for the last words

A token is a word of three letters and the space before it, or a mark between turns. The answers are fixed beforehand,
so the next turn of a chat holds the answer of the one before, and every block's hash is known.

The load is computed, not guessed: `works_s` says how many seconds of work each request is in a cluster that finds
whatever was ever computed, and the arrivals are spread until the middle half of them fills `LOAD` of the workers' time.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from deploy.simulator.blocks import chain
from deploy.simulator.facts import Shape

LOAD: Final = 0.6  # of the workers' time, when every prefix that was ever computed is found
MODEL: Final = "simulated"
GROUPS: Final = 83
BURST: Final = 64
_SHORTEST_S: Final = 20.0  # chats that all began at once would wait for each other and not for routers

Ids = NDArray[np.int32]

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_MARKS: Final = {"system": 1, "user": 2, "assistant": 3}
_END: Final = 4
_FIRST_WORD: Final = 16
WORDS: Final = ["".join(letters) for letters in itertools.product(_LETTERS, repeat=3)]  # token id = index + 16


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One turn. ids: the tokens of its content."""

    role: str
    content: str
    ids: Ids


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """One request.

    after: the ask whose end it waits for; None = the beginning of the trace.  wait_s: from then on.
    thread: what should stay together, to count moves: a chat, an agent, a group; "" = nothing should.
    session: X-Session-ID as the client sends it; None = it sends none.
    hashes: of the full blocks of prompt and answer."""

    index: int
    messages: tuple[Message, ...]
    answer: Message
    hashes: tuple[int, ...]
    prompt_tokens: int
    wait_s: float = 0.0
    after: int | None = None
    thread: str = ""
    session: str | None = None

    @property
    def output_tokens(self) -> int:
        return len(self.answer.ids)

    def body(self) -> dict[str, Any]:
        """The chat completion to send."""
        turns = [{"role": each.role, "content": each.content} for each in self.messages]
        return {"model": MODEL, "messages": turns, "stream": True, "max_tokens": self.output_tokens}

    def tokens(self) -> list[int]:
        """Ids of prompt and answer, as the hashes have them."""
        return [int(each) for each in _rendered(self.messages, self.answer)]


@dataclass(frozen=True, slots=True)
class Trace:
    """asks: in the order of their index; an ask waits only for earlier ones."""

    name: str
    asks: Sequence[Ask]


def build(name: str, workers: int, shape: Shape, seed: int = 1, size: float = 1.0) -> Trace:
    """Trace A to E for so many workers of one shape. size: 1 = some hundred requests per worker.

    Raises ValueError for another name."""
    if name not in _TRACES:
        raise ValueError(f"there are the traces {', '.join(_TRACES)}, not {name!r}")
    return _TRACES[name](_Writer(seed), workers, shape, size)


def step_cost_s(shape: Shape) -> float:
    """Seconds of a worker's time that one generated token takes, in a full batch."""
    return shape.timing.step_s(shape.max_num_seqs) / shape.max_num_seqs


def works_s(asks: Sequence[Ask], shape: Shape, copies: int = 1) -> list[float]:
    """Seconds of work that each ask is for one worker, if each block is computed once and never lost.

    copies: a text that nobody has begun before is computed so many times (spreading a burst costs that)."""
    seen: set[int] = set()
    works: list[float] = []
    for ask in asks:
        reusable = ask.hashes[: (ask.prompt_tokens - 1) // shape.block_tokens]
        cached = shape.block_tokens * sum(1 for _ in itertools.takewhile(seen.__contains__, reusable))
        times = copies if not seen.issuperset(ask.hashes[:4]) else 1
        seen.update(ask.hashes)
        prefill_s = shape.timing.prefill_s(ask.prompt_tokens - cached)
        works.append(prefill_s * times + ask.output_tokens * step_cost_s(shape))
    return works


def middle(count: int) -> tuple[int, int]:
    """Of so many arrivals, the half in the middle: the load is set, and measured, between these two."""
    return count // 4, count - count // 4 - 1


# -- text ------------------------------------------------------------------------------------------------------------


class _Writer:
    """Messages, lengths and times, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def message(self, role: str, words: int) -> Message:
        ids = self.rng.integers(_FIRST_WORD, _FIRST_WORD + len(WORDS), max(1, words), dtype=np.int32)
        return Message(role, " ".join([WORDS[each - _FIRST_WORD] for each in ids.tolist()]), ids)

    def length(self, median: float, spread: float, most: int, least: int = 4) -> int:
        """Log-normal: most are short, some are long."""
        return int(min(most, max(least, self.rng.lognormal(math.log(median), spread))))

    def ask(self, index: int, messages: Sequence[Message], answer: Message, known: Sequence[int] = ()) -> Ask:
        tokens = _rendered(messages, answer)
        return Ask(
            index, tuple(messages), answer, chain(tokens, known=known), len(tokens) - len(answer.ids)
        )  # fmt: skip

    def arrivals(self, count: int) -> list[float]:
        """`count` moments, the last of them at 1: a Poisson process, but at first, when all caches are cold, a third as
        fast: 15 % come in 35 % of the time."""
        moments = np.cumsum(self.rng.exponential(1.0, count))
        return [float(each) for each in np.interp(moments / moments[-1], (0, 0.15, 1), (0, 0.35, 1))]


def _rendered(messages: Sequence[Message], answer: Message) -> Ids:
    parts: list[Any] = []
    for each in messages:
        parts += [[_MARKS[each.role]], each.ids, [_END]]
    return np.concatenate([*parts, [_MARKS["assistant"]], answer.ids]).astype(np.int32)


# -- the traces ------------------------------------------------------------------------------------------------------


def _groups(writer: _Writer, workers: int, shape: Shape, size: float) -> Trace:
    prefixes = [writer.message("system", 8000) for _ in range(GROUPS)]
    known = [chain(_rendered([each], each)[:8000]) for each in prefixes]
    weights = 1.0 / np.arange(1, GROUPS + 1) ** 0.7
    count = max(GROUPS, round(400 * workers * size))
    picks = writer.rng.choice(GROUPS, count, p=weights / weights.sum())
    asks = []
    for index, group in enumerate(picks.tolist()):
        question = writer.message("user", writer.length(60, 0.6, 300))
        answer = writer.message("assistant", writer.length(100, 0.5, 400))
        ask = writer.ask(index, (prefixes[group], question), answer, known[group])
        asks.append(replace(ask, thread=f"group {group}"))
    return _spread("A", writer, asks, workers, shape)


def _chats(writer: _Writer, workers: int, shape: Shape, size: float) -> Trace:
    systems = [writer.message("system", words) for words in (40, 120, 250, 600)]
    asks: list[Ask] = []
    for chat in range(max(2, round(160 * workers * size))):
        messages = [systems[int(writer.rng.integers(len(systems)))]]
        known: tuple[int, ...] = ()
        before: int | None = None
        for turn in range(min(20, int(writer.rng.geometric(1 / 5)))):
            pasted = turn == 0 and writer.rng.random() < 0.1
            words = int(writer.rng.integers(1000, 4000)) if pasted else writer.length(60, 1.0, 1500)
            messages.append(writer.message("user", words))
            answer = writer.message("assistant", writer.length(180, 0.8, 1000))
            ask = writer.ask(len(asks), messages, answer, known)
            think_s = float(writer.rng.exponential(2.0)) + 0.5
            ask = replace(ask, thread=f"chat {chat}", session=f"chat-{chat}", after=before, wait_s=think_s)
            asks.append(ask)
            messages.append(answer)
            known, before = ask.hashes, ask.index
    return _spread("B", writer, asks, workers, shape)


def _hot_and_tail(writer: _Writer, workers: int, shape: Shape, size: float) -> Trace:
    hot = writer.message("system", 2000)
    known = chain(_rendered([hot], hot)[:2000])
    asks = []
    for index in range(max(10, round(300 * workers * size))):
        answer = writer.message("assistant", writer.length(120, 0.6, 500))
        if writer.rng.random() < 0.7:
            question = writer.message("user", writer.length(50, 0.7, 400))
            ask = writer.ask(index, (hot, question), answer, known)
        else:
            ask = writer.ask(index, (writer.message("user", int(writer.rng.integers(500, 3000))),), answer)
        asks.append(ask)
    return _spread("C", writer, asks, workers, shape)


def _agents(writer: _Writer, workers: int, shape: Shape, size: float) -> Trace:
    system = writer.message("system", 800)
    count = max(2, round(5 * workers * size))
    contexts = [[system, writer.message("user", writer.length(150, 0.5, 600))] for _ in range(count)]
    left = [int(writer.rng.integers(8, 20)) for _ in range(count)]
    known: list[tuple[int, ...]] = [()] * count
    asks: list[Ask] = []
    while any(left):
        agent = int(writer.rng.choice([each for each in range(count) if left[each]]))
        left[agent] -= 1
        answer = writer.message("assistant", writer.length(60, 0.5, 200))
        ask = writer.ask(len(asks), contexts[agent], answer, known[agent])
        gap_s = float(writer.rng.uniform(0.05, 0.4))
        asks.append(replace(ask, thread=f"agent {agent}", after=len(asks) - 1 if asks else None, wait_s=gap_s))
        known[agent] = ask.hashes
        contexts[agent] += [answer, writer.message("user", writer.length(400, 0.7, 2000))]
    return Trace("D", asks)


def _bursts(writer: _Writer, workers: int, shape: Shape, size: float) -> Trace:
    asks: list[Ask] = []
    for burst in range(max(2, round(3 * workers * size))):
        document = writer.message("user", writer.length(3000, 0.4, 6000, 1000))
        exact = burst % 2 == 0
        base = writer.ask(0, (document,), writer.message("assistant", 40))
        for _ in range(BURST):
            if exact:
                ask = replace(base, index=len(asks))
            else:
                last = writer.message("user", 16)
                ask = writer.ask(len(asks), (document, last), base.answer, base.hashes[: len(document.ids) // 16])
            asks.append(ask)
    offsets = writer.rng.uniform(0.0, 0.05, len(asks)).tolist()
    moments = writer.arrivals(len(asks) // BURST)

    def starts(over_s: float) -> list[float]:
        return [moments[ask.index // BURST] * over_s + offsets[ask.index] for ask in asks]

    over_s = _fitting(works_s(asks, shape, copies=workers), starts, workers)
    return Trace("E", [replace(ask, wait_s=start_s) for ask, start_s in zip(asks, starts(over_s), strict=True)])


def _spread(name: str, writer: _Writer, asks: Sequence[Ask], workers: int, shape: Shape) -> Trace:
    """Let the first asks of all threads come at random moments of a time that makes the load right."""
    moments = iter(writer.arrivals(sum(ask.after is None for ask in asks)))
    firsts = {ask.index: next(moments) for ask in asks if ask.after is None}

    def arrivals(over_s: float) -> list[float]:
        found: list[float] = []
        for ask in asks:
            if ask.after is None:
                found.append(firsts[ask.index] * over_s)
            else:  # the answer before takes a step of a half-full batch for each token
                step_s = shape.timing.step_s(shape.max_num_seqs // 2)
                found.append(found[ask.after] + asks[ask.after].output_tokens * step_s + ask.wait_s)
        return found

    over_s = _fitting(works_s(asks, shape), arrivals, workers, _SHORTEST_S if name == "B" else 0.0)
    return Trace(name, [replace(ask, wait_s=firsts[ask.index] * over_s) if ask.after is None else ask for ask in asks])


def _fitting(
    works: Sequence[float], arrivals: Callable[[float], Sequence[float]], workers: int, least: float = 0.0
) -> float:
    """The time over which the first asks must come so that the load in the middle is right, by bisection; at least
    `least` seconds, and then the load is less."""
    first, last = middle(len(works))

    def load(over_s: float) -> float:
        came = sorted(zip(arrivals(over_s), works, strict=True))
        return sum(work for _, work in came[first:last]) / (workers * max(1e-9, came[last][0] - came[first][0]))

    most = least + 10 * sum(works)
    for _ in range(40):
        between = (least + most) / 2
        if load(between) > LOAD:
            least = between
        else:
            most = between
    return most


_TRACES: Final[Mapping[str, Callable[[_Writer, int, Shape, float], Trace]]] = {
    "A": _groups,
    "B": _chats,
    "C": _hot_and_tail,
    "D": _agents,
    "E": _bursts,
}
NAMES: Final = tuple(_TRACES)
