"""One call that shows how a model treats each group."""

from __future__ import annotations

import html
import math
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.fairness.groups import encode_groups
from skfairdp.metrics.gaps import check_abstention, check_positive, known_classes, label_arrays
from skfairdp.metrics.rates import gaps_of, rates_by_group


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
        with "_among_all" added.
    n_rows : int
        Rows that the report is about.
    n_dropped : int
        Rows left out because they have no group.
    pos_label : scalar
        The favourable label.
    """

    gaps: dict[str, float]
    n_rows: int
    n_dropped: int
    pos_label: Hashable
    _by_group: pd.DataFrame = field()

    def to_frame(self) -> pd.DataFrame:
        """Table of shape (n_groups + 1, n_rates): one row a group, then "overall".

        Returns
        -------
        DataFrame
            A copy. Columns: count, selection_rate, accuracy, true_positive_rate,
            false_positive_rate and, with scores, roc_auc. With abstentions also
            answered, coverage, and the four rates with "_among_all" added.
        """
        return self._by_group.copy()

    def __str__(self) -> str:
        with pd.option_context("display.width", 200, "display.max_columns", 20):
            table = self._by_group.to_string(float_format=lambda value: f"{value:.3f}")
        gaps = "\n".join(f"  {name}: {_shown(gap)}" for name, gap in self.gaps.items())
        return f"{self._heading()}\n{table}\nLargest gap between two groups:\n{gaps}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = self._by_group.to_html(float_format=lambda value: f"{value:.3f}", na_rep="–")
        items = "".join(f"<li>{name}: {_shown(gap)}</li>" for name, gap in self.gaps.items())
        return (
            f"<p>{html.escape(self._heading())}</p>{table}"
            f"<p>Largest gap between two groups:</p><ul>{items}</ul>"
        )

    def _heading(self) -> str:
        dropped = (
            "every row has a group"
            if self.n_dropped == 0
            else f"{self.n_dropped} more without a group left out"
        )
        return (
            f"{self.n_rows} rows ({dropped}); favourable label {self.pos_label!r}; "
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
) -> FairnessReport:
    """Rates of each group, and the gaps between groups, on fairlearn's MetricFrame.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        True and predicted labels of any type.
    sensitive_features : array-like, Series or DataFrame of shape (n_rows,) or (n_rows, k)
        Group of each row; several columns are intersected. Rows without a group (None,
        NaN or ``pd.NA`` in any column) are left out and counted.
    y_score : array-like of shape (n_rows,) or None, default=None
        Score of the favourable label, such as ``predict_proba(X)[:, 1]``; adds the area
        under the ROC curve.
    pos_label : scalar or None, default=None
        Favourable label. None takes the last of two labels in sorted order. With more
        than two labels it must be named: the rates then compare it with the rest, and
        accuracy is that of all labels.
    abstention_label : scalar or None, default=None
        What stands for "no answer" in `y_pred`, such as ``abstention_label_`` of an
        AbstainingClassifier. Rates are then those among the answered rows; columns
        answered and coverage are added, and columns that end in "_among_all" count an
        abstention as neither selected nor right.

    Returns
    -------
    FairnessReport
        Table, gaps and the number of rows left out.

    Raises
    ------
    ValueError
        If lengths differ, no row has a group, `pos_label` is not a label, there are more
        than two labels and none is named, or `abstention_label` is a true label.

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
    """
    truth, guess = label_arrays(y_true, y_pred)
    groups = encode_groups(sensitive_features, n_rows=len(truth), on_missing="drop")
    kept = groups.codes >= 0
    if not kept.any():
        raise ValueError("sensitive_features has no value in any row; nothing can be compared.")
    answers = guess
    if abstention_label is not None:
        check_abstention(abstention_label, truth)
        answers = guess[guess != abstention_label]
    known = known_classes(truth, answers, None)
    if pos_label is not None:
        check_positive(pos_label, known)
    elif len(known) <= 2:
        pos_label = known[-1]
    else:
        raise ValueError(
            "y_true and y_pred hold more than two labels; name the favourable one with pos_label= "
            "and the report compares it with the rest."
        )
    table = rates_by_group(
        truth[kept],
        guess[kept],
        groups.codes[kept],
        n_groups=len(groups.labels),
        pos_label=pos_label,
        y_score=None if y_score is None else _scores(y_score, len(truth))[kept],
        abstention_label=abstention_label,
    )
    gaps = gaps_of(table.iloc[:-1])
    names = [str(label) for label in groups.labels]
    table.index = pd.Index([*names, "overall"], name="group")
    return FairnessReport(
        gaps=gaps,
        n_rows=int(kept.sum()),
        n_dropped=int((~kept).sum()),
        pos_label=pos_label,
        _by_group=table,
    )


def _scores(y_score: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    scores = np.asarray(y_score, dtype=np.float64)
    if scores.shape != (n_rows,):
        raise ValueError(
            f"y_score must have shape ({n_rows},), one score of the favourable label a row; got "
            f"shape {scores.shape}. Of predict_proba pass the column of that label."
        )
    return scores


def _shown(gap: float) -> str:
    return "not defined (a group lacks such rows)" if math.isnan(gap) else f"{gap:.3f}"
