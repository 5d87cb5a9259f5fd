"""The page of the operator: our own HTML, CSS and JavaScript, as they stand in `static/`. No build, no other source.

The files hold no data and are told to anybody; what the page shows comes from /admin, which asks who wants to know. Its
Content-Security-Policy lets no script run but these files, and the page makes elements of text only (`dom.js`).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

PREFIX: Final = "/dashboard"
_TYPES: Final = {
    "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}  # fmt: skip
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    ("Content-Security-Policy", _POLICY), ("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Opener-Policy", "same-origin"), ("Cache-Control", "no-cache"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. tag: its ETag (RFC 9110, 8.8.3)."""

    type: str
    body: bytes
    tag: str

    def headers(self) -> list[tuple[str, str]]:
        return [("Content-Type", self.type), ("ETag", self.tag), *HEADERS]


def load() -> Mapping[str, Asset]:
    """Path under /dashboard/ → file; the page itself is `index.html`. Reads files."""
    found: dict[str, Asset] = {}

    def read(folder: Traversable, place: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                read(each, f"{place}{each.name}/")
            elif (kind := _TYPES.get(each.name.rpartition(".")[2])) is not None:
                body = each.read_bytes()
                found[place + each.name] = Asset(kind, body, f'"{hashlib.sha256(body).hexdigest()[:16]}"')

    read(files(__name__) / "static", "")
    return found
