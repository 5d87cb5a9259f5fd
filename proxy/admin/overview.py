"""The operator's numbers: stats to look at every second, the report with everything, settings with their origins."""

import time
from collections.abc import Callable
from typing import Any, Final

from cache import StoreUnavailable, TieredCache
from proxy.admin.routes import LIST, Order, Route, Told
from proxy.admin.workers import Workers
from proxy.auth import Role
from proxy.feedback import shown_entry
from proxy.figures import HIT_SOURCES, MISS_SOURCES, Figures, Price
from proxy.measured import Measured
from proxy.metrics import Metrics
from proxy.popular import Popular
from proxy.settings import Settings, shown

_TOP: Final = 20
_LONGEST_SHOWN: Final = 300  # characters of an answer in a list


class Overview:
    """clock: seconds since the epoch.  version: of the product."""

    def __init__(
        self, settings: Settings, cache: TieredCache, metrics: Metrics, measured: Measured, popular: Popular,
        workers: Workers, *, version: str, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._cache = cache
        self._metrics = metrics
        self._measured = measured
        self._popular = popular
        self._workers = workers
        self._version = version
        self._clock = clock
        self._since_s = clock()
        self._price = Price(settings.gpu_hour_price, settings.currency, settings.gpus_per_worker)

    def routes(self) -> list[Route]:
        """Its part of the table."""
        top = {"type": "integer", "minimum": 0, "maximum": 100, "default": _TOP}
        return [
            Route("GET", "/admin/stats", Role.READ, "Hits, misses, refusals, latencies, savings, workers: now",
                  self._stats),
            Route("GET", "/admin/report", Role.READ, "The same, with the answers served most and the entries held",
                  self._report, query={"top": top}),
            Route("GET", "/admin/settings", Role.READ, "Every setting, its value (no secret) and where it came from",
                  self._settings_told, reply=LIST),
        ]  # fmt: skip

    async def _stats(self, _: Order) -> Told:
        return self._now()

    async def _report(self, asked: Order) -> Told:
        return {**self._now(), "entries": await self._held(), "top_questions": await self._top(asked.query["top"])}

    async def _settings_told(self, _: Order) -> Told:
        items = [
            {"name": each.name, "value": shown(each.value), "origin": each.origin, "help": each.help}
            for each in self._settings.origins()
        ]
        return {"items": items, "next": None}

    def _now(self) -> Told:
        figures = Figures(self._metrics.samples())
        now_s = self._clock()
        return {
            "version": self._version, "mode": self._settings.mode, "now_s": now_s,
            "since_s": self._since_s, **figures.counts(),
            "latency": {"hits": figures.latency(HIT_SOURCES), "misses": figures.latency(MISS_SOURCES)},
            "false_hit_rate": {
                "budget": self._settings.max_false_hit_rate,
                "measured": [each.as_json() for each in self._measured.all()],
            },
            "saved": figures.saved(self._price), "workers": self._workers.at_a_glance(),
        }  # fmt: skip

    async def _held(self) -> int | None:
        try:
            return await self._cache.count()
        except StoreUnavailable:
            return None

    async def _top(self, limit: int) -> list[dict[str, Any]]:
        """Most often served first, since this process began. What was deleted meanwhile is not there."""
        told: list[dict[str, Any]] = []
        for often in self._popular.top(2 * limit):
            try:
                entry = await self._cache.reviews.entry(often.entry_id)
            except StoreUnavailable:
                break
            if entry is None or len(told) == limit:
                continue
            known = shown_entry(entry)
            told.append({
                "entry": f"{often.entry_id:016x}", "times": often.times, "over": often.over, **known,
                "answer": (known["answer"] or "")[:_LONGEST_SHOWN] or None,
            })  # fmt: skip
        return told
