"""What a ledger's file holds: appended records, each sealed by a digest of all before it."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

FORMAT = "skfairdp ledger 2"
BUDGET = "budget"
SCHEMA = """
CREATE TABLE records (
    position INTEGER PRIMARY KEY,
    data_set TEXT NOT NULL,
    kind TEXT NOT NULL,
    entry INTEGER NOT NULL,
    content TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE head (position INTEGER NOT NULL, digest TEXT NOT NULL);
"""
_COLUMNS = "position, data_set, kind, entry, content, digest"


class Damaged(Exception):
    """A file that this package has not left like that."""


class Head(NamedTuple):
    """Where a chain of records ends."""

    position: int
    digest: str

    def __str__(self) -> str:
        """Number and digest, as pages print them."""
        return f"{self.position}:{self.digest}"


class Record(NamedTuple):
    """One line of the file; nothing in it is ever changed.

    `kind` is "began" for the first, "budget", or what became of the entry with the number
    `entry`; `content` is JSON.
    """

    position: int
    data_set: str
    kind: str
    entry: int
    content: str
    digest: str


def append(
    connection: sqlite3.Connection, head: Head, data_set: str, kind: str, entry: int, value: Any
) -> Record:
    """Write one record behind the last, and move the head; `entry`: that it is about, or 0."""
    content = json.dumps(value, allow_nan=False)
    position = head.position + 1
    digest = _sealed(head.digest, position, data_set, kind, entry, content)
    record = Record(position, data_set, kind, entry, content, digest)
    connection.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", record)
    connection.execute("DELETE FROM head")
    connection.execute("INSERT INTO head VALUES (?, ?)", (position, digest))
    return record


def begin(connection: sqlite3.Connection) -> Record:
    """Make the tables and the first record.

    Its random number keeps digests from telling a reader without the file whether a guess
    of its entries is right, and tells two ledgers with equal entries apart.
    """
    for statement in SCHEMA.split(";"):
        connection.execute(statement)
    value = {"format": FORMAT, "random": secrets.token_hex(16)}
    return append(connection, Head(0, ""), "", "began", 0, value)


def verified(connection: sqlite3.Connection) -> list[Record]:
    """Read all records, and compare them with their digests and with the head."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM records ORDER BY position")
    records = list(map(Record._make, rows))
    heads = list(map(Head._make, connection.execute("SELECT position, digest FROM head")))
    if len(heads) != 1:
        raise Damaged("it has lost its head, which says how many records there are")
    _compare(records, heads[0])
    return records


def _compare(records: Sequence[Record], head: Head) -> None:
    digest = ""
    for position, record in enumerate(records, 1):
        if record.position != position:
            raise Damaged(f"its record {position} is missing")
        digest = _sealed(digest, *record[:-1])
        if record.digest != digest:
            entry = f", entry {record.entry}" if record.entry else ""
            raise Damaged(
                f"its record {position} is not what was written there ({record.kind}{entry})"
            )
    if not records or head != (len(records), digest):
        raise Damaged(f"it has {len(records)} records, and its head speaks of {head.position}")


def _sealed(before: str, position: int, data_set: str, kind: str, entry: int, content: str) -> str:
    # Lengths keep what stands in one field from reading as the next.
    fields = (before, str(position), data_set, kind, str(entry), content)
    if not all(isinstance(field, str) for field in fields):
        return ""  # of no record of ours
    text = "".join([f"{len(field)}:{field}" for field in fields])
    return hashlib.sha256(text.encode()).hexdigest()
