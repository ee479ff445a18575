"""How far the laws of a code differ between groups: what no predictor from codes can exceed."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.bounds.exact_gap import largest_event_bound


def total_variation(counts: NDArray[np.int64]) -> float:
    """Largest total variation between the observed codes of two groups within a stratum.

    `counts` (n_strata, n_codes, n_groups): rows of each. Result: 0 where no stratum has rows of
    two groups.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.fairness.bounds.total_variation import total_variation
    >>> round(total_variation(np.array([[[70, 60], [20, 30], [10, 10]]])), 3)
    0.1
    """
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

    `counts` (n_strata, n_codes, n_groups): rows of each. `confidence_level`: probability that the
    bound holds. Result: 1 where a stratum has no rows of a group.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.fairness.bounds.total_variation import total_variation_bound
    >>> counts = 100 * np.array([[[70, 60], [20, 30], [10, 10]]])
    >>> round(total_variation_bound(counts), 3)
    0.11
    """
    return max(
        largest_event_bound(one, other, 1.0 - confidence_level)
        for stratum in counts
        for one, other in itertools.combinations(stratum.T, 2)
    )
