"""`rejoinder plan, doctor, stats, report`. Looks and prints; `kv_plan` and `checkup` conclude."""

import contextlib
import json
import os
import socket
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import urlsplit

import typer

from proxy import checkup, kv_plan, remote
from proxy.checkup import Finding, Level, Probe
from proxy.routing.gauges import gauges_of
from proxy.upstream import KEEPALIVE_S
from proxy.workers_cli import HERE, AsJson, Key, Url

_WORDS: Final = 600  # of the prompt that is asked twice: more than one KV block of any size that vLLM has
_MARKS: Final = {Level.OK: "✓", Level.NOTE: "·", Level.WARNING: "!", Level.PROBLEM: "✗"}
_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_MOST_PROBED: Final = 16


def register(cli: typer.Typer) -> None:
    """Make these commands of `rejoinder`."""
    cli.command("plan")(plan)
    cli.command("doctor")(doctor)
    cli.command("stats")(stats)
    cli.command("report")(report)


def plan(
    model: Annotated[Path, typer.Argument(help="A model's folder, or its config.json.")],
    gpu: Annotated[float, typer.Option("--gpu", min=1, help="Memory of one GPU, GiB.")] = 80.0,
    tensor_parallel: Annotated[int, typer.Option("--tensor-parallel", "-t", min=1, help="GPUs of one worker.")] = 1,
    kv_dtype: Annotated[str, typer.Option(help="auto, fp8, bfloat16 …: as vLLM's --kv-cache-dtype.")] = "auto",
    utilization: Annotated[float, typer.Option(min=0.1, max=1, help="As vLLM's --gpu-memory-utilization.")] = 0.9,
    weights: Annotated[
        float | None, typer.Option(help="GiB of the whole model's weights; measured from the folder, or estimated.")
    ] = None,
    context: Annotated[list[int] | None, typer.Option(help="Context length in tokens; may be repeated.")] = None,
    json_: AsJson = False,
) -> None:
    """KV memory of a model per token and per context, what fits in your GPUs, and the flags for vLLM.

    `rejoinder plan /models/Qwen2.5-7B-Instruct --gpu 24`, only config.json is read"""
    path = model / "config.json" if model.is_dir() else model
    try:
        known = kv_plan.read_config(json.loads(path.read_text(encoding="utf-8")))
        if kv_dtype != "auto" and kv_dtype not in kv_plan.DTYPE_BYTES:
            raise kv_plan.PlanError(f"--kv-dtype {kv_dtype}: one of auto, {', '.join(sorted(kv_plan.DTYPE_BYTES))}")
    except (OSError, ValueError, AttributeError) as trouble:
        _fail(f"{path} cannot be read as a model's config.json: {trouble}")
    except kv_plan.PlanError as wrong:
        _fail(str(wrong))
    on_disk = sum(file.stat().st_size for file in path.parent.glob("*.safetensors")) / kv_plan.GIB
    size, source = (weights, "as you said") if weights else (on_disk, "as on disk") if on_disk else (None, "estimated")
    found = kv_plan.fit(
        known, gpu, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel, utilization=utilization, weights_gib=size,
        contexts=tuple(sorted(context)) if context else kv_plan.WORKLOADS,
    )  # fmt: skip
    advice = kv_plan.flags(known, found, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel)
    per_token = known.kv_bytes(kv_dtype, tensor_parallel=tensor_parallel)
    windowed = known.kv_bytes(kv_dtype, tensor_parallel=tensor_parallel, windowed=True)
    if json_:
        typer.echo(json.dumps({
            "kv_bytes_per_token": per_token, "kv_bytes_per_token_in_window": windowed, "window": known.window,
            "weights_gib": round(found.weights_gib, 3), "weights": source, "kv_gib": round(found.kv_gib, 3),
            "kv_tokens": found.tokens, "contexts": [
                {"tokens": each, "gib": round(_gib(known, each, kv_dtype, tensor_parallel), 4),
                 "at_once": round(many, 2)}
                for each, many in found.contexts
            ], "flags": [flag for flag, _ in advice],
        }, indent=2))  # fmt: skip
        return
    kind = "MLA" if known.latent else f"{known.kv_heads} KV heads of {known.head_dim}"
    typer.echo(f"KV cache: {per_token:,} bytes a token on each GPU ({known.layers} layers, {kind})")
    if windowed:
        typer.echo(f"  and {windowed:,} bytes a token for the last {known.window:,} tokens ({known.windowed} layers)")
    typer.echo(f"Weights: {found.weights_gib:.1f} GiB ({source})")
    if found.kv_gib <= 0:
        _fail(
            f"They do not fit: {-found.kv_gib:.1f} GiB are missing on each of {tensor_parallel} GPU(s) of {gpu:g} GiB. "
            "Take more of them (--tensor-parallel), larger ones, or a quantized model."
        )
    typer.echo(f"Left for the KV cache: {found.kv_gib:.1f} GiB on each GPU, about {found.tokens:,} tokens\n")
    typer.echo("context      one takes   fit at once")
    for each, many in found.contexts:
        typer.echo(f"{each:>7,}   {_gib(known, each, kv_dtype, tensor_parallel):>8.2f} GiB   {many:>11.1f}")
    typer.echo("\nvllm serve …")
    for flag, why in advice:
        typer.echo(f"  {flag:<32} {why}")
    typer.echo('\nvLLM says at its start what it really has: look for "KV cache size" in its log.')


def doctor(
    url: Url = HERE,
    key: Key = None,
    worker_key: Annotated[str | None, typer.Option(help="Key that the workers want, if they want one.")] = None,
    memory: Annotated[
        Path | None, typer.Option(help="A file in which this look is kept, so that the next one can tell a trend.")
    ] = None,
    ask_workers: Annotated[
        bool, typer.Option(help="Ask each worker two equal prompts, and wait for an idle connection to be closed.")
    ] = True,
    json_: AsJson = False,
) -> None:
    """Look for what is wrong: workers, prefix caching (by two equal prompts), connections, clocks, store, state
    directory, hit share, system prompts that never repeat. Exit status 1 where there is a problem, 2 where no
    Rejoinder answers."""
    told = _admin(url, "/admin/stats", key)
    listed = _admin(url, "/admin/workers", key)
    findings = [*checkup.of_pool(listed["workers"], listed["troubles"])]
    if ask_workers:
        for worker in [each for each in listed["workers"] if each["state"] == "up"][:_MOST_PROBED]:
            findings += checkup.of_worker(_probe(worker, worker_key, told["now_s"] - time.time()), KEEPALIVE_S)
    entries = _admin(url, "/admin/report?top=0", key)["entries"]
    findings += checkup.of_hits(told, entries, _volatile(url), _remembered(memory))
    settings = {each["name"]: each["value"] for each in _admin(url, "/admin/settings", key)["items"]}
    if settings["store"] == "sqlite" and settings["redis_url"] == "(none)":
        findings += _state(Path(settings["state_dir"]).expanduser())
    if memory is not None:
        memory.write_text(json.dumps(checkup.totals(told)), encoding="utf-8")
    if json_:
        typer.echo(json.dumps([
            {"level": each.level.value, "about": each.about, "what": each.what, "way_out": each.way_out}
            for each in findings
        ], ensure_ascii=False, indent=2))  # fmt: skip
    else:
        typer.echo("\n".join(_shown(findings)))
    if checkup.worst(findings) is Level.PROBLEM:
        raise SystemExit(1)


def stats(
    url: Url = HERE,
    key: Key = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 2.0,
    json_: AsJson = False,
) -> None:
    """Hits, misses, latencies, what was saved, workers: now."""
    with contextlib.suppress(KeyboardInterrupt):
        before: dict[str, Any] | None = None
        while True:
            told = _admin(url, "/admin/stats", key)
            if watch and not json_:
                typer.echo("\x1b[2J\x1b[H", nl=False)
            typer.echo(json.dumps(told, ensure_ascii=False) if json_ else as_text(told, before))
            if not watch:
                return
            before = told
            _wait(every)


def report(
    url: Url = HERE,
    key: Key = None,
    top: Annotated[int, typer.Option(min=0, max=100, help="How many of the answers served most.")] = 10,
    json_: AsJson = False,
) -> None:
    """What was served and saved since Rejoinder began, how much of it was wrong, and what is asked most."""
    told = _admin(url, f"/admin/report?top={top}", key)
    if json_:
        typer.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return
    held = "the store does not answer" if told["entries"] is None else f"{told['entries']} entries held"
    lines = [as_text(told), "", f"{held}; refused candidates: {_counts(told['refusals'])}"]
    lines += [f"missed as: {_counts(told['misses'])}", f"feedback: {_counts(told['feedback'])}"]
    if told["top_questions"]:
        lines += ["", "times  answered most"]
        lines += [f"{each['times']:>5}  {each.get('question') or each['entry']}" for each in told["top_questions"]]
    typer.echo("\n".join(lines))


def as_text(told: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """One screen. before: an earlier look, for what happened between."""
    share = "–" if told["hit_share"] is None else f"{100 * told['hit_share']:.1f} %"
    hits = ", ".join(f"{tier} {count}" for tier, count in told["hits"].items())
    lines = [
        f"Rejoinder {told['version']}, {told['mode']}, for {_span(told['now_s'] - told['since_s'])}",
        f"lookups {told['lookups']}, answered from the cache {share} ({hits}); shared generations {told['collapsed']}",
    ]
    if before is not None and told["now_s"] > before["now_s"]:
        seconds = told["now_s"] - before["now_s"]
        asked, hit = told["lookups"] - before["lookups"], told["hits_total"] - before["hits_total"]
        lines.append(f"now: {asked / seconds:.1f} lookups a second, {hit / seconds:.1f} of them hits")
    for name in ("hits", "misses"):
        found = told["latency"][name]
        if found["count"]:
            lines.append(
                f"{name}: p50 {found['p50_ms']:.1f} ms, p90 {found['p90_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms"
            )
    saved = told["saved"]
    money = f", {saved['money']:.2f} {saved['currency']}" if saved["money"] is not None else ""
    gpu = f", {saved['gpu_s']:.0f} GPU-seconds" if saved["gpu_s"] is not None else ""
    lines.append(f"saved: {saved['completion_tokens']} completion tokens{gpu}{money}")
    lines += [_wrong(each) for each in told["false_hit_rate"]["measured"]]
    rows = [("worker", "state", "in flight", "waiting", "KV used", "prefix hits")]
    for each in told["workers"]:
        rows.append((
            each["name"], each["state"], str(each["in_flight"]), _or_dash(each["waiting"]),
            _percent(each["kv_usage"]), _percent(each["prefix_hit_share"]),
        ))  # fmt: skip
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines += [
        "",
        *("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows),
    ]
    return "\n".join(lines)


def _wrong(each: Mapping[str, Any]) -> str:
    rate = each["corrected"]
    where = f"wrong among hits by meaning, {each['tenant']} / {each['model']}"
    if rate is None:
        return f"{where}: not enough evidence ({each['why'] or 'too few checks'})"
    return f"{where}: {100 * rate['estimate']:.1f} % ({100 * rate['low']:.1f} to {100 * rate['high']:.1f} %)"


def _probe(worker: Mapping[str, Any], key: str | None, ahead_s: float) -> Probe:
    """ahead_s: Rejoinder's clock minus ours."""
    url, name = worker["url"], worker["name"]
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    model = next((each["id"] for each in worker["models"]), None)
    prompt = f"doctor {os.urandom(8).hex()} " + " ".join(str(number) for number in range(_WORDS))
    body = json.dumps({"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}).encode()
    try:
        counted = _prefix_hits(url)
        for _ in range(2):
            with _DIRECT.open(urllib.request.Request(f"{url}/v1/completions", body, headers), timeout=60) as reply:
                date, usage = reply.headers.get("Date"), json.load(reply)["usage"]
        grown = None if counted is None else (_prefix_hits(url) or 0) - counted
    except (OSError, ValueError, KeyError, TypeError) as trouble:
        return Probe(name, False, str(trouble))
    details = usage.get("prompt_tokens_details") or {}
    skew_s = None
    if date:
        with contextlib.suppress(ValueError):
            skew_s = parsedate_to_datetime(date).timestamp() - (time.time() + ahead_s)
    return Probe(
        name,
        True,
        "",
        int(usage.get("prompt_tokens") or 0),
        details.get("cached_tokens"),
        grown,
        skew_s,
        _closed_after(url),
    )


def _prefix_hits(url: str) -> int | None:
    with contextlib.suppress(OSError), _DIRECT.open(f"{url}/metrics", timeout=10) as reply:
        gauges = gauges_of(reply.read(), time.monotonic())
        return gauges.prefix_hits if gauges is not None else None
    return None


def _closed_after(url: str) -> float | None:
    """After how many seconds of silence the worker closes a connection; None = not while we would use it."""
    where = urlsplit(url)
    if where.scheme != "http" or where.hostname is None:
        return None
    with contextlib.suppress(OSError), socket.create_connection((where.hostname, where.port or 80), timeout=5) as sock:
        sock.sendall(f"GET /health HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
        sock.recv(65536)
        began_s = time.monotonic()
        sock.settimeout(KEEPALIVE_S)
        while (left_s := KEEPALIVE_S - (time.monotonic() - began_s)) > 0:
            sock.settimeout(left_s)
            try:
                if not sock.recv(65536):
                    return time.monotonic() - began_s
            except TimeoutError:
                return None
    return None


def _volatile(url: str) -> float:
    with contextlib.suppress(OSError, ValueError), _DIRECT.open(f"{url.rstrip('/')}/metrics", timeout=10) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith("rejoinder_volatile_prompts_total "):
                return float(line.rpartition(" ")[2])
    return 0.0


def _remembered(memory: Path | None) -> dict[str, Any] | None:
    if memory is None or not memory.is_file():
        return None
    try:
        return dict(json.loads(memory.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as trouble:
        _fail(f"{memory} is not what an earlier look wrote ({trouble}); delete it or name another file.")


def _state(path: Path) -> Iterator[Finding]:
    def mode(of: Path) -> int | None:
        return stat.S_IMODE(of.stat().st_mode) if of.exists() else None

    yield from checkup.of_state(str(path), mode(path), mode(path / "secret"), os.access(path, os.W_OK))


def _shown(findings: list[Finding]) -> Iterator[str]:
    for each in sorted(findings, key=lambda each: list(Level).index(each.level), reverse=True):
        yield f"{_MARKS[each.level]} {each.about}: {each.what}"
        if each.way_out:
            yield f"    {each.way_out}"


def _admin(url: str, path: str, key: str | None) -> dict[str, Any]:
    try:
        return remote.ask(f"{url.rstrip('/')}{path}", {"Authorization": f"Bearer {key}"} if key else {})
    except remote.RemoteError as wrong:
        _fail(str(wrong))


def _wait(seconds: float) -> None:
    """Until the time is over, or Ctrl-C."""
    socket_pair = socket.socketpair()
    with socket_pair[0] as silent, socket_pair[1]:
        silent.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            silent.recv(1)


def _gib(model: kv_plan.Model, tokens: int, kv_dtype: str, tensor_parallel: int) -> float:
    return model.context_bytes(tokens, kv_dtype, tensor_parallel=tensor_parallel) / kv_plan.GIB


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _span(seconds: float) -> str:
    hours, minutes = divmod(int(seconds) // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{int(seconds)} s"


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise SystemExit(2)
