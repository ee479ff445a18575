"""One line of a ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from skfairdp.privacy.guarantee import PrivacyGuarantee

__all__ = ["COMMITTED", "DECLARED", "RESERVED", "RETURNED", "VOIDED", "Entry", "charges"]

RESERVED, COMMITTED, RETURNED = "reserved", "committed", "returned"
# Not what was done with rows, but what was found about it afterwards.
VOIDED, DECLARED = "void", "declare"


@dataclass(frozen=True)
class Entry:
    """What one fit, certificate, transform or search spends.

    Parameters
    ----------
    number : int
        Position in the file, from 1.
    data_set : str
        Name of the data set.
    activity : str
        What was done: "fit", "certify", "transform", "search". Or what was found about a
        model: "void", that nothing bounds what it shows of the rows; "declare", that this
        was taken back, as its steps were declared public.
    estimator : str
        Name of what did it.
    guarantee : PrivacyGuarantee or None
        What it promises, with the event that was released. Void where nothing is
        promised; None where no protected row was touched, as for a certificate from
        public rows.
    state : {"reserved", "committed", "returned"}
        "reserved" before it is done, and for ever if it never was: it is charged alike.
        "returned" if it ended before a row was used: it is not charged.
    ordinal : int
        How many times this was done on this data set up to and with this entry. A
        certificate from public rows is counted on these rows instead, whatever the data set.
    reserved_at : str
        Time of the reservation, UTC.
    committed_at : str or None
        Time of completion, UTC.
    rows : str or None
        Keyed digest of the public rows that a certificate is from, see
        `skfairdp.privacy.ledger.row_digests.row_set_digest`.
    """

    number: int
    data_set: str
    activity: str
    estimator: str
    guarantee: PrivacyGuarantee | None
    state: str
    ordinal: int
    reserved_at: str
    committed_at: str | None = None
    rows: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, strings and numbers, fit for JSON.

        Returns
        -------
        dict
        """
        guarantee = None if self.guarantee is None else self.guarantee.to_dict()
        return {**vars(self), "guarantee": guarantee}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Rebuild an entry from `to_dict`.

        Parameters
        ----------
        document : dict
            What `to_dict` returned, also after a JSON round trip.

        Returns
        -------
        Entry
        """
        stated = document["guarantee"]
        guarantee = None if stated is None else PrivacyGuarantee.from_dict(stated)
        return cls(**{**document, "guarantee": guarantee})


def charges(entries: Iterable[Entry]) -> list[tuple[Entry, PrivacyGuarantee]]:
    """List the entries that count, each with what it promises.

    Parameters
    ----------
    entries : iterable of Entry
        All entries of one data set, oldest first.

    Returns
    -------
    list of (Entry, PrivacyGuarantee)
        Without those that touched no protected row, that were returned, or that were
        taken back.
    """
    counted: list[tuple[Entry, PrivacyGuarantee]] = []
    for entry in entries:
        if entry.guarantee is None or entry.state == RETURNED:
            continue
        if entry.activity == DECLARED:
            counted = [item for item in counted if not _takes_back(entry, item[0])]
        else:
            counted.append((entry, entry.guarantee))
    return counted


def _takes_back(declared: Entry, entry: Entry) -> bool:
    found = (entry.activity, entry.estimator, entry.guarantee)
    return found == (VOIDED, declared.estimator, declared.guarantee)
