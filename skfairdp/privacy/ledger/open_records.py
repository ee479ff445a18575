"""Records of an open ledger: reading them, and adding more."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.entry import RESERVED, RETURNED, Entry
from skfairdp.privacy.ledger.records import BUDGET, PEOPLE, Damaged, Head, Record, append
from skfairdp.privacy.ledger.row_digests import people_digest, row_set_digest
from skfairdp.privacy.ledger.totals import Budget


class Store:
    """Content of an open ledger, after every record was compared with its digest.

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
        found = [r for r in self._records if (r.data_set, r.kind) == (data_set, BUDGET)]
        if not found:
            return None
        try:
            return Budget(**_read(found[-1]))
        except (ValueError, TypeError) as error:
            raise Damaged(f"the budget of {data_set!r} cannot be read ({error})") from error

    def set_budget(self, data_set: str, budget: Budget) -> None:
        """Write the budget of a data set, unless that is what the file has."""
        if budget != self.budget(data_set):
            self._append(data_set, BUDGET, 0, vars(budget))

    def data_set_of(self, people: pd.DataFrame, key: bytes) -> str | None:
        """Name under which the same people were recognised; None where they were not."""
        known = {_read(r)["digest"]: r.data_set for r in self._records if r.kind == PEOPLE}
        return known.get(people_digest(people, key)) if known else None

    def recognise(self, data_set: str, people: pd.DataFrame, key: bytes) -> None:
        self._append(data_set, PEOPLE, 0, {"digest": people_digest(people, key)})

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


def _read(record: Record) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(record.content)
    except (ValueError, TypeError) as error:
        raise Damaged(f"entry {record.entry} cannot be read ({error})") from error
    return content


def _entry(values: dict[str, Any]) -> Entry:
    try:
        if not all(isinstance(values[name], str) for name in ("activity", "estimator", "state")):
            raise TypeError("a name is not a text")
        return Entry.from_dict(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"entry {values['number']} cannot be read ({error})") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
