"""Had you switched Rejoinder on: what a log without labels can tell. Pure. The counting is that of `proxy.tally`."""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.evaluation.packs import Pack
from proxy.evaluation.report import Report, pair_of, percent
from proxy.evaluation.run import Trial
from proxy.tally import SHOWN, Tally


def replayed(log: Pack, trials: Sequence[Trial], max_false_hit_rate: float, settings: Mapping[str, Any]) -> Report:
    """One log, as `rejoinder replay --json` prints it. trials: one for each line, in order.

    tokens_saved: of a served question without a count, an answer that the log does not hold counts as nothing."""
    tally = Tally("counted in the log")
    for trial in trials:
        if trial.likeness is None:
            tally.missed(trial.reason or "", trial.lookup_s)
            continue
        tally.served(pair_of(trial), trial.lookup_s)
        tally.answered(trial.asked.tokens, texts=_texts(trial.asked.body), answer=trial.asked.answer)
        if trial.stored is not None and trial.stored.answer is not None and trial.asked.answer is not None:
            tally.put_side_by_side(trial.stored.answer, trial.asked.answer)
    return {"log": log.name, **tally.report(max_false_hit_rate, settings)}


def _texts(body: Mapping[str, Any]) -> list[str]:
    turns = body.get("messages") or ()
    contents = [turn.get("content") for turn in turns if isinstance(turn, dict)]
    return [content for content in contents if isinstance(content, str)]


def as_text(told: Report) -> str:
    """The same in a few sentences, and the riskiest pairs."""
    by, wrong, tokens = told["served_by"], told["estimated_wrong"], told["tokens_saved"]
    about = "about " if tokens["hits_estimated"] else ""
    lines = [
        f"Had you switched Rejoinder on: {told['served']} of {told['questions']} questions served "
        f"({percent(told['served'] / told['questions'])}; exact {by['exact']}, wording {by['wording']}, "
        f"meaning {by['meaning']}),",
        f"{_wrong(told)} of the {by['meaning']} by meaning, tokens saved {about}{tokens['total']:,} ({tokens['how']}).",
    ]
    if wrong["interval"] is not None:
        low, high = wrong["interval"]
        lines.append(f"Wrong: {low} to {high}; {wrong['interval_kind']}.")
    if wrong["hits_without_estimate"]:
        lines.append(f"Hits by meaning without an estimate, not counted in it: {wrong['hits_without_estimate']}.")
    if tokens["without_answer"]:
        lines.append(
            f"{tokens['without_answer']} served questions have no answer in the log: only their prompts count."
        )
    equal = told["answers_equal"]
    if equal is not None:
        lines.append(
            f"The stored answer was word for word the fresh one for {equal['equal']} of {equal['of']} served "
            f"({percent(equal['share'])})."
        )
    refused = ", ".join(f"{reason} {count}" for reason, count in list(told["refused"].items())[:10])
    lines.append(f"Not served because of {refused or 'nothing'}.")
    if told["riskiest"]:
        lines += ["", f"The riskiest pairs ({SHOWN} at most), P(right) and cosine:"]
    for pair in told["riskiest"]:
        p_right = "  –  " if pair["p_right"] is None else f"{pair['p_right']:.3f}"
        lines.append(
            f"  {p_right}  {pair['similarity']:.3f}  {pair['asked']}{_times(pair)}\n                <- {pair['stored']}"
        )
    return "\n".join(lines)


def _wrong(told: Report) -> str:
    wrong = told["estimated_wrong"]
    if wrong["expected"] is None:
        return "no estimate of how many are wrong"
    return f"estimated wrong {wrong['expected']:.1f} ± {wrong['plus_minus']:.1f}"


def _times(pair: Report) -> str:
    return f" ({pair['times']} times)" if pair["times"] > 1 else ""
