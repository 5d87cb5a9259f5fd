"""What callers say of answers, and what is done about it: the doors of feedback and review, without their HTTP.

Who may do what (an entry here is the answer that a reply token leads to):

    "good", anybody              a label
    "bad", anybody               a label; the session that was told it is not told it again; it joins the review queue
    "bad", bad_quorum callers    the same, and it is out of service: nobody is served it any more, in any replica
    "bad", who curates           out of service at once

Callers are principals (an API key, or the end user whom a trusted caller names), never session ids: those are free to
invent. A caller who changes his mind replaces what he said.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from cache import Entry, Evidence, Label, Source, StoreUnavailable, TieredCache
from proxy.auth import asserted_user
from proxy.call import Call
from proxy.errors import BadRequest, NotFound, ReplyExpired, StoreAway
from proxy.metrics import Metrics
from proxy.openai import read_body
from proxy.receipt import Receipt, Receipts

LONGEST_COMMENT: Final = 2000  # characters
LISTED: Final = 100  # of each kind, in one look at the review queue
_SAME: Final = Evidence(1.0, (), 1.0, "")  # the same question: nothing was weighed, so there is nothing to calibrate


@dataclass(frozen=True, slots=True)
class Rating:
    """What a caller says of a reply."""

    reply: str
    good: bool
    comment: str


def read_rating(body: dict[str, Any]) -> Rating:
    """Raises BadRequest with what would be right."""
    for name in body:
        if name not in ("reply", "rating", "comment", "user"):
            raise BadRequest(f"`{name}` is not known here. Known: reply, rating, comment, user.", param=name)
    reply, rating, comment = body.get("reply"), body.get("rating"), body.get("comment")
    if not isinstance(reply, str) or not reply:
        raise BadRequest("`reply` must be the X-Rejoinder-Reply header of the reply that you rate.", param="reply")
    if rating not in ("good", "bad"):
        raise BadRequest('`rating` must be "good" or "bad".', param="rating")
    if comment is not None and (not isinstance(comment, str) or len(comment) > LONGEST_COMMENT):
        raise BadRequest(f"`comment` must be a text of at most {LONGEST_COMMENT} characters.", param="comment")
    return Rating(reply, rating == "good", (comment or "").strip())


class Feedback:
    """receipts: reads the tokens that the gateway makes.  authenticates: whether API keys are configured.
    quorum: how many callers take an answer out of service.  window_s: how old a reply may be, in seconds."""

    def __init__(
        self, cache: TieredCache, receipts: Receipts, metrics: Metrics, secret: bytes, *, authenticates: bool,
        quorum: int, window_s: float,
    ) -> None:  # fmt: skip
        self._cache = cache
        self._receipts = receipts
        self._metrics = metrics
        self._secret = secret
        self._authenticates = authenticates
        self._quorum = quorum
        self._window_s = window_s

    async def rate(self, call: Call) -> dict[str, Any]:
        """One rating, and what was done about it. Raises BadRequest, UnknownReply, ReplyExpired, StoreAway."""
        body = read_body(call.body)
        rating = read_rating(body)
        receipt = self._receipts.open(call.tenant.name, rating.reply)
        now_s = self._cache.clock()
        if now_s - receipt.issued_s > self._window_s:
            raise ReplyExpired(
                f"This reply is older than {self._window_s / 86_400:g} days, too old to be rated. Ask the question "
                "again, and rate the new reply.",
                param="reply",
            )
        who, curates = self._who(call, receipt, body)
        self._metrics.rated("good" if rating.good else "bad", "curate" if curates else "user")
        if receipt.entry_id == 0:
            return _told(rating, curates, "This answer was not kept, so nobody is served it again.")
        label = Label(
            rating.good, Source.CURATOR if curates else Source.FEEDBACK, now_s, 1.0, call.tenant.name, receipt.model,
            receipt.entry_id, receipt.evidence or _SAME, who,
        )  # fmt: skip
        try:
            return await self._heed(rating, label, receipt.session, curates)
        except StoreUnavailable as trouble:
            raise StoreAway(f"What you said could not be kept: {trouble}. Say it again.", retry_after_s=2) from None

    async def _heed(self, rating: Rating, label: Label, session: str | None, curates: bool) -> dict[str, Any]:
        """Raises StoreUnavailable."""
        entry_id, reviews = label.entry_id, self._cache.reviews
        hide = session if session is not None and not rating.good else ""
        if not label.model:
            known = await reviews.entry(entry_id)
            label = label if known is None else replace(label, model=known.scope.model)
        callers = await reviews.add(label, hide, rating.comment)
        self._cache.learn(label, kept=True)
        if rating.good:
            return _told(rating, curates, "Thank you.")
        if curates or callers >= self._quorum:
            why = "a curator called it wrong" if curates else f"{callers} callers called it wrong"
            await self._quarantine([entry_id], why, label.tenant)
            return _told(
                rating, curates, "Nobody is served this answer any more; the next one who asks gets a fresh one.",
                hidden=True, quarantined=True,
            )  # fmt: skip
        if hide:
            return _told(
                rating, curates, "This session gets a fresh answer from now on; somebody will look at this one.",
                hidden=True, queued=True,
            )  # fmt: skip
        return _told(
            rating, curates, "Somebody will look at this answer. Requests with an X-Session-ID are not told again what "
            "they called wrong; without one, ask anew with Cache-Control: no-cache.", queued=True,
        )  # fmt: skip

    def _who(self, call: Call, receipt: Receipt, body: dict[str, Any]) -> tuple[str, bool]:
        """The principal who speaks, and whether he curates."""
        tenant = call.tenant
        user = asserted_user(tenant, call.headers, body, self._secret)
        told_user = receipt.principal if tenant.trusted and receipt.for_user else None
        # An application that hands on its users' opinions asked for them too. With keys, a curator's own says enough.
        curates = tenant.curates and user is None and (self._authenticates or told_user is None)
        return (tenant.principal if curates else user or told_user or tenant.principal), curates

    # ── review ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def review(self) -> dict[str, Any]:
        """The review queue. Raises StoreAway."""
        try:
            listing = await self._cache.reviews.listing(LISTED)
        except StoreUnavailable as trouble:
            raise StoreAway(f"The review queue could not be read: {trouble}. Try again.") from None
        return {
            "quarantined": [
                {"entry": f"{out.entry_id:016x}", "reason": out.reason, "at_s": out.at_s, **shown_entry(out.entry)}
                for out in listing.quarantined
            ],
            "queue": [
                {
                    "entry": f"{said.entry_id:016x}", "reason": f"{said.principals} of {self._quorum} callers",
                    "at_s": said.at_s, "comments": list(said.comments), **shown_entry(entry),
                }
                for said, entry in listing.complaints
            ],
        }  # fmt: skip

    async def quarantine(self, call: Call, entry_id: int) -> dict[str, Any]:
        """An operator takes it out of service. Raises BadRequest, StoreAway."""
        body = read_body(call.body) if call.body.strip() else {}
        reason = body.get("reason", "an operator said so")
        if not isinstance(reason, str) or not 0 < len(reason) <= LONGEST_COMMENT:
            raise BadRequest(f"`reason` must be a text of at most {LONGEST_COMMENT} characters.", param="reason")
        try:
            known = await self._cache.reviews.entry(entry_id)
            whose = call.tenant.name if known is None else known.scope.tenant
            held = await self._quarantine([entry_id], reason, whose)
        except StoreUnavailable as trouble:
            raise StoreAway(f"The entry could not be taken out of service: {trouble}. Try again.") from None
        return {"quarantined": held}

    async def release(self, _: Call, entry_id: int) -> dict[str, Any]:
        """An operator finds it right. Raises NotFound, StoreAway."""
        try:
            back = await self._cache.reviews.release(entry_id)
        except StoreUnavailable as trouble:
            raise StoreAway(f"The entry could not be released: {trouble}. Try again.") from None
        if not back:
            raise NotFound("This entry is not in quarantine, or it has expired there: see /admin/review.")
        return {"released": 1}

    async def _quarantine(self, entry_ids: list[int], reason: str, tenant: str) -> int:
        held = await self._cache.reviews.quarantine(entry_ids, reason, tenant)
        self._metrics.quarantined(len(held))
        return len(held)


def _told(
    rating: Rating, curates: bool, message: str, *, hidden: bool = False, queued: bool = False,
    quarantined: bool = False,
) -> dict[str, Any]:  # fmt: skip
    return {
        "object": "feedback", "rating": "good" if rating.good else "bad", "role": "curate" if curates else "user",
        "hidden": hidden, "queued": queued, "quarantined": quarantined, "message": message,
    }  # fmt: skip


def shown_entry(entry: Entry | None) -> dict[str, Any]:
    """An entry for the eyes of whoever reviews it."""
    if entry is None:
        return {"question": None, "answer": None, "tenant": None, "model": None}
    try:
        choice = orjson.loads(entry.answer.body)["choices"][0]
        answer = choice["message"]["content"] if "message" in choice else choice["text"]
    except (ValueError, LookupError, TypeError):  # nothing that can be shown as a text
        answer = None
    return {"question": entry.text, "answer": answer, "tenant": entry.scope.tenant, "model": entry.scope.model}
