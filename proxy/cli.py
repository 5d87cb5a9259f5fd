"""`rejoinder`: serve, demo, explain, eval, train, replay, settings. Reads flags, starts; others work."""

import contextlib
import json
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
import uvloop
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cache import CacheError, StateError
from proxy import operations_cli, remote, request_log
from proxy.app import Proxy, serve
from proxy.demo import Pace, SimulatedWorker
from proxy.evaluation import commands as evaluation
from proxy.evaluation import replay, report
from proxy.evaluation.packs import PackError
from proxy.explain import as_text
from proxy.processes import serve_many
from proxy.settings import Settings, SettingsError, load, shown
from proxy.workers_cli import workers as workers_commands

cli = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown",
    help="An OpenAI endpoint in front of vLLM: answers what was answered before, sends the rest to the worker that "
    "remembers the conversation.",
)  # fmt: skip
cli.add_typer(workers_commands, name="workers")
operations_cli.register(cli)
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
Budget = Annotated[float | None, typer.Option(help="Share of what is served by meaning that may be wrong.")]
Embedder = Annotated[str | None, typer.Option(help="default, none, a folder, or a sentence-transformers model.")]
First = Annotated[float, typer.Option(min=0.0001, max=1.0, help="Only the first share of each file.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many lines of each file.")]
TeachReader = Annotated[
    bool,
    typer.Option("--teach-reader", help="Teach the reader's upper layers, too: 5 to 25 minutes more (extra: train)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, everything else on stderr.")]
Told = TypeVar("Told")
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
    if not settings.workers and settings.workers_file is None:
        _fail(
            "No worker given. Say where vLLM listens: `rejoinder serve --worker http://HOST:8000`, or name a "
            "workers_file; or try `rejoinder demo`."
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
                # Simulated answers quote their question: asked afresh, none would agree with what was served.
                inner = settings.model_copy(
                    update={"workers": tuple(urls), "state_dir": Path(folder), "shadow_share": 0.0}
                )
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


@cli.command("eval")
def eval_command(
    packs: Annotated[list[Path], typer.Argument(help="JSON lines: streams of questions, or pairs.", metavar="PACK…")],
    as_json: AsJson = False,
    max_false_hit_rate: Budget = None,
    embedder: Embedder = None,
    fail_above: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit 1 when a larger share of the hits by meaning is wrong.")
    ] = None,
    labels: Annotated[
        str, typer.Option(help="none, or shadow:SHARE: learn from so many of the hits by meaning while a stream runs.")
    ] = "none",
    adapt_first: Annotated[
        float, typer.Option(min=0, max=0.9, help="Learn from this first share of each stream, score the rest.")
    ] = 0.0,
    teach_reader: TeachReader = False,
    first: First = 1.0,
    limit: Limit = None,
    seed: Annotated[int, typer.Option(help="Of the choice which hits are labelled.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw risk against coverage into this file (extra: plot), a CSV beside it.")
    ] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """How much would be served, and how much of it wrong: questions or pairs with known answers, and the real cache.

    `rejoinder eval faq.jsonl`, a line is `{"query": "…", "answer_id": "…"}` or `{"a": "…", "b": "…", "same": true}`"""
    options = evaluation.Options(first, limit, adapt_first, labels, teach_reader, seed, plot)
    settings = _load(_offline_flags(max_false_hit_rate, embedder, set_), config)
    reports = _computed(lambda: evaluation.evaluate(packs, options, settings, sys.stderr))
    typer.echo(report.as_text(reports), err=as_json)
    if as_json:
        _print_json(reports[0] if len(reports) == 1 else reports)
    above = report.exceeded(reports, fail_above) if fail_above is not None else []
    for sentence in above:
        typer.echo(sentence, err=True)
    if above:
        raise SystemExit(1)


@cli.command("train")
def train_command(
    labels: Annotated[
        list[Path], typer.Argument(help="JSON lines: questions with the answer that serves them.", metavar="LABELS…")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for what is learned (`adapted` in the state directory).")
    ] = None,
    always: Annotated[bool, typer.Option(help="Take what was learned even when it does no better.")] = False,
    teach_reader: TeachReader = False,
    as_json: AsJson = False,
    max_false_hit_rate: Budget = None,
    limit: Limit = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Adapt to your own questions: which differences decide an answer here. Minutes on a CPU, no GPU, nothing leaves
    this machine. Trust learns always, the reader's own weights with --teach-reader.
    What was in use stays unless the new does better on labels that it has not seen.

    `rejoinder train faq.jsonl`, a line is `{"query": "…", "answer_id": "…"}`; some hundred lines, as users type them.
    A running server reads what was learned when it is started again."""
    settings = _load(_offline_flags(max_false_hit_rate, None, set_), config)
    folder = out or settings.adapted_dir or settings.state_dir / "adapted"
    options = evaluation.Options(limit=limit, teach_reader=teach_reader)
    told = _computed(
        lambda: evaluation.train(labels, folder.expanduser(), options, settings, sys.stderr, always=always)
    )
    old, new = told["unseen"]["old"], told["unseen"]["new"]
    typer.echo(
        f"learned from {told['learned_from']} questions. On {new['asked']} that it had not seen, budget "
        f"{told['budget']:g}: {new['served']} served, {new['wrong']} of them wrong (before: {old['served']}, "
        f"{old['wrong']} wrong).\n{told['reader'].capitalize()}.\n"
        + (f"It is better and in use from the next start: {told['folder']}" if told["taken"] else
           f"It is no better, so nothing changes; it stands in {told['folder']}.rejected (--always takes it)."),
        err=as_json,
    )  # fmt: skip
    if as_json:
        _print_json(told)


@cli.command("replay")
def replay_command(
    log: Annotated[Path, typer.Argument(help="JSON lines: questions as they came, with answers if you have them.")],
    as_json: AsJson = False,
    max_false_hit_rate: Budget = None,
    embedder: Embedder = None,
    first: First = 1.0,
    limit: Limit = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Had you switched Rejoinder on: how much of your log it would have served, how much of that is likely wrong, what
    it would have saved, and the riskiest pairs.

    `rejoinder replay log.jsonl` where a line is `{"query": "…"}` or a request body, perhaps with answer, at, usage"""
    options = evaluation.Options(first, limit)
    settings = _load(_offline_flags(max_false_hit_rate, embedder, set_), config)
    told = _computed(lambda: evaluation.replay(log, options, settings, sys.stderr))
    typer.echo(replay.as_text(told), err=as_json)
    if as_json:
        _print_json(told)


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


def _offline_flags(budget: float | None, embedder: str | None, pairs: list[str] | None) -> dict[str, Any]:
    return {**_assignments(pairs), "max_false_hit_rate": budget, "embedder": embedder}


def _computed(work: Callable[[], Coroutine[Any, Any, Told]]) -> Told:
    """Its result; what an operator can mend is one line."""
    try:
        return uvloop.run(work())
    except (PackError, StateError, CacheError) as wrong:
        _fail(str(wrong))


def _print_json(told: object) -> None:
    print(json.dumps(told, ensure_ascii=False, indent=2))


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
    _announce_dashboard(proxy)


def _announce_dashboard(proxy: Proxy) -> None:
    if proxy.dashboard:
        typer.echo(f"Dashboard: {proxy.url}/dashboard")


def _announce_demo(proxy: Proxy, workers: int) -> None:
    typer.echo(
        f"Rejoinder demo on {proxy.url}: {workers} SIMULATED workers (their answers only quote the question), "
        "real cache."
    )
    ask = f"curl -si {proxy.url}/v1/chat/completions --json"
    _announce_dashboard(proxy)
    typer.echo("Ask twice, then in other words, and look at Cache-Status:")
    for question in DEMO_QUESTIONS:
        typer.echo(f'  {ask} \'{{"model":"demo","messages":[{{"role":"user","content":"{question}"}}]}}\'')


@contextlib.asynccontextmanager
async def _simulated(count: int, pace: Pace) -> AsyncIterator[list[str]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [(await stack.enter_async_context(SimulatedWorker(pace=pace))).url for _ in range(count)]


def _log(settings: Settings) -> None:
    request_log.configure(settings.log_level, settings.log_format)


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
    try:
        return remote.ask(url, headers, body)
    except remote.RemoteError as wrong:
        _fail(str(wrong))


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise SystemExit(2)
