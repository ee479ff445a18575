"""Group codes from the values of sensitive features."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.exceptions import UnknownGroupError
from skfairdp.foundation.parameters import is_missing
from skfairdp.records.labels import factorized, recoded
from skfairdp.records.one_column import columns_of
from skfairdp.records.persons import Persons

_SEVERAL = (
    "Some person in 'person_ids' has rows of different groups in 'sensitive_features'. A person is "
    "in one group: give all rows of a person the same value, for instance that of the latest row, "
    "or the names of all its groups, such as 'a and b', which are then their own group."
)

_MOST = 100  # groups that may occur without being declared


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows sorted into groups.

    Parameters
    ----------
    labels : tuple
        Group labels as Python scalars, or tuples of them for intersections of
        several attributes, in a deterministic order.
    codes : ndarray of int64 (of int32 where they come from categories), shape (n_rows,)
        Position of each row's group in `labels`; -1 for a row that belongs to none
        of them (its value is missing or unknown and was dropped).
    outside : tuple
        Labels that were left out by declaring others.
    totals : ndarray of int64, shape (n_groups,), or None
        Rows of each group in all processes of a fit, where there are others.
    """

    labels: tuple[Hashable, ...]
    codes: NDArray[np.int64]
    outside: tuple[Hashable, ...] = ()
    totals: NDArray[np.int64] | None = None

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows of each group, shape (n_groups,)."""
        if self.totals is not None:
            return self.totals
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.labels))


def encode_groups(
    sensitive_features: ArrayLike | pd.Series | pd.DataFrame,
    *,
    n_rows: int,
    labels: Sequence[Hashable] | None = None,
    on_missing: Literal["raise", "drop"] | None = None,
    on_unknown: Literal["raise", "drop"] = "raise",
    name: str = "sensitive_features",
) -> Groups:
    """Turn sensitive features into one group code per row.

    Several columns are combined into their intersections: a row with the values
    ``"F"`` and ``"old"`` belongs to the group ``("F", "old")``.

    Parameters
    ----------
    sensitive_features : array-like, Series or DataFrame, shape (n_rows,) or (n_rows, k)
        Values of any hashable type; one column an attribute.
    n_rows : int
        Number of rows that the values must describe.
    labels : sequence, optional
        The groups that exist. None takes those that occur, sorted (numbers before
        strings).
    on_missing : {"raise", "drop"} or None, default=None
        What happens to a row with a missing value (None, NaN, NaT or ``pd.NA`` in any column), or
        one without a hash; "drop" gives it code -1. None does as with an unknown group.
    on_unknown : {"raise", "drop"}, default="raise"
        What happens to a row whose group is not in `labels`. With "drop" a row in none
        of the declared groups, for whatever reason, raises nothing.
    name : str, default="sensitive_features"
        How error messages call the values.

    Returns
    -------
    Groups
        Labels and codes.

    Raises
    ------
    ValueError
        For values or `labels` that do not fit, or are missing. No message shows a value that was
        not declared, or how many rows there are.
    UnknownGroupError
        For a group outside `labels` when ``on_unknown="raise"``.

    Examples
    --------
    >>> from skfairdp.records.groups import encode_groups
    >>> groups = encode_groups(["b", "a", None], n_rows=3, on_missing="drop")
    >>> groups.labels, groups.codes.tolist()
    (('a', 'b'), [1, 0, -1])
    """
    columns = _columns(sensitive_features, n_rows, name)
    codes, found = _combined([factorized(column) for column in columns])
    if (on_missing or on_unknown) == "raise":
        if bool(np.any(codes == -2)):
            raise ValueError(f"{name} has unhashable values, such as lists; use text or numbers.")
        if bool(np.any(codes == -1)):
            raise ValueError(
                f"{name} has missing values (None, NaN or pd.NA). Every row needs a group: drop "
                "the rows without one, which are then outside any claim, or merge them with "
                "another group; a category of their own, such as 'unknown', needs enough rows."
            )
    ordered = sorted(found, key=label_order)
    known = tuple(ordered) if labels is None else _declared(labels, name)
    position = {label: i for i, label in enumerate(known)}
    # Two more entries at the end: the codes -1 and -2 index them and become -1.
    table = np.array([*(position.get(label, -1) for label in found), -1, -1], dtype=codes.dtype)
    outside = tuple(label for label in ordered if label not in position)
    if on_unknown == "raise" and outside:
        raise UnknownGroupError(
            f"{name} has a group that is not among the known ones, {list(known)!r}. Use only these "
            "groups, or drop the rows of others; compare with set() of your values to find them."
        )
    return Groups(known, recoded(codes, table), outside)


def groups_of_records(groups: Groups | None, persons: Persons | None) -> Groups | None:
    """Groups of the persons, each of one group, where records are persons of several rows."""
    if groups is None or persons is None:
        return groups
    return replace(groups, codes=persons.one_each(groups.codes, _SEVERAL))


def of_known_labels(
    X: NDArray[Any], labels: NDArray[Any], groups: Groups | None
) -> tuple[NDArray[Any], NDArray[Any], Groups | None]:
    """Leave out rows without a declared label, where labels are public and sums are of all rows."""
    known = labels >= 0
    if known.all():
        return X, labels, groups
    if known.sum() < 2:
        raise ValueError("y holds fewer than two labels that 'classes' declares.")
    kept = None if groups is None else Groups(groups.labels, groups.codes[known])
    return X[known], labels[known], kept


def groups_of_training(
    sensitive_features: Any, n_rows: int, declared: Any = None, **options: Any
) -> Groups:
    """Groups of training rows, or to certify: the declared ones, or those that occur."""
    # Whether a row has a declared group is private: one that has none is left out in silence.
    given = {"labels": declared, "on_unknown": "raise" if declared is None else "drop"} | options
    groups = encode_groups(sensitive_features, n_rows=n_rows, **given)
    if declared is None and len(groups.labels) > _MOST:  # they become public
        raise ValueError(
            f"'sensitive_features' holds {len(groups.labels)} different groups, which would become "
            f"public; more than {_MOST} have to be declared. Bin a column of numbers (pandas.cut), "
            "or name the groups in groups=, or in group_sizes= where there is no groups=."
        )
    return groups


def _columns(values: Any, n_rows: int, name: str) -> list[Any]:
    try:
        columns = columns_of(values)
    except (TypeError, ValueError) as error:
        odd = error if isinstance(error, ValueError) else f"the type {type(values).__name__}"
        raise ValueError(
            f"{name} has {odd}; give one value per row, or one column per attribute (an array, a "
            "list, a Series or a DataFrame)."
        ) from None
    if not columns:
        raise ValueError(f"{name} has no column; give at least one attribute.")
    if any(len(column) != n_rows for column in columns):
        raise ValueError(f"{name} has another number of rows than X; give one value per row of X.")
    return columns


def _combined(
    columns: list[tuple[NDArray[np.int64], list[Any]]],
) -> tuple[NDArray[np.int64], list[Hashable]]:
    """Codes and labels of what occurs; -1 where a column is missing, -2 where one has no hash.

    `columns`: codes and labels of each.
    """
    parts, found = zip(*columns, strict=True)
    uniques = [list(map(_scalar, values)) for values in found]
    if len(columns) == 1:
        return parts[0], uniques[0]
    frame = np.stack(parts, axis=1)
    complete = (frame >= 0).all(axis=1)
    combinations, inverse = np.unique(frame[complete], axis=0, return_inverse=True)
    codes = frame.min(axis=1)
    codes[complete] = inverse.ravel()
    labels: list[Hashable] = [
        tuple(values[code] for values, code in zip(uniques, row, strict=True))
        for row in combinations
    ]
    return codes, labels


def _declared(labels: Sequence[Hashable], name: str) -> tuple[Hashable, ...]:
    """Normalise declared labels and refuse repeated or missing ones."""
    known = tuple(_scalar(label) for label in labels)
    if is_missing(known):
        raise ValueError(f"The declared groups of {name} contain a missing value; remove it.")
    if len(set(known)) != len(known):
        raise ValueError(f"The declared groups of {name} repeat a label: {list(known)!r}.")
    return known


def _scalar(value: object) -> Hashable:
    """Python scalar (or tuple of them) for a NumPy one, so that labels print and store alike."""
    if isinstance(value, tuple | list):
        return tuple(_scalar(part) for part in value)
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, Hashable):
        raise ValueError(
            f"A group label has the unhashable type {type(value).__name__}; use text or numbers."
        )
    return value


def label_order(label: Hashable) -> tuple:
    """Order of labels of mixed types: numbers, then text, then anything else by its repr."""
    if isinstance(label, tuple):
        return (3, tuple(label_order(part) for part in label))
    if isinstance(label, bool | int | float):
        return (0, label)
    if isinstance(label, str):
        return (1, label)
    return (2, type(label).__name__, repr(label))
