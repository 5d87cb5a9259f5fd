"""When to stop asking a model that does not answer. Pure; it counts, others wait.

Closed: everything is admitted. Open: nothing is, so that a hung model costs a question nothing. Half open: after the
cool-down one question tries, and its outcome decides."""

from collections.abc import Callable

Monotonic = Callable[[], float]  # seconds from any origin, never backwards


class Breaker:
    """Opens after `tolerated` failures in a row that also span `stall_s`: several questions that fail together behind
    one slow text are one event, not several."""

    def __init__(self, *, tolerated: int, stall_s: float, cooldown_s: float, clock: Monotonic) -> None:
        self._tolerated = tolerated
        self._stall_s = stall_s
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._failures = 0
        self._first_failure_s = 0.0
        self._opened_s: float | None = None
        self._trying = False

    @property
    def is_open(self) -> bool:
        return self._opened_s is not None

    def admits(self) -> bool:
        """Whether a question may be asked now. True takes the half-open trial, so report its outcome."""
        if self._opened_s is None:
            return True
        if self._trying or self._clock() - self._opened_s < self._cooldown_s:
            return False
        self._trying = True
        return True

    def succeeded(self) -> None:
        self._failures = 0
        self._opened_s = None
        self._trying = False

    def failed(self, began_s: float) -> None:
        """began_s: when the question that failed was asked, on the breaker's clock."""
        if self._failures == 0:
            self._first_failure_s = began_s
        self._failures += 1
        now = self._clock()
        if self._trying or (self._failures >= self._tolerated and now - self._first_failure_s >= self._stall_s):
            self._opened_s = now
        self._trying = False

    def gave_up(self) -> None:
        """The asker left before there was an outcome; the next one may try."""
        self._trying = False
