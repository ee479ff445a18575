"""The file behind a ledger: one SQLite data base, locked by SQLite itself."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from skfairdp.exceptions import LedgerError
from skfairdp.privacy.ledger.open_records import Store
from skfairdp.privacy.ledger.records import APPLICATION, VERSION, Damaged, Record, create, verified

# Bytes of a page of SQLite, at least. It would take less for a new data base.
SHORTEST = 512
# A composition is computed while others wait: seconds each, for dozens of workers.
PATIENCE = 600.0


@contextmanager
def writing(path: Path, *, new: bool = True) -> Iterator[Store]:
    """Open a ledger for one exclusive transaction: all is written at its end, or nothing.

    `new`: whether a file that does not exist is made.
    """
    if new:
        with _explained(path, "write"):
            create(path)
    with _explained(path, "write"), closing(_connected(path, "rw")) as connection:
        # A charge must be on the disk before a row is used: wait for it.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield Store(connection, _checked(connection, path))
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


@contextmanager
def reading(path: Path) -> Iterator[Store]:
    """Open a ledger for reading; a file that does not exist has no entries."""
    if not path.exists():
        yield Store(None, [])
        return
    with _explained(path, "read"):
        # What a killed process left half written is taken back, which needs to write.
        mode = "rw" if os.access(path, os.W_OK) else "ro"
        with closing(_connected(path, mode)) as connection:
            connection.execute("BEGIN")
            records = _checked(connection, path)
        yield Store(None, records)


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    if not path.exists():
        raise LedgerError(
            f"There is no privacy ledger {str(path)!r}: was the file replaced or moved meanwhile?"
        )
    if (size := path.stat().st_size) < SHORTEST:
        raise LedgerError(
            f"The file {str(path)!r} is empty or cut short ({size} bytes): if it was a privacy "
            "ledger, its record of spent privacy is lost. Restore it from a backup. A new ledger "
            "is made where no file exists: remove this one only if nothing was charged to it."
        )
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, timeout=PATIENCE, isolation_level=None
    )


@contextmanager
def _explained(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise LedgerError(
            f"Cannot {doing} the privacy ledger {str(path)!r}: {error}. Its folder must exist and "
            "be writable, the file too, and no other program may hold it locked."
        ) from error
    except (sqlite3.DatabaseError, Damaged) as error:
        raise LedgerError(
            f"The file {str(path)!r} is not a readable privacy ledger: {error}. Restore it from a "
            "backup, and do not start a new one: the privacy spent on the data stays spent."
        ) from error


def _checked(connection: sqlite3.Connection, path: Path) -> list[Record]:
    """Read a ledger under SQLite's lock; refuse other files, and parts of one."""
    if _pragma(connection, "application_id") != APPLICATION:
        raise LedgerError(
            f"The file {str(path)!r} is an SQLite data base of another program, not a privacy "
            "ledger. Name a ledger, or a file that does not exist yet."
        )
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        raise LedgerError(
            f"The privacy ledger {str(path)!r} was put into SQLite's WAL mode, in which entries "
            "lie in a second file that can be lost. Take it back by PRAGMA journal_mode = DELETE."
        )
    _check_size(connection, path)
    stated = _pragma(connection, "user_version")
    if stated != VERSION:
        raise LedgerError(
            f"The privacy ledger {str(path)!r} has version {stated}; this skfairdp reads and "
            f"writes version {VERSION}. Use the skfairdp that wrote it, or a newer one."
        )
    report = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if report != "ok":
        raise Damaged(report)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    missing = {"records", "head"} - {name for (name,) in tables}
    if missing:
        raise Damaged(f"it has lost its {' and '.join(sorted(missing))}")
    return verified(connection)


def _check_size(connection: sqlite3.Connection, path: Path) -> None:
    # SQLite reads the end of a shortened last page as zeros.
    expected = _pragma(connection, "page_count") * _pragma(connection, "page_size")
    if (size := path.stat().st_size) != expected:
        raise Damaged(f"it has {size} bytes, and should have {expected}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
