"""The Ledger as the memory store keeps it, in its plainest reading: what people said of entries, and receipts. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from cache.entry import Entry
from cache.evidence import Label
from cache.protocols import (
    ASKED,
    ASKED_S,
    BARRED_S,
    HIDDEN,
    LABELS,
    QUARANTINE,
    RECEIPTS,
    Receipt,
    Selection,
)
from cache.review import Complaint, Quarantined
from cache.store.record import complains, matches, named

K = TypeVar("K")
V = TypeVar("V")


class Notes:
    """Labels, hidden pairs, what is out of service, and who asked what; each in the order in which it was written."""

    def __init__(self) -> None:
        self._count = 0
        self._labels: dict[tuple[int, str], tuple[Label, str]] = {}  # (entry, principal) → with the comment
        self._hidden: dict[tuple[str, int], str] = {}  # (session, entry) → tenant
        self._out: dict[int, tuple[Quarantined, str, float]] = {}  # id → with the tenant, and until when
        self._asked: dict[tuple[str, str, str], float] = {}  # (tenant, place, principal) → when
        self._receipts: dict[str, Receipt] = {}

    def add(self, label: Label, session: str, comment: str) -> int:
        """Returns how many distinct principals call the entry wrong."""
        self._count += 1
        place = (label.entry_id, label.principal or f"#{self._count}")
        self._labels.pop(place, None)
        self._labels[place] = (label, comment)
        _trim(self._labels, LABELS)
        if session:
            self._hidden[session, label.entry_id] = label.tenant
            _trim(self._hidden, HIDDEN)
        return sum(complains(each) and each.entry_id == label.entry_id for each, _ in self._labels.values())

    def labels(self, since_s: float) -> list[Label]:
        found = [label for label, _ in self._labels.values() if label.at_s >= since_s]
        return sorted(found, key=lambda label: label.at_s)

    def hidden(self) -> list[tuple[str, int]]:
        return list(self._hidden)

    def complaints(self, limit: int) -> list[Complaint]:
        by_entry: dict[int, list[tuple[Label, str]]] = {}
        for label, comment in self._labels.values():
            if complains(label) and label.entry_id not in self._out:
                by_entry.setdefault(label.entry_id, []).append((label, comment))
        found = []
        for entry_id, said in by_entry.items():
            said.sort(key=lambda pair: pair[0].at_s, reverse=True)
            comments = tuple(comment for _, comment in said if comment)
            found.append(Complaint(entry_id, len(said), said[0][0].at_s, comments))
        return sorted(found, key=lambda each: each.at_s, reverse=True)[:limit]

    def out_of_service(self, entry_id: int) -> bool:
        """Whether this id must not be put."""
        return entry_id in self._out

    def quarantine(
        self, entry_ids: Sequence[int], entries: Mapping[int, Entry], reason: str, tenant: str, now_s: float
    ) -> None:
        """entries: those that are held."""
        for entry_id in entry_ids:
            entry = entries.get(entry_id)
            if entry_id not in self._out:
                until_s = now_s + BARRED_S if entry is None else entry.expires_s
                whose = tenant if entry is None else entry.scope.tenant
                self._out[entry_id] = (Quarantined(entry_id, reason, now_s, entry), whose, until_s)
        _trim(self._out, QUARANTINE)

    def quarantined(self, limit: int, now_s: float) -> list[Quarantined]:
        alive = [each for each, _, until_s in self._out.values() if until_s > now_s]
        return sorted(reversed(alive), key=lambda each: each.at_s, reverse=True)[:limit]

    def release(self, entry_id: int, now_s: float) -> Entry | None:
        """None where there is nothing to put back."""
        out = self._out.pop(entry_id, None)
        if out is None:
            return None
        for place in [place for place, (label, _) in self._labels.items() if label.entry_id == entry_id]:
            if complains(self._labels[place][0]):
                del self._labels[place]
        entry = out[0].entry
        return entry if entry is not None and entry.expires_s > now_s else None

    def asked_by(self, place: str, principal: str, tenant: str, now_s: float) -> int:
        self._asked.pop((tenant, place, principal), None)
        self._asked[tenant, place, principal] = now_s
        _trim(self._asked, ASKED)
        since_s = now_s - ASKED_S
        return sum(who[:2] == (tenant, place) and at_s > since_s for who, at_s in self._asked.items())

    def note_receipts(self, noted: Sequence[Receipt]) -> None:
        for each in noted:
            self._receipts.pop(each.name, None)
            self._receipts[each.name] = each
        _trim(self._receipts, RECEIPTS)

    def receipts(self, names: Sequence[str], entries: Mapping[int, Entry], now_s: float) -> list[Receipt]:
        """entries: those that are held."""
        found = (self._receipts.get(name) for name in dict.fromkeys(names))
        known = [(each.name, entries[each.entry_id]) for each in found if each is not None and each.entry_id in entries]
        return [Receipt(name, entry.id, entry.expires_s) for name, entry in known if entry.expires_s > now_s]

    def forget(self, selection: Selection, gone: Sequence[int]) -> tuple[int, ...]:
        """gone: entries that matched.  Returns the quarantined ones that did."""
        dropped = []
        for entry_id, (out, tenant, until_s) in list(self._out.items()):
            if out.entry is not None:
                if matches(selection, out.entry):
                    dropped.append(entry_id)
                    del self._out[entry_id]
            elif _covers(selection, entry_id, tenant, None, until_s):
                del self._out[entry_id]
        ended = {*gone, *dropped, *named(selection)}
        self._receipts = {name: each for name, each in self._receipts.items() if each.entry_id not in ended}
        if selection.expired_by_s is not None:
            return tuple(dropped)
        wide = selection.whole
        for place, (label, _) in list(self._labels.items()):
            if label.entry_id in ended or (wide and _covers(selection, label.entry_id, label.tenant, label.model)):
                del self._labels[place]
        for pair, tenant in list(self._hidden.items()):
            if pair[1] in ended or (wide and selection.model is None and selection.tenant in (None, tenant)):
                del self._hidden[pair]
        if wide and selection.model is None:
            self._asked = {who: at_s for who, at_s in self._asked.items() if selection.tenant not in (None, who[0])}
        return tuple(dropped)


def _covers(selection: Selection, entry_id: int, tenant: str, model: str | None, until_s: float | None = None) -> bool:
    """Does the selection speak of something that has no scope? What is not known of it matches no wish for it."""
    known_of_it = (selection.scope_key, selection.tag, selection.unless, selection.before_s)
    return (
        all(each is None for each in known_of_it)
        and (selection.ids is None or entry_id in selection.ids)
        and selection.tenant in (None, tenant)
        and selection.model in (None, model)
        and (selection.expired_by_s is None or (until_s is not None and until_s <= selection.expired_by_s))
    )


def _trim(kept: dict[K, V], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
