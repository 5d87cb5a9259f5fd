"""How asking a worker can fail; the gateway decides what to do about it and what the client is told.

WorkerFailed
├── WorkerUnreachable   not one byte of an answer: not connected, or dropped before it said anything → ask another
├── WorkerSilent        it took too long: to connect, to say the first byte, or between two bytes
└── WorkerBroke         it died, or spoke nonsense, in the middle of its answer
"""

from enum import StrEnum

from proxy.routing.workers import Worker


class Phase(StrEnum):
    CONNECT = "connect"
    FIRST_BYTE = "first byte"
    IDLE = "idle"


class WorkerFailed(Exception):
    """worker: whom we asked.  body_bytes: how much of its answer's body we had by then; 0 = no client can tell."""

    def __init__(self, worker: Worker, trouble: str, *, body_bytes: int = 0) -> None:
        super().__init__(f"worker {worker.name}: {trouble}")
        self.worker = worker
        self.trouble = trouble
        self.body_bytes = body_bytes

    @property
    def may_ask_another(self) -> bool:
        """Asking another worker is invisible to the client and does not wait a second time for what timed out."""
        return False


class WorkerUnreachable(WorkerFailed):
    """connected: there was a connection, and it was dropped before the first byte of an answer.
    reused: that connection had served before; `ask` has then already tried once more on a fresh one, if it could."""

    def __init__(self, worker: Worker, trouble: str, *, connected: bool, reused: bool = False) -> None:
        super().__init__(worker, trouble)
        self.connected = connected
        self.reused = reused

    @property
    def may_ask_another(self) -> bool:
        return True


class WorkerSilent(WorkerFailed):
    """phase: what we were waiting for.  waited_s: how long."""

    def __init__(self, worker: Worker, phase: Phase, waited_s: float, *, body_bytes: int = 0) -> None:
        words = {Phase.CONNECT: "no connection", Phase.FIRST_BYTE: "no answer", Phase.IDLE: "nothing more"}
        super().__init__(worker, f"{words[phase]} within {waited_s:g} s", body_bytes=body_bytes)
        self.phase = phase
        self.waited_s = waited_s

    @property
    def may_ask_another(self) -> bool:
        return self.phase is Phase.CONNECT


class WorkerBroke(WorkerFailed):
    @property
    def may_ask_another(self) -> bool:
        return self.body_bytes == 0
