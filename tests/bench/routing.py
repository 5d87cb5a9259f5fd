"""Routing policies on simulated workers, in virtual time: what each finds in the caches, and what its users wait for.

    python tests/bench/routing.py [--workers 8] [--traces A,B,C,D,E] [--policies …] [--faults none|kill|scale|all]
                                  [--seed 1] [--size 1.0] [--json]

Everything is counted at the workers (`deploy.simulator`), never by what a router believes. The oracle is one worker
with the speed and the cache of all of them together: nobody can find more there than it does. Times are virtual: they
compare policies and say nothing about any machine.
"""

from __future__ import annotations

import argparse
import functools
import heapq
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

import numpy as np

from deploy.simulator.engine import NEVER, Engine
from deploy.simulator.facts import Finished, FirstToken, Request, Shape
from deploy.simulator.traces import NAMES, Ask, Trace, build, middle, step_cost_s
from tests.bench.routing_policies import POLICIES, Policy, RejoinderWithEvents
from tests.bench.routing_results import Result, table

SHAPE: Final = Shape(blocks=8192, max_num_seqs=64)
ATTEMPTS: Final = 3  # the first and two more, as `proxy.dispatch`
PROBE_S: Final = 2.0
NOTICED_S: Final = 0.5  # from a death, or a return, until probes have seen it
FAULTS: Final = ("none", "kill", "scale")


@dataclass(frozen=True, slots=True)
class Fault:
    """share: of the trace's arrivals that came before.  kind: kill, restart, join or leave.  worker: whose; of a join,
    nobody's."""

    share: float
    kind: str
    worker: int = 0


def faults_of(kind: str, workers: int) -> tuple[Fault, ...]:
    """kill: one dies at 40 % and is back at 70 %.  scale: one joins at 30 %, one is drained at 60 %."""
    if kind == "kill":
        return Fault(0.4, "kill", workers // 2), Fault(0.7, "restart", workers // 2)
    if kind == "scale":
        return Fault(0.3, "join"), Fault(0.6, "leave", workers // 2)
    return ()


@dataclass(slots=True)
class Account:
    """What one worker did. Tokens; computed: of prompts that were not cached, and of answers."""

    total: int = 0
    computed: int = 0
    alive_s: float = 0.0
    since_s: float = 0.0
    left_s: float = NEVER  # when it was drained


@dataclass(slots=True)
class _Flight:
    ask: Ask
    arrived_s: float
    worker: int = -1
    avoid: frozenset[int] = frozenset()
    spoke: bool = False


@dataclass(slots=True)
class _Moves:
    """Where each thread was last, and where it went next after the kill."""

    last: dict[str, int] = field(default_factory=dict)
    at_kill: dict[str, int] = field(default_factory=dict)
    next: dict[str, int] = field(default_factory=dict)


class Run:
    """One trace, one policy, some faults."""

    def __init__(self, trace: Trace, policy: str, workers: int, shape: Shape, faults: Sequence[Fault] = ()) -> None:
        self.now_s = 0.0
        self.trace = trace
        self.shape = shape
        self.policy: Policy = POLICIES[policy](lambda: self.now_s)
        self.engines: list[Engine] = []
        self.accounts: list[Account] = []
        self.ttft: list[float] = []
        self.prompt_tokens = self.cached_tokens = self.failed = self.broken = self.retried = 0
        self._todo: list[tuple[float, int, str, int]] = []
        self._order = itertools.count()
        self._planned: list[float] = []
        self._flights: dict[int, _Flight] = {}
        self._followers: dict[int, list[int]] = {}
        self._moves = _Moves()
        self._killed = -1
        self._arrived = 0
        self._moments: list[tuple[float, list[float]]] = []
        self._faults = sorted(faults, key=lambda fault: fault.share)
        for _ in range(workers):
            self._join()
        self._tells = isinstance(self.policy, RejoinderWithEvents)
        self._plan(0.0, "probe", 0)
        for ask in trace.asks:
            if ask.after is None:
                self._plan(ask.wait_s, "arrive", ask.index)
            else:
                self._followers.setdefault(ask.after, []).append(ask.index)

    def go(self) -> None:
        while self._todo:
            self.now_s, _, kind, number = heapq.heappop(self._todo)
            if kind == "work":
                self._work(number)
            elif kind == "arrive":
                self._arrive(number)
            elif kind == "probe":
                self._probe()
            elif kind == "down":
                self.policy.down(number)
            else:
                self.policy.up(number)
        for engine, account in zip(self.engines, self.accounts, strict=True):
            self._close(engine, account)

    # -- events --------------------------------------------------------------------------------------------------------

    def _plan(self, at_s: float, kind: str, number: int) -> None:
        heapq.heappush(self._todo, (at_s, next(self._order), kind, number))

    def _wake(self, worker: int) -> None:
        due_s = self.engines[worker].next_event_time()
        if due_s != NEVER and due_s != self._planned[worker]:
            self._planned[worker] = due_s
            self._plan(due_s, "work", worker)

    def _probe(self) -> None:
        for worker, engine in enumerate(self.engines):
            if engine.alive:
                self.policy.probe(worker, engine)
        if self._todo:
            self._plan(self.now_s + PROBE_S, "probe", 0)

    def _arrive(self, index: int) -> None:
        while self._faults and self._faults[0].share * len(self.trace.asks) <= self._arrived:
            self._strike(self._faults.pop(0))
        if self._arrived in middle(len(self.trace.asks)):
            self._moments.append((self.now_s, [self._work_of(worker) for worker in range(len(self.engines))]))
        self._arrived += 1
        flight = self._flights[index] = _Flight(self.trace.asks[index], self.now_s)
        self._send(flight)

    def _send(self, flight: _Flight) -> None:
        ask = flight.ask
        while len(flight.avoid) < ATTEMPTS:
            try:
                worker = flight.worker = self.policy.choose(ask, flight.avoid)
            except LookupError:
                break
            engine = self.engines[worker]
            if engine.alive:
                self._note_move(ask, worker)
                engine.submit(self.now_s, self._request(ask))
                self._wake(worker)
                return
            self.retried += 1
            self.policy.fail(ask, worker)
            self.policy.down(worker)
            flight.avoid |= {worker}
        self.failed += 1
        self._over(flight)

    def _request(self, ask: Ask) -> Request:
        tokens = ask.tokens() if self._tells else ()
        session = self.policy.session_of(ask)
        return Request(str(ask.index), ask.prompt_tokens, ask.output_tokens, ask.hashes, tokens, session)

    def _work(self, worker: int) -> None:
        engine, account = self.engines[worker], self.accounts[worker]
        for outcome in engine.advance(self.now_s):
            flight = self._flights[int(outcome.request.id)]
            ask = flight.ask
            if isinstance(outcome, FirstToken):
                flight.spoke = True
                self.ttft.append(outcome.at_s - flight.arrived_s)
                self.prompt_tokens += ask.prompt_tokens
                self.cached_tokens += outcome.cached_tokens
                account.total += ask.prompt_tokens
                account.computed += ask.prompt_tokens - outcome.cached_tokens
                self.policy.first_token(ask, worker)
            elif isinstance(outcome, Finished):
                account.total += ask.output_tokens
                account.computed += ask.output_tokens
                self.policy.end(ask, worker, outcome.cached_tokens)
                self._over(flight)
        self._wake(worker)

    def _over(self, flight: _Flight) -> None:
        del self._flights[flight.ask.index]
        for index in self._followers.get(flight.ask.index, ()):
            self._plan(self.now_s + self.trace.asks[index].wait_s, "arrive", index)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        events = None
        if isinstance(self.policy, RejoinderWithEvents):
            events = functools.partial(self.policy.kv_events, len(self.engines))
        self.engines.append(Engine(self.shape, on_batch=events))
        self.accounts.append(Account(since_s=self.now_s))
        self._planned.append(NEVER)
        self.policy.join(len(self.engines) - 1)

    def _strike(self, fault: Fault) -> None:
        if fault.kind == "kill":
            self._kill(fault.worker)
        elif fault.kind == "restart":
            self.engines[fault.worker].restart(self.now_s)
            self.accounts[fault.worker].since_s = self.now_s
            self._plan(self.now_s + NOTICED_S, "up", fault.worker)
        elif fault.kind == "join":
            self._join()
        else:
            self.accounts[fault.worker].left_s = self.now_s
            self.policy.leave(fault.worker)

    def _kill(self, worker: int) -> None:
        engine = self.engines[worker]
        self._close(engine, self.accounts[worker])
        self._killed = worker
        self._moves.at_kill = dict(self._moves.last)
        lost = engine.kill(self.now_s)
        self._planned[worker] = NEVER
        self._plan(self.now_s + NOTICED_S, "down", worker)
        for request in lost:
            flight = self._flights[int(request.id)]
            self.policy.fail(flight.ask, worker)
            if flight.spoke:
                self.broken += 1
                self._over(flight)
            else:
                self.retried += 1
                flight.avoid |= {worker}
                self._send(flight)

    def _close(self, engine: Engine, account: Account) -> None:
        if engine.alive:
            account.alive_s += min(self.now_s, account.left_s) - account.since_s

    def _work_of(self, worker: int) -> float:
        """Seconds of prefills and of its share of decoding steps; of this life, so an interval must not have a kill."""
        metrics = self.engines[worker].metrics()
        return metrics.prefill_s + metrics.generation_tokens * step_cost_s(self.shape)

    def utilisation(self) -> tuple[float, float]:
        """(mean, busiest) of the workers, while the middle half of the requests arrived."""
        (from_s, before), (to_s, after) = self._moments
        uses = [max(0.0, each - before[n]) / (to_s - from_s) for n, each in enumerate(after[: len(before)])]
        return sum(uses) / len(uses), max(uses)

    def _note_move(self, ask: Ask, worker: int) -> None:
        if ask.thread:
            if ask.thread in self._moves.at_kill:
                self._moves.next.setdefault(ask.thread, worker)
            self._moves.last[ask.thread] = worker

    # -- what came of it -----------------------------------------------------------------------------------------------

    def hit_rate(self) -> float:
        return self.cached_tokens / max(1, self.prompt_tokens)

    def result(self, policy: str, faults: str, oracle_rate: float, seconds: float) -> Result:
        moves = self._moves
        homeless = Counter(to for thread, to in moves.next.items() if moves.at_kill[thread] == self._killed)
        others = [thread for thread in moves.next if moves.at_kill[thread] != self._killed]
        strays = sum(moves.next[thread] != moves.at_kill[thread] for thread in others)
        p50, p99 = np.percentile(self.ttft, (50, 99))
        return Result(
            self.trace.name, policy, faults, len(self.trace.asks), self.hit_rate(), self.hit_rate() / oracle_rate,
            _skew([account.computed / account.alive_s for account in self.accounts]),
            _skew([account.total / account.alive_s for account in self.accounts]),
            float(np.mean(self.ttft)), float(p50), float(p99), *self.utilisation(),
            homeless.total(), max(homeless.values()) / homeless.total() if homeless else 0.0,
            strays / len(others) if others else 0.0, self.failed, self.broken, self.retried, seconds,
        )  # fmt: skip


def _skew(loads: Sequence[float]) -> float:
    return max(loads) * len(loads) / max(1e-9, sum(loads))


def all_in_one(shape: Shape, workers: int) -> Shape:
    """One worker as fast and as large as so many; steps of its batch take as long as theirs."""
    timing = shape.timing
    faster = replace(
        timing,
        prefill_base_s=timing.prefill_base_s / workers,
        prefill_token_s=timing.prefill_token_s / workers,
        decode_sequence_s=timing.decode_sequence_s / workers,
        chunk_tokens=None if timing.chunk_tokens is None else timing.chunk_tokens * workers,
    )
    return Shape(shape.blocks * workers, shape.block_tokens, shape.max_num_seqs * workers, faster)


def oracle_of(trace: Trace, workers: int, shape: Shape) -> Run:
    run = Run(trace, "least_loaded", 1, all_in_one(shape, workers))
    run.go()
    return run


def compare(
    trace: Trace, policies: Sequence[str], workers: int, shape: Shape = SHAPE, faults: Sequence[str] = ("none",)
) -> list[Result]:
    """Every policy under every kind of faults; the oracle, which nothing ever befalls, comes first."""
    began = time.perf_counter()
    oracle = oracle_of(trace, workers, shape)
    rate = max(oracle.hit_rate(), 1e-9)
    results = [oracle.result("oracle", "none", rate, time.perf_counter() - began)]
    for kind in faults:
        for name in policies:
            began = time.perf_counter()
            run = Run(trace, name, workers, shape, faults_of(kind, workers))
            run.go()
            results.append(run.result(name, kind, rate, time.perf_counter() - began))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description="Routing policies on simulated workers, in virtual time.")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--traces", default=",".join(NAMES))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--faults", default="none", help="none, kill, scale (comma-separated), or all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=float, default=1.0, help="1 = some hundred requests per worker")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    kinds = FAULTS if given.faults == "all" else tuple(given.faults.split(","))
    results: list[Result] = []
    for name in given.traces.split(","):
        trace = build(name, given.workers, SHAPE, given.seed, given.size)
        found = compare(trace, given.policies.split(","), given.workers, SHAPE, kinds)
        results += found
        if not given.json:
            print(table(found), flush=True)
    if given.json:
        json.dump([asdict(each) for each in results], sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
