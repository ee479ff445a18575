"""The file behind a ledger: one SQLite data base, locked by SQLite itself."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from skfairdp.exceptions import LedgerError
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.entry import COMMITTED, RESERVED, Entry
from skfairdp.privacy.ledger.totals import Budget

__all__ = ["Store", "reading", "writing"]

APPLICATION = 0x5AFA1EDB  # in the file's header, so that another data base is told apart
VERSION = 1
# A composition is computed while others wait: seconds each, for dozens of workers.
PATIENCE = 600.0

COLUMNS = tuple(field.name for field in dataclasses.fields(Entry))
_COLUMNS = ", ".join(COLUMNS)
SCHEMA = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    data_set TEXT NOT NULL,
    activity TEXT NOT NULL,
    estimator TEXT NOT NULL,
    guarantee TEXT,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'committed')),
    ordinal INTEGER NOT NULL,
    reserved_at TEXT NOT NULL,
    committed_at TEXT
);
CREATE TABLE budgets (
    data_set TEXT PRIMARY KEY,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    adjacency TEXT,
    protects TEXT
);
"""


class _Damaged(Exception):
    """An entry that nobody of us has written."""


class Store:
    """Statements on an open ledger file.

    Parameters
    ----------
    connection : sqlite3.Connection or None
        Open, inside a transaction if it writes. None stands for a file that does not
        exist, which has no entries.
    """

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._connection = connection

    def entries(self, data_set: str) -> tuple[Entry, ...]:
        """All entries of a data set, oldest first."""
        query = f"SELECT {_COLUMNS} FROM entries WHERE data_set = ? ORDER BY number"
        rows = self._rows(query, data_set)
        return tuple(_entry(row) for row in rows)

    def data_sets(self) -> tuple[str, ...]:
        """Names of all data sets that have entries or a budget, sorted."""
        query = "SELECT data_set FROM entries UNION SELECT data_set FROM budgets ORDER BY 1"
        return tuple(row[0] for row in self._rows(query))

    def committed(self, data_set: str) -> int:
        """Number of committed entries."""
        query = "SELECT COUNT(*) FROM entries WHERE data_set = ? AND state = ?"
        rows = self._rows(query, data_set, COMMITTED)
        return int(rows[0][0]) if rows else 0

    def budget(self, data_set: str) -> Budget | None:
        """Budget of a data set."""
        query = "SELECT epsilon, delta, adjacency, protects FROM budgets WHERE data_set = ?"
        rows = self._rows(query, data_set)
        try:
            return Budget(*rows[0]) if rows else None
        except (ValueError, TypeError) as error:
            raise _Damaged(f"the budget of {data_set!r} cannot be read ({error})") from error

    def set_budget(self, data_set: str, budget: Budget) -> None:
        """Write the budget of a data set."""
        figures = (budget.epsilon, budget.delta, budget.adjacency, budget.protects)
        self._rows("INSERT OR REPLACE INTO budgets VALUES (?, ?, ?, ?, ?)", data_set, *figures)

    def reserve(
        self, data_set: str, activity: str, estimator: str, guarantee: PrivacyGuarantee | None
    ) -> Entry:
        """Add an entry that is charged from now on."""
        stated = None if guarantee is None else json.dumps(guarantee.to_dict(), allow_nan=False)
        # The ordinal is counted within the transaction: no two entries share one.
        rows = self._rows(
            "INSERT INTO entries (data_set, activity, estimator, guarantee, state, ordinal,"
            " reserved_at) SELECT ?, ?, ?, ?, ?, COUNT(*) + 1, ? FROM entries"
            " WHERE data_set = ? AND activity = ? RETURNING " + _COLUMNS,
            *(data_set, activity, estimator, stated, RESERVED, _now(), data_set, activity),
        )
        return _entry(rows[0])

    def commit(self, number: int) -> Entry | None:
        """Mark an entry as done; None if there is no such reservation."""
        query = "UPDATE entries SET state = ?, committed_at = ? WHERE number = ? AND state = ?"
        rows = self._rows(f"{query} RETURNING {_COLUMNS}", COMMITTED, _now(), number, RESERVED)
        return _entry(rows[0]) if rows else None

    def _rows(self, query: str, *values: object) -> list[tuple]:
        if self._connection is None:
            return []
        return self._connection.execute(query, values).fetchall()


@contextmanager
def writing(path: Path) -> Iterator[Store]:
    """Open a ledger for one exclusive transaction, and create the file if need be.

    Parameters
    ----------
    path : Path
        The file.

    Yields
    ------
    Store
        All is written when the block ends, and nothing if it fails.

    Raises
    ------
    LedgerError
        The file cannot be written, or is no ledger of this version.
    """
    with _explained(path, "write"):
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        with closing(connection):
            # A charge must be on the disk before a row is used: wait for it.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            try:
                _check_or_create(connection, path)
                yield Store(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


@contextmanager
def reading(path: Path) -> Iterator[Store]:
    """Open a ledger for reading; a file that does not exist has no entries.

    Parameters
    ----------
    path : Path
        The file.

    Yields
    ------
    Store

    Raises
    ------
    LedgerError
        The file cannot be read, or is no ledger of this version.
    """
    if not path.exists():
        yield Store(None)
        return
    with _explained(path, "read"):
        # What a killed process left half written is taken back, which needs to write.
        mode = "rw" if os.access(path, os.W_OK) else "ro"
        uri = f"{path.as_uri()}?mode={mode}"
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as connection:
            if _is_empty(connection):
                yield Store(None)
                return
            _check(connection, path)
            yield Store(connection)


@contextmanager
def _explained(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise LedgerError(
            f"Cannot {doing} the privacy ledger {str(path)!r}: {error}. Its folder must exist and "
            "be writable, the file too, and no other program may hold it locked."
        ) from error
    except (sqlite3.DatabaseError, _Damaged) as error:
        raise LedgerError(
            f"The file {str(path)!r} is not a readable privacy ledger: {error}. Restore it from a "
            "backup, and don't start anew: what was spent on the data is spent."
        ) from error


def _check_or_create(connection: sqlite3.Connection, path: Path) -> None:
    if not _is_empty(connection):
        _check(connection, path)
        return
    for statement in SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0


def _check(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    if found != APPLICATION:
        raise LedgerError(
            f"The file {str(path)!r} is an SQLite data base of another program, not a privacy "
            "ledger. Name a ledger, or a file that does not exist yet."
        )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise LedgerError(
            f"The privacy ledger {str(path)!r} has version {version}; this skfairdp reads and "
            f"writes version {VERSION}. Use the skfairdp that wrote it, or a newer one."
        )
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    missing = {"entries", "budgets"} - {name for (name,) in tables}
    if missing:
        raise _Damaged(f"it has lost its {' and '.join(sorted(missing))}")


def _entry(row: tuple) -> Entry:
    values = dict(zip(COLUMNS, row, strict=True))
    try:
        if not all(isinstance(values[name], str) for name in ("activity", "estimator", "state")):
            raise TypeError("a name is no text")
        if values["guarantee"] is not None:
            values["guarantee"] = json.loads(values["guarantee"])
        return Entry.from_dict(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _Damaged(f"entry {row[0]} cannot be read ({error})") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
