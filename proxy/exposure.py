"""Whether a request comes straight from this machine, by what it says of itself. Pure.

It is asked where a caller proves nothing else. Another proxy on this machine makes the whole world a loopback caller:
most say so in a header; nginx as it is installed says nothing and forwards the loopback address as Host, but speaks
HTTP/1.0, which no client of today does. One that hides all that cannot be told from a caller on this machine.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_PASSED_ON: Final = frozenset({
    "forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-original-forwarded-for",
    "x-original-host", "x-original-url", "x-envoy-external-address", "true-client-ip", "client-ip",
    "fastly-client-ip", "cdn-loop",
})  # fmt: skip
_PREFIXES: Final = ("x-forwarded", "cf-")


def passed_on(headers: Mapping[str, str], version: tuple[int, int] = (1, 1)) -> str | None:
    """The sign that another proxy passed this request on, for people; None = there is none.

    headers: as they came.  version: of HTTP, as it was spoken to us."""
    for name in headers:
        low = name.lower()
        if low in _PASSED_ON or low.startswith(_PREFIXES):
            return f"the header {name}"
    return "HTTP/1.0" if version < (1, 1) else None


def loopback_host(headers: Mapping[str, str]) -> bool:
    """Whether the Host header, if there is one, names this machine; if not, a page that had its own name point here
    (DNS rebinding) could read what it is told. headers: case-insensitive."""
    if "Host" not in headers:
        return True
    try:
        name = urlsplit(f"//{headers['Host']}").hostname or ""
    except ValueError:
        return False
    return name in ("localhost", "::1") or (name.startswith("127.") and name.replace(".", "").isdecimal())
