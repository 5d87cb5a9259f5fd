"""Who asks at /admin, and in which role. Pure; the doors ask before they look for a route, so that whoever may not come
in is told the same for every path.

    a token of `admin_tokens`        the role that stands beside it
    an API key of a trusted tenant   *read*; *curate* where it is one of `curate_keys`
    a browser's session              the role of the credential that it was opened with, while that is still known
    nothing, on this machine         *operate*, where neither tokens nor API keys are configured

The last one only for direct callers: no sign of another proxy, and Host and Origin name this machine. A page of a
browser must be our own (Origin = Host) in every case. Secrets are looked up by keyed digests, so the time says nothing
of them.
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Final

from proxy.admin.routes import Person
from proxy.auth import NOBODY, Door, Role, Tenant, bearer, read_role
from proxy.errors import Forbidden, Unauthorized
from proxy.exposure import loopback_host, passed_on

COOKIE: Final = "rejoinder_admin"
CSRF_HEADER: Final = "X-CSRF-Token"
SESSION_S: Final = 43_200.0  # half a day; then the token is asked for again
_WANTED: Final = (
    "The admin API wants a token: `Authorization: Bearer TOKEN`, one of the setting admin_tokens or the API key of a "
    "trusted tenant."
)


class Access:
    """tokens: token → `ROLE` or `ROLE NAME`.  keys: API key → tenant name, as `door` has them.
    clock: seconds since the epoch."""

    def __init__(
        self, door: Door, tokens: Mapping[str, str], keys: Mapping[str, str], secret: bytes, clock: Callable[[], float]
    ) -> None:
        self._door = door
        self._secret = hmac.digest(secret, b"rejoinder admin", "sha256")
        self._clock = clock
        self._known: dict[str, Person] = {}
        for key in keys:
            tenant = door.enter({"Authorization": f"Bearer {key}"})
            if tenant.trusted:
                role = Role.CURATE if tenant.curates else Role.READ
                self._known[self._digest(key)] = Person(f"tenant {tenant.name}", role, tenant)
        for token, written in tokens.items():
            role, name = read_role(written)
            digest = self._digest(token)
            tenant = Tenant(NOBODY, True, digest[:16], role >= Role.CURATE)
            self._known[digest] = Person(name or f"{role.name.lower()} token {digest[:6]}", role, tenant)
        self._open = not tokens and not door.authenticates

    @property
    def tokenless(self) -> bool:
        """Whether callers on this machine need no token."""
        return self._open

    def enter(
        self, method: str, headers: Mapping[str, str], cookies: Mapping[str, str], version: tuple[int, int] = (1, 1)
    ) -> Person:
        """headers: case-insensitive.  version: of HTTP, as it was spoken to us.
        Raises Unauthorized (nobody knows him), Forbidden (known, but not here)."""
        shown = _credential(headers)
        if self._open:
            return self._local(headers, version)
        if shown is None and (session := self._session(cookies.get(COOKIE, ""))) is not None:
            own_page(headers)
            if method not in ("GET", "HEAD") and not hmac.compare_digest(
                headers.get(CSRF_HEADER, "").encode("utf-8", "surrogateescape"), session.csrf.encode()
            ):
                raise Forbidden(f"A change from a browser needs the header {CSRF_HEADER} of GET /admin/session.")
            return session
        person = self._known.get(self._digest(shown or ""))
        if person is None:
            if self._door.authenticates and shown is not None and self._is_a_key(headers):
                raise Forbidden("Only a trusted tenant may look inside: see the setting trusted_tenants.")
            raise Unauthorized(_WANTED)
        own_page(headers)
        return person

    def _local(self, headers: Mapping[str, str], version: tuple[int, int]) -> Person:
        tenant = self._door.enter(headers)
        if not tenant.trusted:
            raise Forbidden("Without a token nobody comes in here from outside: set admin_tokens.")
        if (sign := passed_on(headers, version)) is not None:
            raise Forbidden(
                f"Without a token this door is for direct callers, not for another proxy ({sign}): set admin_tokens."
            )
        if not loopback_host(headers):
            raise Forbidden("Without a token this door is for this machine only: ask it as 127.0.0.1 or localhost.")
        own_page(headers)
        return Person("this machine", Role.OPERATE, tenant)

    def _is_a_key(self, headers: Mapping[str, str]) -> bool:
        try:
            self._door.enter(headers)
        except Unauthorized:
            return False
        return True

    # -- a browser's session -----------------------------------------------------------------------------------------

    def open_session(self, token: str) -> tuple[Person, str]:
        """Who this is, and the cookie of a session. Nothing is remembered here: the cookie is signed, and it ends with
        the setting that knows its token. Raises Unauthorized."""
        digest = self._digest(token)
        if digest not in self._known:
            raise Unauthorized(_WANTED)
        text = f"{self._clock() + SESSION_S:.0f}.{digest}.{secrets.token_hex(8)}"
        cookie = f"{text}.{self._sealed(b'session', text)}"
        session = self._session(cookie)
        assert session is not None
        return session, cookie

    def _session(self, cookie: str) -> Person | None:
        text, _, seal = cookie.rpartition(".")
        if not text.isascii() or not seal.isascii() or not hmac.compare_digest(seal, self._sealed(b"session", text)):
            return None
        until, digest, _ = text.split(".")
        person = self._known.get(digest)
        if person is None or float(until) <= self._clock():
            return None
        return Person(person.name, person.role, person.tenant, self._sealed(b"csrf", text))

    def _sealed(self, what: bytes, text: str) -> str:
        return hmac.digest(self._secret, what + b"\0" + text.encode(), "sha256").hex()[:32]

    def _digest(self, token: str) -> str:
        return hmac.digest(self._secret, b"token\0" + token.encode("utf-8", "surrogateescape"), "sha256").hex()[:32]


def own_page(headers: Mapping[str, str]) -> None:
    """A page of a browser must be one that came from here. Raises Forbidden."""
    origin = headers.get("Origin")
    own = {headers.get(name, "").lower() for name in ("Host", "X-Forwarded-Host")} - {""}
    if origin is not None and origin.lower().partition("://")[2] not in own:
        raise Forbidden("This door is for direct callers and our own page only, not for a page of another origin.")
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise Forbidden("This door is for direct callers and our own page only, not for a page of another site.")


def _credential(headers: Mapping[str, str]) -> str | None:
    return bearer(headers.get("Authorization")) or headers.get("X-Api-Key")
