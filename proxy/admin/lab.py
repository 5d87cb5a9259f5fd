"""The threshold lab: two questions in, and what the cache would decide, were one of them stored and the other asked."""

from dataclasses import replace
from typing import Any, Final

import orjson
from multidict import CIMultiDict

from cache import Compared, TieredCache, Verdict
from proxy.admin.answers import TENANT
from proxy.admin.doors import for_tenant
from proxy.admin.routes import Order, Route, Told
from proxy.auth import Role
from proxy.call import Call
from proxy.explain import candidate_told
from proxy.reading import Asked, Reader
from proxy.routing.workers import WorkerPool

_PATH: Final = "/v1/chat/completions"
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 8000}
_PAIR: Final = {
    "type": "object", "additionalProperties": False, "required": ["asked", "stored"],
    "properties": {
        "asked": {**_TEXT, "description": "What somebody asks."},
        "stored": {**_TEXT, "description": "What was asked before, and answered."},
        "answer": {"type": "string", "maxLength": 20000, "description": "The stored answer, for the judge."},
        "system": {"type": "string", "maxLength": 20000, "description": "The system prompt of both."},
        "model": {"type": "string", "maxLength": 256, "description": "None = the first one that is served."},
        "tenant": TENANT,
    },
}  # fmt: skip
_REPLY: Final = {
    "type": "object", "required": ["served", "why", "likeness", "similarity", "candidate", "asked", "stored"],
}  # fmt: skip


class PairLab:
    """reader: reads requests as the gateway does."""

    def __init__(self, cache: TieredCache, reader: Reader, pool: WorkerPool) -> None:
        self._cache = cache
        self._reader = reader
        self._pool = pool

    def routes(self) -> list[Route]:
        """Its part of the table."""
        return [
            Route("POST", "/admin/lab", Role.READ, "Two questions: likeness, guards, reader, trust, verdict",
                  self._pair, body=_PAIR, reply=_REPLY, changes=False),
        ]  # fmt: skip

    async def _pair(self, asked: Order) -> Told:
        body = asked.body
        call = for_tenant(asked, body.get("tenant"))
        new, old = self._read(call, body, body["asked"]), self._read(call, body, body["stored"])
        told = await self._cache.lab.compare(
            new.question, new.verdict, old.question, old.verdict, body.get("answer", "")
        )
        return {**_told(told), "asked": _policy(new), "stored": _policy(old)}

    def _read(self, call: Call, body: dict[str, Any], text: str) -> Asked:
        messages = [{"role": "system", "content": body["system"]}] if body.get("system") else []
        model = body.get("model") or next((card["id"] for card in self._pool.models()), "none")
        sent = orjson.dumps({"model": model, "messages": [*messages, {"role": "user", "content": text}]})
        # A browser's own Cache-Control says nothing of the pair.
        plain = replace(call, method="POST", path=_PATH, target=_PATH, headers=CIMultiDict(), cookies={}, body=sent)
        return self._reader.read(plain)


def _told(compared: Compared) -> Told:
    return {
        "served": compared.served, "why": compared.why, "threshold": compared.threshold,
        "likeness": compared.likeness.value if compared.likeness is not None else None,
        "similarity": None if compared.similarity is None else round(compared.similarity, 4),
        "candidate": None if compared.candidate is None else candidate_told(compared.candidate),
    }  # fmt: skip


def _policy(asked: Asked) -> Told:
    verdict: Verdict = asked.verdict
    return {
        "read": verdict.read.name.lower(), "write": verdict.write.name.lower(), "reason": verdict.reason,
        "traits": sorted(trait.value for trait in asked.question.traits),
    }  # fmt: skip
