"""The SQL of the durable store: every statement, and nothing about threads or event loops.

`seq` is the position of a put: AUTOINCREMENT never gives a number twice, whatever was deleted. `embedder` and `vector`
are set on searchable entries only, so the partial index over them is the list of what an index must hold.
Deleted content is overwritten (secure_delete), because people have the right to be forgotten in the file as well.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from cache.entry import Entry
from cache.errors import StateError
from cache.protocols import Row, Selection
from cache.question import Scope
from cache.store.ledger import Ledger
from cache.store.record import COLUMNS, SCHEMA, from_columns, to_columns, unpack
from cache.worth import Capacity, Departed, gain_of, later, size_of, window

T = TypeVar("T")
_OLDEST: Final = 2  # schema that can be migrated
CHUNK: Final = 500  # ids or rows a statement; SQLite's oldest limit is 999 parameters

_LAYOUT: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entry (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id INTEGER NOT NULL UNIQUE,
    tenant TEXT NOT NULL, model TEXT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL,
    kind TEXT NOT NULL, text TEXT, proof TEXT NOT NULL, wording TEXT, reach INTEGER NOT NULL,
    tokens INTEGER, prompt_tokens INTEGER, created_s REAL NOT NULL, expires_s REAL NOT NULL,
    embedder TEXT, tags TEXT NOT NULL, vector BLOB, body BLOB NOT NULL, worth REAL NOT NULL, size INTEGER NOT NULL,
    UNIQUE (tenant, model, scope, key)
);
CREATE INDEX entry_wording ON entry (scope, wording, created_s) WHERE wording IS NOT NULL;
CREATE INDEX entry_created ON entry (created_s, seq);
CREATE INDEX entry_worth ON entry (worth, seq, size);
CREATE INDEX entry_expires ON entry (expires_s);
CREATE INDEX entry_searchable ON entry (embedder, seq, expires_s, id) WHERE embedder IS NOT NULL;
"""
_TAGGED: Final = """
CREATE TABLE tagged (
    name TEXT NOT NULL, seq INTEGER NOT NULL REFERENCES entry (seq) ON DELETE CASCADE, PRIMARY KEY (name, seq)
) WITHOUT ROWID;
CREATE INDEX tagged_seq ON tagged (seq);
"""

_ALL = ", ".join(COLUMNS)
_LIGHT = _ALL.replace("vector", "NULL")  # a found entry is served; its vector is not needed for that
_PLACE = "tenant = ? AND model = ? AND scope = ?"
_INSERT = f"INSERT INTO entry ({_ALL}, worth, size) VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"
_SAME = f"SELECT seq, id, size FROM entry WHERE {_PLACE} AND key = ? UNION SELECT seq, id, size FROM entry WHERE id = ?"
_LEAST = """
SELECT seq, id, size, worth, tenant, model, scope, key FROM entry WHERE seq <= ? ORDER BY worth, seq LIMIT 1
"""
_WORTH = "SELECT worth FROM entry WHERE id = ?"
_USES, _BYTES = "uses", "bytes"  # the names under which they are kept
# One statement, so that the answer costs one round through the interpreter lock, which a busy event loop holds.
_FIND = f"""
SELECT * FROM (SELECT seq, {_LIGHT} FROM entry WHERE {_PLACE} AND key = ? AND expires_s > ?)
UNION ALL
SELECT * FROM (SELECT seq, {_LIGHT} FROM entry INDEXED BY entry_wording
    WHERE wording = ? AND {_PLACE} AND created_s >= ? AND expires_s > ? ORDER BY created_s DESC, seq DESC LIMIT 1)
"""
_ROWS = """
SELECT seq, id, tenant, model, scope, vector FROM entry
WHERE embedder = ? AND seq > ? AND expires_s > ? ORDER BY seq LIMIT ?
"""
_IDS = "SELECT id, seq FROM entry WHERE embedder = ? AND seq > ? AND expires_s > ? ORDER BY seq LIMIT ?"


class Tables:
    """One open database, used by one thread. Raises sqlite3.Error; the store translates it."""

    def __init__(self, path: Path, capacity: Capacity) -> None:
        self._capacity = capacity
        self._db = sqlite3.connect(path, isolation_level=None, cached_statements=64, check_same_thread=True)
        try:
            for setting in (
                "auto_vacuum = INCREMENTAL",  # only heeded while the file is empty
                "journal_mode = WAL",
                "synchronous = NORMAL",  # survives kill -9; a power cut may take the last commits
                "secure_delete = ON",
                "foreign_keys = ON",
                "cache_size = -32000",
                "temp_store = MEMORY",
                "busy_timeout = 1000",  # someone may look into the file with the sqlite3 tool
            ):
                self._db.execute(f"PRAGMA {setting}").fetchall()
            self.fresh = self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
            self._held, self._bytes, self._uses = 0, 0, 0
            self._departed = Departed(capacity.remembered)
            self.ledger = Ledger(self._db)
        except BaseException:
            self._db.close()
            raise

    def create(self, meta: dict[str, str]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            for statement in f"{_LAYOUT}{_TAGGED}".split(";"):
                self._db.execute(statement)
            self._db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())

    def migrate(self) -> None:
        """From schema 2, in which nothing had a tag: all of it, or nothing."""
        with self.transaction():
            tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            for table in ("entry", "quarantine"):
                columns = {row[1] for row in self._db.execute(f"PRAGMA table_info({table})")}
                if table in tables and "tags" not in columns:
                    self._db.execute(f"ALTER TABLE {table} ADD COLUMN tags TEXT NOT NULL DEFAULT '[]'")
            for statement in _TAGGED.split(";") if "tagged" not in tables else ():
                self._db.execute(statement)
            self.note("schema", str(SCHEMA))

    def count_held(self) -> None:
        """To be called once the layout is known to be ours. After a clean end the bytes need no summing up."""
        noted = self.meta()
        self._uses = int(noted.get(_USES, 0))
        self._held = self._db.execute("SELECT count(*) FROM entry").fetchone()[0]
        if _BYTES in noted:
            self._bytes = int(noted[_BYTES])
            self._db.execute("DELETE FROM meta WHERE name = ?", (_BYTES,))
        else:
            self._bytes = self._db.execute("SELECT coalesce(sum(size), 0) FROM entry").fetchone()[0]

    def meta(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT name, value FROM meta").fetchall())

    def note(self, name: str, value: str) -> None:
        self._db.execute("REPLACE INTO meta VALUES (?, ?)", (name, value))

    def damage(self) -> str | None:
        """What SQLite finds wrong with the file, or None. Reads all of it: about a second a gigabyte."""
        finding = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        return None if finding == "ok" else str(finding)

    def close(self) -> None:
        """Fold the log into the file, then let go of both."""
        try:
            if self._uses:
                self.note(_USES, str(self._uses))
                self.note(_BYTES, str(self._bytes))
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done inside happens whole or, when this raises, not at all."""
        held, size = self._held, self._bytes
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._held, self._bytes = held, size
            if self._db.in_transaction:  # SQLite has already rolled back after some errors, such as a full disk
                self._db.execute("ROLLBACK")
            raise

    def put(self, entries: Sequence[Entry]) -> list[tuple[int, ...]]:
        """Keep all of them or, when this raises, none. Returns for each the ids that it ended."""
        with self.transaction():
            return [self._put(entry) for entry in entries]

    def _put(self, entry: Entry) -> tuple[int, ...]:
        if self.ledger.out_of_service(entry.id):
            return (entry.id,)
        values = to_columns(entry)
        scope = entry.scope
        ended = self._db.execute(_SAME, (scope.tenant, scope.model, scope.key, entry.key, entry.id)).fetchall()
        self._delete(ended)
        self._uses += 1
        before = self._departed.back(hash((scope.tenant, scope.model, scope.key, entry.key)))
        worth, size = later(before, self._uses / self._capacity.half_life + gain_of(entry)), size_of(entry)
        seq = self._db.execute(_INSERT, (*values, worth, size)).lastrowid or 0
        self._db.executemany("INSERT INTO tagged VALUES (?, ?)", [(name, seq) for name in entry.tags])
        self._held += 1
        self._bytes += size
        while self._capacity.exceeded(self._held, self._bytes):
            least = self._db.execute(_LEAST, (seq - window(self._held),)).fetchone()
            if least is None:
                break  # all that there are are too new to leave
            self._departed.left(hash(least[4:]), least[3])
            self._delete([least[:3]])
            ended.append(least[:3])
        return tuple(entry_id for _, entry_id, _ in ended if entry_id != entry.id)

    def use(self, uses: Sequence[tuple[int, float]], number: int) -> None:
        """What was used is worth more."""
        self._uses += number
        moment = self._uses / self._capacity.half_life
        with self.transaction():
            for entry_id, weight in uses:
                held = self._db.execute(_WORTH, (entry_id,)).fetchone()
                if held is not None:
                    worth = later(held[0], moment + weight)
                    self._db.execute("UPDATE entry SET worth = ? WHERE id = ?", (worth, entry_id))
            self.note(_USES, str(self._uses))

    def _delete(self, found: Sequence[tuple[int, int, int]]) -> None:
        """found: seq, id, size."""
        if found:
            self._db.executemany("DELETE FROM entry WHERE seq = ?", [(seq,) for seq, _, _ in found])
            self._held -= len(found)
            self._bytes -= sum(size for _, _, size in found)

    def find(self, scope: Scope, key: str, wording: str | None, since_s: float, now_s: float) -> list[Entry]:
        place = (scope.tenant, scope.model, scope.key)
        found = self._db.execute(_FIND, (*place, key, now_s, wording, *place, since_s, now_s)).fetchall()
        if len(found) == 2 and found[0][0] == found[1][0]:
            del found[1]
        return [from_columns(row[1:]) for row in found]

    def get(self, entry_ids: Sequence[int], now_s: float) -> list[Entry]:
        """At most CHUNK ids."""
        marks = ", ".join("?" * len(entry_ids))
        query = f"SELECT {_LIGHT} FROM entry WHERE id IN ({marks}) AND expires_s > ?"
        found = {row[0]: from_columns(row) for row in self._db.execute(query, (*entry_ids, now_s))}
        return [found[each] for each in entry_ids if each in found]

    def matching(self, selection: Selection) -> list[int]:
        """The positions of all entries that match."""
        wanted = {
            "tenant": selection.tenant, "model": selection.model, "scope": selection.scope_key,
        }  # fmt: skip
        terms = [f"{column} = ?" for column, value in wanted.items() if value is not None]
        values: list[Any] = [value for value in wanted.values() if value is not None]
        if selection.expired_by_s is not None:
            terms.append("expires_s <= ?")
            values.append(selection.expired_by_s)
        if selection.before_s is not None:
            terms.append("created_s < ?")
            values.append(selection.before_s)
        for name, kept in ((selection.tag, "IN"), (selection.unless, "NOT IN")):
            if name is not None:
                terms.append(f"seq {kept} (SELECT seq FROM tagged WHERE name = ?)")
                values.append(name)
        # Only `seq` is asked for, so that an index alone answers: a scan of the entries would read every body.
        query = f"SELECT seq FROM entry WHERE {' AND '.join(terms) or 'TRUE'}"
        if selection.ids is None:
            return [seq for (seq,) in self._db.execute(query, values)]
        query += " AND id = ?"
        found = (self._db.execute(query, (*values, each)).fetchone() for each in dict.fromkeys(selection.ids))
        return [each[0] for each in found if each is not None]

    def delete(self, places: Sequence[int]) -> tuple[int, ...]:
        """Delete the entries at these positions, as far as they still exist. Returns their ids."""
        with self.transaction():
            marks = ", ".join("?" * len(places))
            found = self._db.execute(f"SELECT seq, id, size FROM entry WHERE seq IN ({marks})", places).fetchall()
            self._delete(found)
        return tuple(entry_id for _, entry_id, _ in found)

    def quarantine(self, entry_ids: Sequence[int], reason: str, tenant: str, now_s: float) -> tuple[int, ...]:
        """Out of service, all of them or, when this raises, none. Returns those that were held."""
        taken = []
        with self.transaction():
            for entry_id in dict.fromkeys(entry_ids):
                if self.ledger.out_of_service(entry_id):
                    continue
                if self.ledger.take(entry_id, reason, now_s):
                    taken.append(entry_id)
                    found = self._db.execute("SELECT seq, id, size FROM entry WHERE id = ?", (entry_id,)).fetchall()
                    self._delete(found)
                else:
                    self.ledger.bar(entry_id, reason, tenant, now_s)
            self.ledger.settle()
        return tuple(taken)

    def release(self, entry_id: int, now_s: float) -> tuple[Entry, tuple[int, ...]] | None:
        """Back in service."""
        with self.transaction():
            entry = self.ledger.give_back(entry_id, now_s)
            return None if entry is None else (entry, self._put(entry))

    def noted(self, work: Callable[[Ledger], T]) -> T:
        """Something in the ledger, in one transaction."""
        with self.transaction():
            return work(self.ledger)

    def tidy(self, pages: int = 2000) -> bool:
        """Give some free pages back to the disk, and empty the log so that nothing deleted is left in it. Returns
        whether much of the file is still free."""
        self._db.executescript(f"PRAGMA incremental_vacuum({pages})")  # `execute` would end after one page
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        free, held = (self._db.execute(f"PRAGMA {each}").fetchone()[0] for each in ("freelist_count", "page_count"))
        return bool(free > max(pages, held / 4))

    def rows(self, embedder: str, after: int, now_s: float, limit: int) -> tuple[list[Row], int]:
        """The next rows, and the position to go on from; fewer than `limit` rows are the last ones."""
        found = self._db.execute(_ROWS, (embedder, after, now_s, limit)).fetchall()
        rows = [Row(each[1], Scope(*each[2:5]), unpack(each[5])) for each in found]
        return rows, found[-1][0] if found else after

    def ids(self, embedder: str, after: int, now_s: float, limit: int) -> tuple[list[int], int]:
        found = self._db.execute(_IDS, (embedder, after, now_s, limit)).fetchall()
        return [each[0] for each in found], found[-1][1] if found else after

    def position(self) -> int:
        found = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
        return found[0] if found else 0

    def count(self) -> int:
        return self._held


def admit(tables: Tables, key_version: int, fingerprints: Sequence[str]) -> str | None:
    """May this state be used? Returns None, or why it must be moved aside. Raises StateError when a person must decide.

    fingerprints: of the secret in use, then of earlier ones; state made with an earlier one is taken over."""
    if tables.fresh:
        tables.create({"schema": str(SCHEMA), "keys": str(key_version), "secret": fingerprints[0]})
        return None
    meta = tables.meta()
    schema, keys = int(meta["schema"]), int(meta["keys"])
    if schema > SCHEMA or keys > key_version:
        raise StateError(
            f"the stored answers were made by a newer version (schema {schema}, keys {keys}; this version reads "
            f"schema {SCHEMA}, keys {key_version}). Install that version again, or name another state directory"
        )
    if schema < _OLDEST or keys < key_version:
        return f"made by an older version (schema {schema}, keys {keys})"
    if meta["secret"] not in fingerprints:
        raise StateError(
            "the stored answers were made with another secret. Give that secret back, or name another state_dir to "
            "start anew"
        )
    if meta["secret"] != fingerprints[0]:
        tables.note("secret", fingerprints[0])
    if schema < SCHEMA:
        tables.migrate()
    return None
