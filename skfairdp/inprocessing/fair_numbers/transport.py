"""Optimal maps of numbers to others whose distributions are within a tolerance between groups.

All is computed from released tables: counts of scores up to each value of a public grid, by group.
docs/theory/fair_numbers.md derives the maps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_PLACES = 2_000  # at which the common distribution is looked at


@dataclass(frozen=True, eq=False)
class Scores:
    """Released distributions of scores, one a group, on a grid.

    Parameters
    ----------
    levels : ndarray of float64, shape (n_groups, n_cells)
        Distribution functions at the upper ends of the cells, which rise to 1.
    shares : ndarray of float64, shape (n_groups,)
        Share of each group among all.
    ends : ndarray of float64, shape (n_cells + 1,)
        Ends of the cells, ascending.
    values : ndarray of float64, shape (n_cells,), or None
        The only values that scores take, one in each cell. None: scores are spread evenly over
        their cells.
    """

    levels: Floats
    shares: Floats
    ends: Floats
    values: Floats | None = None

    @classmethod
    def of(cls, counts: Floats, ends: Floats, values: Floats | None = None) -> Scores:
        """Repair noisy counts of scores up to each cell's end, (n_groups, n_cells)."""
        sizes = np.maximum(counts[:, -1:], 1.0)
        levels = [isotonic_regression(row, y_min=0.0, y_max=1.0) for row in counts / sizes]
        found = np.array(levels)
        found[:, -1] = 1.0
        return cls(found, (sizes / sizes.sum())[:, 0], ends, values)

    @property
    def gap(self) -> float:
        """Largest distance of two groups, at the ends of cells."""
        return float(np.ptp(self.levels, axis=0).max())

    @property
    def means(self) -> Floats:
        """Mean of each group."""
        middles = 0.5 * (self.ends[:-1] + self.ends[1:]) if self.values is None else self.values
        return np.asarray(np.diff(self.levels, axis=1, prepend=0.0) @ middles)

    def places(self, scores: Floats, codes: Ints, draws: Floats | None = None) -> Floats:
        """Level of each score in the distribution of its group, in [0, 1].

        `draws`: uniform numbers in [0, 1], which spread rows with one score evenly over its levels;
        None takes where a score lies within its cell.
        """
        last = self.levels.shape[1] - 1
        cells = np.clip(np.searchsorted(self.ends, scores, side="right") - 1, 0, last)
        starts, widths = self.ends[cells], np.diff(self.ends)[cells]
        part = np.clip((scores - starts) / widths, 0.0, 1.0) if draws is None else draws
        levels = np.pad(self.levels, ((0, 0), (1, 0)))
        low, high = levels[codes, cells], levels[codes, cells + 1]
        return np.asarray(low + part * (high - low))

    def quantiles(self, places: Floats) -> Floats:
        """Scores of each group at levels, (n_groups, n_places)."""
        if self.values is not None:
            found = [np.searchsorted(row, places - 1e-12) for row in self.levels]
            return self.values[np.minimum(found, len(self.values) - 1)]
        # Levels that rise strictly, so that each has one score.
        steady = np.linspace(0.0, 1e-9, len(self.ends))
        levels = np.pad(self.levels, ((0, 0), (1, 0))) * (1.0 - 1e-9) + steady
        return np.array([np.interp(places, row, self.ends) for row in levels])


@dataclass(frozen=True, eq=False)
class Band:
    """Common distribution that every group's must be near, as values at levels from 0 to 1."""

    levels: Floats
    values: Floats
    tolerance: float

    def limited(self, scores: Floats, places: Floats) -> Floats:
        """Move scores as little as possible, so that distances are at most the tolerance."""
        half = 0.5 * self.tolerance
        least = np.interp(places - half, self.levels, self.values)
        most = np.interp(places + half, self.levels, self.values)
        least = np.where(places < half, -np.inf, least)
        most = np.where(places > 1.0 - half, np.inf, most)
        return np.asarray(np.minimum(np.maximum(scores, least), most))


def band(scores: Scores, tolerance: float) -> Band:
    """Find the common distribution that costs the least squared error.

    At each level p it is the value c that minimises, over groups with shares w and quantiles Q,
    the sum of w (max(c - Q(p + t/2), 0)^2 + max(Q(p - t/2) - c, 0)^2) for the tolerance t.
    """
    levels = (np.arange(_PLACES) + 0.5) / _PLACES
    above, below = levels + 0.5 * tolerance, levels - 0.5 * tolerance
    upper = np.where(above <= 1.0, scores.quantiles(np.minimum(above, 1.0)), np.inf)
    lower = np.where(below >= 0.0, scores.quantiles(np.maximum(below, 0.0)), -np.inf)
    weights = scores.shares[:, None]
    least, most = np.full(_PLACES, scores.ends[0]), np.full(_PLACES, scores.ends[-1])
    for _ in range(50):
        middle = 0.5 * (least + most)
        over = (weights * np.maximum(middle - upper, 0.0)).sum(axis=0)
        under = (weights * np.maximum(lower - middle, 0.0)).sum(axis=0)
        least, most = np.where(over < under, middle, least), np.where(over < under, most, middle)
    return Band(levels, np.maximum.accumulate(0.5 * (least + most)), tolerance)


def shifts(scores: Scores, tolerance: float) -> Floats:
    """Smallest shifts of the groups, in squared error, with means at most a tolerance apart.

    `tolerance`: in units of the scores.
    """
    means, weights = scores.means, scores.shares
    least, most = float(means.min()), float(means.max())
    for _ in range(60):
        middle, half = 0.5 * (least + most), 0.5 * tolerance
        over = (weights * np.maximum(middle - half - means, 0.0)).sum()
        under = (weights * np.maximum(means - middle - half, 0.0)).sum()
        least, most = (middle, most) if over < under else (least, middle)
    middle = 0.5 * (least + most)
    return np.asarray(np.clip(means, middle - half, middle + half) - means)
