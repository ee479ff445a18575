"""Rows as a caller gives them to a fit, known again later by a digest in memory alone.

A bound from the rows that a model was trained on says nothing about others. So a fit keeps how many
rows it had and keyed digests of a few of them, in this process: neither is in a model, a pickle or
a ledger, and the key ends with the process. Rows in another order, or among others, are found where
they are numbers and hardly two of them are equal.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from skfairdp.records.labels import count_rows, take_rows
from skfairdp.records.one_column import table_of
from skfairdp.records.persons import Persons, encode_persons
from skfairdp.records.rows import refuse_other_order
from skfairdp.records.stored_rows import StoredRows, with_columns_of


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


_KEY = secrets.token_bytes(32)
# Places that are compared, evenly from the first row to the last.
_PLACES = 16
# Smallest number of rows from these places among others that shows that training rows are there, if
# at least this share of the others differ: other people with equal rows are too few then.
_AMONG = _PLACES // 2
_DISTINCT = 0.99
# Number of rows; keys of the rows from these places where all their cells are numbers, else a
# digest of their texts.
Known = tuple[int, NDArray[np.uint64], bytes]
_known: WeakKeyDictionary[Any, Known] = WeakKeyDictionary()


def remember_rows(model: Any, X: Any) -> None:
    """Keep the number of training rows and digests of a few, for as long as the model lives.

    Called before a fit is charged, so that rows of which no digest can be made cost nothing. Rows
    on disk are read in passes alone; rows without a number are refused by the checks of a fit.
    """
    _known.pop(model, None)
    if isinstance(X, StoredRows):
        return
    try:
        n_rows = count_rows(X)
    except ValueError:
        return
    if n_rows:
        some = _some(X, n_rows)
        keys = _row_keys(some)
        _known[model] = n_rows, keys, b"" if len(keys) else _digest(some)


def remember_those_of(model: Any, other: Any) -> None:
    """Say that a copy was trained on the rows of another model."""
    if other in _known:
        _known[model] = _known[other]


def trained_on(model: Any, X: Any, transform: Callable[[Any], Any] | None) -> bool:
    """Whether a model was trained on many of these rows in this process, as far as it is known.

    `transform`: makes of rows what the model gets; None where X is already that.
    """
    if model not in _known:
        return False
    n_rows, keys, digest = _known[model]
    rows = X if transform is None else transform(X)
    if n_rows == count_rows(X):
        some = _some(rows, n_rows)
        if np.array_equal(keys, _row_keys(some)) if len(keys) else digest == _digest(some):
            return True
    if len(np.unique(keys)) < _PLACES or count_rows(X) < _AMONG:
        return False
    given = _row_keys(rows)
    among = int(np.isin(keys, given).sum()) >= _AMONG
    return among and len(np.unique(given)) >= _DISTINCT * len(given)


def _some(X: Any, n_rows: int) -> Any:
    places = np.unique(np.linspace(0, n_rows - 1, _PLACES).astype(np.int64))
    some = take_rows(X, places)
    return some.toarray() if hasattr(some, "toarray") else some


def _digest(rows: Any) -> bytes:
    # polars and Arrow have columns that numpy cannot take as a whole.
    rows = rows if (read := table_of(rows)) is None else read
    cells = [[_text(cell) for cell in np.ravel(row)] for row in np.asarray(rows, dtype=object)]
    return hashlib.blake2b(repr(cells).encode("utf-8", "surrogatepass"), key=_KEY).digest()


def _row_keys(rows: Any) -> NDArray[np.uint64]:
    """Digest each row of numbers, keyed, in eight bytes; empty if a cell is not a number."""
    rows = rows if (read := table_of(rows)) is None else read
    try:
        with np.errstate(all="ignore"):  # no warning about a private number
            numbers = None if np.iscomplexobj(rows) else np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = None  # texts, sparse rows, whole numbers beyond floats
    if numbers is None:
        return np.empty(0, dtype=np.uint64)
    columns = numbers.reshape(len(numbers), -1).T
    # An odd factor for each column; wrapped products are mixed by their upper halves.
    bits = hashlib.shake_128(_KEY).digest(8 * len(columns))
    found = np.zeros(len(numbers), dtype=np.uint64)
    for column, factor in zip(columns, np.frombuffer(bits, np.uint64) | np.uint64(1), strict=True):
        # 0.0 and -0.0 are one number, as are all forms of NaN.
        alike = np.where(np.isnan(column), np.nan, column + 0.0)
        mixed = alike.view(np.uint64) ^ found
        mixed ^= mixed >> np.uint64(32)
        mixed *= factor
        found = mixed ^ (mixed >> np.uint64(29))
    return found


def _text(cell: Any) -> str:
    """Text of a cell, the same for equal numbers of all kinds."""
    try:
        return repr(float(cell))
    except (TypeError, ValueError, OverflowError):
        return repr(cell)
