"""One line of a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from skfairdp.privacy.guarantee import PrivacyGuarantee

__all__ = ["COMMITTED", "RESERVED", "Entry"]

RESERVED, COMMITTED = "reserved", "committed"


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
        What was done: "fit", "certify", "transform", "search".
    estimator : str
        Name of what did it.
    guarantee : PrivacyGuarantee or None
        What it promises, with the event that was released. Void where nothing is
        promised; None where no protected row was touched, as for a certificate from
        public rows.
    state : {"reserved", "committed"}
        "reserved" before it is done, and for ever if it never was: it is charged alike.
    ordinal : int
        How many times this was done on this data set up to and with this entry.
    reserved_at : str
        Time of the reservation, UTC.
    committed_at : str or None
        Time of completion, UTC.
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
