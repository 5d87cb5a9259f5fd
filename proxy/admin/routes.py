"""The table of admin routes. Routing, the role check, the check of what was sent, the audit and /admin/openapi.json
are all read from it, so that none of them can say something else than the others. Pure."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from proxy.admin.schema import Schema, fit, read_query
from proxy.auth import Role, Tenant
from proxy.call import Call, Reply
from proxy.errors import BadRequest, NotFound
from proxy.openai import read_body

Told = dict[str, Any]

ENTRY: Final[Schema] = {"type": "string", "pattern": "^[0-7][0-9a-f]{15}$"}  # 63 bits
LIST: Final[Schema] = {
    "type": "object", "required": ["items", "next"],
    "properties": {"items": {"type": "array"}, "next": {"type": ["string", "null"]}},
}  # fmt: skip
ANY: Final[Schema] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks. name: for the audit.  tenant: for what a tenant does, such as explain.
    csrf: what a browser's session must send with a change; "" where there is no session."""

    name: str
    role: Role
    tenant: Tenant
    csrf: str = ""


@dataclass(slots=True)
class Order:
    """One request that fits its route. args: what stood in the path.  query: as its schema says, absent ones None.
    body: {} where none was sent.  note: what was done, in words, for the audit; never a text of a user."""

    call: Call
    who: Person
    args: Mapping[str, str]
    query: Mapping[str, Any]
    body: dict[str, Any]
    note: str = ""

    @property
    def entry_id(self) -> int:
        return int(self.args["entry"], 16)


Deed = Callable[[Order], Awaitable[Told | Reply]]


@dataclass(frozen=True, slots=True)
class Route:
    """One door. path: with {names}; {name+} may hold slashes.  role: the least that may come in; None = anybody.
    query: name → schema.  body: schema of the JSON that is sent; None = none is read, and the deed may read bytes.
    reply: schema of the JSON that comes back.  optional: the body may be left out.
    changes: it is audited; None = every method but GET."""

    method: str
    path: str
    role: Role | None
    summary: str
    deed: Deed
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None
    reply: Schema = field(default_factory=lambda: ANY)
    reply_type: str = "application/json"
    optional: bool = False
    changes: bool | None = None

    @property
    def audited(self) -> bool:
        return self.method != "GET" if self.changes is None else self.changes

    @property
    def public_path(self) -> str:
        return self.path.replace("+}", "}")


class Routes:
    """The table. Raises ValueError for two routes of one method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._table = tuple(routes)
        self._exact: dict[tuple[str, str], Route] = {}
        self._patterns: list[tuple[re.Pattern[str], Route]] = []
        for route in self._table:
            if "{" not in route.path:
                if (route.method, route.path) in self._exact:
                    raise ValueError(f"two routes for {route.method} {route.path}")
                self._exact[(route.method, route.path)] = route
            else:
                self._patterns.append((_pattern(route.path), route))

    def __iter__(self) -> Iterator[Route]:
        return iter(self._table)

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """The route, and what stands in its path. Raises NotFound: our own name space is passed on to no worker."""
        route = self._exact.get((method, path))
        if route is not None:
            return route, {}
        for pattern, route in self._patterns:
            if route.method == method and (found := pattern.fullmatch(path)) is not None:
                return route, found.groupdict()
        raise NotFound(f"There is no {method} {path} here. /admin/openapi.json lists what there is.")


def order(route: Route, call: Call, who: Person, args: Mapping[str, str]) -> Order:
    """What was sent, read and checked. Raises BadRequest with what would be right."""
    if "entry" in args and fit(args["entry"], ENTRY) is not None:
        raise BadRequest("An entry is named by 16 hexadecimal digits, as X-Rejoinder-Entry and explain say it.")
    query = read_query(call.target, route.query)
    body: dict[str, Any] = {}
    if route.body is not None and (call.body.strip() or not route.optional):
        body = read_body(call.body)
        if (wrong := fit(body, route.body)) is not None:
            raise BadRequest(wrong.message, param=wrong.place or None)
    return Order(call, who, args, query, body)


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)(\+?)\}", path)
    written = re.escape(parts[0])
    for name, greedy, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        written += f"(?P<{name}>{'.+' if greedy else '[^/]+'})" + re.escape(after)
    return re.compile(written)
