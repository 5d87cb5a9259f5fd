"""Who watches the requests: logs and traces, put around the journeys. Where neither is wanted nothing is around
anything, and nothing is paid."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from cache import Stage, StateError, Timed
from proxy.call import Journey
from proxy.dispatch import Asks
from proxy.request_log import RequestLog
from proxy.settings import Settings


@dataclass(frozen=True, slots=True)
class Watched:
    """around: puts the watchers around a journey.  asking: around what workers are asked.
    timed: is told what the stages of a lookup took."""

    around: Callable[[Journey], Journey]
    asking: Callable[[Asks], Asks]
    timed: Timed


async def watched(stack: contextlib.AsyncExitStack, settings: Settings, timed: Timed, *, version: str) -> Watched:
    """As the settings want it. timed: told in any case.  Raises StateError (the extra is missing)."""
    around, asking = _logged(settings), _untouched
    if settings.otel_endpoint is None:
        return Watched(around, asking, timed)
    try:
        from proxy.tracing import Tracing
    except ImportError as missing:
        raise StateError(
            f"otel_endpoint is set, and {missing.name} is not installed: pip install 'rejoinder[otel]'"
        ) from missing
    tracing = await stack.enter_async_context(Tracing(settings.otel_endpoint, version=version))

    def both(stage: Stage, seconds: float) -> None:
        timed(stage, seconds)
        tracing.took(stage, seconds)

    return Watched(lambda journey: tracing.around(around(journey)), tracing.asking, both)


def _logged(settings: Settings) -> Callable[[Journey], Journey]:
    lines = settings.log_requests != "off"
    if not lines and settings.log_format == "text":
        return lambda journey: journey
    return lambda journey: RequestLog(journey, lines=lines, prompts=settings.log_requests == "prompts")


def _untouched(asks: Asks) -> Asks:
    return asks
