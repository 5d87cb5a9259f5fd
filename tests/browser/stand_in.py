"""Stands in for doors that list, change and purge many entries; the page meets them as /admin/openapi.json tells it."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
from playwright.async_api import Page, Route

TEXT = {"type": "string", "minLength": 1, "maxLength": 8000}
NAMES = {"type": "array", "items": {"type": "string"}}
CURATED = {
    "type": "object", "required": ["question", "answer"],
    "properties": {
        "question": {"type": "string", "maxLength": 300}, "wordings": NAMES, "answer": TEXT,
        "owner": {"type": ["string", "null"]}, "tags": NAMES, "weight": {"type": "integer"},
        "checked": {"type": "boolean"},
    },
}  # fmt: skip
PURGE = {
    "type": "object",
    "properties": {
        "tag": {"type": "string"}, "tenant": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "older_than_s": {"type": "number", "minimum": 0}, "dry_run": {"type": "boolean", "default": True},
    },
}  # fmt: skip
LISTED = {
    "q": {"type": "string"},
    "tenant": {"type": "string"},
    "limit": {"type": "integer"},
    "cursor": {"type": "string"},
}
EDIT = {"type": "object", "properties": {"answer": TEXT, "tags": NAMES}}
DOORS = (
    ("get", "/admin/entries", None), ("get", "/admin/entries/{entry}", None), ("patch", "/admin/entries/{entry}", EDIT),
    ("get", "/admin/curated", None), ("post", "/admin/curated", CURATED), ("put", "/admin/curated/{id}", CURATED),
    ("delete", "/admin/curated/{id}", None), ("post", "/admin/purge", PURGE),
)  # fmt: skip


class StandIn:
    """entries, curated: what it holds, by name.  asked: the requests that came, as (method, path, body)."""

    def __init__(self, entries: int) -> None:
        self.entries = {
            f"{number:016x}": {
                "entry": f"{number:016x}", "question": f"What is rule {number}?", "answer": f"Rule <b>{number}</b>.",
                "tenant": "acme", "model": "demo", "tags": ["rules"], "created_s": 1_700_000_000.0,
            }
            for number in range(entries)
        }  # fmt: skip
        self.curated: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str, Any]] = []

    async def stand(self, page: Page) -> None:
        """In front of the server that `page` asks."""
        await page.route("**/admin/openapi.json", self._document)
        await page.route(re.compile("/admin/(entries|curated|purge)"), self._answer)
        await page.reload()

    async def _document(self, route: Route) -> None:
        told = await (await route.fetch()).json()
        for method, path, body in DOORS:
            operation: dict[str, Any] = {"x-role": "curate"}
            if path == "/admin/entries":
                operation["parameters"] = [
                    {"in": "query", "name": name, "schema": {"type": LISTED[name]}} for name in LISTED
                ]
            if body is not None:
                operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
            told["paths"].setdefault(path, {})[method] = operation
        await route.fulfill(json=told)

    async def _answer(self, route: Route) -> None:
        request, parts = route.request, urlsplit(route.request.url)
        body = orjson.loads(request.post_data) if request.post_data else None
        self.asked.append((request.method, parts.path, body))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        await route.fulfill(json=self._told(request.method, parts.path.split("/")[2:], query, body))

    def _told(self, method: str, path: list[str], query: dict[str, str], body: Any) -> Any:
        if path == ["purge"]:
            found = [name for name, each in self.entries.items() if body["tag"] in each["tags"]]
            if not body["dry_run"]:
                for name in found:
                    del self.entries[name]
            return {"matched": len(found)} if body["dry_run"] else {"deleted": len(found)}
        held = self.entries if path[0] == "entries" else self.curated
        if len(path) == 1 and method == "GET":
            found = [each for each in held.values() if query.get("q", "") in each["question"]]
            start, limit = int(query.get("cursor", 0)), int(query["limit"])
            return {
                "items": found[start : start + limit],
                "next": str(start + limit) if len(found) > start + limit else None,
            }
        if method == "POST" and path == ["curated"]:
            self.curated["1"] = {"id": "1", **body}
            return self.curated["1"]
        if method == "DELETE":
            del held[path[1]]
            return {"deleted": 1}
        if method in ("PUT", "PATCH"):
            held[path[1]] |= body
        return held[path[1]]
