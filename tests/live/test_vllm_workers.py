"""The helper that other live tests stand on, and the facts about vLLM that the proxy builds on."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request

import pytest
from vllm_workers import VllmWorker

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]


def chat(worker: VllmWorker, messages: list[dict[str, str]], **parameters: object) -> dict[str, object]:
    body = {"model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 8, **parameters}
    request = urllib.request.Request(
        f"{worker.url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def cached_tokens(answer: dict) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_the_second_turn_finds_the_first_ones_prefix_on_its_own_worker_only(tiny_workers: list[VllmWorker]) -> None:
    home, stranger = tiny_workers
    for worker in tiny_workers:
        worker.reset_prefix_cache()
    chat_so_far = [{"role": "user", "content": "one two three four five six seven " * 30}]
    first = chat(home, chat_so_far)
    assert cached_tokens(first) == 0

    chat_so_far += [first["choices"][0]["message"], {"role": "user", "content": "go on"}]
    chat_so_far = [{"role": turn["role"], "content": turn["content"]} for turn in chat_so_far]
    hits = home.metrics()["vllm:prefix_cache_hits_total"]
    # A hit is whole blocks of 32, and never the last token.
    assert cached_tokens(chat(home, chat_so_far)) >= first["usage"]["prompt_tokens"] // 32 * 32
    assert home.metrics()["vllm:prefix_cache_hits_total"] > hits
    assert cached_tokens(chat(stranger, chat_so_far)) == 0


def test_the_same_text_comes_from_a_cold_and_a_warm_cache_and_from_both_workers(tiny_workers: list[VllmWorker]) -> None:
    question = [{"role": "user", "content": "alpha beta gamma delta " * 40}]
    answers = [chat(worker, question, max_tokens=24) for worker in (*tiny_workers, *tiny_workers)]
    assert len({answer["choices"][0]["message"]["content"] for answer in answers}) == 1
    assert cached_tokens(answers[-1]) > 0


@pytest.mark.proof  # two starts of vLLM take a minute
def test_a_killed_worker_is_gone_altogether_and_can_start_again(another_worker) -> None:
    worker = another_worker()
    group = worker.pid
    worker.kill()
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)
    with pytest.raises(urllib.error.URLError):
        chat(worker, [{"role": "user", "content": "hello?"}])

    worker.start()
    worker.wait_ready()
    assert worker.pid != group
    assert chat(worker, [{"role": "user", "content": "hello again"}])["usage"]["completion_tokens"] == 8
