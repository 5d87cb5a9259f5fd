"""How fast is a hit, and what does passing on cost? Measured side by side in one run, because machines are noisy.

    python tests/bench/speed.py [--rounds 5] [--seconds 4] [--json]

Hit path: a 1 KB chat request that is in the cache, against a bare aiohttp handler that parses the same JSON and returns
the same bytes. Pass-through: a miss (no-store) and an uncached path, against a minimal aiohttp reverse proxy, all in
front of the same simulated worker. One server process is pinned to one core, load (wrk, else a small asyncio client)
and the worker to the other; rounds alternate; medians. CPU is the server process's own, from /proc.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

SERVER_CORE, LOAD_CORE = 0, max(0, (os.cpu_count() or 1) - 1)
WORDS = "Our parcels travel with two carriers and most of them arrive within three working days of the order. "
QUESTION = "How long does delivery take?"
BODY = json.dumps({
    "model": "demo",
    "temperature": 0.2,
    "messages": [
        {"role": "system", "content": "You answer questions about a shop. " + WORDS * 8},
        {"role": "user", "content": QUESTION},
    ],
})  # fmt: skip
LUA = """
wrk.method = "POST"
wrk.body = io.open("{body}", "rb"):read("*a")
wrk.headers["Content-Type"] = "application/json"
{extra}
"""


# ── the servers, each a process of its own ───────────────────────────────────────────────────────────────────────────


async def bare(answer: bytes) -> None:
    import orjson
    from aiohttp import web

    async def handler(request: web.Request) -> web.Response:
        orjson.loads(await request.read())
        return web.Response(body=answer, content_type="application/json")

    await _run(web, [web.post("/v1/chat/completions", handler)])


async def minimal_proxy(worker: str) -> None:
    import aiohttp
    from aiohttp import web

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False) as session:

        async def handler(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            async with session.request(
                request.method, worker + request.raw_path, data=body, headers={"Content-Type": "application/json"}
            ) as reply:
                response = web.StreamResponse(status=reply.status, headers={"Content-Type": reply.content_type})
                await response.prepare(request)
                async for chunk in reply.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response

        await _run(web, [web.route("*", "/{path:.*}", handler)])


async def fixed_worker(answer: bytes) -> None:
    """A worker that costs nothing, so that the proxies are what is measured."""
    from aiohttp import web

    async def chat(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=answer, content_type="application/json")

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "demo", "object": "model"}]})

    await _run(web, [web.get("/health", health), web.get("/v1/models", models), web.post("/{path:.*}", chat)])


async def _run(web: Any, routes: list[Any]) -> None:
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"listening http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


SERVERS: dict[str, Callable[[Any], Coroutine[Any, Any, None]]] = {
    "bare": bare, "proxy": minimal_proxy, "worker": fixed_worker,
}  # fmt: skip


class Server:
    """A server process pinned to one core."""

    def __init__(self, core: int, command: list[str]) -> None:
        self._process = subprocess.Popen(
            ["taskset", "-c", str(core), sys.executable, *command], stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                self.url = found[0]
                return
        raise SystemExit(f"a server did not start: {command}")

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()


# ── load ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def load(url: str, headers: dict[str, str], seconds: float, connections: int, folder: Path) -> tuple[float, float]:
    """(requests per second, median ms)."""
    if shutil.which("wrk"):
        body = folder / "body.json"
        body.write_text(BODY)
        script = folder / "load.lua"
        extra = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items())
        script.write_text(LUA.format(body=body, extra=extra))
        out = subprocess.run(
            ["taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s",
             "--latency", "-s", str(script), url],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
        if bad:
            raise SystemExit(f"{bad[1]} replies of {url} were not 2xx")
        number = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])  # type: ignore[index]
        median = re.search(r"50%\s+([\d.]+)(us|ms|s)", out)
        assert median is not None
        return number, float(median[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[median[2]]
    raise SystemExit("wrk is missing: apt-get install wrk")


def compare(
    pairs: dict[str, tuple[Server, str, dict[str, str]]], rounds: int, seconds: float, connections: int, folder: Path
) -> dict[str, dict[str, float]]:
    """Alternating rounds over the same pairs; medians of requests per second, median latency and CPU µs a request."""
    seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in pairs}
    for _ in range(rounds):
        for name, (server, path, headers) in pairs.items():
            cpu = server.cpu_s()
            began = time.monotonic()
            rate, median = load(server.url + path, headers, seconds, connections, folder)
            took = time.monotonic() - began
            seen[name].append((rate, median, (server.cpu_s() - cpu) / (rate * took) * 1e6))
    return {
        name: {
            "req_s": statistics.median(r for r, _, _ in runs), "p50_ms": statistics.median(m for _, m, _ in runs),
            "cpu_us": statistics.median(c for _, _, c in runs),
        }
        for name, runs in seen.items()
    }  # fmt: skip


def post(url: str, body: str, headers: dict[str, str] | None = None) -> tuple[bytes, dict[str, str]]:
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.read(), dict(reply.headers)


ANSWER = json.dumps({
    "id": "chatcmpl-0123456789abcdef0123456789abcdef", "object": "chat.completion", "created": 1796000000,
    "model": "demo",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": WORDS * 3, "refusal": None, "reasoning": None},
                 "logprobs": None, "finish_reason": "stop", "stop_reason": None}],
    "usage": {"prompt_tokens": 120, "total_tokens": 190, "completion_tokens": 70,
              "prompt_tokens_details": {"cached_tokens": 0}},
})  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=2, metavar=("WHAT", "ARGUMENT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        import uvloop

        what, argument = options.serve
        uvloop.run(SERVERS[what](argument if what == "proxy" else argument.encode()))
        return
    me = str(Path(__file__).resolve())
    servers: list[Server] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            worker = Server(LOAD_CORE, [me, "--serve", "worker", ANSWER])
            ours = Server(SERVER_CORE, [
                "-m", "proxy", "serve", "--worker", worker.url, "--port", "0", "--state-dir", str(folder / "state"),
                "--set", "embedder=none", "--set", "log_level=error",
            ])  # fmt: skip
            servers += [worker, ours]
            chat = "/v1/chat/completions"
            _wait_ready(ours.url)
            post(ours.url + chat, BODY)
            body, headers = post(ours.url + chat, BODY)
            if "; hit" not in headers.get("Cache-Status", ""):
                raise SystemExit(f"the warmed request is not a hit: {headers}")
            plain = Server(SERVER_CORE, [me, "--serve", "bare", body.decode()])
            forward = Server(SERVER_CORE, [me, "--serve", "proxy", worker.url])
            servers += [plain, forward]
            arguments = (options.rounds, options.seconds, options.connections, folder)
            hit = compare({"bare aiohttp": (plain, chat, {}), "rejoinder hit": (ours, chat, {})}, *arguments)
            session = {"X-Session-ID": "bench"}
            post(ours.url + chat, BODY, {**session, "Cache-Control": "no-cache"})
            in_session = compare(
                {"bare aiohttp": (plain, chat, {}), "rejoinder session hit": (ours, chat, session)}, *arguments
            )
            passed = compare(
                {
                    "minimal aiohttp proxy": (forward, chat, {}),
                    "rejoinder miss (no-store)": (ours, chat, {"Cache-Control": "no-store"}),
                    "rejoinder pass-through": (ours, "/v1/score", {}),
                },
                *arguments,
            )
        finally:
            for server in reversed(servers):
                server.stop()
    report(hit, in_session, passed, as_json=options.json)


def _wait_ready(url: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url + "/ready", timeout=2):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the proxy did not become ready")


def report(*tables: dict[str, dict[str, float]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(tables, indent=2))
        return
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"{time.strftime('%Y-%m-%d')}; request {len(BODY)} B, reply {len(ANSWER)} B")  # fmt: skip
    for table in tables:
        first = next(iter(table.values()))
        for name, row in table.items():
            print(f"{name:28s} {row['req_s']:9.0f} req/s  {row['req_s'] / first['req_s']:6.2f}×   "
                  f"p50 {row['p50_ms']:7.3f} ms   "
                  f"CPU {row['cpu_us']:6.1f} µs/req  {row['cpu_us'] / first['cpu_us']:5.2f}×")  # fmt: skip
        print()


if __name__ == "__main__":
    main()
