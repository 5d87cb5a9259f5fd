"""One request at /admin: who asks → which route → may he → does what he sent fit → done → audited.

And the doors that belong to no part of the house: login, session, logout, audit, openapi.json.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from cache import StoreUnavailable
from proxy.admin.access import COOKIE, SESSION_S, Access, own_page
from proxy.admin.audit import Audit, Deed
from proxy.admin.openapi import document
from proxy.admin.routes import Order, Person, Route, Routes, Told, order
from proxy.auth import NOBODY, Role, Tenant
from proxy.call import Call, Reply
from proxy.errors import BadRequest, Forbidden, ProxyError, StoreAway

LOGIN: Final = ("POST", "/admin/login")
NOBODY_YET: Final = Person("nobody yet", Role.READ, Tenant(NOBODY, False))
_COOKIE_RULES: Final = "Path=/admin; HttpOnly; SameSite=Strict"
_SESSION: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string"}, "role": {"enum": ["read", "curate", "operate"]},
        "csrf": {"type": "string"}, "tokenless": {"type": "boolean"},
    },
}  # fmt: skip


class Admin:
    """routes: what the parts of the house offer, in one list.  version: of the product, for openapi.json."""

    def __init__(self, routes: Iterable[Route], access: Access, audit: Audit, *, version: str) -> None:
        self._access = access
        self._audit = audit
        self.routes = Routes([*routes, *self._own()])
        self._document = document(self.routes, version)

    def enter(
        self, method: str, path: str, headers: Mapping[str, str], cookies: Mapping[str, str],
        version: tuple[int, int] = (1, 1),
    ) -> Person:  # fmt: skip
        """Who asks; `NOBODY_YET` for whoever shows his token only now. Before the route is looked for, and before the
        body is read. Raises Unauthorized, Forbidden."""
        if (method, path) == LOGIN:
            own_page(headers)
            return NOBODY_YET
        return self._access.enter(method, headers, cookies, version)

    async def answer(self, call: Call, who: Person) -> Told | Reply:
        """Raises ProxyError."""
        route, args = self.routes.find(call.method, call.path)
        if route.role is not None and who.role < route.role:
            error = Forbidden(
                f"This needs the role {route.role.name.lower()}, and {who.name} has {who.role.name.lower()}: see the "
                "setting admin_tokens."
            )
            await self._note(route, call, who, _refused(error), "")
            raise error
        ordered = order(route, call, who, args)
        try:
            told = await route.deed(ordered)
        except ProxyError as refusal:
            await self._note(route, call, who, _refused(refusal), ordered.note)
            raise
        await self._note(route, call, who, "done", ordered.note)
        return told

    async def _note(self, route: Route, call: Call, who: Person, outcome: str, note: str) -> None:
        if route.audited:
            role, now_s = who.role.name.lower(), self._audit.clock()
            deed = Deed(now_s, who.name, role, route.summary, route.method, call.path, outcome, note, call.request_id)
            await self._audit.note(deed)

    # -- doors of its own --------------------------------------------------------------------------------------------

    def _own(self) -> list[Route]:
        token = {"type": "string", "minLength": 1, "maxLength": 4096}
        return [
            Route("POST", "/admin/login", None, "Open a browser's session with a token", self._login, reply=_SESSION,
                  changes=False, body={"type": "object", "properties": {"token": token}, "required": ["token"],
                        "additionalProperties": False}),
            Route("POST", "/admin/logout", Role.READ, "End this browser's session", self._logout, changes=False),
            Route("GET", "/admin/session", Role.READ, "Who I am, my role, and what my changes must carry",
                  self._whoami, reply=_SESSION),
            Route("GET", "/admin/audit", Role.OPERATE, "Who changed what, and when; latest first", self._audited,
                  query={"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
                         "cursor": {"type": "string", "pattern": "^[0-9]{1,20}(-[0-9]{1,20})?$"}}),
            Route("GET", "/admin/openapi.json", Role.READ, "This API, as OpenAPI 3.1", self._openapi),
        ]  # fmt: skip

    async def _login(self, asked: Order) -> Reply:
        person, cookie = self._access.open_session(asked.body["token"])
        secure = "; Secure" if asked.call.headers.get("X-Forwarded-Proto", "").lower() == "https" else ""
        kept = f"{COOKIE}={cookie}; Max-Age={SESSION_S:.0f}; {_COOKIE_RULES}{secure}"
        return _json(self._session(person), [("Set-Cookie", kept)])

    async def _logout(self, _: Order) -> Reply:
        return _json({"ended": True}, [("Set-Cookie", f"{COOKIE}=; Max-Age=0; {_COOKIE_RULES}")])

    async def _whoami(self, asked: Order) -> Told:
        return self._session(asked.who)

    def _session(self, who: Person) -> Told:
        return {
            "name": who.name, "role": who.role.name.lower(), "csrf": who.csrf, "tokenless": self._access.tokenless,
        }  # fmt: skip

    async def _audited(self, asked: Order) -> Told:
        try:
            items, cursor = await self._audit.latest(asked.query["limit"], asked.query["cursor"])
        except ValueError:
            raise BadRequest("`cursor` must be what `next` of the page before said.", param="cursor") from None
        except StoreUnavailable as trouble:
            raise StoreAway(f"The audit cannot be read now: {trouble}. Try again.") from None
        return {"items": items, "next": cursor}

    async def _openapi(self, _: Order) -> Told:
        return self._document


def for_tenant(asked: Order, name: str | None) -> Call:
    """The same request as if that tenant had sent it; whoever may look inside may see every tenant's answers."""
    return asked.call if name is None else replace(asked.call, tenant=Tenant(name, True))


def _json(told: Any, headers: list[tuple[str, str]]) -> Reply:
    return Reply(200, [("Content-Type", "application/json"), *headers], body=orjson.dumps(told), source="admin")


def _refused(error: ProxyError) -> str:
    return f"{error.status} {error.message}"
