"""What was forgotten of late. Pure.

An answer that was asked for before its like was forgotten, and that comes after, must not be kept: whoever had it
forgotten was told that it is gone.
"""

from collections import deque

from cache.protocols import Selection
from cache.question import Question


class Forgettings:
    """count: how often something was forgotten on purpose.  most: how many of them are remembered one by one."""

    def __init__(self, most: int = 256) -> None:
        self.count = 0
        self._of_late: deque[Selection] = deque(maxlen=most)

    def note(self, selection: Selection) -> None:
        """This was forgotten now."""
        self.count += 1
        self._of_late.append(selection)

    def cover(self, question: Question, since: int) -> bool:
        """Whether an answer to this question was forgotten since `count` was so much; unsure means yes."""
        missed = self.count - since
        if missed > len(self._of_late):
            return True  # more than we remember
        scope = question.scope
        return any(
            selection.tenant in (None, scope.tenant)
            and selection.model in (None, scope.model)
            and selection.scope_key in (None, scope.key)
            for selection in list(self._of_late)[-missed:]
            if missed and selection.ids is None and selection.expired_by_s is None and selection.before_s is None
        )
