"""Collects everything the reader learns from, as pairs of questions with their labels.

From a folder of evaluation packs (stream-*.jsonl: query, answer_id; others: a, b, same), a folder of training packs
(train-*.jsonl: a, b, same), the questions that we wrote (written/*.txt), and what the generators make of them.

A *family* is one source with all its packs: it can be left out whole, which is how the cold figures are made.
Share-alike text is never here."""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import generators

# Share-alike text measures, it never trains: HINT3, xSID, SGD, MTOP are not here.
STREAMS = {
    "stream-banking77": "banking77", "stream-clinc-static": "clinc", "stream-clinc150": "clinc",
    "stream-hwu64-slots": "hwu64", "stream-own-faq": "own", "stream-math": "math",
}  # fmt: skip
PAIRS = {
    "pairs-fow": "fow", "contrast-fow": "fow", "pairs-checklist": "checklist", "contrast-checklist": "checklist",
    "contrast-math": "math", "contrast-own-en": "own", "contrast-own-zh": "own", "paraphrase-own": "own",
    "pairs-covid-faq": "covid", "pairs-pawsx-zh": "pawsx", "pairs-gptcache-mock": "gptcache",
}  # fmt: skip
TRAINED = ("advising", "wikisql", "nl2bash", "disflqa", "snips", "nlupp", "crosswoz")
COARSE = re.compile(r"translate|definition|spelling|calculator|weather|timer|alarm|play_music|reminder|calendar|todo|"
                    r"shopping|exchange_rate|currency|distance|directions|traffic|flight|book|transfer|pay_bill|"
                    r"balance|transactions|text|call|roll_dice|measurement|recipe|cook_time|calories|nutrition|"
                    r"restaurant|car_rental|uber|smart_home|order|pto|change_|update|next_song|date|time")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """same: whether one answer serves both.  noise: how often the label is believed to be wrong.
    group: pairs of one group never stand on both sides of a split."""

    a: str
    b: str
    same: bool
    family: str
    group: str
    noise: float = 0.0


def rows(path: Path) -> Iterator[dict]:
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def folded(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return re.sub(r"[\W_]+", "", text.lower())


def evaluated(packs: Path) -> frozenset[str]:
    """The folded texts of every evaluation pack. What we wrote must not hold them, or no cold figure is cold."""
    found = set()
    for path in packs.glob("*.jsonl"):
        for row in rows(path):
            found.update(folded(row[key]) for key in ("query", "a", "b") if isinstance(row.get(key), str))
    return frozenset(found)


def written(folder: Path, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """(where, wordings of one question, traps: each a list of its wordings).  without: folded texts to leave out."""
    for where, same, traps in groups(folder):
        kept = [text for text in same if folded(text) not in without]
        if kept:
            left = ([text for text in trap if folded(text) not in without] for trap in traps)
            yield where, kept, [trap for trap in left if trap]


def groups(folder: Path) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """As `written`, with all that stands in the files."""
    for path in sorted(path for path in folder.glob("*.txt") if not path.name.startswith("bots-")):
        for number, block in enumerate(path.read_text(encoding="utf-8").split("\n\n")):
            same: list[str] = []
            traps: list[list[str]] = []
            for line in block.splitlines():
                mark, _, said = line.partition(" ")
                if mark in ("=", "~"):
                    same.append(said.strip())
                elif mark == "!" and " | " in said:
                    traps.append([said.partition(" | ")[2].strip()])
                elif mark == ":" and traps:
                    traps[-1].append(said.strip())
            if same:
                yield f"{path.stem}:{number}", same, traps


def bots(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(bot, {utterance: its intent}): files that name a bot before its intents."""
    for path in sorted(folder.glob("bots-*.txt")):
        name, answers = path.stem, {}
        for number, block in enumerate(path.read_text(encoding="utf-8").split("\n\n")):
            for line in block.splitlines():
                mark, _, said = line.partition(" ")
                if mark == "#":
                    if answers:
                        yield name, answers
                    name, answers = f"{path.stem}:{said}", {}
                elif mark in ("=", "~") and said.strip():
                    answers.setdefault(said.strip(), f"{name}:{number}")
        if answers:
            yield name, answers


def from_written(folder: Path, without: frozenset[str]) -> Iterator[Pair]:
    for where, same, traps in written(folder, without):
        family = "written"
        for a, b in combinations(same, 2):
            yield Pair(a, b, True, family, where)
        for trap in traps:
            for a, b in product(same, trap):
                yield Pair(a, b, False, family, where)
            for a, b in combinations(trap, 2):
                yield Pair(a, b, True, family, where)
        for one, other in combinations(traps, 2):
            yield Pair(one[0], other[-1], False, family, where, 0.03)


def from_streams(
    packs: Path, near: "dict[str, list[str]]", rng: random.Random, without: frozenset[str]
) -> Iterator[Pair]:
    """Neighbours of every question, right and wrong ones, and some farther ones of the same answer."""
    sources = [
        (name, "written", {text: answer for text, answer in answers.items() if folded(text) not in without})
        for name, answers in bots(Path(__file__).parent / "written")
    ]
    for name, family in STREAMS.items():
        asked: dict[str, str] = {}
        for row in rows(packs / f"{name}.jsonl"):
            asked.setdefault(row["query"], row["answer_id"])
        sources.append((name, family, asked))
    for name, family, answers in sources:
        members = defaultdict(list)
        for text, answer in answers.items():
            members[answer].append(text)
        noise = 0.02 if family in ("banking77", "clinc") else 0.0
        for text, answer in answers.items():
            coarse = name == "stream-clinc150" and COARSE.search(answer) is not None
            around = [other for other in near.get(text, ()) if other in answers and other != text]
            wrong = [other for other in around if answers[other] != answer][:7]
            right = [other for other in around if answers[other] == answer][:3]
            others = [other for other in members[answer] if other != text and other not in right]
            right += rng.sample(others, min(3 if family != "written" else 4, len(others)))
            for other in wrong:
                yield Pair(text, other, False, family, answer, noise)
            if not coarse:
                for other in right:
                    yield Pair(text, other, True, family, answer, noise)


def from_packs(packs: Path) -> Iterator[Pair]:
    for name, family in PAIRS.items():
        for row in rows(packs / f"{name}.jsonl"):
            if row.get("ambiguous"):
                continue
            yield Pair(row["a"], row["b"], bool(row["same"]), family, row["a"])


def from_training(train: Path) -> Iterator[Pair]:
    for name in TRAINED:
        noise = {"nlupp": 0.1, "snips": 0.04}.get(name, 0.03)
        for row in rows(train / f"train-{name}.jsonl"):
            yield Pair(row["a"], row["b"], bool(row["same"]), name, row["a"], noise)


def generated(questions: Iterable[tuple[str, str]], rng: random.Random) -> Iterator[Pair]:
    """questions: (text, family). What the rules make of each, and a rewording on top of a change: a new form alone must
    say neither yes nor no."""
    known = list(questions)
    for text, family in known:
        for keep in rng.sample(generators.KEEPS, 2):
            if (said := keep(text, rng)) and said != text:
                yield Pair(text, said, True, family, text)
        for reword in rng.sample(generators.REWORDS, 2):
            if (said := reword(text, rng)) and said != text:
                yield Pair(on_top(text, rng, 0.15), on_top(said, rng, 0.2), True, family, text, 0.02)
        changes = list(generators.CHANGES)
        rng.shuffle(changes)
        made = 0
        for _, change in changes:
            said = change(text, rng)
            if said is None or said == text:
                continue
            yield Pair(on_top(text, rng, 0.15), on_top(said, rng, 0.6), False, family, text, 0.03)
            made += 1
            if made == 2:
                break
        if rng.random() < 0.25:
            other = rng.choice(known)[0]
            if generators.is_chinese(other) == generators.is_chinese(text):
                yield Pair(text, generators.with_tail(text, other, rng), False, family, text)
        if rng.random() < 0.2:
            other = rng.choice(known)[0]
            yield Pair(text, other, other == text, family, text, 0.01)


def on_top(text: str, rng: random.Random, share: float) -> str:
    """The same question with another surface or in another form, at times."""
    if rng.random() >= share:
        return text
    way = generators.reworded if rng.random() < 0.6 else rng.choice(generators.KEEPS)
    return way(text, rng) or text


def noisy(pairs: Iterable[Pair], rng: random.Random, share: float) -> Iterator[Pair]:
    """Some pairs once more, with another surface or form: so that politeness, typing and phrasing never decide."""
    for pair in pairs:
        yield pair
        if rng.random() < share:
            yield Pair(on_top(pair.a, rng, 0.9), on_top(pair.b, rng, 0.9), pair.same, pair.family, pair.group,
                       max(pair.noise, 0.01))  # fmt: skip


def collected(packs: Path, train: Path, near: dict[str, list[str]], seed: int = 7) -> list[Pair]:
    rng = random.Random(seed)
    folder, without = Path(__file__).parent / "written", evaluated(packs)
    base = [*from_written(folder, without), *from_streams(packs, near, rng, without), *from_packs(packs),
            *from_training(train)]  # fmt: skip
    questions = {}
    for _, same, traps in written(folder, without):
        for text in (*same[:3], *(trap[0] for trap in traps[:2])):
            questions.setdefault(text, "written")
    for pair in base:
        if (
            pair.family in ("fow", "own", "covid", "disflqa", "clinc", "hwu64", "math", "banking77")
            and rng.random() < 0.25
        ):
            questions.setdefault(pair.a, pair.family)
    made = list(generated(questions.items(), rng))
    everything = list(noisy([*base, *made], rng, 0.15))
    seen: dict[frozenset[str], bool] = {}
    kept = []
    for pair in everything:
        key = frozenset((pair.a, pair.b))
        if len(key) == 1 or max(len(pair.a), len(pair.b)) > 400 or key in seen:
            continue
        seen[key] = pair.same
        kept.append(pair)
    return kept
