"""File behind a ledger, one SQLite data base that SQLite locks, and the records in it."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import time
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

try:
    import fcntl
except ImportError:  # Windows, where a lock belongs to the handle that took it
    fcntl = None  # type: ignore[assignment]

import pandas as pd

from skfairdp.exceptions import LedgerError
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.records import (
    APPLICATION,
    BUDGET,
    PEOPLE,
    RESERVED,
    RETURNED,
    VERSION,
    Damaged,
    Entry,
    Head,
    Record,
    append,
    create,
    verified,
)
from skfairdp.privacy.ledger.row_digests import people_digest, row_set_digest
from skfairdp.privacy.ledger.totals import Budget

# Bytes of a page of SQLite, at least. It would take less for a new data base.
SHORTEST = 512
# A composition is computed while others wait: seconds each, for dozens of workers.
PATIENCE = 600.0
_PAUSE = 0.02  # seconds until a writer that waits tries again
# Code points, next to those of control and format, that no text shows: joiners, fillers,
# selectors of variants (Unicode's "default ignorable").
_HIDDEN = (
    *(range(0x034F, 0x0350), range(0x115F, 0x1161), range(0x17B4, 0x17B6), range(0x180B, 0x1810)),
    *(range(0x2065, 0x2066), range(0x3164, 0x3165), range(0xFE00, 0xFE10), range(0xFFF0, 0xFFF9)),
    range(0xE0000, 0xE1000),
)
# Cyrillic and Greek letters, of which the small or the capital form looks like a Latin one, and
# other signs for a hyphen, an apostrophe and quotation marks.
_LOOKS_LIKE = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445"
    "\u0455\u0456\u0458\u0501\u051b\u051d\u04bb\u04cf\u03b1\u03b2\u03b5\u03b6\u03b7\u03b9"
    "\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03f2\u03f3\u0131\u0261"
    "\u2212\u02d7\u2043\u2018\u2019\u201b\u02bc\u2032\u00b4\u0060\u201c\u201d\u201e\u201f\u2033",
    "abekmhopctyxsijdqwhlabezhikmvoptyxcjig---'''''''\"\"\"\"\"",
)


class Recognised(NamedTuple):
    """Answer of a ledger about people.

    `name`: the data set under which it knows them. `others`: data sets of whose people it cannot
    tell whether they are the same, for want of the key of their digests.
    """

    name: str | None
    is_charged: bool  # under that name
    others: tuple[str, ...]
    lacks_key: bool  # Digests are kept, and the key compares none of them


class Store:
    """Verified content of an open ledger: every record matches its digest.

    `connection`: inside a transaction if it writes; None for a file that does not exist.
    """

    def __init__(self, connection: sqlite3.Connection | None, records: list[Record]) -> None:
        self._connection = connection
        self._records = records

    @property
    def head(self) -> Head:
        """Number and digest of the last record; position 0 without a file."""
        last = self._records[-1:]
        return Head(last[0].position, last[0].digest) if last else Head(0, "")

    def holds(self, head: Head) -> bool:
        """Whether the chain went through a head that was noted earlier."""
        return head == (0, "") or any(head == (r.position, r.digest) for r in self._records)

    def entries(self, data_set: str) -> tuple[Entry, ...]:
        self._refuse_alike(data_set)
        return self._entries(r for r in self._records if r.entry and r.data_set == data_set)

    @staticmethod
    def _entries(records: Iterable[Record]) -> tuple[Entry, ...]:
        found: dict[int, dict[str, Any]] = {}
        for record in records:
            named = {"number": record.entry, "data_set": record.data_set, "state": record.kind}
            found.setdefault(record.entry, {}).update(_read(record), **named)
        return tuple(map(_entry, found.values()))

    def data_sets(self) -> tuple[str, ...]:
        """Names of all data sets that have entries or a budget, sorted."""
        return tuple(sorted({record.data_set for record in self._records[1:]}))

    def budget(self, data_set: str) -> Budget | None:
        self._refuse_alike(data_set)
        found = [r for r in self._records if (r.data_set, r.kind) == (data_set, BUDGET)]
        if not found:
            return None
        try:
            return Budget(**_read(found[-1]))
        except (ValueError, TypeError) as error:
            raise Damaged(f"the budget of {data_set!r} cannot be read ({error})") from error

    def _refuse_alike(self, data_set: str) -> None:
        """Refuse a new name that people cannot tell from one in the file, with what it spent."""
        names = {record.data_set for record in self._records[1:]}
        if data_set in names:
            return
        for other in sorted(names):
            if _as_read(other) == _as_read(data_set):
                raise LedgerError(
                    f"The ledger holds the data set {other!a}, and {data_set!a} reads "
                    "alike: as another data set it would have a budget of its own for what may be "
                    f"the same rows. Use data_set={other!a}, or a name that people can tell "
                    "from it."
                )

    def set_budget(self, data_set: str, budget: Budget) -> None:
        """Write the budget of a data set, unless that is what the file has."""
        if budget != self.budget(data_set):
            self._append(data_set, BUDGET, 0, vars(budget))

    def recognised(self, key: bytes | None, *people: pd.DataFrame) -> Recognised:
        """Find people by any of several tables, such as their rows and their ids."""
        kept = [(r.data_set, _read(r)) for r in self._records if r.kind == PEOPLE]
        if not kept:
            return Recognised(None, False, (), False)
        mine = [] if key is None else [people_digest(table, key) for table in people]
        keys = {digest["key"] for digest in mine}
        ours = [(n, v) for n, v in kept if v.get("key") in keys]
        name = next((n for n, v in reversed(ours) if v in mine), None)
        others = {n for n, _ in kept} - {n for n, _ in ours}
        charged = name is not None and bool(self.entries(name))
        return Recognised(name, charged, tuple(sorted(others)), not ours)

    def recognise(self, data_set: str, key: bytes, *people: pd.DataFrame) -> None:
        for table in people:
            self._append(data_set, PEOPLE, 0, {**people_digest(table, key)})

    def reserve(
        self,
        data_set: str,
        activity: str,
        estimator: str,
        guarantee: PrivacyGuarantee | None,
        public_rows: Any = None,
    ) -> Entry:
        """Add an entry that is charged from now on; `public_rows` are known again by a digest."""
        number = 1 + max((record.entry for record in self._records), default=0)
        rows = None
        if public_rows is not None:
            # Another key in every file, so that digests of two files cannot be compared.
            rows = row_set_digest(public_rows, str(_read(self._records[0])["random"]).encode())
        value: dict[str, Any] = {
            "activity": activity,
            "estimator": estimator,
            "guarantee": None if guarantee is None else guarantee.to_dict(),
            "ordinal": 1 + self._done(data_set, activity, rows),
            "reserved_at": _now(),
            **({} if rows is None else {"rows": rows}),
        }
        self._append(data_set, RESERVED, number, value)
        return _entry({"number": number, "data_set": data_set, "state": RESERVED, **value})

    def end(self, entry: Entry, state: str) -> Entry | None:
        """Record the end of a reservation; None if the file has no open one of this number."""
        about = [record for record in self._records if record.entry == entry.number]
        if len(about) != 1 or self._entries(about) != (entry,):
            return None
        value: dict[str, Any] = {} if state == RETURNED else {"committed_at": _now()}
        self._append(entry.data_set, state, entry.number, value)
        return dataclasses.replace(entry, state=state, **value)

    def _done(self, data_set: str, activity: str, rows: str | None) -> int:
        """Largest ordinal of an activity on a data set, or on public rows under whatever name.

        One that was given back is free again. Asked within a transaction, so that no two
        entries have the same.
        """
        back = {record.entry for record in self._records if record.kind == RETURNED}
        values = (
            _read(record)
            for record in self._records
            if record.kind == RESERVED
            and record.entry not in back
            and (rows is not None or record.data_set == data_set)
        )
        alike = (v for v in values if (v["activity"], v.get("rows")) == (activity, rows))
        return max((value["ordinal"] for value in alike), default=0)

    def _append(self, data_set: str, kind: str, entry: int, value: dict[str, object]) -> None:
        assert self._connection is not None
        self._records.append(append(self._connection, self.head, data_set, kind, entry, value))


def _as_read(name: str) -> str:
    """Name without accidents of writing.

    Those are case, blanks, composed letters, invisible characters, kinds of dashes and quotation
    marks, and letters of another alphabet that look like Latin ones.
    """
    # Twice, as lower case may need composing again.
    for _ in range(2):
        name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    seen = "".join(map(_seen, name)).translate(_LOOKS_LIKE)
    return " ".join(seen.split())


def _seen(character: str) -> str:
    """Return what is seen of a character: nothing, a blank, a hyphen, or itself."""
    kind = unicodedata.category(character)
    if character.isspace() or character == "\N{BRAILLE PATTERN BLANK}":
        return " "
    if kind in ("Cf", "Cc") or any(ord(character) in hidden for hidden in _HIDDEN):
        return ""
    return "-" if kind == "Pd" else character


def _read(record: Record) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(record.content)
    except (ValueError, TypeError) as error:
        raise Damaged(f"entry {record.entry} cannot be read ({error})") from error
    return content


def _entry(values: dict[str, Any]) -> Entry:
    try:
        if not all(isinstance(values[name], str) for name in ("activity", "estimator", "state")):
            raise TypeError("activity, estimator and state must be texts")
        return Entry.from_dict(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"entry {values['number']} cannot be read ({error})") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def writing(path: Path, *, new: bool = True) -> Iterator[Store]:
    """Open a ledger for one exclusive transaction: all is written at its end, or nothing.

    `new`: whether a file that does not exist is made.
    """
    if new:
        with _explained(path, "write"):
            create(path)
    with (
        _explained(path, "write"),
        _alone(path),
        closing(_connected(path, "rw")) as connection,
    ):
        _refuse_other_names(path)
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
def _alone(path: Path) -> Iterator[None]:
    """Keep other writers out, in addition to SQLite's lock, which a process can lose.

    A POSIX lock ends when any thread of the process closes the file, be it after reading a copy
    for a backup. Another process could then charge at the same time, and one of both entries
    would be overwritten. The lock of a second file ends with its own descriptor alone; the file
    is gone when it is free.
    """
    if fcntl is None:
        yield
        return
    real = path.resolve()  # as SQLite names its journal
    lock, deadline = real.with_name(f".{real.name}.lock"), time.monotonic() + PATIENCE
    while (held := _locked(lock)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"it is locked by another charge, with {lock.name!r}")
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        with suppress(OSError):  # a file that stays is free for the next writer
            lock.unlink()
        os.close(held)


def _locked(lock: Path) -> int | None:
    """Descriptor of a file that is made and locked; None while another writer has it."""
    with ExitStack() as stack:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        stack.callback(os.close, descriptor)
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last writer may have removed it meanwhile: then another file has that name.
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                stack.pop_all()
                return descriptor
    return None


def _refuse_other_names(path: Path) -> None:
    """Refuse to charge a file with several names, but for what a killed process left of its start.

    A process that is killed while it writes leaves SQLite's journal under the name by which it
    opened the file. Under another name nobody sees it, and what is charged there is undone when
    the first name is used again.
    """
    if path.stat().st_nlink == 1:
        return
    for draft in path.resolve().parent.iterdir():
        if draft.name.startswith(f".{path.resolve().name}.") and draft.samefile(path):
            draft.unlink()
    if (names := path.stat().st_nlink) > 1:
        raise LedgerError(
            f"The privacy ledger {str(path)!r} has {names} names (hard links), and what is charged "
            "under one of them can be undone when another one is used after a crash. Copy it to a "
            "file of its own, remove the links (find them with find -samefile), and use the copy."
        )


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
