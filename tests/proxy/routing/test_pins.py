"""Stored responses and who keeps them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ResponseGone
from proxy.routing.pins import LOOK_BYTES, IdFinder, Pins, makes_response, named_response
from proxy.routing.workers import Worker, WorkerPool


@pytest.fixture
def pool() -> WorkerPool:
    pool = WorkerPool(["http://a:1", "http://b:1"])
    for worker in pool:
        pool.answered(worker, {"m": {"id": "m"}})
    return pool


def first(pool: WorkerPool) -> Worker:
    return next(iter(pool))


def test_a_response_is_found_at_the_worker_that_made_it(pool: WorkerPool) -> None:
    pins, worker = Pins(), first(pool)
    pins.note("t", "resp_1", worker, worker.generation, "session")
    assert pins.worker(pool, "t", "resp_1") is worker
    assert pins.find("t", "resp_1") == "session"


def test_what_nobody_here_made_may_be_asked_of_anybody(pool: WorkerPool) -> None:
    pins = Pins()
    assert pins.worker(pool, "t", None) is None
    assert pins.worker(pool, "t", "resp_1") is None
    assert pins.find("t", "resp_1") is None


def test_a_tenant_cannot_reach_another_ones_response(pool: WorkerPool) -> None:
    pins = Pins()
    pins.note("t", "resp_1", first(pool), 0, "session")
    assert pins.worker(pool, "u", "resp_1") is None and pins.find("u", "resp_1") is None


def test_a_worker_that_drains_or_fails_a_probe_still_has_its_responses(pool: WorkerPool) -> None:
    pins, worker = Pins(), first(pool)
    pins.note("t", "resp_1", worker, 0, None)
    for _ in range(2):
        pool.probe_failed(worker, "no reply", grace_s=2.0)
    assert pins.worker(pool, "t", "resp_1") is worker
    pool.answered(worker)
    assert pins.worker(pool, "t", "resp_1") is worker, "it never died"
    pool.drain(worker)
    assert pins.worker(pool, "t", "resp_1") is worker


def test_a_restarted_worker_has_lost_its_responses_and_the_caller_is_told_so(pool: WorkerPool) -> None:
    pins, worker = Pins(), first(pool)
    pins.note("t", "resp_1", worker, worker.generation, None)
    pool.unreachable(worker)
    pool.answered(worker)
    with pytest.raises(ResponseGone, match=r"`resp_1` is gone.*was restarted.*`input`") as gone:
        pins.worker(pool, "t", "resp_1")
    assert (gone.value.status, gone.value.code, gone.value.param) == (404, "response_not_found", "previous_response_id")


def test_a_removed_worker_and_one_that_was_added_again_have_lost_them_too(pool: WorkerPool) -> None:
    pins, worker = Pins(), first(pool)
    pins.note("t", "resp_1", worker, worker.generation, None)
    pool.remove(worker)
    with pytest.raises(ResponseGone, match="not here any more"):
        pins.worker(pool, "t", "resp_1")
    pool.add(worker.url)
    with pytest.raises(ResponseGone, match="was restarted"):
        pins.worker(pool, "t", "resp_1")


@given(st.lists(st.tuples(st.sampled_from("tu"), st.sampled_from("abcdef")), max_size=60))
def test_the_newest_are_remembered_and_no_more(noted: list[tuple[str, str]]) -> None:
    pins, worker = Pins(most=3), Worker("http://a:1")
    for tenant, name in noted:
        pins.note(tenant, name, worker, 0, f"{tenant}{name}")
    newest = list(dict.fromkeys(reversed(noted)))[:3]
    assert len(pins) == len(newest) == len(list(pins))
    for tenant, name in noted:
        assert (pins.of(tenant, name) is not None) == ((tenant, name) in newest)


@pytest.mark.parametrize(
    ("method", "path", "body", "named"),
    [
        ("POST", "/v1/responses", {"previous_response_id": "resp_1"}, "resp_1"),
        ("POST", "/v1/responses", {"input": "hi"}, None),
        ("POST", "/v1/responses", {"previous_response_id": 7}, None),
        ("POST", "/v1/responses", {"previous_response_id": ""}, None),
        ("GET", "/v1/responses/resp_1", {}, "resp_1"),
        ("DELETE", "/v1/responses/resp_1", {}, "resp_1"),
        ("POST", "/v1/responses/resp_1/cancel", {}, "resp_1"),
        ("GET", "/v1/responses/resp_1/input_items", {}, "resp_1"),
        ("GET", "/v1/responses/resp%5F1", {}, "resp_1"),
        ("GET", "/v1/responses/", {}, None),
        ("POST", "/v1/chat/completions", {"previous_response_id": "resp_1"}, None),
    ],
)
def test_which_response_a_request_is_about(method: str, path: str, body: dict[str, object], named: str | None) -> None:
    assert named_response(method, path, body) == named


def test_only_a_fresh_response_is_pinned() -> None:
    assert makes_response("POST", "/v1/responses", 200)
    assert not makes_response("POST", "/v1/responses", 400)
    assert not makes_response("POST", "/v1/responses/resp_1/cancel", 200)
    assert not makes_response("GET", "/v1/responses", 200)


JSON = b'{"id":"resp_8af0","created_at":1796023850,"object":"response","output":[{"id":"msg_1","content":[]}]}'
EVENTS = (
    b'event: response.created\ndata: {"response":{"id":"resp_8af0","object":"response"},"sequence_number":0}\n\n'
    b'event: response.output_item.added\ndata: {"item":{"id":"msg_1"}}\n\n'
)


@pytest.mark.parametrize("reply", [JSON, EVENTS, JSON.replace(b":", b" : ")], ids=["json", "events", "spaces"])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_id_is_seen_wherever_the_reply_is_cut(reply: bytes, step: int) -> None:
    finder = IdFinder()
    told = [found for n in range(0, len(reply), step) if (found := finder.feed(reply[n : n + step]))]
    assert told == ["resp_8af0"] and finder.id == "resp_8af0"


def test_a_reply_without_an_id_is_not_kept_in_memory() -> None:
    finder = IdFinder()
    for _ in range(LOOK_BYTES // 1000 + 5):
        assert finder.feed(b"x" * 1000) is None
    assert finder._seen is None and finder.id is None


def test_what_a_user_wrote_is_not_an_id() -> None:
    assert IdFinder().feed(rb'{"text":"\"id\":\"resp_evil\"","x":1') is None
