"""KV events of one simulated worker, told as vLLM 0.32 tells them: ZeroMQ PUB, and a ROUTER that replays.

Three frames: topic, 8 bytes big-endian sequence number from 0 in each life, msgpack `[ts, [event, …], dp_rank]`, each
event a map with "type". Replay: a DEALER sends `[b"", first seq]` and gets `[b"", topic, seq, payload]` per batch that
is still here (the last 10,000), then `[b"", b"", -1, b""]`.

Where it listens is said in vLLM's words: `tcp://*:N`, or `ipc://…`. `tcp://127.0.0.1:N` would make a real vLLM connect
instead of listen. Here `*` is the loopback address all the same.
"""

import asyncio
import time
from collections import OrderedDict, deque
from typing import Any, Final

import msgspec
import zmq
import zmq.asyncio

from deploy.simulator.facts import Batch, Cleared, Removed, Stored

BUFFER_STEPS: Final = 10_000
HIGH_WATER: Final = 100_000
END: Final = (b"", b"", (-1).to_bytes(8, "big", signed=True), b"")
_MOST_SALTS: Final = 10_000


def sequence(seq: int) -> bytes:
    return seq.to_bytes(8, "big")


def payload(batch: Batch, *, at_s: float, block_tokens: int, salts: dict[int, str] | None = None) -> bytes:
    """at_s: seconds since the epoch.  salts: of first blocks, by their hash."""
    events = [_event(event, block_tokens, salts or {}) for event in batch.events]
    return msgspec.msgpack.encode([at_s, events, 0])


def _event(event: Stored | Removed | Cleared, block_tokens: int, salts: dict[int, str]) -> dict[str, Any]:
    if isinstance(event, Cleared):
        return {"type": "AllBlocksCleared"}
    common = {"block_hashes": list(event.hashes), "medium": "GPU", "group_idx": 0}
    if isinstance(event, Removed):
        return {"type": "BlockRemoved", **common}
    salt = salts.get(event.hashes[0]) if event.parent is None else None
    extra: list[list[str] | None] = [None] * len(event.hashes)
    if salt is not None:
        extra[0] = [salt]
    session = {} if event.session is None else {"session_id": event.session}
    return {
        "type": "BlockStored",
        **common,
        "parent_block_hash": event.parent,
        "token_ids": list(event.tokens),
        "block_size": block_tokens,
        "lora_id": None,
        "lora_name": None,
        "extra_keys": extra,
        "kv_cache_spec_kind": "full_attention",
        **session,
    }


class Publisher:
    """endpoint, replay_endpoint: as vLLM is given them.  `start` and `stop` begin and end a life, on the loop."""

    def __init__(self, endpoint: str, replay_endpoint: str, *, topic: str = "", block_tokens: int = 16) -> None:
        self.endpoint, self.replay_endpoint, self.topic = endpoint, replay_endpoint, topic
        self._block_tokens = block_tokens
        self._salts: OrderedDict[int, str] = OrderedDict()
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=BUFFER_STEPS)
        self._context: zmq.asyncio.Context | None = None
        self._pub: zmq.Socket[bytes] | None = None
        self._task: asyncio.Task[None] | None = None

    def as_json(self) -> dict[str, Any]:
        """What /kv_event_sources says of one data-parallel rank."""
        return {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": self.endpoint,
            "replay_endpoint": self.replay_endpoint,
            "buffer_steps": BUFFER_STEPS,
            "hwm": HIGH_WATER,
            "max_queue_size": HIGH_WATER,
            "topic": self.topic,
        }

    def start(self) -> None:
        self._kept.clear()
        self._salts.clear()
        self._context = zmq.asyncio.Context()
        self._pub = zmq.Context(self._context).socket(zmq.PUB)
        self._pub.set_hwm(HIGH_WATER)
        self._pub.bind(self.endpoint.replace("*", "127.0.0.1"))
        router = self._context.socket(zmq.ROUTER)
        router.bind(self.replay_endpoint.replace("*", "127.0.0.1"))
        self._task = asyncio.get_running_loop().create_task(self._replay(router))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._pub is not None:  # before its context, which would wait for it
            self._pub.close(linger=0)
        if self._context is not None:
            self._context.destroy(linger=0)
        self._task = self._context = self._pub = None

    def salted(self, first_hash: int, salt: str) -> None:
        """The block with this hash begins a prompt with a `cache_salt`."""
        self._salts[first_hash] = salt
        if len(self._salts) > _MOST_SALTS:
            self._salts.popitem(last=False)

    def publish(self, batch: Batch) -> None:
        """Never waits: who does not read loses batches, and sees the gap."""
        told = payload(batch, at_s=time.time(), block_tokens=self._block_tokens, salts=self._salts)
        self._kept.append((batch.seq, told))
        if self._pub is not None:
            self._pub.send_multipart((self.topic.encode(), sequence(batch.seq), told), zmq.NOBLOCK)

    async def _replay(self, router: zmq.asyncio.Socket) -> None:
        while True:
            who, *asked = await router.recv_multipart()
            if len(asked) != 2 or len(asked[1]) != 8:
                continue
            first = int.from_bytes(asked[1], "big")
            for seq, told in [kept for kept in self._kept if kept[0] >= first]:
                await router.send_multipart((who, b"", self.topic.encode(), sequence(seq), told))
            await router.send_multipart((who, *END))
