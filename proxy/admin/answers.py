"""What an operator asks about answers: explain, review, trust, observed; forget, quarantine and release one entry."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from cache import StoreUnavailable
from proxy import openai
from proxy.admin.doors import for_tenant
from proxy.admin.routes import ANY, Order, Route, Told
from proxy.auth import Role
from proxy.errors import NotFound, StoreAway
from proxy.explain import as_json
from proxy.feedback import LONGEST_COMMENT, Feedback
from proxy.gateway import Gateway

Look = Callable[[], Coroutine[Any, Any, Told]]  # what is told of the inside

TENANT: Final = {"type": "string", "minLength": 1, "maxLength": 256, "description": "As if this tenant had asked."}
_REASON: Final = {
    "type": "object", "additionalProperties": False,
    "properties": {"reason": {"type": "string", "minLength": 1, "maxLength": LONGEST_COMMENT}},
}  # fmt: skip


class Answers:
    """trust: what is measured of the answers that were served.  observed: what would be; None = they are served."""

    def __init__(self, gateway: Gateway, feedback: Feedback, *, trust: Look, observed: Look | None = None) -> None:
        self._gateway = gateway
        self._feedback = feedback
        self._trust = trust
        self._observed = observed

    def routes(self) -> list[Route]:
        """Its part of the table."""
        paths = {"enum": list(openai.CACHED_PATHS), "default": next(iter(openai.CACHED_PATHS))}
        return [
            Route("POST", "/admin/explain", Role.READ, "What would happen to this request, and why", self._explain,
                  query={"path": paths, "tenant": TENANT}, body=ANY, changes=False),
            Route("GET", "/admin/review", Role.READ, "Answers out of service, and those that somebody complained about",
                  self._review),
            Route("GET", "/admin/trust", Role.READ, "How often answers found by meaning were wrong, as measured",
                  self._rates),
            Route("GET", "/admin/observed", Role.READ, "What the cache would have served since this process began",
                  self._would),
            Route("DELETE", "/admin/entries/{entry}", Role.CURATE, "Delete an answer from every tier and replica",
                  self._forget),
            Route("POST", "/admin/entries/{entry}/quarantine", Role.CURATE, "Serve this answer to nobody any more",
                  self._quarantine, body=_REASON, optional=True),
            Route("POST", "/admin/entries/{entry}/release", Role.CURATE, "Put an answer back into service",
                  self._release),
        ]  # fmt: skip

    async def _explain(self, asked: Order) -> Told:
        path = asked.query["path"]
        call = replace(for_tenant(asked, asked.query["tenant"]), path=path, target=path)
        return as_json(*await self._gateway.explain(call))

    async def _review(self, _: Order) -> Told:
        return await self._feedback.review()

    async def _rates(self, _: Order) -> Told:
        return await self._trust()

    async def _would(self, _: Order) -> Told:
        if self._observed is None:
            raise NotFound('Answers are served here, not observed: that takes the setting mode = "observe".')
        return await self._observed()

    async def _forget(self, asked: Order) -> Told:
        try:
            return {"deleted": await self._gateway.forget(asked.entry_id)}
        except StoreUnavailable as trouble:
            raise StoreAway(f"The entry could not be deleted everywhere: {trouble}. Try again.") from None

    async def _quarantine(self, asked: Order) -> Told:
        return await self._feedback.quarantine(asked.call, asked.entry_id)

    async def _release(self, asked: Order) -> Told:
        return await self._feedback.release(asked.call, asked.entry_id)
