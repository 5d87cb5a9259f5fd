"""Who calls: API keys to tenants. Pure.

Keys configured: one of them, or 401. No keys configured: the keyed digest of the caller's own key is the tenant, and
its absence is one tenant; vLLM's own check, if any, still stands behind us.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from proxy.errors import Unauthorized

NOBODY = "keyless"
_OTHER_CREDENTIALS = ("X-Api-Key", "Api-Key", "X-Goog-Api-Key")


@dataclass(frozen=True, slots=True)
class Tenant:
    """name: the tenant under which answers are shared.  trusted: may see similarity, worker and reasons."""

    name: str
    trusted: bool


class Door:
    """keys: API key → tenant name; empty = nobody is refused.  trusted: tenant names that may see details.
    open_loopback: bound to loopback, where a caller without keys is the operator's own."""

    def __init__(self, keys: Mapping[str, str], trusted: frozenset[str], secret: bytes, *, open_loopback: bool) -> None:
        self._secret = secret
        self._open = open_loopback and not keys
        self._nobody = Tenant(NOBODY, self._open)
        self._tenants = {self._digest(key): Tenant(name, name in trusted) for key, name in keys.items()}

    @property
    def authenticates(self) -> bool:
        """Whether clients prove who they are to us; then their keys never reach the workers."""
        return bool(self._tenants)

    def enter(self, headers: Mapping[str, str]) -> Tenant:
        """headers: case-insensitive. Raises Unauthorized.

        With keys configured, the key is the bearer, or `X-Api-Key` as Anthropic's clients send it. Without, whatever a
        worker could take for a credential tells callers apart: what one of them is told is not for the other."""
        authorization = headers.get("Authorization")
        if not self._tenants:
            said = [key for key in (_bearer(authorization), *map(headers.get, _OTHER_CREDENTIALS)) if key]
            return Tenant(self._digest("\0".join(said)), self._open) if said else self._nobody
        key = _bearer(authorization) or headers.get("X-Api-Key")
        if key is None:
            raise Unauthorized(
                "You didn't provide an API key. Send it as `Authorization: Bearer YOUR_KEY`; "
                "keys are given out by whoever runs this endpoint."
            )
        # Digests are looked up, not keys, so the time it takes says nothing about them.
        tenant = self._tenants.get(self._digest(key))
        if tenant is None:
            raise Unauthorized("Incorrect API key provided. Ask whoever runs this endpoint for a valid one.")
        return tenant

    def _digest(self, key: str) -> str:
        return hmac.digest(self._secret, b"tenant\0" + key.encode("utf-8", "surrogateescape"), "sha256").hex()[:32]


def _bearer(authorization: str | None) -> str | None:
    if not authorization:
        return None
    scheme, _, key = authorization.partition(" ")
    return (key.strip() or None) if scheme.lower() == "bearer" else authorization
