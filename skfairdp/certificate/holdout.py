"""Held-out rows as one (group x label x prediction) table."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing

from skfairdp.certificate.unwrap import Deployed
from skfairdp.fairness.groups import Groups, encode_groups
from skfairdp.privacy.noise import NoiseSource
from skfairdp.rows import label_column, positions

__all__ = ["encode_holdout_groups", "holdout_table"]


def encode_holdout_groups(
    values: ArrayLike,
    n_rows: int,
    deployed: Deployed,
    declared: tuple[Hashable, ...] | None,
    private: bool,
) -> Groups:
    """Sort held-out rows into the groups that were declared, or else seen at fit.

    Parameters
    ----------
    values : array-like, Series or DataFrame
        Sensitive features of the rows.
    n_rows : int
        Number of held-out rows.
    deployed : Deployed
        The model.
    declared : tuple or None
        Declared groups.
    private : bool
        Whether the rows are protected; then nothing about a single row is raised.

    Returns
    -------
    Groups
    """
    labels = declared if declared is not None else getattr(deployed.final, "groups_", None)
    if private and labels is None:
        raise ValueError(
            "count_epsilon protects the held-out rows, but the model was fitted without groups "
            "and the groups that occur among these rows are private; declare them as groups=[...]."
        )
    # An error about one private row would reveal it: such rows are left out in silence.
    return encode_groups(
        values,
        n_rows=n_rows,
        labels=labels,
        on_missing="drop",
        on_unknown="drop" if private else "raise",
    )


def holdout_table(
    deployed: Deployed,
    X: Any,
    y: ArrayLike | None,
    sensitive_features: Any,
    groups: Groups,
    private: bool,
    source: NoiseSource,
) -> tuple[list, NDArray]:
    """Classes and the (group x label x prediction) table of held-out rows.

    A randomised predictor's rows count by the probabilities of its predictions; where
    the table must be one of counts, because noise is added to it, each row's prediction
    is drawn once.

    Parameters
    ----------
    deployed : Deployed
        The model.
    X : array-like, shape (n_rows, n_features)
        Held-out rows.
    y : array-like, shape (n_rows,), or None
        Their labels; without them the label axis has length 1.
    sensitive_features : array-like
        Their groups, for a model that predicts with them.
    groups : Groups
        The same, encoded.
    private : bool
        Whether the rows are protected.
    source : NoiseSource
        Draws the predictions of a randomised predictor.

    Returns
    -------
    classes : list
        Class labels.
    table : ndarray, shape (n_groups, n_labels, n_classes)
        Integers, or sums of probabilities.
    """
    scores = _scores(deployed, X)
    predicted = _predicted(deployed, X, sensitive_features, groups) if scores is None else None
    classes = _classes(deployed, predicted, y, private)
    if scores is not None and private:
        scores = (source.sampling.random(scores.shape) < scores).astype(np.float64)
    n_rows = groups.codes.size
    labels = np.zeros(n_rows, dtype=np.int64)
    if y is not None:
        labels = _codes(y, classes, n_rows, "y", private)
    kept = (groups.codes >= 0) & (labels >= 0)
    shape = (len(groups.labels), 1 if y is None else len(classes), len(classes))
    cell = groups.codes[kept] * shape[1] + labels[kept]
    n_cells = shape[0] * shape[1]
    if scores is None:
        assert predicted is not None
        predictions = _codes(predicted, classes, n_rows, "predict(X)", private)
        flat = cell * shape[2] + np.maximum(predictions[kept], 0)
        flat = flat[predictions[kept] >= 0]
        return classes, np.bincount(flat, minlength=n_cells * shape[2]).reshape(shape)
    rows = np.bincount(cell, minlength=n_cells)
    positive = np.bincount(cell, weights=scores[kept], minlength=n_cells)
    table = np.stack([rows - positive, positive], axis=-1).reshape(shape)
    return classes, np.rint(table).astype(np.int64) if private else table


def _predicted(deployed: Deployed, X: Any, sensitive_features: Any, groups: Groups) -> NDArray[Any]:
    """Predictions; a model that predicts with groups is asked about rows inside the claim only.

    It refuses a row without a group, which must not end a claim about the others, and would
    reveal the row where rows are private.
    """
    inside = np.flatnonzero(groups.codes >= 0)
    if not deployed.group_aware or len(inside) == len(groups.codes):
        return deployed.predict(X, sensitive_features)
    if not len(inside):
        return np.repeat(np.asarray(deployed.final.classes_)[:1], len(groups.codes))
    rows = (_safe_indexing(values, inside) for values in (X, sensitive_features))
    answers = np.asarray(deployed.predict(*rows))
    predicted = np.repeat(answers[:1], len(groups.codes))  # of others any answer: none counts
    predicted[inside] = answers
    return predicted


def _scores(deployed: Deployed, X: Any) -> NDArray[np.float64] | None:
    """Probabilities of the second class for a predictor that decides at random."""
    hook = getattr(deployed.final, "_success_scores", None)
    scores = None if hook is None else hook(deployed.transform(X))
    return None if scores is None else np.clip(np.asarray(scores, dtype=np.float64), 0.0, 1.0)


def _classes(
    deployed: Deployed, predicted: ArrayLike | None, y: ArrayLike | None, private: bool
) -> list:
    known = getattr(deployed.final, "classes_", None)
    if known is not None:
        return np.asarray(known).tolist()
    if private:
        raise ValueError(
            "count_epsilon protects the held-out rows, but the model has no classes_, and the "
            "labels that occur among these rows are private; certify a classifier with classes_."
        )
    given = [np.asarray(values).ravel() for values in (predicted, y) if values is not None]
    return sorted(set(np.concatenate(given).tolist()))


def _codes(values: ArrayLike, classes: list, n_rows: int, name: str, private: bool) -> NDArray:
    """Position of each value among the classes; -1 for others, which only private rows may be."""
    codes = positions(label_column(values, n_rows, declared=True, name=name), classes)
    if not private and bool(np.any(codes < 0)):
        raise ValueError(
            f"{name} has a missing value or a label that is not among the model's classes, "
            f"{classes}; use these labels, or drop the rows with others."
        )
    return codes
