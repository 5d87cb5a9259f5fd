"""What one run of `routing.py` found, and how it is told. Facts."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """hit_rate: cached of all prompt tokens, 0 to 1.  of_oracle: that, by the oracle's.  computed_skew, total_skew: the
    busiest worker by the mean, in tokens per second of its life; computed: what was not cached, and the answers.
    ttft: seconds from arrival, retries included.  utilisation: of the workers' time while the middle half of the
    requests arrived, and of the busiest worker's; too low where a worker died in between.

    At a kill: homeless, the threads (chats, agents, groups) that were last on that worker and came again; fullest: the
    share of them that one survivor got; strays: the share of all others that changed their worker at their next turn.
    failed: requests that got no first byte.  broken: answers that ended half-way.  retried: attempts that failed.
    seconds: of this machine, to simulate it."""

    trace: str
    policy: str
    faults: str
    requests: int
    hit_rate: float
    of_oracle: float
    computed_skew: float
    total_skew: float
    ttft_mean: float
    ttft_p50: float
    ttft_p99: float
    utilisation: float
    utilisation_max: float
    homeless: int
    fullest: float
    strays: float
    failed: int
    broken: int
    retried: int
    seconds: float


def table(results: Sequence[Result]) -> str:
    head = (
        "trace policy           faults   hits  of oracle  max/mean computed  total   TTFT mean    p50     p99 s  "
        "use  max  homeless fullest strays failed broken retried"
    )
    lines = [head]
    for each in results:
        oracle = each.policy == "oracle"
        skews = "       –              –  " if oracle else f"{each.computed_skew:12.2f} {each.total_skew:12.2f}"
        lines.append(
            f"{each.trace:5} {each.policy:16} {each.faults:6} {each.hit_rate:6.3f} {each.of_oracle:8.1%} {skews}"
            f"  {each.ttft_mean:10.3f} {each.ttft_p50:7.3f} {each.ttft_p99:8.3f} {each.utilisation:5.2f}"
            f" {each.utilisation_max:4.2f} {each.homeless:8} {each.fullest:7.2f} {each.strays:6.2f}"
            f" {each.failed:6} {each.broken:6} {each.retried:7}"
        )
    return "\n".join(lines)
