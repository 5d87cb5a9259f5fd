"""Chats as clients send them, read the way the proxy reads them."""

from typing import Any

from cache.asking import Caller, ask
from cache.policy import Controls, Rules
from cache.question import Kind, Question

SECRET = b"a secret of sixteen bytes"
RULES = Rules()
FIRST = ("How do I cancel my subscription?", "where is the button to end my membership")
FOLLOW = "and for business accounts?"
ANSWER = "Under Settings, Plan, Cancel."


def asked(messages: list[dict[str, Any]], rules: Rules = RULES, tenant: str = "t", **fields: Any) -> Question:
    body = {"model": "m", "messages": messages, **fields}
    return ask(Kind.CHAT, body, Caller(tenant), Controls(), SECRET, rules=rules)


def chat(*texts: str, system: str | None = None) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    talk: list[dict[str, Any]] = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    return [{"role": "system", "content": system}, *talk] if system is not None else talk
