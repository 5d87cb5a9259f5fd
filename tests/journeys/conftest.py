"""Journeys: a real client, the proxy on its production runner and loop, simulated workers."""

import asyncio
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop
from blockbuster import BlockBuster, blockbuster_ctx
from house import OpenHouse, open_house


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that `rejoinder` runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop() -> Iterator[BlockBuster]:
    """A file, a database or a sleep on the event loop fails the test: every other request would wait for it."""
    with blockbuster_ctx(["proxy", "cache"]) as watch:
        # The secret is made or read once, before the doors open.
        for name in ("os.mkdir", "os.stat", "io.BufferedReader.read", "io.BufferedWriter.write"):
            watch.functions[name].can_block_in("proxy/app.py", {"_secret", "open_proxy"})
        yield watch


@pytest.fixture
def house(tmp_path: Path) -> OpenHouse:
    """`async with house(workers=2) as h:`, its state in tmp_path."""
    return functools.partial(open_house, tmp_path)
