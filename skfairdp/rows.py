"""Checks of training rows whose messages reveal no row."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d, validate_data

__all__ = ["check_features", "check_rows", "encode_labels"]

# Squares of larger values overflow in float32; they are refused rather than clipped.
_LARGEST = 1e18


def check_rows(
    estimator: Any, X: Any, y: Any, *, allow_nd: bool = False, labels_declared: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Check features and labels for fit.

    Parameters
    ----------
    estimator : object
        Gets ``n_features_in_`` and ``feature_names_in_``.
    X : array-like, shape (n, d)
        Features; (n, ...) with `allow_nd`.
    y : array-like, shape (n,)
        Labels.
    allow_nd : bool
        Whether rows may be images.
    labels_declared : bool
        Whether the set of labels is declared: a row with another label, of whatever
        kind, then raises nothing.

    Returns
    -------
    X : ndarray of float32 or float64
    y : ndarray, shape (n,)

    Raises
    ------
    ValueError
        NaN, infinite, huge or non-numeric values, wrong shapes or lengths.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    _refuse_text(X)
    X, y = _numeric(
        lambda: validate_data(
            estimator,
            X,
            y,
            dtype=[np.float64, np.float32],
            allow_nd=allow_nd,
            ensure_min_samples=2,
        )
    )
    if not labels_declared:
        check_classification_targets(y)
    _refuse_huge(X)
    return X, column_or_1d(y, warn=True)


def check_features(
    estimator: Any, X: Any, *, allow_nd: bool = False, reset: bool = False
) -> np.ndarray:
    """Check features for predict, or for a fit that takes no labels.

    Parameters
    ----------
    estimator : object
        Fitted, unless `reset`.
    X : array-like, shape (n, d)
        Features.
    allow_nd : bool
        Whether rows may be images.
    reset : bool
        Whether this is a fit: the estimator then gets ``n_features_in_`` and
        ``feature_names_in_``, and needs two rows.

    Returns
    -------
    ndarray of float32 or float64
    """
    _refuse_text(X)
    X = _numeric(
        lambda: validate_data(
            estimator,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            allow_nd=allow_nd,
            ensure_min_samples=2 if reset else 1,
        )
    )
    _refuse_huge(X)
    return X


def encode_labels(
    y: np.ndarray, declared: Any, *, multiclass: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Turn labels into codes.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Labels.
    declared : array-like or None
        The public set of labels; a row with another label gets the code -1 and
        contributes nothing. None takes the set from the rows.
    multiclass : bool
        Whether more than two classes are allowed.

    Returns
    -------
    classes : ndarray, shape (n_classes,)
    codes : ndarray of int64, shape (n,)

    Raises
    ------
    ValueError
        One class only, more than two where two are needed, or declared labels of
        another kind than those of the rows.
    """
    if declared is None:
        classes, codes = np.unique(y, return_inverse=True)
    else:
        classes = np.unique(np.asarray(declared))
        if len(classes) != len(np.asarray(declared)):
            raise ValueError("'classes' names a class twice; list every class once.")
        if (classes.dtype.kind in "US") and y.dtype.kind in "biuf":
            raise ValueError("'classes' declares text, but y holds numbers; declare numbers.")
        if (classes.dtype.kind in "biuf") and y.dtype.kind in "US":
            raise ValueError("'classes' declares numbers, but y holds text; declare text.")
        # By hash, not by order: a label that cannot be compared must not raise either.
        codes = pd.Index(classes.astype(object)).get_indexer(pd.Index(y.astype(object)))
    if len(classes) < 2:
        raise ValueError(
            f"y holds {len(classes)} class; at least two classes are needed to train a classifier."
        )
    if len(classes) > 2 and not multiclass:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(y)}: {len(classes)} classes."
        )
    return classes, codes.astype(np.int64)


def _refuse_text(X: Any) -> None:
    if isinstance(X, pd.DataFrame):
        text = [
            str(name)
            for name, dtype in X.dtypes.items()
            if not (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_object_dtype(dtype))
        ]
        if text:
            raise ValueError(
                f"'X' has columns that are not numbers: {', '.join(text)}. Encode them with "
                "declared categories, e.g. skfairdp.preprocessing.PublicEncoder."
            )


def _numeric(check: Any) -> Any:
    # scikit-learn quotes the offending value when a conversion fails; a value of a
    # private row must not reach an exception.
    failure: type[Exception] | None = None
    quoted: re.Match[str] | None = None
    try:
        return check()
    except TypeError as error:
        if "argument must be" not in str(error):
            raise
        failure = TypeError
    except ValueError as error:
        quoted = re.search(r"got (\w+) array instead|Complex data not supported", str(error))
        if not quoted and "could not convert" not in str(error):
            raise
        failure = ValueError
    if quoted and quoted[1]:
        raise ValueError(
            f"'X' must have one row a record and one column a feature: Expected 2D array, got "
            f"{quoted[1]} array instead. Reshape your data with X.reshape(-1, 1) if it has a "
            "single feature, or X.reshape(1, -1) if it is a single record."
        )
    if quoted:
        raise ValueError("Complex data not supported: 'X' and 'y' must hold real numbers.")
    raise failure(
        "'X' holds values that are not numbers: every argument must be a string or a real number "
        "that converts to float. Encode text columns with declared categories, e.g. "
        "skfairdp.preprocessing.PublicEncoder."
    )


def _refuse_huge(X: np.ndarray) -> None:
    if X.size and float(np.abs(X).max()) > _LARGEST:
        raise ValueError(
            f"'X' holds values above {_LARGEST:g} in size, too large for float32 arithmetic; "
            "scale the features with declared bounds, e.g. skfairdp.preprocessing.PublicScaler."
        )
