"""Bounds on differences of rates from counts that were released with noise.

One table of counts is released, with independent discrete Laplace noise ``Pr(z) ~ exp(-epsilon
|z|)`` on every entry; the counts of a cell sum some entries. See docs/theory/certificate.md.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.bounds.binomial_cells import BinomialCell
from skfairdp.fairness.bounds.noisy_cells import (
    CellPValues,
    cell_p_values,
    combined_gap,
    noise_law,
    noise_tail,
)
from skfairdp.fairness.bounds.rate_gaps import gap_estimate, largest_gap_bound

# Part of the error probability, fixed before any data is seen, for the numbers of rows where these
# are private.
SIZES_SHARE = 0.02
LONGEST_LAW = 2_000  # longer laws of noise take too much time to convolve

_Table = tuple[tuple[int, ...], ...]


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

    The error probability covers the sampling of rows and the noise together;
    docs/theory/certificate.md derives the bound.

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
    0.086
    """
    rows = None if cells.trials is None else _frozen(cells.trials)
    terms = tuple(cells.success_terms.tolist()), tuple(cells.failure_terms.tolist())
    counts = _frozen(cells.successes), _frozen(cells.failures)
    return _bound_of(*counts, *terms, rows, epsilon, confidence_level)


def _frozen(table: NDArray[np.int64]) -> _Table:
    return tuple(map(tuple, table.tolist()))


@lru_cache(maxsize=4096)  # who verifies or prints a claim asks what its maker asked
def _bound_of(
    hits: _Table,
    misses: _Table,
    hit_terms: tuple[int, ...],
    miss_terms: tuple[int, ...],
    rows: _Table | None,
    epsilon: float,
    confidence_level: float,
) -> float:
    counts = np.array(hits), np.array(misses)
    terms = np.array(hit_terms), np.array(miss_terms)
    cells = NoisyCells(*counts, *terms, None if rows is None else np.array(rows))
    if cells.trials is not None:
        if np.any(cells.trials == 0):
            return 1.0
        laws = [noise_law(int(m), epsilon) for m in cells.success_terms + cells.failure_terms]
        # The choice depends on what is known without the counts.
        if max(map(len, laws)) <= LONGEST_LAW:
            contrasts = cells.successes - cells.failures + cells.trials
            strata = [
                [BinomialCell(int(k), int(n), law) for k, n in zip(*stratum, strict=True)]
                for *stratum, law in zip(contrasts, cells.trials, laws, strict=True)
            ]
            return largest_gap_bound(strata, 1.0 - confidence_level)
    error = (1.0 - confidence_level) * (1.0 - (SIZES_SHARE if cells.trials is None else 0.0))
    table, gap = _cells(cells, epsilon, 1.0 - confidence_level), 0.0
    for u, v in itertools.chain.from_iterable(itertools.permutations(row, 2) for row in table):
        gap = combined_gap(u, v, error, gap)
    return gap


def private_rate_intervals(
    cells: NoisyCells, epsilon: float, *, confidence_level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interval of the rate of each cell by itself; each end fails with half of the error."""
    alpha = 1.0 - confidence_level
    share = SIZES_SHARE if cells.trials is None else 0.0
    table = _cells(cells, epsilon, alpha)
    ends = np.array([[cell.limits(alpha * (1.0 - share) / 2) for cell in row] for row in table])
    return ends[..., 0], ends[..., 1]


def private_gap_lower_bound(cells: NoisyCells, epsilon: float, *, confidence_level: float) -> float:
    """Lower confidence bound on the largest difference of rates, from noisy counts.

    Which pair of cells differs most is read off the counts here, so the bounds of all
    cells must hold together, and the error is shared by their number. Sizes are private.
    """
    # Each of the bounds of a pair fails with at most half of its error; there are two a cell.
    alpha = (1.0 - confidence_level) / cells.successes.size
    lower, upper = private_rate_intervals(cells, epsilon, confidence_level=1.0 - alpha)
    apart = lower[..., :, np.newaxis] - upper[..., np.newaxis, :]
    return max(0.0, float(apart.max()))


def _cells(cells: NoisyCells, epsilon: float, alpha: float) -> list[list[CellPValues]]:
    """P-values of all cells; private sizes fail with at most a share of `alpha`."""
    found, public = [], cells.trials is not None
    terms = cells.success_terms.tolist(), cells.failure_terms.tolist()
    for s, both in enumerate(zip(*terms, strict=True)):
        hits, misses = cells.successes[s], cells.failures[s]
        rows = hits + misses if cells.trials is None else cells.trials[s]
        # The sizes of the two cells of the worst pair must be right, each on two sides.
        reach = 0 if public else noise_tail(sum(both), epsilon, alpha * SIZES_SHARE / 4)
        counts = np.stack([hits, misses, *np.maximum([rows - reach, rows + reach], 0)], axis=1)
        found.append([cell_p_values(*cell, both, epsilon, public) for cell in counts.tolist()])
    return found


def noisy_gap_estimate(cells: NoisyCells) -> float | None:
    """Largest difference of noisy rates between two groups within a stratum; see `gap_estimate`."""
    rows = cells.successes + cells.failures if cells.trials is None else cells.trials
    # Where the rows are known, both noisy counts measure the same number.
    hit: NDArray = (rows + cells.successes - cells.failures) / 2.0
    rows = np.maximum(rows, 0)
    return gap_estimate(np.clip(hit, 0, rows), rows)
