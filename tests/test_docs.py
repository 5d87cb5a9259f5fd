"""Documents that cannot lie: what README says exists, and what exists README says."""

import re
import tomllib
from pathlib import Path

import pytest
import typer
from tables import TABLES, written

from proxy.cli import cli
from proxy.controls import _BODY_WORDS
from proxy.metrics import Metrics
from proxy.settings import ENV_PREFIX, Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
TEXTS = {"README.md": README, **PAGES}
COMING: set[str] = set()  # written of in docs/ before it is there; each leaves this line then
COMMANDS = set(typer.main.get_command(cli).commands)  # type: ignore[attr-defined]


def section(name: str) -> str:
    """What stands between `<!-- name -->` and `<!-- /name -->`."""
    found = re.search(rf"<!-- {name} -->(.*?)<!-- /{name} -->", README, re.DOTALL)
    return found[1].strip() if found else ""


def settings_table() -> dict[str, str]:
    """Setting → its row. Skips while README has no table."""
    if not section("settings"):
        pytest.skip("README has no settings table yet: nothing stands between <!-- settings --> and <!-- /settings -->")
    rows = [line for line in section("settings").splitlines() if line.startswith("| `")]
    return {row.split("`")[1]: row for row in rows}


def test_readme_names_every_setting_and_no_other() -> None:
    assert set(settings_table()) == set(Settings.model_fields)


def test_readme_says_of_a_setting_what_the_code_says() -> None:
    for name, row in settings_table().items():
        words = (Settings.model_fields[name].description or "").replace("|", "\\|")
        assert words in row, f"{name}: {words}"


def test_readme_tells_where_settings_come_from() -> None:
    for word in ("--config", ENV_PREFIX, "--set"):
        assert word in README


def test_readme_names_every_command_and_no_other() -> None:
    named = set(re.findall(r"`rejoinder (\w+)", README)) | set(
        re.findall(r"^\s*(?:\$ )?rejoinder (\w+)", README, re.MULTILINE)
    )
    named |= {"demo"} & set(re.findall(r"make (demo)", README))
    assert named == COMMANDS


def test_readme_names_every_word_of_the_body_field() -> None:
    silent = {"max-stale"}  # accepted for symmetry; nothing stale is ever served
    for word in set(_BODY_WORDS) - silent:
        assert f"`{word}" in README, word


def test_every_verb_that_readme_names_can_be_made() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"^([a-z]+):.*##", makefile, re.MULTILINE))
    assert {"install", "run", "demo", "test", "lint", "bench"} <= verbs
    assert set(re.findall(r"make ([a-z]+)", README)) <= verbs


@pytest.mark.parametrize(
    "path",
    sorted(set(re.findall(r"(?:`|python )((?:cache|proxy|deploy|tests|docs)/[\w/.]+)", "".join(TEXTS.values())))),
)
def test_every_file_that_readme_names_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_to_a_page_of_ours_leads_somewhere(name: str) -> None:
    folder = (ROOT / "docs") if name in PAGES else ROOT
    for target in re.findall(r"\]\(([\w./-]+\.md)\)", TEXTS[name]):
        assert (folder / target).exists(), target


def test_readme_leads_to_every_page() -> None:
    for name in PAGES:
        assert f"(docs/{name})" in README


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_only_settings_and_commands_that_exist(name: str) -> None:
    settings = set(re.findall(r"`([a-z_]+) = ", PAGES[name]))
    for file in re.findall(r"```toml\n(.*?)```", PAGES[name], re.DOTALL):
        settings |= set(tomllib.loads(file))
    assert settings <= set(Settings.model_fields) | COMING
    assert set(re.findall(r"`rejoinder (\w+)", PAGES[name])) <= COMMANDS | COMING


def test_what_is_there_is_not_called_coming() -> None:
    assert not COMING & (COMMANDS | set(Settings.model_fields))


def test_every_metric_that_is_named_is_told() -> None:
    metrics = Metrics()
    metrics.measuring(list)
    metrics.watching((), worked=float)
    told = set(re.findall(r"^# TYPE (\w+)", metrics.exposition().decode(), re.MULTILINE))
    for name, text in TEXTS.items():
        assert set(re.findall(r"`(rejoinder_\w+)", text)) <= told, name


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_made_from_the_code_is_current(name: str) -> None:
    assert written(name) == TABLES[name][1](), "python tests/support/tables.py writes it anew"


def admin_routes() -> list[tuple[str, str, str, str]]:
    """(method, path, role, summary) of every route in the table of /admin."""
    source = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "proxy" / "admin").glob("*.py")))
    written = re.findall(r'Route\(\s*"(\w+)",\s*"([^"]+)",\s*(?:Role\.)?(\w+),\s*"([^"]+)"', source)
    assert len(written) == len(re.findall(r"\bRoute\(\s*[^)\s]", source)), "written so that this test cannot read it"
    return [(method, path.replace("+}", "}"), role.lower(), summary) for method, path, role, summary in written]


def test_every_door_that_is_named_exists_and_every_door_of_ours_is_named() -> None:
    doors = {(method, path) for method, path, _, _ in admin_routes()} | {("POST", "/v1/feedback")}
    named = set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/(?:admin|v1/feedback)[\w/{}.]*)", "".join(TEXTS.values())))
    assert named == doors


def test_the_page_of_admin_routes_is_the_table() -> None:
    rows = {f"| `{method} {path}` | {role} | {summary} |" for method, path, role, summary in admin_routes()}
    written = {line for line in PAGES["admin.md"].splitlines() if re.match(r"\| `[A-Z]+ /admin", line)}
    assert written == rows


def test_every_environment_variable_that_readme_names_is_a_setting() -> None:
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields}
    named = set(re.findall(rf"{ENV_PREFIX}[A-Z0-9_]+", README))
    assert named - {f"{ENV_PREFIX}LIVE", f"{ENV_PREFIX}NAME"} <= known


def test_there_is_a_changelog_for_users() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith("# Changelog")
    assert "keepachangelog.com" in text
    assert re.search(r"^## (Unreleased|\[?\d+\.\d+)", text, re.MULTILINE)
    assert re.search(r"^### (Added|Changed|Fixed|Removed|Security)", text, re.MULTILINE)


def test_the_licence_is_the_one_that_is_declared() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "document", ["README.md", "CHANGELOG.md", "Makefile", "pyproject.toml", *(f"docs/{name}" for name in PAGES)]
)
def test_no_path_of_somebodys_machine_is_written_down(document: str) -> None:
    assert not re.search(r"/home/\w|/root/|/Users/\w", (ROOT / document).read_text(encoding="utf-8"))
