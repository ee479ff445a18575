"""Outcomes at least as extreme as the counts of two binomial cells, and their probability.

docs/theory/certificate.md derives the order of outcomes, and the bound (Buehler): the largest
difference of rates under which the observed outcome, or one before it, has more than alpha.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from skfairdp.fairness.bounds.binomial_cells import BinomialCell, clopper_pearson

_Two = tuple[BinomialCell, BinomialCell]
# Rounding of a computed probability: parts of itself, more for more rows, and of 1.
_RELATIVE, _PER_ROW, _ABSOLUTE, _ABSOLUTE_NOISE = 1e-9, 1e-12, 1e-13, 1e-10
# Outcomes whose places differ by less count as tied, which can only widen the bound.
_TIE = 1e-9
# The bound is found to this part of itself, and rounded up.
_TOLERANCE = 1e-4
# From _LARGE rows on, rates that the part _OUTSIDE of alpha excludes for the larger cell are left
# out (Berger and Boos). The sizes alone decide.
_LARGE, _OUTSIDE = 400, 1e-4
_MANY = 10_000  # rows from which on Clopper and Pearson's limit would take too long
_BLOCK = 2_048  # counts whose frontier is found together
_TOGETHER = 24  # rates in one window; larger arrays are new memory each time, which takes longer
_MOST_NODES, _ROUNDS = 100_000, 8


def _place(u: BinomialCell, v: BinomialCell, y: NDArray, z: NDArray, alpha: float) -> NDArray:
    """Place of the outcome (y, z) in the order: a limit for the difference of rates.

    The distances of two limits from their rates are added as in Newcombe's intervals. A
    distance falls more slowly than its rate rises, so the place never falls with y and
    never rises with z.
    """
    error = min(alpha, 0.5)
    above = _distances(u, np.clip(y, 0, u.scale * u.trials), error)
    below = _distances(v, v.scale * v.trials - np.clip(z, 0, v.scale * v.trials), error)
    noise = special.ndtri(error) ** 2 * (u.noise_variance + v.noise_variance)
    apart = y / (u.scale * u.trials) - z / (v.scale * v.trials)
    return apart + np.sqrt(above**2 + below**2 + noise)


def _distances(cell: BinomialCell, counts: NDArray, error: float) -> NDArray[np.float64]:
    """How far an upper limit lies above the rates of these counts."""
    n = cell.trials
    if n <= _MANY:
        return _exact_distances(n, cell.scale, error)[counts]
    # Wilson's limit is nearly the same.
    c, rate = special.ndtri(error) ** 2 / n, counts / (cell.scale * n)
    upper = (rate + c / 2.0 + np.sqrt(c * rate * (1.0 - rate) + c**2 / 4.0)) / (1.0 + c)
    return np.maximum(upper - rate, 0.0)


@lru_cache(maxsize=256)
def _exact_distances(n: int, scale: int, error: float) -> NDArray[np.float64]:
    k = np.arange(scale * n + 1) / scale
    _, upper = clopper_pearson(k, n - k, error)
    return np.maximum(upper - k / n, 0.0)


class CellPair:
    """Outcomes of two cells that come no later than the observed one, and their probability.

    `u`, `v`: cells observed independently. `alpha`: probability that the bound fails. `fewest`:
    what else was observed of the same cells, at most of u and at least of v. The pair stands for
    both, and for all that lies between: what it excludes, each of them excludes.
    """

    def __init__(
        self, u: BinomialCell, v: BinomialCell, alpha: float, fewest: _Two | None = None
    ) -> None:
        self._u, self._v, self._alpha = u, v, alpha
        self.place = float(_place(u, v, np.array(u.value), np.array(v.value), alpha))
        self.observed = _seen(u) - _seen(v)
        self._ranges, spent = self._restricted(fewest or (u, v))
        rounding = _RELATIVE + _PER_ROW * max(u.trials, v.trials)
        absolute = _ABSOLUTE if u.noise is None and v.noise is None else _ABSOLUTE_NOISE
        self._level = (alpha - spent) * (1.0 - rounding) - absolute
        self._blocks: dict[int, NDArray[np.int64]] = {}

    def _restricted(self, others: _Two) -> tuple[tuple[float, float, float, float], float]:
        """Smallest and largest rates of u and of v to look at, and the error that it costs."""
        u, v = self._u, self._v
        if max(u.trials, v.trials) < _LARGE:
            return (0.0, 1.0, 0.0, 1.0), 0.0
        error, larger = _OUTSIDE * self._alpha, int(v.trials > u.trials)
        # A limit never falls with the count.
        limits = [pair[larger].limits(error) for pair in ((u, v), others)]
        own = (min(low for low, _ in limits), max(high for _, high in limits))
        return ((0.0, 1.0, *own) if larger else (*own, 0.0, 1.0)), error

    def _rates(self, shares: NDArray, d: float) -> NDArray:
        """Rates of v from the smallest to the largest to look at; none where there are none."""
        least, most, low, high = self._ranges
        low, high = max(low, least - d), min(high, most - d)
        if low > high:
            return shares[:0]
        start, end = math.asin(math.sqrt(low)), math.asin(math.sqrt(high))
        return np.minimum(np.maximum(np.sin(start + shares * (end - start)) ** 2, low), high)

    def _frontier(self, first: int, width: int) -> NDArray[np.int64]:
        """Largest count of u that comes no later than the observed outcome, for counts of v."""
        last = first + width - 1
        blocks = range(first // _BLOCK, last // _BLOCK + 1)
        for block in blocks:
            if block not in self._blocks:
                end = min((block + 1) * _BLOCK, self._v.scale * self._v.trials + self._v.reach + 1)
                self._blocks[block] = self._found(np.arange(block * _BLOCK, end))
        start = first - blocks[0] * _BLOCK
        return np.concatenate([self._blocks[block] for block in blocks])[start : start + width]

    def _found(self, counts: NDArray) -> NDArray[np.int64]:
        u, v = self._u, self._v
        below = np.full(counts.shape, -u.reach - 1)
        above = np.full(counts.shape, u.scale * u.trials + u.reach + 1)
        while np.any(above - below > 1):
            middle = (below + above) // 2
            ahead = _place(u, v, middle, counts, self._alpha) <= self.place + _TIE
            below, above = np.where(ahead, middle, below), np.where(ahead, above, middle)
        return below

    def probability(self, p: NDArray, q: NDArray, slopes: bool = False) -> list[NDArray]:
        """Probability of these outcomes, and its derivative where both rates move together."""
        # Neighbours share a window, unless that makes it much wider than one alone needs.
        n = max(self._u.trials, self._v.trials)
        at, wide = q.tolist(), (4.0 * math.sqrt(n) + 16.0) / n
        parts, start = [], 0
        while start < len(at):
            end = max(start + 1, min(start + _TOGETHER, bisect_right(at, at[start] + wide)))
            parts.append(self._probability(p[start:end], q[start:end], slopes))
            start = end
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def _probability(self, p: NDArray, q: NDArray, slopes: bool) -> list[NDArray]:
        start, *laws = self._u.law(p, slopes)
        begin, *others = self._v.law(q, slopes)
        edge = self._frontier(begin, others[0].shape[1]) - start
        inside = np.minimum(np.maximum(edge, -1), laws[0].shape[1] - 1) + 1
        below = [np.zeros((len(p), law.shape[1] + 1)) for law in laws]
        for law, sums in zip(laws, below, strict=True):
            np.cumsum(law, axis=1, out=sums[:, 1:])
        pairs = [(0, 0), (1, 0), (0, 1)] if slopes else [(0, 0)]
        value, *slope = (np.einsum("ij,ij->i", others[i], below[j][:, inside]) for i, j in pairs)
        return [value, slope[0] + slope[1]] if slopes else [value]

    def excludes(self, d: float) -> bool:
        """Whether rates that differ by d, or more, never give them more than alpha."""
        return self._level > 0.0 and self._obstacle(d) is None

    def _obstacle(self, d: float) -> float | None:
        """Rate of v at which d is not excluded, as far as was looked; None if it is."""
        # Hoeffding: they lie among those whose observed rates differ by `place` at most.
        beyond = max(0.0, d - self.place - _TIE)
        spread = (1.0 / self._u.trials + 1.0 / self._v.trials) / 2.0
        noiseless = self._u.noise is None and self._v.noise is None
        if noiseless and beyond**2 >= -math.log(self._level) * spread:
            return None
        edges = self._rates(np.linspace(0.0, 1.0, 17), d)
        low, high = edges[:-1], edges[1:]
        seen = 0
        while len(low):
            seen += len(low)
            # The smallest first rate and the largest second one.
            corner = self.probability(low + d, high)[0]
            open_ = np.flatnonzero(~(corner <= self._level))
            low, high, corner = low[open_], high[open_], corner[open_]
            if not len(low):
                break
            middle, half = (low + high) / 2.0, (high - low) / 2.0
            value, slope = self.probability(middle + d, middle, slopes=True)
            worst = int(value.argmax())
            if value[worst] > self._level or seen > _MOST_NODES:
                return float(middle[worst])
            curvature = self._curvature(low, high, d, corner)
            around = value + np.abs(slope) * half + curvature * half**2 / 2.0
            open_ = np.flatnonzero(~(around <= self._level))
            low, middle, high = low[open_], middle[open_], high[open_]
            low, high = (
                np.sort(np.concatenate([low, middle])),
                np.sort(np.concatenate([middle, high])),
            )
        return None

    def _curvature(self, low: NDArray, high: NDArray, d: float, largest: NDArray) -> NDArray:
        """Bound on the second derivative: sqrt(2 F (1 - F)) (I_u + I_v), I = n / (p (1 - p)).

        `largest`: what F is at most.
        """
        with np.errstate(divide="ignore"):
            first = self._u.trials / np.minimum(
                (low + d) * (1 - low - d), (high + d) * (1 - high - d)
            )
            second = self._v.trials / np.minimum(low * (1 - low), high * (1 - high))
        first, second = (np.where(x > 0, x, np.inf) for x in (first, second))
        most = np.minimum(largest + _ABSOLUTE_NOISE, 0.5)
        return np.sqrt(2.0 * most * (1.0 - most)) * (first + second)

    def bound(self) -> float:
        """Smallest d, to a tolerance, excluded with all above it; at least what was observed."""
        if self._level <= 0.0:  # alpha is lost in rounding
            return 1.0
        margin = max(1e-7, _TOLERANCE * self.place) / 2.0
        shares, hard = np.linspace(0.0, 1.0, 129), np.empty(0)
        for _ in range(_ROUNDS):
            d = self._crossing(shares, hard) + margin
            if d >= 1.0:
                return 1.0
            obstacle = self._obstacle(d)
            if obstacle is None:
                return d
            hard = np.append(hard, obstacle)
        while d < 1.0 and not self.excludes(d):
            margin *= 2.0
            d += margin
        return min(1.0, d)

    def _crossing(self, shares: NDArray, hard: NDArray) -> float:
        """Where the largest probability at these rates falls to alpha; 1 if it does not."""
        target = float(special.ndtri(self._level))
        known: dict[float, tuple[NDArray, NDArray]] = {}  # rates that were looked at, for each d

        def excess(d: float, shares: NDArray = shares) -> float:
            ends = self._rates(np.array([0.0, 1.0]), d)
            if not len(ends):
                return -math.inf
            rates = np.sort(np.append(self._rates(shares, d), np.clip(hard, *ends)))
            values = self.probability(rates + d, rates)[0]
            known[d] = rates, values
            return float(special.ndtri(min(max(float(values.max()), 1e-15), 1.0 - 1e-15))) - target

        low, high = max(0.0, self.observed), 1.0 - 1e-9
        if low >= high or excess(high) > 0.0:
            return 1.0
        a = min(max(low, self.place - 0.01), high - 0.01)
        b = min(high, a + 0.02)
        at_a = excess(a)
        while a > low and at_a <= 0.0:
            a = max(low, a - 4.0 * (b - a))
            at_a = excess(a)
        while b < high and excess(b) > 0.0:
            b = min(high, b + 4.0 * (b - a))
        if at_a <= 0.0:
            return a
        # On a short way the largest stays among the same rates; others would be obstacles.
        rates, (seen, values) = self._rates(shares, a), known[a]
        if not np.array_equal(rates, seen):
            values = self.probability(rates + a, rates)[0]
        peak = int(values.argmax())
        near = shares[max(0, peak - 8) : peak + 9]
        return float(optimize.brentq(lambda d: excess(d, near), a, b, xtol=1e-8))


def _seen(cell: BinomialCell) -> float:
    return min(1.0, max(0.0, cell.value / (cell.scale * cell.trials)))
