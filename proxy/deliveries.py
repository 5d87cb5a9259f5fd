"""Who was told what a moment ago: "regenerate" sends the same bytes again, and means another answer. Pure but for the
clock it is given."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cache import Reach, Why
from proxy.reading import Asked

WINDOW_S: Final = 60.0
_MOST: Final = 20_000  # deliveries remembered, the newest


class Deliveries:
    """Deliveries to sessions, by the request's exact bytes. window_s: for how long one counts, in seconds."""

    def __init__(self, window_s: float, clock: Callable[[], float]) -> None:
        self._window_s = window_s
        self._clock = clock
        self._at: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def note(self, asked: Asked) -> None:
        """This request was told its answer."""
        place = _place(asked)
        if place is None:
            return
        self._at[place] = self._clock()
        self._at.move_to_end(place)
        while len(self._at) > _MOST:
            self._at.popitem(last=False)

    def mindful(self, asked: Asked) -> Asked:
        """The request, not to be looked up where its session was told the same within the window. Who accepts nothing
        but a stored answer (`only-if-cached`) gets the stored one."""
        if not self._at or asked.controls.only_if_cached or asked.verdict.read is Reach.NOWHERE:
            return asked
        place = _place(asked)
        told_s = self._at.get(place) if place is not None else None
        if told_s is None or not 0 <= self._clock() - told_s <= self._window_s:
            return asked
        reason = f"asked again within {self._window_s:g} s: a new answer is wanted"
        return replace(asked, verdict=replace(asked.verdict, read=Reach.NOWHERE, reason=reason, why=Why.REQUEST))

    def __len__(self) -> int:
        return len(self._at)


def _place(asked: Asked) -> tuple[str, str, str] | None:
    question = asked.question
    if question.session is None:
        return None
    proof = question.past.exact[2] if question.past is not None else question.proof
    return question.scope.tenant, question.session, proof
