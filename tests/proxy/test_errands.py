"""What goes out to a worker in a caller's name: whose chat it is, and nothing that was said to us alone."""

from typing import Any

import orjson
import pytest
from multidict import CIMultiDict

from proxy.auth import Tenant
from proxy.call import Call
from proxy.errands import Errands, prompt_of
from proxy.responses import Responses
from proxy.routing.workers import WorkerPool

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Why is the sky blue? " * 40}]}


def call(body: dict[str, Any], **headers: str) -> Call:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = tuple((name.encode(), value.encode()) for name, value in named.items())
    tenant = Tenant("tenant", trusted=False, principal="p" * 16)
    return Call("POST", "/v1/chat/completions", "/v1/chat/completions?a=b", CIMultiDict(named), raw, {},
                orjson.dumps(body), tenant, "req-1")  # fmt: skip


def errands(**given: Any) -> Errands:
    return Errands(b"s" * 32, Responses(WorkerPool()), **{"authenticates": False, "worker_api_key": None, **given})


def test_the_worker_is_told_a_digest_of_the_session_and_never_the_raw_id() -> None:
    sent = errands().of(call({**CHAT, "session_id": "anna's"}), {**CHAT, "session_id": "anna's"}, "m")
    digest = dict(sent.headers)["X-Session-ID"]
    assert sent.prompt.session == digest and len(digest) == 32
    assert sent.body is not None and b"anna" not in sent.body and orjson.loads(sent.body)["session_id"] == digest
    assert sent.target == "/v1/chat/completions?a=b"


def test_a_body_that_we_read_is_json_and_one_that_we_pass_on_stays_as_it_is() -> None:
    asked = call(CHAT, content_type="text/plain", accept_encoding="br")
    headers = {name.lower(): value for name, value in errands().of(asked, CHAT, "m").headers}
    assert headers["content-type"] == "application/json" and "accept-encoding" not in headers
    relayed = errands().of(asked, CHAT, "m", raw=b"as it is")
    assert relayed.body == b"as it is" and ("content-type", "text/plain") in relayed.headers


@pytest.mark.parametrize(("given", "shown"), [
    ({}, "Bearer clients"),
    ({"worker_api_key": "ours"}, "Bearer ours"),
    ({"authenticates": True}, None),
    ({"authenticates": True, "worker_api_key": "ours"}, "Bearer ours"),
])  # fmt: skip
def test_a_clients_key_goes_on_only_where_the_worker_judges_it(given: dict[str, Any], shown: str | None) -> None:
    sent = errands(**given).of(call(CHAT, Authorization="Bearer clients"), CHAT, "m")
    assert {name.lower(): value for name, value in sent.headers}.get("authorization") == shown


def test_a_key_that_names_no_session_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    made = errands()
    for number in range(120):
        later = {**CHAT, "messages": [*CHAT["messages"], {"role": "assistant", "content": "x"}, *CHAT["messages"]]}
        made.of(call(later, X_Session_ID=f"request-{number}"), later, "m")
    assert sum("not usable" in record.message for record in caplog.records) == 1


def test_routing_knows_the_prompt_and_whether_it_streams() -> None:
    prompt = prompt_of(call(CHAT), {**CHAT, "stream": True}, "m", None)
    assert prompt.model == "m" and prompt.session is None and prompt.stream
    assert prompt.trail is not None and len(prompt.trail.marks) == 3
    assert prompt.size == len(orjson.dumps(CHAT))


def test_whoever_only_looks_takes_a_request_for_the_session_that_routing_takes_it_for() -> None:
    """Explain and warm-ups took such keys at their word, and looked at homes that no request had."""
    made, learned = errands(), set()
    for number in range(200):
        body = {**CHAT, "messages": [*CHAT["messages"], {"role": "assistant", "content": "x"}, *CHAT["messages"]],
                "prompt_cache_key": f"request-{number}", "user": "ann"}  # fmt: skip
        seen = made.whose(call(body), body)
        for _ in range(3):
            assert made.whose(call(body), body, learn=False) == seen
        learned.add(seen and seen.source)
    assert {str(source) for source in learned} == {"prompt_cache_key", "user"}


def test_a_response_that_goes_on_with_another_is_no_beginning_of_a_prompt() -> None:
    body = {"model": "m", "input": [{"role": "user", "content": "Why? " * 200}], "previous_response_id": "resp_1"}
    assert prompt_of(call(body), body, "m", None).trail is None
    del body["previous_response_id"]
    assert prompt_of(call(body), body, "m", None).trail is not None


def test_the_first_byte_of_a_streamed_response_is_not_taken_for_its_first_token() -> None:
    """`response.created` comes before the prefill: learnt from, it would make every worker look infinitely fast."""
    asked = call(CHAT)
    assert prompt_of(asked, {**CHAT, "stream": True}, "m", None).stream
    asked.path = "/v1/responses"
    assert not prompt_of(asked, {**CHAT, "stream": True}, "m", None).stream
