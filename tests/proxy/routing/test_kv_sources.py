import orjson
import pytest

from proxy.routing.kv_sources import CONNECTS, Source, sources_of

HERE, THERE = "http://127.0.0.1:8000", "http://gpu-7.lan:8000"


def told(endpoint: str, replay: str | None = None, **fields: object) -> bytes:
    config = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": endpoint, "replay_endpoint": replay}
    return orjson.dumps({"0": {**config, "topic": "kv", **fields}})


@pytest.mark.parametrize(
    ("endpoint", "worker", "reached"),
    [
        ("tcp://*:5557", THERE, "tcp://gpu-7.lan:5557"),
        ("tcp://0.0.0.0:5557", THERE, "tcp://gpu-7.lan:5557"),
        ("tcp://:::5557", THERE, "tcp://gpu-7.lan:5557"),
        ("tcp://[::]:5557", "http://[fd00::7]:8000", "tcp://[fd00::7]:5557"),
        ("tcp://GPU-7.lan:41234", THERE, "tcp://gpu-7.lan:41234"),
        ("tcp://10.0.0.7:41234", "http://10.0.0.7:8000", "tcp://10.0.0.7:41234"),
        ("tcp://localhost:5557", HERE, "tcp://localhost:5557"),
        ("tcp://127.0.0.1:5557", HERE, "tcp://127.0.0.1:5557"),
        ("ipc:///tmp/kv.sock", HERE, "ipc:///tmp/kv.sock"),
        ("ipc:///tmp/kv.sock", "http://localhost:8000", "ipc:///tmp/kv.sock"),
    ],
)
def test_an_address_that_a_worker_was_given_becomes_one_that_we_can_reach(
    endpoint: str, worker: str, reached: str
) -> None:
    [source] = sources_of(200, told(endpoint), worker).found
    assert (source.endpoint, source.replay, source.topic, source.rank) == (reached, None, "kv", 0)
    assert source.listens == ("*" in endpoint or "::" in endpoint or "ipc" in endpoint)


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("ipc:///tmp/kv.sock", "its own machine"),
        ("tcp://127.0.0.1:5557", CONNECTS),
        ("inproc://kv", "cannot be reached"),
        ("tcp://nonsense", "cannot be reached"),
        ("tcp://gpu-7.lan:0", "cannot be reached"),
        ("tcp://gpu-7.lan:99999", "cannot be reached"),
        ("tcp://gpu-7.lan:٨٠", "cannot be reached"),
    ],
)
def test_an_address_that_nobody_else_can_reach_is_explained(endpoint: str, words: str) -> None:
    sources = sources_of(200, told(endpoint), THERE)
    assert sources.found == () and words in str(sources.trouble)


def test_a_replay_address_that_cannot_be_reached_only_costs_the_replay() -> None:
    [source] = sources_of(200, told("tcp://*:5557", "tcp://127.0.0.1:5558"), THERE).found
    assert source.replay is None
    [source] = sources_of(200, told("tcp://*:5557", "tcp://*:5558"), THERE).found
    assert source.replay == "tcp://gpu-7.lan:5558"


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "redis.internal", "10.0.0.8", "gpu-7.lan.evil.example", "x*", "[::8]"]
)
@pytest.mark.parametrize("worker", [HERE, THERE])
def test_a_worker_cannot_send_us_to_another_machine(host: str, worker: str) -> None:
    """Whoever may add a worker, or runs one, could have us connect to anything inside."""
    sources = sources_of(200, told(f"tcp://{host}:6379"), worker)
    assert sources.found == () and "another machine" in str(sources.trouble)
    [source] = sources_of(200, told("tcp://*:5557", f"tcp://{host}:6379"), worker).found
    assert source.replay is None


def test_every_data_parallel_rank_has_its_own_publisher() -> None:
    config = {"enable_kv_cache_events": True, "publisher": "zmq", "replay_endpoint": None, "topic": ""}
    ranks = {"10": {**config, "endpoint": "tcp://*:5567"}, "9": {**config, "endpoint": "tcp://*:5566"}}
    assert sources_of(200, orjson.dumps(ranks), HERE).found == (
        Source(9, "tcp://127.0.0.1:5566", None, "", True),
        Source(10, "tcp://127.0.0.1:5567", None, "", True),
    )


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b'{"detail":"Not Found"}', "older than 0.32"),
        (403, b"", "403"),
        (500, b"", "answered 500"),
        (200, b"{}", "--kv-events-config"),
        (200, told("tcp://*:5557", publisher="null"), "--kv-events-config"),
        (200, told("tcp://*:5557", enable_kv_cache_events=False), "--kv-events-config"),
        (200, b"<html>", "something else"),
        (200, b"[]", "something else"),
        (200, b'{"0": {}}', "something else"),
        (200, b'{"0": null}', "something else"),
        (200, b'{"zero": {"enable_kv_cache_events": true, "publisher": "zmq"}}', "something else"),
    ],
)
def test_a_worker_without_events_is_told_in_words(status: int, body: bytes, words: str) -> None:
    sources = sources_of(status, body, HERE)
    assert sources.found == () and words in str(sources.trouble)
