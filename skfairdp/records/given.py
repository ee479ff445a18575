"""Rows as a caller gives them to a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from skfairdp.records.persons import Persons, encode_persons, refuse_other_order
from skfairdp.records.stored_rows import with_columns_of


@dataclass(frozen=True, eq=False)
class Given:
    """Arguments of a fit.

    Parameters
    ----------
    X : array-like, DataFrame or rows on disk
        Features.
    y : array-like or None, default=None
        Labels or numbers.
    sensitive_features : array-like or None, default=None
        Group of each row.
    person_ids : array-like or None, default=None
        Person of each row; None where each row is a person.
    """

    X: Any
    y: Any = None
    sensitive_features: Any = None
    person_ids: Any = None

    @property
    def unit(self) -> str:
        """What a promise about these rows is about: "record", or "person" with several rows."""
        return "record" if self.person_ids is None else "person"

    def read(self) -> Self:
        """Take labels and groups out of rows that hold them; refuse columns in another order."""
        y, groups = with_columns_of(self.X, self.y, self.sensitive_features)
        refuse_other_order(X=self.X, y=y, sensitive_features=groups, person_ids=self.person_ids)
        return replace(self, y=y, sensitive_features=groups)

    def persons(self, n_rows: int, most: int = 1) -> Persons | None:
        """Encode the person of each row.

        Parameters
        ----------
        n_rows : int
            Number of rows that were read.
        most : int, default=1
            Rows that a person brings to a batch, at most.

        Returns
        -------
        Persons or None
            None where each row is a person.
        """
        return None if self.person_ids is None else encode_persons(self.person_ids, n_rows, most)
