"""`rejoinder workers`: who is behind a running Rejoinder; add, drain, undrain, remove. Asks /admin/workers."""

import json
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from proxy import remote

workers = typer.Typer(
    no_args_is_help=True, rich_markup_mode="markdown",
    help="The vLLM workers of a running Rejoinder: list, add, drain, undrain, remove.",
)  # fmt: skip

Url = Annotated[str, typer.Option(help="A running Rejoinder.")]
_KEY_HELP = "A token of `admin_tokens`; to list, the API key of a trusted tenant does, too."
Key = Annotated[str | None, typer.Option(help=_KEY_HELP, envvar="OPENAI_API_KEY")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="Name or URL of a worker, as `rejoinder workers list` tells it.")]

HERE: Final = "http://127.0.0.1:8080"
_COLUMNS: Final = ("name", "state", "in flight", "generation", "from", "models", "note")


@workers.command("list")
def list_command(url: Url = HERE, key: Key = None, json_: AsJson = False) -> None:
    """Every worker: state, requests in flight, by whose word it is here, models."""
    told = _ask(url, "", key)
    typer.echo(json.dumps(told, ensure_ascii=False, indent=2) if json_ else as_text(told))


@workers.command("add")
def add_command(
    worker: Annotated[str, typer.Argument(help="Base URL, such as http://10.0.0.7:8000.")],
    name: Annotated[
        str | None, typer.Option(help="Its name for session hashing, which survives a change of address.")
    ] = None,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Add a worker until the next start; for good, name it in `workers` or `workers_file`."""
    told = _ask(url, "", key, {"url": worker} if name is None else {"url": worker, "name": name})
    typer.echo(f"{told['name']} is here and is being probed.")


@workers.command("drain")
def drain_command(worker: Name, url: Url = HERE, key: Key = None) -> None:
    """Give a worker nothing new: its sessions move to the others, what runs there ends."""
    told = _ask(url, f"/{quote(worker, safe='')}/drain", key, {})
    typer.echo(f"{told['name']} is draining, {told['in_flight']} in flight. The list says when it may be stopped.")


@workers.command("undrain")
def undrain_command(worker: Name, url: Url = HERE, key: Key = None) -> None:
    """Take a drained worker back, as soon as a probe succeeds."""
    told = _ask(url, f"/{quote(worker, safe='')}/undrain", key, {})
    typer.echo(f"{told['name']} is being probed.")


@workers.command("remove")
def remove_command(
    worker: Name,
    force: Annotated[bool, typer.Option("--force", help="Even if it is the last one that serves a model.")] = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Forget a worker; answers that it is giving end as ever."""
    told = _ask(url, f"/{quote(worker, safe='')}{'?force=true' if force else ''}", key, method="DELETE")
    typer.echo(f"{told['removed']} is removed, {told['still_running']} of its answers still run.")


def as_text(told: dict[str, Any]) -> str:
    """A table of the workers, and what is wrong with the lists that name them."""
    rows = [_COLUMNS, *(_row(worker) for worker in told["workers"])]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines + [f"{what}: {trouble}" for what, trouble in told["troubles"].items()])


def _row(worker: dict[str, Any]) -> tuple[str, ...]:
    notes = [worker["trouble"]] if worker["trouble"] else []
    if worker["drained"]:
        notes.append("drained: it may be stopped")
    if worker["on_trial"]:
        notes.append("on trial")
    if worker["busy_s"]:
        notes.append(f"busy for {worker['busy_s']:g} s")
    return (
        worker["name"], worker["state"], str(worker["in_flight"]), str(worker["generation"]),
        ", ".join(worker["from"]) or "nobody: leaving", ", ".join(model["id"] for model in worker["models"]),
        "; ".join(notes),
    )  # fmt: skip


def _ask(url: str, rest: str, key: str | None, body: object = None, method: str | None = None) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        return remote.ask(f"{url.rstrip('/')}/admin/workers{rest}", headers, body, method)
    except remote.RemoteError as wrong:
        typer.echo(str(wrong), err=True)
        raise SystemExit(2) from None
