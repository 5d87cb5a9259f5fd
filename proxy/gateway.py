"""THE JOURNEY of a question. One function knows the order; it orders and decides nothing.

How far may it travel? (policy) — Have we answered it? (tiers) — Is someone answering it now? (flights) —
Who remembers this conversation? (routing) — Ask (dispatch), tell, remember (keep, store).
"""

import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from cache import Explanation, Hit, Miss, Reach, Rules, Selection, TieredCache, flight_key
from proxy import openai, receipt, sse, status
from proxy.call import Call, Reply
from proxy.continuation import Continuation
from proxy.deliveries import Deliveries
from proxy.dispatch import Asks, told_chunks
from proxy.errands import Errands, prompt_of
from proxy.errors import NotCached, ProxyError, UpstreamFailed
from proxy.explain import Way
from proxy.flights import Flight, Flights, Head, Listener
from proxy.landing import Landed
from proxy.metrics import Metrics
from proxy.observer import Observer
from proxy.popular import Popular
from proxy.reading import Asked, Reader, in_context
from proxy.responses import Responses
from proxy.routing.identity import Identity
from proxy.routing.rides import Ride
from proxy.routing.router import Router
from proxy.routing.workers import WorkerPool
from proxy.said import Said
from proxy.shadow import Shadow
from proxy.upstream_errors import WorkerFailed
from proxy.usage import Usage
from proxy.warming import Warming

# By our own server, for the reply that it writes.
_STATED_AGAIN = frozenset({"content-length", "date", "server", "age", "cache-status"})


class Gateway:
    """An async context manager: leaving waits for the answers that are still being stored.

    secret: keys every digest.  capture_bytes: an answer larger than this is relayed but not stored.
    observer: nothing is served, and it counts what would have been; None = the cache serves.
    regenerate_s: a session that asks the same again so soon after it was told wants a new answer; 0 = it does not."""

    def __init__(
        self,
        cache: TieredCache,
        flights: Flights[Landed],
        dispatch: Asks,
        router: Router,
        errands: Errands,
        responses: Responses,
        metrics: Metrics,
        pool: WorkerPool,
        rules: Rules,
        secret: bytes,
        continuation: Continuation,
        *,
        capture_bytes: int = 4 << 20,
        promote_after: int = 1,
        shadow: Shadow | None = None,
        warming: Warming | None = None,
        observer: Observer | None = None,
        regenerate_s: float = 0.0,
    ) -> None:
        self._cache = cache
        self._flights = flights
        self._dispatch = dispatch
        self._router = router
        self._metrics = metrics
        self._reader = Reader(rules, secret, pool, promote_after=promote_after)
        self.receipts = receipt.Receipts(secret)
        self.popular = Popular()
        self._responses = responses
        self._errands = errands
        self._capture_bytes = capture_bytes
        self._shadow = shadow
        self._warming = warming
        self._observer = observer
        self._landing = continuation.landing
        self._continuation = continuation
        self._deliveries = Deliveries(regenerate_s, cache.clock) if regenerate_s else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.settled()

    # ── the journey ──────────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, call: Call) -> AbstractAsyncContextManager[Reply]:
        """From bytes to a reply. What is in memory is told at once, without a task or a wait; everything else goes the
        long way. Leaving the context early is leaving the flight. Raises ProxyError."""
        asked = self._reader.recalled(call, self._cache)
        if self._deliveries is not None:
            asked = self._deliveries.mindful(asked)
        hit = self._cache.at_hand(asked.question, asked.verdict) if self._observer is None else None
        if hit is None:
            return self._journey(call, asked)
        self._metrics.looked_up(hit)
        return _Ready(self._served(call, asked, hit))

    @contextlib.asynccontextmanager
    async def _journey(self, call: Call, asked: Asked) -> AsyncIterator[Reply]:
        verdict, since = asked.verdict, self._cache.forgets
        began_s = time.perf_counter()
        asked = in_context(asked, await self._cache.receipts.resolved(asked.question))
        found, unserved = await self._cache.lookup(asked.question, verdict), None
        if self._observer is not None:
            unserved = found if isinstance(found, Hit) else None
            found = self._observer.looked_up(asked, found, time.perf_counter() - began_s)
        self._metrics.looked_up(found, volatile=asked.volatile is not None)
        if isinstance(found, Hit):
            if self._shadow is not None:
                self._shadow.served(call.path, asked, found, len(call.body))
            yield self._served(call, asked, found)
            return
        if asked.controls.only_if_cached:
            raise NotCached(f"only-if-cached, and no stored answer may be served ({found.reason}).")

        if unserved is not None:  # in life a hit stores nothing, and the cache shall hold what it then would
            verdict = replace(verdict, write=Reach.NOWHERE)
        verdict = await self._cache.reviews.promoted(asked.question, verdict, asked.principal, asked.askers)
        if verdict is not asked.verdict:
            asked = replace(asked, verdict=verdict)

        async def pilot(flight: Flight[Landed]) -> None:
            await self._generate(call, asked, found, flight, since)
            if unserved is not None and self._observer is not None:
                self._observer.answered(unserved, flight.result.told if flight.result is not None else None)

        key = (*flight_key(asked.question, verdict), asked.shape.removeprefix("json").removeprefix("sse"))
        # Observed traffic shares no generation either: who joins one is told an answer that was made for another.
        shared = verdict.shareable and self._observer is None
        for may_try_again in (True, False):
            async with self._flights.join(key if shared else None, asked.shape, pilot) as boarded:
                flight, listener, joined = boarded
                head = await self._begun(flight, listener, again=joined and may_try_again)
                if head is None:
                    continue  # the leader failed before its first byte: that is retried, not spread
                self._metrics.flew(joined)
                yield await self._told(call, asked, found, flight, listener, head, joined)
                return

    # ── asking and remembering ───────────────────────────────────────────────────────────────────────────────────

    async def _generate(self, call: Call, asked: Asked, miss: Miss, flight: Flight[Landed], since: int) -> None:
        """Fly: ask a worker, pass on what it says, keep the answer when it may be kept."""
        if self._observer is None and (cut := await self._continuation.cut_of(asked)) is not None:
            await self._continuation.go_on(call, asked, miss, cut, flight, since)
            return
        entry_id = self._cache.new_id() if asked.verdict.write > Reach.NOWHERE else 0
        self._metrics.asking(time.perf_counter() - call.came_s)
        async with self._dispatch.ask(self._errands.of(call, asked.body, asked.model)) as (ride, reply):
            flight.begin(Head(reply.status, reply.headers, ride.choice.worker.name, ride.choice.reason, entry_id))
            if self._warming is not None:
                self._warming.begun(ride.prompt.session)
            said = Said(self._capture_bytes, streamed=_is_sse(reply.headers))
            patient = said.streamed and reply.status == 200 and self._continuation.may_rescue(asked)
            try:
                async for data in reply.chunks():
                    for block in said.next(data, stop_at_error=patient):
                        await flight.say(block)
            except WorkerFailed:
                if not patient:
                    raise
            if not (broken := patient and not said.done):
                for block in said.rest():
                    await flight.say(block)
                landed = self._landing.of(
                    asked, miss, reply.status, said.kept, since, entry_id, streamed=said.streamed
                )  # fmt: skip
                if landed is not None and (answer := landed.told.answer) is not None:
                    self._took(ride, Usage(answer.prompt_tokens or 0, landed.told.cached_tokens, answer.tokens or 0))
        if broken:
            kept = await self._continuation.rescue(call, asked, flight, said.told)
            landed = self._landing.of(asked, miss, 200, kept, since, entry_id, streamed=True)
        self._continuation.note(asked, landed, entry_id, since)
        flight.end(landed)

    def _took(self, ride: Ride, usage: Usage) -> None:
        """The loop is closed: what was believed of this worker is corrected by what it says."""
        ride.told(usage.prompt, usage.cached, usage.written)
        self._metrics.routed(ride.choice, usage.prompt, usage.cached)
        if self._warming is not None:
            self._warming.generated(ride.prompt.session, ride.choice.worker, usage.cached)

    # ── telling ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _served(self, call: Call, asked: Asked, hit: Hit) -> Reply:
        if self._warming is not None:
            self._warming.served(call, asked, hit)
        self.popular.note(hit.entry.id)
        if self._deliveries is not None:
            self._deliveries.note(asked)
        headers = status.of_hit(hit, detailed=call.tenant.trusted)
        headers.append(self._receipt(asked, hit.entry.id, hit))
        if asked.stream:
            answer = openai.opened(asked.kind, hit.entry.answer)
            return Reply(200, [("Content-Type", "text/event-stream; charset=utf-8"), ("Cache-Control", "no-cache"),
                               *headers], stream=_each(sse.replay(answer, include_usage=asked.usage)),
                         source=hit.tier)  # fmt: skip
        body = openai.deliver(asked.kind, hit.entry.answer)
        return Reply(200, [("Content-Type", "application/json"), *headers], body=body, source=hit.tier)

    def _receipt(self, asked: Asked, entry_id: int, hit: Hit | None) -> tuple[str, str]:
        """What feedback quotes."""
        who, session, now_s = asked.principal, asked.question.session, self._cache.clock()
        scope = asked.question.scope
        if hit is None or hit.evidence is None:
            likeness = None if hit is None else hit.likeness
            token = self.receipts.seal(scope.tenant, entry_id, who, session, now_s, likeness, for_user=asked.for_user)
        else:
            token = self.receipts.seal(
                scope.tenant, entry_id, who, session, now_s, hit.likeness, for_user=asked.for_user,
                evidence=hit.evidence, model=scope.model,
            )  # fmt: skip
        return receipt.HEADER, token

    async def _begun(self, flight: Flight[Landed], listener: Listener, *, again: bool) -> Head | None:
        """How the reply begins; None when somebody else's flight failed and we may start our own."""
        try:
            head = await flight.begun(listener)
        except ProxyError:
            if again:
                return None
            raise
        return None if again and head.status >= 500 else head

    async def _told(
        self, call: Call, asked: Asked, miss: Miss, flight: Flight[Landed], listener: Listener, head: Head,
        joined: bool,
    ) -> Reply:  # fmt: skip
        """What this listener is told: the worker's own bytes, or, when the flight has another shape, its whole answer
        in the shape that was asked for."""
        detailed = call.tenant.trusted
        headers = status.of_miss(asked.verdict, miss, collapsed=joined, detailed=detailed, warning=asked.volatile)
        if head.continued:
            headers = status.of_continued(head.continued, collapsed=joined)
        headers.append(self._receipt(asked, head.entry_id, None))
        if detailed and head.worker:
            headers += status.of_worker(head.worker, head.reason)
        source = "collapsed" if joined else "worker"
        dropped = _STATED_AGAIN | {"set-cookie"} if joined else _STATED_AGAIN  # a cookie is for the one who asked
        headers = [*(pair for pair in head.headers if pair[0].lower() not in dropped), *headers]
        if _is_sse(head.headers) and asked.stream:
            return Reply(head.status, headers, stream=self._relayed(asked, flight, listener), source=source)
        if head.status != 200 or not (_is_sse(head.headers) or asked.stream):
            body = b"".join([block.data async for block in flight.blocks(listener)])
            self._noted(asked, flight)
            return Reply(head.status, headers, body=body, source=source)
        landed = await flight.ended(listener)
        if landed is None or landed.told.answer is None:
            raise UpstreamFailed("The generation that this request shared did not end with a whole answer. Try again.")
        self._noted(asked, flight)
        headers = [pair for pair in headers if pair[0].lower() != "content-type"]
        if asked.stream:
            answer = openai.opened(asked.kind, landed.told.answer)
            headers.append(("Content-Type", "text/event-stream; charset=utf-8"))
            return Reply(200, headers, stream=_each(sse.replay(answer, include_usage=asked.usage)), source=source)
        headers.append(("Content-Type", "application/json"))
        return Reply(200, headers, body=openai.deliver(asked.kind, landed.told.answer), source=source)

    async def _relayed(self, asked: Asked, flight: Flight[Landed], listener: Listener) -> AsyncIterator[bytes]:
        async for block in flight.blocks(listener):
            if asked.usage or not block.usage:
                yield block.data
        self._noted(asked, flight)

    def _noted(self, asked: Asked, flight: Flight[Landed]) -> None:
        """A session that shared a generation was told its answer too."""
        landed = flight.result
        if landed is not None and self._deliveries is not None:
            self._deliveries.note(asked)
        if landed is not None and landed.entry is not None:
            self._cache.note(asked.question, landed.entry)

    # ── everything that is not cached ────────────────────────────────────────────────────────────────────────────

    @contextlib.asynccontextmanager
    async def relay(self, call: Call) -> AsyncIterator[Reply]:
        """Any other path that vLLM serves: byte for byte, through the same routing and failure rules."""
        body = openai.peek(call.headers.get("Content-Type", ""), call.body)
        model = body.get("model")
        await self._responses.recall(call, body)
        errand = self._errands.of(call, body, model if isinstance(model, str) and model else None, raw=call.body)
        async with self._dispatch.ask(errand) as (ride, reply):
            if (unknown := self._responses.unknown(call, body, reply.status)) is not None:
                raise unknown
            headers = [*reply.headers, *status.of_relay()]
            if call.tenant.trusted:
                headers += status.of_worker(ride.choice.worker.name, ride.choice.reason)
            self._metrics.relayed()
            stream = self._responses.noted(call, ride, reply.status, told_chunks(reply), self._took)
            yield Reply(reply.status, headers, stream=stream, source="relay")

    # ── what people ask ──────────────────────────────────────────────────────────────────────────────────────────

    async def explain(self, call: Call) -> tuple[Explanation, Way, Identity | None]:
        """What would happen to this request, and why. Asks no worker and stores nothing."""
        asked = self._reader.read(call)
        asked = in_context(asked, await self._cache.receipts.resolved(asked.question))
        explanation = await self._cache.explain(asked.question, asked.verdict)
        if isinstance(missed := explanation.outcome, Miss) and (cut := self._continuation.held(asked)) is not None:
            told = f"a cut answer of {cut.answer.tokens} tokens is held, to be continued; {missed.detail}"
            explanation = replace(explanation, outcome=replace(missed, detail=told))
        who = self._errands.whose(call, asked.body, learn=False)
        prompt = prompt_of(call, asked.body, asked.model, who)
        candidates = self._router.candidates(prompt)
        try:
            return explanation, Way(self._router.choose(prompt), candidates, asked.volatile), who
        except ProxyError as error:
            return explanation, Way(error, candidates, asked.volatile), who

    async def forget(self, entry_id: int) -> int:
        """Delete one answer from every tier and replica. Returns how many were there. Raises StoreUnavailable."""
        return await self._cache.forget(Selection(ids=(entry_id,)))

    @property
    def owed(self) -> int:
        """Stored answers that cannot be found by meaning yet."""
        return self._cache.owed

    async def settled(self) -> None:
        """Wait until every answer that was kept is stored."""
        await self._landing.settled()


class _Ready:
    """A reply that needs no cleaning up after; `asynccontextmanager` would cost more than the look-up did."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    async def __aenter__(self) -> Reply:
        return self._reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def _is_sse(headers: list[tuple[str, str]]) -> bool:
    return any(name.lower() == "content-type" and value.startswith("text/event-stream") for name, value in headers)


async def _each(pieces: Any) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
