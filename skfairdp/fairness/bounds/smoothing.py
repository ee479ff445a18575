"""Bounds for models whose parameters are smoothed with Gaussian noise: docs/theory/smoothing.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from skfairdp.fairness.bounds.rate_gaps import difference_bound

_DRAWS = 0.1  # share of the error probability that is set aside for the draws of the noise


def smoothing_distance(distance: float | NDArray[Any], std: float) -> NDArray[np.float64]:
    """Total variation of two Gaussian laws from the l2 distance of their centres."""
    return np.asarray(erf(np.asarray(distance) / (2.0 * math.sqrt(2.0) * std)))


def own_models_bound(
    sums: NDArray[Any],
    trials: NDArray[Any],
    distances: NDArray[Any],
    *,
    error: float,
    n_draws: int | None = None,
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
    """Released models of the groups beside a smoothed common one."""

    # Maps rows and their group codes to the smoothed decision on each row by its own group's
    # model
    scores: Callable[[Any, NDArray[np.int64]], NDArray[np.float64]]
    # (n_groups,): total variation between the common model and each group's own
    distances: NDArray[np.float64]
    n_draws: int | None  # Draws that stand for the noise; None for exact probabilities
