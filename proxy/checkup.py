"""What `rejoinder doctor` concludes from what it saw: findings, each with a way out. Pure; `operations_cli` looks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

_ENOUGH: Final = 200  # lookups, before a share means something
_FEW_HITS: Final = 0.05
_FELL: Final = 0.5  # of what it was before
_SKEW_S: Final = 2.0


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"  # could not be looked at, or is worth knowing
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """about: what was looked at.  way_out: what to do; empty where nothing is wrong."""

    level: Level
    about: str
    what: str
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a worker said to two equal prompts. reached: whether this machine could ask it at all, else `trouble`.
    cached: prompt tokens of the second that were in its prefix cache; None = it does not say.
    counted: by how much its own count of prefix hits grew; None = it has no such metric.
    skew_s: its clock minus Rejoinder's.  closes_s: when it closed an idle connection; None = it did not."""

    worker: str
    reached: bool
    trouble: str = ""
    prompt_tokens: int = 0
    cached: int | None = None
    counted: int | None = None
    skew_s: float | None = None
    closes_s: float | None = None


def of_worker(probe: Probe, keepalive_s: float) -> Iterator[Finding]:
    """keepalive_s: for how long Rejoinder keeps an idle connection to a worker."""
    about = f"worker {probe.worker}"
    if not probe.reached:
        yield Finding(
            Level.NOTE, about, f"cannot be asked from this machine: {probe.trouble}",
            "Run `rejoinder doctor` where the workers can be reached, with --worker-key if they want one.",
        )  # fmt: skip
        return
    if probe.cached is None and probe.counted is None:
        yield Finding(
            Level.WARNING, about, "says nothing of its prefix cache, neither in answers nor at /metrics",
            "Start vLLM with --enable-prompt-tokens-details, and let Rejoinder reach its /metrics.",
        )  # fmt: skip
    elif not (probe.cached or probe.counted):
        yield Finding(
            Level.PROBLEM, about, f"prefix caching is off: a prompt of {probe.prompt_tokens} tokens was read twice",
            "Start vLLM with --enable-prefix-caching (and without --no-enable-prefix-caching); without it, keeping a "
            "chat on its worker is worth nothing.",
        )  # fmt: skip
    else:
        found = probe.cached if probe.cached is not None else probe.counted
        yield Finding(
            Level.OK, about, f"prefix caching is on: {found} of {probe.prompt_tokens} tokens were found again"
        )
        if probe.cached is None:
            yield Finding(
                Level.WARNING, about, "its answers do not say what was cached",
                "Start vLLM with --enable-prompt-tokens-details: routing learns from it, and users see what they save.",
            )  # fmt: skip
    if probe.skew_s is not None and abs(probe.skew_s) > _SKEW_S:
        yield Finding(
            Level.WARNING, about, f"its clock differs from Rejoinder's by {probe.skew_s:+.0f} s",
            "Run NTP on both machines: answers about today and lifetimes follow the clock.",
        )  # fmt: skip
    if probe.closes_s is not None and probe.closes_s < keepalive_s:
        yield Finding(
            Level.PROBLEM, about,
            f"closes idle connections after {probe.closes_s:.1f} s, sooner than we let go of them ({keepalive_s:g} s)",
            "Set VLLM_HTTP_TIMEOUT_KEEP_ALIVE to 5 or more on the worker, or the same in the proxy before it; requests "
            "race with its closing otherwise, and are repeated.",
        )  # fmt: skip


def of_pool(workers: Iterable[Mapping[str, Any]], troubles: Mapping[str, str]) -> Iterator[Finding]:
    """workers, troubles: as /admin/workers tells them."""
    listed = list(workers)
    if not any(worker["state"] == "up" for worker in listed):
        yield Finding(
            Level.PROBLEM, "workers", "none is up; only what is cached is answered",
            "Start vLLM, and say where it listens: `rejoinder workers add http://HOST:8000`.",
        )  # fmt: skip
    for worker in listed:
        if worker["state"] == "down":
            yield Finding(
                Level.PROBLEM, f"worker {worker['name']}", f"is down: {worker['trouble'] or 'no reply'}",
                f"Is vLLM running there, and reachable? `curl {worker['url']}/health` where Rejoinder runs says so.",
            )  # fmt: skip
        elif worker["gauges"] is None and worker["state"] == "up":
            yield Finding(
                Level.WARNING, f"worker {worker['name']}", "has no vLLM metrics: routing guesses how busy it is",
                "Let Rejoinder reach /metrics on the worker's own port.",
            )  # fmt: skip
    for source, trouble in troubles.items():
        yield Finding(
            Level.WARNING, source, trouble, "Mend the list or the name server; the workers known so far stay."
        )


def of_hits(
    stats: Mapping[str, Any], entries: int | None, volatile: float, before: Mapping[str, Any] | None
) -> Iterator[Finding]:  # fmt: skip
    """stats: as /admin/stats tells it.  entries: that are held, None = the store did not answer.
    volatile: lookups whose system prompt changed again.  before: `totals` of an earlier look."""
    lookups, hits, reasons = stats["lookups"], stats["hits_total"], stats["misses"]
    if entries is None:
        yield Finding(
            Level.PROBLEM, "store", "does not answer: nothing new is kept, and nothing is found by meaning",
            "With redis_url: is Redis up, reachable and not full? Without: is the disk of state_dir full or read-only?",
        )  # fmt: skip
    else:
        yield Finding(Level.OK, "store", f"answers and holds {entries} entries")
    failed = sum(count for reason, count in reasons.items() if reason.endswith("-unavailable") or reason == "broken")
    if lookups >= _ENOUGH and failed > 0.02 * lookups:
        yield Finding(
            Level.WARNING, "cache", f"{failed} of {lookups} lookups failed",
            "`reason` in rejoinder_misses_total says which part: the store or the embedder is slow or was gone.",
        )  # fmt: skip
    if volatile:
        yield Finding(
            Level.WARNING, "system prompts", f"{volatile:.0f} lookups had one that changes with every request",
            "Take the hour, ids and names out of it, or ask `rejoinder explain` with such a request: it names the "
            "changing part and a setting against it.",
        )  # fmt: skip
    yield from _share(lookups, hits, reasons)
    if before is not None:
        yield from _trend(totals(stats), before)
    for each in stats["false_hit_rate"]["measured"]:
        rate = each.get("corrected")
        low = rate.get("low") if isinstance(rate, dict) else None
        if low is not None and low > stats["false_hit_rate"]["budget"]:
            yield Finding(
                Level.PROBLEM, f"answers of {each['tenant']} / {each['model']}",
                f"at least {100 * low:.1f} % of what was served by meaning was wrong",
                "docs/trust.md says what to do; at once: a smaller budget for this tenant, or reach = \"recent\".",
            )  # fmt: skip


def of_state(path: str, mode: int | None, secret_mode: int | None, writable: bool) -> Iterator[Finding]:
    """Of a state directory on this machine. mode, secret_mode: permission bits, None = it is not there."""
    if mode is None:
        yield Finding(Level.NOTE, "state directory", f"{path} is not on this machine", "")
        return
    if not writable:
        yield Finding(
            Level.NOTE, "state directory", f"{path} cannot be written by whoever runs this",
            "Run `rejoinder doctor` as the user that serves, to be sure.",
        )  # fmt: skip
    for name, bits in (("", mode), ("/secret", secret_mode)):
        if bits is not None and bits & 0o077:
            yield Finding(
                Level.PROBLEM, "state directory", f"{path}{name} can be read by others ({bits:03o})",
                f"chmod go= {path}{name}: it keys every digest, and the store holds what users asked.",
            )  # fmt: skip
    if secret_mode is not None and writable and not (mode & 0o077 or secret_mode & 0o077):
        yield Finding(Level.OK, "state directory", f"{path} is there, ours alone")


def totals(stats: Mapping[str, Any]) -> dict[str, float]:
    """What a later look compares itself with."""
    return {"since_s": stats["since_s"], "lookups": stats["lookups"], "hits": stats["hits_total"]}


def worst(findings: Iterable[Finding]) -> Level:
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)


def _share(lookups: int, hits: int, reasons: Mapping[str, int]) -> Iterator[Finding]:
    if lookups < _ENOUGH:
        yield Finding(Level.NOTE, "hit share", f"{hits} of {lookups} lookups: too few to judge", "")
        return
    share = hits / lookups
    if share >= _FEW_HITS:
        yield Finding(Level.OK, "hit share", f"{100 * share:.0f} % of {lookups} lookups")
        return
    reason = max(reasons, key=lambda each: reasons[each], default="none")
    yield Finding(
        Level.WARNING, "hit share", f"{100 * share:.1f} % of {lookups} lookups; most were missed as {reason!r}",
        "`rejoinder explain \"A QUESTION\"` tells the story of one; `rejoinder replay LOG` what your log would gain.",
    )  # fmt: skip


def _trend(now: Mapping[str, float], before: Mapping[str, Any]) -> Iterator[Finding]:
    if before.get("since_s") != now["since_s"]:
        yield Finding(Level.NOTE, "hit share", "Rejoinder was restarted since the last look; the trend begins anew", "")
        return
    asked, hit = now["lookups"] - before["lookups"], now["hits"] - before["hits"]
    if asked < _ENOUGH or before["lookups"] < _ENOUGH:
        yield Finding(Level.NOTE, "hit share", f"{asked:.0f} lookups since the last look: too few for a trend", "")
        return
    was, became = before["hits"] / before["lookups"], hit / asked
    if became < _FELL * was:
        yield Finding(
            Level.WARNING, "hit share", f"fell from {100 * was:.0f} % to {100 * became:.0f} % since the last look",
            "Did a system prompt, a model's name or a parameter change? Each makes new scopes, which start empty.",
        )  # fmt: skip
    else:
        yield Finding(Level.OK, "hit share", f"{100 * became:.0f} % since the last look, {100 * was:.0f} % before")
