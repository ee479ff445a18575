"""Which columns of a table a declaration speaks of, and what they hold."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skfairdp.rows import validated


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Leave a transformer unfitted if its fit fails."""
    fitted = ("n_features_in_", "feature_names_in_")
    try:
        yield
    except BaseException:
        for name in fitted:
            vars(estimator).pop(name, None)
        raise


def is_frame(X: object) -> TypeGuard[pd.DataFrame]:
    """Whether ``X`` is a pandas DataFrame, whose columns can be named."""
    return isinstance(X, pd.DataFrame)


def column_names(X: object, n_features: int) -> list[Hashable]:
    """Names of the columns: labels of a DataFrame, positions of anything else."""
    return list(X.columns) if is_frame(X) else list(range(n_features))


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


def checked(
    estimator: BaseEstimator, X: ArrayLike | pd.DataFrame, *, reset: bool, mixed: bool
) -> Any:
    """``X`` as a DataFrame or as an array of two dimensions, its columns those of ``fit``.

    `estimator`: remembers number and names of the columns. `reset`: whether this is ``fit``.
    `mixed`: whether an array may hold text, which must not be parsed. Missing and infinite values
    are judged later, column by column.
    """
    if not is_frame(X):
        dtype = None if mixed else "numeric"
        return validated(estimator, X, reset=reset, dtype=dtype, ensure_all_finite=False)
    if not len(X) or not X.shape[1]:
        raise ValueError(
            f"{'Found no row' if X.shape[1] else 'Found array with 0 feature(s)'} in X, while a "
            f"minimum of 1 is required by {type(estimator).__name__}."
        )
    return validated(estimator, X, reset=reset, skip_check_array=True)


def column(X: Any, position: int) -> pd.Series:
    """One column of a checked table."""
    return X.iloc[:, position] if is_frame(X) else pd.Series(X[:, position])


def floats(
    values: pd.Series, name: Hashable, dtype: type[np.floating], why: str
) -> NDArray[np.floating]:
    """A column as floats, missing values as NaN.

    Raises ValueError or TypeError: if something in the column is not a number. The value is not
    quoted: it is private.
    """
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
    """``X`` with the columns at ``positions`` replaced, in a new object."""
    if is_frame(X):
        if positions == list(range(X.shape[1])):
            return pd.DataFrame(values, index=X.index, columns=X.columns)
        place = {position: index for index, position in enumerate(positions)}
        columns = [
            pd.Series(values[:, place[position]], index=X.index)
            if position in place
            else X.iloc[:, position]
            for position in range(X.shape[1])
        ]
        frame = pd.concat(columns, axis=1)
        frame.columns = X.columns
        return frame
    dtype = np.result_type(values, X) if X.dtype.kind in "fiub" else object
    placed = X.astype(dtype, copy=True)
    placed[:, positions] = values
    return placed
