"""Several processes on one port (SO_REUSEPORT), one Redis behind them. The parent only watches.

A process that dies is started again; SIGINT and SIGTERM go to all, and the parent leaves when the last one has.
"""

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import tempfile
import time
from multiprocessing.process import BaseProcess
from types import FrameType

import uvloop

from cache import StateError
from proxy.app import Proxy, serve
from proxy.settings import Settings

log = logging.getLogger(__name__)
_RESTART_PAUSE_S = 1.0  # a process that cannot start must not be started a thousand times a second
_REFUSED = 3  # exit status: the state may not be used, starting again is no help


def serve_many(settings: Settings) -> int:
    """Serve with `settings.processes` processes. Returns the exit status."""
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for child in children:
            if child.pid is not None and child.is_alive():
                os.kill(child.pid, number)

    children: list[BaseProcess] = []
    with (
        tempfile.TemporaryDirectory(prefix="rejoinder-metrics-") as folder,
        _bound(settings.host, settings.port) as anchor,
    ):
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # read by prometheus_client when a child imports it
        port = anchor.getsockname()[1]  # held, never listened on: a port of 0 is the same for every child
        context = multiprocessing.get_context("spawn")

        def start(number: int) -> BaseProcess:
            child = context.Process(target=_child, args=(settings, port), name=f"rejoinder-{number}")
            child.start()
            return child

        children = [start(number) for number in range(settings.processes)]
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        while any(child.is_alive() for child in children):
            multiprocessing.connection.wait([child.sentinel for child in children], timeout=1.0)
            for place, child in enumerate(children):
                if child.is_alive() or stopping:
                    continue
                if child.exitcode == _REFUSED:
                    stop(signal.SIGTERM, None)
                    return 2
                log.error("%s ended with status %s, starting another", child.name, child.exitcode)
                time.sleep(_RESTART_PAUSE_S)
                children[place] = start(place)
    return 0


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((host, port))
    return sock


def _child(settings: Settings, port: int) -> None:
    logging.basicConfig(
        level=settings.log_level.upper(), format=f"%(asctime)s %(levelname)s [{os.getpid()}] %(name)s: %(message)s"
    )

    def announce(proxy: Proxy) -> None:
        print(f"Rejoinder process {os.getpid()} listens on {proxy.url}", flush=True)

    try:
        uvloop.run(serve(settings, announce, _bound(settings.host, port)))
    except StateError as wrong:
        log.error("%s", wrong)
        raise SystemExit(_REFUSED) from None
