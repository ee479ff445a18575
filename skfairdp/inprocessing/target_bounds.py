"""Bounds of a target, bought by noisy histograms over public grids."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skfairdp.privacy.plan import CountRelease
from skfairdp.records.numbers import TargetBounds

if TYPE_CHECKING:
    from torch import Tensor

    from skfairdp.engine.release import NoisyRelease, Rows

ONE_COUNT = "targets outside the bounds"
_TABLES = "targets on a public grid"
# Ends of the first grid, of sizes without their signs: powers of 4 from about 1e-9 to about 1e18.
_SIZES = np.concatenate([[0.0], 4.0 ** np.arange(-15.0, 31.0)])
_BINS = 32  # of the second grid
# Chance that noise alone makes any empty bin of a table look taken.
_FALSE = 0.01


def tables_of_bounds(epsilon: float) -> tuple[CountRelease, ...]:
    """Plan the releases that find the bounds: two tables at half of `epsilon` each."""
    return (CountRelease(name=_TABLES, epsilon=0.5 * float(epsilon), releases=2),)


def bought_bounds(release: NoisyRelease, table: CountRelease) -> TargetBounds:
    """Release a table of the targets' sizes, and one of the targets between the ends of those.

    A bin is taken if its noisy count stands out of the noise: noise alone makes one of a table's
    empty bins look so with chance 0.01. The largest size taken is the end of the second grid, of
    both signs. The bounds are the ends of its taken bins, of neighbours that exceed one standard
    deviation of the noise, and of one bin more on each side; all of the grid where none is taken.
    Targets beyond them are clipped.
    """
    sizes, threshold = _counts(release, table, _SIZES, lambda numbers: numbers.abs())
    taken = np.flatnonzero(sizes > threshold)
    end = float(_SIZES[taken[-1] + 1]) if len(taken) else 1.0
    ends = np.linspace(-end, end, _BINS + 1)
    # Planned, and so released in any case.
    counts, threshold = _counts(release, table, ends, lambda numbers: numbers)
    taken = np.flatnonzero(counts > threshold)
    if not len(taken):
        return TargetBounds(-end, end)
    first, last = int(taken[0]), int(taken[-1])
    std = math.sqrt(2.0) / table.epsilon
    while first > 0 and counts[first - 1] > std:
        first -= 1
    while last < _BINS - 1 and counts[last + 1] > std:
        last += 1
    return TargetBounds(float(ends[max(first - 1, 0)]), float(ends[min(last + 2, _BINS)]))


def count_outside(release: NoisyRelease, table: CountRelease, bounds: TargetBounds) -> int:
    """Release how many targets lie outside the bounds."""

    def outside(rows: Rows) -> NDArray[np.int64]:
        numbers = rows.targets[0]
        beyond = ((numbers < bounds.low) | (numbers > bounds.high)).cpu().numpy()
        return np.where(beyond & (rows.codes >= 0), 0, -1)

    return int(release.counts(table, outside, 1)[0])


def _counts(
    release: NoisyRelease,
    table: CountRelease,
    ends: NDArray[np.float64],
    of: Callable[[Tensor], Tensor],
) -> tuple[NDArray[np.float64], float]:
    """Release a table of a function `of` the targets, and the count that noise hardly exceeds."""
    import torch

    inner, n_bins = torch.from_numpy(ends), len(ends) - 1

    def bin_of(rows: Rows) -> NDArray[np.int64]:
        numbers = of(rows.targets[0].cpu()).contiguous()
        places = (torch.searchsorted(inner, numbers, right=True) - 1).numpy()
        # Targets beyond all ends are in the outer bins.
        return np.where(rows.codes >= 0, places.clip(0, n_bins - 1), -1)

    counts = release.counts(table, bin_of, n_bins)
    return counts, math.log(n_bins / _FALSE) / table.epsilon
