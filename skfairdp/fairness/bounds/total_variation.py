"""How far the laws of a code differ between groups: what no predictor from codes can exceed."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.bounds.exact_gap import largest_event_bound


def total_variation(counts: NDArray[np.int64]) -> float:
    """Largest total variation between observed codes of two groups, (strata, codes, groups)."""
    apart = [0.0]
    for stratum in counts:
        seen = stratum[:, stratum.sum(axis=0) > 0]
        laws = (seen / seen.sum(axis=0)).T
        pairs = itertools.combinations(laws, 2)
        apart += [float(np.abs(one - other).sum() / 2.0) for one, other in pairs]
    return max(apart)


def total_variation_bound(counts: NDArray[np.int64], *, confidence_level: float = 0.95) -> float:
    """Upper confidence bound on the largest total variation of codes between two groups.

    The error is split over neither events nor pairs nor strata: the worst of them is a fixed one.
    """
    return max(
        largest_event_bound(one, other, 1.0 - confidence_level)
        for stratum in counts
        for one, other in itertools.combinations(stratum.T, 2)
    )
