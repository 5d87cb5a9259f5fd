"""The reply token: what `X-Rejoinder-Reply` says, and what feedback quotes. Pure.

A token holds what was known when the reply was told, so that any replica, or this one after a restart, can act on it:
nothing is remembered for it. Only we can read it (it is masked) or make it (it is signed), and only its own tenant can
use it: both keys are the tenant's, and so another tenant's token looks like a forged one. Equal contents of one second
make equal tokens; that is all that comparing two of them tells.

How: SIV, as in RFC 5297. The signature, a keyed BLAKE2b of the contents, is also the nonce of the key stream that masks
them. Two hashes, some 4 µs.
"""

import functools
import hashlib
import hmac
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass
from typing import Final

from cache import Evidence, Likeness
from proxy.errors import UnknownReply

HEADER: Final = "X-Rejoinder-Reply"

_VERSION: Final = 1
_FIXED: Final = struct.Struct("<BBQI8s16s")  # version, likeness, entry, issued, principal, session: 38 bytes
_SEEN: Final = struct.Struct("<ffBBH")  # similarity, p_right, features, bytes of the calibration's name, of the model's
_LIKENESSES: Final = (None, Likeness.EXACT, Likeness.WORDING, Likeness.MEANING)
_CODES: Final = {likeness: code for code, likeness in enumerate(_LIKENESSES)}
_FOR_USER: Final = 0x80  # in the byte of the likeness
_SIGNATURE: Final = 16  # bytes
_STREAM: Final = 64  # bytes of key stream that one hash gives
_LONGEST: Final = 2048  # characters
_NOBODY: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was known when a reply was told.

    entry_id: 0 = the answer was not to be kept.  principal: 16 hex digits, who asked.  session: 32 hex digits, None =
    no session that could keep anything.  issued_s: seconds since the Unix epoch.
    likeness: how the stored question was like the asked one; None = a worker answered.
    for_user: the principal is an end user for whom a trusted caller asked.
    evidence, model: of a hit by meaning, else None and ""; features as float16."""

    entry_id: int
    principal: str
    session: str | None
    issued_s: int
    likeness: Likeness | None
    for_user: bool = False
    evidence: Evidence | None = None
    model: str = ""


class Receipts:
    """secret: the one that keys every digest."""

    def __init__(self, secret: bytes) -> None:
        self._keys = functools.lru_cache(maxsize=4096)(functools.partial(_tenant_keys, secret))

    def seal(
        self, tenant: str, entry_id: int, principal: str, session: str | None, now_s: float,
        likeness: Likeness | None = None, *, for_user: bool = False, evidence: Evidence | None = None, model: str = "",
    ) -> str:  # fmt: skip
        """A token that fits a header: letters, digits, `-` and `_`. The parts are those of a Receipt."""
        text = _FIXED.pack(
            _VERSION, _CODES[likeness] | (_FOR_USER if for_user else 0), entry_id, int(now_s), bytes.fromhex(principal),
            _NOBODY if session is None else bytes.fromhex(session),
        )  # fmt: skip
        if evidence is not None:
            text += _packed(evidence, model)
        sign, mask = self._keys(tenant)
        signature = hashlib.blake2b(text, key=sign, digest_size=_SIGNATURE).digest()
        return urlsafe_b64encode(signature + _masked(text, mask, signature)).rstrip(b"=").decode()

    def open(self, tenant: str, token: str) -> Receipt:
        """Raises UnknownReply for anything that was not made for this tenant with this secret."""
        if len(token) > _LONGEST or not token.isascii():
            raise _unknown()
        try:
            data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (NotBase64, ValueError):
            raise _unknown() from None
        sign, mask = self._keys(tenant)
        signature = data[:_SIGNATURE]
        text = _masked(data[_SIGNATURE:], mask, signature)
        genuine = hashlib.blake2b(text, key=sign, digest_size=_SIGNATURE).digest()
        if not hmac.compare_digest(genuine, signature) or len(text) < _FIXED.size or text[0] != _VERSION:
            raise _unknown()
        _, code, entry_id, issued_s, principal, session = _FIXED.unpack_from(text)
        evidence, model = _unpacked(text[_FIXED.size :]) if len(text) > _FIXED.size else (None, "")
        known = None if session == _NOBODY else session.hex()
        likeness, for_user = _LIKENESSES[code & ~_FOR_USER], bool(code & _FOR_USER)
        return Receipt(entry_id, principal.hex(), known, issued_s, likeness, for_user, evidence, model)


def _packed(evidence: Evidence, model: str) -> bytes:
    features = evidence.features[:255]
    named, called = evidence.calibration.encode()[:64], model.encode()[:256]
    head = _SEEN.pack(evidence.similarity, evidence.p_right, len(features), len(named), len(called))
    # Beyond float16 there are only infinities; a feature of that size says no more than the largest does.
    return head + struct.pack(f"<{len(features)}e", *(max(-65504.0, min(65504.0, each)) for each in features)) + (
        named + called
    )  # fmt: skip


def _unpacked(text: bytes) -> tuple[Evidence, str]:
    similarity, p_right, count, named, called = _SEEN.unpack_from(text)
    features = struct.unpack_from(f"<{count}e", text, _SEEN.size)
    words = text[_SEEN.size + 2 * count :]
    calibration = words[:named].decode(errors="ignore")
    return Evidence(similarity, features, p_right, calibration), words[named : named + called].decode(errors="ignore")


def _masked(text: bytes, key: bytes, nonce: bytes) -> bytes:
    """The text under a key stream, or out of it again."""
    length = len(text)
    if length <= _STREAM:
        stream = hashlib.blake2b(nonce, key=key, digest_size=length or 1).digest()
    else:
        blocks = range((length + _STREAM - 1) // _STREAM)
        stream = b"".join(hashlib.blake2b(nonce + bytes([each]), key=key).digest() for each in blocks)[:length]
    return (int.from_bytes(text) ^ int.from_bytes(stream[:length])).to_bytes(length)


def _tenant_keys(secret: bytes, tenant: str) -> tuple[bytes, bytes]:
    """(to sign with, to mask with), 32 bytes each."""
    keys = hmac.digest(secret, b"reply token\0" + tenant.encode("utf-8", "surrogateescape"), "sha512")
    return keys[:32], keys[32:]


def _unknown() -> UnknownReply:
    return UnknownReply(
        f"`reply` is not a token that this tenant was given: quote the `{HEADER}` header of the reply that you rate, "
        "unchanged, and with the API key of the tenant that asked.",
        param="reply",
    )
