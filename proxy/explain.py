"""An explanation in words: the same story for `rejoinder explain`, and later for the dashboard. Pure."""

from typing import Any

from cache import Explanation, Hit
from proxy.errors import ProxyError
from proxy.routing.identity import Identity
from proxy.routing.router import Choice


def as_json(explanation: Explanation, choice: Choice | ProxyError, who: Identity | None) -> dict[str, Any]:
    """Policy, lookup, candidates with every objection, and the worker that would be asked."""
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
        "policy": {
            "read": verdict.read.name.lower(), "write": verdict.write.name.lower(), "ttl_s": verdict.ttl_s,
            "reason": verdict.reason,
        },
        "lookup": found,
        "threshold": explanation.threshold,
        "candidates": [
            {
                "text": candidate.text, "similarity": round(candidate.similarity, 4),
                "age_s": round(candidate.age_s, 3), "would_serve": not candidate.against,
                "reader": None if candidate.reader is None else round(candidate.reader, 2),
                "p_right": None if candidate.p_right is None else round(candidate.p_right, 4),
                "bar": None if candidate.bar is None or candidate.bar > 1.0 else round(candidate.bar, 4),
                "against": [{"by": by, "reason": reason} for by, reason in candidate.against],
            }
            for candidate in explanation.candidates
        ],
        "session": None if who is None else {"source": who.source.value, "strength": who.strength.value},
        "worker": (
            {"error": choice.message} if isinstance(choice, ProxyError)
            else {"name": choice.worker.name, "url": choice.worker.url, "reason": choice.reason}
        ),
    }  # fmt: skip


def as_text(told: dict[str, Any]) -> str:
    """The same for a terminal."""
    policy, lookup, worker = told["policy"], told["lookup"], told["worker"]
    question = told["question"]
    lines = [
        f"question   {question['text'] if question['text'] is not None else '(nothing to compare but bytes)'}",
        f"traits     {', '.join(question['traits']) or 'none'}",
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
    return "\n".join(lines)
