"""Labels, groups and ids: one value a row, and its code."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import type_of_target

from skfairdp.exceptions import warn_user
from skfairdp.foundation.parameters import CLASSES, given_text
from skfairdp.records.one_column import column_cells, columns_of, objects, of_one_kind, table_of

SECRET_PART: ContextVar[bool] = ContextVar("SECRET_PART", default=False)
"""Whether the rows of a fit are a part that chance chose in secret, as in a private search.

A refusal of that part for the labels that it lacks would depend on single records.
"""

_PART = 1 << 20


def count_rows(X: Any) -> int:
    """Number of rows of anything that has some."""
    if isinstance(X, Sequence) and not isinstance(X, str | bytes | memoryview):
        return len(X)
    shape = getattr(X, "shape", ())
    if not shape and hasattr(X, "__array__"):
        shape = np.asarray(X).shape
    if shape:
        return int(shape[0])
    raise ValueError("'X' must have one row a record: an array, a list or a DataFrame.")


def take_rows(X: Any, positions: NDArray[np.int64]) -> Any:
    """Take the rows at some positions, as an object of the same type or as an array."""
    if hasattr(X, "iloc"):
        return X.iloc[positions]
    if issparse(X):
        return X.tocsr()[positions]
    if hasattr(X, "to_pylist"):  # Arrow
        with suppress(NotImplementedError):  # not of columns that store runs
            return X.take(positions)
        table = table_of(X)
        return column_cells(X)[positions] if table is None else table.iloc[positions]
    if isinstance(X, memoryview) or not hasattr(X, "__getitem__"):
        X = np.asarray(X)
    if hasattr(X, "shape"):
        return X[positions]
    return [X[position] for position in positions]


def label_column(y: Any, n_rows: int, *, declared: bool, name: str = "y") -> NDArray:
    """One label a row, as they are; with a `declared` set of them a list may hold anything."""
    if issparse(y):
        raise ValueError(f"Sparse data was passed for {name}; pass an array or list of labels.")
    try:
        columns = columns_of(y)
    except (TypeError, ValueError):  # rows of different lengths
        columns = []
    if len(columns) != 1:
        raise ValueError(
            f"{name!r} must hold one label a row: an array, a list or a Series of one dimension."
        )
    (values,) = columns
    if len(values) != n_rows:
        raise ValueError(
            f"Found inconsistent numbers of samples: {name!r} must hold one label for each row of "
            f"X. Compare len(X) with len({name})."
        )
    first = y[0] if isinstance(y, list | tuple) and len(y) else None
    if len(getattr(y, "shape", ())) == 2 or isinstance(first, list | tuple | np.ndarray):
        warn_user(
            "A column-vector y was passed when a 1d array was expected. Please change the shape "
            "of y to (n_samples,), for example using ravel().",
            DataConversionWarning,
        )
    return of_one_kind(values) if isinstance(y, list | tuple) and not declared else values


def encode_labels(
    y: NDArray | pd.Categorical, declared: Any, *, multiclass: bool
) -> tuple[NDArray, NDArray[np.int64]]:
    """Turn labels into codes.

    `declared`: the public set of labels; a row with another label gets the code -1 and
    contributes nothing. None takes the set from the rows. Result: classes, and a code a row.
    """
    if isinstance(y, pd.Categorical) and declared is None:
        codes, distinct = factorized(y)
        classes, places = np.unique(distinct, return_inverse=True)
        codes = recoded(codes, places)
    elif declared is None:
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                "y holds 1 class; at least two classes are needed to train a classifier."
            )
    else:
        if not CLASSES.accepts(declared):
            raise ValueError(f"'classes' must be {CLASSES.describe()}; got {given_text(declared)}.")
        classes = np.unique(np.asarray(declared))
        codes, distinct = factorized(y)
        codes = _looked_up(codes, distinct, classes.tolist())
        found = {kind for kind in map(_kind_of_label, distinct) if kind is not None}
        said = "text" if classes.dtype.kind in "US" else "numbers"
        if len(found) == 1 and said not in found and classes.dtype.kind in "biufUS":
            (other,) = found
            raise ValueError(f"'classes' declares {said}, but y holds {other}; declare {other}.")
    if len(classes) > 2 and not multiclass:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"{len(classes)} classes."
        )
    kind = np.int32 if isinstance(y, pd.Categorical) else np.int64
    return classes, codes.astype(kind, copy=False)


# pandas 2 reads texts up to a NUL, unless there are other objects: "a" and "a\0" would be one.
_CUTS_TEXTS = len(pd.factorize(np.array(["a", "a\0"], dtype=object))[1]) == 1
_MARK = object()


def factorized(values: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """Codes of values of any kind, by hash and not by order.

    `values` (n,): anything. Result `codes` (n,): -1 for a missing value, -2 for one that has no
    hash and so can equal no label; `distinct`: what the other codes stand for.
    """
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        values = pd.Categorical(values)
        occurs = np.zeros(len(values.categories) + 1, dtype=bool)
        for start in range(0, len(values), _PART):
            occurs[values.codes[start : start + _PART]] = True
        occurs[-1] = False  # the missing ones
        table = np.where(occurs, np.cumsum(occurs) - 1, -1)
        return recoded(values.codes, table), values.categories[occurs[:-1]].tolist()
    values = np.asarray(values, dtype=object)
    marked = np.append(values, objects([_MARK])) if _CUTS_TEXTS else values
    try:
        codes, distinct = pd.factorize(marked, use_na_sentinel=True)
    except TypeError:
        bare = np.array([not _has_hash(value) for value in marked])
        hidden = marked.copy()
        hidden[bare] = None
        codes, distinct = pd.factorize(hidden, use_na_sentinel=True)
        codes = np.where(bare, -2, codes)
    kept = [value for value in distinct if value is not _MARK]
    return np.asarray(codes[: len(values)], dtype=np.int64), kept


def recoded(codes: NDArray, table: NDArray) -> NDArray[Any]:
    """Look codes up in a table; in int32 if they take less than eight bytes.

    A part at a time, for numpy makes an index of eight bytes of every code.
    """
    if codes.dtype == np.int64:
        return np.asarray(table[codes])
    out = np.empty(len(codes), dtype=np.int32)
    for start in range(0, len(codes), _PART):
        part = slice(start, start + _PART)
        out[part] = table[codes[part]]
    return out


def positions(values: Any, known: Iterable[Hashable]) -> NDArray[np.int64]:
    """Position of each value among known ones; -1 for any other value."""
    return _looked_up(*factorized(values), known)


def _looked_up(
    codes: NDArray[np.int64], distinct: list[Any], known: Iterable[Hashable]
) -> NDArray[np.int64]:
    where = {label: index for index, label in enumerate(known)}
    table = np.array([*(where.get(value, -1) for value in distinct), -1, -1], dtype=codes.dtype)
    return recoded(codes, table)


def _kind_of_label(value: Any) -> str | None:
    if isinstance(value, str):
        return "text"
    return "numbers" if isinstance(value, bool | int | float | np.bool_ | np.number) else None


def _has_hash(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def refuse_labels(y: NDArray) -> None:
    """Refuse labels that name no classes."""
    if isinstance(y, pd.Categorical):
        y = of_one_kind(objects([np.nan] if (y.codes < 0).any() else factorized(y)[1]))
    if y.dtype.kind == "c":
        raise ValueError("Complex data not supported: 'y' must hold classes.")
    if pd.isna(y).any():
        raise ValueError(
            "Input y contains NaN. Every row needs a label: None, NaN and pd.NA are missing ones."
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains infinity. Labels are classes, e.g. 0 and 1.")
    kind = "unknown"
    if y.dtype.kind in "biufUO":
        with warnings.catch_warnings():
            # "The number of unique classes is greater than 50% of the number of samples".
            warnings.simplefilter("ignore")
            with suppress(Exception):
                kind = type_of_target(y)
    if kind == "continuous":
        raise ValueError(
            "Unknown label type: continuous. 'y' holds numbers with fractions, and a classifier "
            "needs classes. To predict numbers use DPSGDRegressor or DPAdditiveRegressor, and "
            "FairPathRegressor to compare groups too. For classes compare y with a public "
            "threshold, as in y > 0.5."
        )
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {kind}. 'y' must hold classes: text, whole numbers, or True and "
            "False, of one kind; turn those of dtype object into one, as with y.astype(int)."
        )
