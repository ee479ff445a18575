"""Passing of groups to an inner estimator, and the label of an abstention."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from skfairdp.receipts.unwrap import unwrap
from skfairdp.records.groups import encode_groups, groups_of_training


def accepts_groups(estimator: Any, method: str) -> bool:
    """Whether a method of an estimator names `sensitive_features` among its arguments."""
    return "sensitive_features" in inspect.signature(getattr(estimator, method)).parameters


def fit_parameters(estimator: Any, sensitive_features: Any) -> dict[str, Any]:
    """Groups as keyword arguments of fit, where metadata routing is off; empty for no way in."""
    # scikit-learn's searches have no public base class; `refit` is a parameter of each of them.
    if hasattr(estimator, "refit") and not accepts_groups(estimator, "fit"):
        return fit_parameters(estimator.estimator, sensitive_features)
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = fit_parameters(last, sensitive_features)
        return {f"{name}__{key}": value for key, value in inner.items()}
    return {"sensitive_features": sensitive_features} if accepts_groups(estimator, "fit") else {}


def known_groups(
    inner: Any, declared: Sequence[Hashable] | None, sensitive_features: Any, n_rows: int
) -> tuple[Hashable, ...] | None:
    """Groups that may query, declared ones before all others; None where nothing is known."""
    if declared is not None:
        none = np.full(n_rows, None, dtype=object)
        return encode_groups(none, n_rows=n_rows, labels=declared, on_missing="drop").labels
    final = unwrap(inner).final
    known = getattr(final, "groups_", None)
    if sensitive_features is None:
        return known
    if any(getattr(final, name, None) is not None for name in ("group_sizes", "groups")):
        return known  # declared inside; others that occur are private
    seen = groups_of_training(sensitive_features, n_rows, on_missing="drop").labels
    if not seen:
        raise ValueError(
            "sensitive_features has no value in any row, so no group is known. Give the group of "
            "some rows, or declare groups=."
        )
    # An estimator may know declared groups that these rows lack, or be about others.
    return known if known is not None and set(seen) <= set(known) else seen


def abstention_marker(classes: NDArray, label: Any = "auto") -> tuple[Any, np.dtype]:
    """Choose or check the label of an abstention.

    "auto" takes "abstained" for text labels; for numbers −1, or the smallest class minus 1 where −1
    is a class, or the largest plus 1 where the dtype has no smaller number. Result: a Python scalar
    that is not a class, and a dtype that holds it and the classes.
    """
    known = classes.tolist()
    marker = _automatic(classes) if isinstance(label, str) and label == "auto" else label
    marker = marker.item() if isinstance(marker, np.generic) else marker
    if marker in known:
        raise ValueError(
            f"abstention_label={label!r} is not possible: {marker!r} is one of the classes, "
            f"{known!r}. Give another label."
        )
    dtype = classes.dtype
    if dtype.kind in "US" and isinstance(marker, str | bytes):
        return marker, np.result_type(dtype, np.asarray(marker).dtype)
    try:
        held = np.array([marker], dtype=dtype).tolist() == [marker]
    except (OverflowError, TypeError, ValueError):
        held = False
    if not held:
        raise ValueError(
            f"abstention_label={label!r} is not possible: {marker!r} cannot be stored among labels "
            f"of dtype {dtype}. Give a label of the same type, or fit with labels of a type that "
            "has room for one more value, such as integers or text."
        )
    return marker, dtype


def _automatic(classes: NDArray) -> Any:
    kind = classes.dtype.kind
    if kind == "O" and all(type(label) is int for label in classes):
        return _automatic(classes.astype(np.int64))
    if kind == "b":
        return -1  # refused by the caller: two truth values leave no room
    if kind not in "iuf":
        return b"abstained" if kind == "S" else "abstained"
    lowest = np.iinfo(classes.dtype).min if kind in "iu" else -np.inf
    smallest, largest = classes.min().item(), classes.max().item()
    for candidate in (-1, smallest - 1):
        if candidate not in classes and candidate >= lowest:
            return candidate
    return largest + 1
