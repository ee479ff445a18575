"""Checks of rows whose messages reveal no row.

Whether rows are accepted is the data owner's to know, and assumed public
(`skfairdp.foundation.assumptions.VALIDATION`). No message, warning or chained exception shows
a cell, a label, the place of a row or the number of rows.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from skfairdp.records.labels import label_column, refuse_labels
from skfairdp.records.one_column import table_of, unmasked
from skfairdp.records.stored_rows import (
    LARGEST,
    StoredRows,
    made_up,
    refuse_changes,
    refuse_values,
    stored_rows,
)

# What scikit-learn says without showing a cell or a number of rows; all else is replaced.
_HARMLESS = re.compile(
    r"(Input X contains infinity|X has \d+ features, but|The feature names should match"
    r"|Feature names are only supported|Found array with [01] sample|Found array with dim \d+[.,]"
    r"|Expected a 2-dimensional container|np.matrix is not supported)"
)
# scikit-learn would recommend an imputer, which learns from the rows without noise.
_MISSING = (
    "Input X contains NaN. Give missing values a constant that does not come from the rows "
    "(skfairdp.preprocessing.PublicScaler(fill=...)) or a level of their own "
    "(PublicBinner; PrivateTableEncoder, which needs nothing declared). An imputer or a scaler "
    "that is fitted on protected rows voids the guarantee."
)
_SPARSE = (
    "Sparse data was passed for X, but dense data is required. Pass X.toarray(), of a DataFrame "
    "X.sparse.to_dense(), or let the step before make dense columns (sparse_output=False, "
    "sparse_threshold=0)."
)
_CURE = (
    "Encode text with declared categories, e.g. skfairdp.preprocessing.PublicEncoder; turn dates "
    "into numbers, e.g. days since a public date; or let PrivateTableEncoder learn both."
)


def check_rows(
    estimator: Any, X: Any, y: Any, *, allow_nd: bool = False, labels_declared: bool = False
) -> tuple[NDArray, NDArray]:
    """Check features and labels for fit; with declared labels, one of any other kind is fine."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    X = check_features(estimator, X, allow_nd=allow_nd, reset=True)
    y = label_column(y, len(X), declared=labels_declared)
    if not labels_declared:
        refuse_labels(y)
    return X, y


def check_features(
    estimator: Any, X: Any, *, allow_nd: bool = False, reset: bool = False
) -> NDArray:
    """Check features for predict, or for a fit that takes no labels.

    `reset`: whether this is a fit: the estimator then gets ``n_features_in_`` and
    ``feature_names_in_``, and needs two rows. Rows that are not in memory stay where they are.
    """
    options = {"reset": reset, "dtype": [np.float64, np.float32], "allow_nd": allow_nd}
    stored = stored_rows(X) if reset and getattr(estimator, "_in_parts", False) else None
    if stored is not None:
        if len(stored) < 2:
            raise ValueError("Found array with fewer than 2 samples.")
        validated(estimator, made_up(stored), **options)
        refuse_changes(stored)
        refuse_values(stored)
        return cast(Any, stored)
    checked = validated(estimator, X, ensure_min_samples=2 if reset else 1, **options)
    if checked.size and max(-float(checked.min()), float(checked.max())) > LARGEST:
        raise ValueError(
            f"'X' holds values above {LARGEST:g} in size, too large for float32 arithmetic; "
            "scale the features with declared bounds, e.g. skfairdp.preprocessing.PublicScaler."
        )
    return checked


def refuse_other_order(**given: Any) -> None:
    """Refuse tables and columns of pandas whose indices hold the same labels in another order."""
    known = [(n, v.index) for n, v in given.items() if isinstance(v, pd.DataFrame | pd.Series)]
    for (one, a), (other, b) in combinations(known, 2):
        # Labels of another table, or of a reset index, say nothing about places.
        alike = len(a) == len(b) and a.nlevels == b.nlevels and a.is_unique and b.is_unique
        if alike and not a.equals(b) and bool(a.isin(b).all()):
            raise ValueError(
                f"The indices of {one!r} and {other!r} hold the same labels in another order, but "
                f"rows are paired by place. Reindex one, as in {other}.loc[{one}.index], or pass "
                f"{other}.to_numpy() if the order is meant."
            )


def validated(estimator: Any, X: Any, **options: Any) -> Any:
    """Call scikit-learn's ``validate_data`` on features, and rewrite what quotes them.

    A ``dtype`` among the options asks for a conversion to numbers.
    """
    if isinstance(X, StoredRows):
        np.asarray(X)  # which says that they are not in memory
    X = unmasked(X)
    # Arrow and polars would choose a type by the cells, and a value for those that are missing.
    X = X if (table := table_of(X)) is None else table
    if isinstance(X, pd.DataFrame) and not X.columns.is_unique:
        raise ValueError("'X' has several columns of one name; rename them.")
    if options.get("dtype") is not None:
        _refuse_other_kinds(X)
    failure: Exception
    try:
        return validate_data(estimator, X, **options)
    except MemoryError:
        raise
    except Exception as error:  # a cell may raise anything when it is asked for its number
        failure = _without_rows(error)
    # Out here, so that the chain of exceptions does not lead to what quotes a cell.
    raise failure


def _refuse_other_kinds(X: Any) -> None:
    """Refuse values that a conversion would quote, or silently turn into numbers."""
    if isinstance(X, pd.DataFrame):
        others = [
            str(name)
            for name, dtype in X.dtypes.items()
            if not (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_object_dtype(dtype))
        ]
        if others:
            raise ValueError(f"'X' has columns that are not numbers: {', '.join(others)}. {_CURE}")
    elif getattr(getattr(X, "dtype", None), "kind", "f") in "mMV":
        raise ValueError(f"'X' holds dates or records, which are not numbers. {_CURE}")


def _without_rows(error: Exception) -> Exception:
    """Error to raise in place of an error of scikit-learn, numpy or pandas."""
    text = str(error)
    if _HARMLESS.match(text):
        return type(error)(text)
    for start, ours in (("Input X contains NaN", _MISSING), ("Sparse data was passed", _SPARSE)):
        if text.startswith(start):
            return type(error)(ours)
    if found := re.match(r"Expected 2D (?:array|input), got (1D array|scalar array|input)", text):
        got = found[1].replace("input", "1D array")
        return ValueError(
            "'X' must have one row a record and one column a feature: Expected 2D array, got "
            f"{got} instead. Reshape your data with X.reshape(-1, 1) if it has a single feature, "
            "or X.reshape(1, -1) if it is a single record."
        )
    if found := re.match(r"Found array with 0 feature.*a minimum of (\d+)", text):
        # scikit-learn's own checks look for these words; the number of rows is left out.
        return ValueError(
            f"Found array with 0 feature(s) (shape=(, 0)) while a minimum of {found[1]} is "
            "required."
        )
    if "Complex data not supported" in text:
        return ValueError("Complex data not supported: 'X' must hold real numbers.")
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(
        "'X' holds values that are not numbers: every argument must be a string or a real number "
        f"that converts to float, and every row must be as long as the others. {_CURE}"
    )
