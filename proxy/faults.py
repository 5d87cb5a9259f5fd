"""What a simulated worker records, how fast it is, and the faults it can be told to have. Pure."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from multidict import CIMultiDict

MODES: Final = {
    "none": "no fault",
    "status": "answer with `status` (400, 429, 500, 503 …) in vLLM's error envelope",
    "hang": "read the request, on any path, never answer",
    "slow": "say nothing for `wait_s`, then answer",
    "reset": "drop the connection (RST), on any path, before the first byte",
    "stale": "close a connection that has served before, without a byte: an idle one that was closed too late",
    "slow_headers": "a byte of the answer's head every `wait_s`, on any path, and never its end",
    "half_close": "shut the writing side (FIN) after `after` chunks, or before the headers if 0, and go on listening",
    "raw": "write `pieces`, base64 each, `wait_s` apart, on any path, and nothing of our own; then close",
    "flood": "a stream of `after` chunks of 64 KiB each, as fast as it is read",
    "die": "close the connection after `after` chunks of a stream, or half of a whole answer; `rst`: with RST, which "
    "may overtake and erase what was sent just before",
    "stall": "say nothing more after `after` chunks",
    "cut": "end a stream cleanly after `after` chunks, without a finish_reason; `done`: with [DONE] all the same",
    "length": "finish_reason length after `after` tokens",
    "content_filter": "finish_reason content_filter",
    "empty": "an answer without text",
    "no_choices": "an answer with an empty list of choices",
    "apology": "an answer that only says sorry",
    "unhealthy": "/health answers 500; questions are answered",
    "deaf": "/health and /v1/models never answer; questions are answered",
}
APOLOGY: Final = "I'm sorry, but I can't help with that right now. Please try again later."


@dataclass(slots=True)
class Call:
    """One request as the worker saw it; headers may be asked for in any case. Times are time.monotonic() seconds.

    disconnected_at_s: when the worker noticed that the client had left before the answer was over.
    version: of HTTP.  client_port: the same as long as the connection is."""

    method: str
    path: str
    headers: CIMultiDict[str]
    body: bytes
    began_at_s: float
    ended_at_s: float | None = None
    disconnected_at_s: float | None = None
    chunks: int = 0
    cached_tokens: int = 0
    version: tuple[int, int] = (1, 1)
    client_port: int = 0

    @property
    def json(self) -> Any:
        return orjson.loads(self.body) if self.body else None

    def as_json(self, most_bytes: int | None = None) -> dict[str, Any]:
        """most_bytes: of the body's beginning; None = all of it."""
        headers = {str(name): value for name, value in self.headers.items()}
        return {
            "method": self.method,
            "path": self.path,
            "headers": headers,
            "body": self.body[:most_bytes].decode("utf-8", "replace"),
            "body_bytes": len(self.body),
            "began_at_s": self.began_at_s,
            "ended_at_s": self.ended_at_s,
            "disconnected_at_s": self.disconnected_at_s,
            "chunks": self.chunks,
            "cached_tokens": self.cached_tokens,
            "version": self.version,
            "client_port": self.client_port,
        }


@dataclass(slots=True)
class Fault:
    """mode: one of MODES.  times: how many questions it spoils; None = until it is changed.
    wait_s: of `slow`, `slow_headers`, `raw`.  pieces: of `raw`.  Raises ValueError for what is not so."""

    mode: str = "none"
    times: int | None = None
    after: int = 3
    status: int = 500
    done: bool = False
    rst: bool = False
    retry_after_s: int | None = None
    wait_s: float = 0.0
    pieces: Sequence[str] = ()

    @property
    def raw(self) -> list[bytes]:
        return [base64.b64decode(piece, validate=True) for piece in self.pieces]

    def __post_init__(self) -> None:
        _ = self.raw  # raises for what is no base64
        if self.mode not in MODES:
            raise ValueError(f"unknown fault {self.mode!r}; known: {', '.join(MODES)}")

    def take(self) -> str:
        """The mode for one question, and count it."""
        if self.times is None:
            return self.mode
        if self.times <= 0:
            return "none"
        self.times -= 1
        return self.mode


@dataclass(slots=True)
class Pace:
    """Seconds. first_token_s: fixed cost of an answer.  prefill_token_s: per prompt token that is not cached.
    token_s: between two tokens of the answer."""

    first_token_s: float = 0.0
    prefill_token_s: float = 0.0
    token_s: float = 0.0
