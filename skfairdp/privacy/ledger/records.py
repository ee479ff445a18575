"""Entries of a ledger, and the records of its file, each sealed by a digest of all earlier ones."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from skfairdp.privacy.guarantee import PrivacyGuarantee

RESERVED, COMMITTED, RETURNED = "reserved", "committed", "returned"
# Not what was done with rows, but what was found about it afterwards.
VOIDED, DECLARED = "void", "declare"


@dataclass(frozen=True)
class Entry:
    """Cost of one fit, certificate, transform or search."""

    number: int  # Position in the file, from 1
    data_set: str
    # What was done: "fit", "certify", "transform", "search". Or what was found about a model:
    # "void", that nothing bounds what it shows of the rows; "declare", that this was taken back,
    # as its steps were declared public
    activity: str
    estimator: str
    # What it promises, with the event that was released. Void where nothing is promised; None
    # where no protected row was touched, as for a certificate from public rows
    guarantee: PrivacyGuarantee | None
    # "reserved" before it is done, and for ever if it never was: it is charged alike. "returned"
    # if it ended before a row was used: it is not charged
    state: str
    # How many times this was done on this data set up to and with this entry. A certificate from
    # public rows is counted on these rows instead, whatever the data set
    ordinal: int
    reserved_at: str
    committed_at: str | None = None
    # Keyed digest of the public rows that a certificate is from, see
    # `skfairdp.privacy.ledger.row_digests.row_set_digest`
    rows: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, strings and numbers, fit for JSON."""
        guarantee = None if self.guarantee is None else self.guarantee.to_dict()
        return {**vars(self), "guarantee": guarantee}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Rebuild an entry from `to_dict`, also after a JSON round trip."""
        stated = document["guarantee"]
        guarantee = None if stated is None else PrivacyGuarantee.from_dict(stated)
        return cls(**{**document, "guarantee": guarantee})


def charges(entries: Iterable[Entry]) -> list[tuple[Entry, PrivacyGuarantee]]:
    """List the entries of one data set that count, oldest first, each with what it promises.

    Left out are those that touched no protected row, were returned, or were taken back.
    """
    counted: list[tuple[Entry, PrivacyGuarantee]] = []
    for entry in entries:
        if entry.guarantee is None or entry.state == RETURNED:
            continue
        if entry.activity == DECLARED:
            taken_back = (VOIDED, entry.estimator, entry.guarantee)
            found = [(e.activity, e.estimator, stated) for e, stated in counted]
            counted = [c for c, of in zip(counted, found, strict=True) if of != taken_back]
        else:
            counted.append((entry, entry.guarantee))
    return counted


FORMAT = "skfairdp ledger 2"
APPLICATION = 0x5AFA1EDB  # in the file's header, which distinguishes it from other databases
VERSION = 2
BUDGET = "budget"
PEOPLE = "people"  # by which the people of a data set are recognised
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
    """The ledger file holds something that this package did not write."""


class Head(NamedTuple):
    """End of a chain of records."""

    position: int
    digest: str

    def __str__(self) -> str:
        """Number and digest, as pages print them."""
        return f"{self.position}:{self.digest}"


class Record(NamedTuple):
    """One line of the file; nothing in it is ever changed.

    `kind` is "began" for the first, "budget", "people", or what became of the entry with the number
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


def create(path: Path) -> None:
    """Make a ledger where no file exists, whole from its first moment on.

    The random number in its first record keeps digests from telling a reader without the file
    whether a guess of its entries is right, and tells two ledgers with equal entries apart.
    """
    if path.exists():
        return
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        value = {"format": FORMAT, "random": secrets.token_hex(16)}
        append(connection, Head(0, ""), "", "began", 0, value)
        content = connection.serialize()
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write(draft, content)
        try:
            os.link(draft, path)  # unlike a move, it never takes the place of another's
        except OSError:
            if not path.exists():
                _write(path, content)  # a disk without links
    except FileExistsError:
        return
    finally:
        draft.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


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
    # Lengths keep the content of one field from reading as the next.
    fields = (before, str(position), data_set, kind, str(entry), content)
    if not all(isinstance(field, str) for field in fields):
        return ""  # not a record of a ledger
    text = "".join([f"{len(field)}:{field}" for field in fields])
    return hashlib.sha256(text.encode()).hexdigest()
