"""Upper bounds on the largest difference of rates between groups.

Counts are binomial given the number of trials of each cell. The bound holds for the *largest*
difference without a union over pairs, directions or strata: see docs/theory/certificate.md; of
models whose parameters are smoothed with Gaussian noise, docs/theory/smoothing.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf

from skfairdp.fairness.bounds.binomial_cells import BinomialCell
from skfairdp.fairness.bounds.binomial_pairs import CellPair
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import PROBABILITY, Choice, check_values

_Table = tuple[tuple[int, ...], ...]
_DRAWS = 0.1  # share of the error that is set aside for the draws of a smoothed model's noise


def gap_estimate(successes: ArrayLike, trials: ArrayLike) -> float | None:
    """Largest observed difference of rates between two groups within one stratum.

    Parameters
    ----------
    successes, trials : array-like, shape (n_strata, n_groups)
        Counts (or sums of scores) and numbers of rows of each cell.

    Returns
    -------
    float or None
        None when no stratum has rows of two groups.

    Examples
    --------
    >>> from skfairdp.fairness.bounds.rate_gaps import gap_estimate
    >>> round(gap_estimate([[300, 250]], [[1000, 1000]]), 3)
    0.05
    """
    cells = zip(*_cells(successes, trials), strict=True)
    rates = [np.clip(k[n > 0] / n[n > 0], 0.0, 1.0) for k, n in cells]
    return max((float(np.ptp(found)) for found in rates if found.size > 1), default=None)


def gap_upper_bound(
    successes: ArrayLike,
    trials: ArrayLike,
    *,
    confidence_level: float = 0.95,
    bound: Literal["exact", "difference"] = "exact",
) -> float | NDArray[np.float64]:
    """Upper confidence bound on the largest difference of rates between groups.

    Parameters
    ----------
    successes, trials : array-like of int, shape (n_groups,) or (..., n_strata, n_groups)
        Successes and rows of each cell. Leading axes are separate problems.
    confidence_level : float in (0, 1), default=0.95
        Probability that the bound holds.
    bound : {"exact", "difference"}, default="exact"
        "exact" inverts an exact unconditional test of each pair of cells; "difference" is
        Hoeffding's. The choice may depend on `trials`, never on `successes`.

    Returns
    -------
    float, or ndarray of shape (...)
        The bound, at most 1. A cell without rows makes it 1.

    Raises
    ------
    ValueError
        For impossible counts, fewer than two groups, or an unknown `bound`.

    Examples
    --------
    >>> from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound
    >>> round(gap_upper_bound([300, 250], [1000, 1000]), 4)
    0.0828
    """
    check_values(
        confidence_level=(confidence_level, PROBABILITY),
        bound=(bound, Choice(("exact", "difference"))),
    )
    if bound == "difference":
        return score_gap_upper_bound(successes, trials, confidence_level=confidence_level)
    hit, rows = _cells(successes, trials)
    problems = [part.astype(np.int64).reshape(-1, *part.shape[-2:]) for part in (hit, rows)]
    found = [
        _exact_bound(_table(k), _table(n), 1.0 - confidence_level)
        for k, n in zip(*problems, strict=True)
    ]
    return _plain(np.array(found).reshape(hit.shape[:-2]))


@completed_by(gap_upper_bound)
def score_gap_upper_bound(
    sums: ArrayLike, trials: ArrayLike, *, confidence_level: float = 0.95
) -> float | NDArray[np.float64]:
    """Upper bound on the largest difference of mean scores, by Hoeffding's inequality.

    For predictors that decide at random, with known probability given the row: the
    rate of a group is the mean of that probability.

    Parameters
    ----------
    sums, trials : array-like, shape (n_groups,) or (..., n_strata, n_groups)
        Sum of scores in [0, 1] and number of rows of each cell.

    Examples
    --------
    >>> from skfairdp.fairness.bounds.rate_gaps import score_gap_upper_bound
    >>> round(score_gap_upper_bound([300.0, 250.0], [1000, 1000]), 4)
    0.1047
    """
    check_values(confidence_level=(confidence_level, PROBABILITY))
    return _plain(difference_bound(*_cells(sums, trials), 1.0 - confidence_level))


def largest_gap_bound(strata: Sequence[Sequence[BinomialCell]], alpha: float) -> float:
    """Upper confidence bound on the largest difference of rates within any stratum.

    It fails with probability `alpha` at most, in (0, 1), which is not split over pairs: the pair
    with the largest true difference is a fixed one.
    """
    pairs = [CellPair(u, v, alpha) for cells in strata for u, v in itertools.permutations(cells, 2)]
    best = 0.0
    for pair in sorted(pairs, key=lambda entry: -entry.place):
        if not (best > 0.0 and best >= pair.observed and pair.excludes(best)):
            best = max(best, pair.bound())
        if best >= 1.0:
            break
    return best


def _table(counts: NDArray) -> _Table:
    return tuple(map(tuple, counts.tolist()))


@lru_cache(maxsize=4096)  # who verifies or prints a claim asks what its maker asked
def _exact_bound(hit: _Table, rows: _Table, alpha: float) -> float:
    if not all(map(all, rows)):
        return 1.0
    cells = [list(map(BinomialCell, *stratum)) for stratum in zip(hit, rows, strict=True)]
    return largest_gap_bound(cells, alpha)


def difference_bound(
    hit: NDArray, rows: NDArray, error: float, added: NDArray | float = 0.0
) -> NDArray[np.float64]:
    """Observed difference plus an allowance for the deviation of a difference of two means."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(rows > 0, 1.0 / rows, np.inf)
        rates = np.where(rows > 0, hit / rows, 0.0)
    spread = inverse[..., :, np.newaxis] + inverse[..., np.newaxis, :]
    apart = rates[..., :, np.newaxis] - rates[..., np.newaxis, :]
    bound = apart + np.sqrt(math.log(1.0 / error) * spread / 2.0) + added
    index = np.arange(rows.shape[-1])
    bound[..., index, index] = -np.inf
    return np.clip(bound.max(axis=(-3, -2, -1)), 0.0, 1.0)


def _cells(successes: ArrayLike, trials: ArrayLike) -> tuple[NDArray, NDArray]:
    """Validated counts with a stratum axis."""
    hit = np.asarray(successes, dtype=np.float64)
    rows = np.asarray(trials, dtype=np.float64)
    if hit.shape != rows.shape or hit.ndim == 0:
        raise ValueError(
            f"shapes {hit.shape} of successes and {rows.shape} of trials must be one, groups last."
        )
    if hit.shape[-1] < 2:
        raise ValueError(f"A difference needs at least 2 groups, got {hit.shape[-1]}.")
    if not (np.all(hit >= 0) and np.all(hit <= rows * (1 + 1e-12))):
        raise ValueError("Every cell needs 0 <= successes <= trials.")
    return (hit[np.newaxis], rows[np.newaxis]) if hit.ndim == 1 else (hit, rows)


def _plain(value: NDArray[np.float64]) -> float | NDArray[np.float64]:
    return float(value) if value.ndim == 0 else value


def smoothing_distance(distance: float | NDArray[Any], std: float) -> NDArray[np.float64]:
    """Total variation of two Gaussian laws from the l2 distance of their centres."""
    return np.asarray(erf(np.asarray(distance) / (2.0 * math.sqrt(2.0) * std)))


def own_models_bound(
    sums: NDArray, trials: NDArray, distances: NDArray, *, error: float, n_draws: int | None = None
) -> float:
    """Bound on a smoothed model's gap from the rates that each group has under its own model.

    `sums`, `trials` (n_strata, n_groups): sum of smoothed decisions of each cell under its
    group's own model, and its rows. Other arguments: see `OwnModels`. Result: 1 where a cell has
    no rows.
    """
    if np.any(trials == 0):
        return 1.0
    n_strata, n_groups = trials.shape
    added = 0.0
    if n_draws is not None:  # the worst pair may depend on the draws: a union over pairs
        events = n_strata * n_groups * (n_groups - 1)
        added = math.sqrt(8.0 * math.log(events / (_DRAWS * error)) / n_draws)
        error *= 1.0 - _DRAWS
    apart = distances[:, np.newaxis] + distances + added
    return float(difference_bound(sums, trials, error, apart))


@dataclass(frozen=True)
class OwnModels:
    """Released models of the groups, in addition to a smoothed common one."""

    # Maps rows and their group codes to the smoothed decision on each by its own group's model
    scores: Callable[[Any, NDArray[np.int64]], NDArray[np.float64]]
    # (n_groups,): total variation between the common model and each group's own
    distances: NDArray[np.float64]
    n_draws: int | None  # Draws that stand for the noise; None for exact probabilities
