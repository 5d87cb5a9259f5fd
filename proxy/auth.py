"""Who calls: API keys to tenants. Pure.

Keys configured: one of them, or 401. No keys configured: the keyed digest of the caller's own key is the tenant, and
its absence is one tenant; vLLM's own check, if any, still stands behind us.
"""

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from proxy.errors import Unauthorized

NOBODY = "keyless"
USER_HEADER = "X-Rejoinder-User"
_LONGEST_USER = 256  # characters
_LONGEST_NAME = 64  # characters, of who holds a token
_OTHER_CREDENTIALS = ("X-Api-Key", "Api-Key", "X-Goog-Api-Key")


class Role(IntEnum):
    """What somebody may do behind /admin; each may all that stands before it."""

    READ = 1  # look at everything
    CURATE = 2  # change what is answered
    OPERATE = 3  # change what runs, delete in bulk


@dataclass(frozen=True, slots=True)
class Tenant:
    """name: the tenant under which answers are shared.  trusted: may see similarity, worker and reasons, and say for
    which end user he asks.  principal: 16 hex digits, the digest of the key that was shown.
    curates: what he calls wrong is served to nobody any more."""

    name: str
    trusted: bool
    principal: str = field(default="", compare=False)
    curates: bool = field(default=False, compare=False)


class Door:
    """keys: API key → tenant name; empty = nobody is refused.  trusted: tenant names that may see details.
    curate_keys: those of the keys whose owners curate.
    open_loopback: bound to loopback, where a caller without keys is the operator's own."""

    def __init__(
        self, keys: Mapping[str, str], trusted: frozenset[str], secret: bytes, *, open_loopback: bool,
        curate_keys: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._secret = secret
        self._open = open_loopback and not keys
        self._nobody = self._tenant(NOBODY, NOBODY, self._open, self._open)
        self._tenants = {
            self._digest(key): self._tenant(key, name, name in trusted, key in curate_keys)
            for key, name in keys.items()
        }

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
            said = [key for key in (bearer(authorization), *map(headers.get, _OTHER_CREDENTIALS)) if key]
            shown = "\0".join(said)
            return self._tenant(shown, self._digest(shown), self._open, self._open) if said else self._nobody
        key = bearer(authorization) or headers.get("X-Api-Key")
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

    def _tenant(self, key: str, name: str, trusted: bool, curates: bool) -> Tenant:
        return Tenant(name, trusted, _principal(self._secret, name, b"key", key), curates)

    def _digest(self, key: str) -> str:
        return hmac.digest(self._secret, b"tenant\0" + key.encode("utf-8", "surrogateescape"), "sha256").hex()[:32]


def asserted_user(tenant: Tenant, headers: Mapping[str, str], body: Mapping[str, object], secret: bytes) -> str | None:
    """The end user for whom a trusted caller asks, as a principal (16 hex digits); None where he speaks for himself.

    Named by the header X-Rejoinder-User, or by the body's `user`. Whoever is not trusted could name anybody, so what he
    says of that is not heard."""
    if not tenant.trusted:
        return None
    for value in (headers.get(USER_HEADER), body.get("user")):
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_USER and not value.isspace():
            return _principal(secret, tenant.name, b"user", value)
    return None


def _principal(secret: bytes, tenant: str, kind: bytes, name: str) -> str:
    whose = tenant.encode("utf-8", "surrogateescape")
    said = b"\0".join((b"principal", len(whose).to_bytes(4), whose, kind, name.encode("utf-8", "surrogateescape")))
    return hmac.digest(secret, said, "sha256").hex()[:16]


def read_role(written: str) -> tuple[Role, str]:
    """`ROLE` or `ROLE NAME` of a setting. Raises ValueError."""
    role, _, name = written.strip().partition(" ")
    try:
        found = Role[role.upper()]
    except KeyError:
        raise ValueError(f"{role!r} is no role: read, curate or operate, then perhaps a name") from None
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise ValueError(f"a name has at most {_LONGEST_NAME} printable characters")
    return found, name.strip()


def bearer(authorization: str | None) -> str | None:
    """The credential in an Authorization header; one without a scheme is taken as it is."""
    if not authorization:
        return None
    scheme, _, key = authorization.partition(" ")
    return (key.strip() or None) if scheme.lower() == "bearer" else authorization
