"""What shadow checks can tell, and when: the table of docs/trust.md. Simulated users and comparator, real counting.

    python tests/bench/evidence_report.py [--share 0.02] [--specificity 0.97] [--sensitivity 0.8] [--runs 15]

Every hit that `proxy.sampling` draws is checked; every second check finds a known-bad control. So this is what can be
known at best: workers that are never idle check less.
"""

import argparse
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median

from cache import Agreement
from proxy.measured import Measured, Measurement
from proxy.sampling import chance, control_chance

DAYS = (1, 7, 30)
HITS_A_DAY = (200, 2000)
WRONG = (0.0, 0.03, 0.1, 0.2)
BUDGET = 0.01


@dataclass(frozen=True, slots=True)
class Case:
    """wrong, share, specificity, sensitivity: in [0, 1]."""

    hits_a_day: int
    wrong: float
    share: float
    specificity: float
    sensitivity: float
    seed: int


def run(case: Case) -> list[Measurement]:
    """What was known at the end of each of DAYS."""
    dice = random.Random(case.seed)
    now = [0.0]
    measured = Measured(lambda: now[0])
    found = []

    def compared(wrong: bool) -> Agreement:
        disagrees = dice.random() < (case.sensitivity if wrong else 1 - case.specificity)
        return Agreement.DISAGREE if disagrees else Agreement.AGREE

    for day in range(max(DAYS)):
        for hit in range(case.hits_a_day):
            now[0] = (day + hit / case.hits_a_day) * 86_400
            probability = chance(measured.labels("t", "m"), case.share)
            if dice.random() >= probability:
                continue
            measured.checked("t", "m", compared(dice.random() < case.wrong), 1 / probability)
            if dice.random() < control_chance(measured.null_controls("t", "m")):
                measured.null_control("t", "m", compared(False))
            if dice.random() < 0.5:
                measured.known_bad("t", "m", compared(True))
        if day + 1 in DAYS:
            found += measured.all()
    return found


def told(found: Sequence[Measurement]) -> str:
    """Medians over all runs: estimate (low to high), and in how many of them low was above BUDGET."""
    rates = [each.corrected for each in found if each.corrected is not None]
    if len(rates) < len(found):
        return "–"
    estimate, low, high = (100 * median(getattr(rate, name) for rate in rates) for name in ("estimate", "low", "high"))
    sure = sum(rate.low > BUDGET for rate in rates)
    return f"{estimate:.1f} % ({low:.1f} to {high:.1f}), {sure}/{len(rates)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (("share", 0.02), ("specificity", 0.97), ("sensitivity", 0.8)):
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    cases = [
        Case(hits, wrong, args.share, args.specificity, args.sensitivity, seed)
        for hits in HITS_A_DAY for wrong in WRONG for seed in range(args.runs)
    ]  # fmt: skip
    with ProcessPoolExecutor() as pool:
        found = dict(zip(cases, pool.map(run, cases, chunksize=3), strict=True))
    print("| hits by meaning a day | after | checks that count |" + "".join(f" {wrong:.0%} wrong |" for wrong in WRONG))
    print("|---|---|---|" + "---|" * len(WRONG))
    for hits in HITS_A_DAY:
        for place, day in enumerate(DAYS):
            by_wrong = {w: [f[place] for c, f in found.items() if (c.hits_a_day, c.wrong) == (hits, w)] for w in WRONG}
            checks = median(each.checks for each in by_wrong[WRONG[0]])
            cells = " | ".join(told(by_wrong[wrong]) for wrong in WRONG)
            print(f"| {hits:,} | {day} {'day' if day == 1 else 'days'} | {checks:.0f} | {cells} |")


if __name__ == "__main__":
    main()
