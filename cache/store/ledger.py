"""The SQL of what people say of entries: labels, quarantine, what sessions hid, who asked what, receipts.

These tables stand beside the entries, in the same file and on the same thread. They came later than the entries did, so
they are made where they are missing. Whoever calls holds the transaction.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

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
from cache.store.record import COLUMNS, complains, from_columns, label_from_text, label_to_text

_LAYOUT: Final = """
CREATE TABLE IF NOT EXISTS quarantine (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE, reason TEXT NOT NULL, at_s REAL NOT NULL,
    tenant TEXT NOT NULL, model TEXT, scope TEXT, key TEXT,
    kind TEXT, text TEXT, proof TEXT, wording TEXT, reach INTEGER,
    tokens INTEGER, prompt_tokens INTEGER, created_s REAL, expires_s REAL NOT NULL,
    embedder TEXT, tags TEXT, vector BLOB, body BLOB
);
CREATE INDEX IF NOT EXISTS quarantine_expires ON quarantine (expires_s);
CREATE TABLE IF NOT EXISTS label (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, principal TEXT NOT NULL, complaint INTEGER NOT NULL,
    at_s REAL NOT NULL, tenant TEXT NOT NULL, model TEXT NOT NULL, label TEXT NOT NULL, comment TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS label_once ON label (entry, principal) WHERE principal <> '';
CREATE INDEX IF NOT EXISTS label_complaint ON label (entry, at_s) WHERE complaint;
CREATE INDEX IF NOT EXISTS label_entry ON label (entry);
CREATE TABLE IF NOT EXISTS hidden (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, entry INTEGER NOT NULL, tenant TEXT NOT NULL,
    UNIQUE (session, entry)
);
CREATE INDEX IF NOT EXISTS hidden_entry ON hidden (entry);
CREATE TABLE IF NOT EXISTS asked (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, place TEXT NOT NULL, principal TEXT NOT NULL,
    at_s REAL NOT NULL, UNIQUE (tenant, place, principal)
);
CREATE TABLE IF NOT EXISTS receipt (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, entry INTEGER NOT NULL, expires_s REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS receipt_entry ON receipt (entry);
CREATE INDEX IF NOT EXISTS receipt_expires ON receipt (expires_s);
"""

_ALL = ", ".join(COLUMNS)
_LIGHT = _ALL.replace("vector", "NULL")
_TAKE = f"INSERT INTO quarantine (reason, at_s, {_ALL}) SELECT ?, ?, {_ALL} FROM entry WHERE id = ?"
_BAR = "INSERT OR IGNORE INTO quarantine (reason, at_s, id, tenant, expires_s) VALUES (?, ?, ?, ?, ?)"
_COMPLAINTS = """
SELECT entry, count(*), max(at_s) AS latest FROM label INDEXED BY label_complaint
WHERE complaint AND NOT EXISTS (SELECT 1 FROM quarantine WHERE id = entry) GROUP BY entry ORDER BY latest DESC LIMIT ?
"""


class Ledger:
    """Of one open database, used by one thread. Raises sqlite3.Error; the store translates it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def create(self) -> None:
        """Make the tables, where they are missing."""
        for statement in _LAYOUT.split(";"):
            self._db.execute(statement)

    # ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, label: Label, session: str, comment: str) -> int:
        """Returns how many distinct principals call the entry wrong."""
        if label.principal:
            known = (label.entry_id, label.principal)
            self._db.execute("DELETE FROM label WHERE entry = ? AND principal = ? AND principal <> ''", known)
        row = (
            label.entry_id, label.principal, complains(label), label.at_s, label.tenant, label.model,
            label_to_text(label), comment,
        )  # fmt: skip
        self._db.execute(
            "INSERT INTO label (entry, principal, complaint, at_s, tenant, model, label, comment) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row,
        )  # fmt: skip
        self._trim("label", LABELS)
        if session:
            pair = (session, label.entry_id, label.tenant)
            self._db.execute("REPLACE INTO hidden (session, entry, tenant) VALUES (?, ?, ?)", pair)
            self._trim("hidden", HIDDEN)
        found = self._db.execute("SELECT count(*) FROM label WHERE entry = ? AND complaint", (label.entry_id,))
        return int(found.fetchone()[0])

    def labels(self, since_s: float) -> list[Label]:
        found = self._db.execute("SELECT label FROM label WHERE at_s >= ? ORDER BY at_s, seq", (since_s,))
        return [label_from_text(text) for (text,) in found]

    def hidden(self) -> list[tuple[str, int]]:
        return self._db.execute("SELECT session, entry FROM hidden ORDER BY seq").fetchall()

    def complaints(self, limit: int) -> list[Complaint]:
        found = self._db.execute(_COMPLAINTS, (limit,)).fetchall()
        return [Complaint(entry_id, count, at_s, self._comments(entry_id)) for entry_id, count, at_s in found]

    def _comments(self, entry_id: int) -> tuple[str, ...]:
        query = "SELECT comment FROM label WHERE entry = ? AND complaint AND comment <> '' ORDER BY at_s DESC"
        return tuple(comment for (comment,) in self._db.execute(query, (entry_id,)))

    # ── quarantine ───────────────────────────────────────────────────────────────────────────────────────────────

    def out_of_service(self, entry_id: int) -> bool:
        """Whether this id must not be put."""
        return self._db.execute("SELECT 1 FROM quarantine WHERE id = ?", (entry_id,)).fetchone() is not None

    def take(self, entry_id: int, reason: str, now_s: float) -> bool:
        """Copy an entry from where it is held; the caller deletes it there. Returns whether it was held."""
        return self._db.execute(_TAKE, (reason, now_s, entry_id)).rowcount > 0

    def bar(self, entry_id: int, reason: str, tenant: str, now_s: float) -> None:
        """This id must not be put, whatever comes under it."""
        self._db.execute(_BAR, (reason, now_s, entry_id, tenant, now_s + BARRED_S))

    def settle(self) -> None:
        """Keep the newest that are out of service."""
        self._trim("quarantine", QUARANTINE)

    def quarantined(self, limit: int, now_s: float) -> list[Quarantined]:
        query = f"SELECT reason, at_s, {_LIGHT} FROM quarantine WHERE expires_s > ? ORDER BY at_s DESC, seq DESC"
        return [
            Quarantined(row[2], row[0], row[1], None if row[-1] is None else from_columns(row[2:]))
            for row in self._db.execute(f"{query} LIMIT ?", (now_s, limit))
        ]

    def give_back(self, entry_id: int, now_s: float) -> Entry | None:
        """The entry, out of here and with the complaints dropped; None where there is nothing that can be put back."""
        row = self._db.execute(f"SELECT {_ALL}, expires_s FROM quarantine WHERE id = ?", (entry_id,)).fetchone()
        if row is None:
            return None
        self._db.execute("DELETE FROM quarantine WHERE id = ?", (entry_id,))
        self._db.execute("DELETE FROM label WHERE entry = ? AND complaint", (entry_id,))
        *columns, expires_s = row
        return from_columns(columns) if columns[-1] is not None and expires_s > now_s else None

    # ── who asked ────────────────────────────────────────────────────────────────────────────────────────────────

    def asked_by(self, place: str, principal: str, tenant: str, now_s: float) -> int:
        self._db.execute(
            "REPLACE INTO asked (tenant, place, principal, at_s) VALUES (?, ?, ?, ?)", (tenant, place, principal, now_s)
        )
        self._trim("asked", ASKED)
        query = "SELECT count(*) FROM asked WHERE tenant = ? AND place = ? AND at_s > ?"
        return int(self._db.execute(query, (tenant, place, now_s - ASKED_S)).fetchone()[0])

    # ── receipts ─────────────────────────────────────────────────────────────────────────────────────────────────

    def note_receipts(self, noted: Sequence[Receipt]) -> None:
        rows = [(each.name, each.entry_id, each.expires_s) for each in noted]
        self._db.executemany("REPLACE INTO receipt (name, entry, expires_s) VALUES (?, ?, ?)", rows)
        self._trim("receipt", RECEIPTS)

    def receipts(self, names: Sequence[str], now_s: float) -> list[Receipt]:
        """At most some hundreds of names."""
        query = (
            "SELECT receipt.name, entry.id, entry.expires_s FROM receipt JOIN entry ON entry.id = receipt.entry "
            f"WHERE receipt.name IN ({', '.join('?' * len(names))}) AND entry.expires_s > ?"
        )
        return [Receipt(*row) for row in self._db.execute(query, (*names, now_s))]

    # ── erasing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def forget(self, selection: Selection) -> tuple[int, ...]:
        """Delete what is quarantined and matches, and the labels of a tenant or a model that is forgotten whole.
        Returns the quarantined ones."""
        terms, values = _terms(selection, ("tenant", "model", "scope", "expires_s", "tags", "created_s"))
        if selection.expired_by_s is not None:
            self._db.execute("DELETE FROM receipt WHERE expires_s <= ?", (selection.expired_by_s,))
        dropped = self._among("quarantine", "id", selection.ids, terms, values)
        if selection.whole:
            terms, values = _terms(selection, ("tenant", "model"))
            self._db.execute(f"DELETE FROM label WHERE {terms}", values)
            if selection.model is None:
                self._db.execute(f"DELETE FROM hidden WHERE {terms}", values)
                self._db.execute(f"DELETE FROM asked WHERE {terms}", values)
        return tuple(entry_id for entry_id, held in dropped if held)

    def erase(self, entry_ids: Sequence[int]) -> None:
        """Delete what was said of these entries."""
        each = [(entry_id,) for entry_id in entry_ids]
        self._db.executemany("DELETE FROM label WHERE entry = ?", each)
        self._db.executemany("DELETE FROM hidden WHERE entry = ?", each)
        self._db.executemany("DELETE FROM receipt WHERE entry = ?", each)

    def _among(
        self, table: str, column: str, ids: Sequence[int] | None, terms: str, values: Sequence[object]
    ) -> list[tuple[int, bool]]:
        """Delete what matches. Returns (id, whether an answer was held under it)."""
        query = f"DELETE FROM {table} WHERE {terms}"
        back = f" RETURNING {column}, body IS NOT NULL"
        if ids is None:
            return self._db.execute(query + back, values).fetchall()
        found = (self._db.execute(f"{query} AND {column} = ?{back}", (*values, each)).fetchall() for each in ids)
        return [each for some in found for each in some]

    def _trim(self, table: str, most: int) -> None:
        # Rows are numbered without reuse, so the newest have the highest numbers and nothing has to be counted.
        newest = f"SELECT seq FROM {table} ORDER BY seq DESC LIMIT 1 OFFSET ?"
        if self._db.execute(f"SELECT max(seq) - min(seq) >= ? FROM {table}", (most,)).fetchone()[0]:
            self._db.execute(f"DELETE FROM {table} WHERE seq <= ({newest})", (most,))


def _terms(selection: Selection, columns: Sequence[str]) -> tuple[str, list[object]]:
    wanted = {"tenant": selection.tenant, "model": selection.model, "scope": selection.scope_key}
    terms = [f"{name} = ?" for name, value in wanted.items() if name in columns and value is not None]
    values: list[object] = [value for name, value in wanted.items() if name in columns and value is not None]
    if "expires_s" in columns and selection.expired_by_s is not None:
        terms.append("expires_s <= ?")
        values.append(selection.expired_by_s)
    if "created_s" in columns and selection.before_s is not None:
        terms.append("created_s < ?")
        values.append(selection.before_s)
    for name, kept in ((selection.tag, "IN"), (selection.unless, "NOT IN")):
        if "tags" in columns and name is not None:
            terms.append(f"? {kept} (SELECT value FROM json_each(coalesce(tags, '[]')))")
            values.append(name)
    return " AND ".join(terms) or "TRUE", values
