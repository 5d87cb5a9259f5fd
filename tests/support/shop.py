"""A worker that answers as a test says, tells on /metrics how busy it is, and knows a check from a user's request."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping

from aiohttp import web
from scripted import Asked, ScriptedWorker, completion

Says = Mapping[str, str] | Callable[[str], str]


class Shop(ScriptedWorker):
    """says: question → answer; what is not named is answered with a sentence about it.  running: what /metrics tells;
    None = it tells nothing.  gate: a check is answered while it is open."""

    def __init__(self, says: Says | None = None, *, models: Mapping[str, str] | tuple[str, ...] = ("demo",)) -> None:
        super().__init__(self._serve, models=models)
        self.says: Says = says or {}
        self.running: int | None = 0
        self.waiting = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.finish = "stop"
        self.status_of_checks = 200
        self.times: defaultdict[str, int] = defaultdict(int)
        self.looks = 0  # at its /metrics

    @property
    def asked(self) -> list[Asked]:
        """Generations, users' and checks'."""
        return [call for call in self.calls if call.method == "POST"]

    @property
    def checks(self) -> list[Asked]:
        return [call for call in self.asked if (call.header("X-Request-Id") or "").startswith("shadow-")]

    async def _serve(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        if asked in self.checks:
            await self.gate.wait()
            if self.status_of_checks != 200:
                return web.json_response({"error": {"message": "no"}}, status=self.status_of_checks)
        question = asked.json["messages"][-1]["content"]
        self.times[question] += 1
        text = self.says(question) if callable(self.says) else self.says.get(question, f"It is like this: {question}")
        told = completion({"content": text})
        told["choices"][0]["finish_reason"] = self.finish if asked in self.checks else "stop"
        return web.json_response(told)

    async def _exposition(self, _: web.Request) -> web.Response:
        self.looks += 1
        if self.running is None:
            return web.Response(text="# nothing\n")
        return web.Response(text=f'vllm:num_requests_running{{engine="0"}} {self.running}\n'
                                 f'vllm:num_requests_waiting{{engine="0"}} {self.waiting}\n')  # fmt: skip
