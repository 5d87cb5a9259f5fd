"""`make run`: Rejoinder in front of vLLM workers, those you name or two real ones on this machine's CPU.

    run.py --worker http://a:8000 --worker http://b:8000   your workers (or in WORKERS, with blanks between)
    run.py                                                 installs vLLM, builds SmolLM2-135M, starts two workers
    run.py --workers-only [--model tiny] [--count 3]       workers without Rejoinder, for development

Arguments that are not listed in --help are handed to `rejoinder serve`. Ctrl-C stops everything that was
started here; a second Ctrl-C does so without patience.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from process_group import POLL_SECONDS, ProcessGroup, stop_all
from vllm_worker import HOST, SCRIPT, PortClaim, Worker, home, is_free

HERE = Path(__file__).resolve().parent
PATIENCE_SECONDS = 600  # for workers to start: a slow, busy machine needs minutes
MEMORY_GB = {"smollm2": 2.4, "tiny": 1.3}  # of one worker, measured

# What the log of a dead worker says, and what helps.
HINTS = {
    r"address already in use|port \d+ is in use": "Another server has that port: choose with --first-port.",
    r"(?i)cannot allocate memory|out of memory|insufficient memory|not enough memory": (
        "There is too little memory: try --count 1, or --model tiny."
    ),
    r"is not installed|there is no model|No module named|ImportError": (
        "The install looks damaged: remove {home} and run again; it is then made afresh."
    ),
}


class Failed(Exception):
    """Something that the reader of the terminal should know; the message is all that is shown."""


class Stopped(Exception):
    """The user, or the system, wants us to end."""


class StopRequest:
    """Ctrl-C and SIGTERM, noted when they come and acted upon where it is safe.

    Raising from the signal handler would be shorter, but could strike between the start of a child and the
    line that remembers it: the child would outlive us.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.first_at = 0.0
        self.impatient = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal is None:
            self.signal, self.first_at = number, now
        elif now - self.first_at > 1:  # sooner, it is the same one, passed on by `make`
            self.impatient = True

    def check(self) -> None:
        if self.signal is not None:
            raise Stopped

    def pause(self) -> None:
        time.sleep(POLL_SECONDS)
        self.check()


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line now and then."""

    def __init__(self) -> None:
        self.rewrites = sys.stdout.isatty()
        self.started = time.monotonic()
        self._shown = self.started - 4  # the first line after a second, the others every five

    def seconds(self) -> int:
        return round(time.monotonic() - self.started)

    def show(self, text: str) -> None:
        if self.rewrites:
            width = shutil.get_terminal_size().columns
            print(f"\r\033[K{text[: width - 1]}", end="", flush=True)
        elif time.monotonic() - self._shown >= 5:
            self._shown = time.monotonic()
            print(text, flush=True)

    def done(self, text: str) -> None:
        print(f"\r\033[K{text}" if self.rewrites else text, flush=True)


# --- what is run --------------------------------------------------------------------------------------


def rejoinder_command(given: str | None) -> str:
    beside = Path(sys.executable).with_name("rejoinder")  # the virtual environment that runs this file
    command = shutil.which(given or str(beside)) or (None if given else shutil.which("rejoinder"))
    if command is None:
        raise Failed(
            f"the command {given or 'rejoinder'} is missing.\n"
            f"  Install the project first: {sys.executable} -m pip install --editable {HERE.parents[1]}"
        )
    return command


def serve_arguments(urls: Sequence[str], port: int | None, others: Sequence[str]) -> list[str]:
    named = [part for url in urls for part in ("--worker", url)]
    return ["serve", *named, *(["--port", str(port)] if port else []), *others]


class Demo:
    """Everything that was started here, so that all of it can be stopped."""

    def __init__(self, stop: StopRequest, grace: float) -> None:
        self.stop_request = stop
        self.grace = grace
        self.groups: list[ProcessGroup] = []
        self.workers: list[Worker] = []

    def run_step(self, name: str, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
        """Run to its end a script that shows its own progress."""
        group = ProcessGroup(command, env=env)
        self.groups.append(group)
        while (code := group.exit_code()) is None:
            self.stop_request.pause()
        self.groups.remove(group)
        if code:
            raise Failed(f"{name} failed (exit {code}); the reason is above")

    def prepare(self, model: str) -> None:
        env = {"REJOINDER_PYTHON": sys.executable, **os.environ}
        self.run_step("the install of vLLM", [HERE / "install.sh"], env)
        self.run_step("the build of the model", [HERE / "models.sh", model], env)

    def start_workers(self, count: int, first_port: int, model: str, options: Sequence[str], script: Path) -> None:
        port = first_port
        for _ in range(count):
            self.stop_request.check()
            worker = Worker(PortClaim.first_free(port), model, options=options, script=script)
            port = worker.port + 1
            worker.start()
            assert worker.group is not None
            self.workers.append(worker)
            self.groups.append(worker.group)

        progress = Progress()
        while not all(ready := [worker.is_ready() for worker in self.workers]):
            for worker in self.workers:
                if worker.exit_code() is not None:
                    progress.done("")
                    raise Failed(obituary(worker))
            if progress.seconds() > PATIENCE_SECONDS:
                raise Failed(f"the workers are not ready after {PATIENCE_SECONDS} s; see {self.workers[0].log}")
            states = (
                f"{worker.port}: {'ready' if is_ready else worker.last_words()[:60] or 'starting'}"
                for worker, is_ready in zip(self.workers, ready, strict=True)
            )
            progress.show(f"starting {count} x {model}  {progress.seconds()} s  {'  |  '.join(states)}")
            self.stop_request.pause()
        progress.done(f"{count} x {model} ready in {progress.seconds()} s")
        for worker in self.workers:
            print(f"    {worker.url}  pid {worker.group.pid if worker.group else '?'}  log {worker.log}")

    def start_rejoinder(self, command: str, port: int, others: Sequence[str]) -> ProcessGroup:
        urls = [worker.url for worker in self.workers]
        group = ProcessGroup([command, *serve_arguments(urls, port, others)])
        self.groups.append(group)
        deadline = time.monotonic() + 60  # it may listen on an address that we do not see
        while is_free(port) and group.exit_code() is None and time.monotonic() < deadline:
            self.stop_request.pause()
        return group

    def watch(self, rejoinder: ProcessGroup | None, keep_going: bool) -> None:
        """Return never: somebody stops us, or somebody dies."""
        mourned: list[Worker] = []
        while True:
            if rejoinder and (code := rejoinder.exit_code()) is not None:
                raise Failed(f"rejoinder serve ended (exit {code}); its reason is above")
            for worker in self.workers:
                if worker.exit_code() is None or worker in mourned:
                    continue
                mourned.append(worker)
                if not keep_going or len(mourned) == len(self.workers):
                    raise Failed(obituary(worker))
                print(f"worker {worker.port} has died; the others go on (--keep-going)", flush=True)
            self.stop_request.pause()

    def stop(self) -> None:
        stop_all(self.groups, grace=self.grace, hurry=lambda: self.stop_request.impatient)
        for worker in self.workers:
            worker.claim.release()


def obituary(worker: Worker) -> str:
    code = worker.exit_code()
    assert code is not None
    tail = worker.log_tail(20)
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    hint = f"The whole log is {worker.log}"
    if code == -signal.SIGKILL:
        hint = "Somebody killed it; often the system, for want of memory: try --count 1, or --model tiny."
    for pattern, advice in HINTS.items():
        if re.search(pattern, "\n".join(tail)):
            hint = advice.format(home=home())
    return "\n".join([f"worker {worker.port} {how}. Its last words:", *(f"  | {line}" for line in tail), hint])


def warn_about_memory(model: str, count: int) -> None:
    fields = dict(re.findall(r"(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text()))
    available = int(fields["MemAvailable"]) / 1e6
    needed = count * MEMORY_GB.get(model, MEMORY_GB["smollm2"])
    if available < needed:
        print(
            f"note: {count} x {model} take about {needed:.1f} GB of memory, and {available:.1f} GB are free; "
            "--count 1 takes less"
        )


# --- the command line ---------------------------------------------------------------------------------


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="run.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--worker",
        action="append",
        default=[],
        metavar="URL",
        help="a worker that runs already; may be repeated",
    )
    add("--port", type=int, help="Rejoinder's port (8080 before workers started here)")
    add("--workers-only", action="store_true", help="start the workers, but not Rejoinder")
    add("--model", default="smollm2", help="smollm2 (real text) or tiny (noise, but quick)")
    add("--count", type=int, default=2, help="how many workers to start (2, so that affinity shows)")
    add("--first-port", type=int, default=18101, help="the workers' ports: the first free ones from here on (18101)")
    add("--worker-option", action="append", default=[], metavar="WORD", help="for worker.sh: --worker-option=--dev")
    add("--keep-going", action="store_true", help="go on while one worker lives, to see sessions move")
    add("--grace", type=float, default=10.0, help="seconds that everything has to end by itself (10)")
    # For tests: stand-ins. With a worker script of one's own, nothing is installed and no model is built.
    add("--worker-script", type=Path, help=argparse.SUPPRESS)
    add("--rejoinder", help=argparse.SUPPRESS)
    known, others = parser.parse_known_args(arguments)
    if known.count < 1:
        parser.error("--count must be 1 or more")
    if known.workers_only and others:
        parser.error(f"unknown with --workers-only, which starts no Rejoinder: {' '.join(others)}")
    known.worker += [] if known.worker else re.split(r"[\s,]+", os.environ.get("WORKERS", "").strip(" ,"))
    known.worker = [url for url in known.worker if url]
    return known, others


def run_demo(options: argparse.Namespace, others: Sequence[str], stop: StopRequest) -> int:
    port = options.port or 8080
    command = None
    if not options.workers_only:  # what can be refused at once is not refused after minutes of installing
        command = rejoinder_command(options.rejoinder)
        if not is_free(port):
            raise Failed(f"port {port} is taken by another program; choose another: --port {port + 1}")
    warn_about_memory(options.model, options.count)

    demo = Demo(stop, options.grace)
    serving = False
    try:
        if options.worker_script is None:
            demo.prepare(options.model)
        script = options.worker_script or SCRIPT
        demo.start_workers(options.count, options.first_port, options.model, options.worker_option, script)
        rejoinder = demo.start_rejoinder(command, port, others) if command else None
        serving = True
        if rejoinder and rejoinder.exit_code() is None:
            print(
                f"Rejoinder answers at http://{HOST}:{port}/v1 (model {options.model}); Ctrl-C stops it all",
                flush=True,
            )
        elif not rejoinder:
            print("Ctrl-C stops them", flush=True)
        demo.watch(rejoinder, options.keep_going)
        return 0
    except Stopped:
        print("\nstopping ...", flush=True)
        # To stop a server that serves is no error; to interrupt its start is.
        return 0 if serving else 128 + (stop.signal or signal.SIGTERM)
    finally:
        demo.stop()


def main(arguments: Sequence[str], execute: Callable[[str, list[str]], object] = os.execv) -> int:
    options, others = parse(arguments)
    try:
        if options.worker and not options.workers_only:
            command = rejoinder_command(options.rejoinder)
            execute(command, [command, *serve_arguments(options.worker, options.port, others)])
        return run_demo(options, others, StopRequest())
    except Failed as failure:
        print(f"run: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
