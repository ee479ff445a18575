"""Gaps between groups of predicted numbers, and their errors, measured on rows at hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from fairlearn.metrics import MetricFrame, count, mean_prediction
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import mean_absolute_error, r2_score

from skfairdp.fairness.number_notions import DISTRIBUTION_GAP, MEAN_GAP
from skfairdp.records.groups import Groups
from skfairdp.records.labels import count_rows, label_column

Floats = NDArray[np.float64]


def number_gap(y_pred: ArrayLike, groups: Groups, notion: str) -> float:
    """Largest difference between two groups in the distribution, or the mean, of predictions.

    `notion`: a name of ``NUMBER_NOTIONS``; every group has rows. Result: the Kolmogorov-Smirnov
    distance, between 0 and 1, or a difference of means in units of the predictions.
    """
    numbers = finite_numbers(y_pred, "y_pred", f"notion={notion!r}")
    return float(_apart(numbers, groups.codes, len(groups.labels), notion).max())


def finite_numbers(values: ArrayLike, name: str, asked: str) -> Floats:
    """Read a column of finite numbers; `asked`: the argument that compares numbers."""
    column = label_column(values, count_rows(values), declared=False, name=name)
    if column.dtype.kind not in "biuf" or not np.isfinite(numbers := column.astype(float)).all():
        raise ValueError(
            f"{asked} compares predicted numbers: {name} must hold finite numbers alone."
        )
    return numbers


def table_of_numbers(truth: Floats, guess: Floats, codes: NDArray, n_groups: int) -> pd.DataFrame:
    """Errors and predictions by group, and of all rows at the end.

    Distances of a group are the largest from any other one, and those of all rows the largest of
    two groups.
    """
    metrics = {
        "count": count,
        "mean_target": lambda y_true, y_pred: y_true.mean(),
        "mean_prediction": mean_prediction,
        "mean_absolute_error": mean_absolute_error,
        "r2": _r2,
    }
    labels = {"y_true": truth, "y_pred": guess}
    frame = MetricFrame(metrics=metrics, sensitive_features=codes, **labels)
    both = [frame.by_group, frame.overall.to_frame().T]
    table = pd.concat(both, ignore_index=True).astype(float)
    for notion in (DISTRIBUTION_GAP, MEAN_GAP):
        apart = _apart(guess, codes, n_groups, notion)
        table[notion] = [*apart, apart.max()]
    return table.astype({"count": int})


def _apart(numbers: Floats, codes: NDArray, n_groups: int, notion: str) -> Floats:
    """Largest distance of each group's predictions from those of another group, (n_groups,).

    NaN with one group.
    """
    parts = [np.sort(numbers[codes == code]) for code in range(n_groups)]
    if n_groups < 2:
        return np.full(n_groups, math.nan)
    if notion == DISTRIBUTION_GAP:
        ends = np.unique(numbers)
        shares = np.array([np.searchsorted(part, ends, "right") / len(part) for part in parts])
    else:
        shares = np.array([[part.mean()] for part in parts])
    return np.maximum(shares.max(axis=0) - shares, shares - shares.min(axis=0)).max(axis=1)


def _r2(y_true: Floats, y_pred: Floats) -> float:
    """Share of the variance of targets that predictions explain; NaN of equal targets."""
    return float(r2_score(y_true, y_pred)) if np.ptp(y_true) > 0.0 else math.nan
