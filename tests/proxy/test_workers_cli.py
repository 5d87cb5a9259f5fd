"""`rejoinder workers`, with a server that only notes what it was asked."""

from typing import Any

import pytest
from typer.testing import CliRunner

from proxy import remote
from proxy.cli import cli
from proxy.workers_cli import as_text

WORKER = {
    "name": "left", "url": "http://a:1", "state": "draining", "in_flight": 2, "generation": 1, "from": ["file"],
    "models": [{"id": "m", "parent": None}, {"id": "french", "parent": "m"}], "trouble": None, "drained": False,
    "on_trial": False, "busy_s": 0.0,
}  # fmt: skip


class Asked:
    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.calls: list[tuple[object, ...]] = []

    def __call__(
        self, url: str, headers: dict[str, str], body: object = None, method: str | None = None
    ) -> dict[str, Any]:
        self.calls.append((method or ("GET" if body is None else "POST"), url, headers, body))
        return self.told


def run(monkeypatch: pytest.MonkeyPatch, told: dict[str, Any], *words: str) -> tuple[Asked, str]:
    asked = Asked(told)
    monkeypatch.setattr(remote, "ask", asked)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = CliRunner().invoke(cli, ["workers", *words])
    assert result.exit_code == 0, result.output
    return asked, result.output


@pytest.mark.parametrize(
    ("words", "method", "rest", "body"),
    [
        (["add", "http://b:1"], "POST", "", {"url": "http://b:1"}),
        (["add", "http://b:1", "--name", "right"], "POST", "", {"url": "http://b:1", "name": "right"}),
        (["drain", "left"], "POST", "/left/drain", {}),
        (["undrain", "http://a:1"], "POST", "/http%3A%2F%2Fa%3A1/undrain", {}),
    ],
)
def test_each_order_is_one_request(
    monkeypatch: pytest.MonkeyPatch, words: list[str], method: str, rest: str, body: object
) -> None:
    asked, output = run(monkeypatch, WORKER, *words, "--url", "http://here:1/", "--key", "k")
    assert asked.calls == [(method, f"http://here:1/admin/workers{rest}", {"Authorization": "Bearer k"}, body)]
    assert output.startswith("left is ")


@pytest.mark.parametrize(("words", "query"), [([], ""), (["--force"], "?force=true")])
def test_a_removal_says_what_still_runs(monkeypatch: pytest.MonkeyPatch, words: list[str], query: str) -> None:
    asked, output = run(monkeypatch, {"removed": "left", "still_running": 2}, "remove", "left", *words)
    assert asked.calls == [("DELETE", f"http://127.0.0.1:8080/admin/workers/left{query}", {}, None)]
    assert output == "left is removed, 2 of its answers still run.\n"


def test_the_list_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    _, output = run(monkeypatch, {"workers": [WORKER], "troubles": {"the file w": "it names no worker"}}, "list")
    lines = output.splitlines()
    assert lines[0].split() == ["name", "state", "in", "flight", "generation", "from", "models", "note"]
    assert lines[1].split() == ["left", "draining", "2", "1", "file", "m,", "french"]
    assert lines[2] == "the file w: it names no worker"


def test_the_list_says_who_may_be_stopped_and_who_is_in_trouble() -> None:
    workers = [
        {**WORKER, "drained": True, "from": []}, {**WORKER, "trouble": "refused", "on_trial": True},
        {**WORKER, "busy_s": 2.5},
    ]  # fmt: skip
    text = as_text({"workers": workers, "troubles": {}})
    assert "nobody: leaving" in text and "drained: it may be stopped" in text
    assert "refused; on trial" in text and "busy for 2.5 s" in text


def test_a_refusal_is_one_line_and_exit_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> dict[str, Any]:
        raise remote.RemoteError("http://x answered 409: the last one")

    monkeypatch.setattr(remote, "ask", refuse)
    result = CliRunner().invoke(cli, ["workers", "remove", "left"])
    assert result.exit_code == 2
    assert result.output == "http://x answered 409: the last one\n"
