"""Fixtures with real vLLM behind them. Without an install the tests skip, or fail under REJOINDER_LIVE=1."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from vllm_workers import VllmWorker, require_installed, running_workers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The start of vLLM counts towards the test that asks for it first, and takes minutes on a busy machine."""
    for item in items:
        wants_vllm = {"tiny_workers", "another_worker"} & set(getattr(item, "fixturenames", ()))
        if wants_vllm and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def tiny_workers() -> Iterator[list[VllmWorker]]:
    """Two workers with the tiny model, shared by the session: leave them running and nearly idle."""
    require_installed("tiny")
    with running_workers(2) as workers:
        yield workers


@pytest.fixture
def another_worker() -> Iterator[Callable[..., VllmWorker]]:
    """`another_worker(model="tiny", options=[...])`: a ready worker of the test's own, to be killed at will."""
    with contextlib.ExitStack() as stack:

        def start(**wishes: object) -> VllmWorker:
            require_installed(str(wishes.get("model", "tiny")))
            [worker] = stack.enter_context(running_workers(1, **wishes))  # type: ignore[arg-type]
            return worker

        yield start
