"""Which questions were lately served with which entry by meaning: its siblings. Pure, bounded, in this process only.

When an entry turns out to be wrong, what it answered may be wrong too; the siblings are what has to be looked at again.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence

from cache.entry import Hit, Likeness
from cache.question import Question
from cache.review import Served


class ServedLog:
    """entries: most entries remembered, the longest unserved leave first.  each: most questions of one entry.
    waiting: most siblings that wait to be looked at again; the oldest are given up."""

    def __init__(self, entries: int = 4096, each: int = 32, waiting: int = 4096) -> None:
        self._entries = entries
        self._each = each
        self._served: OrderedDict[int, deque[Served]] = OrderedDict()
        self._suspect: deque[Served] = deque(maxlen=waiting)

    def note(self, question: Question, hit: Hit, now_s: float) -> None:
        """An answer went out. Only those found by meaning are siblings: the others were asked the same."""
        if hit.likeness is not Likeness.MEANING or question.text is None:
            return
        served = self._served.setdefault(hit.entry.id, deque(maxlen=self._each))
        served.append(Served(hit.entry.id, question.text, question.scope, hit.evidence, now_s))
        self._served.move_to_end(hit.entry.id)
        if len(self._served) > self._entries:
            self._served.popitem(last=False)

    def siblings(self, entry_id: int) -> tuple[Served, ...]:
        """Newest last."""
        return tuple(self._served.get(entry_id, ()))

    def suspect(self, entry_id: int) -> int:
        """This entry is wrong: its siblings now wait to be looked at again. Returns how many."""
        served = self._served.pop(entry_id, None) or ()
        self._suspect.extend(served)
        return len(served)

    def next_suspect(self) -> Served | None:
        """The sibling that waits the longest, taken out; None when none waits."""
        return self._suspect.popleft() if self._suspect else None

    def forget(self, tenant: str | None, model: str | None) -> None:
        """Erase what this tenant and model asked (None = any)."""

        def goes(served: Served) -> bool:
            return tenant in (None, served.scope.tenant) and model in (None, served.scope.model)

        for entry_id, kept in list(self._served.items()):
            if any(map(goes, kept)):
                del self._served[entry_id]  # an entry has one tenant and one model, and so have its siblings
        left = [served for served in self._suspect if not goes(served)]
        self._suspect.clear()
        self._suspect.extend(left)

    def forget_entries(self, entry_ids: Sequence[int]) -> None:
        """Erase what was served with these."""
        for entry_id in entry_ids:
            self._served.pop(entry_id, None)

    def __len__(self) -> int:
        return sum(map(len, self._served.values()))
