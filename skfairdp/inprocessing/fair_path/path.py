"""Every point of the frontier, from one table of counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skfairdp.inprocessing.fair_path.scores import Rate

__all__ = ["MULTIPLIERS", "N_FAMILIES", "ReleasedPath", "decisions", "table_entries"]

Floats = NDArray[np.float64]

# Fixed beforehand: edges from training quantiles would tell something about rows. They are
# uniform in t = multiplier / (1 + |multiplier|), and symmetric, with 0 in the middle.
_T = np.arange(-511, 512) / 512.0
MULTIPLIERS: Floats = _T / (1.0 - np.abs(_T))
UNCONSTRAINED = len(MULTIPLIERS) // 2
# Sign of s, group, label.
N_FAMILIES = (2, 2, 2)
# A point is taken where its gap keeps to the tolerance with this many standard errors to spare:
# 90 % of a Gaussian.
MARGIN = 1.2815515655446004


def decisions(scores: Floats, multiplier: float) -> Floats:
    """Adjusted scores of rows: positive for those that are selected.

    Parameters
    ----------
    scores : ndarray of float64, shape (n, 2)
        Columns ``2 eta - 1`` and ``s``.
    multiplier : float
        The point of the path.

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    return scores[:, 0] - multiplier * scores[:, 1]


def table_entries(
    scores: Floats, groups: NDArray[np.int64], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Entry of the table that each row adds to, negative for rows that are never selected.

    With rising multiplier a row of ``s > 0`` is selected until some edge, another one from some
    edge on: rounding is monotone, so this holds in floating point too, and the number of edges
    where a row is selected says all. A bin is the number of edges where it is not, so that
    prefix sums count who is selected.

    Parameters
    ----------
    scores : ndarray of float64, shape (n, 2)
        Scores of each row.
    groups, labels : ndarray of int, shape (n,)
        Codes 0 and 1.

    Returns
    -------
    ndarray of int64, shape (n,)
        Positions in a table of shape ``(*N_FAMILIES, len(MULTIPLIERS))``.
    """
    missed = np.zeros(len(scores), dtype=np.int64)
    for multiplier in MULTIPLIERS:
        missed += ~(decisions(scores, multiplier) > 0.0)
    family = (scores[:, 1] > 0.0) * 4 + groups * 2 + labels
    return np.where(missed < len(MULTIPLIERS), family * len(MULTIPLIERS) + missed, -1)


@dataclass(frozen=True)
class ReleasedPath:
    """Estimates at every multiplier; functions of released values alone.

    Parameters
    ----------
    rate : Rate
        What is compared.
    sizes : ndarray of float64, shape (2, 2)
        Released records of each (group, label).
    sums : ndarray of float64, shape (2, 2, 2, n)
        Released prefix sums, see `table_entries`.
    size_std : float
        Standard deviation of the noise of a size.
    sum_stds : ndarray of float64, shape (n,)
        That of each prefix sum.
    """

    rate: Rate
    sizes: Floats
    sums: Floats
    size_std: float
    sum_stds: Floats

    @property
    def _trials(self) -> Floats:
        return self.rate.trials_of(self.sizes)

    @property
    def selected(self) -> Floats:
        """Selected records of each (group, label) at each multiplier, shape (2, 2, n)."""
        return self.sums[0] + self.sums[1][..., ::-1]

    @property
    def rates(self) -> Floats:
        """Compared rate of each group at each multiplier, shape (2, n)."""
        successes = np.einsum("l,glj->gj", self.rate.selected, self.selected)
        return (successes + (self.sizes @ self.rate.offset)[:, None]) / self._trials[:, None]

    @property
    def rate_stds(self) -> Floats:
        """Standard error of the rates, to first order in the noise over the trials."""
        of_sums = (self.rate.selected**2).sum() * self._selected_variances
        slopes = self.rate.offset[:, None, None] - self.rate.trials[:, None, None] * self.rates
        of_sizes = (slopes**2).sum(axis=0) * self.size_std**2
        return np.sqrt(of_sums + of_sizes) / self._trials[:, None]

    @property
    def _selected_variances(self) -> Floats:
        return self.sum_stds**2 + self.sum_stds[::-1] ** 2

    @property
    def gaps(self) -> Floats:
        """Rate of the second group less that of the first."""
        return self.rates[1] - self.rates[0]

    @property
    def gap_stds(self) -> Floats:
        """Standard error of the gaps."""
        return np.sqrt((self.rate_stds**2).sum(axis=0))

    @property
    def accuracies(self) -> Floats:
        """Share of right decisions."""
        total = max(float(self.sizes.sum()), 1.0)
        right = self.selected[:, 1] - self.selected[:, 0] + self.sizes[:, :1]
        return np.asarray(right.sum(axis=0) / total)

    @property
    def accuracy_stds(self) -> Floats:
        """Standard error of the accuracies."""
        total = max(float(self.sizes.sum()), 1.0)
        of_negatives, of_positives = 1.0 - self.accuracies, self.accuracies
        of_sizes = 2.0 * (of_negatives**2 + of_positives**2) * self.size_std**2
        return np.sqrt(4.0 * self._selected_variances + of_sizes) / total

    def points(self) -> tuple[NDArray[np.int64], Floats]:
        """Points from the smallest gap to no constraint, and the tolerance that each one keeps.

        Returns
        -------
        points : ndarray of int
            Positions in `MULTIPLIERS`.
        tolerances : ndarray of float64
            Largest |gap| and `MARGIN` standard errors on the way to each point; ascending.
        """
        start = int(np.argmin(np.abs(self.gaps)))
        step = 1 if start <= UNCONSTRAINED else -1
        points = np.arange(start, UNCONSTRAINED + step, step)
        reach = np.abs(self.gaps[points]) + MARGIN * self.gap_stds[points]
        return points, np.maximum.accumulate(reach)

    def choose(self, tolerance: float) -> tuple[int, float]:
        """Choose the point next to no constraint that keeps to a tolerance.

        Parameters
        ----------
        tolerance : float
            Largest gap.

        Returns
        -------
        point : int
            Position in `MULTIPLIERS`; that of the smallest gap where none keeps to it.
        kept : float
            Smallest tolerance that this point keeps to.
        """
        points, tolerances = self.points()
        place = max(int(np.searchsorted(tolerances, tolerance, side="right")) - 1, 0)
        return int(points[place]), float(tolerances[place])

    def frame(self, groups: tuple) -> pd.DataFrame:
        """Lay out the points between the smallest gap and no constraint."""
        points, tolerances = self.points()
        columns = {
            "tolerance": tolerances,
            "multiplier": MULTIPLIERS[points],
            "gap": np.abs(self.gaps[points]),
            "gap_std": self.gap_stds[points],
            **{f"rate of {g}": self.rates[k, points] for k, g in enumerate(groups)},
            "accuracy": self.accuracies[points],
            "accuracy_std": self.accuracy_stds[points],
        }
        return pd.DataFrame(columns)
