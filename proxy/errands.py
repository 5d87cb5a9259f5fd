"""What a worker is asked in a caller's name: whose session it is, which headers and which bytes go out. Pure."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from proxy import openai
from proxy.call import Call
from proxy.dispatch import Errand
from proxy.headers import upstream_headers
from proxy.responses import Responses
from proxy.routing.choice import Prompt
from proxy.routing.identity import Identity, identify
from proxy.routing.keys import KeyWatch
from proxy.routing.pins import RESPONSES
from proxy.routing.trail import trail_of, unread

log = logging.getLogger(__name__)

_SAID_BY_US: Final = frozenset({"accept-encoding", "content-type"})


class Errands:
    """responses: which worker keeps which.
    authenticates: whether we know our callers by key; else their credentials are the worker's to judge.
    worker_api_key: what workers are shown."""

    def __init__(self, secret: bytes, responses: Responses, *, authenticates: bool, worker_api_key: str | None) -> None:
        self._secret = secret
        self._responses = responses
        self._authenticates = authenticates
        self._worker_api_key = worker_api_key
        self._watch = KeyWatch()
        self._warned: set[str] = set()

    def of(self, call: Call, body: Mapping[str, Any], model: str | None, raw: bytes | None = None) -> Errand:
        """body: decoded.  raw: goes out as it is; None = written anew, without what is ours.
        Raises ResponseGone."""
        who = self.whose(call, body)
        session = who.id if who is not None else None
        headers = upstream_headers(
            call.raw_headers, forward_authorization=not self._authenticates, worker_api_key=self._worker_api_key,
            session_id=session, request_id=call.request_id,
        )  # fmt: skip
        if raw is None:  # we read both body and answer: one is JSON whatever curl calls it, the other must come plain
            headers = [(name, value) for name, value in headers if name.lower() not in _SAID_BY_US]
            headers.append(("Content-Type", "application/json"))
            raw = openai.for_worker(body, call.body, session)
        keeper = self._responses.keeper(call, body)
        return Errand(call.method, call.target, headers, raw, prompt_of(call, body, model, who), keeper)

    def whose(self, call: Call, body: Mapping[str, Any], *, learn: bool = True) -> Identity | None:
        """The session for routing. learn: here the watch learns which keys are none; False = it was told of this
        request before, or a worker never hears of it."""
        who = identify(
            call.headers, body, call.cookies, call.tenant.name, self._secret, watch=self._watch, learn=learn,
            threads=self._responses.pins,
        )  # fmt: skip
        if learn and who is not None and who.warning is not None and who.warning not in self._warned:
            self._warned.add(who.warning)
            log.warning("a session key is not usable as one: %s", who.warning)
        return who


def prompt_of(call: Call, body: Mapping[str, Any], model: str | None, who: Identity | None) -> Prompt:
    """What routing knows of a call."""
    session = who.id if who is not None else None
    # What came before a response is in its worker's memory, not in this body, which is no beginning of the prompt.
    trail = trail_of(body) if body.get("previous_response_id") is None else None
    # Its stream begins with an event that waits for no token, so its first byte tells nothing of the prefill.
    stream = openai.wants_stream(body) and call.path != RESPONSES
    return Prompt(model, session, trail, len(call.body), stream, unread(body))
