"""A grid for any number, and bins from noisy counts on it.

Cells are octaves: a sign and a binary exponent from -126 to 127. Zero has a cell of its own,
from 0 to 2**-126; the cells at both ends hold all that is larger than 2**128 in size. What has
rows is divided into eighths, and these into up to 64 parts, so that a year (all of them are in
one octave) and a sum of money (over ten octaves) both get useful bins.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skfairdp.preprocessing.levels import Intervals

SMALLEST = 2.0**-126
_SIZES = np.ldexp(1.0, np.arange(-126, 129))
EDGES: NDArray[np.float64] = np.concatenate([-_SIZES[:0:-1], [0.0], _SIZES])
N_CELLS = len(EDGES) + 1

# Probability that any cell without rows is divided.
_FALSE = 0.05
# Below this multiple of the noise a cell counts as empty, and no smaller part is made.
_EMPTY = 2.0


def divided(
    edges: NDArray[np.float64], counts: NDArray[np.float64], std: float, most: int
) -> NDArray[np.float64]:
    """Divide the cells that have rows, the finer the more they have.

    `edges` (m,): ascending. `counts` (m + 1,): noisy counts between them, and beyond both ends.
    `std`: standard deviation of their noise. `most`: largest number of parts, a power of two.
    Result: ascending edges of the parts. The rest lies between them, in as few cells as can be.
    """
    least = max(0.5, std * float(-ndtri(_FALSE / len(counts))))
    found: set[float] = set()
    for cell in np.flatnonzero(counts >= least).tolist():
        if 0 < cell < len(edges):  # what has both ends
            low, high = map(float, edges[cell - 1 : cell + 1])
            share = counts[cell] / (_EMPTY * std) if std else most
            smallest = max(abs(low), abs(high)) <= SMALLEST
            parts = 1 if smallest else 2 ** int(math.log2(min(most, max(1.0, share))))
            found.update((low + (high - low) * np.arange(parts + 1) / parts).tolist())
        elif len(edges):
            found.add(float(edges[min(cell, len(edges) - 1)]))
    return np.array(sorted(found))


def bins(
    edges: NDArray[np.float64], counts: NDArray[np.float64], std: float, n_bins: int
) -> Intervals:
    """Join neighbouring cells to bins of about as many rows.

    `edges`, `counts`, `std`: as in `divided`. `n_bins`: a cell with at least the `n_bins`-th part
    of the rows is a bin of its own. What is left is cut into about as many more.
    """
    kept = np.where(counts >= max(_EMPTY * std, 0.5), counts, 0.0)
    light = kept[kept < float(kept.sum()) / n_bins]
    full, mass = float(light.sum()) / n_bins, 0.0
    chosen: list[float] = []
    for left, count in zip([-math.inf, *edges.tolist()], kept.tolist(), strict=True):
        if count == 0.0:
            continue
        if mass > 0.0 and (count >= full or mass + count / 2.0 >= full):
            chosen.append(left)
            mass = 0.0
        mass = math.inf if count >= full else mass + count
    return Intervals(tuple(chosen))
