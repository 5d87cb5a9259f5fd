"""What a response took, found in its bytes as they pass: the `usage` of `/v1/responses`, JSON or events alike. Pure.

A key stands in quotes that are not escaped, so no text of the answer can look like it. Of several the last counts: the
events before the last one say null.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import orjson

_MOST_BYTES: Final = 4096  # of one usage object
_KEY: Final = b'"usage"'
_OBJECT: Final = re.compile(rb'"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. cached: of the prompt's; None = the worker does not say."""

    prompt: int
    cached: int | None
    written: int


class UsageFinder:
    """`feed` every chunk, then read `found`."""

    __slots__ = ("_rest", "found")

    def __init__(self) -> None:
        self.found: Usage | None = None
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        seen = self._rest + chunk
        end = 0
        for match in _OBJECT.finditer(seen):
            self.found = _usage(match[1]) or self.found
            end = match.end()
        begun = seen.rfind(_KEY, end)
        if begun < 0 or len(seen) - begun > _MOST_BYTES:
            begun = max(end, len(seen) - len(_KEY) + 1)  # the key may be cut in two
        self._rest = seen[begun:]


def _usage(data: bytes) -> Usage | None:
    """Of one model call. Where tools of the worker's own made several, the sums say nothing of one prompt."""
    try:
        value: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    prompt, written = value.get("input_tokens"), value.get("output_tokens")
    details = value.get("input_tokens_details")
    details = details if isinstance(details, dict) else {}
    cached, turns = details.get("cached_tokens"), details.get("input_tokens_per_turn")
    if not _is_count(prompt) or not _is_count(written) or (isinstance(turns, list) and len(turns) > 1):
        return None
    return Usage(prompt, cached if _is_count(cached) and cached <= prompt else None, written)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
