"""Several processes on one port (SO_REUSEPORT), one Redis behind them. The parent only watches.

A process that dies is started again; one that cannot even start ends them all, because another try would end the same.
SIGINT and SIGTERM go to all, and the parent leaves when the last one has. Children whose parent is gone leave, too.
"""

import asyncio
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from types import FrameType

import uvloop

from cache import CacheError, StateError
from proxy import request_log
from proxy.app import Proxy, serve
from proxy.settings import Settings

log = logging.getLogger(__name__)
_RESTART_PAUSE_S = 1.0  # a process that dies at once must not be started a thousand times a second
_REFUSED = 3  # exit status: it said why it cannot start


@dataclass(slots=True)
class _Child:
    """One process. serving: set by itself once it listens."""

    process: BaseProcess
    serving: Event


class _Family:
    """The processes and their end. stopping: seen by children that were still starting when the signal came."""

    def __init__(self, settings: Settings, port: int) -> None:
        self._context: SpawnContext = multiprocessing.get_context("spawn")
        self._settings = settings
        self._port = port
        self.stopping = self._context.Event()
        self._told_to_stop = False  # by a signal, whose handler must take no lock
        self.children = [self.born(number) for number in range(settings.processes)]

    def born(self, number: int) -> _Child:
        serving = self._context.Event()
        process = self._context.Process(
            target=_serve, args=(self._settings, self._port, serving, self.stopping), name=f"rejoinder-{number}"
        )
        # A child inherits what is ignored: Ctrl-C while it still imports is no traceback, its parent tells it to stop.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process.start()
        finally:
            signal.signal(signal.SIGINT, before)
        return _Child(process, serving)

    def stop(self, number: int = signal.SIGTERM, frame: FrameType | None = None) -> None:
        """Also the handler of signals, which may interrupt anything: it only notes and passes on."""
        self._told_to_stop = True
        for child in self.children:
            if child.process.pid is not None and child.process.is_alive():
                os.kill(child.process.pid, signal.SIGTERM)

    def watch(self) -> int:
        """Until the last one has left. Returns the exit status."""
        status = 0
        while any(child.process.is_alive() for child in self.children) or not self._told_to_stop:
            multiprocessing.connection.wait([child.process.sentinel for child in self.children], timeout=1.0)
            if self._told_to_stop:
                self.stopping.set()  # for those that were still starting when the signal came
            for place, child in enumerate(self.children):
                if child.process.is_alive() or self._told_to_stop:
                    continue
                if not child.serving.is_set():
                    status = 2
                    self.stop()
                    break
                log.error("%s ended with status %s, starting another", child.process.name, child.process.exitcode)
                time.sleep(_RESTART_PAUSE_S)
                if not self._told_to_stop:
                    self.children[place] = self.born(place)
        return status


def serve_many(settings: Settings) -> int:
    """Serve with `settings.processes` processes. Returns the exit status. Raises OSError (the port is taken)."""
    with (
        tempfile.TemporaryDirectory(prefix="rejoinder-metrics-") as folder,
        _bound(settings.host, settings.port) as anchor,
    ):
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # read by prometheus_client when a child imports it
        port = anchor.getsockname()[1]  # held, never listened on: a port of 0 is the same for every child
        family = _Family(settings, port)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, family.stop)
        return family.watch()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((host, port))
    return sock


def _serve(settings: Settings, port: int, serving: Event, stopping: Event) -> None:
    """A child's life."""
    os.setpgrp()  # Ctrl-C on a terminal goes to the parent alone; twice would be "at once, without draining"
    request_log.configure(settings.log_level, settings.log_format, process=os.getpid())

    def announce(proxy: Proxy) -> None:
        serving.set()
        parent = multiprocessing.parent_process()
        if parent is not None:
            asyncio.get_running_loop().add_reader(parent.sentinel, _leave)
        if stopping.is_set():
            _leave()
        print(f"Rejoinder process {os.getpid()} listens on {proxy.url}", flush=True)

    def _leave() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            asyncio.get_running_loop().remove_reader(parent.sentinel)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        uvloop.run(serve(settings, announce, _bound(settings.host, port)))
    except (StateError, CacheError, OSError) as wrong:
        log.error("%s", wrong)
        raise SystemExit(_REFUSED) from None
    except Exception:
        log.exception("this process cannot serve")
        raise SystemExit(_REFUSED) from None
