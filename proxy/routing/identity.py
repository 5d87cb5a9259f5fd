"""Which conversation a request belongs to. Pure.

The first of these that is present and sane (1 to 256 printable characters) names the session:

    header X-Session-ID · body session_id · conversation            STRONG   may read and write SESSION-reach entries
    previous_response_id · prompt_cache_key                         WEAK     only routes
    cookie rejoinder_session, signed by us                          STRONG
    user / safety_identifier                                        WEAK
    the digest of (system text, first user turn)                    WEAK     the same in every later turn of a chat

Request ids are never looked at: keyed on them, a chat changes its worker at every turn (prime-rl#2822 fell to 40 % of
its prefix hits). Keys that *behave* like request ids, or that everybody shares, are found out by `proxy.routing.keys`.
What leaves this module is a keyed digest: the raw id goes nowhere, neither to workers nor to logs.
"""

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, TypeGuard

import orjson
from xxhash import xxh3_64_intdigest

from proxy.routing.keys import KeyWatch, Sighting

COOKIE: Final = "rejoinder_session"
LONGEST: Final = 256  # characters of a session key; longer ones are somebody's data, not a name


class Strength(StrEnum):
    STRONG = "strong"
    WEAK = "weak"


class Source(StrEnum):
    HEADER = "X-Session-ID header"
    SESSION_ID = "session_id"
    CONVERSATION = "conversation"
    PREVIOUS_RESPONSE = "previous_response_id"
    PROMPT_CACHE_KEY = "prompt_cache_key"
    COOKIE = "cookie"
    USER = "user"
    SAFETY_IDENTIFIER = "safety_identifier"
    OPENING = "opening"  # system text and first user turn


STRONG_SOURCES: Final = frozenset({Source.HEADER, Source.SESSION_ID, Source.CONVERSATION, Source.COOKIE})
# Sources of one kind make one id from one value, so a client may move its id from the header to the body.
_KIND: Final = {
    Source.HEADER: b"session",
    Source.SESSION_ID: b"session",
    Source.CONVERSATION: b"conversation",
    Source.PREVIOUS_RESPONSE: b"response",
    Source.PROMPT_CACHE_KEY: b"cache-key",
    Source.COOKIE: b"cookie",
    Source.USER: b"user",
    Source.SAFETY_IDENTIFIER: b"user",
    Source.OPENING: b"opening",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose turn this is.

    id: 32 hex digits, HMAC-SHA256 of (tenant, kind of source, value).  source: where it was found, for people.
    warning: what the operator should know about this key, or about one that was not used; None = nothing."""

    id: str
    strength: Strength
    source: Source
    warning: str | None = None


def identify(
    headers: Mapping[str, str],
    body: Mapping[str, Any],
    cookies: Mapping[str, str],
    tenant: str,
    secret: bytes,
    *,
    watch: KeyWatch | None = None,
    learn: bool = True,
    threads: "Threads | None" = None,
    previous_secrets: Sequence[bytes] = (),
) -> Identity | None:
    """The session of one request; None = nothing in it names or opens a conversation (embeddings, empty prompts).

    headers: case-insensitive (aiohttp's `request.headers`).  secret: keys the digests and signs the cookie.
    watch: has weak keys skipped that name no session.  learn: it learns from this request; False for one that it was
    shown already, or that nobody makes.  threads: says whose response was the previous one.
    previous_secrets: still believed in cookies."""
    sighting: Sighting | None = None
    skipped: str | None = None
    judged = None if watch is None else watch.see if learn else watch.peek
    for source, value in _named(headers, body, cookies, (secret, *previous_secrets)):
        if source is Source.PREVIOUS_RESPONSE and threads and (known := threads.find(tenant, value)):
            return Identity(known, Strength.WEAK, source, skipped)
        key = value.encode()
        strong = source in STRONG_SOURCES
        flaw = None
        if judged is not None:
            sighting = sighting or _sighting(body, opening_of(body))
            flaw = judged(tenant, source, key, sighting)
        warning = f"{source}: {flaw.meaning}" if flaw else None
        if flaw is None or strong:
            strength = Strength.STRONG if strong else Strength.WEAK
            return Identity(_digest(secret, tenant, source, key), strength, source, warning or skipped)
        skipped = skipped or warning
    opening = opening_of(body)
    if opening is None:
        return None
    if judged is not None and judged(tenant, Source.OPENING, opening, sighting or _sighting(body, opening)):
        return None  # most chats open with these words: as a key, they would put most of the traffic on one worker
    return Identity(_digest(secret, tenant, Source.OPENING, opening), Strength.WEAK, Source.OPENING, skipped)


def _sighting(body: Mapping[str, Any], opening: bytes | None) -> Sighting:
    return Sighting(0 if opening is None else xxh3_64_intdigest(opening), has_history(body))


def _named(
    headers: Mapping[str, str], body: Mapping[str, Any], cookies: Mapping[str, str], cookie_secrets: Sequence[bytes]
) -> list[tuple[Source, str]]:
    """Every sane name that the caller gave this session, in the order in which they count."""
    conversation = body.get("conversation")
    if isinstance(conversation, Mapping):
        conversation = conversation.get("id")
    cookie = cookies.get(COOKIE)
    candidates = (
        (Source.HEADER, headers.get("X-Session-ID")),
        (Source.SESSION_ID, body.get("session_id")),
        (Source.CONVERSATION, conversation),
        (Source.PREVIOUS_RESPONSE, body.get("previous_response_id")),
        (Source.PROMPT_CACHE_KEY, body.get("prompt_cache_key")),
        (Source.COOKIE, read_cookie(cookie, *cookie_secrets) if cookie else None),
        (Source.USER, body.get("user")),
        (Source.SAFETY_IDENTIFIER, body.get("safety_identifier")),
    )
    return [(source, value) for source, value in candidates if _sane(value)]


def _sane(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable() and not value.isspace()


def _digest(secret: bytes, tenant: str, source: Source, value: bytes) -> str:
    name = tenant.encode()
    message = b"".join((len(name).to_bytes(4, "big"), name, _KIND[source], b"\0", value))
    return hmac.digest(secret, message, "sha256").hex()[:32]


class Threads(Protocol):
    """Which session a stored response belongs to: `proxy.routing.pins`. Each turn of the Responses API names another
    previous response, which as a hash key would send every turn to another worker."""

    def find(self, tenant: str, response_id: str, /) -> str | None:
        """The session (`Identity.id`); None = not known."""


# -- the conversation itself -----------------------------------------------------------------------------------------


def opening_of(body: Mapping[str, Any]) -> bytes | None:
    """What stays the same over all turns of one chat: the system text before the first user turn, and that turn.

    Chat completions, Responses (`instructions`, `input`) and Messages (`system`) alike; None = there is no user turn.
    A plain completion has no turns, and so no opening: its prompt grows, and any cut is arbitrary (kubeai#509)."""
    turns = body.get("messages")
    if turns is None and ("instructions" in body or "conversation" in body or _looks_like_turns(body)):
        turns = body.get("input")
        if isinstance(turns, str):
            turns = [{"role": "user", "content": turns}]
    if not isinstance(turns, list):
        return None
    parts: list[Any] = [body.get("instructions"), body.get("system")]
    for turn in turns:
        if not isinstance(turn, Mapping):
            return None
        role = turn.get("role")
        if role in ("system", "developer", "user"):
            parts.append((role, turn.get("content")))
        if role == "user":
            return _dumps(parts)
    return None


def has_history(body: Mapping[str, Any]) -> bool:
    """Whether this is a later turn of a chat: somebody answered before."""
    turns = body.get("messages") or body.get("input")
    if not isinstance(turns, list):
        return "previous_response_id" in body
    return any(isinstance(turn, Mapping) and turn.get("role") == "assistant" for turn in turns)


def _looks_like_turns(body: Mapping[str, Any]) -> bool:
    """`input` is also what embeddings take; there, it is a text or a list of texts and never has roles."""
    value = body.get("input")
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "role" in value[0]


def _dumps(parts: list[Any]) -> bytes:
    try:
        return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # lone surrogates, or integers beyond 64 bits, which json.loads lets through
        return repr(parts).encode("utf-8", "backslashreplace")


# -- the cookie ------------------------------------------------------------------------------------------------------


def new_cookie(secret: bytes) -> str:
    """A fresh value for the `rejoinder_session` cookie: 128 random bits and our signature."""
    return sign_cookie(secrets.token_hex(16), secret)


def sign_cookie(value: str, secret: bytes) -> str:
    return f"{value}.{_signature(value, secret)}"


def read_cookie(cookie: str, *known_secrets: bytes) -> str | None:
    """The value, if one of the secrets signed it; a cookie that anybody could make up is no cookie."""
    value, dot, signature = cookie.rpartition(".")
    if not dot or not signature.isascii():
        return None
    genuine = [secret for secret in known_secrets if hmac.compare_digest(_signature(value, secret), signature)]
    return value if genuine else None


def _signature(value: str, secret: bytes) -> str:
    return hmac.digest(secret, b"rejoinder cookie\0" + value.encode("utf-8", "backslashreplace"), "sha256").hex()[:32]
