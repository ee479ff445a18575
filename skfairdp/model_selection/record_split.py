"""A splitter of scikit-learn in which removing one record moves no other."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator, KFold

from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import NONE, PROBABILITY, Number, check_values
from skfairdp.privacy.streams import row_uniforms


class RecordSplit(BaseCrossValidator):
    """Folds, or hold-outs, in which every record finds its part by itself.

    ``KFold`` and ``train_test_split`` cut by position: without one record others move to
    the other part, and nothing can be said of adding or removing a single record. Here
    a keyed hash of the record, or of its id, decides, and no other record does. Parts are
    therefore of random size, and equal records are in the same part.

    Parameters
    ----------
    n_splits : int, default=5
        Folds, at least 2; or with `test_size` hold-outs, each drawn anew, at least 1.
    test_size : float or None, default=None
        Chance in (0, 1) of each record to be held out. None cuts into folds.
    key : int, default=0
        Non-negative; another key is another partition. It need not be secret.

    Notes
    -----
    ``split`` hashes the row of `X`: numbers, texts and missing values. Give ``groups=`` to
    hash these instead: one integer or text a row that says who the record is about, not
    the group that is treated fairly, whose members would all be in one part.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.model_selection import RecordSplit
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> train, held_out = next(RecordSplit(1, test_size=0.25).split(X))
    >>> without = np.delete(np.arange(1000), 7)
    >>> again, _ = next(RecordSplit(1, test_size=0.25).split(X[without]))
    >>> set(train) - set(without[again]) <= {7}
    True
    """

    # `search_cost` and `certify` read these: who is in a fold depends on no other record.
    assigns_each_record = True

    def __init__(self, n_splits: int = 5, *, test_size: float | None = None, key: int = 0) -> None:
        check_values(
            n_splits=(n_splits, Number(2 if test_size is None else 1, integer=True)),
            test_size=(test_size, NONE, PROBABILITY),
            key=(key, Number(0, integer=True)),
        )
        if key >= 2**64:  # which no float tells from the number before
            raise ValueError(f"key={key!r} must be an integer from 0 to 2**64 - 1.")
        self.n_splits = n_splits
        self.test_size = test_size
        self.key = key

    @property
    def in_folds(self) -> bool:
        """Whether a record is in the test part of exactly one split."""
        return self.test_size is None

    @completed_by(KFold.get_n_splits)
    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return int(self.n_splits)

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield positions of both parts.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n_samples, n_features)
            Records.
        y : object
            Ignored.
        groups : array-like, shape (n_samples,), optional
            Ids to hash in place of the rows.

        Yields
        ------
        train, test : ndarray of int64 of shapes (n_train,) and (n_test,)
            Positions of rows, in order.

        Raises
        ------
        ValueError
            A part is empty, or a cell is neither number nor text.
        """
        n = _length(X)
        if groups is not None and _length(groups) != n:
            raise ValueError(f"groups has {_length(groups)} entries; X has {n} rows.")
        rows = _records(X if groups is None else groups)
        for split in range(self.n_splits):
            if self.test_size is None:
                held = np.floor(self._draws(rows, 0) * self.n_splits) == split
            else:
                held = self._draws(rows, split) < self.test_size
            if held.all() or not held.any():
                raise ValueError(
                    f"Split {split} of {n} records has an empty part; use fewer splits, or another "
                    "key."
                )
            yield np.flatnonzero(~held), np.flatnonzero(held)

    def _draws(self, rows: list[NDArray[np.float64]], split: int) -> NDArray[np.float64]:
        key = int(self.key).to_bytes(8, "little") + split.to_bytes(8, "little")
        return np.concatenate([row_uniforms(row, key) for row in rows])


def _length(table: Any) -> int:
    """Count the rows of a table, a sparse matrix (which has no length), an array or a list."""
    if not hasattr(table, "shape") and hasattr(table, "__array__"):
        table = np.asarray(table)
    shape = getattr(table, "shape", None)
    if shape == () or not (shape or hasattr(table, "__len__")):
        raise TypeError(f"Rows must come in an array or a list; got a {type(table).__name__}.")
    return int(shape[0]) if shape else len(table)


def _records(table: Any) -> list[NDArray[np.float64]]:
    """Rows as numbers, in one array or in one each.

    What a row becomes depends on that row alone; the type of a column does not, as a single
    text makes objects of all its numbers.
    """
    if isinstance(table, pd.DataFrame | pd.Series):
        table = table.astype(object)
    cells = np.asarray(table, dtype=None if hasattr(table, "dtype") else object)
    if cells.ndim == 0:
        raise ValueError(f"X must be an array or a DataFrame; got a {type(table).__name__}.")
    cells = cells.reshape(len(cells), -1)
    if cells.dtype.kind in "biuf":
        return [np.where(np.isnan(cells), np.nan, cells.astype(np.float64))]
    return [np.array([_numbers(row)]) for row in cells.tolist()]


def _numbers(row: list[Any]) -> list[float]:
    found: list[float] = []
    texts = 0
    for cell in row:
        if isinstance(cell, str):
            letters = cell.encode("utf-8", "surrogatepass")
            found += [float(len(letters)), *map(float, letters)]
            texts += 1
        elif isinstance(cell, Real | np.number) and cell == cell:
            found.append(float(cell))
        elif cell is None or cell is pd.NA or cell != cell:
            found.append(np.nan)
        else:
            raise ValueError(
                f"A cell of type {type(cell).__name__} cannot be hashed; give numbers and texts, "
                "or an id of each record as groups=."
            )
    return [*found, -1.0] if texts else found  # letters differ from numbers
