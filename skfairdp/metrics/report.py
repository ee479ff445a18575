"""Report of a model's rates and errors for each group, and of its predicted numbers."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from fairlearn.metrics import MetricFrame, count, selection_rate
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import recall_score, roc_auc_score

from skfairdp.fairness.number_notions import NUMBER_NOTIONS
from skfairdp.foundation.html_tables import html_table
from skfairdp.metrics.gaps import check_abstention, check_positive, known_classes, label_arrays
from skfairdp.metrics.number_gaps import finite_numbers, table_of_numbers
from skfairdp.records.groups import Groups, encode_groups

AMONG_ALL = "_among_all"


@dataclass(frozen=True, repr=False, eq=False)
class FairnessReport:
    """Rates by group and the gaps between them, as `fairness_report` found them.

    Parameters
    ----------
    gaps : dict of str to float
        Largest difference between two groups for "demographic_parity",
        "equal_opportunity", "equalized_odds", "accuracy_parity" and, with scores,
        "roc_auc". NaN where a group has no rows that the rate speaks of, or where
        there is only one group. With abstentions also "coverage", and the first four
        with "_among_all" added. Of numbers "distribution_gap", "mean_gap",
        "mean_absolute_error" and "r2".
    n_rows : int
        Rows that the report is about.
    n_dropped : int
        Rows left out because they have no group.
    pos_label : scalar or None
        The favourable label. None: the report is about numbers.
    """

    gaps: dict[str, float]
    n_rows: int
    n_dropped: int
    pos_label: Hashable | None
    _by_group: pd.DataFrame = field()

    def to_frame(self) -> pd.DataFrame:
        """Table of shape (n_groups + 1, n_rates): one row a group, then "overall".

        Returns
        -------
        DataFrame
            A copy. Columns: count, selection_rate, accuracy, true_positive_rate,
            false_positive_rate and, with scores, roc_auc. With abstentions also
            answered, coverage, and the four rates with "_among_all" added. Of numbers: count,
            mean_target, mean_prediction, mean_absolute_error, r2, and distribution_gap and
            mean_gap, the largest distances of a group from any other one.
        """
        return self._by_group.copy()

    def __str__(self) -> str:
        with pd.option_context("display.width", 200, "display.max_columns", 20):
            table = self._by_group.to_string(float_format=self._figure)
        gaps = "\n".join(f"  {name}: {self._shown(gap)}" for name, gap in self.gaps.items())
        return f"{self._heading()}\n{table}\nLargest gap between two groups:\n{gaps}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = (
            (str(group), f"{n}", *("–" if pd.isna(each) else self._figure(each) for each in rates))
            for group, n, *rates in self._by_group.itertuples()
        )
        caption = "Errors by group" if self.pos_label is None else "Rates by group"
        table = html_table(caption, ("group", *self._by_group.columns), rows)
        items = "".join(f"<li>{name}: {self._shown(gap)}</li>" for name, gap in self.gaps.items())
        return (
            f"<p>{html.escape(self._heading())}</p>{table}"
            f"<p>Largest gap between two groups:</p><ul>{items}</ul>"
        )

    def _figure(self, value: float) -> str:
        """A rate, or a number in units of the target, which may be of any size."""
        return f"{value:.4g}" if self.pos_label is None else f"{value:.3f}"

    def _shown(self, gap: float) -> str:
        if math.isnan(gap):
            return "not defined (a group lacks such rows)"
        return self._figure(gap)

    def _heading(self) -> str:
        left = f"{self.n_dropped} more without a group left out"
        dropped = left if self.n_dropped else "every row has a group"
        about = "predicted numbers"
        if self.pos_label is not None:
            about = f"favourable label {self.pos_label!r}"
        return (
            f"{self.n_rows} rows ({dropped}); {about}; "
            "estimates on these rows, no confidence attached"
        )


def fairness_report(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike | pd.Series | pd.DataFrame,
    y_score: ArrayLike | None = None,
    pos_label: Hashable | None = None,
    abstention_label: Hashable | None = None,
    classes: Sequence[Hashable] | None = None,
    numeric: bool = False,
) -> FairnessReport:
    """Rates or errors of each group, and the gaps between groups, on fairlearn's MetricFrame.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        True and predicted labels of any type, or numbers.
    sensitive_features : array-like, Series or DataFrame of shape (n_rows,) or (n_rows, k)
        Group of each row; several columns are intersected. Rows without a group (None,
        NaN or ``pd.NA`` in any column) are left out and counted.
    y_score : array-like of shape (n_rows,) or None, default=None
        Score of the favourable label, such as ``predict_proba(X)[:, 1]``; adds the area
        under the ROC curve.
    pos_label : scalar or None, default=None
        Favourable label. None takes the last of two labels in sorted order. With more it must be
        named: the rates then compare it with the rest, and accuracy is that of all labels.
    abstention_label : scalar or None, default=None
        What stands for "no answer" in `y_pred`, such as ``abstention_label_`` of the model. Rates
        are then those among the answered rows; columns answered and coverage are added, and those
        that end in "_among_all" count an abstention as neither selected nor right.
    classes : sequence or None, default=None
        All labels that exist, in your order; the last of two is the favourable one unless
        `pos_label` names it. None takes those that occur in `y_true` or `y_pred`, sorted.
    numeric : bool, default=False
        Whether `y_true` and `y_pred` are numbers, with errors and distances in place of rates. It
        is never guessed; the four arguments of labels and scores are left out.

    Returns
    -------
    FairnessReport
        Table, gaps and the number of rows left out.

    Raises
    ------
    ValueError
        If lengths differ, no row has a group, `pos_label` is not a label (where one label alone
        occurs, the other one may be favourable), a label is not one of `classes`, there are more
        than two labels and none is named, `abstention_label` is a true label, or with `numeric` a
        value is no finite number.

    Examples
    --------
    >>> from skfairdp.metrics import fairness_report
    >>> report = fairness_report(
    ...     ["no", "yes", "no", "yes", "no"],
    ...     ["yes", "yes", "no", "yes", "no"],
    ...     sensitive_features=["a", "a", "b", "b", None],
    ... )
    >>> report.gaps["demographic_parity"], report.n_dropped
    (0.5, 1)
    >>> groups = ["a", "a", "b", "b"]
    >>> wages = [[20.0, 31.5, 24.0, 28.0], [22.0, 30.0, 25.0, 29.0]]
    >>> fairness_report(*wages, sensitive_features=groups, numeric=True).gaps["mean_gap"]
    1.0
    """
    if numeric:
        own = {"y_score": y_score, "pos_label": pos_label}
        own |= {"abstention_label": abstention_label, "classes": classes}
        if named := [name for name, value in own.items() if value is not None]:
            raise ValueError(
                f"numeric=True compares predicted numbers: leave {', '.join(named)} out, or call "
                "fairness_report without numeric for labels."
            )
        return _report_of_numbers(y_true, y_pred, sensitive_features)
    truth, guess = label_arrays(y_true, y_pred)
    groups, kept = _of_groups(sensitive_features, len(truth))
    answers = guess
    if abstention_label is not None:
        check_abstention(abstention_label, truth)
        answers = guess[guess != abstention_label]
    known = known_classes(truth, answers, classes)
    if pos_label is not None:
        check_positive(pos_label, known, classes)
    elif len(known) <= 2:
        pos_label = known[-1]
    else:
        raise ValueError(
            "y_true and y_pred hold more than two labels; name the favourable one with pos_label= "
            "and the report compares it with the rest."
        )
    scores = None if y_score is None else np.asarray(y_score, dtype=np.float64)
    if scores is not None and scores.shape != truth.shape:
        raise ValueError(
            f"y_score must have shape {truth.shape}, one score of the favourable label a row; got "
            f"shape {scores.shape}. Of predict_proba pass the column of that label."
        )

    rows = pd.DataFrame({"own": truth == pos_label, "chosen": guess == pos_label}).astype(int)
    rows = rows.assign(right=truth == guess, group=groups.codes, score=scores)[kept]
    if abstention_label is None:
        table = _table(rows, len(groups.labels), scores is not None)
    else:
        given_answers = rows[guess[kept] != abstention_label]
        answered = _table(given_answers, len(groups.labels), scores is not None)
        among_all = _table(rows, len(groups.labels), False)
        asked, given = among_all.pop("count"), answered.pop("count")
        coverage = given / asked.where(asked > 0)
        counted = pd.DataFrame({"count": asked, "answered": given, "coverage": coverage})
        table = pd.concat([counted, answered, among_all.add_suffix(AMONG_ALL)], axis=1)
    return _report(table, _gaps(table.iloc[:-1]), groups, kept, pos_label)


def _of_groups(sensitive_features: Any, n_rows: int) -> tuple[Groups, NDArray[np.bool_]]:
    """Groups of the rows, and which rows have one."""
    groups = encode_groups(sensitive_features, n_rows=n_rows, on_missing="drop")
    kept = groups.codes >= 0
    if not kept.any():
        raise ValueError("sensitive_features has no value in any row; nothing can be compared.")
    return groups, kept


def _report(
    table: pd.DataFrame,
    gaps: dict[str, float],
    groups: Groups,
    kept: NDArray[np.bool_],
    pos_label: Hashable | None,
) -> FairnessReport:
    """Name the rows of a table after the groups."""
    table.index = pd.Index([*map(str, groups.labels), "overall"], name="group")
    return FairnessReport(gaps, int(kept.sum()), int((~kept).sum()), pos_label, table)


def _report_of_numbers(
    y_true: ArrayLike, y_pred: ArrayLike, sensitive_features: Any
) -> FairnessReport:
    label_arrays(y_true, y_pred)  # of one length
    truth = finite_numbers(y_true, "y_true", "numeric=True")
    guess = finite_numbers(y_pred, "y_pred", "numeric=True")
    groups, kept = _of_groups(sensitive_features, len(truth))
    table = table_of_numbers(truth[kept], guess[kept], groups.codes[kept], len(groups.labels))
    by_group = table.iloc[:-1]
    gaps = {name: float(table[name].iloc[-1]) for name in NUMBER_NOTIONS}
    gaps |= {name: _spread(by_group[name]) for name in ("mean_absolute_error", "r2")}
    return _report(table, gaps, groups, kept, None)


def _gaps(by_group: pd.DataFrame) -> dict[str, float]:
    """Largest differences between groups, of rates by group."""
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


def _table(rows: pd.DataFrame, n_groups: int, scored: bool) -> pd.DataFrame:
    """Rates by group, of labels and predictions as 0 and 1, and of all rows at the end."""
    recall = partial(recall_score, zero_division=np.nan)  # where fairlearn would say 0 for 0 of 0
    metrics: dict[str, Callable[..., float]] = {
        "count": count,
        "selection_rate": selection_rate,
        "accuracy": lambda own, chosen, right: right.mean(),
        "true_positive_rate": recall,
        "false_positive_rate": lambda own, chosen: recall(1 - own, chosen),
    }
    sample_params = {"accuracy": {"right": rows["right"]}}
    if scored:
        metrics["roc_auc"] = _roc_auc
        sample_params["roc_auc"] = {"y_score": rows["score"]}
    if len(rows) == 0:  # every row of every group was refused
        table = pd.DataFrame(math.nan, index=range(n_groups + 1), columns=list(metrics))
    else:
        given: dict[str, Any] = {"metrics": metrics, "sample_params": sample_params}
        labels = {"y_true": rows["own"], "y_pred": rows["chosen"]}
        frame = MetricFrame(**labels, sensitive_features=rows["group"], **given)
        by_group = frame.by_group.reindex(range(n_groups))
        table = pd.concat([by_group, frame.overall.to_frame().T], ignore_index=True)
    return table.astype(float).fillna({"count": 0.0}).astype({"count": int})


def _roc_auc(own: NDArray, chosen: NDArray, y_score: NDArray) -> float:
    return float(roc_auc_score(own, y_score)) if 0 < own.sum() < len(own) else math.nan


def _spread(rates: pd.Series) -> float:
    """Largest minus smallest rate; NaN as soon as one rate is, or with one group."""
    return math.nan if len(rates) < 2 else float(np.ptp(rates.to_numpy(dtype=np.float64)))
