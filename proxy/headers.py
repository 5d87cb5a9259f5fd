"""Which headers cross the proxy. Pure.

Hop-by-hop headers (RFC 9110, 7.6.1) and those that `Connection` names stop here in both directions: a copied
`Transfer-Encoding` truncates streams (GIE#2993). Credentials of our clients stop here when we authenticate them.
"""

import re
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import Final

RawHeaders = Iterable[tuple[bytes, bytes]]
Headers = list[tuple[str, str]]

SESSION_COOKIE: Final = "rejoinder_session"

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-authentication-info",
        b"te",
        b"trailer",
        b"trailers",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
# Host is the worker's own (router#158), Content-Length is counted again (sglang#27523), Expect was answered by us.
# A cookie is for this host: it says nothing to vLLM, and answers are shared by people with different ones.
# Session and request ids are stamped by us: the worker sees digests, never what the client called its session.
_REPLACED: Final = HOP_BY_HOP | {
    b"host", b"content-length", b"expect", b"x-session-id", b"x-request-id", b"cookie",
    b"x-rejoinder-user",
}  # fmt: skip
_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
_OURS: Final = b"x-rejoinder-"
_CORS: Final = b"access-control-"  # we answer browsers ourselves; a second Allow-Origin makes them refuse both
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def strip_hop_by_hop(raw: RawHeaders) -> Headers:
    """A worker's answer headers as they may travel on: order and duplicates kept, Content-Length included; its
    X-Request-Id stops here, as the door states one itself.

    Values that cannot be written again (control characters) are dropped, because aiohttp would raise in mid-reply."""
    pairs = list(raw)
    stop = HOP_BY_HOP | {b"x-request-id"} | _named_by_connection(pairs)
    return [
        (_text(name), _text(value))
        for name, value in pairs
        if (lower := name.lower()) not in stop and not lower.startswith((_CORS, _OURS)) and _writable(value)
    ]


def upstream_headers(
    incoming: RawHeaders,
    *,
    forward_authorization: bool,
    worker_api_key: str | None,
    session_id: str | None,
    request_id: str,
) -> Headers:
    """What the worker is sent for a client's headers (aiohttp's `request.raw_headers`).

    forward_authorization: we do not authenticate, so the client's credentials are the worker's to judge.
    worker_api_key: replaces them in any case.  session_id: the digest; None = the worker sees no session."""
    pairs = list(incoming)
    stop = _REPLACED | _named_by_connection(pairs)
    if not forward_authorization:
        stop = stop | _CREDENTIALS
    elif worker_api_key is not None:
        stop = stop | {b"authorization"}
    headers = []
    for name, value in pairs:
        lower = name.lower()
        if lower in stop or not _writable(value):
            continue
        headers.append((_text(name), _text(value)))
    if worker_api_key is not None:
        headers.append(("Authorization", f"Bearer {worker_api_key}"))
    if session_id is not None:
        headers.append(("X-Session-ID", session_id))
    headers.append(("X-Request-Id", request_id))
    return headers


def retry_after_s(headers: Iterable[tuple[str, str]], now_s: float) -> float | None:
    """How long a worker asks to be left alone, in seconds; None = it does not say (RFC 9110, 10.2.3: number or date).

    now_s: seconds since the epoch."""
    for name, value in headers:
        if name.lower() == "retry-after":
            text = value.strip()
            if text.isascii() and text.isdecimal():
                return float(text[:9])
            try:
                return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
            except (ValueError, OverflowError):
                return None
    return None


def _named_by_connection(pairs: list[tuple[bytes, bytes]]) -> frozenset[bytes]:
    for name, _ in pairs:
        if len(name) == 10 and name.lower() == b"connection":
            options = b",".join([value for name, value in pairs if name.lower() == b"connection"])
            return frozenset(option.strip().lower() for option in options.split(b","))
    return frozenset()


def _writable(value: bytes) -> bool:
    """No control characters but tab (RFC 9110, 5.5)."""
    return _CONTROL.search(value) is None


def _text(value: bytes) -> str:
    """aiohttp writes header text as UTF-8, so UTF-8 survives byte for byte; all else is read as latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
