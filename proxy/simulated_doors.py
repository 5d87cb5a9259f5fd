"""The small endpoints of a simulated worker, and the JSON that all of them speak. Pure."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import orjson
from aiohttp import web

from proxy import simulated
from proxy.faults import Fault
from proxy.simulated import Json, Unfit

_KINDS: Final = {400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError", 503: "ServiceUnavailableError"}


def read_object(body: bytes) -> Json:
    """A JSON object, or vLLM's refusal (Unfit)."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unfit(f"There was an error parsing the body: {error}", kind="Bad Request") from error
    if not isinstance(value, dict):
        raise Unfit("the body must be a JSON object", kind="Bad Request")
    return value


def json_answer(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(value),
        status=status,
        content_type="application/json",
        headers={"X-Simulated": "true", **(headers or {})},
    )


def refusal(fault: Fault) -> web.Response:
    body = simulated.error_body(
        f"simulated {fault.status}", status=fault.status, kind=_KINDS.get(fault.status, "InternalServerError")
    )
    after = {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
    return json_answer(body, status=fault.status, headers=after)


def tokenize(body: Json, models: Sequence[str]) -> web.Response:
    read_prompt = simulated.read_chat if "messages" in body else simulated.read_completion
    words = read_prompt(body, models, models[0]).tokens
    numbers = [simulated.token_id(word) for word in words]
    return json_answer({"count": len(words), "max_model_len": 8192, "tokens": numbers, "token_strs": None})


def embeddings(body: Json, model: str) -> web.Response:
    texts = body.get("input", "")
    texts = [str(text) for text in texts] if isinstance(texts, list) else [str(texts)]
    vectors = enumerate(map(simulated.embedding, texts))
    data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in vectors]
    count = sum(len(simulated.tokens_of(text)) for text in texts)
    usage = {"prompt_tokens": count, "total_tokens": count, "completion_tokens": 0}
    told = {"id": f"embd-{uuid4().hex}", "object": "list", "created": int(time.time()), "model": model}
    return json_answer({**told, "data": data, "usage": usage})
