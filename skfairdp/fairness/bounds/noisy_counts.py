"""Bounds on differences of rates from counts that were released with noise.

The (group x label x prediction) table is released once, with independent discrete
Laplace noise ``Pr(Z = z) ~ exp(-epsilon |z|)`` on every entry. A row is in one entry, so
adding, removing or blanking a row changes the table by 1 in L1 norm, and the whole table
costs epsilon (pure). A success or failure count of a cell is a sum of some entries; its
noise is a sum of as many independent discrete Laplace variables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, signal, stats

from skfairdp.fairness.bounds.rate_gaps import clopper_pearson, gap_estimate, largest_difference

# Share of the error probability that is spent on the noise when the numbers of rows are
# private, fixed before any data is seen. Noise tails are exponential, so a small share
# widens the box by little.
NOISE_SHARE = 0.1
# By how much inverted bounds are widened for the root finder.
ROOT_TOLERANCE = 1e-7


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """Noisy success and failure counts of the cells of one notion.

    Parameters
    ----------
    successes, failures : ndarray of int64, shape (n_strata, n_groups)
        Noisy counts; they can be negative.
    success_terms, failure_terms : ndarray of int64, shape (n_strata,)
        Number of noisy table entries that each count is a sum of.
    trials : ndarray of int64 or None, shape (n_strata, n_groups)
        The true numbers of rows, where they are public; None where they are private.
    """

    successes: NDArray[np.int64]
    failures: NDArray[np.int64]
    success_terms: NDArray[np.int64]
    failure_terms: NDArray[np.int64]
    trials: NDArray[np.int64] | None = None


def private_gap_upper_bound(
    cells: NoisyCells, epsilon: float, *, confidence_level: float = 0.95
) -> float:
    """Upper confidence bound on the largest difference of rates, from noisy counts.

    The error probability covers the sampling of rows and the noise together. With
    public numbers of rows the law of (binomial + noise) is inverted exactly. With
    private ones, each count is moved to the unfavourable side by a tail of its noise;
    only the four counts of the worst ordered pair must be right, so each may fail with
    a quarter of the noise's share of the error.

    Parameters
    ----------
    cells : NoisyCells
        The noisy counts.
    epsilon : float > 0
        Privacy cost of the table, which fixes the scale of the noise.
    confidence_level : float in (0, 1), default=0.95
        Probability that the bound holds.

    Returns
    -------
    float
        The bound, at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.fairness.bounds.noisy_counts import NoisyCells, private_gap_upper_bound
    >>> one = np.array([1])
    >>> cells = NoisyCells(np.array([[300, 250]]), np.array([[700, 750]]), one, one)
    >>> round(private_gap_upper_bound(cells, 1.0), 3)
    0.119
    """
    if cells.trials is not None and np.any(cells.trials == 0):
        return 1.0
    lower, upper = private_rate_intervals(cells, epsilon, confidence_level=confidence_level)
    return float(largest_difference(upper, lower))


def private_rate_intervals(
    cells: NoisyCells, epsilon: float, *, confidence_level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Confidence interval of the rate of each cell by itself, from noisy counts.

    `confidence_level`: probability that the interval of one cell, fixed beforehand, holds its
    rate; each end fails with at most half of the error. Result (n_strata, n_groups).

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.fairness.bounds.noisy_counts import NoisyCells, private_rate_intervals
    >>> one = np.array([1])
    >>> cells = NoisyCells(np.array([[300, 250]]), np.array([[700, 750]]), one, one)
    >>> lower, upper = private_rate_intervals(cells, 1.0)
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([[0.265, 0.217]], [[0.336, 0.285]])
    """
    alpha = 1.0 - confidence_level
    if cells.trials is None:
        return _box_bounds(cells, epsilon, alpha)
    return _inverted_bounds(cells, epsilon, alpha)


def private_gap_lower_bound(
    cells: NoisyCells, epsilon: float, *, confidence_level: float = 0.95
) -> float:
    """Lower confidence bound on the largest difference of rates, from noisy counts.

    Which pair of cells differs most is read off the counts here, so the bounds of all
    cells must hold together, and the error is shared by their number.

    `cells`: the noisy counts, with private numbers of rows. `confidence_level`: probability that
    the largest difference is at least the bound. Result: the bound, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.fairness.bounds.noisy_counts import NoisyCells, private_gap_lower_bound
    >>> one = np.array([1])
    >>> cells = NoisyCells(np.array([[600, 250]]), np.array([[400, 750]]), one, one)
    >>> 0.25 < private_gap_lower_bound(cells, 1.0) < 0.35
    True
    """
    _require(cells.trials is None, "the numbers of rows are public: use exact intervals.")
    # Each of the bounds of a pair fails with at most half of its error; there are two a cell.
    alpha = (1.0 - confidence_level) / cells.successes.size
    lower, upper = _box_bounds(cells, epsilon, alpha)
    return float(largest_difference(lower, upper))


def _box_bounds(
    cells: NoisyCells, epsilon: float, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Clopper-Pearson at the unfavourable corner of a box that holds the true counts."""
    tail = NOISE_SHARE * alpha / 4
    sampling = (1.0 - NOISE_SHARE) * alpha / 2
    shift_success = _shifts(cells.success_terms, epsilon, tail)
    shift_failure = _shifts(cells.failure_terms, epsilon, tail)
    _, upper = clopper_pearson(
        np.maximum(cells.successes + shift_success, 0),
        np.maximum(cells.failures - shift_failure, 0),
        sampling,
    )
    lower, _ = clopper_pearson(
        np.maximum(cells.successes - shift_success, 0),
        np.maximum(cells.failures + shift_failure, 0),
        sampling,
    )
    return lower, upper


def _shifts(terms: NDArray[np.int64], epsilon: float, tail: float) -> NDArray[np.int64]:
    return np.array([noise_tail(int(m), epsilon, tail) for m in terms])[:, np.newaxis]


def _inverted_bounds(
    cells: NoisyCells, epsilon: float, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Invert the law of ``2 Bin(n, p) - n + noise``, the noisy successes minus failures."""
    assert cells.trials is not None
    contrast = cells.successes - cells.failures
    shape = contrast.shape
    lower, upper = np.empty(shape), np.empty(shape)
    for s, g in np.ndindex(shape):
        terms = int(cells.success_terms[s] + cells.failure_terms[s])
        n, value = int(cells.trials[s, g]), int(contrast[s, g])
        upper[s, g] = _upper_by_inversion(value, n, terms, epsilon, alpha / 2)
        # Exchange the roles of success and failure: the noise is symmetric.
        lower[s, g] = 1.0 - _upper_by_inversion(-value, n, terms, epsilon, alpha / 2)
    return lower, upper


def _upper_by_inversion(contrast: int, n: int, terms: int, epsilon: float, error: float) -> float:
    """Largest p with ``Pr(2 Bin(n, p) - n + Z <= contrast) > error``, rounded up."""
    if n == 0:
        return 1.0
    support, cdf = _noise_cdf(terms, epsilon)

    def probability(p: float) -> float:
        spread = 12.0 * math.sqrt(n * p * (1.0 - p)) + 60.0  # what lies outside is < 1e-20
        first, last = max(0, math.floor(n * p - spread)), min(n, math.ceil(n * p + spread))
        k = np.arange(first, last + 1)
        position = np.clip(contrast + n - 2 * k - support[0], -1, support.size - 1)
        below = np.where(position < 0, 0.0, cdf[np.maximum(position, 0)])
        return float(stats.binom.pmf(k, n, p) @ below)

    # The slack outweighs the rounding of the convolved noise law, so errors widen the bound.
    level = error - 1e-10
    if probability(1.0) >= level:
        return 1.0
    if probability(0.0) <= level:
        return ROOT_TOLERANCE
    root = optimize.brentq(lambda p: probability(p) - level, 0.0, 1.0, xtol=ROOT_TOLERANCE / 2)
    return min(1.0, float(root) + ROOT_TOLERANCE)


def noise_tail(terms: int, epsilon: float, error: float) -> int:
    """Smallest integer t with ``Pr(Z > t) <= error``, Z a sum of discrete Laplace variables.

    `terms`: number of independent variables in the sum. `epsilon`: ``Pr(one variable = z)`` is
    proportional to ``exp(-epsilon |z|)``. `error`: probability that the sum exceeds t; by
    symmetry also that it is below -t.

    Examples
    --------
    >>> from skfairdp.fairness.bounds.noisy_counts import noise_tail
    >>> noise_tail(1, 1.0, 0.01)
    4
    """
    support, cdf = _noise_cdf(terms, epsilon)
    # Survival by symmetry, Pr(Z > t) = Pr(Z < -t), which keeps relative accuracy.
    middle = support.size // 2
    survival = np.concatenate([cdf[:middle][::-1], [0.0]])
    return int(np.argmax(survival <= error - min(1e-10, error / 100)))


@lru_cache(maxsize=64)
def _noise_cdf(terms: int, epsilon: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Support and distribution function of the sum of `terms` discrete Laplace variables.

    The sum is a difference of two independent negative binomial variables.
    """
    _require(terms >= 1, f"terms={terms} must be at least 1.")
    _require(
        1e-4 <= epsilon < math.inf,
        f"epsilon={epsilon!r} of the count table must be finite and at least 1e-4; "
        "less leaves nothing but noise.",
    )
    p = -math.expm1(-epsilon)
    reach = int(stats.nbinom.isf(1e-15, terms, p)) + 1
    pmf = stats.nbinom.pmf(np.arange(reach + 1), terms, p)
    law = np.maximum(signal.correlate(pmf, pmf, mode="full", method="auto"), 0.0)
    return np.arange(-reach, reach + 1), np.minimum(np.cumsum(law), 1.0)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def noisy_gap_estimate(cells: NoisyCells) -> float | None:
    """Largest difference of noisy rates between two groups within one stratum.

    Result: none when no stratum has rows of two groups.
    """
    hit: NDArray
    rows: NDArray
    if cells.trials is None:
        hit, rows = cells.successes, cells.successes + cells.failures
    else:
        # Where the rows are known, both noisy counts measure the same number.
        rows = cells.trials
        hit = (rows + cells.successes - cells.failures) / 2.0
    rows = np.maximum(rows, 0)
    return gap_estimate(np.clip(hit, 0, rows), rows)
