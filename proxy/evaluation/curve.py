"""Risk against coverage: how much would be served at each threshold, and how much of that would be wrong. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxy.evaluation.run import Scored


@dataclass(frozen=True, slots=True)
class Point:
    """coverage: share of all questions that is served.  risk: share of the served that is wrong.  Both in [0, 1].
    score: the threshold that gives them; everything at or above it is served."""

    coverage: float
    risk: float
    score: float


@dataclass(frozen=True, slots=True)
class Curves:
    """One pack. trust: sweeping the pipeline's score (`by` says which).  cosine: sweeping the plain cosine of the
    nearest neighbour, nothing else asked.  operating: (coverage, risk) of what was served by meaning in the real run;
    None where nothing was."""

    pack: str
    by: str
    trust: tuple[Point, ...]
    cosine: tuple[Point, ...]
    operating: tuple[float, float] | None
    budget: float


def sweep(scores: Iterable[tuple[float, bool]], of: int) -> tuple[Point, ...]:
    """Every threshold that changes anything, strictest first. scores: (score, whether right); of: all questions."""
    ranked = sorted(scores, key=lambda each: -each[0])
    points: list[Point] = []
    wrong = 0
    for place, (score, right) in enumerate(ranked, 1):
        wrong += not right
        if place == len(ranked) or ranked[place][0] != score:  # equal scores are served together
            points.append(Point(place / of, wrong / place, score))
    return tuple(points)


def curves(
    pack: str, scored: Sequence[Scored], of: int, operating: tuple[float, float] | None, budget: float
) -> Curves:
    """Both sweeps of one scoring pass. of: all rows of the pack, repetitions included."""
    estimated = all(each.estimated for each in scored)
    return Curves(
        pack, "P(right)" if estimated else "cosine, after the guards",
        sweep(((each.score, each.right) for each in scored if each.score is not None), of),
        sweep(((each.cosine, each.nearest_right) for each in scored if each.cosine is not None), of),
        operating, budget,
    )  # fmt: skip
