"""What would be decided for a pair of questions, were one of them stored: nothing is looked up, stored or learned."""

from dataclasses import dataclass, replace

import orjson

from cache.assessor import Assessor
from cache.entry import Answer, Likeness
from cache.errors import EmbedderUnavailable, TextTooLong
from cache.policy import Verdict, entry_of, unacceptable
from cache.protocols import Clock
from cache.question import Question, Reach
from cache.tiers.similar import SimilarTier
from cache.traits import language
from cache.trust import Candidate, likeness_of

_ENTRY_ID = 1


@dataclass(frozen=True, slots=True)
class Compared:
    """likeness: in which way the two are alike, None = by meaning at best.  similarity: cosine in [-1, 1], None where
    nothing was compared by meaning.  threshold: cosine below which nothing is served that no reader has read.
    candidate: the stored question with everything that speaks against it.  why: in words, where it is not served and
    no candidate says so."""

    served: bool
    likeness: Likeness | None
    similarity: float | None
    threshold: float | None
    candidate: Candidate | None
    why: str


class Lab:
    """The very parts that decide for users. similar: None where there is no embedder."""

    def __init__(self, similar: SimilarTier | None, assessor: Assessor, clock: Clock) -> None:
        self._similar = similar
        self._assessor = assessor
        self._clock = clock

    def alarmed(self, tenant: str, model: str) -> bool:
        """Whether too much was wrong here of late, so that the budget is halved."""
        return self._assessor.alarmed(tenant, model)

    async def compare(
        self, asked: Question, verdict: Verdict, stored: Question, kept: Verdict, answer: str
    ) -> Compared:
        """verdict: on what was asked.  kept: on what was stored.  answer: of the stored one, for the judge alone."""
        now_s = self._clock()
        held = replace(kept, write=max(kept.write, Reach.SESSION), ttl_s=max(kept.ttl_s, 1.0))
        entry = entry_of(stored, held, _answered(answer), _ENTRY_ID, now_s)
        threshold = self._similar.threshold if self._similar is not None else None

        def refused(why: str, likeness: Likeness | None = None) -> Compared:
            return Compared(False, likeness, None, threshold, None, why)

        if kept.write is Reach.NOWHERE:
            return refused(f"The stored question's answer would not be kept: {kept.reason}.")
        if verdict.read is Reach.NOWHERE:
            return refused(f"Nothing is looked up for the asked question: {verdict.reason}.")
        if asked.scope != stored.scope:
            return refused("The two are in different scopes: more than the question's text differs.")
        if (likeness := likeness_of(entry, asked)) is not None:
            against = unacceptable(entry, asked, verdict, now_s)
            if against is not None:
                return refused(f"Same {likeness.value}, but: {against}.", likeness)
            return Compared(True, likeness, None, threshold, None, f"Same {likeness.value}: nothing has to be weighed.")
        if asked.text is None or stored.text is None or verdict.read < Reach.SIMILAR:
            return refused(f"Nothing is compared by meaning here: {verdict.reason}.")
        if kept.write < Reach.SIMILAR:
            return refused(f"The stored question's answer is found by the same words only: {kept.reason}.")
        if self._similar is None:
            return refused("There is no embedder, so nothing is compared by meaning.")
        for text in (asked.text, stored.text):
            if (spoken := language(text)) not in self._similar.embedder.languages:
                return refused(f"The embedder and the guards do not read this language ({spoken}).")
        try:
            vector, near = await self._similar.embed(asked.text), await self._similar.embed(stored.text)
        except (TextTooLong, EmbedderUnavailable) as trouble:
            return refused(f"It could not be compared by meaning: {trouble}.")
        found = [(entry, float(vector @ near))]
        assessed = await self._assessor.assess(
            asked, found, vector, verdict, cautious=self._similar.threshold, asked_floor=self._similar.asked_threshold,
            vectors={_ENTRY_ID: near},
        )  # fmt: skip
        (candidate,) = self._assessor.explained(asked, found, verdict, assessed)
        served = assessed.weighed.chosen is not None
        why = "Sure enough: this answer would be served." if served else "Not sure enough: a worker would be asked."
        return Compared(served, Likeness.MEANING if served else None, found[0][1], threshold, candidate, why)


def _answered(text: str) -> Answer:
    return Answer(orjson.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}), None)
