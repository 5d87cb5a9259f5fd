import pytest

from proxy.routing.worker import NEVER, State, Worker, canonical_url


@pytest.mark.parametrize(
    "raw",
    ["http://GPU-1:8000", "http://gpu-1:8000/", "gpu-1:8000", " http://gpu-1:8000/v1 ", "HTTP://gpu-1:8000/v1/"],
)
def test_one_worker_has_one_spelling(raw: str) -> None:
    assert canonical_url(raw) == "http://gpu-1:8000"


def test_default_ports_and_ipv6_are_spelled_out() -> None:
    assert canonical_url("http://a") == "http://a:80" and canonical_url("vllm_1:8000") == "http://vllm_1:8000"
    assert canonical_url("https://a/") == "https://a:443"
    assert canonical_url("http://[::1]:8000") == "http://[::1]:8000"


@pytest.mark.parametrize(
    "raw",
    ["ftp://a:1", "http://", "http://u:p@a:1", "http://a:1/models", "http://a:1?x=1", "http://\uf5a6:1",
     f"http://{'a' * 64}:1"],
)  # fmt: skip
def test_an_unusable_url_is_refused_with_words(raw: str) -> None:
    with pytest.raises(ValueError, match="worker"):
        canonical_url(raw)


def test_a_worker_that_nobody_has_asked_yet_knows_nothing_and_claims_nothing() -> None:
    worker = Worker("HTTP://GPU-1:8000/v1")
    assert (worker.url, worker.name, worker.identity) == ("http://gpu-1:8000", "gpu-1:8000", "http://gpu-1:8000")
    assert worker.state is State.UNKNOWN and worker.gauges is None and worker.idle and not worker.on_trial
    assert worker.serves("any model") and worker.serves(None)
    assert {worker.last_seen_s, worker.returned_s, worker.busy_until_s, worker.draining_since_s} == {NEVER}


def test_a_named_worker_hashes_by_its_name_wherever_it_moves() -> None:
    assert Worker("http://a:1", "left").seed == Worker("http://b:1", "left").seed != Worker("http://a:1").seed
    assert Worker("http://a:1", "left").name == "left"


def test_a_lora_is_served_only_by_those_that_list_it() -> None:
    with_it, without = Worker("http://a:1"), Worker("http://b:1")
    with_it.models, without.models = frozenset({"base", "french"}), frozenset({"base"})
    assert with_it.serves("french") and not without.serves("french") and without.serves("base")
