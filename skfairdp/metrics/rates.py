"""Rates of each group, among the rows that were answered and among all."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from fairlearn.metrics import MetricFrame, count, selection_rate
from numpy.typing import NDArray
from sklearn.metrics import recall_score, roc_auc_score

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
    """One row a group, then one over all, shape (n_groups + 1, n_rates)."""
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
    """Largest differences between groups, of `rates_by_group` without its last row."""
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
    own, chosen = (truth == pos_label).astype(int), (guess == pos_label).astype(int)
    # NaN where fairlearn would say 0 for 0 of 0.
    metrics: dict[str, Callable[..., float]] = {
        "count": count,
        "selection_rate": selection_rate,
        "accuracy": lambda own, chosen, right: right.mean(),
        "true_positive_rate": partial(recall_score, zero_division=np.nan),
        "false_positive_rate": lambda own, chosen: recall_score(
            1 - own, chosen, zero_division=np.nan
        ),
    }
    sample_params = {"accuracy": {"right": truth == guess}}
    if y_score is not None:
        metrics["roc_auc"] = _roc_auc
        sample_params["roc_auc"] = {"y_score": y_score}
    if len(truth) == 0:  # every row of every group was refused
        table = pd.DataFrame(math.nan, index=range(n_groups + 1), columns=list(metrics))
    else:
        given: dict[str, Any] = {"metrics": metrics, "sample_params": sample_params}
        frame = MetricFrame(y_true=own, y_pred=chosen, sensitive_features=codes, **given)
        by_group = frame.by_group.reindex(range(n_groups))
        table = pd.concat([by_group, frame.overall.to_frame().T], ignore_index=True)
    return table.astype(float).fillna({"count": 0.0}).astype({"count": int})


def _roc_auc(own: NDArray, chosen: NDArray, y_score: NDArray) -> float:
    return float(roc_auc_score(own, y_score)) if 0 < own.sum() < len(own) else math.nan


def _spread(rates: pd.Series) -> float:
    """Largest minus smallest rate; NaN as soon as one rate is, or with one group."""
    return math.nan if len(rates) < 2 else float(np.ptp(rates.to_numpy(dtype=np.float64)))
