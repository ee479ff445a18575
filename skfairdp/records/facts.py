"""Public facts about training rows, from which a fit is priced."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from skfairdp.foundation.parameters import (
    COUNT,
    GROUP_SIZE,
    GROUPS,
    Number,
    given_text,
    plain_label,
)
from skfairdp.records.groups import Groups, groups_of_records, label_order
from skfairdp.records.persons import Persons

_FEATURES = Number(0, integer=True)


def records_of(persons: Persons | None, n_rows: int) -> tuple[int, int]:
    """Number of records, rows or persons, and how many rows one brings to a sum at most."""
    return (n_rows, 1) if persons is None else (persons.count, persons.most)


@dataclass(frozen=True, eq=False)
class RowFacts:
    """Public facts about training rows; no row is among them.

    Parameters
    ----------
    n : int
        Number of records: of rows, or of persons where a person may have several.
    groups : Groups or None, default=None
        Labels and counts of the groups; None where the rows come without groups.
    n_features : int or None, default=None
        Number of columns; None where it is not known.
    unit : {"record", "person", "sensitive_features"}, default="record"
        What the fit protects.
    n_public : int or None, default=None
        Number of public rows, for mechanisms that learn from some.
    public_groups : bool, default=False
        Whether the public rows come with groups.
    columns : tuple, default=()
        Names of the columns, for a table encoder.
    n_classes : int, default=2
        Number of class labels.
    """

    n: int
    groups: Groups | None = None
    n_features: int | None = None
    unit: str = "record"
    n_public: int | None = None
    public_groups: bool = False
    columns: tuple[Hashable, ...] = ()
    n_classes: int = 2

    def __post_init__(self) -> None:
        """Keep the counts of the groups, and nothing about their members."""
        if self.groups is not None:
            nobody = np.zeros(0, dtype=np.int64)
            kept = Groups(self.groups.labels, nobody, totals=self.groups.counts)
            object.__setattr__(self, "groups", kept)

    @classmethod
    def of(cls, n_rows: int, groups: Groups | None, persons: Persons | None, **others: Any) -> Self:
        """State the facts about rows that were read: about persons, where these have several.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        groups : Groups or None
            Groups of the rows. Persons with rows of two groups are refused.
        persons : Persons or None
            Persons of the rows; None where each row is a person.
        **others
            Further facts, by name.

        Returns
        -------
        RowFacts
        """
        if persons is None:
            return cls(n_rows, groups, **others)
        return cls(persons.count, groups_of_records(groups, persons), **others)

    def among(self, declared: Sequence[Any] | None) -> RowFacts:
        """Keep the facts about declared groups alone.

        Parameters
        ----------
        declared : sequence or None
            The groups, in their order; None keeps all.

        Returns
        -------
        RowFacts
        """
        if declared is None or self.groups is None:
            return self
        known = dict(zip(self.groups.labels, self.groups.counts.tolist(), strict=True))
        labels = tuple(map(plain_label, declared))
        counts = np.array([known.get(label, 0) for label in labels], dtype=np.int64)
        return replace(self, groups=Groups(labels, np.zeros(0, dtype=np.int64), totals=counts))


def checked_facts(
    n_rows: int | None,
    groups: Mapping[Any, int] | Sequence[Any] | None,
    n_features: int | None,
    classes: Sequence[Any] | int | None,
    n_persons: int | None,
    n_public: int | None,
    columns: Sequence[Hashable] | None,
    public_groups: bool,
) -> RowFacts:
    """Check the arguments of `quote`, and put them together."""
    given = {"n_rows": n_rows, "n_persons": n_persons, "n_public": n_public}
    for name, number in given.items():
        if number is not None and not COUNT.accepts(number):
            raise ValueError(f"{name!r} must be {COUNT.describe()}; got {given_text(number)}.")
    if n_features is not None and not _FEATURES.accepts(n_features):
        raise ValueError(
            f"'n_features' must be {_FEATURES.describe()}; got {given_text(n_features)}."
        )
    n = n_rows if n_persons is None else n_persons
    counted = None if groups is None else _counted(groups, n)
    if n is None and counted is not None:
        n = int(counted.counts.sum())
    if n is None:
        raise ValueError(
            "'n_rows' is needed: give the number of training rows, or 'groups' with the number of "
            "rows of each group, or 'n_persons'."
        )
    if counted is not None and isinstance(groups, Mapping) and counted.counts.sum() > n:
        raise ValueError(
            f"'groups' must hold at most {n} records in all, the number of rows or persons; got "
            f"{int(counted.counts.sum())}."
        )
    n_classes = 2
    if classes is not None:
        n_classes = int(classes) if isinstance(classes, int) else len(classes)
        if isinstance(classes, bool) or n_classes < 2:
            raise ValueError(f"'classes' must name two classes or more; got {given_text(classes)}.")
    names = tuple(columns) if columns is not None else tuple(range(n_features or 0))
    if columns is not None and n_features not in (None, len(names)):
        raise ValueError(f"'columns' names {len(names)} columns; 'n_features' is {n_features}.")
    return RowFacts(
        n=int(n),
        groups=counted,
        n_features=len(names) if columns is not None else n_features,
        unit="record" if n_persons is None else "person",
        n_public=n_public,
        public_groups=bool(public_groups),
        columns=names,
        n_classes=n_classes,
    )


def _counted(groups: Mapping[Any, int] | Sequence[Any], n: int | None) -> Groups:
    """Groups with their sizes, and no rows; equal sizes where they are only named."""
    labels = tuple(map(plain_label, groups))
    if not GROUPS.accepts(labels):
        raise ValueError(f"'groups' must name {GROUPS.describe()}; got {given_text(groups)}.")
    if isinstance(groups, Mapping):
        sizes = list(groups.values())
        if not all(GROUP_SIZE.accepts(size) for size in sizes):
            got = given_text(groups)
            raise ValueError(
                f"'groups' must map every group to {GROUP_SIZE.describe()}; got {got}."
            )
    elif n is None:
        raise ValueError(
            "'groups' names groups without sizes: give a mapping from each group to its number of "
            "rows, or 'n_rows'."
        )
    else:
        sizes = [n // len(labels) + (place < n % len(labels)) for place in range(len(labels))]
    totals = np.array([int(size) for size in sizes], dtype=np.int64)
    order = sorted(range(len(labels)), key=lambda place: label_order(labels[place]))
    return Groups(
        tuple(labels[place] for place in order),
        np.zeros(0, dtype=np.int64),
        totals=totals[order],
    )
