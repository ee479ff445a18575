"""Gaps between groups of predicted numbers, measured on rows at hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skfairdp.fairness.number_notions import DISTRIBUTION_GAP
from skfairdp.records.groups import Groups
from skfairdp.records.labels import count_rows, label_column


def number_gap(y_pred: ArrayLike, groups: Groups, notion: str) -> float:
    """Largest difference between two groups in the distribution, or the mean, of predictions.

    `notion`: a name of ``NUMBER_NOTIONS``; every group has rows. Result: the Kolmogorov-Smirnov
    distance, between 0 and 1, or a difference of means in units of the predictions.
    """
    guess = label_column(y_pred, count_rows(y_pred), declared=False, name="y_pred")
    if guess.dtype.kind not in "biuf" or not np.isfinite(numbers := guess.astype(float)).all():
        raise ValueError(
            f"notion={notion!r} compares predicted numbers: y_pred must hold finite numbers alone."
        )
    parts = [np.sort(numbers[groups.codes == code]) for code in range(len(groups.labels))]
    if notion == DISTRIBUTION_GAP:
        ends = np.unique(numbers)
        shares = [np.searchsorted(part, ends, side="right") / len(part) for part in parts]
        return float(np.ptp(shares, axis=0).max())
    return float(np.ptp([part.mean() for part in parts]))
