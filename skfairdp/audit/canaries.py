"""Canaries: records that are easy to notice in a model, and scores of how well it learnt them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.foundation.parameters import COUNT, POSITIVE, check_values
from skfairdp.records.labels import take_rows

Score = Callable[[Any, Any, NDArray], ArrayLike]


@dataclass(frozen=True, eq=False)
class Canaries:
    """Records that an audit adds to the training rows, or leaves out.

    Parameters
    ----------
    X : ndarray or DataFrame of shape (m, n_features)
        Features, of the type and columns of the training rows.
    y : ndarray of shape (m,)
        Labels, among those of the training rows.
    sensitive_features : ndarray, Series or DataFrame of shape (m,) or (m, k), or None
        Groups, among those of the training rows; None where there are none.
    """

    X: Any
    y: NDArray
    sensitive_features: Any = None

    def __post_init__(self) -> None:
        for name in ("y", "sensitive_features"):
            part = getattr(self, name)
            if part is not None and len(part) != len(self.X):
                raise ValueError(f"{name} has {len(part)} entries for {len(self.X)} canaries.")

    def __len__(self) -> int:
        return len(self.X)

    def take(self, chosen: NDArray[np.bool_]) -> Canaries:
        """Select some canaries.

        Parameters
        ----------
        chosen : ndarray of bool, shape (m,)
            Which ones.

        Returns
        -------
        Canaries
        """
        where, groups = np.flatnonzero(chosen), self.sensitive_features
        if groups is not None:
            groups = take_rows(groups, where)
        return Canaries(take_rows(self.X, where), take_rows(self.y, where), groups)


def orthogonal_canaries(
    X: ArrayLike,
    n_canaries: int,
    *,
    classes: Sequence[Hashable] = (0, 1),
    norm: float = 10.0,
    group: Hashable | None = None,
) -> tuple[NDArray[np.floating], Canaries]:
    """Give every canary its own feature, so that canaries do not blur each other.

    The training rows get `n_canaries` more columns of zeros. A canary is zero but for its own
    column, where it is `norm`. A model whose first layer is linear has one weight per canary that
    only this canary and the noise move.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Training rows, numbers.
    n_canaries : int
        Number of canaries, m >= 1.
    classes : sequence, default=(0, 1)
        Labels to alternate between; for a regressor two targets, such as its `target_bounds`.
    norm : float, default=10.0
        L2 norm of a canary: so large that its gradient is clipped, and its logit not saturated.
    group : scalar or None, default=None
        Group of all canaries. Choose the group with the largest per-group epsilon.

    Returns
    -------
    X_padded : ndarray of float, shape (n, d + m)
        The training rows with their new columns, in their own precision.
    canaries : Canaries
        The m canaries.

    Raises
    ------
    ValueError
        If `n_canaries` or `norm` is not positive or `X` is not a table.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.audit import orthogonal_canaries
    >>> X, canaries = orthogonal_canaries(np.ones((5, 2)), 3)
    >>> X.shape, canaries.X.shape, canaries.y.tolist()
    ((5, 5), (3, 5), [0, 1, 0])
    """
    rows = np.asarray(X)
    if not np.issubdtype(rows.dtype, np.floating):
        rows = rows.astype(np.float64)
    if rows.ndim != 2:
        raise ValueError(f"X must have shape (n, d); got {rows.shape}.")
    check_values(n_canaries=(n_canaries, COUNT), norm=(norm, POSITIVE))
    padded = np.pad(rows, ((0, 0), (0, n_canaries)))
    features = np.zeros((n_canaries, padded.shape[1]), dtype=rows.dtype)
    features[:, rows.shape[1] :] = norm * np.eye(n_canaries, dtype=rows.dtype)
    labels = np.resize(np.asarray(classes), n_canaries)
    groups = None if group is None else np.array([group] * n_canaries)
    return padded, Canaries(features, labels, groups)


def log_odds(model: Any, X: Any, y: NDArray) -> NDArray[np.float64]:
    """Score of a canary: the log-odds that the released model gives its label.

    Parameters
    ----------
    model : fitted classifier
        Its ``predict_proba`` and ``classes_`` are read, nothing else.
    X : array-like of shape (m, n_features)
        Canaries.
    y : ndarray of shape (m,)
        Their labels.

    Returns
    -------
    ndarray of float64, shape (m,)
        Larger means "learnt better".
    """
    proba = np.asarray(model.predict_proba(X), dtype=np.float64)
    own = np.asarray(y)[:, None] == np.asarray(model.classes_)[None, :]
    label, rest = np.where(own, proba, 0.0).sum(axis=1), np.where(own, 0.0, proba).sum(axis=1)
    tiny = np.finfo(np.float64).tiny
    return np.log(np.maximum(label, tiny)) - np.log(np.maximum(rest, tiny))


def closeness(model: Any, X: Any, y: NDArray) -> NDArray[np.float64]:
    """Score of a canary: minus the distance of the released model's prediction from its target.

    Parameters
    ----------
    model : fitted regressor
        Its ``predict`` is called, nothing else.
    X : array-like of shape (m, n_features)
        Canaries.
    y : ndarray of shape (m,)
        Their targets.

    Returns
    -------
    ndarray of float64, shape (m,)
        Larger means "learnt better".
    """
    return -np.abs(np.asarray(model.predict(X), dtype=np.float64) - np.asarray(y))


def stack_rows(first: Any, second: Any) -> Any:
    """Rows of `second` below those of `first`, keeping pandas types."""
    if len(second) == 0:
        return first
    if isinstance(first, (pd.DataFrame, pd.Series)):
        if not isinstance(second, type(first)):
            frame = isinstance(first, pd.DataFrame)
            names = {"columns": first.columns} if frame else {"name": first.name}
            second = type(first)(np.asarray(second), **names)
        return pd.concat([first, second], ignore_index=True)
    return np.concatenate([np.asarray(first), np.asarray(second)])
