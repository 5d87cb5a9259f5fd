"""Answers that were cut by `max_tokens`: kept to be continued, never served as they are. Bounded, in this process.

Only who sends the same bytes is continued, so a cut answer is known by the request's exact bytes with all of its
history: the rest is generated from the very prompt that the beginning was. What is kept to its session is continued in
that session. Nothing is lost when a cut answer is: it is a miss, and generated anew.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cache.entry import Answer, Entry
from cache.forgetting import Forgettings
from cache.policy import Verdict, entry_of, unacceptable
from cache.protocols import Clock
from cache.question import Question, Reach
from cache.tiers.session import private_scope
from cache.tiers.shelf import Shelf

_ENTRIES: Final = 2_000
_BYTES: Final = 32 << 20


class Cuts:
    """forgettings: what must not be kept any more though it was asked for before."""

    def __init__(self, clock: Clock, forgettings: Forgettings) -> None:
        self._clock = clock
        self._forgettings = forgettings
        self._shelf = Shelf(_ENTRIES, _BYTES)

    def keep(self, question: Question, verdict: Verdict, answer: Answer, entry_id: int, since: int) -> bool:
        """Keep a beginning, unless a longer one is held. since: see `TieredCache.keep`."""
        if verdict.write is Reach.NOWHERE or answer.tokens is None or self._forgettings.cover(question, since):
            return False
        entry = entry_of(_whole(question, verdict.write is Reach.SESSION), verdict, answer, entry_id, self._clock())
        held = self._shelf.exact(entry.scope.key, entry.key)
        if held is not None and held.expires_s > self._clock() and (held.answer.tokens or 0) > answer.tokens:
            return False
        self._shelf.put(entry)
        return True

    def find(self, question: Question, verdict: Verdict) -> Entry | None:
        """A beginning that this request may be continued from: shorter than the caller's limit. Its `limit` tells how
        much more he accepts."""
        if verdict.read is Reach.NOWHERE:
            return None
        for own in (False, True) if question.session is not None else (False,):
            asked = _whole(question, own)
            entry = self._shelf.exact(asked.scope.key, asked.key)
            if entry is None or entry.proof != asked.proof or (entry.reach is Reach.SESSION) is not own:
                continue
            longer = question.limit is None or question.limit > (entry.answer.tokens or 0)
            if longer and unacceptable(entry, asked, verdict, self._clock()) is None:
                return entry
        return None

    def forget(self, entry_ids: Iterable[int]) -> int:
        """Drop these. Returns how many were here."""
        return self._shelf.forget(entry_ids)

    def matching(self, tenant: str | None, model: str | None) -> list[Entry]:
        """Those of this tenant and model (None = any), for a purge."""
        return [
            each for each in self._shelf if tenant in (None, each.scope.tenant) and model in (None, each.scope.model)
        ]

    def __len__(self) -> int:
        return len(self._shelf)


def _whole(question: Question, own: bool) -> Question:
    """The question as it stands, nothing left out of its key: the rest follows from one prompt only."""
    scope_key, key, proof = question.scope.key, question.key, question.proof
    if question.leeway is not None:
        scope_key, key, proof = question.leeway.exact
    elif question.past is not None:
        scope_key, key, proof = question.past.exact
    scope = replace(question.scope, key=scope_key)
    if own and question.session is not None:
        scope = private_scope(scope, question.session)
    return replace(question, scope=scope, key=key, proof=proof)
