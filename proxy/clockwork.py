"""How long a simulated worker takes, and what its prefix cache remembers. Waits; `simulated` says what is answered.

    turn = clockwork.begin(prompt, answer, session)
    cached = await turn.prefilled()          # the first token may be said now
    await turn.written(n)                    # n tokens of the answer may be said now
    turn.close(whole=True)                   # in any case, exactly once

`Pacer` is the plain one: fixed seconds per token, however many ask. That of `deploy.simulator` has a queue.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from proxy.faults import Pace
from proxy.simulated import BLOCK_TOKENS, PrefixCache, Prompt
from proxy.simulated_metrics import Gauges


class Turn(Protocol):
    """One answer in the making. Leaving early is `close(whole=False)`: what was computed stays cached."""

    async def prefilled(self) -> int:
        """Waits for the first token. How many tokens of the prompt the prefix cache knew."""

    async def written(self, tokens: int) -> None:
        """Waits until so many tokens are out."""

    def close(self, *, whole: bool) -> None: ...


class Clockwork(Protocol):
    """What `SimulatedWorker` needs to know about time and memory."""

    def begin(self, prompt: Prompt, answer: Sequence[str], session: str | None) -> Turn:
        """session: X-Session-ID, as it came."""

    def gauges(self) -> Gauges: ...

    def start(self) -> None:
        """The process begins: nothing is remembered, every counter is 0."""

    def stop(self) -> None:
        """The process ends, with whatever it was doing."""

    def forget(self) -> bool:
        """/reset_prefix_cache. False, and nothing is forgotten, where it may not be done now."""


class Pacer:
    """pace: may be changed at any time."""

    def __init__(self, pace: Pace, cache: PrefixCache) -> None:
        self.pace = pace
        self.cache = cache
        self._start()

    def _start(self) -> None:
        self.held = self.queries = self.hits = self.generated = self.running = 0

    def begin(self, prompt: Prompt, answer: Sequence[str], session: str | None) -> "PacedTurn":
        return PacedTurn(self, prompt, answer)

    def gauges(self) -> Gauges:
        usage = min(1.0, self.held / self.cache.room)
        return Gauges(
            self.running, 0, usage, self.queries, self.hits, self.queries, self.generated, self.cache.room, BLOCK_TOKENS
        )

    def start(self) -> None:
        self.cache.clear()
        self._start()

    def stop(self) -> None:
        """Nothing: whoever waits is cancelled with his connection."""

    def forget(self) -> bool:
        self.cache.clear()
        return True


class PacedTurn:
    """A Turn that knows nobody else."""

    def __init__(self, pacer: Pacer, prompt: Prompt, answer: Sequence[str]) -> None:
        self._pacer, self._prompt, self._answer = pacer, prompt, answer
        self._said = 0
        self._blocks = -(-(len(prompt.tokens) + len(answer)) // BLOCK_TOKENS)
        self._cached = pacer.cache.take(prompt.tokens, prompt.salt)
        pacer.running += 1
        pacer.held += self._blocks
        pacer.queries += len(prompt.tokens)
        pacer.hits += self._cached

    async def prefilled(self) -> int:
        pace = self._pacer.pace
        await _sleep(pace.first_token_s + pace.prefill_token_s * (len(self._prompt.tokens) - self._cached))
        return self._cached

    async def written(self, tokens: int) -> None:
        await _sleep(self._pacer.pace.token_s * (tokens - self._said))
        self._said = max(self._said, tokens)

    def close(self, *, whole: bool) -> None:
        pacer, prompt = self._pacer, self._prompt
        if whole:
            pacer.cache.keep((*prompt.tokens, *self._answer), prompt.salt)
        pacer.generated += len(self._answer) if whole else self._said
        pacer.running -= 1
        pacer.held -= self._blocks


async def _sleep(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)
