"""Mutual information from tables of counts, and from distances to nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from scipy.special import digamma
from sklearn.metrics import mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from skfairdp.fairness.information import MutualInformation, numeric_rows, standardised
from skfairdp.foundation.parameters import Number, check_arguments
from skfairdp.records.groups import encode_groups


def plug_in(
    Z: ArrayLike | pd.Series | pd.DataFrame,
    s: ArrayLike | pd.Series | pd.DataFrame,
    *,
    miller_madow: bool = True,
    units: str = "nats",
) -> MutualInformation:
    """Estimate I(S; Z) of discrete variables by the shares of the rows.

    Parameters
    ----------
    Z, s : array-like, Series or DataFrame of shape (n_rows,) or (n_rows, k)
        Labels of any hashable type; several columns are intersected.
    miller_madow : bool, default=True
        Subtract the leading term of the bias. Without it the estimate is too high by about
        ``(|Z| - 1)(|S| - 1)/(2n)`` nats, also for independent variables.
    units : {"nats", "bits"}, default="nats"
        Unit of the result.

    Returns
    -------
    MutualInformation
        With method "plug_in".

    Raises
    ------
    ValueError
        For missing values, different lengths or unknown units.

    Notes
    -----
    Each entropy is corrected by (occupied cells - 1)/(2n). That is good while cells hold several
    rows each; else :func:`mutual_information` takes another estimator.

    References
    ----------
    Miller, "Note on the bias of information estimates", 1955. Paninski, "Estimation of Entropy and
    Mutual Information", Neural Computation 15 (2003), section 4.

    Examples
    --------
    >>> from skfairdp.metrics import plug_in
    >>> plug_in([0, 0, 1, 1], ["a", "a", "b", "b"], miller_madow=False, units="bits").value
    1.0
    """
    n_rows = len(np.asarray(Z))
    left = encode_groups(Z, n_rows=n_rows, name="Z")
    right = encode_groups(s, n_rows=n_rows, name="s")
    unclipped = table_information(left.codes, right.codes, miller_madow)
    bias = "corrected after Miller and Madow" if miller_madow else "kept"
    cells = f"{len(left.labels)} x {len(right.labels)} cells"
    reason = f"Shares of a table of {cells}, bias {bias}."
    return estimated(unclipped, "plug_in", reason, n_rows, units)


def estimated(nats: float, method: str, reason: str, n_rows: int, units: str) -> MutualInformation:
    """State an estimate in nats that may have fallen below zero, in other units."""
    return MutualInformation(max(0.0, nats), method, "nats", reason, n_rows, nats).to(units)


def table_information(left: NDArray, right: NDArray, miller_madow: bool) -> float:
    """Mutual information of two codes a row by the table of their counts, nats."""
    counts = contingency_matrix(left, right)
    value = mutual_info_score(None, None, contingency=counts)
    excess = np.count_nonzero(counts) - sum(counts.shape) + 1
    return float(value - miller_madow * excess / (2.0 * len(left)))


# In standard deviations of a column: far below any distance that means something, far above the
# rounding of float64.
_JITTER = 1e-9


def nearest_neighbours(
    Z: ArrayLike,
    s: ArrayLike | pd.Series | pd.DataFrame,
    *,
    n_neighbors: int = 3,
    continuous_s: bool = False,
    units: str = "nats",
    random_state: int | None = None,
) -> MutualInformation:
    """Estimate I(S; Z) for a continuous representation of few dimensions.

    Parameters
    ----------
    Z : array-like of shape (n_rows, ...)
        Numeric representation, all columns taken together.
    s : array-like, Series or DataFrame of shape (n_rows,) or (n_rows, k)
        Groups, or numbers with ``continuous_s=True``.
    n_neighbors : int, default=3
        Neighbours to look at; more lower the variance and raise the bias.
    continuous_s : bool, default=False
        False: Ross's estimator for discrete `s`; True: the first estimator of Kraskov,
        Stoegbauer and Grassberger.
    units : {"nats", "bits"}, default="nats"
        Unit of the result.
    random_state : int or None, default=None
        Seed of the jitter (a billionth of a standard deviation) that breaks ties, which these
        estimators cannot bear; atoms, as at the ends of a truncation, are spread by it.

    Returns
    -------
    MutualInformation
        With method "nearest_neighbours".

    Raises
    ------
    ValueError
        For non-finite or non-numeric `Z`, a group with one row, `n_neighbors` outside 1 to
        n_rows - 1, or unknown units.

    Notes
    -----
    Columns are divided by their standard deviations and distances are largest coordinate
    differences. The estimate is consistent, but underestimates strong dependence and loses its
    worth above about five dimensions. It may fall below zero: see `unclipped`.

    References
    ----------
    Ross, "Mutual Information between Discrete and Continuous Data Sets", PLoS ONE 9 (2014).
    Kraskov, Stoegbauer and Grassberger, "Estimating mutual information", Phys. Rev. E 69 (2004),
    equation (8).

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.metrics import nearest_neighbours
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 2000)
    >>> bool(nearest_neighbours(rng.normal(size=2000) + 100 * s, s, units="bits").value > 0.99)
    True
    """
    rows = numeric_rows(Z)
    neighbours = Number(1, len(rows) - 1, integer=True)
    check_arguments({"n_neighbors": n_neighbors}, n_neighbors=neighbours)
    estimate = estimator(rows, s, n_neighbors, continuous_s, random_state)
    unclipped = estimate(np.arange(len(rows)))
    name = "Kraskov, Stoegbauer and Grassberger's first" if continuous_s else "Ross's"
    reason = f"{name} estimator with {n_neighbors} neighbours in {rows.shape[1]} dimension(s)."
    return estimated(unclipped, "nearest_neighbours", reason, len(rows), units)


def estimator(
    rows: NDArray, s: Any, n_neighbors: int, continuous_s: bool, random_state: int | None
) -> Callable[[NDArray[np.int64]], float]:
    """A function from an order of `s` to the estimate in nats; trees that stay are built once."""
    rng = np.random.default_rng(random_state)
    points = _spread(rows, rng)
    tree = cKDTree(points)
    if continuous_s:
        others = _spread(other_numbers(s, len(points)), rng)
        return lambda order: _kraskov(points, tree, others[order], n_neighbors)
    groups = encode_groups(s, n_rows=len(points), name="s")
    if groups.counts.min() < 2:
        rare = groups.labels[int(np.argmin(groups.counts))]
        raise ValueError(f"s has a group with one row ({rare!r}); it has no neighbour. Drop it.")
    return lambda order: _ross(points, tree, groups.codes[order], n_neighbors)


def other_numbers(s: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    """Rows of a numeric `s`, as many as of `Z`."""
    numbers = numeric_rows(s, "s")
    if len(numbers) != n_rows:
        raise ValueError(f"s has {len(numbers)} rows and Z has {n_rows}.")
    return numbers


def _ross(points: NDArray[np.float64], tree: cKDTree, codes: NDArray, n_neighbors: int) -> float:
    counts = np.bincount(codes)
    radius = np.empty(len(points))
    for code in np.unique(codes):
        own = codes == code
        # The first neighbour of a point is the point.
        nearest = min(n_neighbors, counts[code] - 1) + 1
        distances, _ = cKDTree(points[own]).query(points[own], k=[nearest], p=np.inf)
        radius[own] = distances[:, 0]
    neighbours = np.minimum(n_neighbors, counts[codes] - 1)
    # The k-th neighbour is left out and the point itself counted instead.
    within = _within(tree, points, np.nextafter(radius, 0.0))
    return float(
        digamma(len(points))
        + digamma(neighbours).mean()
        - digamma(counts[codes]).mean()
        - digamma(within).mean()
    )


def _kraskov(
    points: NDArray[np.float64], tree: cKDTree, others: NDArray[np.float64], n_neighbors: int
) -> float:
    joint = np.hstack([points, others])
    radius = cKDTree(joint).query(joint, k=[n_neighbors + 1], p=np.inf)[0][:, 0]
    inside = np.nextafter(radius, 0.0)
    # Both counts include the point itself: n + 1 in the paper's notation.
    left = _within(tree, points, inside)
    right = _within(cKDTree(others), others, inside)
    apart = (digamma(left) + digamma(right)).mean()
    return float(digamma(n_neighbors) + digamma(len(points)) - apart)


def _within(tree: cKDTree, points: NDArray[np.float64], radius: NDArray[np.float64]) -> NDArray:
    """Points no farther than `radius` from each, itself included."""
    return tree.query_ball_point(points, radius, p=np.inf, return_length=True)


def _spread(rows: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Columns of standard deviation one without ties."""
    return standardised(rows) + _JITTER * rng.normal(size=rows.shape)
