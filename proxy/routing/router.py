"""Who should answer: one decision, in milliseconds, with its reason. Pure.

Every worker that may answer has a cost, the milliseconds until the first token as far as we can know them:

    (uncached tokens that wait there + this prompt's uncached tokens) / learnt prefill rate
    + a little for each request in hand, for each that waits in vLLM's own queue, and for KV pressure
    + its share of a worker's time that a needless computation would take from others
    + how much more than the others it was given of late: paced chats have nothing in hand at the moment of choice, and
      "least loaded" alone put 448 of 448 requests on one worker (Infera#103)

A session stays at home unless that is worse than the best by 50 ms and by a quarter. It moves to its *second* home when
that is about as good: the next spill finds a warm copy there. Homes are rendezvous hashes (Thaler, Ravishankar 1998),
the same in every process and after a restart; when a worker dies, only its own sessions move, and they spread over all
that are left (vllm-router sends them to one). A prefix that many share is computed a second time when waiting for the
worker that has it costs more than computing it: so hot prefixes replicate by themselves.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Final

from xxhash import xxh3_64_intdigest

from proxy.routing.choice import Candidate, Choice, Kind, Prompt
from proxy.routing.eligible import eligible
from proxy.routing.gauges import Gauges
from proxy.routing.homes import Home, Homes
from proxy.routing.last_resort import last_resort
from proxy.routing.pace import Pace
from proxy.routing.prefixes import Prefixes, Resident
from proxy.routing.rides import Books, Desk, Ride
from proxy.routing.worker import State, Worker
from proxy.routing.workers import View, WorkerPool

STAY_MS: Final = 50.0  # a session stays at home unless it costs this much more …
STAY_SHARE: Final = 0.25  # … and this share more than the best
NEW_MS: Final = 10.0  # a new session takes a home that hashing finds again after a restart, if it costs so much more
COMPUTING: Final = 1.0  # of its own prefill, counted again: that time is taken from everybody else …
CROWDED_MS: Final = 500.0  # … and once more for each such stretch that waits on the mean worker, who are then delayed
CROWDED_MOST: Final = 8.0
IN_HAND_MS: Final = 2.0  # for each request in hand: decoding slows a prefill down
WAITING_MS: Final = 20.0  # for each request in vLLM's own queue
KV_MS: Final = 20.0  # times used / free share of the KV cache, where 95 % is as bad as it gets
QUEUED: Final = 0.1  # of its base time, for each prompt that waits there: prompts of few new tokens share a step
# A worker may have been given so much more than the mean of late; beyond that, each share of the mean costs PLACED
# times what computing the whole prompt would. So a hot prefix is copied when about a quarter too much hangs on one
# worker, and not before. It never costs more than that computation: a copy is worth no more, and a worker that had much
# to do a minute ago would get nothing of a burst that all others have in hand.
FREE_SHARE: Final = 0.05
FREE_TOKENS: Final = 1000.0
FREE_PROMPTS: Final = 1.0  # like this one: they come in whole pieces
PLACED: Final = 16.0
TIE: Final = 0.001  # of what it was given of late, so that equal workers take turns
_TIE_MS: Final = 0.5
_TOKENS_WITHOUT_TRAIL: Final = 32
_FEW: Final = 4  # observations of one worker, before they count more than what all have shown
_MOST_VIEWS: Final = 1024
_STALE_S: Final = 30.0  # older gauges say nothing


class Router:
    """The choice and everything it learns from, for one process.

    alone: no other process or replica chooses for these workers. If some do, a new session goes to the home that
    hashing prefers, which is the same in all of them, unless that costs clearly more.
    exact: a worker's KV blocks by its own events; None = it does not tell."""

    def __init__(
        self, pool: WorkerPool, *, alone: bool = True, exact: Callable[[Worker], Resident | None] | None = None
    ) -> None:
        self._pool = pool
        self._alone = alone
        self.prefixes = Prefixes(pool.clock)
        self.homes = Homes()
        self._pace = Pace()  # of all workers together
        self._books = Books(pool, self.homes, self.prefixes, self._pace, exact or _tells_nothing)
        self._desks: dict[Worker, Desk] = {}
        self._seen: dict[View, Sequence[Desk]] = {}
        self._version = -1

    # -- the choice ------------------------------------------------------------------------------------------------

    def choose(self, prompt: Prompt, avoid: frozenset[str] = frozenset()) -> Choice:
        """The worker for one request; `ride` with it before the next `await`.

        avoid: urls that already failed this request.  Raises ModelNotFound when workers are up and none serves the
        model, NoWorker when nobody may be asked."""
        self._tidy()
        view = self._pool.view(prompt.model)
        asked = eligible(view, self._pool.clock(), avoid)
        desks = self._desks_of(view) if asked is view.up else [self._desk(worker) for worker in asked]
        home = self._books.homes.of(prompt.session) if prompt.session is not None else None
        if home is not None and (leaving := self._still_at_home(view, prompt, home, avoid)) is not None:
            return leaving
        if not desks:
            return last_resort(self._pool, view, prompt.model, prompt.session, avoid)
        weighed = self._weigh(desks, prompt, home)
        if len(desks) == 1:
            return weighed.chosen(0, Kind.ONLY, "only worker" if len(view.serving) == 1 else "only worker up")
        if prompt.session is None:
            costs = weighed.spread()
            best = costs.index(min(costs))
            in_hand = [desk.worker.in_flight for desk in desks]
            return weighed.chosen(best, Kind.CHEAPEST, f"cheapest ({in_hand[best]} of {sum(in_hand)} requests in hand)")
        return self._at_home(prompt.session, view, home, weighed, avoid)

    def _still_at_home(self, view: View, prompt: Prompt, home: Home, avoid: frozenset[str]) -> Choice | None:
        """A draining worker keeps its sessions for a while, so that they do not all move at once."""
        if len(view.up) == len(view.serving) or prompt.session is None or home.url in avoid:
            return None
        for worker in view.serving:
            if worker.url == home.url and worker.state is State.DRAINING and self._pool.keeps(worker, prompt.session):
                weighed = self._weigh([self._desk(worker)], prompt, home)
                return weighed.chosen(0, Kind.HOME, "session: at home, which is draining; it moves later")
        return None

    def _at_home(
        self, session: str, view: View, home: Home | None, weighed: "_Weighed", avoid: frozenset[str]
    ) -> Choice:
        desks = weighed.desks
        home_url = home.url if home is not None else None
        if home_url is not None:
            for place, desk in enumerate(desks):
                if desk.worker.url == home_url:
                    if weighed.costs[place] <= _near(min(weighed.costs)):
                        return weighed.chosen(place, Kind.HOME, "session: at home")
                    break
        costs = weighed.spread()
        best = costs.index(min(costs))
        most_ms = costs[best] + NEW_MS if self._alone and home is None else _near(costs[best])
        # Its rendezvous homes, highest hash first. Only these two are preferred: that keeps the spare copies few.
        key = session.encode()
        hashes = [xxh3_64_intdigest(key, desk.worker.seed) for desk in desks]
        first = hashes.index(max(hashes))
        preferred = desks[first].worker
        if len(desks) < len(view.serving):
            preferred = max(view.serving, key=lambda worker: xxh3_64_intdigest(key, worker.seed))
        hashes[first] = -1
        second = hashes.index(max(hashes))
        if home is None and self._alone and costs[second] < costs[first] - _TIE_MS:
            first, second = second, first  # a new session: the cheaper of its two
        enough = weighed.residents[best] if home is None else 0  # nobody computes more only because of a hash
        for place in (first, second):
            if costs[place] <= most_ms and weighed.residents[place] >= enough and desks[place].worker.url != home_url:
                best = place
                break
        return weighed.chosen(best, *_moved(view, home, preferred, desks[best].worker, avoid))

    def _weigh(self, desks: Sequence[Desk], prompt: Prompt, home: Home | None) -> "_Weighed":
        """What each worker would cost. The hot loop: with 50 workers, a microsecond counts."""
        trail, prefixes, books = prompt.trail, self.prefixes, self._books
        size = trail.size if trail is not None else prompt.size
        tokens = int(size / books.bytes_a_token(prompt.model)) if size else _TOKENS_WITHOUT_TRAIL
        marks = trail.marks if trail is not None and not prompt.unread else ()
        deepest = prefixes.deepest(trail) if trail is not None and marks else 0
        exact_of = books.exact if deepest else None
        weight, rate = self._pool.placement_weight(), self._pace.rate
        mean = sum([desk.worker.placed for desk in desks]) / len(desks)
        floor = (FREE_TOKENS + FREE_PROMPTS * tokens) * weight
        most = mean * (1.0 + FREE_SHARE) + floor
        price = PLACED * tokens / rate / (mean + floor)
        tie = TIE / weight
        queued_ms = sum([desk.backlog for desk in desks]) / len(desks) / rate
        own = 1.0 + COMPUTING + min(queued_ms / CROWDED_MS, CROWDED_MOST)
        dearest = own * tokens / rate
        now_s = self._pool.clock()
        home_url, told = "", 0
        if home is not None and home.tokens and not prompt.unread and _goes_on(home, marks):
            home_url, told = home.url, min(home.tokens, tokens)
        costs: list[float] = []
        aheads: list[float] = []
        residents: list[int] = []
        exacts: list[bool] = []
        for desk in desks:
            worker, resident, exact = desk.worker, 0, False
            if trail is not None and marks:
                held = exact_of(worker) if exact_of is not None else None
                if held is not None or marks[0] in desk.memory.marks:
                    resident, exact = prefixes.resident(trail, deepest, tokens, desk.memory, held)
                    resident = min(resident, tokens)
            if told > resident and worker.url == home_url and home is not None and home.generation == worker.generation:
                resident, exact = _at_least(resident, told, books.exact(worker), prompt.session)
            pace = desk.pace if desk.pace.seen >= _FEW else self._pace
            ms = (desk.backlog + (tokens - resident) * own) / pace.rate
            ms += desk.queue * pace.base_ms * QUEUED + worker.in_flight * IN_HAND_MS
            over = worker.placed - most
            aheads.append(worker.placed * tie / pace.rate + (min(over * price, dearest) if over > 0.0 else 0.0))
            if worker.gauges is not None:
                ms += _pressure_ms(worker.gauges, now_s)
            costs.append(ms)
            residents.append(resident)
            exacts.append(exact)
        return _Weighed(tokens, desks, costs, aheads, residents, exacts)

    def candidates(self, prompt: Prompt) -> list[Candidate]:
        """What every worker that is up would cost, cheapest first; for people."""
        desks = self._desks_of(self._pool.view(prompt.model))
        if not desks:
            return []
        home = self._books.homes.of(prompt.session) if prompt.session is not None else None
        weighed = self._weigh(desks, prompt, home)
        each = zip(desks, weighed.costs, weighed.residents, weighed.exacts, strict=True)
        found = [Candidate(desk.worker, ms, resident, exact) for desk, ms, resident, exact in each]
        return sorted(found, key=lambda candidate: candidate.cost_ms)

    # -- what happens then -------------------------------------------------------------------------------------------

    def ride(self, choice: Choice, prompt: Prompt) -> Ride:
        """Book the choice: `with router.ride(choice, prompt) as ride: …`, see `proxy.routing.rides`."""
        return Ride(self._books, self._desk(choice.worker), choice, prompt)

    def lacking(self, worker: Worker, prompt: Prompt) -> int:
        """Tokens of this prompt that the worker would have to compute, as believed."""
        home = self._books.homes.of(prompt.session) if prompt.session is not None else None
        weighed = self._weigh([self._desk(worker)], prompt, home)
        return weighed.tokens - weighed.residents[0]

    def warmed(self, worker: Worker, prompt: Prompt, tokens: int, steps: int) -> None:
        """A session's home has read so many tokens, though nobody asked. steps: the marks that its next turn shares."""
        home = self._books.homes.of(prompt.session) if prompt.session is not None else None
        if home is None or home.url != worker.url or prompt.session is None or prompt.trail is None:
            return
        marks = prompt.trail.marks
        self._desk(worker).memory.read(marks, self._pool.clock())
        home.tokens, home.steps, home.mark = tokens, steps, marks[steps - 1] if steps else 0
        exact = self._books.exact(worker)
        if exact is not None:
            self.prefixes.ended(prompt.session, prompt.trail, tokens, 1, exact)

    def desk(self, worker: Worker) -> Desk:
        """What routing knows of a worker; for metrics and people."""
        return self._desk(worker)

    def _desk(self, worker: Worker) -> Desk:
        desk = self._desks.get(worker)
        if desk is None:
            desk = self._desks[worker] = Desk(worker, Pace(self._pace))
        elif desk.generation != worker.generation:
            desk.renew()
        return desk

    def _desks_of(self, view: View) -> Sequence[Desk]:
        """Of those that are UP. A view lives until something about the workers changes."""
        if self._seen.get(view) is None:
            if len(self._seen) > _MOST_VIEWS:
                self._seen.clear()
            self._seen[view] = [self._desk(worker) for worker in view.up]
        return self._seen[view]

    def _tidy(self) -> None:
        """Lessons that are due, prefills that should be over, workers that left."""
        self.prefixes.learn()
        due = self._books.due
        if due:
            now_s = self._pool.clock()
            while due and due[0][0] <= now_s:
                ride = heapq.heappop(due)[2]()
                if ride is not None:
                    ride.computed()
        if self._version != self._pool.version:
            self._version = self._pool.version
            self._seen.clear()
            present = set(self._pool)
            for gone in [worker for worker in self._desks if worker not in present]:
                del self._desks[gone]


class _Weighed:
    """The same for all candidates, in parallel lists. costs: milliseconds.  aheads: the price, in milliseconds, of
    having been given more than the others of late.  residents: tokens."""

    __slots__ = ("aheads", "costs", "desks", "exacts", "residents", "tokens")

    def __init__(
        self, tokens: int, desks: Sequence[Desk], costs: list[float], aheads: list[float], residents: list[int],
        exacts: list[bool],
    ) -> None:  # fmt: skip
        self.tokens = tokens
        self.desks = desks
        self.costs = costs
        self.aheads = aheads
        self.residents = residents
        self.exacts = exacts

    def spread(self) -> list[float]:
        """Costs for a request that is at home nowhere: what was placed of late counts too."""
        return [ms + ahead_ms for ms, ahead_ms in zip(self.costs, self.aheads, strict=True)]

    def chosen(self, place: int, kind: Kind, why: str) -> Choice:
        source = "by its KV events" if self.exacts[place] else "by its answers"
        worker, resident = self.desks[place].worker, self.residents[place]
        return Choice(worker, kind, why, self.tokens, resident, source if resident else "", self.costs[place])


def _near(best_ms: float) -> float:
    """Up to here, another cost is not clearly worse."""
    return best_ms + max(STAY_MS, STAY_SHARE * best_ms)


def _pressure_ms(gauges: Gauges, now_s: float) -> float:
    """What others than we have put there, by the worker's own account; nothing when that is old."""
    if now_s - gauges.read_at_s > _STALE_S:
        return 0.0
    used = min(gauges.kv_usage or 0.0, 0.95)
    return WAITING_MS * gauges.waiting + KV_MS * used / (1.0 - used)


def _goes_on(home: Home, marks: Sequence[int]) -> bool:
    """Whether this prompt begins with the session's last one. With fewer marks than one, only the table can say that
    the session has been here."""
    return home.steps <= len(marks) and (not home.steps or marks[home.steps - 1] == home.mark)


def _at_least(resident: int, told: int, held: Resident | None, session: str | None) -> tuple[int, bool]:
    """What the session's home holds of its last turn, answer included, and whether its KV events say so."""
    if held is None or session is None or not held.block_size:
        return told, False
    tip = held.tip(session)
    if tip is None:  # its events name no sessions, or this one stored nothing of its own
        return told, False
    if tip in held:
        return max(resident, told - told % held.block_size), True
    return (resident, True) if held.complete else (told, False)


def _moved(view: View, home: Home | None, first: Worker, to: Worker, avoid: frozenset[str]) -> tuple[Kind, str]:
    if home is not None:
        before = next((worker for worker in view.serving if worker.url == home.url), None)
        absence = _absence(before, avoid) if before is not None else "left"
        return Kind.MOVED, f"session: home {absence}, moved"
    if to is first:
        return Kind.NEW, "session: rendezvous home"
    if first.state is not State.UP or first.url in avoid:
        return Kind.MOVED, f"session: home {_absence(first, avoid)}, moved"
    return Kind.NEW, f"session: new; it costs less here than on {first.name}"


def _absence(home: Worker, avoid: frozenset[str]) -> str:
    if home.url in avoid:
        return f"{home.name} is failing this request"
    return f"{home.name} is {'busy' if home.state is State.UP else home.state}"


def _tells_nothing(_: Worker) -> Resident | None:
    return None
