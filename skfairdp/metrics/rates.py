"""Rates of each group, among the rows that were answered and among all."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from fairlearn.metrics import (
    MetricFrame,
    count,
    false_positive_rate,
    selection_rate,
    true_positive_rate,
)
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, roc_auc_score

AMONG_ALL = "_among_all"


def rates_by_group(
    truth: NDArray,
    guess: NDArray,
    codes: NDArray[np.int64],
    *,
    n_groups: int,
    pos_label: Hashable,
    y_score: NDArray[np.float64] | None = None,
    abstention_label: Hashable | None = None,
) -> pd.DataFrame:
    """One row a group, then one over all.

    `truth`, `guess` (n_rows,): true and predicted labels. `codes` (n_rows,): group codes.
    `y_score` (n_rows,): scores of the favourable label. `abstention_label`: what stands for an
    abstention in `guess`. Result (n_groups + 1, n_rates).
    """
    if abstention_label is None:
        return _table(truth, guess, codes, n_groups, pos_label, y_score)
    given = guess != abstention_label
    scores = None if y_score is None else y_score[given]
    among_answered = _table(truth[given], guess[given], codes[given], n_groups, pos_label, scores)
    among_all = _table(truth, guess, codes, n_groups, pos_label, None)
    asked, answered = among_all.pop("count"), among_answered.pop("count")
    coverage = answered / asked.where(asked > 0)
    counted = pd.DataFrame({"count": asked, "answered": answered, "coverage": coverage})
    return pd.concat([counted, among_answered, among_all.add_suffix(AMONG_ALL)], axis=1)


def gaps_of(by_group: pd.DataFrame) -> dict[str, float]:
    """Largest differences between groups.

    `by_group`: `rates_by_group` without its last row.
    """
    gaps = _notions(by_group, "")
    if "roc_auc" in by_group:
        gaps["roc_auc"] = _spread(by_group["roc_auc"])
    if "coverage" in by_group:
        gaps["coverage"] = _spread(by_group["coverage"])
        gaps |= _notions(by_group, AMONG_ALL)
    return gaps


def _notions(rates: pd.DataFrame, suffix: str) -> dict[str, float]:
    hits = _spread(rates[f"true_positive_rate{suffix}"])
    false_alarms = _spread(rates[f"false_positive_rate{suffix}"])
    return {
        f"demographic_parity{suffix}": _spread(rates[f"selection_rate{suffix}"]),
        f"equal_opportunity{suffix}": hits,
        f"equalized_odds{suffix}": float(np.maximum(hits, false_alarms)),
        f"accuracy_parity{suffix}": _spread(rates[f"accuracy{suffix}"]),
    }


def _table(
    truth: NDArray,
    guess: NDArray,
    codes: NDArray[np.int64],
    n_groups: int,
    pos_label: Hashable,
    y_score: NDArray[np.float64] | None,
) -> pd.DataFrame:
    favourable = _Favourable(pos_label)
    metrics = {
        "count": count,
        "selection_rate": partial(selection_rate, pos_label=pos_label),
        "accuracy": accuracy_score,
        "true_positive_rate": favourable.true_positive_rate,
        "false_positive_rate": favourable.false_positive_rate,
    }
    sample_params = {}
    if y_score is not None:
        metrics["roc_auc"] = favourable.roc_auc
        sample_params["roc_auc"] = {"y_score": y_score}
    if len(truth) == 0:  # every row of every group was refused
        table = pd.DataFrame(math.nan, index=range(n_groups + 1), columns=list(metrics))
    else:
        frame = MetricFrame(
            metrics=metrics,
            y_true=truth,
            y_pred=guess,
            sensitive_features=codes,
            sample_params=sample_params or None,
        )
        by_group = frame.by_group.reindex(range(n_groups))
        table = pd.concat([by_group, frame.overall.to_frame().T], ignore_index=True)
    return table.astype(float).fillna({"count": 0.0}).astype({"count": int})


@dataclass(frozen=True)
class _Favourable:
    """Rates of one label against the rest; NaN where fairlearn would say 0 for 0 of 0."""

    label: Hashable

    def true_positive_rate(self, y_true: NDArray, y_pred: NDArray) -> float:
        truth, guess = self._binary(y_true, y_pred)
        return float(true_positive_rate(truth, guess, pos_label=1)) if truth.any() else math.nan

    def false_positive_rate(self, y_true: NDArray, y_pred: NDArray) -> float:
        truth, guess = self._binary(y_true, y_pred)
        if truth.all():
            return math.nan
        return float(false_positive_rate(truth, guess, pos_label=1))

    def roc_auc(self, y_true: NDArray, y_pred: NDArray, y_score: NDArray) -> float:
        truth, _ = self._binary(y_true, y_pred)
        one_sided = truth.all() or not truth.any()
        return math.nan if one_sided else float(roc_auc_score(truth, y_score))

    def _binary(self, y_true: NDArray, y_pred: NDArray) -> tuple[NDArray, NDArray]:
        return (
            (np.asarray(y_true) == self.label).astype(int),
            (np.asarray(y_pred) == self.label).astype(int),
        )


def _spread(rates: pd.Series) -> float:
    """Largest minus smallest rate; NaN as soon as one rate is, or with one group."""
    return math.nan if len(rates) < 2 else float(np.ptp(rates.to_numpy(dtype=np.float64)))
