"""Gaps along a coarse path, fitted as curves that fall: the law of their noise is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import lsq_linear

from skfairdp.inprocessing.fair_path.path import ReleasedPath, gaps_of_table, unit_of_sums
from skfairdp.inprocessing.rates.constraints import Floats

# Variances of combinations of values below this part of the largest one are rounding.
_ROUNDING = 1e-12


def fitted_gaps(
    path: ReleasedPath,
    covariances: Floats,
    looks: Sequence[tuple[float, Floats]] = (),
    std: float = 0.0,
) -> Floats:
    """Fit signed gaps along a path as curves that fall in the direction of the path.

    Generalised least squares with the covariance of the noise, among curves that fall, or rise,
    as the multiplier grows: see ``docs/theory/fair_path.md``. Result: shape of
    `ReleasedPath.differences`.

    `path`: as `start_of` takes it. `covariances`: of its noise, as `covariances_of` returns them.
    `looks`: multipliers, and tables of decisions there, (n_groups, n_labels, n_answers), with noise
    of deviation `std` on each entry.
    """
    tables = [gaps_of_table(path.rates, path.direction, table, std) for _, table in looks]
    known, errors = np.zeros((2, len(path.differences[0]), len(looks)))
    for look, (gaps, stds) in enumerate(tables):
        known[:, look], errors[:, look] = gaps, stds
    # Gaps are linear between points in t = m / (1 + |m|).
    points = np.arange(len(path.multipliers))
    looked = np.interp([_t(m) for m, _ in looks], _t(path.multipliers), points)
    places = np.append(points, looked).astype(np.float64)
    fitted = []
    for pair, sign in enumerate(path.rates.dearer(path.direction)):
        values = np.append(path.differences[0][pair], known[pair])
        of_values = block_diag(covariances[pair], np.diag(errors[pair] ** 2))
        fitted.append(sign * falling(sign * values, of_values, places))
    return np.array(fitted)


def covariances_of(path: ReleasedPath, covariance: Floats) -> Floats:
    """Compute covariances of the noise of signed gaps, shape (n_rates * n_pairs, n, n).

    `path`: as `start_of` takes it, with noise of `decided` alone. `covariance` (side, side): of the
    noise in the prefix sums of one side.
    """
    n, side = len(path.multipliers), path.start
    of_counts = np.stack([path.shared_variances(point) for point in range(n)], axis=2)
    of_sums = np.zeros((n, n))
    of_sums[:side, :side] = covariance[::-1, ::-1]
    of_sums[side + 1 :, side + 1 :] = covariance
    return np.asarray(of_counts + unit_of_sums(path)[..., None] ** 2 * of_sums)


def falling(values: Floats, covariance: Floats, places: Floats) -> Floats:
    """Find the most likely one of the curves that never rise.

    Result (n_points,): the curve at points 0, 1, ..., up to the last of `places`. It is linear
    between them.

    `values` (n,): the curve at places (n,), with Gaussian noise. `covariance` (n, n): of the noise.
    """
    variances, axes = np.linalg.eigh(covariance)
    variances = np.maximum(variances, _ROUNDING * variances[-1])
    whitened = (axes / np.sqrt(variances)).T
    points = np.arange(int(places.max()) + 1)
    between = np.maximum(1.0 - np.abs(places[:, None] - points), 0.0)
    # The first value, and how much the curve falls at each step.
    steps = np.tril(-np.ones((len(points), len(points))))
    steps[:, 0] = 1.0
    least = np.append(-np.inf, np.zeros(len(points) - 1))
    design = whitened @ between @ steps
    found = lsq_linear(design, whitened @ values, (least, np.inf), method="bvls").x
    return np.cumsum(np.append(found[0], -found[1:]))  # equal where it does not fall


def _t(multipliers: Floats | float) -> Floats:
    return np.asarray(multipliers / (1.0 + np.abs(multipliers)))
