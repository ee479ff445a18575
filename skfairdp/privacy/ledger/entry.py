"""One line of a ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

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
