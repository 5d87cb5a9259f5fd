"""What an entry is bound to beside its scope: the caller's tags, the documents that its answer stands on, the session
and the principal that asked. Pure. Names are opaque to the stores: they index them, and whoever forgets by one names it
here.
"""

from collections.abc import Iterable
from typing import Any, Final

_TAG, _SOURCE, _SESSION, _ASKER = "tag", "source", "session", "asker"
_THEN: Final = "\x1f"  # no part of a name contains it, see `plain`


def of_tag(tag: str) -> str:
    """The name of a caller's own word, such as `faq`."""
    return f"{_TAG}{_THEN}{tag}"


def of_source(document: str, version: str | None = None) -> str:
    """The name of a document: of this version, or (None) of whatever version."""
    return f"{_SOURCE}{_THEN}{document}" + ("" if version is None else f"{_THEN}{version}")


def of_session(digest: str) -> str:
    """The name of a session, by its keyed digest."""
    return f"{_SESSION}{_THEN}{digest}"


def of_asker(principal: str) -> str:
    """The name of whoever caused it, by his keyed digest: an API key, or the end user of a trusted caller."""
    return f"{_ASKER}{_THEN}{principal}"


def plain(text: str) -> bool:
    """Whether it can be part of a name: not empty, no control characters."""
    return text != "" and text.isprintable()


def names_of(
    tags: Iterable[str], sources: Iterable[tuple[str, str]] = (), session: str | None = None, asker: str = ""
) -> tuple[str, ...]:
    """All names of an entry, sorted."""
    names = {of_tag(tag) for tag in tags}
    for document, version in sources:
        names |= {of_source(document), of_source(document, version)}
    if session is not None:
        names.add(of_session(session))
    if asker:
        names.add(of_asker(asker))
    return tuple(sorted(names))


def told(names: Iterable[str]) -> dict[str, Any]:
    """The same for people: {"tags": [...], "sources": [{"id", "version"}]}; who asked is nobody's business."""
    tags: list[str] = []
    sources: list[dict[str, str]] = []
    for name in names:
        kind, *parts = name.split(_THEN)
        if kind == _TAG:
            tags.append(parts[0])
        elif kind == _SOURCE and len(parts) == 2:
            sources.append({"id": parts[0], "version": parts[1]})
    return {"tags": tags, "sources": sources}
