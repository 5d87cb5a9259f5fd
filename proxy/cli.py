"""`rejoinder`: serve, demo, explain, settings. Reads flags, starts things, prints; the work is done elsewhere."""

import contextlib
import json
import logging
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import uvloop
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cache import CacheError, StateError
from proxy.app import Proxy, serve
from proxy.demo import Pace, SimulatedWorker
from proxy.explain import as_text
from proxy.processes import serve_many
from proxy.settings import Settings, SettingsError, load, shown

cli = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown",
    help="An OpenAI endpoint in front of vLLM: answers what was answered before, sends the rest to the worker that "
    "remembers the conversation.",
)  # fmt: skip
console = Console()

DEMO_QUESTIONS = ("How do I reset my password?", "how do i reset my password", "How can I reset my password?")

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with settings.", envvar="REJOINDER_SETTINGS")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="Any setting, as NAME=VALUE; see `rejoinder settings`. May be repeated."),
]
Port = Annotated[int | None, typer.Option("--port", "-p", help="Port to listen on (8080).")]
Host = Annotated[str | None, typer.Option("--host", help="Address to listen on (127.0.0.1).")]


@cli.command("serve")
def serve_command(
    worker: Annotated[
        list[str] | None, typer.Option("--worker", "-w", help="Base URL of a vLLM worker. May be repeated.")
    ] = None,
    host: Host = None,
    port: Port = None,
    processes: Annotated[int | None, typer.Option(help="Processes that share the port; needs --redis-url.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="redis://… shared by processes and replicas.")] = None,
    state_dir: Annotated[Path | None, typer.Option(help="Where the store, the index and the secret live.")] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Serve in front of your workers.

    `rejoinder serve --worker http://10.0.0.5:8000 --worker http://10.0.0.6:8000`"""
    flags = {
        "workers": tuple(worker) if worker else None, "host": host, "port": port, "processes": processes,
        "redis_url": redis_url, "state_dir": state_dir, **_assignments(set_),
    }  # fmt: skip
    settings = _load(flags, config)
    if not settings.workers:
        _fail(
            "No worker given. Say where vLLM listens: `rejoinder serve --worker http://HOST:8000`; "
            "or try `rejoinder demo`."
        )
    _log(settings)
    _run(settings)


@cli.command()
def demo(
    port: Port = None,
    workers: Annotated[int, typer.Option(min=1, max=8, help="How many simulated workers.")] = 2,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Try it in seconds: **simulated** workers, real embedder and cache. No GPU, no Redis, nothing is kept."""
    settings = _load({"port": port, "workers": ("http://127.0.0.1:1",), **_assignments(set_)}, config)
    _log(settings)

    async def run() -> None:
        pace = Pace(first_token_s=0.15, token_s=0.02)
        with tempfile.TemporaryDirectory(prefix="rejoinder-demo-") as folder:
            async with _simulated(workers, pace) as urls:
                inner = settings.model_copy(update={"workers": tuple(urls), "state_dir": Path(folder)})
                await serve(inner, lambda proxy: _announce_demo(proxy, workers))

    _guard(run)


@cli.command()
def explain(
    question: Annotated[
        str, typer.Argument(help="The question, or a whole request body as JSON, or - to read one from stdin.")
    ],
    url: Annotated[str, typer.Option(help="A running Rejoinder.")] = "http://127.0.0.1:8080",
    model: Annotated[str | None, typer.Option(help="The model to ask for; the first one served if left out.")] = None,
    session: Annotated[str | None, typer.Option(help="A session id, as X-Session-ID.")] = None,
    key: Annotated[str | None, typer.Option(help="API key.", envvar="OPENAI_API_KEY")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What would happen to this request, and why: policy, lookup, candidates with every guard's word, worker."""
    headers = {"Content-Type": "application/json"}
    if session:
        headers["X-Session-ID"] = session
    if key:
        headers["Authorization"] = f"Bearer {key}"
    text = sys.stdin.read() if question == "-" else question
    body = _body(text)
    if body is None:
        name = model or _first_model(url, headers)
        body = {"model": name, "messages": [{"role": "user", "content": text}]}
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    told = _http(f"{url}/admin/explain?path={path}", headers, body)
    print(json.dumps(told, ensure_ascii=False, indent=2) if json_ else as_text(told))


@cli.command()
def settings(config: Config = None, set_: Set = None, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """Every setting, its value and where that came from: defaults < file < environment (REJOINDER_NAME) < flags."""
    try:
        _, origins = load(_assignments(set_), config)
    except SettingsError as wrong:
        _fail(str(wrong))
    if as_json:
        print(
            json.dumps(
                {o.name: {"value": shown(o.value), "origin": o.origin, "help": o.help} for o in origins}, indent=2
            )
        )
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")  # never cut short
    table.add_column("from", no_wrap=True)
    table.add_column("what it is")
    for origin in origins:
        table.add_row(origin.name, escape(shown(origin.value)), origin.origin, origin.help)
    console.print(table)


# ── helpers of the front ─────────────────────────────────────────────────────────────────────────────────────────────


def _load(flags: dict[str, Any], config: Path | None) -> Settings:
    try:
        return load(flags, config)[0]
    except SettingsError as wrong:
        _fail(str(wrong))


def _assignments(pairs: list[str] | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            _fail(f"--set {pair}: write NAME=VALUE, for example --set ttl_s=3600.")
        values[name] = value
        if value.startswith(
            ("[", "{")
        ):  # lists and tables are JSON; numbers are read from their text, a secret stays one
            with contextlib.suppress(json.JSONDecodeError):
                values[name] = json.loads(value)
    return values


def _run(settings: Settings) -> None:
    if settings.processes > 1:
        with _mendable():
            sys.exit(serve_many(settings))
    _guard(lambda: serve(settings, _announce))


def _guard(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it on uvloop."""
    with _mendable():
        uvloop.run(run())


@contextlib.contextmanager
def _mendable() -> Iterator[None]:
    """What an operator can mend is one line, not a traceback."""
    try:
        yield
    except (StateError, CacheError) as wrong:
        _fail(str(wrong))
    except socket.gaierror as wrong:
        _fail(f"Cannot listen: {wrong.strerror or wrong}. --host must be an address or a name of this machine.")
    except OSError as wrong:
        _fail(f"Cannot listen: {wrong.strerror or wrong}. Is the port taken? Choose another with --port.")


def _announce(proxy: Proxy) -> None:
    typer.echo(
        f"Rejoinder listens on {proxy.url} in front of {len(proxy.pool)} worker(s). Set base_url to {proxy.url}/v1"
    )


def _announce_demo(proxy: Proxy, workers: int) -> None:
    typer.echo(
        f"Rejoinder demo on {proxy.url}: {workers} SIMULATED workers (their answers only quote the question), "
        "real cache."
    )
    ask = f"curl -si {proxy.url}/v1/chat/completions --json"
    typer.echo("Ask twice, then in other words, and look at Cache-Status:")
    for question in DEMO_QUESTIONS:
        typer.echo(f'  {ask} \'{{"model":"demo","messages":[{{"role":"user","content":"{question}"}}]}}\'')


@contextlib.asynccontextmanager
async def _simulated(count: int, pace: Pace) -> AsyncIterator[list[str]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [(await stack.enter_async_context(SimulatedWorker(pace=pace))).url for _ in range(count)]


def _log(settings: Settings) -> None:
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def _body(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and ("messages" in value or "prompt" in value) else None


def _first_model(url: str, headers: dict[str, str]) -> str:
    data = _http(f"{url}/v1/models", headers)["data"]
    return str(data[0]["id"])


def _http(url: str, headers: dict[str, str], body: object = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as reply:
            return dict(json.load(reply))
    except urllib.error.HTTPError as refused:
        try:
            message = json.load(refused)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            message = refused.reason
        _fail(f"{url} answered {refused.code}: {message}")
    except (urllib.error.URLError, OSError, ValueError) as trouble:
        _fail(f"No Rejoinder answers at {url} ({trouble}). Start one with `rejoinder serve` or say where with --url.")


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise SystemExit(2)
