"""An explanation in words: the same story for `rejoinder explain`, and later for the dashboard. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cache import Candidate, Explanation, Hit, Question
from proxy.errors import ProxyError
from proxy.routing.choice import Candidate as WorkerCandidate
from proxy.routing.choice import Choice
from proxy.routing.identity import Identity
from proxy.routing.rides import Desk


@dataclass(frozen=True, slots=True)
class Way:
    """Which worker would be asked, or why none; and what every worker that is up would cost, cheapest first.
    warning: why questions of this caller can never be hits; None = nothing is known."""

    choice: Choice | ProxyError
    candidates: Sequence[WorkerCandidate]
    warning: str | None = None


def as_json(explanation: Explanation, way: Way, who: Identity | None) -> dict[str, Any]:
    """Policy, lookup, candidates with every objection, the worker that would be asked, and what each would cost."""
    choice = way.choice
    question, verdict, outcome = explanation.question, explanation.verdict, explanation.outcome
    found: dict[str, Any]
    if isinstance(outcome, Hit):
        found = {
            "hit": True, "tier": outcome.tier, "likeness": outcome.likeness.value, "similarity": outcome.similarity,
            "age_s": round(outcome.age_s, 3), "entry": f"{outcome.entry.id:016x}",
            "stored_question": outcome.entry.text,
        }  # fmt: skip
    else:
        found = {"hit": False, "reason": outcome.reason, "detail": outcome.detail}
    return {
        "question": {
            "text": question.text, "kind": question.kind.value, "model": question.scope.model,
            "tenant": question.scope.tenant, "scope": question.scope.key,
            "traits": sorted(trait.value for trait in question.traits), "limit_tokens": question.limit,
        },
        "conversation": _conversation(question),
        "context": _context(question),
        "warning": way.warning,
        "policy": {
            "read": verdict.read.name.lower(), "write": verdict.write.name.lower(), "ttl_s": verdict.ttl_s,
            "reason": verdict.reason,
        },
        "lookup": found,
        "threshold": explanation.threshold,
        "candidates": [
            candidate_told(candidate) for candidate in explanation.candidates
        ],
        "session": None if who is None else {"source": who.source.value, "strength": who.strength.value},
        "worker": (
            {"error": choice.message} if isinstance(choice, ProxyError)
            else {"name": choice.worker.name, "url": choice.worker.url, "reason": choice.reason}
        ),
        "workers": [
            {
                "name": each.worker.name, "cost_ms": round(each.cost_ms, 1), "resident_tokens": each.resident,
                "source": "KV events" if each.exact else "answers", "in_flight": each.worker.in_flight,
            }
            for each in way.candidates
        ],
        "prompt_tokens": None if isinstance(choice, ProxyError) else choice.tokens,
    }  # fmt: skip


def candidate_told(candidate: Candidate) -> dict[str, Any]:
    """One neighbour, and everything that speaks against it."""
    return {
        "text": candidate.text, "similarity": round(candidate.similarity, 4), "age_s": round(candidate.age_s, 3),
        "would_serve": not candidate.against,
        "reader": None if candidate.reader is None else round(candidate.reader, 2),
        "p_right": None if candidate.p_right is None else round(candidate.p_right, 4),
        "bar": None if candidate.bar is None or candidate.bar > 1.0 else round(candidate.bar, 4),
        "against": [{"by": by, "reason": reason} for by, reason in candidate.against],
    }  # fmt: skip


def routing_of(desk: Desk, source: str, sessions: int) -> dict[str, Any]:
    """What routing knows of one worker. source: where its knowledge of the KV cache comes from, in words."""
    memory = desk.memory
    return {
        "source": source, "sessions": sessions, "waiting_tokens": desk.backlog,
        "prefill_tokens_per_s": round(desk.pace.rate * 1000) if desk.pace.seen else None,
        "predicted_tokens": memory.predicted, "cached_tokens": memory.cached, "wasted_tokens": memory.wasted,
        "drift": round(memory.drift, 3), "emptied": memory.emptied, "marks": len(memory),
    }  # fmt: skip


def _conversation(question: Question) -> dict[str, Any] | None:
    """Which of the turns before it belong to the question; None where nothing was said, or only bytes count."""
    past = question.past
    if past is None or past.exact == past.fresh:
        return None
    return {"turns": len(past.turns), "known": question.recognised, "whole": past.whole, "reason": past.reason}


def _context(question: Question) -> dict[str, Any] | None:
    """What the key leaves out, or why it leaves out nothing though it might; None where nothing is to be left out."""
    leeway = question.leeway
    if leeway is None:
        return None if question.counted is None else {"left_out": [], "any_order": False, "counts": question.counted}
    left_out = [{"kind": kind, "value": value} for kind, value in leeway.taken]
    return {"left_out": left_out, "any_order": leeway.reordered, "counts": None}


def _left_out(told: dict[str, Any] | None) -> list[str]:
    if told is None:
        return []
    if told["counts"]:
        return [f"context    all of it counts: {told['counts']}"]
    parts = [f"{each['kind']} {each['value']!r}" for each in told["left_out"]]
    parts += ["the order of the documents"] if told["any_order"] else []
    return [f"context    left out of the key: {', '.join(parts)}"]


def _said_before(told: dict[str, Any] | None) -> list[str]:
    if told is None:
        return []
    belongs = "all of it" if told["whole"] else f"the last {told['turns']} turns" if told["turns"] else "none of it"
    return [f"history    {belongs}, {told['known']} turns answered from known entries: {told['reason']}"]


def as_text(told: dict[str, Any]) -> str:
    """The same for a terminal."""
    policy, lookup, worker = told["policy"], told["lookup"], told["worker"]
    question = told["question"]
    lines = [
        f"question   {question['text'] if question['text'] is not None else '(nothing to compare but bytes)'}",
        f"traits     {', '.join(question['traits']) or 'none'}",
        *_said_before(told["conversation"]),
        *_left_out(told["context"]),
        *([f"warning    {told['warning']}"] if told["warning"] else []),
        f"policy     may be read from {policy['read']}, stored for {policy['write']}, {policy['ttl_s']:g} s: "
        f"{policy['reason']}",
    ]
    if lookup["hit"]:
        near = f", cosine {lookup['similarity']:.3f}" if lookup["similarity"] is not None else ""
        lines.append(f"lookup     HIT in {lookup['tier']} by {lookup['likeness']}{near}, {lookup['age_s']:g} s old")
        if lookup["stored_question"]:
            lines.append(f"           stored for: {lookup['stored_question']}")
    else:
        lines.append(f"lookup     MISS {lookup['reason']}: {lookup['detail']}")
    for candidate in told["candidates"]:
        verdict = "would serve" if candidate["would_serve"] else "refused"
        read = f", reader {candidate['reader']:+.1f}" if candidate["reader"] is not None else ""
        sure = f", right with {candidate['p_right']:.3f}" if candidate["p_right"] is not None else ""
        lines.append(f"candidate  {candidate['similarity']:.3f} {verdict}{read}{sure}: {candidate['text']}")
        lines += [f"           by {against['by']}: {against['reason']}" for against in candidate["against"]]
    session = told["session"]
    lines.append(f"session    {session['source']} ({session['strength']})" if session else "session    none")
    lines.append(
        f"worker     {worker['error']}" if "error" in worker else f"worker     {worker['name']}: {worker['reason']}"
    )
    lines += [
        f"           {each['name']}: {each['cost_ms']:g} ms, {each['resident_tokens']} of {told['prompt_tokens']} "
        f"prompt tokens there by its {each['source']}, {each['in_flight']} requests in hand"
        for each in told["workers"]
    ]
    return "\n".join(lines)
