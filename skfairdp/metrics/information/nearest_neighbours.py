"""Mutual information from distances to nearest neighbours, for few dimensions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from scipy.special import digamma

from skfairdp.fairness.groups import encode_groups
from skfairdp.fairness.information import MutualInformation, numeric_rows, standardised
from skfairdp.parameters import Number, check_arguments

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
    estimate = estimator(
        rows, s, n_neighbors=n_neighbors, continuous_s=continuous_s, random_state=random_state
    )
    unclipped = estimate(np.arange(len(rows)))
    name = "Kraskov, Stoegbauer and Grassberger's first" if continuous_s else "Ross's"
    return MutualInformation(
        value=max(0.0, unclipped),
        method="nearest_neighbours",
        units="nats",
        reason=f"{name} estimator with {n_neighbors} neighbours in {rows.shape[1]} dimension(s).",
        n_rows=len(rows),
        unclipped=unclipped,
    ).to(units)


def estimator(
    rows: NDArray[np.float64],
    s: ArrayLike | pd.Series | pd.DataFrame,
    *,
    n_neighbors: int,
    continuous_s: bool,
    random_state: int | None,
) -> Callable[[NDArray[np.int64]], float]:
    """A function from an order of `s` to the estimate in nats; trees that stay are built once."""
    rng = np.random.default_rng(random_state)
    points = _spread(rows, rng)
    tree = cKDTree(points)
    if continuous_s:
        others = numeric_rows(s, "s")
        if len(others) != len(points):
            raise ValueError(f"s has {len(others)} rows and Z has {len(points)}.")
        others = _spread(others, rng)
        return lambda order: _kraskov(points, tree, others[order], n_neighbors)
    groups = encode_groups(s, n_rows=len(points), name="s")
    if groups.counts.min() < 2:
        rare = groups.labels[int(np.argmin(groups.counts))]
        raise ValueError(f"s has a group with one row ({rare!r}); it has no neighbour. Drop it.")
    return lambda order: _ross(points, tree, groups.codes[order], n_neighbors)


def _ross(
    points: NDArray[np.float64], tree: cKDTree, codes: NDArray[np.int64], n_neighbors: int
) -> float:
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
    return float(
        digamma(n_neighbors) + digamma(len(points)) - (digamma(left) + digamma(right)).mean()
    )


def _within(
    tree: cKDTree, points: NDArray[np.float64], radius: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Points no farther than `radius` from each, itself included."""
    return tree.query_ball_point(points, radius, p=np.inf, return_length=True)


def _spread(rows: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Columns of standard deviation one without ties."""
    return standardised(rows) + _JITTER * rng.normal(size=rows.shape)
