"""What is logged, and how: lines for people or JSON for machines, and a line a request where the operator wants it.

No line holds a word of a prompt unless he said so (`log_requests = "prompts"`): tenants, sources and times only.
"""

import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from proxy import openai
from proxy.call import Call, Journey, Reply
from proxy.errors import ProxyError

log = logging.getLogger(__name__)

# Of the request that this task works for, so that whatever is logged on its way can be found again.
REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("rejoinder_request_id", default=None)
_LONGEST_QUESTION: Final = 2_000  # characters
_GONE: Final = 499  # the client left before there was a reply; nginx's word for it


class JsonLines(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, process; request_id where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if (request_id := REQUEST_ID.get()) is not None:
            told["request_id"] = request_id
        told |= getattr(record, "fields", {})
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def configure(level: str, style: str, *, process: int | None = None) -> None:
    """Set up logging of this process, once. style: `text` or `json`.  process: stands in every line of text."""
    handler = logging.StreamHandler()
    where = "" if process is None else f" [{process}]"
    text = logging.Formatter(f"%(asctime)s %(levelname)s{where} %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if style == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler])


class RequestLog:
    """Around a journey: its lines know their request, and it has one of its own when it is over.

    lines: whether there is one.  prompts: whether it holds the question."""

    def __init__(self, journey: Journey, *, lines: bool, prompts: bool) -> None:
        self._journey = journey
        self._lines = lines
        self._prompts = prompts

    @contextlib.asynccontextmanager
    async def __call__(self, call: Call) -> AsyncIterator[Reply]:
        REQUEST_ID.set(call.request_id)
        fields: dict[str, Any] = {"status": _GONE}
        try:
            async with self._journey(call) as reply:
                fields = self._begun(call, reply)
                yield reply
        except ProxyError as error:
            fields = {"status": error.status, "error": error.code}
            raise
        finally:
            if self._lines:
                self._say(call, fields)

    def _begun(self, call: Call, reply: Reply) -> dict[str, Any]:
        status = next((value for name, value in reply.headers if name == "Cache-Status"), "")
        return {
            "status": reply.status,
            "source": reply.source,
            "cache": status.partition("; detail=")[0],  # details quote numbers and names out of questions
            "begun_ms": _ms_since(call.came_s),
        }

    def _say(self, call: Call, fields: Mapping[str, Any]) -> None:
        told = {
            "request_id": call.request_id, "method": call.method, "path": call.path, "tenant": call.tenant.name,
            **fields, "total_ms": _ms_since(call.came_s),
        }  # fmt: skip
        if self._prompts:
            told["question"] = question_of(openai.peek(call.headers.get("Content-Type", ""), call.body))
        words = " ".join(
            f"{name}={value!r}" if name == "question" else f"{name}={value}" for name, value in told.items()
        )
        log.info("%s", words, extra={"fields": told})


def question_of(body: Mapping[str, Any]) -> str | None:
    """The words of the last user turn, or the prompt; None where there are none."""
    messages = body.get("messages")
    said = body.get("prompt")
    if isinstance(messages, list):
        said = next(
            (
                turn.get("content")
                for turn in reversed(messages)
                if isinstance(turn, dict) and turn.get("role") == "user"
            ),
            None,
        )
    if isinstance(said, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in said]
        said = " ".join(part for part in parts if isinstance(part, str))
    return said[:_LONGEST_QUESTION] if isinstance(said, str) and said else None


def _ms_since(began_s: float) -> float:
    return round((time.perf_counter() - began_s) * 1000, 2)
