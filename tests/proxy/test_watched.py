"""Who watches costs nothing where nobody wants it, and a missing extra is a word and not a traceback."""

import contextlib
import sys
from typing import Any

import pytest

from cache import Stage, StateError
from proxy.request_log import RequestLog
from proxy.settings import load
from proxy.watched import Watched, watched


async def wanted(timed: Any = print, **settings: Any) -> Watched:
    async with contextlib.AsyncExitStack() as stack:
        return await watched(stack, load(settings)[0], timed, version="1")


async def test_off_is_nothing_at_all() -> None:
    """Not a wrapper that does nothing: the very same functions."""
    watch = await wanted()
    journey, asks = object(), object()
    assert watch.around(journey) is journey  # type: ignore[arg-type, comparison-overlap]
    assert watch.asking(asks) is asks  # type: ignore[arg-type, comparison-overlap]
    assert watch.timed is print


@pytest.mark.parametrize("settings", [{"log_format": "json"}, {"log_requests": "on"}])
async def test_logs_stand_around_a_journey(settings: dict[str, str]) -> None:
    assert isinstance((await wanted(**settings)).around(print), RequestLog)  # type: ignore[arg-type]


async def test_with_traces_the_stages_are_counted_all_the_same() -> None:
    told: list[tuple[Stage, float]] = []
    watch = await wanted(lambda *stage: told.append(stage), otel_endpoint="http://127.0.0.1:1")
    watch.timed(Stage.EMBED, 0.5)
    assert told == [(Stage.EMBED, 0.5)]


async def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "proxy.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(StateError, match=r"pip install 'rejoinder\[otel\]'"):
        await wanted(otel_endpoint="http://127.0.0.1:4318")
