"""A call that was read once: what the cache, the flights and the worker each need of it. Pure.

The same bytes from the same caller mean the same question, so a reading is remembered: repetition is what a cache
lives from, and a hit then costs a dictionary look-up instead of a parse. The raw bytes themselves are the key, no
digest of them, so nobody can make two bodies meet.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from multidict import MultiMapping

from cache import Caller, Controls, Kind, Question, Rules, TieredCache, Verdict, ask, instructions, judge
from proxy import openai
from proxy.auth import USER_HEADER, asserted_user
from proxy.call import Call
from proxy.controls import read_controls
from proxy.errors import BadRequest
from proxy.routing.identity import COOKIE, Strength, identify
from proxy.routing.workers import WorkerPool
from proxy.volatile import PromptWatch

_REMEMBERED_BODY_BYTES = 16_384  # larger bodies repeat seldom and cost memory
_OBJECTS_BYTES = 6_000
_Key = tuple[str, str, str, str | None, bytes, str | None, str | None, str | None, str | None, str | None, int]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, read. body: the decoded JSON, not to be changed.  stream, usage: what the caller wants to hear.
    principal: 16 hex digits, who asks; for_user: it is an end user of the caller's.
    askers: how many principals must ask the same before its answer is shared.
    volatile: what is wrong with a system prompt that changes with every request; None = it does not."""

    kind: Kind
    body: Mapping[str, Any]
    model: str | None
    controls: Controls
    question: Question
    verdict: Verdict
    shape: str
    stream: bool
    usage: bool
    principal: str
    for_user: bool
    askers: int
    volatile: str | None = None


class Reader:
    """Reads calls. pool: knows which weights stand behind a model's name; the same name over others is another model.
    promote_after: how many principals must ask the same.  bytes_limit: how much is remembered, in bytes of memory."""

    def __init__(
        self, rules: Rules, secret: bytes, pool: WorkerPool, *, promote_after: int = 1, bytes_limit: int = 64 << 20
    ) -> None:
        self._rules = rules
        self._promote_after = promote_after
        self._pool = pool
        self._secret = secret
        self._bytes_limit = bytes_limit
        self._bytes = 0
        self._remembered: OrderedDict[_Key, Asked] = OrderedDict()
        self._prompts = PromptWatch()

    def read(self, call: Call) -> Asked:
        """Raises BadRequest."""
        headers = call.headers
        tenant = call.tenant
        key = (
            call.path, tenant.name, tenant.principal, headers.get(USER_HEADER) if tenant.trusted else None,
            call.body, _cache_control(headers), headers.get("Pragma"),
            headers.get("X-Session-ID"), headers.get("Content-Encoding"), call.cookies.get(COOKIE),
            self._pool.revisions,
        )  # fmt: skip
        asked = self._remembered.get(key)
        if asked is not None:
            self._remembered.move_to_end(key)
            return asked
        asked = self._read(call)
        if len(call.body) <= _REMEMBERED_BODY_BYTES:
            self._remembered[key] = asked
            self._bytes += _cost(key)
            while self._bytes > self._bytes_limit:
                oldest, _ = self._remembered.popitem(last=False)
                self._bytes -= _cost(oldest)
        return asked

    def recalled(self, call: Call, cache: TieredCache) -> Asked:
        """The same in the context of its conversation, as far as memory knows it; never waits. Raises BadRequest."""
        return in_context(asked := self.read(call), cache.receipts.at_hand(asked.question))

    def _read(self, call: Call) -> Asked:
        kind = openai.CACHED_PATHS[call.path]
        coding = call.headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":
            raise BadRequest(f"Content-Encoding {coding} is not read here. Send plain JSON.")
        body = openai.read_body(call.body)
        controls = read_controls(_cache_control(call.headers), call.headers.get("Pragma"), body.get("cache"))
        who = identify(call.headers, body, call.cookies, call.tenant.name, self._secret)
        session = who.id if who is not None and who.strength is Strength.STRONG else None
        user = asserted_user(call.tenant, call.headers, body, self._secret)
        principal = user or call.tenant.principal
        # A trusted caller who speaks for himself vouches for what he asks.
        askers = self._promote_after if user is not None or not call.tenant.trusted else 1
        if session is not None and askers > 1:  # what nobody else asked yet stays with its principal, not with an id
            session = hashlib.blake2b(f"{session}{principal}".encode(), digest_size=16).hexdigest()
        model = openai.model_of(body)
        caller = Caller(call.tenant.name, session)
        question = ask(kind, body, caller, controls, self._secret, self._pool.revision(model), self._rules)
        volatile = None
        if kind is Kind.CHAT and not controls.no_store:
            prompt = instructions(body, self._rules)
            volatile = self._prompts.seen(question.scope.tenant, question.scope.model, prompt)
        return Asked(
            kind, body, model, controls, question, judge(question, controls, self._rules),
            openai.shape(body), openai.wants_stream(body), openai.wants_usage(body),
            principal, user is not None, askers, volatile,
        )  # fmt: skip


def in_context(asked: Asked, question: Question) -> Asked:
    """The same request. question: its question in the context of its conversation."""
    return asked if question is asked.question else replace(asked, question=question)


def _cost(key: _Key) -> int:
    """Bytes that a remembered reading takes, about: its key, its decoded body, and the objects around it (measured:
    5.9 KB for a body of 80 B)."""
    return _OBJECTS_BYTES + 4 * len(key[4]) + sum(len(part) for part in key if isinstance(part, str))


def _cache_control(headers: MultiMapping[str]) -> str | None:
    """Several lines are one list (RFC 9110, 5.3)."""
    lines = headers.getall("Cache-Control", None)
    if lines is None:
        return None
    return lines[0] if len(lines) == 1 else ", ".join(lines)
