"""Gaps between groups, measured on rows at hand.

These are plain estimates: no confidence, no privacy. What may be claimed about people
who are not among these rows is the business of a certificate.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.fairness.notions import Notion, Stratum, get_notion
from skfairdp.fairness.number_notions import NUMBER_NOTIONS
from skfairdp.metrics.number_gaps import number_gap
from skfairdp.records.groups import Groups, encode_groups
from skfairdp.records.labels import count_rows, label_column, positions, take_rows


def group_gap(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    notion: str | Notion = "demographic_parity",
    pos_label: Hashable | None = None,
    classes: Sequence[Hashable] | None = None,
) -> float:
    """Largest difference between two groups in the rate that a notion equalises.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        True and predicted labels, or numbers.
    sensitive_features : array-like, Series or DataFrame of shape (n_rows,) or (n_rows, k)
        Group of each row; several columns are intersected. A missing value is refused.
    notion : str or Notion, default="demographic_parity"
        A name of `skfairdp.fairness.NOTIONS`, which explains it, or your own notion. Of numbers:
        "distribution_gap" (Kolmogorov-Smirnov distance) or "mean_gap".
    pos_label : scalar or None, default=None
        Favourable label. None takes the second of two classes, and of more the largest gap over
        all in turn; a given label compares that class with the rest.
    classes : sequence or None, default=None
        All labels that exist, in your order. None takes those that occur in
        `y_true` or `y_pred`, sorted.

    Returns
    -------
    float
        The gap, between 0 and 1; of means in units of the predictions.

    Raises
    ------
    ValueError
        If there are fewer than two groups, if a group has no row that the notion
        speaks of (the gap is not defined, and 0 would be a lie), or if an argument is
        outside what is allowed.

    Examples
    --------
    >>> from skfairdp.metrics import group_gap
    >>> group_gap([0, 1, 0, 1], [1, 1, 0, 1], sensitive_features=["a", "a", "b", "b"])
    0.5
    """
    of_numbers = isinstance(notion, str) and notion in NUMBER_NOTIONS
    if of_numbers and not (pos_label is None and classes is None):
        raise ValueError(f"notion={notion!r} compares numbers: leave pos_label and classes out.")
    truth, guess = label_arrays(y_true, y_pred)
    groups = encode_groups(sensitive_features, n_rows=len(truth))
    if len(groups.labels) < 2:
        raise ValueError(
            f"sensitive_features holds {len(groups.labels)} group(s); a gap needs at least two. "
            "Score rows of several groups together (for instance with StratifiedKFold on them)."
        )
    if of_numbers:
        return number_gap(guess, groups, str(notion))
    chosen, known = get_notion(notion), known_classes(truth, guess, classes)
    if pos_label is not None:
        check_positive(pos_label, known, classes)
    if pos_label is None or not chosen.compares_predictions:
        truth, guess = positions(truth, known), positions(guess, known)
    else:
        truth, guess = (truth == pos_label).astype(int), (guess == pos_label).astype(int)
        known = [f"not {pos_label}", pos_label]
    return max(_gap_of(stratum, truth, guess, groups) for stratum in chosen.strata(known))


def label_arrays(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[NDArray, NDArray]:
    """Two label arrays of one length, shape (n_rows,) each."""
    n_rows = count_rows(y_true)
    truth = label_column(y_true, n_rows, declared=False, name="y_true")
    guess = label_column(y_pred, n_rows, declared=False, name="y_pred")
    if n_rows == 0 or not {truth.dtype.kind, guess.dtype.kind} <= set("biufUO"):
        raise ValueError("y_true and y_pred must be of one length > 0: text, numbers, booleans.")
    return truth, guess


def known_classes(truth: NDArray, guess: NDArray, classes: Sequence | None) -> list[Hashable]:
    """All labels: the declared ones in their order, or those that occur, sorted."""
    found = None
    if not any(pd.isna(part).any() or (part == np.inf).any() for part in (truth, guess)):
        with suppress(TypeError):  # kinds that have no common order
            found = np.union1d(truth, guess)
    # Of texts and numbers numpy makes texts, which are no label of either.
    if found is None or not _among(found.tolist(), truth, guess):
        raise ValueError("y_true and y_pred must hold labels of one kind, finite and none missing.")
    if classes is None:
        if found.dtype.kind == "f" and (found % 1.0 != 0.0).any():
            raise ValueError(
                "y_true or y_pred holds numbers with fractions, which are no labels. Compare "
                "predicted numbers by group_gap with notion='distribution_gap' or 'mean_gap', or "
                "by fairness_report with numeric=True, and name labels that are such numbers by "
                "classes=."
            )
        return found.tolist()
    known: list[Hashable] = np.asarray(classes).tolist()
    if not _among(known, truth, guess):
        raise ValueError(
            f"y_true and y_pred may only hold the declared classes {known!r}; name all of them."
        )
    return known


def _among(known: list[Hashable], *labels: NDArray) -> bool:
    """Whether all labels are among known ones, as they are."""
    return all(bool((positions(part, known) >= 0).all()) for part in labels)


def check_positive(
    pos_label: Hashable, known: list[Hashable], classes: Sequence | None = None
) -> None:
    """Refuse a favourable label that is not a label.

    Where one label alone occurs and none are declared, another one of its kind may be the one that
    nobody has.
    """
    other = len(known) == 1 and classes is None and _alike(pos_label, known[0])
    if pos_label not in known and not other:
        raise ValueError(
            f"pos_label must be one of the labels {known!r}; got {pos_label!r}. Name all labels "
            "with classes= if no row has it."
        )


def _alike(one: Hashable, other: Hashable) -> bool:
    """Whether two labels are both texts or both numbers."""
    kinds = (str, (int, float, np.number, np.bool_))
    return any(isinstance(one, kind) and isinstance(other, kind) for kind in kinds)


def check_abstention(abstention_label: Hashable, truth: NDArray) -> None:
    """Refuse a true label as the sign of an abstention."""
    if (truth == abstention_label).any():
        raise ValueError(
            f"abstention_label={abstention_label!r} is a true label of some row; name the label "
            "that stands for an abstention in y_pred, such as abstention_label_ of the model."
        )


def _gap_of(stratum: Stratum, truth: NDArray, guess: NDArray, groups: Groups) -> float:
    success = stratum.successes[truth, guess]
    rows = success | stratum.failures[truth, guess]
    sizes = np.bincount(groups.codes[rows], minlength=len(groups.labels))
    if (sizes == 0).any():
        empty = groups.labels[int(np.argmin(sizes))]
        where = f" ({stratum.name})" if stratum.name else ""
        raise ValueError(
            f"group {empty!r} has no rows{where}, so its rate and the gap are not defined here. "
            "Score more rows at a time, or choose a notion that does not split them so finely."
        )
    return float(np.ptp(np.bincount(groups.codes[rows], weights=success[rows]) / sizes))


class AnsweredRows(NamedTuple):
    """Result of `answered`; ``_asdict()`` returns keyword arguments of fairlearn.

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

    fairlearn's metrics take an abstention for "not selected"; so leave those rows out before.

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
            raise ValueError(f"sensitive_features must have one value per row: {len(truth)}.")
        groups = take_rows(groups, kept)
    return AnsweredRows(take_rows(y_true, kept), take_rows(y_pred, kept), groups)
