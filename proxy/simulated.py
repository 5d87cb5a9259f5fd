"""What a simulated vLLM worker says: answers, token counts and JSON shapes, copied from vllm 0.32.0. Pure.

A tool for demos and tests, never an answer to a real question: its models are `owned_by` "rejoinder-simulated".
The answer is a function of the model, the history and the last question, so an answer that was served to another
question can be seen with the naked eye. A token is a word with the white space after it.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

OWNER: Final = "rejoinder-simulated"
BLOCK_TOKENS: Final = 16
FINGERPRINT: Final = "vllm-0.32.0-simulated"
CALL_A_TOOL: Final = "call a tool"  # in the last question, and tools given: the reply is a tool call
_TOKEN: Final = re.compile(r"\S+\s*|\s+")

Json = dict[str, Any]


class Unfit(Exception):
    """The request is refused as vLLM would refuse it. status, type: of vLLM's error envelope."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None = None):
        super().__init__(message)
        self.status = status
        self.body = error_body(message, status=status, kind=kind, param=param)


def error_body(message: str, *, status: int, kind: str, param: str | None = None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def tokens_of(text: str) -> list[str]:
    return _TOKEN.findall(text)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request, read. tokens: the rendered prompt.  question: the last user turn.  continued: an answer's beginning
    that is to be completed (`continue_final_message`)."""

    model: str
    tokens: tuple[str, ...]
    question: str
    history: str
    continued: str
    salt: str
    tool: str | None
    body: Mapping[str, Any]

    @property
    def limit(self) -> int | None:
        limit = self.body.get("max_completion_tokens")
        return limit if limit is not None else self.body.get("max_tokens")

    @property
    def include_usage(self) -> bool:
        return bool((self.body.get("stream_options") or {}).get("include_usage"))


def read_chat(body: Mapping[str, Any], models: Sequence[str], default: str) -> Prompt:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Unfit("messages: field required", kind="Bad Request", param="messages")
    going_on = bool(body.get("continue_final_message"))
    if going_on and body.get("add_generation_prompt", True):
        raise Unfit("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
    tokens: list[str] = []
    for message in messages:
        tokens += [f"<|{message['role']}|>", *tokens_of(_text(message.get("content"))), "<|end|>"]
    continued = _text(messages[-1].get("content")) if going_on else ""
    if going_on:
        tokens.pop()
        messages = messages[:-1]
    else:
        tokens.append("<|assistant|>")
    asked = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=len(messages) - 1)
    question = _text(messages[asked].get("content"))
    tools = body.get("tools") or []
    wanted = CALL_A_TOOL in question.lower() and body.get("tool_choice") != "none"
    tool = tools[0].get("function", {}).get("name", "tool") if tools and wanted else None
    history = orjson.dumps([[m["role"], _text(m.get("content"))] for m in messages[:asked]]).decode()
    return Prompt(_model(body, models, default), tuple(tokens), question, history, continued, _salt(body), tool, body)


def read_completion(body: Mapping[str, Any], models: Sequence[str], default: str) -> Prompt:
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        prompt = " ".join(str(part) for part in prompt)
    if not isinstance(prompt, str):
        raise Unfit("prompt: field required", kind="Bad Request", param="prompt")
    return Prompt(_model(body, models, default), tuple(tokens_of(prompt)), prompt, "", "", _salt(body), None, body)


def _model(body: Mapping[str, Any], models: Sequence[str], default: str) -> str:
    model = body.get("model") or default
    if model not in models:
        raise Unfit(f"The model `{model}` does not exist.", status=404, kind="NotFoundError", param="model")
    return str(model)


def _salt(body: Mapping[str, Any]) -> str:
    salt = body.get("cache_salt")
    if salt == "":
        raise Unfit("Parameter 'cache_salt' must be a non-empty string if provided.")
    return salt or ""


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part.get("text", f"<{part.get('type')}>") for part in content if isinstance(part, Mapping))
    return ""


def answer_to(prompt: Prompt) -> str:
    """The whole answer: it quotes the question, and ends with a digest of everything it depends on."""
    mark = xxh3_64_hexdigest(f"{prompt.model}\0{prompt.history}\0{prompt.question}".encode())[:8]
    quoted = " ".join(prompt.question.split()[:40])
    whole = f"This is a simulated answer to your question: \u201c{quoted}\u201d It was made without any model. [{mark}]"
    if prompt.continued and whole.startswith(prompt.continued):
        return whole[len(prompt.continued) :]
    return whole


class PrefixCache:
    """vLLM's prefix cache in small: chained hashes of full blocks, least recently used first out."""

    def __init__(self, blocks: int = 4096) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()
        self.room = blocks

    def take(self, prompt: Sequence[str], salt: str = "") -> int:
        """Look the prompt up and keep it; how many of its tokens were known. The last token is always computed."""
        most = max(0, len(prompt) - 1) // BLOCK_TOKENS
        known = 0
        for position, block in enumerate(self._chain(prompt, salt)):
            if block in self._blocks and known == position and position < most:
                known += 1
            self._keep(block)
        return known * BLOCK_TOKENS

    def keep(self, tokens: Sequence[str], salt: str = "") -> None:
        for block in self._chain(tokens, salt):
            self._keep(block)

    def clear(self) -> None:
        self._blocks.clear()

    def _keep(self, block: int) -> None:
        self._blocks[block] = None
        self._blocks.move_to_end(block)
        if len(self._blocks) > self.room:
            self._blocks.popitem(last=False)

    @staticmethod
    def _chain(tokens: Sequence[str], salt: str) -> Iterator[int]:
        parent = xxh3_64_intdigest(salt.encode())
        for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
            parent = xxh3_64_intdigest("\0".join(tokens[start : start + BLOCK_TOKENS]).encode(), parent)
            yield parent


# -- shapes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """What was generated. finish: vLLM's finish_reason.  cached: prompt tokens that the prefix cache knew.
    p_yes: of a verdict, whose one token it is."""

    id: str
    created: int
    prompt: Prompt
    tokens: tuple[str, ...]
    finish: str | None
    cached: int
    p_yes: float | None = None

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    def usage(self) -> Json:
        asked, written = len(self.prompt.tokens), len(self.tokens)
        created = asked // BLOCK_TOKENS * BLOCK_TOKENS - self.cached
        details = {"cached_tokens": self.cached, "created_cache_tokens": max(0, created), "multimodal_tokens": None}
        return {
            "prompt_tokens": asked,
            "total_tokens": asked + written,
            "completion_tokens": written,
            "prompt_tokens_details": details,
            "completion_tokens_details": None,
        }


def _tool_call(written: Written) -> Json:
    arguments = orjson.dumps({"question": written.prompt.question}).decode()
    function = {"name": written.prompt.tool, "arguments": arguments}
    return {"id": f"chatcmpl-tool-{written.id[-8:]}", "type": "function", "function": function}


def chat_whole(written: Written, *, choices: int) -> Json:
    message: Json = {
        "role": "assistant",
        "content": written.text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    if written.prompt.tool:
        message |= {"content": None, "tool_calls": [_tool_call(written)]}
    choice = {
        "message": message,
        "logprobs": None,
        "finish_reason": written.finish,
        "stop_reason": None,
        "token_ids": None,
        "routed_experts": None,
    }
    return {
        "id": written.id,
        "object": "chat.completion",
        "created": written.created,
        "model": written.prompt.model,
        "choices": [{"index": i, **choice} for i in range(choices)],
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": written.usage(),
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "kv_transfer_params": None,
        "metrics": None,
    }


def completion_whole(written: Written, *, choices: int) -> Json:
    choice = {
        "text": written.text,
        "logprobs": _logprobs(written) if written.prompt.body.get("logprobs") else None,
        "finish_reason": written.finish,
        "stop_reason": None,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
    }
    usage = written.usage()
    usage["prompt_tokens_details"]["created_cache_tokens"] = None
    return {
        "id": written.id,
        "object": "text_completion",
        "created": written.created,
        "model": written.prompt.model,
        "choices": [{"index": i, **choice} for i in range(choices)],
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": usage,
        "kv_transfer_params": None,
    }


def _logprobs(written: Written) -> Json:
    """As vLLM tells them. A token of ours is certain, but a verdict has two sides."""
    sure: list[dict[str, float]] = [{token: 0.0} for token in written.tokens]
    if written.p_yes is not None and sure:
        sides = ((" yes", written.p_yes), (" no", 1 - written.p_yes))
        sure[0] = {word: math.log(max(share, 1e-9)) for word, share in sides}
    told = [tokens[said] for tokens, said in zip(sure, written.tokens, strict=True)]
    offsets = [sum(map(len, written.tokens[:place])) for place in range(len(written.tokens))]
    return {"text_offset": offsets, "token_logprobs": told, "tokens": list(written.tokens), "top_logprobs": sure}


def chat_chunks(written: Written, *, choices: int) -> Iterator[Json]:
    """One chunk with the role, one per token, the last with the finish_reason. Usage and [DONE] are the server's."""
    base = {
        "id": written.id,
        "object": "chat.completion.chunk",
        "created": written.created,
        "model": written.prompt.model,
    }

    def chunk(index: int, delta: Json, finish: str | None = None) -> Json:
        choice: Json = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**base, "choices": [choice | ({"stop_reason": None} if finish else {}) | {"token_ids": None}]}

    for i in range(choices):
        yield chunk(i, {"role": "assistant", "content": ""})
    if written.prompt.tool:
        for i in range(choices):
            yield chunk(i, {"tool_calls": [{"index": 0, **_tool_call(written)}]})
            yield chunk(i, {}, written.finish)
        return
    last = len(written.tokens) - 1
    for position, token in enumerate(written.tokens):
        for i in range(choices):
            yield chunk(i, {"content": token}, written.finish if position == last else None)
    if not written.tokens:
        for i in range(choices):
            yield chunk(i, {"content": ""}, written.finish)


def completion_chunks(written: Written, *, choices: int) -> Iterator[Json]:
    base = {"id": written.id, "object": "text_completion", "created": written.created, "model": written.prompt.model}
    tokens = written.tokens or ("",)
    for position, token in enumerate(tokens):
        finish = written.finish if position == len(tokens) - 1 else None
        for i in range(choices):
            yield {
                **base,
                "choices": [
                    {
                        "index": i,
                        "text": token,
                        "logprobs": None,
                        "finish_reason": finish,
                        "stop_reason": None,
                        "prompt_token_ids": None,
                        "token_ids": None,
                    }
                ],
            }


def usage_chunk(written: Written, *, kind: str) -> Json:
    return {
        "id": written.id,
        "object": kind,
        "created": written.created,
        "model": written.prompt.model,
        "choices": [],
        "usage": written.usage(),
    }


def model_card(model: str, created: int) -> Json:
    return {
        "id": model,
        "object": "model",
        "created": created,
        "owned_by": OWNER,
        "root": model,
        "parent": None,
        "max_model_len": 8192,
        "permission": [],
    }


def embedding(text: str, dimensions: int = 16) -> list[float]:
    """Numbers that depend on the text and mean nothing."""
    return [(xxh3_64_intdigest(text.encode(), i) % 20_001) / 10_000 - 1 for i in range(dimensions)]


def token_id(token: str) -> int:
    return xxh3_64_intdigest(token.encode()) % 49_152
