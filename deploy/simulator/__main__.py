"""`python -m deploy.simulator`: simulated vLLM workers to put a router in front of."""

import argparse
import asyncio
import contextlib
import signal
import tempfile
from pathlib import Path

from deploy.simulator.facts import Shape, Timing
from deploy.simulator.server import MOST_WORKERS, Plan, opened, ready_line

TEACHES = """
Each worker is a port that behaves like a vLLM server: OpenAI's endpoints, /health, /metrics under vLLM's names, a
prefix cache of blocks whose hits make the prefill shorter, a queue, a decoding batch, KV events. No model, no GPU: an
answer quotes its question. When everybody listens, one line of JSON is printed: {"workers": ["http://127.0.0.1:…"]}.

  python -m deploy.simulator --workers 8                       eight workers on free ports
  python -m deploy.simulator --workers 4 --port 9001           on 9001, 9002, 9003 and 9004
  python -m deploy.simulator --workers 4 --speed 10            the same workers, ten times as fast
  python -m deploy.simulator --workers 4 --plain               answers at once: no queue, no clock, no KV events

Tell a worker to misbehave (GET /_fault is not needed: a wrong mode is answered with the list of all modes):
  curl -d '{"mode": "die", "after": 3, "times": 1}' http://127.0.0.1:9001/_fault
  curl -d '{"mode": "status", "status": 503, "retry_after_s": 2}' http://127.0.0.1:9001/_fault
  curl -d '{"down_s": 5}' http://127.0.0.1:9001/_restart       reset, gone for 5 s, back with an empty cache
  curl 'http://127.0.0.1:9001/calls?body=200'                  what it was asked
"""


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.simulator", description=__doc__, epilog=TEACHES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    timing, shape = Timing(), Shape()
    parser.add_argument("--workers", type=int, default=2, metavar="N", help=f"how many, 1 to {MOST_WORKERS} (2)")
    parser.add_argument("--port", type=int, default=0, help="of the first; the others follow. 0: free ones (0)")
    parser.add_argument(
        "--ports", default="", metavar="P,P,…", help="one for each worker, instead of --workers, --port"
    )
    parser.add_argument("--model", action="append", metavar="NAME", help="a served model; may be repeated (demo)")
    parser.add_argument("--speed", type=float, default=1.0, help="divides every time below (1)")
    parser.add_argument("--plain", action="store_true", help="answer at once, without engine and KV events")
    parser.add_argument("--kv-events", choices=("ipc", "tcp", "off"), default="ipc", help="where they are told (ipc)")
    parser.add_argument("--blocks", type=int, default=shape.blocks, help=f"KV blocks per worker ({shape.blocks})")
    parser.add_argument(
        "--max-num-seqs", type=int, default=shape.max_num_seqs, help=f"requests in a batch ({shape.max_num_seqs})"
    )
    for name, meaning in (
        ("prefill_base_s", "cost of a prefill"),
        ("prefill_token_s", "of each uncached token"),
        ("decode_base_s", "of a decoding step"),
        ("decode_sequence_s", "of each sequence in it"),
    ):
        value = getattr(timing, name)
        words_of = f"{meaning}, seconds ({value:g})"
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=value, help=words_of)
    return parser.parse_args(words)


def planned(asked: argparse.Namespace, folder: Path) -> Plan:
    """Raises ValueError for what cannot be simulated."""
    if asked.speed <= 0:
        raise ValueError("--speed is above 0")
    ports = [int(port) for port in asked.ports.split(",") if port.strip()]
    if not ports:
        ports = [asked.port + place if asked.port else 0 for place in range(asked.workers)]
    timing = Timing(
        asked.prefill_base_s / asked.speed,
        asked.prefill_token_s / asked.speed,
        asked.decode_base_s / asked.speed,
        asked.decode_sequence_s / asked.speed,
    )
    shape = None if asked.plain else Shape(asked.blocks, max_num_seqs=asked.max_num_seqs, timing=timing)
    return Plan(ports, tuple(asked.model or ("demo",)), shape, asked.kv_events, folder)


async def run(asked: argparse.Namespace) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    with tempfile.TemporaryDirectory(prefix="rejoinder-simulator-") as folder:
        async with opened(planned(asked, Path(folder))) as fleet:
            print(ready_line(fleet), flush=True)
            await over.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(run(parsed()))
        except (ValueError, OSError) as error:
            raise SystemExit(f"deploy.simulator: {error}") from None
