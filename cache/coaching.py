"""The reader's own weights learn from the operator's labels: three readers in a folder, and what they say of questions
that they have not seen.

What a reader says of questions that it was taught is too sure, so no bar may rest on it. Therefore the questions fall
into three parts: halves 0 and 1, each read by a reader that learned from the other half alone, and part 2, held out,
read by the one that learned from both. That one is kept: what is measured is what will be used.

Needs the extra `train`; without it there is nothing to teach with, and `missing` says what to do."""

import asyncio
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from cache.adapting import Material, Tell
from cache.errors import StateError
from cache.reader.contrasts import contrasts, general
from cache.reader.onnx import tokenizer
from cache.reader.pairing import PREFIX, WINDOW

WHAT = "teaching the reader"
MOST_PAIRS = 8_000  # of the whole lesson: more questions are taught with fewer pairs each
EACH = 4  # right pairs of a question, and as many wrong ones, at most
GENERAL = 0.25  # for each pair of the operator's, that many of ours, so that what the reader knew is not forgotten
SHARES = (0.15, 0.35, 0.55, 1.0)  # of the work: when the lessons are read, and when each reader is done


def missing() -> str | None:
    """Why no reader can be taught here, with the way out; None = it can."""
    if all(importlib.util.find_spec(name) is not None for name in ("torch", "onnx")):
        return None
    return "the reader itself stays as it is: teaching it takes torch (pip install 'rejoinder[train]')"


def parts_of(material: Material) -> list[int]:
    """0 or 1 for what is learned from, 2 for what is held out."""
    cut = material.cut()
    return [number % 2 if number < cut else 2 for number in range(len(material.labelled))]


async def coach(material: Material, start: Path, folder: Path, tell: Tell) -> list[Path]:
    """Folders with a model.onnx each: the readers of parts 0, 1 and 2.

    start: the model.onnx that they are taught from.  folder: where they are put.  Ctrl-C ends it within a step."""
    stopped = False

    def said(share: float) -> None:
        if stopped:
            raise StateError("The lesson was broken off; nothing has changed.")
        tell(WHAT, share)

    try:
        return await asyncio.to_thread(_coached, material, start, folder, said)
    finally:
        stopped = True


def _coached(material: Material, start: Path, folder: Path, said: Callable[[float], None]) -> list[Path]:
    from cache.reader.refining import Refinement, Refiner  # torch: loaded only by who teaches
    from cache.reader.training import Lesson

    parts = parts_of(material)
    answers = [each.answer for each in material.labelled]
    tokens = _tokens([each.question for each in material.labelled])
    sets: list[list[int]] = []
    lessons: list[Lesson] = []
    places: dict[tuple[int, int], int] = {}
    each = max(1, min(EACH, MOST_PAIRS // (2 * max(1, material.cut()))))
    for wanted in ((1,), (0,), (0, 1)):
        chosen = []
        among = [number for number, part in enumerate(parts) if part in wanted and tokens[number]]
        for pair in contrasts(material.vectors, answers, among, each):
            key = min(pair.a, pair.b), max(pair.a, pair.b)
            if len(tokens[pair.a]) + len(tokens[pair.b]) > WINDOW:
                continue
            if key not in places:
                places[key] = len(lessons)
                lessons.append(Lesson(tokens[pair.a], tokens[pair.b], float(pair.same)))
            chosen.append(places[key])
        sets.append(chosen)
    ours = general()[: int(GENERAL * max(map(len, sets)))]
    kept = range(len(lessons), len(lessons) + len(ours))
    sides = _tokens([text for a, b, _ in ours for text in (a, b)])
    lessons += [Lesson(sides[2 * at], sides[2 * at + 1], float(ours[at][2])) for at in range(len(ours))]
    refiner = Refiner(start, Refinement())
    refiner.prepare(lessons, lambda share: said(SHARES[0] * share))
    made = []
    for number, chosen in enumerate(sets):
        low, high = SHARES[number], SHARES[number + 1]

        def further(share: float, low: float = low, high: float = high) -> None:
            said(low + (high - low) * share)

        place = folder / str(number)
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(refiner.taught([*chosen, *kept[: int(GENERAL * len(chosen))]], further))
        made.append(place)
    return made


def _tokens(texts: Sequence[str]) -> list[list[int]]:
    return [each.ids for each in tokenizer().encode_batch([PREFIX + text for text in texts])]
