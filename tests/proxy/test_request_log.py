"""Logs: whatever a request caused can be found by its id, and no word of it stands there unless somebody asked."""

import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator

import pytest
from multidict import CIMultiDict

from proxy.auth import Tenant
from proxy.call import Call, Reply
from proxy.errors import NoWorker
from proxy.request_log import REQUEST_ID, JsonLines, RequestLog, configure, question_of

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "My secret is 48213"}]}'


def call() -> Call:
    headers = CIMultiDict({"Content-Type": "application/json"})
    return Call(
        "POST", "/v1/chat/completions", "/v1/chat/completions", headers, (), {}, BODY, Tenant("shop", True), "r-1"
    )


@contextlib.asynccontextmanager
async def answered(_: Call) -> AsyncIterator[Reply]:
    logging.getLogger("proxy.somewhere").warning("something on the way")
    detail = 'rejoinder; fwd=miss; detail="refused: numbers: 48213 against 7"'
    yield Reply(200, [("Cache-Status", detail)], body=b"", source="worker")


@contextlib.asynccontextmanager
async def failed(_: Call) -> AsyncIterator[Reply]:
    raise NoWorker("nobody", retry_after_s=2)
    yield Reply(200, [])


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [json.loads(JsonLines().format(record)) for record in caplog.records]


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    REQUEST_ID.set(None)


async def test_a_request_has_one_line_and_no_word_of_it_is_there(caplog: pytest.LogCaptureFixture) -> None:
    async with RequestLog(answered, lines=True, prompts=False)(call()):
        pass
    on_the_way, line = lines(caplog)
    assert on_the_way["request_id"] == line["request_id"] == "r-1"
    assert (line["status"], line["source"], line["tenant"], line["method"]) == (200, "worker", "shop", "POST")
    assert line["cache"] == "rejoinder; fwd=miss"  # the detail quotes numbers out of the question
    assert line["total_ms"] >= line["begun_ms"] >= 0  # type: ignore[operator]
    assert "48213" not in caplog.text + json.dumps([on_the_way, line])


async def test_with_prompts_the_question_is_there(caplog: pytest.LogCaptureFixture) -> None:
    async with RequestLog(answered, lines=True, prompts=True)(call()):
        pass
    assert lines(caplog)[-1]["question"] == "My secret is 48213"


async def test_a_request_that_nobody_could_answer_has_its_line_too(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NoWorker):
        async with RequestLog(failed, lines=True, prompts=False)(call()):
            pass
    assert (lines(caplog)[-1]["status"], lines(caplog)[-1]["error"]) == (503, "no_worker")


async def test_without_lines_the_id_is_known_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    async with RequestLog(answered, lines=False, prompts=False)(call()):
        pass
    assert [line["request_id"] for line in lines(caplog)] == ["r-1"]


def test_json_has_the_time_in_utc_and_the_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("café")
    except ValueError:
        logging.getLogger("proxy.x").error("it broke: %s", "so", exc_info=sys.exc_info())
    (line,) = lines(caplog)
    assert (line["level"], line["logger"], line["message"]) == ("error", "proxy.x", "it broke: so")
    assert str(line["time"]).endswith("+00:00") and "ValueError: café" in str(line["exception"])
    assert "request_id" not in line


def test_configuring_sets_level_and_format(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.Logger("root")
    monkeypatch.setattr(logging, "root", root)
    configure("warning", "json")
    (handler,) = root.handlers
    assert root.level == logging.WARNING and isinstance(handler.formatter, JsonLines)


@pytest.mark.parametrize(
    "body, question",
    [
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "a"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]}, "a"),
        ({"prompt": "once"}, "once"),
        ({"prompt": [1, 2, 3]}, None),
        ({"messages": "nonsense"}, None),
        ({}, None),
    ],
)
def test_the_question_is_the_last_user_turn(body: dict[str, object], question: str | None) -> None:
    assert question_of(body) == question
