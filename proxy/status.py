"""`Cache-Status` (RFC 9211) and `Age` (RFC 9111): the same names for hit and miss, stream and not. Pure.

What somebody could learn from a neighbour's similarity or a guard's reason is told only to callers who may know it.
`stored` is left out: the commit comes after the last byte, and a header cannot be taken back.
"""

from cache import Hit, Miss, Verdict

NAME = "rejoinder"


def of_hit(hit: Hit, *, detailed: bool) -> list[tuple[str, str]]:
    """Headers of an answer from the cache."""
    entry = hit.entry
    ttl_s = int(entry.expires_s - entry.created_s - hit.age_s)
    near = f" {hit.similarity:.3f}" if detailed and hit.similarity is not None else ""
    if near and hit.evidence is not None:
        near += f", right with {hit.evidence.p_right:.3f} ({hit.evidence.calibration})"
    headers = [
        ("Cache-Status", f'{NAME}; hit; ttl={ttl_s}; detail="{hit.tier} {hit.likeness.value}{near}"'),
        ("Age", str(int(hit.age_s))),
    ]
    if detailed:
        headers.append(("X-Rejoinder-Entry", f"{entry.id:016x}"))
    return headers


def of_miss(
    verdict: Verdict, miss: Miss, *, collapsed: bool, detailed: bool, warning: str | None = None
) -> list[tuple[str, str]]:
    """Headers of an answer from a worker. collapsed: somebody else's equal question was already in the air.
    warning: why such questions can never be hits."""
    status = f"{NAME}; fwd={verdict.why}"
    if collapsed:
        status += "; collapsed"
    if detailed:
        told = f"{miss.reason}: {miss.detail}" if miss.detail else miss.reason
        told = f"{told}; {warning}" if warning else told
        status += f"; detail={quoted(told)}"
    return [("Cache-Status", status)]


def of_continued(tokens: int, *, collapsed: bool) -> list[tuple[str, str]]:
    """Headers of an answer whose first tokens were stored (RFC 9211, 2.2: `partial`)."""
    status = f"{NAME}; fwd=partial" + ("; collapsed" if collapsed else "")
    return [("Cache-Status", f'{status}; detail="continued after {tokens} stored tokens"')]


def of_relay() -> list[tuple[str, str]]:
    """Headers of an endpoint that is not cached."""
    return [("Cache-Status", f"{NAME}; fwd=bypass")]


def of_worker(name: str, reason: str) -> list[tuple[str, str]]:
    """Who answered and why it was chosen; only for callers who may know."""
    return [("X-Rejoinder-Worker", f"{name}; reason={quoted(reason)}")]


def quoted(text: str) -> str:
    """An sf-string (RFC 8941, 3.3.3): printable ASCII, quotes and backslashes escaped; anything else becomes `?`."""
    safe = text[:300]
    if not (safe.isascii() and safe.isprintable()):
        safe = "".join(char if " " <= char <= "~" else "?" for char in safe)
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'
