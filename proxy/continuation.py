"""Asking for the rest of an answer that stopped too early: one that `max_tokens` cut, or whose worker died. Waits;
`proxy.continuing` decides.

A chat is continued with vLLM's `continue_final_message`, which is sound only where the model's template lets the
beginning extend the prompt as it stands. So each model is tested once, with its worker's own /tokenize; a model that
fails, or a worker without /tokenize, is not continued. A text completion needs no template and no test.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from cache import Entry, Kind, Miss, Reach, TieredCache
from proxy import openai, sse
from proxy.call import Call
from proxy.continuing import (
    TEST_CHAT,
    TEST_PART,
    Splice,
    Unspliceable,
    beginning,
    deterministic,
    extends,
    rest_of,
    told_so_far,
    why_not,
)
from proxy.dispatch import Asks, Errand
from proxy.errands import Errands
from proxy.errors import ProxyError, UpstreamFailed
from proxy.flights import Block, Flight, Head
from proxy.landing import Landed, Landing
from proxy.metrics import Metrics
from proxy.reading import Asked
from proxy.routing.choice import Prompt
from proxy.routing.rides import Ride
from proxy.routing.workers import WorkerPool
from proxy.upstream_errors import WorkerFailed

log = logging.getLogger(__name__)

SSE: Final = [("Content-Type", "text/event-stream; charset=utf-8"), ("Cache-Control", "no-cache")]
_DEATHS: Final = 2  # how many workers may die under one answer


class Continuation:
    """cuts: whether cut answers are kept and continued.  rescue: whose streams are continued when a worker dies."""

    def __init__(
        self, cache: TieredCache, dispatch: Asks, errands: Errands, pool: WorkerPool, landing: Landing,
        metrics: Metrics, *, cuts: bool, rescue: str, worker_api_key: str | None,
    ) -> None:  # fmt: skip
        self._cache = cache
        self._dispatch = dispatch
        self._errands = errands
        self._pool = pool
        self.landing = landing
        self._metrics = metrics
        self._cuts = cuts
        self._rescue = rescue
        self._headers = [("Content-Type", "application/json")]
        if worker_api_key:
            self._headers.append(("Authorization", f"Bearer {worker_api_key}"))
        self._tested: dict[tuple[str | None, str], bool] = {}

    # ── cut answers ──────────────────────────────────────────────────────────────────────────────────────────────

    def note(self, asked: Asked, landed: Landed | None, entry_id: int, since: int) -> None:
        """An answer has landed: keep it to be continued, if it was cut."""
        if not self._cuts or landed is None or landed.entry is not None or (answer := landed.told.answer) is None:
            return
        if landed.told.outcome.finish_reasons != ("length",) or why_not(asked.body, asked.kind) is not None:
            return
        if beginning(asked.kind, answer) is None:
            return
        if self._cache.cuts.keep(asked.question, asked.verdict, answer, entry_id, since):
            self._metrics.continued("kept")
            self.landing.background(self._test(asked))

    async def cut_of(self, asked: Asked) -> Entry | None:
        """The beginning that this request is continued from; None = it is generated from its first word."""
        cut = self.held(asked)
        return cut if cut is not None and await self._sound(asked) else None

    def held(self, asked: Asked) -> Entry | None:
        """The same, whatever its model's test says."""
        if not self._cuts or why_not(asked.body, asked.kind) is not None:
            return None
        return self._cache.cuts.find(asked.question, asked.verdict)

    async def go_on(self, call: Call, asked: Asked, miss: Miss, cut: Entry, flight: Flight[Landed], since: int) -> Ride:
        """Fly: tell the beginning at once, then the rest as it comes. Returns the ride of the rest."""
        part = beginning(asked.kind, cut.answer)
        assert part is not None  # else it was not kept
        entry_id = self._cache.new_id() if asked.verdict.write > Reach.NOWHERE else 0
        whole = openai.opened(asked.kind, cut.answer)
        head = {name: whole.get(name) for name in ("id", "created", "model")}
        tokens = cut.answer.tokens or 0
        splice = Splice(asked.kind, head, tokens, asked=cut.answer.prompt_tokens)
        flight.begin(Head(200, SSE, "", "", entry_id, continued=tokens))
        kept = [splice.opening(part)]
        await flight.say(Block(kept[0]))
        left = None if asked.question.limit is None else asked.question.limit - tokens
        try:
            ride = await self._flow(call, asked, rest_of(asked.body, asked.kind, part, left), splice, flight, kept)
        except (UpstreamFailed, WorkerFailed):
            self._metrics.continued("failed")
            self._cache.cuts.forget([cut.id])  # so that asking again begins anew
            raise
        landed = self.landing.of(asked, miss, 200, kept, since, entry_id, streamed=True, known=tokens)
        if landed is not None and landed.entry is not None:
            self._cache.cuts.forget([cut.id])
        self.note(asked, landed, entry_id, since)
        self._metrics.continued("done", tokens)
        flight.end(landed)
        return ride

    # ── dead workers ─────────────────────────────────────────────────────────────────────────────────────────────

    def may_rescue(self, asked: Asked) -> bool:
        """Whether this stream is continued when its worker dies."""
        if self._rescue == "off" or (self._rescue == "deterministic" and not deterministic(asked.body)):
            return False
        return why_not(asked.body, asked.kind) is None

    async def rescue(self, call: Call, asked: Asked, flight: Flight[Landed], told: list[bytes] | None) -> list[bytes]:
        """Tell the rest of a stream that broke off. told: whole events, None where they were too many to keep.
        Returns all that was told in the end. Raises ProxyError where that cannot be done."""
        kept = list(told) if told is not None else None
        try:
            for _ in range(_DEATHS):
                if kept is not None and await self._went_on(call, asked, flight, kept):
                    self._metrics.rescued("done")
                    return kept
        except ProxyError:
            self._metrics.rescued("lost")
            raise
        self._metrics.rescued("lost")
        raise UpstreamFailed("The worker broke off: this answer is not complete. Try again.")

    async def _went_on(self, call: Call, asked: Asked, flight: Flight[Landed], kept: list[bytes]) -> bool:
        so_far = sse.so_far(b"".join(kept))
        if so_far is None:
            return False
        if so_far.finished:
            return await self._ended(asked, flight, kept)
        part = told_so_far(asked.kind, so_far.text)
        if (part is None and so_far.text.strip()) or (part is not None and not await self._sound(asked)):
            return False
        tokens = await self._count(asked, part) if part is not None else 0
        limit = asked.question.limit
        if tokens is None or (limit is not None and tokens >= limit):
            return False
        left = None if limit is None else limit - tokens
        body = dict(asked.body) if part is None else rest_of(asked.body, asked.kind, part, left)
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        splice = Splice(asked.kind, so_far.head, tokens, so_far.text[len(part or "") :])
        try:
            await self._flow(call, asked, body, splice, flight, kept)
        except WorkerFailed as failed:
            log.warning("%s; it was continuing another's answer", failed)
            return False
        return True

    async def _ended(self, asked: Asked, flight: Flight[Landed], kept: list[bytes]) -> bool:
        """Everything was told but the end of the stream."""
        if asked.usage and b'"completion_tokens"' not in b"".join(kept[-2:]):
            return False
        kept.append(sse.DONE)
        await flight.say(Block(sse.DONE))
        return True

    # ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _flow(
        self, call: Call, asked: Asked, body: Mapping[str, Any], splice: Splice, flight: Flight[Landed],
        kept: list[bytes],
    ) -> Ride:  # fmt: skip
        """Raises WorkerFailed where it broke off after its first byte, UpstreamFailed where it said something else."""
        errand = self._errands.of(replace(call, body=orjson.dumps(body)), body, asked.model)
        broken: WorkerFailed | None = None
        async with self._dispatch.ask(errand) as (ride, reply):
            if reply.status != 200:
                log.warning("%s would not continue an answer: it says %d", ride.choice.worker.name, reply.status)
                raise UpstreamFailed("The answer could not be continued where it stopped. Try again.")
            splitter = sse.Splitter()
            try:
                async for data in reply.chunks():
                    for block in splice.take(splitter.feed(data)):
                        kept.append(block.data)
                        await flight.say(block)
            except WorkerFailed as failed:
                broken = failed
            except Unspliceable as odd:
                log.warning("%s does not continue an answer: %s", ride.choice.worker.name, odd)
                raise UpstreamFailed("The answer could not be continued where it stopped. Try again.") from odd
            if splice.usage is not None:
                prompt, cached, written = splice.usage
                ride.told(prompt, cached, written)
        if broken is not None:
            raise broken
        if not splice.done:
            raise UpstreamFailed("The worker broke off: this answer is not complete. Try again.")
        return ride

    async def _sound(self, asked: Asked) -> bool:
        """Whether this model's answers can be continued; tested where it is not known yet."""
        if asked.kind is Kind.COMPLETION:
            return True
        key = (asked.model, self._pool.revision(asked.model))
        if key not in self._tested:
            await self._test(asked)
        return self._tested.get(key, False)

    async def _test(self, asked: Asked) -> None:
        key = (asked.model, self._pool.revision(asked.model))
        if asked.kind is Kind.COMPLETION or key in self._tested:
            return
        part: dict[str, Any] = {"messages": [*TEST_CHAT, {"role": "assistant", "content": TEST_PART}]}
        going_on = {"continue_final_message": True, "add_generation_prompt": False}
        prompt = await self._tokens(asked.model, {"messages": TEST_CHAT, "add_generation_prompt": True})
        continued = await self._tokens(asked.model, part | going_on)
        alone = await self._tokens(asked.model, {"prompt": TEST_PART, "add_special_tokens": False})
        if prompt is None or continued is None or alone is None:
            return  # nobody said so or otherwise: asked again at the next need
        self._tested[key] = extends(prompt, continued, alone)
        if not self._tested[key]:
            log.warning("%s: its template does not let an answer be continued, so none is", asked.model or "the model")

    async def _count(self, asked: Asked, part: str) -> int | None:
        tokens = await self._tokens(asked.model, {"prompt": part, "add_special_tokens": False})
        return None if tokens is None else len(tokens)

    async def _tokens(self, model: str | None, what: dict[str, Any]) -> list[int] | None:
        """Token ids as a worker tells them; None = it does not."""
        body = orjson.dumps(({"model": model} if model is not None else {}) | what)
        errand = Errand("POST", "/tokenize", self._headers, body, Prompt(model, size=len(body)))
        try:
            async with self._dispatch.ask(errand) as (_, reply):
                value = orjson.loads(await reply.read()) if reply.status == 200 else {}
        except (ProxyError, WorkerFailed, ValueError) as trouble:
            log.info("no token ids: %s", trouble)
            return None
        tokens = value.get("tokens") if isinstance(value, dict) else None
        return tokens if isinstance(tokens, list) else None
