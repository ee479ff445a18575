"""Rows that an abstaining classifier answered."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing

from skfairdp.metrics.gaps import check_abstention, label_arrays


class AnsweredRows(NamedTuple):
    """What `answered` returns; ``_asdict()`` gives fairlearn's keyword arguments.

    Parameters
    ----------
    y_true, y_pred : array-like, shape (n_answered,)
        True labels and answers.
    sensitive_features : array-like, shape (n_answered,) or (n_answered, k), or None
        Groups of these rows, of the type that was given.
    """

    y_true: Any
    y_pred: Any
    sensitive_features: Any


def answered(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    abstention_label: Hashable,
    sensitive_features: ArrayLike | None = None,
) -> AnsweredRows:
    """Keep the rows that were answered.

    fairlearn's metrics take every label but the favourable one for "not selected", and
    an abstention with them; so leave those rows out before.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        True labels, and predictions that hold abstentions.
    abstention_label : scalar
        What stands for an abstention, such as ``model.abstention_label_``.
    sensitive_features : array-like, Series or DataFrame, optional
        Groups of the rows, shape (n_rows,) or (n_rows, k).

    Returns
    -------
    AnsweredRows
        Named tuple of y_true, y_pred and sensitive_features, in their order.

    Raises
    ------
    ValueError
        Lengths differ, or `abstention_label` is a true label.

    Examples
    --------
    >>> from fairlearn.metrics import MetricFrame, selection_rate
    >>> from skfairdp.metrics import answered
    >>> rows = answered([1, 0, 1, 1], [1, 0, -1, 1], abstention_label=-1,
    ...                 sensitive_features=["a", "a", "b", "b"])
    >>> float(MetricFrame(metrics=selection_rate, **rows._asdict()).difference())
    0.5
    """
    truth, guess = label_arrays(y_true, y_pred)
    check_abstention(abstention_label, truth)
    kept = np.flatnonzero(guess != abstention_label)
    groups = sensitive_features
    if groups is not None:
        if len(np.asarray(groups, dtype=object)) != len(truth):
            raise ValueError(
                f"sensitive_features must have one value per row, {len(truth)} of them."
            )
        groups = _safe_indexing(groups, kept)
    return AnsweredRows(_safe_indexing(y_true, kept), _safe_indexing(y_pred, kept), groups)
