"""Real vLLM workers for live tests: `deploy/vllm` with what a test asks of it on top.

Wants `deploy/vllm/install.sh` and `deploy/vllm/models.sh tiny` to have run; `ensure_installed` says so.
A tiny worker takes 1.3 GB of memory and 15 to 45 seconds to start.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "vllm"
sys.path.append(str(DEPLOY))  # scripts that lie beside each other, no package

from vllm_worker import HOST, PortClaim, Worker, home  # noqa: E402

FIRST_PORT = 18201  # away from the demo's 18101
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Installed:
    venv: Path
    model: Path


def ensure_installed(model: str = "tiny") -> Installed | str:
    """The folders of the install, or the reason why there can be no live test."""
    found = Installed(home() / "venv", home() / "models" / model)
    if not (found.venv / ".rejoinder-installed").is_file():
        return f"vLLM is not installed in {found.venv}; deploy/vllm/install.sh does it"
    if not (found.model / "rejoinder-recipe").is_file():
        return f"there is no model in {found.model}; deploy/vllm/models.sh {model} builds it"
    return found


def require_installed(model: str = "tiny") -> Installed:
    """Skip the test without vLLM, or fail it where REJOINDER_LIVE=1 promised one."""
    found = ensure_installed(model)
    if isinstance(found, Installed):
        return found
    if os.environ.get("REJOINDER_LIVE") == "1":
        pytest.fail(f"REJOINDER_LIVE=1, but {found}", pytrace=False)
    pytest.skip(found)


class VllmWorker:
    """A worker with vLLM's development endpoints on. `options` are words for worker.sh."""

    def __init__(self, model: str = "tiny", *, options: Sequence[str] = ()) -> None:
        self.model = model
        self._worker = Worker(PortClaim.first_free(FIRST_PORT), model, options=["--dev", *options])
        self.url = self._worker.url
        self.log = self._worker.log

    def __repr__(self) -> str:
        return repr(self._worker)

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self._worker.port

    @property
    def pid(self) -> int:
        """Of the API server, which leads the process group; the engine is another process of it."""
        assert self._worker.group is not None, "not started"
        return self._worker.group.pid

    def start(self) -> None:
        """Returns at once; on the same port again after `stop` or `kill`."""
        self._worker.start()

    def wait_ready(self, timeout: float = 180.0) -> None:
        deadline = time.monotonic() + timeout
        while not self._worker.is_ready():
            code = self._worker.exit_code()
            if code is not None or time.monotonic() > deadline:
                state = f"not ready after {timeout:.0f} s" if code is None else f"dead, exit code {code}"
                raise RuntimeError("\n".join([f"{self!r}: {state}", *self._worker.log_tail(20)]))
            time.sleep(0.25)

    def stop(self) -> None:
        """As an operator would: SIGTERM, then patience."""
        self._worker.stop()

    def kill(self) -> None:
        """As a broken machine would: SIGKILL to all of its processes. Returns when they are gone."""
        self._worker.kill()

    def close(self) -> None:
        self.stop()
        self._worker.claim.release()

    def metrics(self) -> dict[str, float]:
        """Name -> value, summed over labels (`vllm:prefix_cache_hits_total`); without histogram buckets."""
        sums: defaultdict[str, float] = defaultdict(float)
        with _DIRECT.open(f"{self.url}/metrics", timeout=10) as reply:
            for line in reply.read().decode().splitlines():
                name, _, _ = line.partition("{")
                if not line.startswith("#") and not name.endswith("_bucket"):
                    sums[name.split(" ")[0]] += float(line.rpartition(" ")[2])
        return dict(sums)

    def reset_prefix_cache(self) -> None:
        request = urllib.request.Request(f"{self.url}/reset_prefix_cache", method="POST")
        with _DIRECT.open(request, timeout=10) as reply:
            assert reply.read() == b'{"success":true}', "vLLM refuses while a request runs"


@contextlib.contextmanager
def running_workers(count: int, model: str = "tiny", *, options: Sequence[str] = ()) -> Iterator[list[VllmWorker]]:
    """Workers that start side by side and are ready; they are stopped at the end, whatever happens."""
    with contextlib.ExitStack() as stack:
        workers = []
        for _ in range(count):
            workers.append(worker := VllmWorker(model, options=options))
            stack.callback(worker.close)
            worker.start()
        for worker in workers:
            worker.wait_ready()
        yield workers
