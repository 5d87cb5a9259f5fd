"""`rejoinder plan` against the log of a real vLLM: the tokens that it says fit are the tokens that fit."""

import json
import re
from collections.abc import Callable

import pytest
from typer.testing import CliRunner
from vllm_workers import VllmWorker, require_installed

from proxy.cli import cli
from proxy.kv_plan import read_config

pytestmark = pytest.mark.live


def test_the_kv_cache_is_as_large_as_planned_and_the_doctor_finds_prefix_caching_on(
    another_worker: Callable[..., VllmWorker],
) -> None:
    worker = another_worker(options=["--kv-memory", "32M"])
    said = re.search(r"KV cache size: ([\d,]+) tokens", worker.log.read_text(errors="replace"))
    assert said is not None, "vLLM's log says it in other words now"
    config = json.loads((require_installed("tiny").model / "config.json").read_text())
    model = read_config({**config, "torch_dtype": "float32"})  # the dtype that worker.sh starts it with
    assert int(said[1].replace(",", "")) == 32 * (1 << 20) // model.kv_bytes()
    folder = str(require_installed("tiny").model)
    told = json.loads(CliRunner().invoke(cli, ["plan", folder, "--gpu", "8", "--kv-dtype", "float32", "--json"]).stdout)
    assert told["kv_bytes_per_token"] == model.kv_bytes()
