"""Which entries were served, told to the store now and then: what is used stays, see `cache.worth`.

Noting is on the way of every hit, so it appends and nothing more.
"""

import logging
import math
from collections import Counter

from cache.entry import Entry
from cache.errors import StoreUnavailable
from cache.protocols import EntryStore
from cache.question import Reach
from cache.worth import gain_of

log = logging.getLogger(__name__)

_MOST = 100_000  # uses that wait to be told; beyond that they are not counted


class Uses:
    """Of one process. What was not told when the store is away is lost: it would only have said what to keep."""

    def __init__(self, store: EntryStore) -> None:
        self._store = store
        self._served: list[Entry] = []

    def note(self, entry: Entry) -> None:
        """This entry was served."""
        if len(self._served) < _MOST:
            self._served.append(entry)

    async def flush(self) -> None:
        """Tell the store."""
        served, self._served = [each for each in self._served if each.reach >= Reach.RECENT], []
        if not served:
            return
        gains = {entry.id: gain_of(entry) for entry in served}
        times = Counter(entry.id for entry in served)
        uses = [(entry_id, gains[entry_id] + math.log2(number)) for entry_id, number in times.items()]
        try:
            await self._store.use(uses, len(served))
        except StoreUnavailable as trouble:
            log.debug("uses of %d entries were not counted: %s", len(uses), trouble)
