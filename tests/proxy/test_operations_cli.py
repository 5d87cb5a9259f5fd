"""plan, doctor, stats, report from the command line, against a real server with simulated workers."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from house import House, OpenHouse, open_house
from typer.testing import CliRunner, Result

from proxy.cli import cli
from proxy.operations_cli import as_text


@pytest.fixture
def house(tmp_path: Path) -> OpenHouse:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return lambda **wishes: open_house(state, **wishes)


async def run(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, cli, list(words))


async def diagnosed(h: House, *words: str) -> tuple[int, list[dict[str, Any]]]:
    result = await run("doctor", "--url", h.url, "--json", *words)
    return result.exit_code, json.loads(result.stdout)


async def test_the_doctor_finds_a_healthy_house_healthy(house: OpenHouse) -> None:
    async with house() as h:
        await h.ask()
        code, findings = await diagnosed(h)
        assert code == 0, findings
        assert any("prefix caching is on" in each["what"] for each in findings)
        assert any(each["about"] == "state directory" and each["level"] == "ok" for each in findings)
        text = (await run("doctor", "--url", h.url, "--no-ask-workers")).stdout
        assert "✓ store: answers and holds 1 entries" in text


async def test_the_doctor_finds_what_is_broken_and_says_so_by_its_exit_status(house: OpenHouse, tmp_path: Path) -> None:
    async with house(workers=2, probe_s=0.1) as h:
        await h.workers[0].kill()
        await h.until(lambda: "down" in [worker.state.value for worker in h.proxy.pool])
        os.chmod(tmp_path / "state" / "secret", 0o644)
        code, findings = await diagnosed(h, "--no-ask-workers")
        assert code == 1
        problems = [each for each in findings if each["level"] == "problem"]
        assert {each["about"].split()[0] for each in problems} == {"worker", "state"}
        assert all(each["way_out"] for each in problems)


async def test_the_doctor_remembers_its_last_look(house: OpenHouse, tmp_path: Path) -> None:
    memory = tmp_path / "last.json"
    async with house() as h:
        await h.ask()
        await diagnosed(h, "--no-ask-workers", "--memory", str(memory))
        assert json.loads(memory.read_text())["lookups"] == 1
        _, findings = await diagnosed(h, "--no-ask-workers", "--memory", str(memory))
        assert any("since the last look" in each["what"] for each in findings)
        memory.write_text("nonsense")
        result = await run("doctor", "--url", h.url, "--no-ask-workers", "--memory", str(memory))
        assert result.exit_code == 2 and "delete it" in result.stderr


@pytest.mark.parametrize("command", ["doctor", "stats", "report"])
async def test_where_nobody_answers_it_says_where_it_looked(command: str) -> None:
    result = await run(command, "--url", "http://127.0.0.1:9")
    assert result.exit_code == 2 and "http://127.0.0.1:9" in result.stderr


async def test_stats_and_report_say_what_was_served_and_saved(house: OpenHouse) -> None:
    async with house() as h:
        for _ in range(3):
            await h.ask("Why is the sky blue?")
        text = (await run("stats", "--url", h.url)).stdout
        assert "lookups 3, answered from the cache 66.7 %" in text and "recent 2" in text and "prefix hits" in text
        report = (await run("report", "--url", h.url)).stdout
        assert "1 entries held" in report and "Why is the sky blue?" in report
        told = json.loads((await run("stats", "--url", h.url, "--json")).stdout)
        later = {**told, "now_s": told["now_s"] + 2, "lookups": 7, "hits_total": 4}
        assert "now: 2.0 lookups a second, 1.0 of them hits" in as_text(later, told)


async def test_stats_watches_until_it_is_told_to_stop(house: OpenHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("proxy.operations_cli._wait", wait)
    async with house() as h:
        result = await run("stats", "--url", h.url, "--watch", "--every", "0.5")
    assert result.exit_code == 0 and waits == [0.5, 0.5]
    assert result.stdout.count("lookups 0") == 2 and "now: 0.0 lookups a second" in result.stdout


CONFIG = {
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
    "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16", "max_position_embeddings": 131072,
}  # fmt: skip


def test_plan_reads_a_folder_and_says_what_fits(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    result = CliRunner().invoke(cli, ["plan", str(tmp_path), "--gpu", "24"])
    assert result.exit_code == 0, result.output
    assert "131,072 bytes a token" in result.stdout and "--enable-prefix-caching" in result.stdout
    told = json.loads(CliRunner().invoke(cli, ["plan", str(tmp_path), "--gpu", "80", "--json"]).stdout)
    assert told["kv_bytes_per_token"] == 131_072 and told["contexts"][-1]["tokens"] == 131_072


def test_plan_says_when_a_model_does_not_fit_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    result = CliRunner().invoke(cli, ["plan", str(tmp_path), "--gpu", "8"])
    assert result.exit_code == 2 and "--tensor-parallel" in result.stderr


@pytest.mark.parametrize("text", [None, "[]", "{}", "not json"])
def test_plan_says_what_it_cannot_read(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    result = CliRunner().invoke(cli, ["plan", str(tmp_path)])
    assert result.exit_code == 2 and "config.json" in result.stderr and "Traceback" not in result.output
