"""Bounds on differences between groups of predicted numbers: distributions, and means.

Predictions are stored as counts in *cells*: runs of neighbouring values, of all groups together.
docs/theory/number_certificates.md derives the bounds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.fairness.bounds.rate_gaps import score_gap_upper_bound
from skfairdp.fairness.bounds.total_variation import bound_of_events

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Cells that any predictions are divided into, and those that are divided further where the
# distributions differ most.
_EVERYWHERE, _MOST = 32, 128
# Standard deviations of scaled predictions that bets on their mean are made for, and the part of
# a bet that could lose everything.
_DEVIATIONS, _AT_RISK = 0.5 ** np.arange(1, 7), 0.8


@dataclass(frozen=True, eq=False)
class NumberCells:
    """Counts of predicted numbers in cells, from the smallest values to the largest.

    Parameters
    ----------
    first, last : ndarray of float64, shape (n_cells,)
        Smallest and largest prediction in each cell, of all groups together.
    counts : ndarray of int64, shape (n_cells, n_groups)
        Predictions of each group.
    above : ndarray of float64, shape (n_cells, n_groups)
        Sums of how far these predictions are above the smallest one of their cell. They have all
        digits however far the predictions are from 0.

    Raises
    ------
    ValueError
        For arrays that no predictions have.

    Examples
    --------
    >>> from skfairdp.fairness.bounds.number_gaps import NumberCells
    >>> cells = NumberCells.of([0.1, 0.2, 0.2, 0.7], [0, 0, 1, 1], n_groups=2)
    >>> cells.counts.tolist(), cells.observed_gap
    ([[1, 0], [1, 1], [0, 1]], 0.5)
    """

    first: Floats
    last: Floats
    counts: Ints
    above: Floats

    def __post_init__(self) -> None:
        for name, kind in (("first", float), ("last", float), ("counts", int), ("above", float)):
            found = np.asarray(getattr(self, name), dtype=np.float64)
            if kind is int and np.any(found != np.rint(found)):
                raise ValueError("'counts' of predictions must be whole numbers")
            object.__setattr__(self, name, found.astype(kind))
        n, counts = len(self.first), self.counts
        if counts.ndim != 2 or len(counts) != n or not counts.shape[1]:
            raise ValueError("'counts' must have a row for every cell and a column for every group")
        if self.last.shape != (n,) or self.above.shape != counts.shape or np.any(counts < 0):
            raise ValueError(
                "'last', 'above' and 'counts' must have an entry for each of 'first', and no "
                "count below 0"
            )
        if np.any(self.first > self.last) or np.any(self.first[1:] <= self.last[:-1]):
            raise ValueError(
                "cells of predictions must be in increasing order and must not overlap"
            )
        most = (self.last - self.first)[:, None] * counts
        if np.any(self.above < 0.0) or np.any(self.above > most * (1.0 + 1e-9)):
            raise ValueError("'above' must leave the mean of the predictions inside of their cell")

    @classmethod
    def of(cls, predictions: ArrayLike, codes: ArrayLike, n_groups: int) -> NumberCells:
        """Count predictions of groups, each of `codes` from 0 on; others are left out."""
        numbers, groups = np.asarray(predictions, dtype=np.float64), np.asarray(codes)
        numbers, groups = numbers[groups >= 0], groups[groups >= 0]
        values, places = np.unique(numbers, return_inverse=True)
        counts = np.zeros((len(values), n_groups), dtype=np.int64)
        np.add.at(counts, (places, groups), 1)
        starts = _starts(counts)
        lengths = np.diff([*starts, len(values)])
        first, last = values[starts], values[starts + lengths - 1]
        above = (values - np.repeat(first, lengths))[:, None] * counts
        return cls(first, last, np.add.reduceat(counts, starts), np.add.reduceat(above, starts))

    @property
    def sizes(self) -> Ints:
        """Predictions of each group."""
        found: Ints = self.counts.sum(axis=0)
        return found

    @property
    def observed_gap(self) -> float | None:
        """Largest Kolmogorov-Smirnov distance of two groups; None where two groups lack rows.

        Thresholds are the ends of cells, where `of` looks for the largest distance.
        """
        some = self.counts[:, self.sizes > 0]
        if some.shape[1] < 2:
            return None
        return float(np.ptp(some.cumsum(axis=0) / some.sum(axis=0), axis=1).max(initial=0.0))

    def sums_above(self, low: float) -> Floats:
        """Sums of how far predictions are above a number, (n_cells, n_groups)."""
        found: Floats = (self.first - low)[:, None] * self.counts + self.above
        return found

    @property
    def means(self) -> Floats:
        """Mean prediction of each group; NaN for a group without rows."""
        sizes = self.sizes
        least = self.first[0] if len(self.first) else 0.0
        total = self.sums_above(least).sum(axis=0)
        return np.where(sizes > 0, least + total / np.maximum(sizes, 1), np.nan)

    def events(self, group: int, other: int) -> Ints:
        """Predictions up to a threshold: at most of a group, and at least of another, (n, 2).

        Any threshold is between two cells, where both counts are known, or within a cell of several
        values, where the one is at most that at its end and the other at least that at its start.
        """
        ends = np.vstack(
            [np.zeros((1, self.counts.shape[1]), np.int64), self.counts.cumsum(axis=0)]
        )
        several = np.append(False, self.first < self.last)
        lows = np.where(several, np.roll(ends[:, other], 1), ends[:, other])
        return np.column_stack([ends[:, group], lows])


def _starts(counts: Ints) -> Ints:
    """First value of each cell, by counts of each value (n_values, n_groups)."""
    total = counts.sum(axis=1).cumsum()
    shares = np.arange(_EVERYWHERE) / _EVERYWHERE * (total[-1] if len(total) else 0)
    starts = np.unique(np.searchsorted(total, shares, side="right"))
    if len(counts) <= _MOST:
        return np.arange(len(counts))
    up_to = np.vstack([np.zeros((1, counts.shape[1])), counts.cumsum(axis=0)])
    up_to /= np.maximum(up_to[-1], 1.0)
    pairs = np.array([*itertools.permutations(range(counts.shape[1]), 2)]).reshape(-1, 2).T
    while len(starts) < _MOST:
        ends = np.append(starts[1:], len(counts))
        # How far the distributions may be apart within each cell.
        apart = (up_to[ends][:, pairs[0]] - up_to[starts][:, pairs[1]]).max(axis=1, initial=0.0)
        place = int(np.argmax(np.where(ends - starts > 1, apart, -1.0)))
        if ends[place] - starts[place] < 2:
            break
        middle = (starts[place] + ends[place]) // 2
        starts = np.insert(starts, place + 1, middle)
    return starts


def distribution_gap_upper_bound(
    cells: NumberCells, *, confidence_level: float = 0.95, bound: str = "exact"
) -> float:
    """Upper confidence bound on the largest Kolmogorov-Smirnov distance between two groups.

    It is about all thresholds. The error is split over neither thresholds nor pairs: the worst of
    them is a fixed one.

    Parameters
    ----------
    cells : NumberCells
        Predictions on rows that were sampled from the population.
    confidence_level : float in (0, 1), default=0.95
        Probability that the bound holds.
    bound : {"exact", "difference"}, default="exact"
        Exact test of two binomial counts, or Hoeffding's inequality.

    Returns
    -------
    float
        1 where a group has no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.fairness.bounds.number_gaps import NumberCells, distribution_gap_upper_bound
    >>> cells = NumberCells.of(np.tile(np.arange(1000.0), 2), np.repeat([0, 1], 1000), n_groups=2)
    >>> round(distribution_gap_upper_bound(cells), 3)
    0.045
    """
    sizes, alpha, found = cells.sizes.tolist(), 1.0 - confidence_level, 0.0
    if len(sizes) < 2 or not all(sizes):
        return 1.0
    for u, v in itertools.permutations(range(len(sizes)), 2):
        events, n, m = cells.events(u, v), sizes[u], sizes[v]
        if bound == "exact":
            found = max(found, bound_of_events(np.unique(events, axis=0), n, m, alpha, found))
        else:
            spread = math.sqrt(math.log(1.0 / alpha) * (1.0 / n + 1.0 / m) / 2.0)
            found = max(found, float((events @ (1.0 / n, -1.0 / m)).max()) + spread)
    return min(found, 1.0)


def mean_gap(cells: NumberCells, low: float, high: float) -> float | None:
    """Largest observed difference of means, as a share of the range; None as `observed_gap`."""
    sizes = cells.sizes
    means = cells.sums_above(low).sum(axis=0)[sizes > 0] / sizes[sizes > 0]
    return None if len(means) < 2 else min(float(np.ptp(means)) / (high - low), 1.0)


def mean_gap_upper_bound(
    cells: NumberCells,
    low: float,
    high: float,
    *,
    confidence_level: float = 0.95,
    bound: str = "exact",
) -> float:
    """Upper confidence bound on the largest difference of mean predictions between two groups.

    Parameters
    ----------
    cells : NumberCells
        Predictions on rows that were sampled from the population.
    low, high : float
        Bounds of every prediction, fixed before these rows were seen.
    confidence_level : float in (0, 1), default=0.95
        Probability that the bound holds.
    bound : {"exact", "difference"}, default="exact"
        A limit for each mean by betting, which is narrow where predictions are close together, or
        Hoeffding's inequality.

    Returns
    -------
    float
        As a share of ``high - low``; 1 where a group has no rows.
    """
    sizes = cells.sizes
    if len(sizes) < 2 or not sizes.all():
        return 1.0
    if not (low <= cells.first[0] and cells.last[-1] <= high):
        raise ValueError("predictions lie outside their bounds")
    lows, highs = ((part - low) / (high - low) for part in (cells.first, cells.last))
    above = cells.above / (high - low)
    if bound != "exact":
        totals = np.clip((lows[:, None] * cells.counts + above).sum(axis=0), 0.0, sizes)
        return float(score_gap_upper_bound(totals, sizes, confidence_level=confidence_level))
    error = (1.0 - confidence_level) / 2.0
    below = (highs - lows)[:, None] * cells.counts - above
    upper, lower = [], []
    for n, over, under in zip(cells.counts.T, above.T, below.T, strict=True):
        upper.append(_mean_limit(lows, highs, n, over, error))
        # The same of 1 less each prediction.
        lower.append(1.0 - _mean_limit(1.0 - highs, 1.0 - lows, n, under, error))
    apart = np.array(upper)[:, None] - np.array(lower)
    np.fill_diagonal(apart, 0.0)
    return float(min(apart.max(), 1.0))


def _mean_limit(lows: Floats, highs: Floats, counts: Ints, above: Floats, error: float) -> float:
    """Upper limit of a mean of numbers in [0, 1], from counts and sums above the start of cells.

    A mean m is excluded where bets on smaller numbers multiplied a stake by 1 / error: the expected
    factor of each number, 1 + b (m - x), is 1, and b was fixed by the number of rows.
    The factor rises with m, so that all larger means are excluded too.
    """
    used = counts > 0
    lows, highs, counts, above = lows[used], highs[used], counts[used], above[used]
    n = int(counts.sum())
    bets = np.sqrt(2.0 * math.log(1.0 / error) / n) / _DEVIATIONS
    width = np.maximum(highs - lows, np.finfo(float).tiny)
    share = np.clip(above / counts / width, 0.0, 1.0)
    needed = math.log(len(bets) / error)

    def excluded(mean: float) -> bool:
        # The logarithm is concave in x, so that it lies above its chord within each cell.
        own = np.minimum(bets, _AT_RISK / max(1.0 - mean, 1e-12))[:, None]
        ends = [np.log1p(own * (mean - x)) for x in (lows, highs)]
        gains = (counts * ((1.0 - share) * ends[0] + share * ends[1])).sum(axis=1)
        return bool(np.logaddexp.reduce(gains) >= needed)

    least, most = float((lows * counts + above).sum()) / n, 1.0
    for _ in range(48):
        middle = 0.5 * (least + most)
        least, most = (least, middle) if excluded(middle) else (middle, most)
    return min(most + 1e-12, 1.0)
