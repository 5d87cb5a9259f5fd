"""One question after another through the real pipeline, offline: `ask`, policy, lookup; on a miss `keep` and `store`.

Nobody waits here, so a vector or a store that is late is asked again: how busy this machine is must not decide what
counts as a hit. Time is ours: a second a question, or what the log says. A hit stores nothing, as in life.
"""

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from cache import (
    Answer,
    Caller,
    Hit,
    Kind,
    Label,
    Likeness,
    Miss,
    Outcome,
    Question,
    Rules,
    Source,
    TieredCache,
    Verdict,
    ask,
    inadmissible,
    judge,
)
from proxy.controls import read_controls
from proxy.errors import BadRequest
from proxy.evaluation.packs import Arrival, Pack, PackError, Pair
from proxy.tally import about_tokens, reason_of

START_S = 1_700_000_000.0  # any moment; only differences count
_BUSY = ("embedder-unavailable", "store-unavailable")
_TRIES = 5

Tell = Callable[[int], None]  # how many rows are done


class OwnClock:
    """Seconds since the Unix epoch, moved by whoever replays; never backwards."""

    def __init__(self) -> None:
        self._now_s = START_S
        self._began = False

    def __call__(self) -> float:
        return self._now_s

    def move(self, at_s: float | None = None) -> None:
        """To a moment of the log, or a second on."""
        if at_s is None:
            self._now_s += 1.0
        elif not self._began:
            self._now_s = at_s  # a log may begin long before our own beginning
        else:
            self._now_s = max(self._now_s, at_s)
        self._began = True


@dataclass(frozen=True, slots=True)
class Labels:
    """Which share in [0, 1] of the hits by meaning is compared with the truth and learned from while a stream runs."""

    share: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one question.

    likeness: how it was served; None = not.  stored: whose answer was served.  right: whether that answer is right;
    None = not served, or nobody knows.  p_right: what trust estimated.  reason: why it was not served; a guard's name
    where something near was refused, a trait where policy kept it back.  lookup_s: seconds, embedding included.
    labelled: whether the cache was told the truth about it.  same, category: of a pair."""

    asked: Arrival
    lookup_s: float
    likeness: Likeness | None = None
    stored: Arrival | None = None
    right: bool | None = None
    similarity: float | None = None
    p_right: float | None = None
    reason: str | None = None
    labelled: bool = False
    same: bool | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """One question that does not repeat another, and how its best neighbour looked before anything was decided.

    score: of the pipeline's choice, p_right in [0, 1]; None where every neighbour was objected to.  right: whether that
    one's answer is right.  cosine, nearest_right: of the plainly nearest neighbour, guards or not; None = no neighbour.
    estimated: whether score is trust's estimate; else it is the choice's cosine."""

    score: float | None
    right: bool
    cosine: float | None
    nearest_right: bool
    estimated: bool = True


@dataclass(frozen=True, slots=True)
class _Asked:
    question: Question
    verdict: Verdict
    arrival: Arrival


class Replay:
    """The way of a question, without a server around it. Every question is asked of one opened cache.

    clock: the very clock that the cache was opened with."""

    def __init__(self, cache: TieredCache, rules: Rules, secret: bytes, clock: OwnClock) -> None:
        self._cache = cache
        self._rules = rules
        self._secret = secret
        self._clock = clock
        self._stored: dict[int, Arrival] = {}  # entry id → the question that it was stored for
        self._said: dict[tuple[str, str], Arrival] = {}  # (scope, text) → likewise
        self._told: dict[str, list[str]] = {}  # conversation → what its turns were told

    # ── what happens in life ─────────────────────────────────────────────────────────────────────────────────────

    async def stream(self, pack: Pack, labels: Labels, tell: Tell) -> list[Trial]:
        """All questions in their order, one tenant unless the log names others. Raises PackError."""
        trials = []
        chosen = random.Random(labels.seed)
        for done, arrival in enumerate(pack.arrivals, 1):
            self._clock.move(arrival.at_s)
            asked = await self._placed(self._read(self._as_told(arrival), arrival.tenant or pack.name))
            outcome, lookup_s = await self._look(asked)
            self._tell(arrival, outcome)
            trial = self._trial(asked, outcome, lookup_s)
            if isinstance(outcome, Hit):
                if outcome.likeness is Likeness.MEANING and chosen.random() < labels.share:
                    trial = replace(trial, labelled=self._learn(asked, outcome, trial.right, labels.share))
            else:
                await self._remember(asked, outcome)
            trials.append(trial)
            tell(done)
        return trials

    async def pairs(self, pack: Pack, tell: Tell) -> list[Trial]:
        """Each pair in a scope of its own, so that no answer of one is seen by another. Of whole chats each turn is
        asked as in life, and what the assistant said is what a worker answered. Raises PackError."""
        trials = []
        for done, pair in enumerate(pack.pairs, 1):
            asked = await self._prepare(pack, pair, done)
            outcome, lookup_s = await self._look(asked)
            trial = self._trial(asked, outcome, lookup_s)
            right = pair.same and trial.stored is pair.stored if isinstance(outcome, Hit) else None
            trials.append(replace(trial, right=right, same=pair.same, category=pair.category))
            tell(done)
        return trials

    # ── what a curve needs ───────────────────────────────────────────────────────────────────────────────────────

    async def scores(self, pack: Pack, tell: Tell) -> list[Scored]:
        """Score everything, serve nothing. The cache must have been opened with a budget that refuses nobody.

        Each question is looked up; its best neighbour by the pipeline's choice (the first that no guard objects to) is
        scored, and the plainly nearest one as well. It is stored unless the pipeline's choice is right by the stream's
        truth. So the cache holds what a cache without mistakes would hold, the same for every threshold of the sweep; a
        strict threshold in life stores a little more. Repeats of the same bytes or words are left out: no score decides
        them."""
        scored: list[Scored] = []
        for done, arrival in enumerate(pack.arrivals, 1):
            self._clock.move(arrival.at_s)
            asked = self._read(arrival, arrival.tenant or pack.name)
            each = await self._score(asked, None)
            if each is not None:
                scored.append(each)
                if each.score is None or not each.right:
                    await self._remember(asked, None)
            tell(done)
        for done, pair in enumerate(pack.pairs, 1):
            each = await self._score(await self._prepare(pack, pair, done), pair.same)
            if each is not None:
                scored.append(each)
            tell(done)
        return scored

    async def _score(self, asked: _Asked, same: bool | None) -> Scored | None:
        """same: the truth of a pair; None = by answer ids. Returns None for a repetition."""
        for _ in range(_TRIES):
            told = await self._cache.explain(asked.question, asked.verdict)
            if isinstance(told.outcome, Hit) or told.outcome.reason not in _BUSY:
                break
        hit = told.outcome if isinstance(told.outcome, Hit) else None
        if hit is not None and hit.likeness is not Likeness.MEANING:
            return None

        def right(stored: Arrival | None) -> bool:
            return same if same is not None else stored is not None and stored.answer_id == asked.arrival.answer_id

        score = None if hit is None else hit.similarity if hit.evidence is None else hit.evidence.p_right
        nearest = told.candidates[0] if told.candidates else None
        scope = asked.question.scope.key
        return Scored(
            score, hit is not None and right(self._stored.get(hit.entry.id)),
            None if nearest is None else nearest.similarity,
            nearest is not None and right(self._said.get((scope, nearest.text))),
            hit is None or hit.evidence is not None,
        )  # fmt: skip

    # ── the pipeline ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _prepare(self, pack: Pack, pair: Pair, number: int) -> _Asked:
        """Store the one side of a pair in a fresh scope, and read the other in it."""
        self._clock.move()
        place = f"pair {number}"
        await self._walk(pair.stored, pack.name, place)
        await self._remember(await self._placed(self._read(pair.stored, pack.name, place)), None)
        self._clock.move()
        await self._walk(pair.asked, pack.name, place)
        return await self._placed(self._read(pair.asked, pack.name, place))

    async def _walk(self, chat: Arrival, tenant: str, namespace: str) -> None:
        """Ask the turns before the last one, each with what stands before it; the chat's own answers are told."""
        messages = chat.body["messages"]
        for at, (turn, reply) in enumerate(itertools.pairwise(messages)):
            roles = (turn.get("role"), reply.get("role"))
            if roles != ("user", "assistant") or not isinstance(reply.get("content"), str):
                continue
            self._clock.move()
            body = {**chat.body, "messages": messages[: at + 1]}
            arrival = Arrival(body, str(turn.get("content")), None, reply["content"])
            asked = await self._placed(self._read(arrival, tenant, namespace))
            outcome, _ = await self._look(asked)
            if isinstance(outcome, Miss):
                await self._remember(asked, outcome)

    def _as_told(self, arrival: Arrival) -> Arrival:
        """A turn of a conversation, with what was told in it so far."""
        if arrival.conversation is None:
            return arrival
        told = iter(self._told.setdefault(arrival.conversation, []))
        messages = [
            {**turn, "content": next(told, turn["content"])} if turn["role"] == "assistant" else turn
            for turn in arrival.body["messages"]
        ]
        return replace(arrival, body={**arrival.body, "messages": messages})

    def _tell(self, arrival: Arrival, outcome: Hit | Miss) -> None:
        if arrival.conversation is not None:
            stored = self._stored[outcome.entry.id] if isinstance(outcome, Hit) else arrival
            self._told[arrival.conversation].append(_text_of(stored))

    async def _placed(self, asked: _Asked) -> _Asked:
        """In the context of its conversation, as the receipts tell it."""
        past = asked.question.past
        if past is None or past.exact == past.fresh:
            return asked
        return replace(asked, question=await self._cache.receipts.resolved(asked.question))

    def _read(self, arrival: Arrival, tenant: str, namespace: str | None = None) -> _Asked:
        try:
            controls = read_controls(None, None, arrival.body.get("cache"))
        except BadRequest as wrong:
            raise PackError(f"the question {arrival.text!r} cannot be asked: {wrong.message}") from None
        if namespace is not None:
            controls = replace(controls, namespace=namespace)
        question = ask(Kind.CHAT, arrival.body, Caller(tenant), controls, self._secret, rules=self._rules)
        return _Asked(question, judge(question, controls, self._rules), arrival)

    async def _look(self, asked: _Asked) -> tuple[Hit | Miss, float]:
        for _ in range(_TRIES):
            began_s = time.perf_counter()
            outcome = await self._cache.lookup(asked.question, asked.verdict)
            lookup_s = time.perf_counter() - began_s
            if isinstance(outcome, Hit) or outcome.reason not in _BUSY:
                break
        return outcome, lookup_s

    async def _remember(self, asked: _Asked, miss: Miss | None) -> None:
        """As the gateway does after a worker answered; the answer is the log's, or stands for it."""
        arrival = asked.arrival
        text = _text_of(arrival)
        if arrival.answer is not None and inadmissible(Outcome(200, ("stop",), (text,))) is not None:
            return
        tokens = arrival.answer_tokens if arrival.answer_tokens is not None else about_tokens(text)
        answer = Answer(_completion(arrival.body, text), tokens)
        entry = self._cache.keep(asked.question, asked.verdict, answer, nearly=None if miss is None else miss.nearly)
        if entry is None:
            return
        await self._cache.store(entry, None if miss is None else miss.vector)
        for _ in range(_TRIES):
            if not self._cache.owed:
                break
            await self._cache.repay()
        self._stored[entry.id] = arrival
        if entry.text is not None:
            self._said[entry.scope.key, entry.text] = arrival

    def _trial(self, asked: _Asked, outcome: Hit | Miss, lookup_s: float) -> Trial:
        if isinstance(outcome, Miss):
            return Trial(asked.arrival, lookup_s, reason=reason_of(asked.question, asked.verdict, outcome))
        stored = self._stored[outcome.entry.id]
        mine = asked.arrival.answer_id
        known = mine is not None and stored.answer_id is not None
        return Trial(
            asked.arrival, lookup_s, outcome.likeness, stored, stored.answer_id == mine if known else None,
            outcome.similarity, None if outcome.evidence is None else outcome.evidence.p_right,
        )  # fmt: skip

    def _learn(self, asked: _Asked, hit: Hit, right: bool | None, share: float) -> bool:
        """What a shadow check would have found: the share was chosen at random, so each counts for 1 / share. Returns
        whether there was something to learn."""
        if hit.evidence is None or right is None:
            return False
        scope = asked.question.scope
        label = Label(
            right, Source.SHADOW, self._clock(), 1.0 / share, scope.tenant, scope.model, hit.entry.id, hit.evidence
        )
        self._cache.learn(label)
        return True


def _text_of(arrival: Arrival) -> str:
    """The answer of the log, or what stands for it."""
    return arrival.answer if arrival.answer is not None else f"[{arrival.answer_id}]"


def _completion(body: Any, text: str) -> bytes:
    """The `chat.completion` that a worker would have sent."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return orjson.dumps({"object": "chat.completion", "created": 0, "model": body.get("model"), "choices": [choice]})
