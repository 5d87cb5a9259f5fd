"""`rejoinder eval` and `rejoinder replay`, as somebody at a terminal or in a CI job meets them."""

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from trials import Scripted, lines
from typer.testing import CliRunner

import proxy
from cache import CacheSettings, StateError, open_cache
from proxy.cli import cli
from proxy.evaluation.commands import Options, evaluate, read_labels
from proxy.settings import Settings

ROOT = Path(next(iter(proxy.__path__))).parent
QUICK = ("--embedder", "hashing")
STREAM = [
    {"query": "How do I reset my password?", "answer_id": "password"},
    {"query": "how do i reset my password", "answer_id": "password"},
    {"query": "How do I reset my password?", "answer_id": "another"},
    {"query": "Which planets have rings?", "answer_id": "rings"},
]
PAIRS = [
    {"a": "How do I pay?", "b": "how do I pay", "same": True, "category": "case"},
    {"a": "Enable it for 5 users", "b": "Enable it for 6 users", "same": False, "category": "number"},
]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("REJOINDER_")]:
        monkeypatch.delenv(name)
    yield


@pytest.fixture
def shop(tmp_path: Path) -> str:
    return written(tmp_path / "shop.jsonl", STREAM)


@pytest.fixture
def traps(tmp_path: Path) -> str:
    return written(tmp_path / "traps.jsonl", PAIRS)


def written(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    path.write_text(lines(*rows), encoding="utf-8")
    return str(path)


def run(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(cli, [*arguments, *QUICK], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == status, result.output
    return result


def settings(**values: object) -> Settings:
    return Settings(embedder="hashing", **values)  # type: ignore[arg-type]


# ── what is printed, and where ───────────────────────────────────────────────────────────────────────────────────────


def test_json_is_one_object_on_stdout_and_nothing_else(shop: str) -> None:
    result = run("eval", shop, "--json")
    told = json.loads(result.stdout)
    assert (told["pack"], told["kind"], told["queries"]) == ("shop", "stream", 4)
    assert told["hits"] == 2
    assert told["false_hits"] == 1  # the third asks the same and has another answer
    assert told["hits"] + sum(told["refused"].values()) == told["queries"]
    assert told["settings"]["embedder"] == "hashing"
    assert "shop: 4 of 4" in result.stderr
    assert "95 % interval" in result.stderr


def test_without_json_the_table_is_what_is_printed(shop: str, traps: str) -> None:
    result = run("eval", shop, traps)
    assert "shop" in result.stdout
    assert "traps: served 1 of 1 that share an answer, 0 of 1 that do not" in result.stdout
    assert "95 % interval" not in result.stderr


def test_several_packs_are_a_list_in_their_order(shop: str, traps: str) -> None:
    told = json.loads(run("eval", traps, shop, "--json").stdout)
    assert [each["pack"] for each in told] == ["traps", "shop"]
    assert told[0]["by_category"]["case"]["served_same"] == 1


def test_a_process_of_its_own_prints_one_object_too(shop: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "eval", shop, "--json", *QUICK],
        cwd=ROOT, text=True, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["queries"] == 4


def test_two_runs_say_the_same_but_for_the_time_they_took(shop: str) -> None:
    one, other = (json.loads(run("eval", shop, "--json").stdout) for _ in range(2))
    assert one.pop("latency_ms")
    assert other.pop("latency_ms")
    assert one == other


def test_the_budget_and_any_setting_can_be_given(shop: str) -> None:
    told = json.loads(run("eval", shop, "--json", "--max-false-hit-rate", "0.02", "--set", "reach=recent").stdout)
    assert told["max_false_hit_rate"] == 0.02
    assert told["settings"]["reach"] == "recent"
    assert told["hits_by"]["meaning"] == 0


def test_the_beginning_of_a_pack_can_be_taken(shop: str) -> None:
    assert json.loads(run("eval", shop, "--json", "--first", "0.5").stdout)["queries"] == 2
    assert json.loads(run("eval", shop, "--json", "--limit", "3").stdout)["queries"] == 3


# ── what is wrong is one line, and 2 ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", ["eval", "replay"])
def test_a_bad_line_is_one_sentence_that_names_it(command: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"query": "x", "answer_id": "1"}\n{"qwery": "y"}\n', encoding="utf-8")
    result = run(command, str(file), status=2)
    assert result.stdout == ""
    assert f"{file}, line 2: no question in it; expected a question such as" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--labels", "everything"), "write none, or shadow:SHARE"),
        (("--labels", "shadow:2"), "write none, or shadow:SHARE"),
        (("--labels", "shadow:nan"), "write none, or shadow:SHARE"),
        (("--adapt-first", "0.5"), "No calibration to begin with"),
        (("--max-false-hit-rate", "7"), "max_false_hit_rate (from the flag)"),
        (("--set", "nonsense=1"), "there is no such setting"),
    ],
)
def test_a_mistake_is_told_before_the_work(arguments: tuple[str, ...], says: str, shop: str) -> None:
    result = run("eval", shop, *arguments, status=2)
    assert says in result.stderr
    assert "of 4" not in result.stderr


def test_a_file_that_is_not_there_is_named() -> None:
    assert "no-such.jsonl cannot be read: No such file or directory." in run("eval", "no-such.jsonl", status=2).stderr


def test_an_embedder_that_is_not_there_is_no_traceback(shop: str) -> None:
    result = CliRunner().invoke(cli, ["eval", shop, "--embedder", "/no/such/folder"])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_pairs_file_is_no_log(traps: str) -> None:
    assert "a log holds questions" in run("replay", traps, status=2).stderr


# ── CI ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

SERVES = {"By card?": ("How do I pay?", 0.99), "Who pays me?": ("How do I pay?", 0.98)}
ASKED = [
    {"query": "How do I pay?", "answer_id": "pay"},
    {"query": "By card?", "answer_id": "pay"},
    {"query": "Who pays me?", "answer_id": "wages"},
]


@pytest.fixture
def by_meaning(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """The command line over a cache that serves what a test wants to see served."""
    cache = Scripted(SERVES)

    @contextlib.asynccontextmanager
    async def opened(settings: CacheSettings, **_: object) -> AsyncIterator[Scripted]:
        cache.entries.clear()
        yield cache

    monkeypatch.setattr("proxy.evaluation.commands.evaluate", functools.partial(evaluate, cache_of=opened))
    return cache


def test_more_wrong_than_allowed_fails_the_job_with_a_sentence(by_meaning: Scripted, tmp_path: Path) -> None:
    file = written(tmp_path / "ask.jsonl", ASKED)
    result = run("eval", file, "--json", "--fail-above", "0.01", status=1)
    assert json.loads(result.stdout)["semantic_false_hits"] == 1
    assert "ask: 1 of 2 hits by meaning were wrong, 50.0 %; more than the 1.00 % allowed." in result.stderr
    run("eval", file, "--fail-above", "0.5")
    run("eval", file)


def test_labels_flow_while_a_stream_runs(by_meaning: Scripted, tmp_path: Path) -> None:
    run("eval", written(tmp_path / "ask.jsonl", ASKED), "--labels", "shadow:1")
    assert [(label.right, label.weight) for label in by_meaning.learned] == [(True, 1.0), (False, 1.0)]


def test_a_plot_comes_with_its_figures(by_meaning: Scripted, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("eval", written(tmp_path / "ask.jsonl", ASKED), "--plot", str(tmp_path / "out.png"))
    assert (tmp_path / "out.png").stat().st_size > 5000
    table = (tmp_path / "out.csv").read_text(encoding="utf-8")
    assert "ask,P(right),0.99,0.333333,0.0" in table
    assert "ask,operating point,,0.666667,0.5" in table


def test_labels_are_read_from_words() -> None:
    assert (read_labels("none", 3).share, read_labels("shadow:0.02", 3).share) == (0.0, 0.02)


# ── adapting ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_first_part_is_learned_from_and_only_the_rest_is_scored(shop: str, traps: str) -> None:
    taught: list[tuple[str, str]] = []
    lessons: list[int] = []
    opened: list[str] = []

    async def adapt(labelled: Sequence[tuple[str, str]]) -> None:
        taught.extend(labelled)
        lessons.append(len(labelled))

    def cache_of(wanted: CacheSettings, **clock: Any) -> Any:
        opened.append(f"after {len(taught)} labels")
        return open_cache(wanted, **clock)

    told, pairs = await evaluate(
        [Path(shop), Path(traps)], Options(adapt_first=0.5), settings(), io.StringIO(), adapt=adapt, cache_of=cache_of
    )
    assert taught == [(row["query"], row["answer_id"]) for row in STREAM[:2]]
    assert opened == ["after 2 labels", "after 2 labels"]
    assert (told["queries"], told["settings"]["adapted_on"]) == (2, 2)
    assert told["hits"] == 0  # what was learned from is not in the cache
    assert lessons == [2, 0]  # pairs are scored with what ships
    assert pairs["settings"]["adapted_on"] == 0


async def test_without_a_calibration_to_begin_from_nothing_is_adapted(shop: str) -> None:
    with pytest.raises(StateError, match="never calibrated for the embedder"):
        await evaluate([Path(shop)], Options(adapt_first=0.5), settings(), io.StringIO())


# ── replay ───────────────────────────────────────────────────────────────────────────────────────────────────────────

LOG = [
    {"query": "How do I pay?", "answer": "By card.", "usage": {"total_tokens": 100}, "at": 1000},
    {"query": "how do i pay", "answer": "By card or cash.", "usage": {"total_tokens": 120}, "at": 1010},
    {"query": "How do I pay?", "answer": "By card.", "usage": {"total_tokens": 110}, "at": 1020},
    {"query": "Which planets have rings?"},
]


def test_a_log_is_told_in_sentences(tmp_path: Path) -> None:
    result = run("replay", written(tmp_path / "log.jsonl", LOG))
    assert "Had you switched Rejoinder on: 2 of 4 questions served" in result.stdout
    assert "tokens saved 230 (counted in the log)" in result.stdout
    assert "word for word the fresh one for 1 of 2 served" in result.stdout


def test_a_log_is_told_in_json(tmp_path: Path) -> None:
    result = run("replay", written(tmp_path / "log.jsonl", LOG), "--json")
    told = json.loads(result.stdout)
    assert (told["questions"], told["served"], told["served_by"]["exact"]) == (4, 2, 1)
    assert told["tokens_saved"]["total"] == 230
    assert told["estimated_wrong"]["expected"] == 0.0
    assert "Had you switched Rejoinder on" in result.stderr


def test_nothing_of_a_run_stays_behind(shop: str, tmp_path: Path) -> None:
    """Neither the operator's state nor his Redis is touched."""
    state = tmp_path / "state"
    run(
        "eval",
        shop,
        "--set",
        f"state_dir={state}",
        "--set",
        "redis_url=redis://127.0.0.1:1",
        "--set",
        f"secret={'s' * 32}",
    )
    assert not state.exists()
