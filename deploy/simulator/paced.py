"""The engine in real time: `proxy.clockwork.Clockwork` for a simulated worker behind HTTP."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from itertools import count

from xxhash import xxh3_64_intdigest

from deploy.simulator.blocks import chain
from deploy.simulator.engine import Engine, WorkerDead
from deploy.simulator.facts import FirstToken, Request, Shape
from deploy.simulator.kv_events import Publisher
from proxy import simulated
from proxy.simulated import Prompt, Unfit
from proxy.simulated_metrics import Gauges

_SHORTEST_WAIT_S = 0.001


class EngineClock:
    """publisher: told of the KV events; None = there are none.  now: seconds, never backwards."""

    def __init__(
        self, shape: Shape, publisher: Publisher | None = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.engine = Engine(shape, on_batch=None if publisher is None else publisher.publish)
        self._publisher = publisher
        self._now = now
        self._turns: dict[str, EngineTurn] = {}
        self._names = count()
        self._alarm: asyncio.TimerHandle | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._publisher is not None:
            self._publisher.start()
        self.engine.restart(self._now())

    def stop(self) -> None:
        self.engine.kill(self._now())
        for turn in self._turns.values():
            turn.woken.set()
        self._turns.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        if self._publisher is not None:
            self._publisher.stop()

    def forget(self) -> bool:
        return self.engine.reset_prefix_cache(self._now())

    def gauges(self) -> Gauges:
        self.tick()
        found, shape = self.engine.metrics(), self.engine.shape
        return Gauges(
            found.num_requests_running,
            found.num_requests_waiting,
            found.kv_cache_usage_perc,
            found.prefix_cache_queries,
            found.prefix_cache_hits,
            found.prompt_tokens,
            found.generation_tokens,
            shape.blocks,
            shape.block_tokens,
        )

    # -- questions -------------------------------------------------------------------------------------------------

    def begin(self, prompt: Prompt, answer: Sequence[str], session: str | None) -> "EngineTurn":
        """Raises Unfit for what does not fit into this worker, as vLLM would."""
        tokens = [simulated.token_id(token) for token in (*prompt.tokens, *answer)]
        parent = xxh3_64_intdigest(prompt.salt.encode()) if prompt.salt else 0
        hashes = chain(tokens, parent, self.engine.shape.block_tokens)
        if prompt.salt and hashes and self._publisher is not None:
            self._publisher.salted(hashes[0], prompt.salt)
        request = Request(
            f"request-{next(self._names)}", max(1, len(prompt.tokens)), max(1, len(answer)), hashes, tokens, session
        )
        turn = self._turns[request.id] = EngineTurn(self, request)
        try:
            self.engine.submit(self._now(), request)
        except ValueError as error:
            del self._turns[request.id]
            raise Unfit(str(error)) from error
        self.tick()
        return turn

    def leave(self, turn: "EngineTurn") -> None:
        if self._turns.pop(turn.request.id, None) is not None and not turn.over:
            self.engine.abort(self._now(), turn.request.id)
            self.tick()

    def tick(self) -> None:
        """Bring the engine to now, tell whom it concerns, and come back when it has more to say."""
        for outcome in self.engine.advance(self._now()):
            turn = self._turns.get(outcome.request.id)
            if turn is None:
                continue
            turn.cached_tokens = outcome.cached_tokens
            turn.begun = True
            turn.over = not isinstance(outcome, FirstToken)
            turn.woken.set()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due_s = self.engine.next_event_time()
        if math.isfinite(due_s):
            wait_s = max(0.0, due_s - self._now())
            self._alarm = asyncio.get_running_loop().call_later(wait_s + _SHORTEST_WAIT_S, self.tick)

    def token_s(self) -> float:
        """How long the next token of each takes, about."""
        return max(_SHORTEST_WAIT_S, self.engine.shape.timing.step_s(max(1, len(self._turns))))


class EngineTurn:
    """One request in the engine."""

    def __init__(self, clock: EngineClock, request: Request) -> None:
        self.request = request
        self.woken = asyncio.Event()
        self.cached_tokens = 0
        self.begun = self.over = False
        self._clock = clock

    async def prefilled(self) -> int:
        await self.woken.wait()
        if not self.begun:
            raise WorkerDead
        return self.cached_tokens

    async def written(self, tokens: int) -> None:
        wanted = min(tokens, self.request.output_tokens)
        while not self.over and self._clock.engine.progress(self.request.id) < wanted:
            await asyncio.sleep(self._clock.token_s())
            self._clock.tick()
            if not self._clock.engine.alive:
                raise WorkerDead

    def close(self, *, whole: bool) -> None:
        self._clock.leave(self)
