"""The table of routes as an OpenAPI 3.1 document. Pure.

Format: https://spec.openapis.org/oas/v3.1.0. Roles stand in `x-role`, for OpenAPI has no word for them.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from proxy.admin.routes import ENTRY, Route

_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string", "description": "What is wrong and what would be right."},
                "type": {"type": "string"}, "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]},
            },
        }
    },
}  # fmt: skip
_REFUSALS: Final = {
    "400": "What was sent does not fit.", "401": "No token, or an unknown one: the same words for every path.",
    "403": "Known, but not allowed to do this.", "404": "There is no such thing.",
    "409": "It would break something; the message says the way out.",
    "413": "The body is too large.", "503": "The store does not answer now; try again.",
}  # fmt: skip
_DESCRIPTION: Final = (
    "Roles: read < curate < operate. A token of the setting `admin_tokens` is sent as a bearer, or shown once to "
    "POST /admin/login by a browser, whose session then sends X-CSRF-Token with every change. Without tokens and API "
    "keys, callers on this machine may do everything. Lists are {items, next}: give `next` as `cursor` for more."
)


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """Every route, by path and method."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.public_path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rejoinder admin API", "version": version, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "responses": {
                code: {
                    "description": words,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
                for code, words in _REFUSALS.items()
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "rejoinder_admin"},
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    named = re.findall(r"\{(\w+)\}", route.public_path)
    parameters = [
        {
            "name": name, "in": "path", "required": True,
            "schema": ENTRY if name == "entry" else {"type": "string", "minLength": 1},
        }
        for name in named
    ] + [
        {
            "name": name, "in": "query", "required": False, "schema": schema,
            **({"description": schema["description"]} if "description" in schema else {}),
        }
        for name, schema in route.query.items()
    ]  # fmt: skip
    words = re.findall(r"\w+", route.public_path.removeprefix("/admin"))
    operation: dict[str, Any] = {
        "operationId": "_".join([route.method.lower(), *words]), "summary": route.summary,
        "tags": [words[0] if words else "admin"], "x-role": route.role.name.lower() if route.role else None,
        "security": [] if route.role is None else [{"token": []}, {"session": []}, {}],
        "responses": {
            "200": {"description": "Done.", "content": {route.reply_type: {"schema": route.reply}}},
            **{code: {"$ref": f"#/components/responses/{code}"} for code in _REFUSALS},
        },
    }  # fmt: skip
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.optional, "content": {"application/json": {"schema": route.body}},
        }  # fmt: skip
    return operation
