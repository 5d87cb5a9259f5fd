"""`make run` without vLLM: stand-ins for the workers and for Rejoinder, everything else real.

What matters most is what is left behind: nothing, however it ends.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / "deploy" / "vllm" / "run.py"
PATIENCE = 30  # seconds for what takes parts of one

# A worker like vLLM's: a server, and an engine in a process of its own that shrugs SIGTERM off.
STUB_WORKER = """#!{python}
import http.server, os, signal, subprocess, sys, time

mode = os.environ.get("STUB_MODE", "healthy")
if mode == "dies":
    print("\\n".join(f"log line {{n}}" for n in range(30)), "torch: cannot allocate memory", sep="\\n")
    sys.exit(3)

class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('engine', flush=True); signal.pause()"
engine = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
engine.stdout.readline()  # only now does it ignore the signal
if mode == "starts for ever":
    print("loading weights", flush=True)
    signal.pause()
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
"""

STUB_REJOINDER = """#!{python}
import os, socket, sys

print("rejoinder", os.getpid(), *sys.argv[1:], flush=True)
if "--fail" in sys.argv:
    sys.exit("rejoinder: cannot read the config")
if "--listen" in sys.argv:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
    while True:
        listener.accept()[0].close()
"""


def script(path: Path, text: str) -> Path:
    path.write_text(text.format(python=sys.executable))
    path.chmod(0o755)
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Runner:
    """Starts run.py with the stand-ins, in a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.worker = script(folder / "stub_worker", STUB_WORKER)
        self.rejoinder = script(folder / "stub_rejoinder", STUB_REJOINDER)
        self.port = free_port()

    @contextmanager
    def __call__(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, str(RUN), "--rejoinder", str(self.rejoinder), "--grace", "0.3", *arguments]
        with subprocess.Popen(
            command,
            env={**os.environ, "REJOINDER_VLLM_HOME": str(self.home), "WORKERS": "", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()  # no effect on one that has ended, as it should have

    def demo(self, *arguments: str, **environment: str):  # the context manager of __call__
        """Two workers, and Rejoinder before them unless --workers-only."""
        listen = [] if "--workers-only" in arguments else ["--port", str(self.port), "--listen"]
        workers = ["--worker-script", str(self.worker), "--first-port", str(free_port())]
        return self(*workers, *listen, *arguments, **environment)


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """What was printed, up to the line that has the words. A hanging read ends by the test's timeout."""
    text = ""
    for line in process.stdout or ():
        text += line
        if words in line:
            return text
    pytest.fail(f"{words!r} was never printed, but:\n{text}")


def rest(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=PATIENCE)[0]


def worker_pids(text: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"http://127\.0\.0\.1:\d+  pid (\d+)", text)]


def assert_nothing_is_left(groups: list[int]) -> None:
    assert groups
    for group in groups:
        with pytest.raises(ProcessLookupError):
            os.killpg(group, 0)


# --- your workers -------------------------------------------------------------------------------------


def test_given_workers_it_becomes_rejoinder_serve_before_them(run: Runner) -> None:
    with run("--config", "my.toml", WORKERS="http://a:8000 http://b:8000") as process:
        printed = rest(process)
    expected = "serve --worker http://a:8000 --worker http://b:8000 --config my.toml"
    assert printed == f"rejoinder {process.pid} {expected}\n"  # the same process: signals and exit code are its own
    assert process.returncode == 0
    assert not run.home.exists(), "nothing is installed for workers that exist"


def test_workers_on_the_command_line_win_over_the_environment(run: Runner) -> None:
    with run("--worker", "http://c:1", "--worker", "http://d:2", "--port", "80", WORKERS="http://a:8000") as process:
        assert rest(process).endswith("serve --worker http://c:1 --worker http://d:2 --port 80\n")


# --- workers started here -----------------------------------------------------------------------------


def test_rejoinder_starts_before_two_workers_when_both_are_healthy(run: Runner) -> None:
    with run.demo() as process:
        printed = read_until(process, "Rejoinder answers at")
        urls = re.findall(r"(http://\S+)  pid", printed)
        assert len(set(urls)) == 2
        assert f"serve --worker {urls[0]} --worker {urls[1]} --port {run.port} --listen" in printed
        process.send_signal(signal.SIGINT)
        rest(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(run: Runner, number: signal.Signals) -> None:
    with run.demo() as process:
        printed = read_until(process, "Rejoinder answers at")
        process.send_signal(number)
        assert "stopping" in rest(process)
    rejoinder = int(re.findall(r"rejoinder (\d+) serve", printed)[0])
    assert_nothing_is_left([*worker_pids(printed), rejoinder])
    assert process.returncode == 0, "to stop a server is no error"


def test_ctrl_c_while_the_workers_start_leaves_nothing_behind(run: Runner) -> None:
    with run.demo(STUB_MODE="starts for ever") as process:
        printed = read_until(process, "loading weights")  # of the progress shown
        process.send_signal(signal.SIGINT)
        printed += rest(process)
    assert process.returncode == 128 + signal.SIGINT
    assert "ready in" not in printed
    logs = sorted((run.home / "logs").glob("worker-*.log"))
    assert len(logs) == 2
    assert_no_process_mentions(run.worker)


def assert_no_process_mentions(path: Path) -> None:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(path) not in entry.read_text()
        except (FileNotFoundError, ProcessLookupError):  # ended while we looked
            continue


def test_killed_outright_it_takes_the_workers_along(run: Runner) -> None:
    with run.demo("--workers-only") as process, ExitStack() as stack:
        leaders = []
        for pid in worker_pids(read_until(process, "Ctrl-C")):
            leaders.append(os.pidfd_open(pid))
            stack.callback(os.close, leaders[-1])
            # vLLM ends its engine when it is asked to end; the stand-in does not.
            stack.callback(os.killpg, pid, signal.SIGKILL)
        process.kill()
        for leader in leaders:  # a pidfd is readable when its process has ended
            assert select.select([leader], [], [], PATIENCE)[0]


def test_a_worker_that_dies_at_the_start_shows_its_last_words_and_a_hint(run: Runner) -> None:
    with run.demo(STUB_MODE="dies") as process:
        printed = rest(process)
    assert process.returncode == 1
    assert "ended with exit code 3" in printed
    assert "  | log line 29\n  | torch: cannot allocate memory\n" in printed
    assert "log line 10\n" not in printed, "twenty lines are enough"
    assert "--model tiny" in printed
    assert "rejoinder" not in printed.split("Its last words")[0], "Rejoinder is not started before dead workers"


def test_a_workers_death_stops_everything(run: Runner) -> None:
    with run.demo() as process:
        pids = worker_pids(read_until(process, "Rejoinder answers at"))
        os.killpg(pids[0], signal.SIGKILL)
        assert "was ended by SIGKILL" in rest(process)
    assert process.returncode == 1
    assert_nothing_is_left(pids)


def test_keep_going_outlives_a_worker_but_not_the_last(run: Runner) -> None:
    with run.demo("--keep-going") as process:
        first, last = pids = worker_pids(read_until(process, "Rejoinder answers at"))
        os.killpg(first, signal.SIGKILL)
        read_until(process, "the others go on")
        os.killpg(last, signal.SIGKILL)
        rest(process)
    assert process.returncode == 1
    assert_nothing_is_left(pids)


def test_rejoinders_death_stops_the_workers(run: Runner) -> None:
    with run.demo("--fail") as process:
        printed = rest(process)
    assert process.returncode == 1
    assert "cannot read the config" in printed
    assert_nothing_is_left(worker_pids(printed))


def test_workers_only_starts_as_many_as_asked_on_ports_that_are_free(run: Runner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with run(
            "--workers-only", "--count", "3", "--worker-script", str(run.worker), "--first-port", str(port)
        ) as process:
            printed = read_until(process, "Ctrl-C stops them")
            process.send_signal(signal.SIGTERM)
            printed += rest(process)
    assert len(worker_pids(printed)) == 3
    assert f":{port} " not in printed
    assert "rejoinder" not in printed.replace(str(run.home), "")


# --- refused at once ----------------------------------------------------------------------------------


def test_a_taken_port_is_refused_before_anything_starts(run: Runner) -> None:
    with socket.create_server(("127.0.0.1", run.port)), run.demo() as process:
        assert f"port {run.port} is taken" in rest(process)
    assert process.returncode == 1
    assert not run.home.exists()


def test_a_missing_rejoinder_is_refused_before_anything_starts(run: Runner) -> None:
    run.rejoinder.unlink()
    with run.demo() as process:
        assert "Install the project first" in rest(process)
    assert process.returncode == 1
    assert not run.home.exists()


@pytest.mark.parametrize("arguments", [["--count", "0"], ["--workers-only", "--colour", "red"]])
def test_nonsense_is_a_usage_error(run: Runner, arguments: list[str]) -> None:
    with run(*arguments) as process:
        assert "usage: run.py" in rest(process)
    assert process.returncode == 2
