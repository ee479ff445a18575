"""Columns of a table that a declaration names, and their contents."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skfairdp.foundation.parameters import WithParameters, check_parameters, is_missing
from skfairdp.foundation.scikit_learn import BaseEstimator, TransformerMixin
from skfairdp.protocol import Certifiable
from skfairdp.records.one_column import columns_of, table_of
from skfairdp.records.rows import validated
from skfairdp.records.stored_rows import StoredRows, made_up, refuse_changes, stored_rows


class DeclaredTransformer(Certifiable, TransformerMixin, WithParameters):
    """Transformer that follows from declarations alone: a fit learns the names of columns.

    A subclass checks declarations and rows in `_check`, and lists simple parameters in
    ``_parameters``.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray, shape (n_features,)
        Column labels, when all of them are strings.
    """

    _learns_from_rows = False
    _released: ClassVar[tuple[str, ...]] = ("n_features_in_", "feature_names_in_")

    def fit(self, X: ArrayLike | pd.DataFrame, y: object = None) -> Self:
        """Check the declaration against the columns of ``X``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The names, number and dtypes of its columns are used. The values are only looked at
            to refuse what :meth:`transform` would refuse.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is malformed, or does not fit the columns of ``X``; or as in
            :meth:`transform`.
        """
        try:
            check_parameters(self, self._parameters)
            self._check(checked(self, X, reset=True, mixed=self._mixed))
        except BaseException:
            for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
                delattr(self, name)
            raise
        return self

    def _rows(self, X: Any) -> Any:
        """Rows of a call after `fit`."""
        check_is_fitted(self, "n_features_in_")
        return checked(self, X, reset=False, mixed=self._mixed)

    @property
    def _mixed(self) -> bool:
        """Whether an array may hold text."""
        return True

    def _check(self, X: Any) -> None:
        """Refuse wrong declarations, and rows that `transform` would refuse."""
        raise NotImplementedError


def column_names(X: Any) -> list[Hashable]:
    """Names of the columns: labels of a DataFrame, positions of an array."""
    X = made_up(X) if isinstance(X, StoredRows) else X
    return list(X.columns) if isinstance(X, pd.DataFrame) else list(range(X.shape[1]))


def interval(pair: Any, name: str, largest: float = np.inf) -> tuple[float, float]:
    """Check a declared pair of bounds; both are smaller than `largest` in size."""
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {pair!r}. Allowed is a pair of numbers (low, high).") from None
    if not (max(abs(low), abs(high)) < largest and low < high):
        raise ValueError(f"{name} is {pair!r}. Allowed are finite numbers with low < high.")
    return low, high


def refuse_categories(declared: Mapping[Hashable, Any]) -> None:
    """Refuse, for any column, a value that is not a list of different categories."""
    for column_name, listed in declared.items():
        name = f"categories[{column_name!r}]"
        if isinstance(listed, str):
            raise ValueError(
                f"{name} is the text {listed!r}, which would be read as a list of its letters. "
                "Allowed is a list of texts or numbers."
            )
        values = list(listed) if isinstance(listed, Iterable) else []
        if not values or is_missing(values) or not all(isinstance(v, Hashable) for v in values):
            raise ValueError(
                f"{name} is {listed!r}. Allowed is a list of texts or numbers, at least one; a "
                "missing value is not a category."
            )
        if len(set(values)) != len(values):
            raise ValueError(f"{name} repeats a category. Declare each one once.")


def positions_of(
    declared: Iterable[Hashable], names: list[Hashable], parameter: str
) -> dict[Hashable, int]:
    """Map every declared column to its position."""
    declared = list(declared)
    twice = [name for name in declared if names.count(name) > 1]
    if twice:
        raise ValueError(
            f"{parameter} declares {twice!r}, but X has several columns of that name; rename them."
        )
    where = {name: position for position, name in enumerate(names)}
    absent = [name for name in declared if name not in where]
    if absent:
        kind = "columns are" if len(names) != 1 else "column is"
        raise ValueError(
            f"{parameter} declares {absent!r}, absent from X, whose {kind} {names!r}. "
            "Name columns of a DataFrame by label and columns of an array by integer position, "
            "and declare only columns that X has."
        )
    return {name: where[name] for name in declared}


def checked(estimator: BaseEstimator, X: Any, *, reset: bool, mixed: bool) -> Any:
    """``X`` as a DataFrame or as an array of two dimensions, its columns those of ``fit``.

    `reset`: whether this is ``fit``. `mixed`: whether an array may hold text, which must not be
    parsed. Missing and infinite values are judged later, column by column. Rows on disk stay there
    where the estimator reads them in parts.
    """
    on_disk = isinstance(X, np.memmap | StoredRows) and getattr(estimator, "_from_disk", False)
    if on_disk and (stored := stored_rows(X)) is not None:
        if len(stored):
            checked(estimator, made_up(stored), reset=reset, mixed=mixed)
            refuse_changes(stored)
            return stored
        X = made_up(stored)[:0]
    if (table := table_of(X)) is not None:
        X = table
    if not isinstance(X, pd.DataFrame):
        dtype: Any = None if mixed else "numeric"
        if isinstance(X, list | tuple):  # numpy would choose one type for all cells
            X, dtype = _cells_of_rows(X), None if mixed else np.float64
        return validated(estimator, X, reset=reset, dtype=dtype, ensure_all_finite=False)
    if not len(X) or not X.shape[1]:
        raise ValueError(
            f"{'Found no row' if X.shape[1] else 'Found array with 0 feature(s)'} in X, while a "
            f"minimum of 1 is required by {type(estimator).__name__}."
        )
    return validated(estimator, X, reset=reset, skip_check_array=True)


def _cells_of_rows(X: Any) -> Any:
    """Rows in lists as an array, each number as the nearest double; else as given.

    Objects or doubles: a cell has the same value in either form.
    """
    try:
        columns = columns_of(X)
    except (TypeError, ValueError):
        return X
    nested = bool(len(X)) and isinstance(X[0], list | tuple | np.ndarray)
    if not nested:
        return X
    cells = [[_double(cell) for cell in column] for column in columns]
    numbers = all(isinstance(cell, float) for column in cells for cell in column)
    return np.array(cells, dtype=np.float64 if numbers else object).T


def _double(cell: Any) -> Any:
    if not isinstance(cell, bool | int | float | np.bool_ | np.number):
        return cell
    try:
        return float(cell)
    except (OverflowError, TypeError):  # beyond the doubles; complex
        return cell


def is_polars(X: Any) -> bool:
    """Whether ``X`` is a DataFrame of polars, which is not imported for it."""
    return f"{type(X).__module__}.{type(X).__name__}" == "polars.dataframe.frame.DataFrame"


def column(X: Any, position: int) -> pd.Series:
    """One column of a checked table."""
    if isinstance(X, StoredRows):
        return X.column(position)
    return X.iloc[:, position] if isinstance(X, pd.DataFrame) else pd.Series(X[:, position])


def floats(
    values: pd.Series, name: Hashable, dtype: type[np.floating], why: str
) -> NDArray[np.floating]:
    """A column as floats, missing values as NaN; other values are refused, and not quoted."""
    failure: type[ValueError | TypeError] = ValueError
    if values.dtype.kind not in "mMc":
        try:
            return values.to_numpy(dtype=dtype, na_value=np.nan)
        except Exception as error:  # whatever a cell raises when it is asked for its number
            failure = TypeError if isinstance(error, TypeError) else ValueError
    # Out here, so that the chain of exceptions does not lead to what quotes a cell.
    raise failure(
        f"Column {name!r} {why} and holds something that is not a number (an argument must be a "
        "string of digits or a number). Declare it in categories, or drop it, or turn it into "
        "numbers first."
    )


def replaced(
    X: Any, positions: Sequence[int], values: NDArray[np.floating]
) -> NDArray[Any] | pd.DataFrame:
    """``X`` with the columns at ``positions`` replaced, in a new object of its kind."""
    if is_polars(X):
        new = zip(positions, values.T, strict=True)
        return X.with_columns(*(type(X[:, place])(X.columns[place], one) for place, one in new))
    if isinstance(X, pd.DataFrame):
        frame = X.copy()
        for index, position in enumerate(positions):
            frame.isetitem(position, values[:, index])
        return frame
    dtype = np.result_type(values, X) if X.dtype.kind in "fiub" else object
    placed = X.astype(dtype, copy=True)
    placed[:, positions] = values
    return placed
