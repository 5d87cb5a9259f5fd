"""The front door: what it teaches, what it says when something is wrong, and one whole life of `rejoinder demo`."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import proxy
from proxy.cli import cli
from proxy.settings import Settings

ROOT = Path(next(iter(proxy.__path__))).parent
FAST = ("--set", "embedder=hashing", "--set", "log_level=error")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("REJOINDER_") or name == "OPENAI_API_KEY"]:
        monkeypatch.delenv(name)
    yield


def said(*arguments: str, status: int = 0, stdin: str | None = None) -> str:
    """What the command prints, to whichever stream."""
    result = CliRunner().invoke(cli, list(arguments), input=stdin, env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == status, result.output
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "proxy", *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


# ── what it teaches ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_help_teaches() -> None:
    text = said("--help")
    for word in ("vLLM", "serve", "demo", "explain", "settings", "simulated"):
        assert word in text
    assert said("serve", "--help").count("--") > 8
    assert "rejoinder serve --worker http://10.0.0.5:8000" in said("serve", "--help")


def test_help_comes_in_a_process_of_its_own_and_quickly() -> None:
    began_s = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-m", "proxy", "--help"], cwd=ROOT, text=True, capture_output=True, timeout=30, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "Usage:" in result.stdout
    assert time.monotonic() - began_s < 15


def test_without_a_command_the_help_is_shown() -> None:
    result = CliRunner().invoke(cli, [])
    assert "Usage:" in result.output


def test_serve_without_a_worker_says_what_to_do() -> None:
    text = said("serve", status=2)
    assert "rejoinder serve --worker http://HOST:8000" in text
    assert "rejoinder demo" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "nonsense=1"), "nonsense (from the flag): there is no such setting"),
        (("--set", "ttl_s"), "write NAME=VALUE"),
        (("--set", "similarity_threshold=1.1"), "similarity_threshold (from the flag)"),
        (("--processes", "2"), "processes > 1 needs redis_url"),
        (("--config", "no-such-file.toml"), "There is no settings file"),
        (("--set", "workers=http://host/path"), "give only scheme, host and port"),
        (("--port", "70000"), "port (from the flag)"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_wrong(arguments: tuple[str, ...], says: str) -> None:
    text = said("serve", "--worker", "http://127.0.0.1:9", *arguments, status=2)
    assert says in text
    assert len(text.strip().splitlines()) == 1
    assert "Traceback" not in text


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def as_json(*arguments: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(said("settings", "--json", *arguments))
    return found


def test_settings_shows_every_value_and_where_it_came_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REJOINDER_CAPACITY", "77")
    file = tmp_path / "r.toml"
    file.write_text("ttl_s = 5.0\n")
    found = as_json("--config", str(file), "--set", "port=9999")
    assert set(found) == set(Settings.model_fields)
    assert (found["capacity"]["value"], found["capacity"]["origin"]) == ("77", "environment")
    assert (found["ttl_s"]["value"], found["ttl_s"]["origin"]) == ("5.0", "file")
    assert (found["port"]["value"], found["port"]["origin"]) == ("9999", "flag")
    assert (found["host"]["value"], found["host"]["origin"]) == ("127.0.0.1", "default")
    assert all(row["help"] for row in found.values())


@pytest.mark.parametrize("width", [200, 80])
def test_the_table_names_every_setting_and_cuts_no_value_short(width: int, tmp_path: Path) -> None:
    folder = f"/srv/{'x' * 60}"
    result = CliRunner().invoke(
        cli, ["settings", "--set", f"state_dir={folder}"], env={"COLUMNS": str(width), "TERM": "dumb"}
    )
    assert result.exit_code == 0
    for name in Settings.model_fields:
        assert re.search(rf"^{name}\s", result.output, re.MULTILINE), name
    assert len("".join(re.findall("x{3,}", result.output))) == 60  # all are there, on as many lines as it takes
    assert "…" not in result.output


@pytest.mark.parametrize(
    ("assignment", "name", "value"),
    [
        ("workers=http://a:8000 http://b:8000", "workers", "http://a:8000 http://b:8000"),
        ('workers=["http://a:8000"]', "workers", "http://a:8000"),
        ("metrics=false", "metrics", "False"),
        ("redis_prefix=123", "redis_prefix", "123"),
        ("secret=12345678901234567890123456789012", "secret", "(set)"),
        ("idle_s=none", "idle_s", "(none)"),
        ("embedder=none", "embedder", "none"),
        ('api_keys={"sk-1": "shop"}', "api_keys", "1 keys for shop"),
        ("host=::1", "host", "::1"),
    ],
)
def test_any_setting_can_be_set_by_a_flag(assignment: str, name: str, value: str) -> None:
    found = as_json("--set", assignment)[name]
    assert (found["value"], found["origin"]) == (value, "flag")


def test_no_secret_is_printed() -> None:
    for arguments in ((), ("--json",)):
        assert "hush-hush" not in said("settings", *arguments, "--set", f"secret={'hush-hush' * 4}")


# ── one whole life ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Demo:
    process: subprocess.Popen[str]
    url: str
    line: str
    began_in_s: float

    def ask(self, question: str) -> tuple[str, str]:
        """(`Cache-Status`, the answer's text)."""
        body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": question}]}).encode()
        with urllib.request.urlopen(f"{self.url}/v1/chat/completions", body, timeout=20) as reply:
            text: Any = json.load(reply)["choices"][0]["message"]["content"]
            return reply.headers["Cache-Status"], str(text)

    @property
    def port(self) -> str:
        return self.url.rpartition(":")[2]


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    began_s = time.monotonic()
    process = started("demo", "--port", "0", *FAST)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None, line + process.communicate(timeout=20)[1]
        yield Demo(process, found[0], line, time.monotonic() - began_s)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def test_the_demo_starts_in_seconds_and_says_that_its_workers_are_simulated(demo: Demo) -> None:
    assert demo.began_in_s < 15
    assert "2 SIMULATED workers" in demo.line


def test_the_demo_answers_and_then_remembers(demo: Demo) -> None:
    status, text = demo.ask("How do I change my e-mail?")
    assert status.startswith("rejoinder; fwd=miss")
    again, same = demo.ask("How do I change my e-mail?")
    assert again.startswith("rejoinder; hit")
    assert text == same


def test_explain_tells_what_would_happen(demo: Demo) -> None:
    demo.ask("Why is the sky blue?")
    told = said("explain", "Why is the sky blue?", "--url", demo.url)
    assert "lookup     HIT in recent by exact" in told
    assert re.search(r"^policy +may be read from similar", told, re.MULTILINE)
    assert "worker     127.0.0.1:" in told


def test_explain_speaks_json_and_reads_bodies_and_stdin(demo: Demo) -> None:
    body = json.dumps({"model": "demo", "prompt": "Once upon a time"})
    told = json.loads(said("explain", "-", "--json", "--url", demo.url, stdin=body))
    assert told["question"]["kind"] == "completion"
    assert told["policy"]["read"] == "recent"
    told = json.loads(
        said("explain", "Where is my order?", "--json", "--url", demo.url, "--session", "s-1", "--model", "demo")
    )
    assert told["policy"]["read"] == "session"
    assert told["session"] == {"source": "X-Session-ID header", "strength": "strong"}


def test_explain_passes_on_what_the_endpoint_refuses(demo: Demo) -> None:
    body = json.dumps({"model": "demo", "messages": [], "cache": 7})
    assert "answered 400: `cache` must be an object" in said("explain", body, "--url", demo.url, status=2)


def test_explain_without_an_endpoint_says_how_to_start_one() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        text = said("explain", "Why?", "--model", "m", "--url", f"http://127.0.0.1:{free.getsockname()[1]}", status=2)
    assert "No Rejoinder answers at" in text
    assert "rejoinder serve" in text


def test_a_taken_port_is_one_clear_line(demo: Demo) -> None:
    for arguments in (("demo",), ("serve", "--worker", "http://127.0.0.1:9", "--set", "store=memory")):
        process = started(*arguments, "--port", demo.port, *FAST)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 2
        assert out == ""
        assert len(err.strip().splitlines()) == 1
        assert "Is the port taken? Choose another with --port." in err


def test_an_embedder_that_is_not_there_is_no_traceback() -> None:
    process = started(
        "serve",
        "--worker",
        "http://127.0.0.1:9",
        "--port",
        "0",
        "--set",
        "store=memory",
        "--set",
        "embedder=/no/such/folder",
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert (out, "Traceback" in err) == ("", False)
    assert err.strip()


def test_a_state_directory_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = started(
        "serve",
        "--worker",
        "http://127.0.0.1:9",
        "--port",
        "0",
        "--state-dir",
        str(tmp_path / "file" / "inside"),
        *FAST,
    )
    _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "cannot be used" in err
    assert len(err.strip().splitlines()) == 1


def test_ctrl_c_ends_the_demo_in_peace(demo: Demo) -> None:
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(timeout=20) == 0
    # Not `communicate`: it reads the pipe itself, past what the fixture's `readline` may have taken in with its line.
    assert demo.process.stdout is not None and demo.process.stderr is not None
    assert demo.process.stderr.read() == ""
    assert "curl -si" in demo.process.stdout.read()
